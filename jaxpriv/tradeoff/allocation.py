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
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff import lognormal_mean, lognormal_rule, one_large
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import Point, never_told
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.pair import nan_like, safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket, secant_in_bracket

_FARTHEST = 500.0  # |eps| beyond which the Gaussian mechanism is all that is told
_SURE = 1e-9  # of log delta
_ENOUGH = 1e-9  # of a line alone
_CLOSE = 1e-11  # of the spread of M: to which roots are found
_NOTHING = -750.0  # a logarithm of less than any number
_FAR = 1e290  # a logarithm that is too small for any number
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

    def next_to_lines(self, function, x):
        """By NumPy: function(mu, steps, x (k,)) for all entries, at once where one line serves."""
        flat = [leaf.reshape(-1) for leaf in (self.mu, self.steps, x)]
        groups: dict = {}
        for index, (mu, steps, at) in enumerate(zip(*flat)):
            place = lognormal_mean.middle(lognormal_rule.columns(mu, steps), at)
            groups.setdefault((mu, steps, place), []).append(index)
        found = np.empty(0)
        for (mu, steps, _), index in groups.items():
            part = function(mu, steps, flat[2][index])
            if not found.size:
                found = np.empty((x.size, len(part)))
            found[index] = part.T
        return found.reshape(*x.shape, -1)

    def _gaussian(self):
        return NormalShift(self.mu)

    def spread(self):
        """The standard deviation of M, or of log M where L's tail is most of that."""
        return xp.minimum(xp.sqrt(xp.expm1(self.mu**2) / self.steps), self.mu)

    def _alone(self):
        """Where there is one step only."""
        return self.steps == 1

    def _several(self, function, values, by_lines=False):
        """function of what is allocated to several steps, as columns; by_lines: of all x at once
        that a line serves?
        """
        program = xp.any_jax(self, values)
        if not program and np.all(self._alone()):
            return None
        own = Allocation(self.mu, xp.where(self._alone(), 2.0, self.steps))
        if by_lines and not program:
            found = own.next_to_lines(function, values)
        else:
            found = _evaluated(function, own, values)
        return tuple(found[..., i] for i in range(found.shape[-1]))

    def _choose(self, alone, several):
        return alone if several is None else xp.where(self._alone(), alone, several)

    def _law(self, eps, reverse, right=True):
        """(log delta, the `Point` of the test that touches) of several steps; right: may K > 1?"""
        x = xp.clip(-eps if reverse else eps, -_FARTHEST, _FARTHEST)
        found = self._several(partial(_law_of, right), x, by_lines=True)
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
        return self.looked_at(eps, reverse)[0]

    def looked_at(self, eps, reverse, right=True):
        """(contact, is eps so far out that the integral says nothing?); right: may K > 1?"""
        found = self._law(eps, reverse, right)
        alone = self._gaussian().contact(eps, reverse)
        if found is None:
            return alone, xp.zeros(eps.shape, bool)
        value = self._or_alone(alone[0], xp.minimum(found[0], alone[0]))
        contact = xp.stop_gradient(value), jax.tree.map(self._or_alone, alone[1], found[1])
        return contact, xp.isnan(found[0]) & ~self._alone()

    def find_slope(self, alpha, reverse):
        return self._searched(partial(_slope_of, reverse), alpha)

    def solve_epsilon(self, log_delta, reverse):
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        eps = self._searched(partial(_epsilon_of, reverse), target)
        limit = xp.where(log_delta < 0, xp.inf, 0.0) * nan_like(log_delta)
        return xp.where(reachable & (self.mu > 0), eps, limit)

    def _searched(self, search, value):
        """search(experiment, value) in float64, and without derivatives."""
        own, value = xp.stop_gradient((self, value))
        with jax.enable_x64(True) if xp.any_jax(own, value) else nullcontext():
            wide = jax.tree.map(lambda leaf: leaf.astype(xp.float64), (own, value))
            return search(*wide).astype(value.dtype)

    def bracket(self, low, high, reverse):
        """That of the line; no wider than that of one step above, and of no loss below.

        1/noise multiplier is off by an ulp, which the rule for each lognormal counts.
        """
        lower, upper, rate = self._gaussian().bracket(low, high, reverse)
        ends = high[None] if low is high else xp.stack([high, low])
        wide = self.aligned(ends.shape, ends.dtype)
        near = xp.abs(ends) <= _FARTHEST
        x = xp.where(near, -ends if reverse else ends, 0.0)
        found = wide._several(partial(_bounds_of, reverse), x, by_lines=True)
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


def _law_of(right, mu, steps, x):
    """Columns of `_law` at K = e^x; by NumPy at several next to one line."""
    own = lognormal_rule.columns(mu, steps)
    found = lognormal_mean.integrals(lognormal_mean.line(own, x), x)
    logs, doubt = _logs(found, x)
    # all NaN where the integral says nothing at all, but that no number is so small
    told = (doubt < xp.inf) | (found.log_scale < _NOTHING)
    logs = xp.stack([xp.where(told, log, xp.nan) for log in logs])
    if xp.any_jax(x):
        return _law_or_far(mu, steps, x, logs, doubt) if right else logs
    for k in np.flatnonzero((x > 0) & ~(doubt < _SURE)):
        logs[:, k] = _law_or_far(mu, steps, x[k], logs[:, k], doubt[k])
    return logs


def _law_or_far(mu, steps, x, logs, doubt):
    """The same, or what one large lognormal does where that is known better."""
    size = xp.maximum(x, 1e-9)
    lower, upper = xp.stop_gradient(one_large.log_bounds(mu, steps, size))
    far = _far(mu, steps, size)
    # rounding may be all that there is
    clipped = xp.where(x > 0, xp.clip(logs[1], lower, upper), logs[1])
    logs = xp.stack([logs[0], clipped, *logs[2:]])
    known = (x > 0) & (doubt > upper - lower) & (upper - lower < _TELLING)
    return xp.where(known, xp.stack(far), logs)


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


def _bounds_of(reverse, mu, steps, x):
    """(lower, upper) of log delta and -d log delta/d eps at K = e^x, eps = -x if `reverse`; by
    NumPy at several next to one line.

    In the right tail the better of the line's and of what one large lognormal does.
    """
    eps, ulp = -x if reverse else x, 2.0**-52
    placed = lognormal_mean.line(lognormal_rule.columns(mu, steps), x)
    known = lognormal_mean.bounds(placed, x)
    least, most = known.put if reverse else known.call
    lower, upper = _far_bounds(mu, steps, x, most - least)
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


def _far_bounds(mu, steps, x, width):
    """(lower, upper) of log E (M - K)_+ from one large lognormal, K > 1; by NumPy where a line
    knows it to `width` only.
    """
    if xp.any_jax(x):
        lower, upper = one_large.log_bounds(mu, steps, xp.maximum(x, 1e-9))
        return xp.where(x > 0, lower, -xp.inf), xp.where(x > 0, upper, 0.0)
    lower, upper = np.full(x.shape, -np.inf), np.zeros(x.shape)
    for k in np.flatnonzero((x > 0) & ~(width < _ENOUGH)):
        lower[k], upper[k] = one_large.log_bounds(mu, steps, x[k])
    return lower, upper


def _epsilon_of(reverse, experiment, target):
    """The eps >= 0 with log delta = target, between nothing and that of one step: by Newton on log
    delta, which is concave.
    """
    mu, spread = experiment.mu, experiment.spread()
    high = NormalShift(mu).solve_epsilon(target, False)
    start = xp.minimum(NormalShift(spread).solve_epsilon(target, False), high)

    def excess(eps):
        (value, point), far = experiment.looked_at(eps, reverse, right=not reverse)
        rate = xp.exp(xp.minimum(eps + point.log_alpha - value, 600.0))
        return xp.where(far, _FAR, target - value), xp.where(far, 0.0, rate)

    found = newton_in_bracket(
        excess, 0 * high, high, 60, start=start, tolerance=_CLOSE * (spread + start)
    )
    # where the search ran into it delta(0) is smaller
    return xp.where(found > 1e-6 * spread, found, 0.0)


def _slope_of(reverse, experiment, alpha):
    """The eps at which the test that touches has this type I error.

    With K = e^x, P(M < K) <= K and Q(M > K) <= 1/K (Markov, E_Q M = E_P 1/M = 1) bound it on one
    side. On the other one E_P M <= 1 + e^(mu^2)/t, and log M is at least the mean of the log L,
    which is N(-mu^2/2, mu^2/t) under Q.
    """
    mu, steps = experiment.mu, experiment.steps
    log_alpha, log_rest = xp.log(alpha), xp.log1p(-alpha)
    if reverse:
        least = log_rest - xp.logaddexp(0.0, mu**2 - xp.log(steps))
    else:
        least = mu / xp.sqrt(steps) * norm.isf_exp(log_alpha) - mu**2 / 2

    def excess(eps):
        (_, point), far = experiment.looked_at(eps, reverse)
        low, high = log_alpha - point.log_alpha, point.log_specificity - log_rest
        return xp.where(far, _FAR, xp.where(alpha < 0.5, low, high))

    start = NormalShift(experiment.spread()).slope(alpha, False)
    tolerance = _CLOSE * experiment.spread()
    return secant_in_bracket(excess, least, -log_alpha, 60, start=start, tolerance=tolerance)


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
