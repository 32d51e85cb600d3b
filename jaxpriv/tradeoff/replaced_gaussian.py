"""A record replaced under Poisson sampling: (1-q) N(0, 1) + q N(mu, 1) against
(1-q) N(0, 1) + q N(-mu, 1), mu = 1/noise multiplier.

It dominates, and is attained. Given the others' sum, two records move it by vectors a and b of
norm mu at most, with probability q. For e^eps >= 1

    delta(eps) = q int (p_a - l p_0 - e^eps p_b)_+,    l = (e^eps - 1)(1 - q)/q >= 0,

p_v the density of N(v, I). Over p_a that is the expectation, under N(a, I), of the convex function
(1 - l X - e^eps Y)_+ of X = p_0/p_a and Y = p_b/p_a, lognormal variables e^(G - var G/2) of mean 1
whose G have the variances |a|^2 and |a - b|^2 and the covariance <a, a - b>. None of the three is
larger than for a = -b of norm mu, where they are mu^2, 4 mu^2 and 2 mu^2: so by Kahane's inequality
(1986) no delta is. For e^eps < 1 the two are exchanged. (Lebeda et al. 2024, arXiv:2405.20769, and
Schuchardt et al. 2024, arXiv:2403.04867, have the pair.)

The loss is odd, L(-z) = -L(z), and grows: with w(z) = q e^(-mu z - mu^2/2)/(1 - q + q e^(-mu z -
mu^2/2)) it is log(1 + w (e^(2 mu z) - 1)) for z >= 0, in which nothing cancels.
"""

import math

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.blend import Blend
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.pair import Pair
from jaxpriv.tradeoff.solve import newton_in_bracket

_LARGE = 600.0  # of exponents


@pytree
class ReplacedGaussian(Pair):
    """The pair, which is its own reverse."""

    mu: jax.Array
    rate: jax.Array

    @property
    def null(self):
        return Blend(NormalShift(-self.mu), self.rate)

    @property
    def alternative(self):
        return Blend(NormalShift(self.mu), self.rate)

    def split(self):
        return self.mu != 0, ReplacedGaussian(xp.where(self.mu == 0, 1.0, self.mu), self.rate)

    def participation(self):
        return self.rate

    def _shares(self, z):
        """(log w(z), log of the share of the shifted part of the alternative), z >= 0."""
        odds = (1 - self.rate) / self.rate

        def log_share(exponent):
            gentle = exponent > -_LARGE
            near = -xp.log1p(odds * xp.exp(-xp.where(gentle, exponent, 0.0)))
            some = xp.where(odds > 0, odds, 1.0)
            far = xp.where(odds > 0, exponent - xp.log(some), 0.0)
            return xp.where(gentle, near, far)

        middle = self.mu * self.mu / 2
        return log_share(-self.mu * z - middle), log_share(self.mu * z - middle)

    def log_ratio(self, t):
        z = xp.abs(t)
        twice = 2 * self.mu * z
        log_w, _ = self._shares(z)
        near = twice < 1
        small = xp.log1p(xp.exp(log_w) * xp.expm1(xp.where(near, twice, 0.0)))
        far = xp.where(near, 1.0, twice)
        large = xp.logaddexp(0.0, log_w + far + xp.log(-xp.expm1(-far)))
        return xp.where(t < 0, -1.0, 1.0) * xp.where(near, small, large)

    def find_threshold(self, eps):
        """Between eps/(2 mu), for L(z) <= 2 mu z, and where q e^(mu z - mu^2/2) is more than twice
        both parts of e^eps (1 - q + q e^(-mu z - mu^2/2)).
        """
        size = xp.abs(eps)
        some = self.rate < 1
        rest = xp.where(some, self.rate, 0.5)
        missing = xp.where(some, xp.log1p(-rest) - xp.log(rest), -xp.inf)
        # with a little room, for the search is slow at an end
        low = size / (2 * self.mu) * (1 - 1e-6)
        more = size + math.log(2.0)
        high = xp.maximum(more / (2 * self.mu), (more + missing) / self.mu + self.mu / 2)

        def excess(z):
            shares = self._shares(z)
            slope = self.mu * (xp.exp(shares[0]) + xp.exp(shares[1]))
            return self.log_ratio(z) - size, slope

        z = newton_in_bracket(excess, low, xp.where(xp.isfinite(size), high, low))
        return xp.where(eps < 0, -1.0, 1.0) * z

    def loss_size(self):
        """At the threshold mu z <= eps + mu^2 + |log q| + 1, and so are the terms of log w."""
        return 4 * (self.mu * self.mu + xp.abs(xp.log(self.rate)) + 1)

    def bracket(self, low, high, reverse):
        """The pair's, where the threshold that was found has its likelihood ratio to rounding."""
        lower, upper, rate = super().bracket(low, high, reverse)
        ends = xp.stack([high, low])
        proper, safe = self.aligned(ends.shape, ends.dtype).split()
        size = 16 * xp.finfo(low.dtype).eps * (xp.abs(ends) + safe.loss_size())
        ends = ends + size * xp.asarray([1.0, -1.0], low.dtype).reshape((2,) + (1,) * low.ndim)
        found = safe.log_ratio(safe.threshold(ends))
        lost = xp.any(proper & ~(xp.abs(found - ends) <= 0.5 * size), 0)
        return (xp.where(lost, self.same_law(high), lower), xp.where(lost, 0.0, upper), rate)

    def subsampled(self, rate):
        raise ValueError(
            "subsample() of a curve for replaced records: sub-sample the curve "
            "of the full mechanism once"
        )

    def reversed(self):
        return self

    def gaussian_mu(self):
        """An upper bound: both laws are N(0, 1) or N(+-mu, 1), 2 mu apart. (The limit of small
        levels is mu, but larger levels ask for more.)
        """
        return 2 * self.mu
