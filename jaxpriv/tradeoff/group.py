"""Groups: k records instead of one.

Between data sets that differ in k records lie k - 1 others, each a neighbour of the next. A test of
power g(alpha) = 1 - f(alpha) at most between neighbours has at most g(g(...g(alpha))) between the
ends: f_k = 1 - (1-f)^(k times), for symmetric f (Dong, Roth, Su 2022, Theorem 2.14).

Its profile. A line of slope e^e_i lies above g, g(a) <= delta(e_i) + e^(e_i) a, and one after the
other they say of any e_1 + ... + e_k = eps

    delta_k(eps) <= sum_i e^(e_(i+1) + ... + e_k) delta(e_i),

all of whose terms are positive. With the slopes of g at the levels a_0, a_1 = g(a_0), ... of the
best test it is an equality, and an error of the e_i enters squared.
"""

from dataclasses import field, replace

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.chords import least_power
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import Experiment, Point, padded
from jaxpriv.tradeoff.outline import followed
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.stepping import cleaned, stepped_out

NEAR = 2e-9  # of a normal quantile: between both ends lies the slope that is looked for
_NARROW = 1e-6  # relative: where the estimate's slopes do not serve each end has its own


@pytree
class Group(Experiment):
    """f_k of a symmetric experiment, k = `size`."""

    base: Experiment
    size: int = field(metadata={"static": True})
    guide: Experiment | None = None  # the same as base by other means, from which estimates come

    def batch_shape(self):
        return self.base.batch_shape()

    def aligned(self, shape, dtype):
        guide = None if self.guide is None else self.guide.aligned(shape, dtype)
        return replace(self, base=self.base.aligned(shape, dtype), guide=guide)

    @property
    def _estimated(self):
        return self.base if self.guide is None else self.guide

    def defined(self):
        return self.base.defined()

    def whole(self, up):
        base = self.base.whole(up)
        return self if base is self.base else replace(self, base=base)

    def as_narrow_as(self, width=None, deep=None):
        # far smaller levels of one record may decide those of a group
        del deep
        width = None if width is None else width / self.size
        return replace(self, base=self.base.as_narrow_as(width))

    def means(self):
        """No bound depends on how well slopes and levels are chosen: always by the first means, for
        a lattice takes a second for each link of each try.
        """
        return (replace(self, base=base, guide=self.base) for base in self.base.means())

    def reversed(self):
        return self

    def grouped(self, size):
        return replace(self, size=self.size * size)

    def subsampled(self, rate):
        raise ValueError(
            "subsample() of a group's curve: sub-sample the curve of one record, then group()"
        )

    def loss_bound(self, reverse):
        del reverse
        return self.size * xp.maximum(self.base.loss_bound(False), self.base.loss_bound(True))

    def log_told(self, reverse):
        """No less than to one record, and nothing where nothing is told of it either."""
        del reverse
        both = [self.base.log_told(reverse) for reverse in (False, True)]
        lower, upper = (xp.maximum(*part) for part in zip(*both))
        return lower, xp.where(upper > -xp.inf, 0.0, upper)

    def gaussian_mu(self):
        mu = self.base.gaussian_mu()
        return None if mu is None else self.size * mu

    def tail_mu(self):
        mu = self.base.tail_mu()
        return None if mu is None else self.size * mu

    def least_tail_mu(self):
        mu = self.base.least_tail_mu()
        return None if mu is None else self.size * mu

    def _links(self, alpha):
        """(the slope of g at each level, log beta, log power at the end), for their values only."""
        spread = self._estimated.aligned(alpha.shape, alpha.dtype)

        def link(level, _):
            logs, slope = spread.errors_and_slope(level, False)
            return xp.exp(logs[1]), (slope, *logs)

        _, (slopes, log_beta, log_power) = xp.scan(link, alpha, length=self.size)
        return slopes, log_beta[-1], log_power[-1]

    def errors(self, alpha, reverse):
        """Link after link, with the derivatives of the base's own."""
        del reverse
        spread = self.base.aligned(alpha.shape, alpha.dtype)

        def link(level, _):
            logs = spread.errors(level, False)
            return xp.exp(logs[1]), logs

        _, (log_beta, log_power) = xp.scan(link, alpha, length=self.size)
        return log_beta[-1], log_power[-1]

    def slope(self, alpha, reverse):
        """At 0 and 1 those of the largest loss, as everywhere."""
        del reverse
        bound, found = xp.stop_gradient(self.loss_bound(False)), xp.sum(self._links(alpha)[0], 0)
        return xp.where(alpha <= 0, bound, xp.where(alpha >= 1, -bound, found))

    def _around(self, z, step):
        """The slopes (links, 2, ...) a little before and after a normal quantile of a_0."""
        slopes, *_ = self._links(norm.cdf(-xp.stack([z - step, z + step])))
        return xp.clip(xp.where(xp.isnan(slopes), 0.0, slopes), -1e30, 1e30)

    def _quantile(self, start, excess):
        """(the normal quantile of a_0 where an increasing function of the slopes, of their sum, and
        of the level crosses zero; the slopes on both sides).

        excess: (slopes, level) -> (value, its derivative by the slopes' sum). In the quantile the
        slopes of a Gaussian curve lie on a straight line; where the curve has a kink they leap.
        """

        def smooth(z):
            step = 1e-4 * (1 + xp.abs(z))
            slopes, *_ = self._links(norm.cdf(-xp.stack([z, z + step])))
            value, rate = excess(slopes[:, 0], norm.cdf(-z))
            return value, rate * xp.sum(slopes[:, 1] - slopes[:, 0], 0) / step

        def halved(z):
            level = norm.cdf(-z)
            return excess(self._links(level)[0], level)[0], xp.zeros_like(z)

        low, high = xp.full_like(start, -8.0), xp.full_like(start, 37.0)
        z = newton_in_bracket(smooth, low, high, start=start, tolerance=1e-9)
        # next to a kink the slope is that of the distance at which it was measured
        reach = 4e-4 * (1 + xp.abs(z))
        leap = xp.sum(self._around(z, reach), 0)
        leaps = leap[1] - leap[0] > 1e-2 * (1 + xp.abs(leap[0]))
        reach = xp.where(leaps, reach, 0.0)
        z = newton_in_bracket(halved, z - reach, z + reach, start=z, tolerance=1e-13)
        return z, self._around(z, NEAR * (1 + xp.abs(z)))

    def _outlined(self, wanted, excess):
        """By NumPy, of a smooth curve, (the normal quantile of a_0, the e_i) where excess(wanted,
        the e_i, log delta at each) is zero; else None.
        """
        curve = self._estimated
        smooth = isinstance(curve, Envelope) and curve.smooth()
        if xp.any_jax(wanted, self) or not smooth:
            return None
        return followed(curve, self.size, wanted, excess)

    def _split(self, eps):
        """(the e_i, first of all the one at a_0; a_0; its normal quantiles a little before and
        after), as numbers, at eps >= 0; next to a kink, where no level has the slope eps, they are
        between those on both sides.
        """

        def excess(slopes, _):
            return _over_sum(eps, slopes, None), 1.0

        found = self._outlined(eps, _over_sum)
        if found is not None:
            z, chosen = found
        else:
            z, slopes = self._quantile(xp.clip(0.7 * xp.sqrt(eps), 0.0, 30.0), excess)
            low, high = xp.sum(slopes, 0)
            width = high - low
            share = xp.clip((eps - low) / xp.where(width > 0, width, 1.0), 0.0, 1.0)
            chosen = slopes[:, 0] + share * (slopes[:, 1] - slopes[:, 0])
        near = NEAR * (1 + xp.abs(z))
        return xp.stop_gradient((chosen, norm.cdf(-z), (z - near, z + near)))

    def log_delta(self, eps, reverse):
        """By the slopes as constants, of which the first makes up eps: only it may be infinite, and
        to first order it is all the same which.
        """
        del reverse
        size = xp.abs(eps)
        slopes, level, ends = self._split(size)
        slopes = xp.concatenate([(size - xp.sum(slopes[1:], 0))[None], slopes[1:]])
        spread = self.base.aligned(slopes.shape, slopes.dtype)
        found = xp.minimum(_summed(spread.log_delta(slopes, False), slopes), 0.0)
        found = xp.where(size < self.loss_bound(False), found, -xp.inf)
        if xp.any_jax(found):
            found = xp.stop_gradient(found)
            found = found + self._change(size, xp.stop_gradient(slopes), level, ends, found)
        return _either_side(eps, found)

    def _change(self, eps, slopes, level, ends, log_delta):
        """Zero, with the derivative of log delta: that of a_k - e^eps a_0 at fixed levels.

        Each link's power at its level moves with the parameters, and adds e^(e_(i+1) + ...) times
        that. Next to a kink, where two lines meet, it is the mean of both sides' with the weights
        that make their slopes the link's.
        """
        before, after = ends
        sides = xp.stack([norm.cdf(-before), norm.cdf(-after)])
        wide = self.base.aligned(sides.shape, sides.dtype)

        def link(levels, slope):
            power = xp.exp(wide.errors(xp.stop_gradient(levels), False)[1])
            low, high = (xp.exp(x) for x in wide.slope(xp.stop_gradient(levels), False))
            share = (xp.exp(slope) - low) / xp.where(high == low, 1.0, high - low)
            share = xp.where(high == low, 0.5, xp.clip(share, 0.0, 1.0))
            share = xp.stop_gradient(share)
            return power, (1 - share) * power[0] + share * power[1]

        _, powers = xp.scan(link, sides, slopes)
        some = log_delta > -xp.inf
        weight = xp.exp(_following(slopes) - xp.where(some, log_delta, 0.0))
        moved = xp.sum(xp.stop_gradient(weight) * (powers - xp.stop_gradient(powers)), 0)
        rate = xp.exp(eps + safe_log(level) - xp.where(some, log_delta, 0.0))
        moved = moved - xp.stop_gradient(rate) * (eps - xp.stop_gradient(eps))
        return xp.where(some, moved, 0.0)

    def touch(self, eps, reverse):
        del reverse
        _, alpha, _ = self._split(xp.abs(eps))
        _, log_beta, log_power = self._links(alpha)
        own = Point(safe_log(alpha), xp.log1p(-alpha), log_beta, log_power)
        beyond = xp.abs(eps) >= self.loss_bound(False)
        own = jax.tree.map(
            lambda inner, end: xp.where(beyond, end, inner), own, Point.end(xp.zeros_like(beyond))
        )
        return jax.tree.map(
            lambda kept, flipped: xp.where(eps < 0, flipped, kept), own, own.exchanged()
        )

    def solve_epsilon(self, log_delta, reverse):
        return self._solved(log_delta, reverse)[0]

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """By NumPy with the slopes and the level of the estimate also next to it."""
        if xp.any_jax(self, log_delta):
            return super().epsilon_bracket(lowest, log_delta, reverse)
        log_delta = xp.minimum(log_delta, 0.0)
        eps, slopes, level, settled = self._solved(log_delta, reverse)
        eps = xp.maximum(eps, 0.0)
        proper = xp.isfinite(eps) & xp.all(xp.isfinite(slopes), 0) & (log_delta < 0)
        if not xp.all(proper):
            return super().epsilon_bracket(lowest, log_delta, reverse)

        power, later = self.least_power(level, slopes), slopes[1:]
        later = self.base.aligned(later.shape, eps.dtype).bracket(later, later, False)[1]

        def bounds_at(ends):
            wide = self.aligned(ends.shape, ends.dtype)
            start, end = (np.broadcast_to(part, ends.shape) for part in (level, power))
            each, others = (np.broadcast_to(part[:, None], (len(part), *ends.shape))
                            for part in (slopes, later))
            found = wide.bracket_by(ends, each, start, known=(end, others))
            lower, upper, rate = cleaned(ends, *found)
            return np.where(deep, log_delta, lower), upper, rate

        # of a level that is no number no power is known: of one record as much is told for sure
        deep = level < xp.finfo(level.dtype).tiny
        low, high = stepped_out(eps, bounds_at, lowest, log_delta)
        if deep.any():
            low = np.where(deep, self.base.epsilon_bracket(lowest, log_delta, reverse)[0], low)
        if settled or np.all(deep | (high - low <= _NARROW * (1 + eps))):
            return low, high
        ends = super().epsilon_bracket(lowest, log_delta, reverse)
        return xp.fmax(low, ends[0]), xp.fmin(high, ends[1])

    def _solved(self, log_delta, reverse):
        """(epsilon, the e_i, a_0, are these the best ones beyond doubt?): along the levels a_0, and
        next to a kink between the slopes on both sides.
        """
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)

        def excess(slopes, level):
            spread = self._estimated.aligned(slopes.shape, slopes.dtype)
            value = _summed(spread.log_delta(slopes, False), slopes)
            total = xp.sum(slopes, 0)
            rate = xp.exp(xp.minimum(total + safe_log(level) - value, 300.0))
            return target - xp.where(value > -xp.inf, value, -1e300), rate

        def searched():
            z, slopes = self._quantile(norm.isf_exp(target) + 0.5, excess)
            rise = slopes[:, 1] - slopes[:, 0]

            def between(share):
                return excess(slopes[:, 0] + share * rise, xp.zeros_like(share))

            none, whole = xp.zeros_like(target), xp.ones_like(target)
            share = newton_in_bracket(between, none, whole, tolerance=1e-14)
            return z, slopes[:, 0] + share * rise

        found = self._outlined(target, _under_target)
        z, chosen = searched() if found is None else found
        eps = xp.sum(chosen, 0)
        last = self.base.last_loss()
        if last is not None:  # what tells everything for sure does so on each link
            *_, told = self._links(xp.full_like(eps, 1e-300))
            eps = xp.where((last[1] > 0) & (target < told), xp.inf, eps)
        limit = xp.where(log_delta < 0, self.loss_bound(reverse), 0.0)
        eps = xp.where(reachable, eps, limit + xp.where(xp.isnan(log_delta), xp.nan, 0.0))
        return eps, chosen, norm.cdf(-z), found is not None

    def least_power(self, level, slopes):
        """A lower bound of the power at a level, of links whose slopes are about these; by NumPy
        none of a level that is no number.
        """
        if not xp.any_jax(level) and np.all(level < xp.finfo(level.dtype).tiny):
            return level
        # losses are of this size
        at_zero = self._estimated.log_delta(xp.zeros_like(level), False)
        reach = xp.max(xp.abs(slopes), 0) + xp.exp(at_zero)
        power = level
        for slope in slopes:
            power = least_power(self.base, power, slope, reach)
        return power

    def bracket(self, low, high, reverse):
        """Of one eps = low = high. Above: the sum of upper bounds, of slopes that make up eps or a
        little less. Below: the power at a level, from bounds of each link's.
        """
        del low
        slopes, level, _ = self._split(xp.abs(high))
        return self.bracket_by(high, slopes, level)

    def bracket_by(self, high, slopes, level, free=None, known=None):
        """The bracket that the e_i make, of which the first, or the `free` one, makes up eps, and
        a_0.

        known: the least power at that level, and upper bounds of log delta at all but the first.
        """
        if free is None:
            free = (xp.arange(self.size) == 0).reshape((-1,) + (1,) * high.ndim)
        size, ulp = xp.abs(high), xp.finfo(high.dtype).eps
        total = xp.sum(xp.abs(slopes), 0) + size
        less = xp.sum(slopes, 0) - size + 4 * self.size * ulp * total
        slopes = slopes - xp.where(free, less, 0.0)
        if known is None:
            spread = self.base.aligned(slopes.shape, slopes.dtype)
            log_deltas = spread.bracket(slopes, slopes, False)[1]
            power = self.least_power(level, slopes)
        else:
            power, later = known
            first = self.base.bracket(slopes[0], slopes[0], False)[1]
            log_deltas = xp.concatenate([first[None], later])
        most = _summed(log_deltas, slopes) + 4 * self.size * ulp * total
        taken = xp.exp(size) * level
        least = safe_log(xp.maximum(power - taken - 16 * ulp * (power + (1 + size) * taken), 0.0))
        lower, upper = padded(least, most)
        beyond = size >= self.loss_bound(False) * (1 + 8 * self.size * ulp)
        upper = xp.where(beyond, -xp.inf, xp.minimum(upper, 0.0))
        lower = xp.where(size >= self.loss_bound(False), -xp.inf, xp.minimum(lower, upper))
        ends = (_either_side(high, end) for end in (lower, upper))
        log_alpha = xp.where(high < 0, xp.log1p(-power), safe_log(level))
        return *padded(*ends), xp.exp(high + log_alpha - _either_side(high, upper))


def _over_sum(eps, slopes, _):
    """By how much slopes sum up to more than eps."""
    return xp.sum(slopes, 0) - eps


def _under_target(target, slopes, log_deltas):
    """By how much log delta of a chain is below a target."""
    return target - _summed(log_deltas, slopes)


def _summed(log_deltas, slopes):
    """log of the sum above, of the profile at each slope."""
    return xp.logsumexp(log_deltas + _following(slopes), axis=0)


def _following(slopes):
    """For each link the sum of the slopes after it."""
    return xp.flip(xp.cumsum(xp.flip(slopes, 0), 0), 0) - slopes


def _either_side(eps, log_delta):
    """log delta at eps of a symmetric curve from the one at |eps|:
    delta(-e) = 1 - e^-e (1 - delta(e)).
    """
    flipped = eps < 0
    down = xp.where(flipped, eps, -1.0)
    return xp.where(flipped, xp.logaddexp(log1mexp(down), down + log_delta), log_delta)
