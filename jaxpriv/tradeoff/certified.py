"""Bounds as they leave the library: of the parameters as they were given, in float64, rounded
outward in the dtype returned.

Rounding in between is the engines' business (`Experiment.bracket`). Here are the roundings at both
ends: numbers that a processor takes for zero, fractional numbers of steps,
and results in a narrower dtype.
"""

import functools
import itertools
import operator
import warnings

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff import evaluate
from jaxpriv.tradeoff.experiment import DEEPEST

_WIDE = 3e-5  # relative width of a bracket from which on other means are tried
_TINY = np.finfo(np.float64).tiny


class WideBracket(UserWarning):
    """A certified bracket is right, but wider than was asked for."""


def warn_if_wide(widths, asked):
    """A warning where brackets of epsilon are wider than was asked for."""
    widths = np.asarray(widths)
    wide = widths > asked
    if np.any(wide):
        warnings.warn(
            f"brackets are up to {np.max(widths[wide]):.1e} wide in epsilon, where {asked:g} was "
            "asked for: what is proven leaves room, a lattice's transforms round, or a line ends",
            WideBracket,
            stacklevel=3,
        )


def as_number(value):
    """A number, or an array, that is not rounded to JAX's default dtype."""
    return value if isinstance(value, jax.Array) else np.asarray(value, np.float64)


def bounds_of_delta(experiment, epsilon):
    """(lower, upper) of a certified delta."""
    if is_traced((experiment, epsilon)):
        lower, upper = certified(evaluate.bounds_of_delta, experiment, epsilon,
                                 nothing=lambda eps: xp.exp(no_loss(eps)) * (1 - 1e-13))
        moved = _moved_at_zero(epsilon, lower.dtype)
        small = moved > 0
        return (xp.where(small, xp.maximum(_down(lower - moved), 0.0), lower),
                xp.where(small, xp.minimum(_up(upper + moved), 1.0), upper))
    return probabilities(*bounds_of_log_delta(experiment, epsilon))


def probabilities(lower, upper):
    """Concrete bounds of a probability from those of its logarithm, rounded outward."""
    with np.errstate(under="ignore"):
        low, high = np.exp(lower) * (1 - 4e-16), np.exp(upper) * (1 + 4e-16)
    low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.maximum(low, 0.0), np.where(upper == -np.inf, 0.0, np.minimum(high, 1.0))[()]


def no_loss(epsilon):
    """A lower bound of every log delta(epsilon): that of a mechanism without any loss."""
    negative = epsilon < 0
    return xp.where(
        negative, log1mexp(xp.where(negative, epsilon, -1.0)) * (1 + 1e-13) - 1e-13, -xp.inf
    )


def bounds_of_log_delta(experiment, epsilon):
    """(lower, upper) of a certified log delta."""
    lower, upper = certified(
        by_all_means(evaluate.bounds_of_log_delta, logarithms=True), experiment, epsilon,
        nothing=no_loss,
    )
    if not is_traced((experiment, epsilon)):
        return lower, upper
    moved = _moved_at_zero(epsilon, lower.dtype)
    small = moved > 0
    # log(e^b -+ m) = b + log1p(-+m e^-b), and m e^-b < 1/4 is left of what is followed
    deep = xp.log(xp.where(small, 4 * moved, 1.0))
    share = xp.where(small, moved, 0.0) * xp.exp(-xp.maximum(lower, deep))
    less = xp.where(lower > deep, _down(lower + xp.log1p(-share)), -xp.inf)
    more = xp.minimum(_up(xp.logaddexp(upper, deep)), 0.0)
    return xp.where(small, less, lower), xp.where(small, more, upper)


def _moved_at_zero(epsilon, dtype):
    """How far delta may be from where XLA looks, zero or the least normal number, because
    epsilon is a subnormal one: |d delta/d eps| <= e^eps, over at most twice that number; else 0.
    """
    least = xp.finfo(getattr(epsilon, "dtype", dtype)).tiny
    with jax.enable_x64(True):
        lost = xp.isnan(_widened(epsilon, xp.nan)) & ~xp.isnan(_widened(epsilon, 1.0))
    return xp.where(lost, xp.asarray(4 * least, dtype), xp.asarray(0.0, dtype))


def _down(value):
    return xp.nextafter(value, xp.asarray(-xp.inf, value.dtype))


def _up(value):
    return xp.nextafter(value, xp.asarray(xp.inf, value.dtype))


def bounds_of_epsilon(experiment, delta):
    """(lower, upper) of a certified epsilon at delta."""
    lowest, highest = _logarithms(delta)
    if not is_traced(delta):
        # the logarithms are exact; a larger delta is safe for what else is asked: is as much told?
        delta = np.where(np.asarray(delta) > 0, np.fmax(delta, _TINY), delta)
    bounds_of = by_all_means(evaluate.bounds_of_epsilon)
    return certified(bounds_of, experiment, lowest, highest, delta, nothing=_no_epsilon)


def _no_epsilon(lowest, highest, delta):
    """A lower bound of every epsilon."""
    del lowest, highest
    return xp.where(xp.isnan(delta), xp.nan, 0.0)


def bounds_of_beta(experiment, alpha):
    """(lower, upper) of a certified type II error at alpha."""

    def nothing(level):
        return xp.minimum((1 - level) * (1 + 1e-15), 1.0)

    bounds_of = by_all_means(evaluate.bounds_of_beta)
    return certified(bounds_of, experiment, alpha, nothing=nothing, falling=True)


def _logarithms(delta):
    """(lower, upper) of log delta, from the digits that are there: NumPy knows subnormal numbers,
    XLA takes them for zero.
    """
    if not is_traced(delta):
        with np.errstate(divide="ignore"):
            found = np.log(np.asarray(delta, np.float64))
        return found, found
    with jax.enable_x64(True):
        highest = xp.log(_widened(delta, 1.0))
        known = _widened(delta, xp.nan)
        # log of the smallest subnormal number
        deepest = -104.0 if delta.dtype == xp.float32 else -746.0
        return xp.where(xp.isnan(known) & ~xp.isnan(delta), deepest, highest), highest


def certified(bounds_of, experiment, *values, nothing, falling=False, least=0.0):
    """(lower, upper) of bounds_of(experiment, *values), a pair that grows with privacy loss, or
    falls with it. least: which number stands below subnormal values, by NumPy.

    Concrete: NumPy float64. Traced: JAX, in float64 where that is enabled, else in float32, rounded
    outward. XLA computes with zero in the place of numbers below the smallest normal one: all
    parameters grow with privacy loss, so such a one is taken for the smallest normal number by what
    bounds from the strong side; `nothing`(*values), what holds without any loss, bounds from the
    other.
    """
    traced = is_traced((experiment, values))
    wide_out = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    if not traced:
        found = [_of_whole_steps(bounds_of, falling, *arguments)
                 for arguments in _without_subnormals(experiment, values, least)]
        low, high = (np.stack([np.asarray(bounds[side]) for bounds in found]) for side in (0, 1))
        return _beyond_subnormals(np.min(low, 0), np.max(high, 0))
    with jax.enable_x64(True):
        marked = jax.tree.map(lambda leaf: _widened(leaf, xp.nan), experiment)
        told = [xp.isnan(leaf) | ~xp.isnan(_widened(leaf, xp.nan)) for leaf in values]
        parameters, values = jax.tree.map(lambda leaf: _widened(leaf, 1.0), (experiment, values))
        if experiment.whole(up=True) is experiment:  # which the numbers tell before they are traced
            bounds = bounds_of(parameters, *values)
        else:
            bounds = _of_whole_steps(bounds_of, falling, parameters, values)
        shape = experiment.batch_shape()
        seen = (
            marked.aligned(shape, xp.float64).defined()
            | ~parameters.aligned(shape, xp.float64).defined()
        )
        if falling:  # in the values too, from which the strong side is kept, not the weak one
            seen &= functools.reduce(operator.and_, told)
        weak = xp.where(seen, bounds[falling], nothing(*values))
        lower, upper = (bounds[0], weak) if falling else (weak, bounds[1])
        return (lower, upper) if wide_out else _narrowed(lower, upper)


def _widened(leaf, least):
    """A traced number in float64; where it is subnormal,
    the smallest normal number times `least`.
    """
    if xp.is_bool(leaf):
        return leaf
    value = xp.asarray(leaf)
    if value.dtype in (xp.float32, xp.float64):
        integer = xp.int32 if value.dtype == xp.float32 else xp.int64
        tiny = xp.asarray(xp.finfo(value.dtype).tiny, value.dtype)
        bits = xp.bits_of(xp.stop_gradient(value), integer)
        size = bits & xp.iinfo(integer).max
        lost = (size > 0) & (size < xp.bits_of(tiny, integer))
        value = xp.where(lost, xp.where(bits < 0, -tiny, tiny) * least, value)
    return value.astype(xp.float64)


def _beyond_subnormals(low, high):
    """Of concrete bounds those next to zero moved outward: what was computed of subnormal numbers,
    or ended at the least normal one, is right to a few of its last digits, of which it has not so
    many.
    """
    small = (low > 0) & (low < 2 * _TINY)
    return (np.where(small, 0.0, low)[()],
            np.where((high > 0) & (high < _TINY), _TINY, high)[()])


def _without_subnormals(experiment, values, least):
    """The arguments in float64, once; with zero (of values `least`) and the least normal number
    instead where the curve, or any value, is subnormal.
    """

    def float64(leaf):
        return leaf if xp.is_bool(leaf) else np.asarray(leaf, np.float64)

    def lost(leaf):
        if leaf.dtype != bool:
            return (leaf != 0) & (np.abs(leaf) < _TINY)
        return np.zeros(leaf.shape, bool)

    def replaced(tree, least):
        return jax.tree.map(
            lambda leaf: (
                np.where(lost(leaf), np.copysign(least, leaf), leaf) if lost(leaf).any() else leaf
            ),
            tree,
        )

    given = jax.tree.map(float64, (experiment, values))
    ends = [
        [replaced(tree, end) for end in (lowest, _TINY)]
        if any(lost(np.asarray(leaf)).any() for leaf in jax.tree.leaves(tree)) else [tree]
        for tree, lowest in zip(given, (0.0, least))
    ]
    return list(itertools.product(*ends))


def _of_whole_steps(bounds_of, falling, experiment, values):
    """The bracket over the whole numbers of steps next to fractional ones, one after the other: a
    program of both is as large as that of one.
    """
    if experiment.whole(up=True) is experiment:
        return bounds_of(experiment, *values)
    shape = experiment.batch_shape()
    both = [experiment.whole(up).aligned(shape, xp.float64) for up in (False, True)]
    low, high = xp.each(lambda one: bounds_of(one, *values), xp.stacked(both))
    return (low[1], high[0]) if falling else (low[0], high[1])


def by_all_means(bounds_of, logarithms=False):
    """Bounds by the experiment's first means; by NumPy those that are wide are narrowed by others,
    which may take a second each: for what is asked once.
    """

    def narrowed(experiment, *values):
        if xp.any_jax(experiment, values):
            return bounds_of(experiment, *values)
        means = experiment.means()
        low, high = (np.array(bound) for bound in bounds_of(next(means), *values))
        shape = low.shape
        low, high = low.ravel(), high.ravel()
        while True:
            with np.errstate(invalid="ignore"):
                allowed = _WIDE * (1.0 if logarithms else np.abs(high))
                wide = ((high - low > allowed) | (high == np.inf)) & (high > -np.inf)
                wide &= ~(logarithms & (high < DEEPEST))
            other = next(means, None) if wide.any() else None
            if other is None:
                break
            spread = (
                other.aligned(shape, xp.float64),
                *(xp.broadcast_to(value, shape) for value in values),
            )
            flat = jax.tree.map(
                lambda leaf: leaf.reshape((-1, *leaf.shape[len(shape) :])), spread
            )
            lower, upper = bounds_of(*xp.row(flat, wide))
            low[wide], high[wide] = np.fmax(low[wide], lower), np.fmin(high[wide], upper)
        return low.reshape(shape), high.reshape(shape)

    return narrowed


def _narrowed(lower, upper):
    """float64 bounds in float32, moved outward where the conversion moved them
    inward, or lost them.
    """
    least = xp.finfo(xp.float32).tiny.astype(xp.float64)

    def cast(value, direction):
        rounded = xp.in_float32(value)
        inward, near = direction * (rounded - value) < 0, rounded.astype(xp.float32)
        moved = xp.where(inward, xp.nextafter(near, xp.float32(direction * xp.inf)), near)
        # next to zero there is no number: the least one away from it, or zero
        small = (value != 0) & (xp.abs(value) < least)
        outside = xp.float32(direction) * least.astype(xp.float32)
        return xp.where(small, xp.where(direction * value > 0, outside, xp.float32(0.0)), moved)

    return cast(lower, -1.0), cast(upper, 1.0)
