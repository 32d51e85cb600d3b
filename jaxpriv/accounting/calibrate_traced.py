"""`calibrate` where a tracer takes part: a parameter with a derivative, and inside `jit` a program
that finds it.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced

_EVALUATIONS = 200  # more than four for each of the 47 halvings of the longest bracket
_WIDTH = 1e-11  # of the last bracket, in log parameter
_FAR = 9.0  # the largest surplus, a difference of logarithms
_LEAST = 1e-16  # the smallest, whose sign is all that counts
_ROOM = 16  # ulp of a bound that are left to another program that evaluates it again


def with_tracers(make_curve, target, ends, integer, search):
    """The parameter as a function of all tracers in the target and around `make_curve`.

    search: (make_curve, target) -> a float, of concrete numbers. Where the target's excess
    F(x, target, around) is zero, dx = -(F_target dtarget + F_around daround)/F_x, however x was
    found.
    """
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(np.float64))
    # the answer is a number of this dtype: the target shall hold for exactly that number, and for
    # what arithmetic in that dtype makes of it
    readings = [_Reading(make_curve, np.dtype(np.float64))]
    if dtype != np.float64:
        readings.append(_Reading(make_curve, dtype))
    traced = [is_traced(value) for value in target.values]

    def targeted(moving):
        left = iter(moving)
        values = (next(left) if t else value for t, value in zip(traced, target.values))
        return target._replace(values=tuple(values))

    @jax.custom_jvp
    def solution(moving, around):
        own = targeted(moving)
        curves = [partial(reading, around) for reading, around in zip(readings, around)]
        with jax.enable_x64(True):
            if is_traced((moving, around)):
                return _program(curves, own, ends, integer, dtype)
            own = own._replace(values=tuple(np.asarray(v, np.float64)[()] for v in own.values))
            found = search(lambda parameter: _by_numpy(curves[0](parameter)), own)
            return jnp.asarray(_rounded(found, dtype, integer, curves, own))

    @solution.defjvp
    def _(primals, tangents):
        parameter = solution(*primals)
        moving, (around, *_) = primals
        with jax.enable_x64(True):

            def excess(parameter, moving, around):
                own = targeted(tuple(value.astype(xp.float64) for value in moving))
                return xp.max(own.excess(readings[0](around, parameter)))

            at = parameter.astype(xp.float64), moving, around
            slope, *slopes = jax.grad(excess, (0, 1, 2), allow_int=True)(*at)
            rates = [(-one / slope).astype(dtype) for one in _inexact(slopes)]
        # in the dtypes that were given, for what transposes this need not know any float64
        changes = _inexact((tangents[0], tangents[1][0]))
        moves = [xp.sum(rate * change) for rate, change in zip(rates, changes)]
        return parameter, sum(moves, jnp.zeros((), dtype)).astype(dtype)

    moving = tuple(
        xp.asarray(value, xp.result_type(value, 0.0))
        for value, is_moving in zip(target.values, traced)
        if is_moving
    )
    return solution(moving, tuple(reading.around for reading in readings))


class _Reading:
    """`make_curve` of parameters in one dtype; the tracers that it takes from around it are
    `around`, an argument, by which can be differentiated. Numbers stay as they were given.
    """

    def __init__(self, make_curve, dtype):
        self._dtype = dtype

        def traced_leaves(parameter):
            leaves, self._structure = jax.tree.flatten(make_curve(parameter))
            self._leaves = [_MISSING if is_traced(leaf) else leaf for leaf in leaves]
            return [leaf for leaf in leaves if is_traced(leaf)]

        with jax.enable_x64(dtype == np.float64):
            self._program = jax.make_jaxpr(traced_leaves)(np.ones((), dtype))
        self.around = tuple(value for value in self._program.consts if is_traced(value))

    def __call__(self, around, parameter):
        left = iter(around)
        given = [next(left) if is_traced(value) else value for value in self._program.consts]
        with jax.enable_x64(self._dtype == np.float64):
            parameter = jnp.asarray(parameter, self._dtype)
            found = iter(jax.core.eval_jaxpr(self._program.jaxpr, given, parameter))
        leaves = [next(found) if leaf is _MISSING else leaf for leaf in self._leaves]
        return jax.tree.unflatten(self._structure, leaves).symmetric()


_MISSING = object()


def _inexact(tree):
    """The leaves that can be differentiated by."""
    return [leaf for leaf in jax.tree.leaves(tree) if leaf.dtype != jax.dtypes.float0]


def _by_numpy(curve):
    """A curve of concrete arrays as NumPy computes it."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if xp.any_jax(leaf) else leaf, curve)


def _rounded(found, dtype, integer, curves, target):
    """The number of a dtype next to a parameter at which the target holds in all readings."""
    below = above = np.asarray(found, dtype)
    if dtype == np.float64:
        return above
    for _ in range(64):
        for one in (below, above):
            if all(np.all(target.holds(_by_numpy(curve(one)))) for curve in curves):
                return one
        below, above = _neighbours(below, integer)[0], _neighbours(above, integer)[1]
    raise ValueError(f"the target holds at no {dtype} number next to {found}")


def _neighbours(parameter, integer):
    """The next parameters below and above that its dtype has."""
    below, above = xp.nextafter(parameter, 0.0), xp.nextafter(parameter, xp.inf)
    if integer:
        return xp.minimum(below, parameter - 1), xp.maximum(above, parameter + 1)
    return below, above


# ------------------------------------------------------------------------------- the program


class _Bracket(NamedTuple):
    """Three parameters with the surplus at each: the last one, one on the other side of the answer,
    the one before; the parameter to be tried next; the widths so far, the last one first.
    """

    count: Any
    trial: Any
    last: Any
    other: Any
    before: Any
    widths: Any


def _program(curves, target, ends, integer, dtype):
    """The last parameter at which the target holds by the upper bound; NaN where it holds, or
    fails, at both ends.

    It is an end of the bracket at which the bound was seen to hold, so that nothing is left to
    verify. All evaluations are the same one in the body of a loop, which keeps the program small.
    """
    low, high = _inward(ends, dtype)

    def step(s):
        surplus = jnp.max(jnp.stack([_surplus(target, curve(s.trial)) for curve in curves]))
        replaced = (surplus < 0) == (s.last[1] < 0)
        before, other = (
            jax.tree.map(partial(jnp.where, replaced), one, two)
            for one, two in ((s.last, s.other), (s.other, s.last))
        )
        last = s.trial, surplus
        place, widths = _next_place(last, other, before, s.widths)
        trial = jnp.exp(place)
        trial = (jnp.round(trial) if integer else trial).astype(dtype)
        trial = jnp.clip(trial, *_between(last, other, integer))
        trial = jnp.where(s.count == 0, high, trial)
        return _Bracket(s.count + 1, trial, last, other, before, widths)

    def goes_on(s):
        least, most = _between(s.last, s.other, integer)
        wide = (least <= most) & (integer | (s.widths[0] > _WIDTH))
        return (s.count < 2) | (_encloses(s) & wide & (s.count < _EVALUATIONS))

    unknown = low, jnp.full((), jnp.nan)
    start = _Bracket(jnp.zeros((), int), low, unknown, unknown, unknown, jnp.full(3, jnp.inf))
    found = jax.lax.while_loop(goes_on, step, start)
    private = jnp.where(found.last[1] < 0, found.last[0], found.other[0])
    return jnp.where(_encloses(found) & target.inside(), private, jnp.asarray(jnp.nan, dtype))


def _inward(ends, dtype):
    """The ends of a bracket in a dtype that may be narrower."""
    low, high = (np.asarray(end, dtype) for end in ends)
    low = np.nextafter(low, dtype.type(np.inf)) if low < ends[0] else low
    high = np.nextafter(high, dtype.type(0)) if high > ends[1] else high
    return jnp.asarray(low), jnp.asarray(high)


def _surplus(target, curve):
    """By how much the certified number exceeds the allowed one, negative where it does not, never
    zero. Of probabilities log(log allowed/log certified): that is nearly a straight line in the
    parameter's logarithm, as log of a small probability goes with a power of the parameter.
    """
    certified, allowed = map(jnp.asarray, target.certified(curve))
    room = _ROOM * xp.finfo(certified.dtype).eps
    certified, allowed = certified.astype(xp.float64), allowed.astype(xp.float64)
    log_certified, log_allowed = jnp.log(certified), jnp.log(allowed)
    holds = certified <= allowed * (1 - room * (1 + jnp.abs(log_allowed)))
    if target.name == "mu":
        size = log_certified - log_allowed
    else:
        size = jnp.log(-log_allowed) - jnp.log(jnp.maximum(-log_certified, 0.0))
        holds = holds | (allowed >= 1)
    size = jnp.abs(jnp.where(jnp.isnan(size), _FAR, size))
    return jnp.max(jnp.where(holds, -1.0, 1.0) * jnp.clip(size, _LEAST, _FAR))


def _encloses(s):
    """Does the target hold at one end and fail at the other?"""
    return s.last[1] * s.other[1] < 0


def _between(last, other, integer):
    """The first and the last parameter inside a bracket."""
    low, high = jnp.minimum(last[0], other[0]), jnp.maximum(last[0], other[0])
    return _neighbours(low, integer)[1], _neighbours(high, integer)[0]


def _next_place(last, other, before, widths):
    """(log of the next parameter, the widths of the bracket) by Chandrupatla's method.

    The parabola that has the parameter's logarithm as a function of the surplus, through all three
    points, where it is monotone between the ends; else the middle, and also where three
    evaluations have not halved the bracket. Source: T. R. Chandrupatla 1997, Advances in
    Engineering Software 28, 145.
    """
    (a, at_a), (b, at_b), (c, at_c) = (
        (jnp.log(point.astype(xp.float64)), at) for point, at in (last, other, before)
    )
    width = jnp.abs(b - a)
    share, drop = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    monotone = (drop**2 < share) & ((1 - drop) ** 2 < 1 - share)
    by_parabola = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * (
        at_a / (at_c - at_a) * at_b / (at_c - at_b)
    )
    good = monotone & (width < 0.5 * widths[2])
    # no nearer to an end than the accuracy: so both ends approach the answer
    edge = jnp.minimum(0.5, 0.5 * _WIDTH / width)
    move = jnp.clip(jnp.where(good, by_parabola, 0.5), edge, 1 - edge)
    return a + move * (b - a), jnp.stack([width, widths[0], widths[1]])
