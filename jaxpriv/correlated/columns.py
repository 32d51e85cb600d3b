"""Dense strategies with columns of one length: the least mean error of all banded matrices.

With B = A C^-1 and X = C^T C the mean squared error is tr(A^T A X^-1)/T, convex in X. Where columns
that one record reaches are orthogonal (it takes part once, or steps apart by as many as there are
bands), the squared sensitivity is so many times the largest X_ii, and since the error falls with X
the least one has all X_ii equal. The band of X is the band of C, of which X = C^T C is a Cholesky
factorisation from the end. So the least error of banded C with columns of length 1 is the least of
a convex problem, without another local minimum; it is descended to in C, whose entries are free.
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from jaxpriv.correlated.descent import minimised
from jaxpriv.correlated.strategies import Dense, Strategy, check_strategy


def with_unit_columns(strategy: Strategy, steps: int) -> Dense:
    """The same strategy as a matrix whose columns are divided by their lengths, which differ where
    the last rows cut them off.

    Args:
        strategy: of `jaxpriv.correlated`. steps: 1, 2, ...

    Returns: a `Dense` strategy of float64: of the same sensitivity where columns are orthogonal,
        and a smaller error.
    Source: Choquette-Choo et al. 2023 (arXiv:2306.08153), Algorithm 9, where noise is streamed.

        >>> from jaxpriv import correlated
        >>> found = with_unit_columns(correlated.banded_toeplitz([1.0, 0.75]), 3)
        >>> print(found.matrix)
        [[0.8 0.  0. ]
         [0.6 0.8 0. ]
         [0.  0.6 1. ]]
    """
    check_strategy(strategy, steps)
    if isinstance(strategy, Dense):
        return Dense(np.asarray(strategy.matrix) / np.linalg.norm(strategy.matrix, axis=0))
    column = np.asarray(strategy.column(steps), np.float64)
    behind = np.subtract.outer(np.arange(steps), np.arange(steps))
    matrix = np.where(behind >= 0, column[np.maximum(behind, 0)], 0.0)
    return Dense(matrix / np.linalg.norm(matrix, axis=0))


def least_mean_error(strategy, steps, workload, iterations, tolerance):
    """(the dense strategy of unit columns and the same band with the least mean error, how many
    steps of the descent it took).
    """
    rows, columns = np.nonzero(np.asarray(strategy.matrix))
    wanted = np.asarray(workload.matrix(steps), np.float64)

    def unit(entries):
        matrix = jnp.zeros((steps, steps)).at[rows, columns].set(
            entries, mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True)
        return matrix / jnp.linalg.norm(matrix, axis=0)

    def objective(entries):
        # the columns of B^T = C^-T A^T
        errors = solve_triangular(unit(entries).T, wanted.T, lower=False)
        return 0.5 * jnp.log(jnp.mean(errors * errors))

    entries, taken = minimised(objective, strategy.matrix[rows, columns], iterations, tolerance)
    matrix = np.zeros((steps, steps))
    matrix[rows, columns] = entries
    return Dense(matrix / np.linalg.norm(matrix, axis=0)), taken
