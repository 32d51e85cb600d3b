"""The strategy of the least error, among those of one shape."""

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import check_whole
from jaxpriv.correlated.columns import least_mean_error
from jaxpriv.correlated.descent import minimised
from jaxpriv.correlated.participation import ONCE, MinSeparation, Participation
from jaxpriv.correlated.reach import columns_apart, non_increasing
from jaxpriv.correlated.strategies import (
    BandedInverse,
    BandedToeplitz,
    BufferedToeplitz,
    Dense,
    Identity,
    Strategy,
    check_strategy,
)
from jaxpriv.correlated.workloads import PREFIX_SUMS, Workload, error

_TOLERANCE = 1e-10  # of log error: what several steps gained less than is left


class Optimum(NamedTuple):
    """strategy: with columns of length 1 at most, but for BLTs, whose diagonal is 1.
    error: its `error`, a float. iterations: how many steps of L-BFGS it took.
    """

    strategy: Any
    error: float
    iterations: int


def optimise(
    strategy: Strategy, steps: int, participation: Participation = ONCE, loss: str = "mean",
    workload: Workload = PREFIX_SUMS, iterations: int = 2000,
) -> Optimum:
    """The strategy of the least error at equal privacy, among those shaped as this one.

    Args:
        strategy: where to begin, which decides what is looked for: as many bands, buffers or, of
            a dense matrix, diagonals as it has. `banded_square_root(bands)`,
            `buffered_square_root(buffers, steps)`, `banded_inverse_square_root(bands)` are good
            beginnings; `with_unit_columns(strategy, steps)` of a banded one for dense matrices.
        steps, participation, loss, workload: as `error`, which is what is minimised.
        iterations: 1, 2, ...: the largest number of steps of L-BFGS.

    Returns: an `Optimum`, of NumPy arrays in float64; no worse than the beginning. A local
        optimum, but for dense matrices, whose least mean error is that of a convex problem.
    Raises: ValueError as `error`; for a dense matrix with more diagonals than participations are
        apart, unless a record takes part once, and for its loss "max".
    Source: McKenna 2024 (arXiv:2405.15913) for banded Toeplitz matrices, McMahan, Xu, Zhang 2024
        (arXiv:2408.08868) for BLTs, Choquette-Choo et al. 2023 (arXiv:2306.08153) for dense ones.

        >>> from jaxpriv import correlated
        >>> begin = correlated.banded_square_root(4)
        >>> found = optimise(begin, steps=64)
        >>> print(f"{correlated.error(begin, 64):.4f} {found.error:.4f}")
        3.3511 3.2406
    """
    check_whole("iterations", iterations)
    check_strategy(strategy, steps)
    strategy = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), strategy)
    begin = error(strategy, steps, participation, loss, workload)
    if isinstance(strategy, Identity):
        return Optimum(strategy, float(begin), 0)
    if isinstance(strategy, Dense):
        _check_dense(strategy, participation, loss)
        found, taken = least_mean_error(strategy, steps, workload, iterations, _TOLERANCE)
    else:
        free, made, normal = _SHAPES[type(strategy)]
        if isinstance(strategy, BandedToeplitz) and not columns_apart(strategy, steps,
                                                                       participation):
            free, made = _falls, _falling

        def objective(parameters):
            return xp.log(error(made(parameters), steps, participation, loss, workload))

        found, taken = minimised(objective, free(strategy), iterations, _TOLERANCE)
        strategy, found = normal(strategy, steps), normal(made(found), steps)
    least = error(found, steps, participation, loss, workload)
    if not least <= begin:  # of a beginning that was the best one already, but for rounding
        found, least = strategy, begin
    return Optimum(found, float(least), taken)


def _check_dense(strategy, participation, loss):
    if loss != "mean":
        raise ValueError(f"loss = {loss!r}; dense matrices are optimised for 'mean'")
    bands = strategy.bands()
    apart = participation.separation if isinstance(participation, MinSeparation) else bands
    once = isinstance(participation, MinSeparation) and participation.most == 1
    if not once and bands > apart:
        raise ValueError(
            f"the matrix has {bands} diagonals, and participations are {apart} apart; dense "
            "matrices are optimised with at most as many, or for participating once"
        )


def _logits(strategy):
    """Of a BLT: decays in (0, 1) and scales above 0, as any real numbers."""
    decay = np.clip(strategy.decay, 1e-12, 1 - 1e-12)
    scale = np.maximum(strategy.scale, 1e-12)
    return np.log(decay / (1 - decay)), np.log(scale)


def _buffered(parameters):
    return BufferedToeplitz(xp.sigmoid(parameters[0]), xp.exp(parameters[1]))


def _falls(strategy):
    """Of coefficients that do not increase, whose sensitivity is smooth and exact: the square roots
    of what they lose.
    """
    column = np.asarray(non_increasing(strategy.coefficients))
    return np.sqrt(column - np.append(column[1:], 0.0))


def _falling(parameters):
    return BandedToeplitz(xp.cumsum((parameters * parameters)[::-1])[::-1])


def _unit_column(strategy, steps):
    return BandedToeplitz(strategy.coefficients / np.linalg.norm(strategy.coefficients[:steps]))


def _unit_inverse(strategy, steps):
    return BandedInverse(strategy.coefficients * np.linalg.norm(strategy.column(steps)))


# (free parameters of a strategy, the strategy of such, that strategy at its usual scale)
_SHAPES: dict = {
    BandedToeplitz: (lambda strategy: strategy.coefficients, BandedToeplitz, _unit_column),
    BandedInverse: (lambda strategy: strategy.coefficients, BandedInverse, _unit_inverse),
    BufferedToeplitz: (_logits, _buffered, lambda strategy, steps: strategy),
}
