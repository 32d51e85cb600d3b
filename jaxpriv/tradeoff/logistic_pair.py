"""Bounded range: all losses of a mechanism lie within an interval of length epsilon, as those of
the exponential mechanism do.

Between neighbours the likelihood ratio has mean 1 and lies in [e^(t-epsilon), e^t] for some t in
[0, epsilon]. Of all such laws that of both ends has the largest expectation of any convex function:
delta_t(eps) = (e^epsilon - e^t)(1 - e^(eps-t))/(e^epsilon - 1). The largest over t is at
t = (epsilon + eps)/2,

    delta(eps) = (e^(epsilon/2) - e^(eps/2))^2/(e^epsilon - 1),    -epsilon <= eps <= epsilon,

the profile of f(alpha) = (1 - alpha)/(1 + (e^epsilon - 1) alpha): the odds of a power are e^epsilon
times those of alpha, as of logistic noise that is moved by epsilon. That pair dominates every
mechanism of this range, and so composes with whatever is chosen by what came out before; none is
tight at all eps at once.
"""

from typing import Any

from jaxpriv import _array as xp
from jaxpriv._derived import derived, product
from jaxpriv._pytree import pytree
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Point, padded
from jaxpriv.tradeoff.laws import Law
from jaxpriv.tradeoff.pair import Pair, nan_like, safe_log


@pytree
class Logistic(Law):
    """The logistic law with scale 1."""

    loc: Any

    def logpdf(self, t):
        size = xp.abs(t - self.loc)
        return -size - 2 * xp.log1p(xp.exp(-size))

    def log_tails(self, t):
        away = t - self.loc
        near = xp.log1p(xp.exp(-xp.abs(away)))
        return -xp.maximum(away, 0.0) - near, xp.minimum(away, 0.0) - near

    def isf_exp(self, logp):
        return self.loc + log1mexp(logp) - logp

    def ppf_exp(self, logp):
        return self.loc - log1mexp(logp) + logp


def _log_expm1(x):
    """log(e^x - 1) for x > 0."""
    return x + log1mexp(-x)


@pytree
class LogisticShift(Pair):
    """Logistic(0) against Logistic(epsilon)."""

    reach: Any

    @property
    def null(self):
        return Logistic(xp.zeros_like(self.reach))

    @property
    def alternative(self):
        return Logistic(self.reach)

    def reversed(self):
        return self

    def grouped(self, size):
        return LogisticShift(derived(product, self.reach, size))

    def loss_bound(self, reverse):
        del reverse
        return self.reach

    def _halves(self, eps):
        """(is eps inside?, (range - eps)/2, (range + eps)/2, the range), harmless outside."""
        full = self.reach
        inside = xp.abs(eps) < full
        up, down = (xp.where(inside, 0.5 * (full + sign * eps), 0.5) for sign in (-1, 1))
        return inside, up, down, xp.where(inside, full, 1.0)

    def threshold(self, eps):
        """Where sf = (e^u - 1)/(e^range - 1), u = (range - eps)/2."""
        inside, up, down, _ = self._halves(eps)
        t = up + _log_expm1(down) - _log_expm1(up)
        return xp.where(inside, t, xp.where(eps < 0, -xp.inf, xp.inf) * nan_like(eps))

    def touch(self, eps, reverse):
        del reverse
        inside, up, down, full = self._halves(eps)
        scale = _log_expm1(full)
        log_alpha, log_beta = _log_expm1(up) - scale, _log_expm1(down) - scale
        point = Point(log_alpha, up + log_beta, log_beta, down + log_alpha)
        end = Point.end(eps < 0)
        return Point(*(xp.where(inside, xp.minimum(own, 0.0), out) for own, out in zip(point, end)))

    def log_delta(self, eps, reverse):
        """log e^eps (e^u - 1)^2/(e^range - 1)."""
        del reverse
        inside, up, _, full = self._halves(eps)
        near = xp.where(inside, eps, 0.0) + 2 * _log_expm1(up) - _log_expm1(full)
        return xp.where(inside, xp.minimum(near, 0.0), self.same_law(eps))

    def bracket(self, low, high, reverse):
        """Rounding of losses is a shift of eps; what is left are logarithms of positive numbers, of
        which the exponents are of the size of the range.
        """
        ulp = 16 * xp.finfo(low.dtype).eps
        size = self.reach
        ends = (high + ulp * (xp.abs(high) + size), low - ulp * (xp.abs(low) + size))
        found = [xp.maximum(self.log_delta(end, reverse), self.same_law(end)) for end in ends]
        doubt = ulp * size
        lower, upper = padded(found[0] - doubt, found[1] + doubt)
        upper = xp.where(low >= self.largest_loss(reverse), -xp.inf, upper)
        return lower, upper, self.steepness(high, reverse)

    def epsilon(self, log_delta, reverse):
        """range + 2 log(1 - sqrt(delta (1 - e^-range)))."""
        del reverse
        some = (log_delta < 0) & (self.reach > 0)
        full = xp.where(some, self.reach, 1.0)
        root = 0.5 * (xp.where(some, log_delta, -1.0) + log1mexp(-full))
        found = xp.maximum(full + 2 * log1mexp(root), 0.0)
        return xp.where(some, found, 0.0 * nan_like(log_delta))

    def slope(self, alpha, reverse):
        del reverse
        return self.reach - 2 * self._odds(alpha)

    def _odds(self, alpha):
        """log(1 + (e^range - 1) alpha)."""
        full, inside = self.reach, alpha < 1
        rest = safe_log(1 - xp.where(inside, alpha, 0.0))
        both = xp.logaddexp(rest, full + safe_log(alpha))
        small = full < 1
        near = xp.log1p(xp.expm1(xp.where(small, full, 0.0)) * alpha)
        return xp.where(inside, xp.where(small, near, both), full)

    def errors(self, alpha, reverse):
        del reverse
        odds = self._odds(alpha)
        log_power = xp.minimum(self.reach + safe_log(alpha) - odds, 0.0)
        return xp.minimum(safe_log(1 - alpha) - odds, 0.0), log_power
