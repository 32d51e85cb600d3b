"""Noise on whole numbers: the law of X against that of X + sensitivity, both whole, X symmetric
with falling ratios of neighbouring masses.

The loss grows with the outcome, so the best tests reject from some k on, and between two of them
outcomes are shared out: the trade-off function is a polygon with a vertex for each k. Mirrored at
sensitivity/2 null and alternative change places: both directions are one. Of a smaller shift j the
best test rejects from some k on as well, with power P(X >= k - j) <= P(X >= k - sensitivity): the
pair dominates those of all smaller shifts.
"""

from abc import abstractmethod
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import derived, product
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.discrete import Discrete
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import ROUNDING, Point, never_told, padded
from jaxpriv.tradeoff.pair import Pair, nan_like, safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.subsampled import Subsampled, sampled_loss

_ROUNDS = 60  # of a bisection between whole numbers
_AROUND = 4  # of a whole number that a continuous law's quantile is near to
_SIDES = 3  # outcomes on either side of a level, which is known to rounding
_MANY = 1000  # tests of a lattice, most of which are the same
_KINKS = 64  # on either side of the middle
_DEEP, _LISTED = -700.0, 4096  # log of a tail beyond which outcomes are not listed; how many are


class WholeNoise(Envelope):
    """X against X + sensitivity. A subclass gives what is below, and `profile`, log delta at
    eps >= 0.
    """

    sensitivity: int
    isolated = True
    bounded = False  # are there a largest and a least loss?

    @abstractmethod
    def log_tails(self, k):
        """(log P(X >= k), log P(X < k)) at whole k."""

    @abstractmethod
    def log_mass(self, k):
        """log P(X = k)."""

    @abstractmethod
    def quantile(self, log_p):
        """About where P(X >= k) = e^log_p."""

    @abstractmethod
    def step(self):
        """By how much the loss grows from one whole number to the next, where it does."""

    @abstractmethod
    def loss_size(self):
        """The size of the terms of which a loss is a sum, for its rounding."""

    @abstractmethod
    def profile(self, eps):
        """log delta at eps >= 0."""

    def straight(self):
        return True

    def reversed(self):
        return self

    def subsampled(self, rate):
        return SampledWhole(self, rate)

    def log_told(self, reverse):
        return never_told(self, reverse)

    def loss_at(self, k):
        """log q/p of the outcome k."""
        return self.step() * (k - 0.5 * self.sensitivity)

    def threshold(self, eps):
        """The k from which on outcomes are rejected: losses above eps."""
        return xp.stop_gradient(xp.floor(self._crossing(eps)) + 1)

    def _crossing(self, eps):
        return eps / self.step() + 0.5 * self.sensitivity

    def tests(self, k):
        """The `Point` of rejecting from k on; by NumPy of one law only once for each k."""
        if not xp.any_jax(self, k) and np.size(k) > _MANY:
            leaves = jax.tree.leaves(self)
            few, index = np.unique(k, return_inverse=True)
            if few.size < np.size(k) / 4 and not any(np.any(leaf.strides) for leaf in leaves):
                own = jax.tree.map(lambda leaf: np.broadcast_to(leaf.flat[0], few.shape), self)
                index = index.reshape(np.shape(k))
                return jax.tree.map(lambda column: column[index], own.tests(few))
        up_p, down_p = self.log_tails(k)
        up_q, down_q = self.log_tails(k - self.sensitivity)
        return Point(up_p, down_p, down_q, up_q)

    def listed(self, reverse):
        """From where both tails are negligible on, or up to where all losses are the same."""
        del reverse
        far = self.quantile(np.float64(_DEEP))
        reach = 0.0 if self.bounded else np.ceil(far) + 2.0
        if not self.sensitivity + 2 * reach <= _LISTED:
            return None
        k = np.arange(-reach, self.sensitivity + reach + 1)
        own = self.aligned(k.shape, np.float64)
        null, alternative = own.log_mass(k), own.log_mass(k - self.sensitivity)
        if self.bounded:
            first, last = (own.tests(k + side) for side in (1, 0))
            null[0], alternative[0] = first.log_specificity[0], first.log_beta[0]
            null[-1], alternative[-1] = last.log_alpha[-1], last.log_power[-1]
        loss = own.loss_at(k)
        doubt = 16 * np.finfo(np.float64).eps * (np.abs(loss) + own.loss_size())
        return Discrete(null, alternative, loss, xp.zeros_like(loss[0])), doubt

    def touch(self, eps, reverse):
        del reverse
        bound = self.loss_bound(False)
        inside = (eps < bound) & (eps >= -bound)
        point = self.tests(self.threshold(xp.where(inside, eps, 0.0)))
        end = Point.end(eps < 0)
        return jax.tree.map(lambda inner, outer: xp.where(inside, inner, outer), point, end)

    def log_delta(self, eps, reverse):
        """Below 0 that of the other direction, which is this one: 1 - e^eps + e^eps delta(-eps)."""
        del reverse
        value = self.profile(xp.abs(eps))
        down = xp.where(eps < 0, eps, -1.0)
        both = xp.logaddexp(log1mexp(down), xp.where(eps < 0, value, 0.0) + down)
        return xp.minimum(xp.where(eps < 0, both, value), 0.0) * nan_like(eps)

    def bracket(self, low, high, reverse):
        """Rounding of thresholds and losses is a shift of eps; that of masses one of log delta."""
        ulp = 16 * xp.finfo(low.dtype).eps
        size = self.loss_size()
        ends = xp.stack([high + ulp * (xp.abs(high) + size), low - ulp * (xp.abs(low) + size)])
        own = self.aligned(ends.shape, ends.dtype)
        found = xp.maximum(own.log_delta(ends, reverse), Pair.same_law(ends))
        lower, upper = padded(found[0], found[1])
        bound = self.loss_bound(reverse)
        beyond = low >= bound * (1 + 8 * xp.finfo(low.dtype).eps)
        # a logarithm below the smallest number
        least = xp.where(beyond, -xp.inf, xp.finfo(low.dtype).min)
        upper = xp.where(beyond | (upper == -xp.inf), least, upper)
        some = found[0] > -xp.inf
        rate = xp.exp(high + self.touch(high, reverse).log_alpha - xp.where(some, found[0], 0.0))
        return lower, upper, xp.where(some, rate, xp.inf)

    def find_slope(self, alpha, reverse):
        del reverse
        return self.loss_at(self._split(alpha) - 1)

    def slope(self, alpha, reverse):
        """The loss of the outcome that is shared out."""
        return self.find_slope(xp.where((alpha > 0) & (alpha < 1), alpha, 0.5), reverse)

    def _split(self, alpha):
        """The least k from which on outcomes may all be rejected at level alpha."""
        own = xp.round(self.quantile(xp.log(alpha)))
        return least_within(self.log_tails, alpha, own - _AROUND, own + _AROUND)

    def errors(self, alpha, reverse):
        del reverse
        inside, level = _inside(alpha)
        k = self._split(level)
        log_mass = self.log_mass(k - 1), self.log_mass(k - 1 - self.sensitivity)
        tests, others = self.tests(k), self.tests(k - 1)
        return _ended(alpha, inside, shared_out(level, tests, others, *log_mass))

    def beta_bracket(self, alpha):
        k = self._split(_inside(alpha)[1])
        masses = [(self.log_mass(at), self.log_mass(at - self.sensitivity)) for at in _near(k)]
        losses = [self.loss_at(at) for at in _near(k)]
        ends = self.tests(k - _SIDES), self.tests(k + _SIDES)
        return polygon_near(masses, losses, *ends).beta_bracket(alpha)

    def solve_epsilon(self, log_delta, reverse):
        """Newton between 0 and the loss of an outcome from which on Q has less mass than delta."""
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        k = xp.round(self.quantile(target)) + _AROUND + self.sensitivity
        high = xp.minimum(xp.maximum(self.loss_at(k), 0.0), self.loss_bound(reverse))

        def excess(eps):
            value = self.log_delta(eps, reverse)
            some = value > -xp.inf
            slope = xp.exp(eps + self.touch(eps, reverse).log_alpha - xp.where(some, value, 0.0))
            return target - value, xp.where(some, slope, 0.0)

        eps = newton_in_bracket(excess, xp.zeros_like(high), high, iterations=60)
        eps = xp.where(self.log_delta(xp.zeros_like(eps), reverse) > target, eps, 0.0)
        limit = xp.where(log_delta >= 0, 0.0, self.loss_bound(reverse)) * nan_like(log_delta)
        return xp.where(reachable, eps, limit)

    def atoms(self, reverse):
        """Two neighbouring losses, of which all are a whole number of their distance apart."""
        del reverse
        middle = xp.zeros_like(self.step()) + self.sensitivity // 2
        return self.loss_at(middle), self.loss_at(middle + 1)

    def kinks(self, reverse):
        del reverse
        middle = xp.zeros_like(self.step()) + self.sensitivity // 2
        return tuple(xp.exp(self.log_tails(middle + k)[0]) for k in range(-_KINKS, _KINKS + 1))

    def middle_mu(self):
        """The mu of G_mu through the vertex in the middle, and what rounding makes of it."""
        k = xp.zeros_like(self.step()) + (self.sensitivity + 1) // 2
        ends = (self.log_tails(at)[0] for at in (k, self.sensitivity + 1 - k))
        one, other = (norm.isf_exp(end) for end in ends)
        mu = one + other
        return mu, ROUNDING * xp.finfo(mu.dtype).eps * (1 + xp.abs(one) + xp.abs(other))

    def least_gaussian_mu(self):
        mu, doubt = self.middle_mu()
        return xp.maximum(mu - doubt, 0.0)


def _inside(alpha):
    inside = (alpha > 0) & (alpha < 1)
    return inside, xp.where(inside, alpha, 0.5)


def _ended(alpha, inside, logs):
    """(log beta, log power), with the ends of every trade-off function."""
    sure, none = xp.where(alpha < 1, 0.0, -xp.inf), xp.where(alpha > 0, 0.0, -xp.inf)
    return tuple(
        xp.where(inside, log, end) * nan_like(alpha) for log, end in zip(logs, (sure, none))
    )


def least_within(log_tails, alpha, low, high):
    """The least whole k in (low, high] with a null law's P(X >= k) <= alpha, by bisection."""
    small = alpha < 0.5
    log_alpha, log_rest = xp.log(alpha), xp.log1p(-alpha)

    def halve(_, state):
        low, high = state
        middle = xp.floor(0.5 * low + 0.5 * high)
        up, down = log_tails(middle)
        holds = xp.where(small, up <= log_alpha, down >= log_rest)
        more = middle > low
        return xp.where(more & ~holds, middle, low), xp.where(more & holds, middle, high)

    state = xp.stop_gradient((low, high))
    state = xp.fori_loop(0, _ROUNDS, halve, state, lambda s: xp.all(s[1] - s[0] <= 1))
    return xp.stop_gradient(state[1])


def shared_out(alpha, tests, others, log_p, log_q):
    """(log beta, log power) at alpha, between the test at one vertex and that at the next, which
    rejects one outcome more, of these masses.
    """
    small = alpha < 0.5
    gap = xp.where(
        small, alpha - xp.exp(tests.log_alpha), xp.exp(tests.log_specificity) - (1 - alpha)
    )
    mass = xp.exp(log_p)
    share = xp.clip(gap / xp.where(mass > 0, mass, 1.0), 0.0, 1.0)
    log_power = xp.logaddexp(tests.log_power, safe_log(share) + log_q)
    log_beta = xp.logaddexp(others.log_beta, safe_log(1 - share) + log_q)
    return xp.minimum(log_beta, 0.0), xp.minimum(log_power, 0.0)


def _near(k):
    """The outcomes one of which is shared out if k is off by a few."""
    return [k + shift for shift in range(-_SIDES, _SIDES)]


def polygon_near(masses, losses, start, stop):
    """The polygon of these outcomes, and of all before and all behind as one each: `start` and
    `stop` are the tests that reject all but those before, and those behind.

    Merging only loses, so it lies above; on the sides of these outcomes it is the curve itself.
    """
    columns = [(start.log_specificity, start.log_beta), *masses, (stop.log_alpha, stop.log_power)]
    null, alternative = (xp.stack(xp.broadcast_arrays(*column), -1) for column in zip(*columns))

    def merged(test, nearest):
        some = (test[0] > -xp.inf) & (test[1] > -xp.inf)
        gap = xp.where(some, test[1], 0.0) - xp.where(some, test[0], 0.0)
        return xp.where(some, gap, nearest)

    ends = merged(columns[0], losses[0]), merged(columns[-1], losses[-1])
    losses = [xp.minimum(ends[0], losses[0]), *losses, xp.maximum(ends[1], losses[-1])]
    loss = xp.stack(xp.broadcast_arrays(*losses), -1)
    return Discrete(null, alternative, loss, xp.full_like(loss[..., 0], xp.nan))


@pytree
class SampledWhole(Subsampled):
    """Noise on whole numbers when the record takes part with probability `rate`.

    Mirrored, the reverse direction's tests reject from some k on as well, Q against
    (1-rate) Q + rate P.
    """

    base: Any
    isolated = True

    def straight(self):
        return True

    def subsampled(self, rate):
        return SampledWhole(self.base, derived(product, self.rate, rate))

    def _blended(self, pair, reverse):
        """(null, alternative) of a direction from logarithms of P's and Q's."""
        mix = self.alternative.mix
        p, q = pair
        return (mix(q, p), q) if reverse else (p, mix(p, q))

    def listed(self, reverse):
        """The base's, blended: between two of its losses a blended one grows by less."""
        known = self.base.listed(False)
        if known is None:
            return None
        (base, doubt), sign = known, -1.0 if reverse else 1.0
        null, alternative = self._blended((base.null, base.alternative), reverse)
        loss = sign * sampled_loss(sign * base.loss, self.rate)
        doubt = doubt + 16 * np.finfo(np.float64).eps * np.abs(loss)
        return Discrete(null, alternative, loss, xp.zeros_like(loss[0])), doubt

    def _tests(self, k, reverse):
        point = self.base.tests(k)
        (up_p, up_q), (down_p, down_q) = (
            self._blended(pair, reverse)
            for pair in (
                (point.log_alpha, point.log_power),
                (point.log_specificity, point.log_beta),
            )
        )
        return Point(up_p, down_p, down_q, up_q)

    def _masses(self, k, reverse):
        base = self.base
        return self._blended([base.log_mass(k), base.log_mass(k - base.sensitivity)], reverse)

    def _split(self, alpha, reverse):
        def log_tails(k):
            point = self._tests(k, reverse)
            return point.log_alpha, point.log_specificity

        low = xp.round(self.base.quantile(xp.log(alpha))) - _AROUND
        high = low + 2 * _AROUND + self.base.sensitivity
        return least_within(log_tails, alpha, low, high)

    def slope(self, alpha, reverse):
        loss = self.base.loss_at(self._split(_inside(alpha)[1], reverse) - 1)
        return -sampled_loss(-loss, self.rate) if reverse else sampled_loss(loss, self.rate)

    def errors(self, alpha, reverse):
        inside, level = _inside(alpha)
        k = self._split(level, reverse)
        tests, others = self._tests(k, reverse), self._tests(k - 1, reverse)
        masses = self._masses(k - 1, reverse)
        return _ended(alpha, inside, shared_out(level, tests, others, *masses))

    def beta_bracket(self, alpha):
        k = self._split(_inside(alpha)[1], False)
        masses = [self._masses(at, False) for at in _near(k)]
        losses = [sampled_loss(self.base.loss_at(at), self.rate) for at in _near(k)]
        ends = self._tests(k - _SIDES, False), self._tests(k + _SIDES, False)
        return polygon_near(masses, losses, *ends).beta_bracket(alpha)

    def kinks(self, reverse):
        middle = xp.zeros_like(self.rate) + self.base.sensitivity // 2
        return tuple(
            xp.exp(self._tests(middle + k, reverse).log_alpha) for k in range(-_KINKS, _KINKS + 1)
        )

    def gaussian_mu(self):
        """Where losses are bounded it is searched for; else that of the base, no curve above which
        sub-sampling lowers.
        """
        return None if self.base.bounded else self.base.gaussian_mu()

    def least_gaussian_mu(self):
        return None
