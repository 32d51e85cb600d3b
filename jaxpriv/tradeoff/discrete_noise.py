"""Discrete Gaussian and discrete Laplace noise: masses proportional to e^(-x^2/2 sigma^2) and to
e^(-|x|/scale) at whole x.
"""

import math
from dataclasses import field
from typing import Any

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.stats._mills import log_mills_gap
from jaxpriv.stats._theta import (
    SMOOTH,
    chosen,
    gap_excess,
    log_gap_direct,
    log_mills,
    log_total,
)
from jaxpriv.tradeoff.whole_noise import WholeNoise

_FINE = 0.25  # of loss from one whole number to the next, up to which tails are not differenced


@pytree
class DiscreteGaussian(WholeNoise):
    """N_Z(0, sigma^2) against N_Z(sensitivity, sigma^2); the loss of x is
    (x - sensitivity/2) sensitivity/sigma^2.
    """

    sigma: Any
    sensitivity: int = field(metadata={"static": True})

    def grouped(self, size):
        return DiscreteGaussian(self.sigma, self.sensitivity * size)

    @property
    def _narrowness(self):
        return 1 / (self.sigma * self.sigma)

    def step(self):
        return self.sensitivity * self._narrowness

    def loss_size(self):
        return self.sensitivity * self.step()

    def quantile(self, log_p):
        return 0.5 + self.sigma * norm.isf_exp(log_p)

    def log_mass(self, k):
        s = self._narrowness
        return -0.5 * s * k * k - log_total(s)

    def log_tails(self, k):
        """From the first term on; below the middle by symmetry."""
        s, upper = self._narrowness, k > 0
        first = xp.where(upper, k, 1 - k)
        small = -0.5 * s * first * first + log_mills(s * first, s) - log_total(s)
        large = log1mexp(xp.minimum(small, -1e-300))
        return xp.where(upper, small, large), xp.where(upper, large, small)

    def profile(self, eps):
        """Of sums from the threshold t on, where masses cross, or from the next whole number k.

        Where both laws are smooth, delta of Gaussian noise and what Euler and Maclaurin's formula
        adds; else term by term while steps of the loss are small, and where they are not, what k
        adds and the difference of both tails beyond.
        """
        s, d, sensitivity = self._narrowness, self.step(), self.sensitivity
        # beyond, logarithms are no numbers any more
        far = eps / d > (1e150 if eps.dtype == xp.float64 else 1e15)
        eps = xp.where(far, 0.0, eps)
        crossing = self._crossing(eps)
        k = self.threshold(eps)
        theta = k - crossing
        fine = d <= _FINE
        smooth = fine & (s <= SMOOTH) & (s * crossing <= 1)
        total = log_total(s)

        def gaussian():
            sigma = xp.where(smooth, self.sigma, 100.0)
            at = xp.where(smooth, crossing, 0.5 * sensitivity)
            near = xp.where(smooth, theta, 0.5)
            own = 1 / (sigma * sigma)
            step = xp.where(smooth, sensitivity * own, 1e-3)
            value = log_mills_gap(xp.where(smooth, eps, 0.0), sensitivity / sigma)
            away = at - sensitivity
            excess = gap_excess(own * away, own, near, step)
            scale = xp.log(sigma) + 0.5 * math.log(2 * math.pi)
            share = xp.exp(-0.5 * own * away * away - scale - value) * excess
            return value + xp.log1p(share) + scale - total

        def other():
            return chosen(fine, by_terms, by_tails)

        def by_terms():
            use = fine & ~smooth
            at, near = xp.where(use, k, 1.0 * sensitivity), xp.where(use, theta, 0.5)
            own = xp.where(use, s, 1.0)
            step = xp.where(use, d, 0.1)
            away = at - sensitivity
            sums = log_gap_direct(own * away, own, near * step, step)
            return -0.5 * own * away * away + sums - total

        def by_tails():
            at, near = xp.where(fine, 1.0, k), xp.where(fine, 0.5, theta)
            step = xp.where(fine, 1.0, d)
            first = self.log_mass(at - sensitivity) + log1mexp(-xp.maximum(near, 1e-300) * step)
            log_b, log_a = (self.log_tails(at + 1 - shift)[0] for shift in (0, sensitivity))
            rest = xp.minimum(xp.where(fine, -1.0, eps) + log_b - log_a, -1e-300)
            return xp.logaddexp(first, log_a + log1mexp(rest))

        value = chosen(smooth, gaussian, other)
        return xp.where(far, -xp.inf, xp.minimum(value, 0.0))

    def gaussian_mu(self):
        """None is known that holds for the far tail."""
        return xp.full_like(self.sigma, xp.inf)

    def auc(self):
        """1 - P(W > sensitivity) - P(W = sensitivity)/2 of W, the difference of two draws.

        P(W = w) is e^(-w^2/4 sigma^2) times the sum of e^(-x^2/sigma^2) over all whole x, or over
        all x + 1/2 where w is odd.
        """
        s = 2 * self._narrowness
        odd = self.sensitivity % 2 == 1
        norms = 2 * log_total(self._narrowness)

        def tail(start, half):
            return log_mills(s * start, s) - 0.5 * s * start * start + log_total(s, half) - norms

        start = xp.full_like(s, 0.5 * self.sensitivity)
        atom = log_total(s, odd) - 0.5 * s * start * start - norms
        return (
            1 + 0.5 * xp.exp(atom) - xp.exp(tail(start, odd)) - xp.exp(tail(start + 0.5, not odd))
        )


@pytree
class DiscreteLaplace(WholeNoise):
    """The loss of x is (2x - sensitivity)/scale, between -ratio and ratio = sensitivity/scale.

    It dominates a record that moves several numbers by whole v_i, sum |v_i| = sensitivity =: s, as
    in `LaplaceShift`: the loss is (2Y - s)/scale with P(Y >= k) = x^k/(1 + x), x = e^(-1/scale),
    for k = 1 ... s. Of two, moved by a <= b, P(Y_a + Y_b >= k) is that times R(k)/(1 + x), with
    R = 2 + x + (k - 1)(1 - x) up to a, then 2 + (a - 1)(1 - x) up to b, all above 1 + x, then
    1 + (s - k)(1 - x), which falls to 1: one change of sign.
    """

    scale: Any
    sensitivity: int = field(metadata={"static": True})
    bounded = True

    def grouped(self, size):
        return DiscreteLaplace(self.scale, self.sensitivity * size)

    def _ratio(self):
        return self.sensitivity / self.scale

    def step(self):
        return 2 / self.scale

    def loss_size(self):
        return self._ratio()

    def loss_bound(self, reverse):
        del reverse
        return self._ratio()

    def loss_at(self, k):
        return (2 * xp.clip(k, 0, self.sensitivity) - self.sensitivity) / self.scale

    def quantile(self, log_p):
        small = log_p < -math.log(2.0)
        tail = xp.where(small, log_p, log1mexp(xp.where(small, -1.0, log_p)))
        size = -self.scale * (tail + xp.log1p(xp.exp(-1 / self.scale)))
        return xp.where(small, size, 1 - size)

    def log_mass(self, k):
        inverse = 1 / self.scale
        return xp.log(xp.tanh(0.5 * inverse)) - xp.abs(k) * inverse

    def log_tails(self, k):
        """P(X >= k) = e^(-k/scale)/(1 + e^(-1/scale)) for k >= 0."""
        inverse, upper = 1 / self.scale, k > 0
        small = -xp.where(upper, k, 1 - k) * inverse - xp.log1p(xp.exp(-inverse))
        large = log1mexp(small)
        return xp.where(upper, small, large), xp.where(upper, large, small)

    def profile(self, eps):
        """delta = 1 - e^((eps - ratio)/2) cosh((theta - 1/2)/scale)/cosh(1/(2 scale)).

        From the threshold t = (sensitivity + scale eps)/2 the next whole number is theta away:
        P(X < k - sensitivity) and e^eps P(X >= k) are e^((eps - ratio)/2) times e^((theta - 1)/
        scale) and e^(-theta/scale), over 1 + e^(-1/scale). theta is what sensitivity - t leaves.
        """
        gap = self._ratio() - eps
        inside = gap > 0
        gap = xp.where(inside, gap, 1.0)
        left = 0.5 * self.scale * gap
        theta = left - xp.stop_gradient(xp.ceil(left) - 1)
        # of both, w = |theta - 1/2|/scale and v = 1/(2 scale): cosh w/cosh v by v - w
        inverse = 1 / self.scale
        less = xp.minimum(theta, 1 - theta) * inverse
        rise = xp.exp(2 * less - inverse) * -xp.expm1(-2 * less) / (1 + xp.exp(-inverse))
        value = log1mexp(xp.minimum(-0.5 * gap - less + xp.log1p(rise), -1e-300))
        return xp.where(inside, value, -xp.inf)

    def gaussian_mu(self):
        """At the vertex in the middle: of all, the product of both errors is the same, and -ppf is
        concave in the logarithm.
        """
        mu, doubt = self.middle_mu()
        return mu + doubt

    def auc(self):
        """As of discrete Gaussian noise; with a = e^(-1/scale),
        P(W = w) = ((1-a)/(1+a))^2 a^|w| (|w| + (1+a^2)/(1-a^2)).
        """
        inverse, size = 1 / self.scale, self.sensitivity
        share, a, rest = xp.tanh(0.5 * inverse), xp.exp(-inverse), -xp.expm1(-inverse)
        base = 1 / xp.tanh(inverse)
        beyond = 0.5 * (size + base) + a * ((size + base) / rest + 1 / rest**2)
        return 1 - share**2 * xp.exp(-size * inverse) * beyond
