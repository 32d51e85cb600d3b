"""The parameter at which a curve just meets a target: a root of the estimate, first on small
lattices where there are some, moved until the upper bound says yes.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxpriv._checks import is_traced
from jaxpriv._types import Numbers
from jaxpriv.accounting.calibrate_traced import with_tracers
from jaxpriv.accounting.privacy_target import target_of
from jaxpriv.curve import Curve

_TRIES = 100
_APART = 1e-6  # of tries through which a secant is drawn
_CLOSE = 1e-7  # its step; the one after it would be about its square
_CLOSEST = 1e-9  # a step by a slope that was told
_TIGHT, _PART = 1e-10, 0.1  # of log parameter, of a whole number: where the estimate leaps
_AROUND = 1e-4  # a leap of small lattices, that of large ones is looked for
_LEAP = 2.0  # the longest step
_BLUR = 1e-2  # a surplus up to which it is the width of a bracket
_FAR_BELOW = 20.0  # a probability this much smaller, in logarithms, only has to look small
_COARSE = 1e-3  # width of epsilon's brackets for which small lattices do


def calibrate(
    make_curve: Callable[[Any], Curve], *, epsilon: Numbers | None = None,
    delta: Numbers | None = None, advantage: Numbers | None = None, mu: Numbers | None = None,
    fpr: Numbers | None = None, tpr: Numbers | None = None,
    bracket: tuple[float, float] = (1e-3, 1e3), integer: bool = False,
) -> float | Any:
    """The parameter for which a mechanism just meets one privacy target, against both directions.

    Exactly one target: (epsilon, delta), or advantage, or mu, or (fpr, tpr).

    Args:
        make_curve: parameter (a float) -> `Curve`, more private towards one end of the bracket
            (noise or clipping norm of others upwards, sampling rate, steps or own clipping norm
            downwards: found out by trying).
        epsilon: >= 0, with delta in (0, 1]: the curve must support (epsilon, delta).
        advantage: in [0, 1]: the largest power - alpha.
        mu: >= 0: the smallest Gaussian curve below must be G_mu.
        fpr, tpr: in [0, 1]: the power at level fpr must not exceed tpr.
        bracket: (low, high) > 0 with the answer in between.
        integer: look for a whole number, such as a number of steps;
            `make_curve` is asked for what lies between, too.

    Returns: a float, within 1e-9 relative of the boundary, or within a quarter of the distance that
        a wide bracket keeps it from the estimate's (an int with `integer`, the last one that is
        private enough). Where a tracer is among the targets or in what `make_curve` takes from
        around it, inside `jit`, `vmap` or `grad`: an array () of JAX's default dtype, the
        parameter as a part of the program (whole, but a float, with `integer`). `vmap` gives one
        answer for each target; of an array of targets, or of curves, the strictest decides.
        Differentiable in the target and in every number that `make_curve` takes from around it, by
        the implicit function theorem (with `integer` as if the answer were not rounded).
    Guarantee: the target holds at the returned parameter by its upper bound (`delta_bounds`,
        `gdp_mu`, `beta_bounds`), which is evaluated there before returning, in float64 whatever the
        mode. Inside `jit` in float32 it holds at exactly the float32 number that is returned, and
        for the curve that `make_curve` computes from it in float32 as well; the bounds' own
        conditions inside `jit` are those of `Curve.delta_bounds`, and mu is bounded in float32.
    Raises: ValueError for a missing, double or impossible target, and for a bracket on whose ends
        the target both holds or both fails. Inside `jit`, where nothing can be raised for a number,
        the answer is NaN then.

        >>> import jaxpriv
        >>> noise = jaxpriv.calibrate(lambda std: jaxpriv.worst_case.gaussian(1 / std), epsilon=1.0,
        ...                           delta=1e-5)
        >>> print(f"{noise:.4f}")
        3.7306
        >>> jaxpriv.calibrate(lambda n: jaxpriv.worst_case.gaussian(0.1).compose(n), epsilon=1.0,
        ...                   delta=1e-5, integer=True, bracket=(1, 1000))
        7
        >>> import jax, jax.numpy as jnp
        >>> def noise_for(epsilon):
        ...     curve_of = lambda std: jaxpriv.worst_case.gaussian(1 / std)
        ...     return jaxpriv.calibrate(curve_of, epsilon=epsilon, delta=1e-5)
        >>> noises = jax.jit(jax.vmap(noise_for))(jnp.array([0.5, 1.0, 2.0]))
        >>> print(*(f"{noise:.4f}" for noise in noises))
        7.0318 3.7306 1.9938
    """
    target = target_of(epsilon, delta, advantage, mu, fpr, tpr)
    ends = _ends(bracket, integer)
    if not is_traced((target.values, make_curve(ends[0]))):
        return _found(make_curve, target, ends, integer)
    search = partial(_found, ends=ends, integer=integer)
    return with_tracers(make_curve, target, ends, integer, search)


def _ends(bracket, integer):
    try:
        low, high = (float(end) for end in bracket)
    except (TypeError, ValueError):
        raise ValueError(f"bracket = {bracket!r} is not a pair of numbers (low, high)") from None
    if not 0 < low < high < math.inf:
        raise ValueError(f"bracket = {bracket} is not 0 < low < high < inf")
    if integer:
        low, high = math.ceil(low), math.floor(high)
        if low >= high:
            raise ValueError(f"bracket = {bracket} does not hold two whole numbers")
    return low, high


def _found(make_curve, target, ends, integer):
    low, high = ends
    at = round if integer else float

    def surplus(parameter):
        """log of what is certified over what is allowed:
        the target holds where that is not positive.
        """
        with jax.enable_x64(True):
            certified, allowed = target.certified(make_curve(at(parameter)).symmetric())
        if np.all(certified <= allowed):
            return 0.0
        with np.errstate(divide="ignore"):
            more = float(np.max(np.log(certified) - np.log(allowed)))
        return math.inf if math.isnan(more) else max(more, 1e-16)

    def estimate(look):
        """log parameter -> the excess of what look(curve) is, straightened."""

        @cache
        def value(t):
            with jax.enable_x64(True):
                over = float(np.max(target.excess(look(make_curve(math.exp(t)).symmetric()))))
            over = -1e3 if over == -math.inf else min(over, 1e3)
            return _straightened(over, target.depth())

        return value

    def enough(least, most):
        """Does it not matter where between these log parameters the estimate leaps?"""
        return math.exp(most) - math.exp(least) < _PART if integer else most - least < _TIGHT

    if target.allows_all():
        _sides(surplus, low, high)
    span = math.log(low), math.log(high)
    first = 0.5 * sum(span)
    second = first + min(0.05, 0.1 * (span[1] - span[0]))
    fine, found = estimate(partial(_no_deeper, target.depth())), None
    begins = make_curve(math.exp(first)).symmetric()
    if _coarse(begins) is not begins:
        found = _crossing(estimate(_coarse), first, second, span, enough)
    if found is None:
        found = _crossing(fine, first, second, span, enough)
    elif math.isinf(found.slope):
        found = _crossing(fine, found.at - _AROUND, found.at + _AROUND, span, enough)
    else:
        second = found.at - fine(found.at) / found.slope
        found = _crossing(fine, found.at, second, span, enough, found.slope)
    if found is None:
        good, bad = _sides(surplus, low, high)
        found = _crossing(fine, math.log(good), math.log(bad), span, enough)
        found = _Root(math.log(bad), math.inf, math.inf) if found is None else found
    else:
        good, bad = (low, high) if found.slope > 0 else (high, low)
    root = min(max(math.exp(found.at), low), high)
    if integer:
        return _last_whole(surplus, good, bad, root)
    near = abs(found.excess) < _BLUR
    return _last_private(surplus, good, root, abs(found.slope), 1 / 4 if near else 0.0)


def _coarse(curve):
    """The same curve on small lattices; itself where it has none."""
    if not isinstance(curve, Curve):
        return curve
    rough = Curve(curve.experiment.as_narrow_as(_COARSE))
    return rough if len(jax.tree.leaves(rough)) > len(jax.tree.leaves(curve)) else curve


def _no_deeper(depth, curve):
    """The same curve, of which probabilities far below e^-depth need not be found with effort."""
    if depth is None or not isinstance(curve, Curve):
        return curve
    return Curve(curve.experiment.as_narrow_as(deep=-depth - _FAR_BELOW))


def _straightened(over, depth):
    """An excess as a function that is nearly linear in log parameter, and equal to it near zero.

    depth: -log of what is allowed, or None. log of a small probability goes with a power of the
    parameter, nearly: its logarithm is what the secants are drawn through.
    """
    if depth is None:
        return over
    return depth * (math.log(depth) - math.log(max(depth - over, 1e-3 * depth)))


class Unbracketed(ValueError):
    """The target holds, or fails (`verb`), at both ends of a bracket."""

    def __init__(self, verb, text):
        super().__init__(text)
        self.verb = verb


def _sides(surplus, low, high):
    """The ends of a bracket at which the target holds and fails."""
    at_low, at_high = surplus(low) <= 0, surplus(high) <= 0
    if at_low == at_high:
        verb = "holds" if at_low else "fails"
        raise Unbracketed(
            verb,
            f"the target {verb} at both ends of bracket = ({low:g}, {high:g}); "
            "widen it to enclose the answer, if there is one",
        )
    return (low, high) if at_low else (high, low)


class _Root(NamedTuple):
    """Where an estimate crosses zero: log parameter, the slope by it, the excess of the last try.
    """

    at: float
    slope: float
    excess: float


def _crossing(value, a, b, span, enough, slope=0.0):
    """The `_Root` of value(t) within the span from two tries, or None; its slope is infinite where
    value leaps over zero, `enough`(from, to) being all that is asked.

    Secants; as soon as both signs were seen, halves in between where a secant leaves that or its
    steps do not become shorter. Newton's method would ask for a derivative of whatever `make_curve`
    does. slope: about what it is, for tries too near each other to tell.
    """

    def inside(t):
        return min(max(t, span[0]), span[1])

    a, b = inside(a), inside(b)
    at_a, at_b = value(a), value(b)
    sides = {at_a > 0: a}
    steps, clipped, close = [math.inf, math.inf], 0, _CLOSEST
    for _ in range(_TRIES):
        sides[at_b > 0] = b
        if math.isnan(at_a + at_b):
            return None
        if abs(b - a) > _APART:
            slope, close = (at_b - at_a) / (b - a), _CLOSE
        step = -at_b / slope if slope else math.inf
        if abs(step) < close:
            return _Root(inside(b + step), slope, at_b)
        if len(sides) == 2:
            least, most = sorted(sides.values())
            if enough(least, most):
                return _Root(b, math.inf if sides[True] == most else -math.inf, at_b)
            if not (least < b + step < most and abs(step) < 0.5 * steps[-2]):
                step = 0.5 * (least + most) - b
        elif not slope:
            return None
        else:
            step = inside(b + min(max(step, -_LEAP), _LEAP)) - b
            clipped = clipped + 1 if b + step in span else 0
            if clipped > 1:
                return None
        steps.append(abs(step))
        a, at_a, b = b, at_b, b + step
        at_b = value(b)
    return None


def _last_whole(surplus, good, bad, root):
    """The last whole number at which the target holds, from next to the root."""
    step = 1 if good > bad else -1
    answer = math.ceil(root - 1e-9) if step > 0 else math.floor(root + 1e-9)
    while answer != good and surplus(answer) > 0:
        answer += step
    while answer - step != bad and surplus(answer - step) <= 0:
        answer -= step
    return int(answer)


def _last_private(surplus, good, root, slope, kept):
    """From the root outwards until the target holds;
    and back, by halves, where that took long steps.

    The first step is as long as rounding asks for, the next as the width of the bound over the
    estimate's slope and a fifth, each further one four times the last. What comes back ends within
    that part `kept` of what a wide bracket took, for bounds on a lattice take long; and begins next
    to where that fifth was added.
    """
    towards, failed, width = math.log(good / root), 0.0, 3e-11
    while width < abs(towards):
        more = surplus(root * math.exp(math.copysign(width, towards)))
        if more <= 0:
            break
        failed, width = width, max(4 * width, 1.2 * more / slope if more < _BLUR else 0.0)
    width = min(width, abs(towards))
    while width - failed > max(1e-10, kept * width):
        between = failed + (0.75 if kept else 0.5) * (width - failed)
        if surplus(root * math.exp(math.copysign(between, towards))) <= 0:
            width = between
        else:
            failed = between
    return float(good) if width == abs(towards) else root * math.exp(math.copysign(width, towards))
