"""Certified profiles, and from an estimate of epsilon to a bracket: its ends are stepped out until
both verify.
"""

from functools import partial

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.tradeoff.solve import secant_in_bracket
from jaxpriv.tradeoff.valley import power_by_lines

_FARTHEST = 700.0  # eps, whose e^eps is a number
# of 1 + |eps|: how far away lines are
_NEAREST, _NEAR, _FAR = 1e-12, 1e-7, 0.1
# next to no kink a bracket is 5 times as wide as the profile's; from so many on it is worth while
# to look nearer, so often at most, and to look for another slope than one that was guessed
_UNSEEN, _NEARER, _POOR, _WIDE = 16.0, 2, 1e3, 1e-9
# how far an estimate of a slope is off, of 1 + |eps|; by how much more, how often; tries
_NEARBY, _WIDER, _WIDENED, _SECANTS = 1e-5, 16.0, 4, 10


def profile_bounds(experiment, reverse, epsilon):
    """(lower, upper) of log delta and -d log delta/d epsilon; what was lost bounds nothing.

    At infinity delta is its limit, the probability of an infinite loss, and no more than what it
    is far away.
    """
    eps = followed(epsilon)
    lower, upper, rate = cleaned(epsilon, *experiment.bracket(eps, eps, reverse))
    least, most = experiment.log_told(reverse)
    end = epsilon == xp.inf
    return xp.where(end, least, lower), xp.where(end, xp.minimum(upper, most), upper), rate


def followed(epsilon):
    """eps where a profile is asked: beyond all losses for an infinite one, and such that its cube,
    which derivatives may have in them, is a number.
    """
    far = 0.5 * float(xp.finfo(epsilon.dtype).max) ** (1 / 3)
    return xp.where(xp.isfinite(epsilon), epsilon, xp.where(epsilon > 0, far, 0.0))


def profile_near(experiment, reverse, center, ends):
    """`profile_bounds` at finite eps (k, ...) near `center` (...)."""
    return cleaned(ends, *experiment.brackets_near(center, ends, reverse))


def power_near_slope(experiment, alpha, rounding):
    """Certified (low, high) of 1 - f(alpha), by lines next to where f has the slope -e^eps there;
    rounding: absolute, of what is made of them.

    By NumPy at first next to where that is likely, then to the estimate, then to where the brackets
    show it, where nothing is beyond doubt or little is known.
    """
    if xp.any_jax(experiment, alpha):
        return _by_lines_next_to(experiment, experiment.slope(alpha, False), alpha, rounding)[:2]
    likely = experiment.likely_slope(alpha)
    near = experiment.slope(alpha, False) if likely is None else likely
    found = _by_lines_next_to(experiment, near, alpha, rounding)
    near, low, high, seen, times = map(np.array, (near, *found))
    for closer, least in ((_as_estimated, 0.0), (_as_shown, _WIDE))[likely is None :]:
        # an estimate is good enough where anything is seen next to it
        left = (~seen | (times > _POOR) & (likely is not None)) & ~(high - low <= least)
        if not left.any():
            break
        everywhere = np.broadcast_to(rounding, alpha.shape)
        own, level, guess, blur = _those(left, experiment, alpha, near, everywhere)
        near[left] = eps = closer(own, level, guess)
        lower, upper, seen[left], times[left] = _by_lines_next_to(own, eps, level, blur)
        low[left], high[left] = np.fmax(low[left], lower), np.fmin(high[left], upper)
    return low, high


def _those(left, *trees):
    return jax.tree.map(lambda leaf: leaf[left], trees)


def _as_estimated(experiment, alpha, eps):
    del eps
    return experiment.slope(alpha, False)


def _as_shown(experiment, alpha, eps):
    """The slope at alpha near an estimate, by NumPy: where the profile's brackets show it, e^eps
    alpha = -d delta/d eps.
    """

    @np.errstate(all="ignore")
    def surplus(eps):
        (lower,), (upper,), (rate,) = profile_near(experiment, False, eps, eps[None])
        return np.log(alpha) + eps - np.log(rate) - 0.5 * (lower + upper)

    eps = np.clip(np.nan_to_num(eps), -_FARTHEST, _FARTHEST)
    if not np.isfinite(surplus(eps)).all():
        return eps
    reach = _NEARBY * (1 + np.abs(eps))
    for _ in range(_WIDENED):
        outside = (surplus(eps - reach) > 0) | (surplus(eps + reach) < 0)
        if not outside.any():
            break
        reach = np.where(outside, _WIDER * reach, reach)
    return secant_in_bracket(surplus, eps - reach, eps + reach, _SECANTS)


def _by_lines_next_to(experiment, eps, alpha, rounding):
    """(low, high, does the curve touch a line next to these beyond doubt?, by how much wider they
    are than what is known at eps) of the power.

    First near by, which is best at a kink; then as far away as the width of the brackets, and the
    `rounding`, make best for a curve that bends. Then nearer, where lines that far away show that
    it bends more than its errors say: at a kink, and where all losses are tiny; or farther, where
    these do not show that it is touched between them. Each with the outer two of the look before.
    """
    eps = xp.clip(xp.where(xp.isnan(eps), 0.0, eps), -_FARTHEST, _FARTHEST)
    aside = xp.asarray([-1.0, 0.0, 1.0], eps.dtype).reshape((3,) + (1,) * eps.ndim)
    size, first = 1 + xp.abs(eps), xp.exp(eps) * alpha

    def look(state):
        index, step, low, high, seen, late, before, *_ = state
        ends = eps + step * size * aside
        if xp.any_jax(eps):
            ends = xp.concatenate([ends, xp.zeros_like(eps)[None]])
        lower, upper, _ = profile_near(experiment, False, eps, ends)
        lower, upper = outward(lower, upper)
        own = ends[:3], lower[:3], upper[:3]
        new_low, new_high, now_seen = power_by_lines(alpha, *_merged(before, own))
        contact = 1 - xp.min(beyond_contact(ends, lower, alpha), 0) * (1 + xp.finfo(eps.dtype).eps)
        low = xp.maximum(low, xp.maximum(new_low, contact))
        high, width = xp.minimum(high, new_high), upper[1] - lower[1]
        # of the errors e^eps alpha and beta, which sum to 1 - delta, the smaller one says how much
        # the profile bends
        bend = xp.minimum(first, 1 - upper[1] - first)
        blur = (width + rounding) / xp.clip(bend, 1e-300, 1.0)
        blur = xp.where(blur >= 0, blur, 0.0)
        # how far the profile is above its tangent of slope -alpha in e^eps, on either side
        above = [lower[k] - upper[1] + first * xp.expm1(ends[k] - eps) for k in (0, 2)]
        bent = 2 * xp.maximum(xp.minimum(*above), 1e-300) / step**2
        nearer = 2 * xp.sqrt((width + rounding) / bent)
        nearer = xp.where(nearer >= 0, nearer, 0.0)
        # what is only seen from farther away may be better told from elsewhere
        late = late | ~seen & now_seen & (index > 1)
        times = xp.where(late, xp.inf, (high - low) / (width + rounding))
        seen = seen | now_seen
        vague = (times > _UNSEEN) & (nearer < 0.5 * step) & (nearer > _NEAREST)
        vague = (vague | ~seen & (step < _FAR)) & (index > 0)
        step = xp.where(seen, nearer, _WIDER * step)
        step = xp.clip(xp.where(index > 0, step, 2 * xp.sqrt(blur)),
                       xp.where(index > 0, _NEAREST, _NEAR), _FAR)
        return index + 1, step, low, high, seen, late, own, times, vague

    def unfinished(state):
        index, *_, vague = state
        return (index < 2) | (index < 2 + _NEARER) & xp.any(vague)

    never, near = xp.zeros(eps.shape, bool), xp.full_like(eps, _NEAR)
    # of what is farther away nothing is known at first
    farther = xp.stack([eps - 1 - size, eps, eps + 1 + size])
    before = farther, xp.zeros_like(farther), xp.ones_like(farther)
    start = 0, near, alpha, xp.ones_like(eps), never, never, before, xp.zeros_like(eps), never
    _, _, low, high, seen, *_, times, _ = xp.while_loop(unfinished, look, start)
    return low, high, seen, times


def _merged(before, own):
    """(ends, lower, upper) of two looks at one eps and on either side: five eps, rising."""
    outer = before[0][2] > own[0][2]

    def rising(one, other):
        far = [xp.where(outer, one[k], other[k]) for k in (0, 2)]
        near = [xp.where(outer, other[k], one[k]) for k in (0, 2)]
        return xp.stack([far[0], near[0], other[1], near[1], far[1]])

    return [rising(*pair) for pair in zip(before, own, strict=True)]


def beyond_contact(eps, lower, alpha):
    """An upper bound of f(alpha) from a lower bound of delta at eps, 1 where that says nothing.

    The line of slope -e^eps touches f at some a, e^eps a + f(a) = 1 - delta. Hence a <= (1 - delta)
    e^-eps, and f <= 1 - delta from there on, for f falls.
    """
    ulp = xp.finfo(alpha.dtype).eps
    rest = xp.minimum(1 - lower + ulp, 1.0)
    falls = xp.exp(eps) * alpha * (1 - 16 * ulp * (1 + xp.abs(eps)))
    return xp.where(falls >= rest, rest, 1.0)


def beyond_zero(experiment, alpha, vague):
    """`beyond_contact` of eps = 0 where nothing better is known, by NumPy; else 1."""
    high = xp.ones_like(alpha)
    if not xp.any_jax(alpha) and vague.any():
        own, zero = jax.tree.map(lambda leaf: leaf[vague], experiment), np.zeros(int(vague.sum()))
        lower, _ = outward(*profile_bounds(own, False, zero)[:2])
        high[vague] = beyond_contact(zero, lower, alpha[vague])
    return high


def outward(lower, upper):
    """Of logarithms of probabilities the probabilities, rounded outward;
    what is too small a number becomes the least.
    """
    info = xp.finfo(lower.dtype)
    more = xp.clip(xp.exp(upper) * (1 + 8 * info.eps), info.tiny, 1.0)
    return xp.exp(lower) * (1 - 8 * info.eps), xp.where(upper == -xp.inf, 0.0, more)


def cleaned(epsilon, lower, upper, rate):
    """Brackets, of which those that were lost, or cross, bound nothing; delta is 1 at -infinity."""
    lower, upper = (
        xp.where(xp.isnan(end), worst, end) for end, worst in ((lower, -xp.inf), (upper, 0.0))
    )
    crossed, first = lower > upper, epsilon == -xp.inf
    lower, upper = xp.where(crossed, -xp.inf, lower), xp.where(crossed, 0.0, upper)
    return xp.where(first, 0.0, lower), xp.where(first, 0.0, upper), rate


def epsilon_bracket(experiment, reverse, lowest, log_delta):
    """Certified (low, high) of eps for log delta between `lowest` and `log_delta`, from the
    estimate and the profile.
    """
    estimate = experiment.epsilon(xp.minimum(log_delta, 0.0), reverse)
    both = jax.tree.map(lambda leaf: leaf[None], experiment).aligned(
        (2, *estimate.shape), estimate.dtype
    )
    low, high = stepped_out(estimate, partial(profile_bounds, both, reverse), lowest, log_delta)
    # delta = 0 asks for the largest loss, delta = 1 for nothing
    none, ulp = log_delta == -xp.inf, 64 * xp.finfo(estimate.dtype).eps
    low = xp.where(none, estimate * (1 - ulp), xp.where(log_delta >= 0, 0.0, low))
    high = xp.where(none, estimate * (1 + ulp), xp.where(log_delta >= 0, 0.0, high))
    return low, high


def stepped_out(estimate, bounds_at, lowest, log_delta, first=0.0):
    """(low, high) with delta(low) >= e^log_delta and delta(high) <= e^lowest for sure, elementwise;
    (0, inf) for delta = 0.

    First by what rounding may do, then by the width of delta's bracket over its slope, then four
    times as far each time. Where the estimate is infinite the lower end is an eps that verifies, a
    power of two: the exponent of what it grows by is doubled up to the first that does not, and
    halved from there on.

    bounds_at: eps (2, ...) -> certified bounds of log delta, and -d log delta/d eps; first: how
    far from the estimate is tried first, if rounding may do no less.
    """
    some = log_delta > -xp.inf
    found, endless = some & xp.isfinite(estimate), some & (estimate == xp.inf)
    at = xp.where(found, estimate, 1.0)
    sides = xp.asarray([-1.0, 1.0], at.dtype).reshape((2,) + (1,) * at.ndim)
    little = 64 * xp.finfo(at.dtype).eps * at

    def verify(state):
        step, ends, width, best, _ = state
        lower, upper, rate = bounds_at(ends)
        holds = xp.stack([(lower[0] >= log_delta) | (ends[0] == 0), upper[1] <= lowest])
        best = xp.where(holds, ends, best)
        # the slope of delta tells how far its bracket reaches
        reach = 2 * xp.maximum(upper - lowest, log_delta - lower) / rate
        reach = xp.where(xp.isfinite(reach), xp.clip(reach, little, 1e-2 * (1 + at)), 1e-9)
        power = xp.where(holds[0] & (width > 0), 2 * width, -0.5 * xp.abs(width))
        width = xp.where(endless, power, xp.where(step == 0, reach, 4 * width))
        moved = xp.where(holds, ends, xp.maximum(ends + sides * width, 0.0))
        grown = xp.minimum(best[0] * 2.0 ** xp.abs(power), most)
        grows = endless & (xp.abs(power[0]) >= 1) & (best[0] > 0) & (best[0] < most)
        settled = xp.where(found, (step >= 40) | xp.all(holds, 0), ~grows)
        return step + 1, xp.where(endless, grown, moved), width, best, settled

    start = xp.where(endless, 1.0, xp.maximum(at + sides * xp.maximum(little, first), 0.0))
    most = 0.25 * xp.finfo(at.dtype).max
    worst = xp.stack([xp.zeros_like(at), xp.full_like(at, xp.inf)])
    state = (0, start, xp.where(endless, xp.full_like(start, 0.5), 0.0), worst, ~(found | endless))
    _, _, _, best, _ = xp.while_loop(lambda state: ~xp.all(state[4]), verify, state)
    return xp.where(some, best[0], 0.0), xp.where(found, best[1], xp.inf)
