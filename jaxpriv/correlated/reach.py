"""Sensitivities: how far one record moves C x, all its steps together.

A record that takes part in the steps i of a pattern, with a gradient u_i of norm 1 at most, moves
C x by a length whose square is sum_ij X_ij <u_i, u_j> <= sum_ij |X_ij|, X = C^T C: with equality
for equal u where no X_ij is negative. So what counts is max over patterns of sum_ij |X_ij|; that
the u may be chosen by what was released before changes nothing (Denisov et al. 2022, Theorem 2.1).

Toeplitz, coefficients c, T steps: X_ij = sum_t c_t c_(t+j-i), t < T - j. Where c does not increase
and is not negative, X_ij falls with j - i, and with i at j - i fixed. The l-th step of a pattern is
(l-1) b or later, and any two are as far apart as these or farther: no pattern exceeds that of the
steps 0, b, 2b, ... (Kalinin and Lampert 2024, Theorem 2). Any other c is exceeded by the least
function above |c| that does not increase, whose X exceeds |X|. With at most b bands, b apart,
columns are orthogonal, and 0, b, 2b, ... is the worst pattern whatever the signs: they are longest.
"""

import math

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced
from jaxpriv._types import Answer
from jaxpriv.correlated.participation import ONCE, CyclicPoisson, MinSeparation, Participation
from jaxpriv.correlated.patterns import bounds_of_dense
from jaxpriv.correlated.strategies import Dense, Strategy, check_strategy

_ULP = 2.0**-52


def sensitivity(strategy: Strategy, steps: int, participation: Participation = ONCE) -> Answer:
    """How far one record moves C x, in clipping norms: |C u| at its largest.

    Args:
        strategy: of `jaxpriv.correlated`. steps: 1, 2, ... 1e7.
        participation: `MinSeparation`, or `CyclicPoisson`, for which this is the sensitivity of
            taking part once, the largest length of a column.

    Returns: `Float[Array, ""]`, differentiable in the strategy: exact to rounding where C is
        Toeplitz and non-increasing, or has no more bands than steps are apart, or a record takes
        part once; else an upper bound. Of a dense matrix the upper of `sensitivity_bounds`, and
        its derivative only for taking part once.
    Raises: ValueError for cyclic Poisson sampling of what has more bands than the cycle, and a
        dense matrix that has not as many rows as there are steps.
    Source: the module's docstring; Choquette-Choo et al. 2023 (arXiv:2306.08153).

        >>> from jaxpriv import correlated
        >>> print(f"{sensitivity(correlated.banded_square_root(8), 8):.4f}")
        1.3109
    """
    separation, count = _pattern(strategy, steps, participation)
    if isinstance(strategy, Dense):
        return _of_dense(strategy, separation, count)
    column = strategy.column(steps)
    # in units of the largest coefficient, whose square may be no number
    unit = xp.stop_gradient(xp.max(xp.abs(column)))
    unit = xp.where((unit > 0) & (unit < xp.inf), unit, 1.0)
    if _orthogonal(strategy, separation, count):
        return unit * xp.sqrt(_lengths_squared(column / unit, separation, count))
    return unit * xp.sqrt(_squared(non_increasing(column / unit), separation, count))


def sensitivity_bounds(
    strategy: Strategy, steps: int, participation: Participation = ONCE
) -> tuple[float, float]:
    """(lower, upper) with the exact `sensitivity` of this strategy in between.

    Args: as `sensitivity`; of concrete numbers.

    Returns: two floats. They differ by rounding where `sensitivity` is exact; else the lower is the
        length of one pattern's |C u|, and the upper holds for all.
    Guarantee: both sides, in float64, rounded outward, the coefficients' own rounding included.
    Raises: ValueError as `sensitivity`, and for tracers.

        >>> from jaxpriv import correlated
        >>> blt = correlated.buffered_toeplitz([0.9, 0.5], [0.2, 0.3])
        >>> low, high = sensitivity_bounds(blt, 1000, correlated.MinSeparation(100))
        >>> print(f"{low:.4f} {bool(0 < high - low < 1e-12 * low)}")
        3.9354 True
    """
    if is_traced(strategy):
        raise ValueError("sensitivity_bounds are of concrete numbers; `sensitivity` is traced")
    strategy = _in_float64(strategy)
    separation, count = _pattern(strategy, steps, participation)
    if isinstance(strategy, Dense):
        unit = _power_of_two(strategy.matrix)
        low, high = bounds_of_dense(strategy.matrix / unit, separation, count)
        return _outward(low, high, unit)
    with np.errstate(over="ignore", invalid="ignore"):
        column, doubt = strategy.column(steps), strategy.column_doubt(steps)
    if not np.all(np.isfinite(column + doubt)):
        return 0.0, math.inf
    unit = _power_of_two(column)
    low, high = _bounds_of_column(column / unit, doubt / unit, separation, count,
                                  _orthogonal(strategy, separation, count))
    return _outward(low, high, unit)


def _bounds_of_column(column, doubt, separation, count, orthogonal):
    steps = column.shape[0]
    if orthogonal:
        often = _columns_reaching(steps, separation, count)
        near = np.maximum(abs(column) - doubt, 0.0), abs(column) + doubt
        return tuple(math.sqrt(math.fsum(often * each * each)) for each in near)
    above = np.maximum.accumulate((abs(column) + doubt)[::-1])[::-1]
    rows = -(-steps // separation)
    # a sum of `rows` terms, less another: off by at most so many ulp of the terms' moduli
    blur = 4 * rows * _ULP
    slack = blur * _combined(abs(column), separation, rows) + _combined(doubt, separation, rows)
    least = np.maximum(abs(_combined(column, separation, count)) - slack, 0.0)
    most = _combined(above, separation, count) + blur * _combined(above, separation, rows)
    return math.sqrt(math.fsum(least * least)), math.sqrt(math.fsum(most * most))


def non_increasing(column):
    """The least function above |column| that does not increase."""
    return xp.running_max(abs(column)[::-1])[::-1]


def check_bands(strategy, cycle):
    """Refuse what has more bands than the cycle is long: its participations would not be apart."""
    bands = strategy.bands()
    if bands is None or bands > cycle:
        found = "any number of" if bands is None else bands
        raise ValueError(
            f"the strategy has {found} bands; cyclic Poisson sampling amplifies those with at "
            f"most cycle = {cycle}"
        )


def columns_apart(strategy, steps, participation):
    """Is no step of C x reached by two participations of one record?"""
    separation, count = _pattern(strategy, steps, participation)
    return _orthogonal(strategy, separation, count)


def _pattern(strategy, steps, participation):
    """(separation, how often) of the worst pattern."""
    check_strategy(strategy, steps)
    if not isinstance(participation, (MinSeparation, CyclicPoisson)):
        raise ValueError(
            f"participation = {participation!r}; accepted: MinSeparation(...), CyclicPoisson(...)"
        )
    if isinstance(participation, CyclicPoisson):
        check_bands(strategy, participation.cycle)
        return steps, 1
    return min(participation.separation, steps), participation.times(steps)


def _orthogonal(strategy, separation, count):
    """Is no step of a pattern reached by two participations?"""
    bands = strategy.bands()
    return count == 1 or (bands is not None and bands <= separation)


def _of_dense(strategy, separation, count):
    if count == 1:
        return xp.sqrt(xp.max(xp.sum(strategy.matrix * strategy.matrix, 0)))
    if is_traced(strategy):
        raise ValueError("a traced dense matrix has a sensitivity for participating once only")
    return bounds_of_dense(_in_float64(strategy).matrix, separation, count)[1]


def _combined(column, separation, count):
    """sum_l column shifted by l separation, l < count: |C u| has these entries."""
    steps = column.shape[0]
    rows = -(-steps // separation)
    padding = xp.zeros(rows * separation - steps, column.dtype)
    table = xp.reshape(xp.concatenate([column, xp.like(padding, column)]), (rows, separation))
    total = xp.cumsum(table, 0)
    if count < rows:
        total = xp.concatenate([total[:count], total[count:] - total[:-count]])
    return xp.reshape(total, (rows * separation,))[:steps]


def _squared(column, separation, count):
    vector = _combined(column, separation, count)
    return xp.sum(vector * vector)


def _lengths_squared(column, separation, count):
    """The squared lengths of the columns 0, separation, ... of C, added up."""
    often = _columns_reaching(column.shape[0], separation, count).astype(column.dtype)
    return xp.sum(often * column * column)


def _columns_reaching(steps, separation, count):
    """Of the columns 0, separation, ..., how many are long enough to have coefficient t: those
    that begin before steps - t.
    """
    return np.minimum(count, -(-(steps - np.arange(steps)) // separation)).astype(np.float64)


def _power_of_two(values):
    """By which the largest is near 1, so that no square that counts leaves the normal numbers."""
    return 2.0 ** min(int(np.frexp(np.max(abs(values)))[1]), 1023)


def _outward(low, high, unit):
    """Both, times a power of two, moved by more than the rounding of squares, roots and products.
    """
    return (max(float(low * (1 - 16 * _ULP) * unit) - 5e-324, 0.0),
            float(np.nextafter(high * (1 + 16 * _ULP) * unit, math.inf)))


def _in_float64(strategy):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), strategy)
