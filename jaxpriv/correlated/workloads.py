"""Workloads: what is computed from all gradients, and the error that the noise makes in it.

A training that starts at theta_0 is at theta_t = theta_0 - (A x)_t, and what its noise adds is
A C^-1 g. The rows of B = A C^-1 are the standard deviations of the noise in each iterate.
"""

from typing import Any

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import BELOW_ONE, NONNEGATIVE, as_parameter, check_number, is_traced
from jaxpriv._pytree import pytree
from jaxpriv._types import Answer, Numbers
from jaxpriv.correlated import series
from jaxpriv.correlated.participation import ONCE, Participation
from jaxpriv.correlated.reach import sensitivity
from jaxpriv.correlated.strategies import Dense, Strategy, check_strategy

_ORDER = 64  # states of a recurrence up to which it is followed, step by step


@pytree
class Workload:
    """SGD's iterates: m_t = momentum m_(t-1) + x_t, theta_t = theta_(t-1) - rates_t m_t.

    rates: `Float[Array, "steps"]` >= 0, or None: 1 in every step. momentum: in [0, 1).
    Made by `workload`; without either these are the prefix sums of the gradients.
    """

    rates: Any
    momentum: Any

    def matrix(self, steps: int) -> Answer:
        """A, `Float[Array, "steps steps"]`: A_ts = sum of rates_r momentum^(r-s), s <= r <= t."""
        powers = self.momentum ** np.maximum(np.subtract.outer(np.arange(steps),
                                                               np.arange(steps)), 0)
        rates = np.ones(steps) if self.rates is None else self.rates
        return xp.cumsum(rates[:, None] * powers * np.tri(steps), 0)


PREFIX_SUMS = Workload(None, 0.0)


def workload(rates: Numbers | None = None, momentum: Numbers = 0.0) -> Workload:
    """A `Workload` of a schedule of learning rates, and heavy-ball momentum.

    Args:
        rates: `Float[Array, "steps"]` in [0, inf), or None for 1 in every step.
        momentum: `Float[Array, ""]` in [0, 1).

    Raises: ValueError for values outside their range.

        >>> print(workload([1.0, 1.0, 0.5], momentum=0.5).matrix(3))
        [[1.    0.    0.   ]
         [1.5   1.    0.   ]
         [1.625 1.25  0.5  ]]
    """
    for name, value, domain in (("rates", rates, NONNEGATIVE), ("momentum", momentum, BELOW_ONE)):
        if value is not None and not is_traced(value):
            check_number(name, value, domain)
    if rates is not None:
        rates = xp.asarray(as_parameter("rates", rates, NONNEGATIVE))
        if rates.ndim != 1:
            raise ValueError(f"rates has shape {rates.shape}; accepted: one rate for each step")
    momentum = as_parameter("momentum", momentum, BELOW_ONE)
    if np.shape(momentum):
        raise ValueError(f"momentum has shape {np.shape(momentum)}; accepted: one number")
    return Workload(rates, momentum)


def row_norms(strategy: Strategy, steps: int, workload: Workload = PREFIX_SUMS) -> Answer:
    """The lengths of the rows of B = A C^-1: standard deviations of the noise in each iterate.

    Args:
        strategy: of `jaxpriv.correlated`. steps: 1, 2, ... workload: a `Workload`.

    Returns: `Float[Array, "steps"]`, in units of g. O(T log T) for equal rates; for a schedule
        O(T n^2) where C^-1 is a recurrence of n <= 64 states, and O(T^2) time, O(T) memory, else
        (of its derivative O(T^2) memory).
    Raises: ValueError for a schedule, or a dense matrix, of another number of steps.

        >>> from jaxpriv import correlated
        >>> print(row_norms(correlated.Identity(), 4).round(3))
        [1.    1.414 1.732 2.   ]
    """
    check_strategy(strategy, steps)
    if not isinstance(workload, Workload):
        raise ValueError(f"workload = {workload!r}; accepted: a correlated.workload(...)")
    rates = workload.rates
    if rates is not None and rates.shape[0] != steps:
        raise ValueError(f"rates are for {rates.shape[0]} steps, not {steps}")
    if isinstance(strategy, Dense):
        # B C = A, of which numpy solves C^T B^T = A^T
        rows = xp.linalg.solve(strategy.matrix.T, workload.matrix(steps).T)
        return xp.sqrt(xp.sum(rows * rows, 0))
    if rates is None:
        column = xp.cumsum(_averaged(strategy, steps, workload))
        return xp.sqrt(xp.cumsum(column * column))
    order = (strategy.recurrence().read.shape[0] if strategy.bands() != 1 else 0)
    follow = _by_recurrence if order <= _ORDER else _by_columns
    return xp.sqrt(follow(strategy, steps, workload))


def error(
    strategy: Strategy, steps: int, participation: Participation = ONCE, loss: str = "mean",
    workload: Workload = PREFIX_SUMS,
) -> Answer:
    """The error of all iterates at equal privacy: that of the rows of B times the sensitivity.

    Args:
        strategy, steps, workload: as `row_norms`. participation: as `sensitivity`.
        loss: "mean", the root of the mean of squares, |B|_F/sqrt(T), or "max", the longest row.

    Returns: `Float[Array, ""]`: times the noise multiplier of one Gaussian release it is the
        noise's standard deviation in an iterate, in clipping norms. Differentiable.
    Raises: ValueError as `row_norms` and `sensitivity`, and for another loss.
    Source: Denisov et al. 2022 (arXiv:2202.08312); Choquette-Choo et al. 2023 (arXiv:2306.08153).

        >>> from jaxpriv import correlated
        >>> print(f"{error(correlated.Identity(), 1024):.3f}")
        22.638
        >>> print(f"{error(correlated.banded_square_root(1024), 1024):.3f}")
        3.110
    """
    if loss not in ("mean", "max"):
        raise ValueError(f"loss = {loss!r}; accepted: 'mean', 'max'")
    norms = row_norms(strategy, steps, workload)
    size = xp.max(norms) if loss == "max" else xp.sqrt(xp.mean(norms * norms))
    return size * sensitivity(strategy, steps, participation)


def _averaged(strategy, steps, workload):
    """The first column of M C^-1, M the momentum's Toeplitz matrix."""
    column = strategy.inverse_column(steps)
    if isinstance(workload.momentum, float) and workload.momentum == 0:
        return column
    return series.multiply(column, workload.momentum ** np.arange(steps, dtype=column.dtype), steps)


def _by_columns(strategy, steps, workload):
    """Row lengths squared, from B's columns one after the other: B_ts = sum of rates_r h_(r-s)."""
    column = _averaged(strategy, steps, workload)
    index = np.arange(steps)

    def add(total, start):
        # the rates from here on, then zeros, which leave the rows' ends alone
        moved = xp.where(index >= start, workload.rates * column[(index - start) % steps], 0.0)
        entries = xp.cumsum(moved)
        return total + entries * entries, None

    total = xp.zeros(steps, column.dtype)
    return xp.scan(add, xp.like(total, (column, workload.rates)), index)[0]


def _by_recurrence(strategy, steps, workload):
    """Row lengths squared: variances of the noise in theta, from the covariance of the state, the
    momentum and theta, which one linear map moves from step to step.
    """
    decay, read, write, direct = strategy.recurrence()
    order = read.shape[0]
    momentum = xp.reshape(xp.asarray(workload.momentum), (1,))
    zeros = np.zeros((order, 2))
    averaged = xp.concatenate([read, momentum, 0 * momentum])  # m_t, but for direct g_t
    new = xp.reshape(xp.asarray(direct), (1,))
    states = xp.concatenate([decay, xp.like(zeros, decay)], 1)

    def step(covariance, rate):
        theta = rate * averaged + np.eye(1, order + 2, order + 1)[0]
        move = xp.concatenate([states, averaged[None], theta[None]])
        push = xp.concatenate([write, new, rate * new])
        covariance = move @ covariance @ move.T + push[:, None] * push
        return covariance, covariance[-1, -1]

    start = xp.like(np.zeros((order + 2, order + 2)), (decay, workload.rates))
    return xp.scan(step, start, workload.rates)[1]
