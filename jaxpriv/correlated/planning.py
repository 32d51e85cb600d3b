"""A training with banded noise and cyclic Poisson sampling: bands, sampling rate and noise."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxpriv._checks import check_whole
from jaxpriv.correlated.optimum import optimise
from jaxpriv.correlated.participation import CyclicPoisson
from jaxpriv.correlated.privacy import curve, noise_multiplier
from jaxpriv.correlated.strategies import banded_square_root
from jaxpriv.correlated.workloads import PREFIX_SUMS, Workload
from jaxpriv.curve import Curve


class Candidate(NamedTuple):
    """One choice of bands and batch size, and what it comes to.

    strategy: columns of length 1 at most. participation: its `CyclicPoisson`. noise_multiplier: of
    `curve`. error: standard deviation of the noise in an iterate whose steps are means over
    batch_size records, in clipping norms.
    """

    bands: int
    batch_size: int
    strategy: Any
    participation: CyclicPoisson
    noise_multiplier: float
    error: float

    def curve(self, steps: int) -> Curve:
        """The trade-off curve of the training: `correlated.curve`."""
        return curve(self.strategy, self.noise_multiplier, steps, self.participation)


class Plan(NamedTuple):
    """best: the `Candidate` of the least error; candidates: all that were tried."""

    best: Candidate
    candidates: tuple[Candidate, ...]


def plan(
    steps: int, dataset_size: int, batch_size: int | Sequence[int], *,
    bands: Sequence[int] | None = None, loss: str = "mean", workload: Workload = PREFIX_SUMS,
    **target: Any,
) -> Plan:
    """The banded strategy, and the rate of its cyclic Poisson sampling, that add the least error
    to the iterates at a privacy target.

    The more bands, the better the noises cancel; but the data are divided into as many groups, and
    the rate within a group grows as the batch does not: less is gained by sampling. One band is
    DP-SGD, as many as the groups that a batch fills once are epochs without sampling. Each number
    of bands has its own coefficients, optimised, and its own noise, calibrated.

    Args:
        steps: 1, 2, ... dataset_size: number of records. batch_size: the expected number in a step,
            1 ... dataset_size, or a list of several to choose from.
        bands: a list of numbers to choose from, 1 ... dataset_size/batch_size and steps; by default
            powers of 2 and the largest.
        loss, workload: as `error`. target: one target as `jaxpriv.calibrate` takes it.

    Returns: a `Plan`. Errors are of means over a batch, so that batch sizes compare; a larger batch
        has the smaller error at the price of more gradients, which is for you to weigh.
    Guarantee: the target holds at every candidate's noise_multiplier, see `noise_multiplier`.
    Raises: ValueError for values outside their range, and an impossible target.
    Source: Choquette-Choo et al. 2023 (arXiv:2306.08153); McKenna 2024
        (arXiv:2405.15913).

        >>> from jaxpriv import correlated
        >>> found = correlated.plan(steps=64, dataset_size=6400, batch_size=400, bands=[1, 16],
        ...                         epsilon=8.0, delta=1e-5)
        >>> print(*(f"{one.bands}: {one.error:.5f}" for one in found.candidates), found.best.bands)
        1: 0.00997 16: 0.00705 16
    """
    check_whole("steps", steps)
    check_whole("dataset_size", dataset_size)
    sizes = _list("batch_size", batch_size, dataset_size)
    optima: dict = {}
    found = []
    for size in sizes:
        most = min(steps, dataset_size // size)
        for count in _powers(most) if bands is None else _list("bands", bands, most):
            if count not in optima:
                optima[count] = optimise(banded_square_root(count), steps,
                                         CyclicPoisson(count, 1.0), loss, workload)
            strategy, error, _ = optima[count]
            participation = CyclicPoisson(count, size / (dataset_size // count))
            noise = noise_multiplier(strategy, steps, participation, **target)
            found.append(Candidate(count, size, strategy, participation, float(noise),
                                   float(error * noise / size)))
    return Plan(min(found, key=lambda one: one.error), tuple(found))


def _powers(most):
    return sorted({most} | {2**k for k in range(most.bit_length())})


def _list(name, values, most):
    values = list(np.atleast_1d(np.asarray(values)).tolist())
    for value in values:
        check_whole(name, value, most=most)
    return values
