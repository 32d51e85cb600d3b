"""The parameter at which a curve just meets a target: a root of the estimate,
moved until the upper bound says yes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxpriv._checks import is_traced
from jaxpriv._types import Numbers
from jaxpriv.accounting.calibrate_traced import with_tracers
from jaxpriv.accounting.privacy_target import target_of
from jaxpriv.curve import Curve

_STEPS = 100
_TIGHT = 1e-13  # of log parameter: the estimate's root is known to that
_SECANTS = 40
_CLOSE = 1e-7  # a secant's step; the one after it would be about its square
_LEAP = 2.0  # the longest step
_BLUR = 1e-2  # a surplus up to which it is the width of a bracket


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

    Returns: a float, within 1e-9 relative of the boundary, or within an eighth of the distance that
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
    low, high = (float(end) for end in bracket)
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

    def excess(parameter):
        with jax.enable_x64(True):
            value = float(np.max(target.excess(make_curve(parameter).symmetric())))
        return -1e3 if value == -math.inf else min(value, 1e3)

    found = _by_secants(excess, target.depth(), low, high)
    if found is None:
        good, bad = _sides(surplus, low, high)
        root, slope = _root(excess, good, bad), math.inf
    else:
        root, slope = found
        good, bad = (low, high) if slope > 0 else (high, low)
    if integer:
        return _last_whole(surplus, good, bad, root)
    near = abs(excess(root)) < _BLUR
    return _last_private(surplus, good, root, abs(slope), 1 / 8 if near else 0.0)


def _sides(surplus, low, high):
    """The ends of a bracket at which the target holds and fails."""
    at_low, at_high = surplus(low) <= 0, surplus(high) <= 0
    if at_low == at_high:
        verb = "holds" if at_low else "fails"
        raise ValueError(
            f"the target {verb} at both ends of bracket = ({low:g}, {high:g}); "
            "widen it to enclose the answer"
        )
    return (low, high) if at_low else (high, low)


def _by_secants(excess, depth, low, high):
    """(where the estimate crosses zero, its slope by log parameter there), from the middle of the
    bracket; None if that fails.

    depth: -log of what is allowed, or None. log of a small probability goes with a power of the
    parameter, nearly: its logarithm is what the secants are drawn through.
    """

    def value(t):
        over = excess(math.exp(t))
        if depth is None:
            return over
        return depth * (math.log(depth) - math.log(max(depth - over, 1e-3 * depth)))

    ends = math.log(low), math.log(high)
    a = 0.5 * (ends[0] + ends[1])
    b = a + min(0.05, 0.1 * (ends[1] - ends[0]))
    at_a, at_b = value(a), value(b)
    slope, clipped = 0.0, 0
    for _ in range(_SECANTS):
        if abs(b - a) > 1e-6:
            slope = (at_b - at_a) / (b - a)
        if not (math.isfinite(slope) and slope != 0):
            return None
        step = min(max(-at_b / slope, -_LEAP), _LEAP)
        new = min(max(b + step, ends[0]), ends[1])
        clipped = clipped + 1 if new in ends else 0
        if clipped > 1:
            return None
        if abs(new - b) < _CLOSE:
            return math.exp(new), slope
        a, at_a, b, at_b = b, at_b, new, value(new)
    return None


def _root(excess, good, bad):
    """Where the estimate crosses zero between parameters on both sides:
    Ridders' method on a logarithmic scale.

    Each round evaluates twice and at least halves the bracket; near the root the digits double.
    Newton's method would ask for a derivative of whatever `make_curve` does.
    """
    a, b = math.log(good), math.log(bad)
    at_a, at_b = excess(good), excess(bad)
    if not at_a < 0 < at_b:
        return bad
    best = b
    for _ in range(_STEPS):
        middle = 0.5 * (a + b)
        at_middle = excess(math.exp(middle))
        if math.isnan(at_middle):
            return math.exp(b)
        # the exponential through the three values has its zero here, inside the bracket
        best = middle - (middle - a) * at_middle / math.sqrt(at_middle * at_middle - at_a * at_b)
        at_best = excess(math.exp(best))
        points = sorted([(a, at_a), (b, at_b), (middle, at_middle), (best, at_best)], reverse=a > b)
        a, at_a = [point for point in points if point[1] < 0][-1]
        b, at_b = [point for point in points if point[1] >= 0][0]
        if abs(b - a) <= _TIGHT or at_best == 0 or abs(at_best) < 1e-12:
            break
    return math.exp(best)


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
    estimate's slope, each further one four times the last. Halves end within that part `kept` of
    what a wide bracket took: bounds on a lattice take a second each.
    """
    towards, failed, width = math.log(good / root), 0.0, 3e-11
    while width < abs(towards):
        more = surplus(root * math.exp(math.copysign(width, towards)))
        if more <= 0:
            break
        failed, width = width, max(4 * width, 1.2 * more / slope if more < _BLUR else 0.0)
    width = min(width, abs(towards))
    while width - failed > max(1e-10, kept * width):
        middle = 0.5 * (failed + width)
        if surplus(root * math.exp(math.copysign(middle, towards))) <= 0:
            width = middle
        else:
            failed = middle
    return float(good) if width == abs(towards) else root * math.exp(math.copysign(width, towards))
