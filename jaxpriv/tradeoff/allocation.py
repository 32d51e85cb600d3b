"""The dominating pair of random allocation: a record takes part in one of t steps, at random.

P = (1/t) sum_i N(mu e_i, I) against Q = N(0, I) in R^t, mu = 1/noise multiplier. Under Q the
likelihood ratio is the mean M of t independent lognormals, E M = 1, and so is all that follows:

    forward  delta(eps) = E (M - K)_+,        K = e^eps,   alpha = Q(M > K)
    reverse  delta(eps) = e^eps E (1/K - M)_+,

with E (M - K)_+ = E (K - M)_+ + 1 - K and P(M < K) = E[M; M < K] = K Q(M < K) - E (K - M)_+.
The left tail keeps its digits however small it is; of the right one what is left is a difference of
numbers of the size of K - 1, to about 1e-15 of that (`lognormal_mean`).
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff import lognormal_mean, lognormal_rule, one_large
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import Point, never_told
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.pair import nan_like, safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket

_FARTHEST = 500.0  # |eps| beyond which the Gaussian mechanism is all that is told
_ROUNDS = 8
_SURE = 1e-9  # of log delta
_ENOUGH = 1e-9  # without a line
_TELLING = 1e3  # of log delta, beyond which one large lognormal tells nothing


@pytree
class Allocation(Envelope):
    """One of `steps` steps of noise multiplier 1/mu; one step is the Gaussian mechanism."""

    mu: Any
    steps: Any

    def each(self, function, values):
        """function(mu, steps, value) for all entries, one after the other, in float64."""
        dtype, flat = (
            values.dtype,
            tuple(leaf.reshape(-1) for leaf in (self.mu, self.steps, values)),
        )
        with jax.enable_x64(True) if xp.any_jax(flat) else nullcontext():
            wide = tuple(leaf.astype(xp.float64) for leaf in flat)
            found = xp.each(lambda entry: function(*entry), wide)
            return jax.tree.map(
                lambda leaf: leaf.reshape(values.shape + leaf.shape[1:]).astype(dtype), found
            )

    def _gaussian(self):
        return NormalShift(self.mu)

    def _alone(self):
        """Where there is one step only."""
        return self.steps == 1

    def _several(self, function, values):
        """function of what is allocated to several steps, as columns."""
        if not xp.any_jax(self, values) and np.all(self._alone()):
            return None
        own = Allocation(self.mu, xp.where(self._alone(), 2.0, self.steps))
        found = _evaluated(function, own, values)
        return tuple(found[..., i] for i in range(found.shape[-1]))

    def _choose(self, alone, several):
        return alone if several is None else xp.where(self._alone(), alone, several)

    def _law(self, eps, reverse):
        """(log delta, the `Point` of the test that touches) of several steps."""
        x = xp.clip(-eps if reverse else eps, -_FARTHEST, _FARTHEST)
        found = self._several(_law_of, x)
        if found is None:
            return None
        point = Point(*found[2:])
        return found[0] + eps if reverse else found[1], point.exchanged() if reverse else point

    def _or_alone(self, alone, several):
        """Of one step what is known of it alone, and where the integral says nothing: no allocation
        tells more than knowing the step would.
        """
        return self._choose(alone, xp.where(xp.isnan(several), alone, several))

    def log_delta(self, eps, reverse):
        found = self._law(eps, reverse)
        alone = self._gaussian().log_delta(eps, reverse)
        if found is None:
            return alone
        value = self._or_alone(alone, xp.minimum(found[0], alone))
        return xp.where(xp.isnan(eps), xp.nan, value)

    def touch(self, eps, reverse):
        alone, found = self._gaussian().touch(eps, reverse), self._law(eps, reverse)
        return alone if found is None else jax.tree.map(self._or_alone, alone, found[1])

    def contact(self, eps, reverse):
        found = self._law(eps, reverse)
        alone = self._gaussian().contact(eps, reverse)
        if found is None:
            return alone
        value = self._or_alone(alone[0], xp.minimum(found[0], alone[0]))
        return xp.stop_gradient(value), jax.tree.map(self._or_alone, alone[1], found[1])

    def find_slope(self, alpha, reverse):
        found = self._several(partial(_slope_of, reverse), alpha)
        alone = self._gaussian().slope(alpha, reverse)
        return self._choose(alone, None if found is None else found[0])

    def solve_epsilon(self, log_delta, reverse):
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        found = self._several(partial(_epsilon_of, reverse), target)
        alone = self._gaussian().solve_epsilon(target, reverse)
        eps = self._choose(alone, None if found is None else found[0])
        limit = xp.where(log_delta < 0, xp.inf, 0.0) * nan_like(log_delta)
        return xp.where(reachable & (self.mu > 0), eps, limit)

    def bracket(self, low, high, reverse):
        """That of the line; no wider than that of one step above, and of no loss below.

        1/noise multiplier is off by an ulp, which the rule for each lognormal counts.
        """
        lower, upper, rate = self._gaussian().bracket(low, high, reverse)
        ends = high[None] if low is high else xp.stack([high, low])
        wide = self.aligned(ends.shape, ends.dtype)
        near = xp.abs(ends) <= _FARTHEST
        found = wide._several(partial(_bounds_of, reverse), xp.where(near, ends, 0.0))
        if found is None:
            return lower, upper, rate
        least, most = (
            xp.where(near & ~xp.isnan(value), value, other)
            for value, other in zip(found[:2], (-xp.inf, 0.0))
        )
        least = xp.maximum(least[0], NormalShift.same_law(high) * (1 + 1e-13))
        most = xp.minimum(most[-1], upper)
        rate = self._choose(rate, found[2][0])
        return self._choose(lower, least), self._choose(upper, most), rate

    def log_told(self, reverse):
        return never_told(self, reverse)

    def tail_mu(self):
        """That of one step: for alpha -> 0 one large lognormal makes the mean large."""
        return self.mu

    def reversed(self):
        from jaxpriv.tradeoff.subsampled import Reversed

        base: Any = self  # which gives all that is asked of it
        return Reversed(base)

    def subsampled(self, rate):
        raise ValueError("subsample() of an allocation: a record is allocated, or sampled")


def _law_of(mu, steps, x):
    """Columns of `_law` at K = e^x."""
    own = lognormal_rule.columns(mu, steps)
    found = lognormal_mean.integrals(lognormal_mean.line(own, x), x)
    logs, doubt = _logs(found, x)
    # all NaN where the integral says nothing at all
    logs = tuple(xp.where(doubt < xp.inf, log, xp.nan) for log in logs)
    if not xp.any_jax(x) and (x <= 0 or doubt < _SURE):
        return xp.stack(logs)
    size = xp.maximum(x, 1e-9)
    lower, upper = xp.stop_gradient(one_large.log_bounds(mu, steps, size))
    far = _far(mu, steps, size)
    # rounding may be all that there is
    clipped = xp.where(x > 0, xp.clip(logs[1], lower, upper), logs[1])
    logs = logs[0], clipped, *logs[2:]
    known = (x > 0) & (doubt > upper - lower) & (upper - lower < _TELLING)
    return xp.where(known, xp.stack(far), xp.stack(logs))


def _far(mu, steps, x):
    """Columns of `_law` from what one large lognormal does; the reverse profile is K - 1, to C."""
    log_call, slope = one_large.middle(mu, steps, x)
    log_alpha = xp.minimum(log_call - x + xp.log(xp.maximum(slope, 1e-3)), -1e-300)
    log_power = xp.minimum(xp.logaddexp(log_call, log_alpha + x), -1e-300)
    log_put = xp.log(xp.expm1(x) + xp.exp(log_call))
    return log_put, log_call, log_alpha, log1mexp(log_alpha), log1mexp(log_power), log_power


def _logs(found, x):
    """((log put, log call, log alpha, log 1 - alpha, log beta, log power) at K = e^x,
    about how far the logarithm of what was asked is off).
    """
    right, k = found.right, xp.expm1(x)
    log_gain, log_mass = (
        xp.minimum(found.log_scale + safe_log(xp.maximum(part, 1e-290)), limit)
        for part, limit in ((found.gain, xp.inf), (found.mass, 0.0))
    )
    # put and call differ by K - 1
    gain = xp.exp(log_gain)
    other = xp.where(right, gain + k, gain - k)
    log_other = xp.log(xp.where(other > 0, other, 1e-290))
    log_put, log_call = xp.where(right, log_other, log_gain), xp.where(right, log_gain, log_other)
    # beta = K P - put of which the second is the smaller one, power = call + K alpha
    both = x + log_mass
    share = xp.minimum(log_gain - both, -1e-16)
    under = xp.minimum(both + xp.where(right, 0.0, log1mexp(xp.where(right, -1.0, share))), -1e-300)
    power = xp.minimum(xp.logaddexp(log_gain, both), -1e-300)
    log_rest = log1mexp(xp.minimum(log_mass, -1e-300))
    log_alpha, log_below = xp.where(right, log_mass, log_rest), xp.where(right, log_rest, log_mass)
    log_beta = xp.where(right, log1mexp(power), under)
    log_power = xp.where(right, power, log1mexp(under))
    # bounds of rounding errors are some 30 times as large as these
    asked = xp.where(right | (k < 0), found.gain, xp.maximum(other, 1e-290))
    doubt = xp.stop_gradient(found.gain_error / xp.maximum(asked, 1e-290) / 30)
    doubt = xp.where(xp.isnan(doubt), xp.inf, doubt)
    return (log_put, log_call, log_alpha, log_below, log_beta, log_power), doubt


def _bounds_of(reverse, mu, steps, eps):
    """(lower, upper) of log delta and -d log delta/d eps.

    In the right tail the better of the line's and of what one large lognormal does.
    """
    x, ulp = -eps if reverse else eps, 2.0**-52
    lower, upper = -xp.inf, 0.0
    if xp.any_jax(x) or x > 0:
        size = xp.maximum(x, 1e-9)
        lower, upper = one_large.log_bounds(mu, steps, size)
        lower, upper = xp.where(x > 0, lower, -xp.inf), xp.where(x > 0, upper, 0.0)
        if not xp.any_jax(x) and not reverse and upper - lower < _ENOUGH:
            return xp.stack([lower, upper, one_large.middle(mu, steps, size)[1]])
    placed = lognormal_mean.line(lognormal_rule.columns(mu, steps), x)
    known = lognormal_mean.bounds(placed, x)
    least, most = known.put if reverse else known.call
    if reverse:  # put - call = K - 1
        k = xp.expm1(x)
        lower, upper = (xp.where(x > 0, xp.logaddexp(end, safe_log(k)), side * xp.inf)
                        for end, side in ((lower, -1), (upper, 1)))
    least, most = xp.maximum(lower, least), xp.minimum(upper, most)
    margin = 16 * ulp * (1 + xp.where(xp.isfinite(most), xp.abs(most), 0.0) + xp.abs(x))
    least, most = least - margin, most + margin
    if reverse:
        least, most = least + eps, most + eps
    (log_put, log_call, log_alpha, _, log_beta, _), _ = _logs(
        lognormal_mean.integrals(placed, x), x
    )
    value, log_alpha = (log_put + eps, log_beta) if reverse else (log_call, log_alpha)
    rate = xp.exp(xp.minimum(eps + log_alpha - value, 600.0))
    return xp.stack([least, xp.minimum(most, 0.0), rate])


def _spread(mu, steps):
    """The standard deviation of M, or of log M where L's tail is most of that."""
    return xp.minimum(xp.sqrt(xp.expm1(mu**2) / steps), mu)


def _search(mu, steps, start, high, sign, look):
    """(the size of x in (0, high] at which look(logs, size) = (value, slope) crosses zero, the
    doubt there), by lines that serve what is near them.
    """
    own = lognormal_rule.columns(mu, steps)
    spread = _spread(mu, steps)

    def step(_, state):
        size, high, _, _ = state
        placed = lognormal_mean.line(own, sign * size)

        def at(size):
            x = sign * size
            return _logs(lognormal_mean.integrals(placed, x), x)

        def excess(size):
            return look(at(size)[0], size)

        # the line serves down to K/4, or (K - 1)/4; of larger K it knows less, as e^(c K)
        low = xp.maximum(size / 2, size - 0.5) if sign < 0 else xp.log1p(0.26 * xp.expm1(size))
        low = xp.where(size < spread, 1e-9 * size, low)
        ends = low, xp.minimum(xp.log1p(3.8 * xp.expm1(size)), high)
        found = newton_in_bracket(excess, *ends, iterations=30, start=size)
        return found, high, xp.abs(found - size), at(found)[1]

    state = (start, high, xp.full_like(start, xp.inf), xp.full_like(start, xp.inf))

    def settled(state):
        return bool(np.all(state[2] <= 0.05 * np.minimum(state[0], 1.0)))

    size, _, _, doubt = xp.fori_loop(0, _ROUNDS, step, state, settled)
    return size, doubt


def _epsilon_of(reverse, mu, steps, target):
    """The eps >= 0 with log delta = target, a vector of one."""
    mu, steps, target = xp.stop_gradient((mu, steps, target))
    spread = _spread(mu, steps)
    high = NormalShift(mu).solve_epsilon(target, False)
    start = xp.minimum(NormalShift(spread).solve_epsilon(target, False), high)
    start = xp.maximum(start, 1e-3 * xp.minimum(spread, high))

    def look(logs, eps):
        value = logs[0] + eps if reverse else logs[1]
        log_alpha = logs[4] if reverse else logs[2]
        value = xp.minimum(value, 0.0)
        return target - value, xp.exp(xp.minimum(eps + log_alpha - value, 600.0))

    sign = -1.0 if reverse else 1.0

    def told(found):
        """0 where the search ran into it: delta(0) is smaller."""
        return xp.where(found > 1e-6 * spread, found, 0.0)[None]

    if reverse:
        near = lognormal_mean.near_reverse(lognormal_rule.columns(mu, steps), target)
        near = xp.minimum(xp.maximum(near, 0.3 * spread), high)
        return told(_search(mu, steps, near, high, sign, look)[0])

    def excess(eps):
        value, slope = one_large.middle(mu, steps, eps)
        return target - value, slope

    least, count = 0.0 * high + 1e-9, 40
    if not xp.any_jax(high):  # a few tries tell whether that is of use
        start_far = newton_in_bracket(excess, least, high, 6, start=start)
        lower, upper = one_large.log_bounds(mu, steps, start_far)
        count = 40 if upper - lower < 0.1 else 1
    far = newton_in_bracket(excess, least, high, count, start=start)
    lower, upper = one_large.log_bounds(mu, steps, far)
    if not xp.any_jax(far) and upper - lower < _ENOUGH:
        return told(far)
    found, doubt = _search(mu, steps, start, high, sign, look)
    return told(xp.where(doubt > upper - lower, far, found))


def _slope_of(reverse, mu, steps, alpha):
    """The eps at which the test that touches has this type I error, a vector of one."""
    mu, steps, alpha = xp.stop_gradient((mu, steps, alpha))
    own = lognormal_rule.columns(mu, steps)
    spread = _spread(mu, steps)
    start = NormalShift(spread).slope(alpha, False)

    def step(_, state):
        eps, _ = state
        placed = lognormal_mean.line(own, -eps if reverse else eps)

        def at(eps):
            x = -eps if reverse else eps
            logs, _ = _logs(lognormal_mean.integrals(placed, x), x)
            log_a, log_rest = (logs[4], logs[5]) if reverse else (logs[2], logs[3])
            excess = xp.where(alpha < 0.5, xp.log(alpha) - log_a, log_rest - xp.log1p(-alpha))
            return excess, 0.0 * x

        reach = 3 * xp.abs(eps) + 2 * spread
        found = newton_in_bracket(at, eps - reach, eps + reach, iterations=60, start=eps)
        return found, xp.abs(found - eps)

    state = (start, xp.full_like(start, xp.inf))
    return xp.fori_loop(0, _ROUNDS, step, state, lambda state: bool(state[1] <= 1e-2 * spread))[0][
        None
    ]


@partial(xp.custom_jvp, nondiff_argnums=(0,))
def _evaluated(function, experiment, values):
    """function(mu, steps, value), a vector, for all entries."""
    return experiment.each(function, values)


@_evaluated.defjvp
def _evaluated_jvp(function, primals, tangents):
    """By the Jacobians, which are formed in float64 like the values: what is left is linear."""
    experiment, values = primals

    def one(mu, steps, value):
        def at(*arguments):
            return function(*arguments)

        return at(mu, steps, value), *jax.jacfwd(at, (0, 1, 2))(mu, steps, value)

    found, *slopes = experiment.each(one, values)
    moved = tangents[0].mu, tangents[0].steps, tangents[1]
    return found, sum(slope * tangent[..., None] for slope, tangent in zip(slopes, moved))
