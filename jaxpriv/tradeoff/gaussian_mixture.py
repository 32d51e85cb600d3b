"""The dominating pair of a mixture of normal shifts, sum_k w_k N(s_k, 1)
against N(0, 1), all s_k >= 0.

The likelihood ratio grows with z, so that the best tests have one threshold t. There
e^eps = Lambda(t) = sum w_k e^(a_k(t)), and the profile is that of the mixture's members at their
own eps at the same threshold: with D_s(a) the profile of N(s, 1),

    forward  delta(eps) = sum_k w_k (Q(t - s_k) - e^(a_k) Q(t)) = sum_k w_k D_{s_k}(a_k(t))
    reverse  delta(eps) = P(t) - e^eps sum_k w_k P(t - s_k)
                        = sum_k (w_k e^(a_k)/Lambda) D_{s_k}(-a_k(t)),  e^-eps = Lambda(t),

sums of positive terms. Where nothing may be shifted the pair is that of the shifts, sub-sampled.
"""

from typing import Any

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.stats._mills import log_density, log_mills_gap, normal
from jaxpriv.tradeoff.blend import solve_tail
from jaxpriv.tradeoff.experiment import padded
from jaxpriv.tradeoff.laws import Law, Normal
from jaxpriv.tradeoff.pair import Pair, nan_like
from jaxpriv.tradeoff.shifts import Shifts, exponents, log_ratio, weighted_sum
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.subsampled import Subsampled

_LOSS = 16  # ulp of the terms of a loss


@pytree
class ShiftedNormal(Law):
    """sum_k w_k N(s_k, 1)."""

    shifts: Shifts

    def at(self, t):
        away = t - self.shifts.size
        up, down, *_ = normal(away)
        logsf, logcdf = (weighted_sum(tail, self.shifts) for tail in (up, down))
        # the smaller tail tells the larger one
        logsf, logcdf = (xp.where(own > -0.7, log1mexp(xp.minimum(other, -1e-300)), own)
                         for own, other in ((logsf, logcdf), (logcdf, logsf)))
        logpdf = weighted_sum(log_density(away), self.shifts)
        return logpdf, logsf, logcdf, logsf - logpdf, logcdf - logpdf

    def logpdf(self, t):
        return weighted_sum(log_density(t - self.shifts.size), self.shifts)

    def log_tails(self, t):
        return self.at(t)[1:3]

    def isf_exp(self, logp):
        return self._quantile(logp, log1mexp(logp))

    def ppf_exp(self, logp):
        return self._quantile(log1mexp(logp), logp)

    def _quantile(self, log_up, log_down):
        """Between those of the least and of the largest shift."""
        upper = log_up < log_down
        small = xp.where(upper, log_up, log_down)
        here = norm.isf_exp(small)
        here = xp.where(upper, here, -here)
        low, high = self.shifts.least(), self.shifts.largest()
        return solve_tail(self, small, upper, here + low, here + high)


@pytree
class NormalMixture(Pair):
    """N(0, 1) against N(s, 1) with random s > 0; where all shifts are 0, one law twice."""

    shifts: Shifts

    @property
    def null(self):
        return Normal(xp.zeros_like(self.shifts.rate))

    @property
    def alternative(self):
        return ShiftedNormal(self.shifts)

    def batch_shape(self):
        return xp.shape(self.shifts.rate)

    def aligned(self, shape, dtype):
        del dtype
        return NormalMixture(self.shifts.spread(shape))

    def split(self):
        proper = self.shifts.largest() > 0
        return proper, NormalMixture(
            self.shifts._replace(size=xp.where(proper, self.shifts.size, 1.0))
        )

    def loss_bound(self, reverse):
        del reverse
        return xp.full_like(self.shifts.rate, xp.inf)

    def log_ratio(self, t):
        return log_ratio(t, self.shifts)[0]

    def find_threshold(self, eps):
        """Newton from the right on a convex function.

        Each member alone, log w_k + a_k, is at most log Lambda, and so is their mean, sum w_k a_k
        (Jensen); log Lambda itself is at most max a_k and at most log n + max (log w_k + a_k).
        """
        size, there = self.shifts.size, self.shifts.counts

        def most(log_weight):
            return xp.min(xp.where(there, (eps - log_weight) / size + size / 2, xp.inf), 0)

        log_weight = xp.where(there, self.shifts.log_weight, 0.0)
        mean, square = (xp.sum(self.shifts.weight * part, 0) for part in (size, size * size))
        high = xp.minimum(most(log_weight), (eps + square / 2) / mean)
        count = xp.log(xp.asarray(float(len(size)), size.dtype))
        low = xp.maximum(most(log_weight + count), most(xp.zeros_like(size)))
        # the loss is a sum of terms s_k t and s_k^2, each rounded
        spare = (
            16
            * xp.finfo(size.dtype).eps
            * (xp.maximum(xp.abs(low), xp.abs(high)) + self.shifts.largest())
        )

        def excess(t):
            value, slope = log_ratio(t, self.shifts)
            return value - eps, slope

        low = xp.minimum(low, high) - spare
        t = newton_in_bracket(excess, low, high + spare, 64, start=high, tolerance=spare)
        return xp.where(xp.isfinite(eps), t, eps)

    def log_delta_at(self, eps, t, reverse):
        del eps
        return self._profile(t, reverse)

    def _profile(self, t, reverse):
        """log delta at the threshold t, at eps = log Lambda(t), or minus it."""
        size = self.shifts.size + xp.zeros_like(t)
        a = exponents(t, size)
        gap = log_mills_gap(-a if reverse else a, size)
        if not reverse:
            return weighted_sum(gap, self.shifts)
        return weighted_sum(a + gap, self.shifts) - weighted_sum(a, self.shifts)

    def bracket(self, low, high, reverse):
        """delta falls with eps and is known exactly at eps = log Lambda(t): at a t that is beyond
        eps for sure it is a bound.

        The loss is off by `_LOSS` ulp of its terms, |s_k t| + s_k^2 and 1, as they share in Lambda;
        beyond that t is moved by as much of itself and of the largest shift, for in each member's
        profile it is formed anew. In a `_profile` the weights count as they are known, and in
        reverse so do the shares e^(a_k)/Lambda.
        """
        ends = xp.stack([high, low])
        proper, wide = self.aligned(ends.shape, ends.dtype).split()
        at = -ends if reverse else ends
        outward = xp.asarray([1.0, -1.0], ends.dtype).reshape((2,) + (1,) * low.ndim)
        side = -outward if reverse else outward
        t, extra = wide._beyond(at, side)
        value = wide._profile(t, reverse)
        value = value - outward * extra
        found = xp.maximum(xp.where(proper, value, self.same_law(ends)), self.same_law(ends))
        lower, upper = padded(found[0], found[1])
        lower = xp.where(xp.isnan(lower), -xp.inf, lower)
        upper = xp.where(xp.isnan(upper), 0.0, upper)
        upper = xp.where(proper[1] & (upper == -xp.inf), xp.finfo(upper.dtype).min, upper)
        return lower, xp.minimum(upper, 0.0), self.steepness(high, reverse)

    def _beyond(self, eps, side):
        """(a t with side (log Lambda(t) - eps) >= 0 for sure,
        how much a profile's logarithm may be off there).
        """
        ulp = xp.finfo(eps.dtype).eps
        largest = self.shifts.largest()

        def doubt(t):
            """Of log Lambda(t): of every term's exponent and weight, each to its share."""
            size = self.shifts.size
            a = exponents(t, size)
            value, slope = log_ratio(t, self.shifts)
            share = xp.exp(
                xp.minimum(
                    xp.where(self.shifts.counts, self.shifts.log_weight + a - value, -xp.inf), 1.0
                )
            )
            near = -4 * xp.expm1(-xp.abs(a)) * xp.maximum(share, self.shifts.weight)
            terms = size * (xp.abs(t) + size)
            error = xp.sum(self.shifts.doubt * near + _LOSS * share * terms, 0)
            return value, slope, ulp * (error + _LOSS * (xp.abs(value) + xp.abs(eps)))

        t = self.threshold(eps)
        value, slope, error = doubt(t)
        t = t + side * 2 * (xp.abs(value - eps) + error) / slope
        value, _, error = doubt(t)
        # the slope of log Lambda is nowhere less than the least shift
        missing = error - side * (value - eps)
        t = t + side * xp.where(missing > 0, 2 * missing / self.shifts.least(), 0.0)
        t = t + side * 2 * _LOSS * ulp * (xp.abs(t) + largest)
        extra = (
            4
            * ulp
            * (
                xp.max(xp.where(self.shifts.counts, self.shifts.doubt, 0.0), 0)
                + largest * (xp.abs(t) + largest)
            )
        )
        return t, extra

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta in the threshold, between that of eps = 0 and delta <= Q(T > t),
        or delta <= P(T <= t).
        """
        proper, safe = self.split()
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        at_zero = safe.threshold(xp.zeros_like(target))
        sign = -1.0 if reverse else 1.0
        far = safe.null.ppf_exp(target) if reverse else safe.alternative.isf_exp(target)

        def excess(x):
            t = sign * x
            value, (ratio, slope) = safe._profile(t, reverse), log_ratio(t, safe.shifts)
            tail = safe.alternative.log_tails(t)[1] if reverse else norm.logsf(t)
            return target - value, slope * xp.exp(sign * ratio + tail - value)

        start, end = sign * at_zero, xp.maximum(sign * at_zero, sign * far)
        eps = sign * log_ratio(sign * newton_in_bracket(excess, start, end), safe.shifts)[0]
        large = safe._profile(at_zero, reverse) > target
        limit = xp.where(
            proper & (log_delta < 0), xp.where(reachable, 0.0, xp.inf), 0.0
        ) * nan_like(log_delta)
        return xp.where(proper & reachable & large, eps, limit)

    def tail_mu(self):
        return self.shifts.largest()


@pytree
class Occasional(Subsampled):
    """A mixture in which the record is shifted with some probability, known with its complement."""

    base: NormalMixture
    missing: jax.Array
    log_missing: jax.Array

    @property
    def absent(self):
        return self.missing

    @property
    def log_absent(self):
        return self.log_missing

    def aligned(self, shape, dtype):
        parts = (
            xp.broadcast_to(part, shape) for part in (self.rate, self.missing, self.log_missing)
        )
        return Occasional(self.base.aligned(shape, dtype), *parts)

    def loss_bound(self, reverse):
        return -self.log_missing if reverse else xp.full_like(self.rate, xp.inf)

    def bracket(self, low, high, reverse):
        """The rate is not exact: what it is off by, relative to itself and to its complement,
        is a share of eps.
        """
        ulps = xp.max(self.base.shifts.doubt, 0) * 2 * xp.finfo(low.dtype).eps
        lower, upper, rate = super().bracket(
            low - ulps * xp.abs(low), high + ulps * xp.abs(high), reverse
        )
        return lower - ulps, xp.minimum(upper + ulps, 0.0), rate


@pytree
class GaussianMixture(Pair):
    """N(0, 1) against sum_k w_k N(s_k, 1), s_k >= 0.
    parts: `Components`, or a user's `Owned` records.
    """

    parts: Any

    def seen(self):
        """The pair of what is shifted, sub-sampled."""
        shifts = self.parts.resolved()
        return Occasional(NormalMixture(shifts), shifts.rate, shifts.absent, shifts.log_absent)

    @property
    def null(self):
        return self.seen().null

    @property
    def alternative(self):
        return self.seen().alternative

    def log_ratio(self, t):
        return self.seen().log_ratio(t)

    def threshold(self, eps):
        return self.seen().threshold(eps)

    def both_at(self, t):
        return self.seen().both_at(t)

    def touch(self, eps, reverse):
        return self.seen().touch(eps, reverse)

    def log_delta(self, eps, reverse):
        return self.seen().log_delta(eps, reverse)

    def solve_epsilon(self, log_delta, reverse):
        return self.seen().solve_epsilon(log_delta, reverse)

    def errors(self, alpha, reverse):
        return self.seen().errors(alpha, reverse)

    def slope(self, alpha, reverse):
        return self.seen().slope(alpha, reverse)

    def bracket(self, low, high, reverse):
        return self.seen().bracket(low, high, reverse)

    def loss_bound(self, reverse):
        return self.seen().loss_bound(reverse)

    def participation(self):
        return self.seen().participation()

    def tail_mu(self):
        return self.seen().tail_mu()
