"""jax-privacy: the curve of its execution plans, and of its ways to select batches."""

import dataclasses
import math
from functools import singledispatch
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation
from jax_privacy import batch_selection
from jax_privacy.experimental import accounting
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

from jaxpriv import worst_case
from jaxpriv._checks import NONNEGATIVE, POSITIVE, as_parameter, check_whole
from jaxpriv.bridges import dp_accounting
from jaxpriv.curve import Curve

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
NULL = NeighboringRelation.REPLACE_SPECIAL
SHRUNK = 1 - 2**-48  # by more than the rounding of a few products and a norm


def curve(config: Any) -> Curve:
    """The curve of an execution plan: of the noise that it adds, not of the event that it states.

    Args:
        config: a `jax_privacy.experimental.execution_plan.BandMFExecutionPlanConfig`. Its `plan`
            alone does not tell which data sets are neighbours, nor how much noise is added.

    Returns: a symmetric `Curve` for the neighbouring relation of `config.accountant`.
    Guarantee: all bounds, by `bridges.dp_accounting.curve`, in real arithmetic, for a loop that
        does as the plan says. The noise is what `plan.noise_addition_transform` adds, in units of
        one record's clipping norm, over the longest column of the strategy in use. That is the
        event's noise multiplier but in two cases (jax-privacy 2.0): with REPLACE_ONE it is twice
        that, and with `column_normalize` it is that times the norm of `strategy`, so that the
        event claims too little noise or, for a norm below 1, too much.
    Raises: TypeError for anything else; `bridges.dp_accounting.Unsupported`, a ValueError, for what
        no curve is known of.
    Source: Choquette-Choo et al. 2023, Theorem 4; `jaxpriv.correlated.privacy` has the proof.

        >>> import numpy as np
        >>> from jax_privacy.experimental import execution_plan
        >>> from jaxpriv.bridges import jax_privacy
        >>> config = execution_plan.BandMFExecutionPlanConfig(
        ...     iterations=1000, strategy=np.array([1.0, 0.5, 0.375, 0.3125]), sampling_prob=0.04,
        ...     epsilon=None, delta=None, noise_multiplier=2.0)
        >>> print(f"{jax_privacy.curve(config).epsilon(1e-5):.4f}")
        1.3712
    """
    if not isinstance(config, BandMFExecutionPlanConfig):
        raise TypeError(
            f"config must be a BandMFExecutionPlanConfig, not {type(config).__name__}; a plan "
            "alone tells neither the neighbouring relation nor the noise"
        )
    relation = config.accountant.neighboring_relation
    event = config.plan.dp_event
    more = (2 if relation is REPLACE else 1) * (
        float(np.linalg.norm(config.strategy)) if config.column_normalize else 1.0
    )
    if more != 1:
        noise = _noise(event) * more * SHRUNK
        added = dataclasses.replace(config, noise_multiplier=noise, epsilon=None, delta=None)
        event = added.plan.dp_event
    return dp_accounting.curve(event, relation)


def dp_sgd(
    batches: Any, noise_multiplier: float, num_examples: int | None = None,
    neighboring_relation: Any = NULL,
) -> Curve:
    """The curve of DP-SGD with independent noise, on batches that jax-privacy selects.

    Args:
        batches: one of `jax_privacy.batch_selection`: `CyclicPoissonSampling`; `FixedBatchSampling`
            without replacement; `BallsInBinsSampling`, of which jax-privacy itself has only
            estimates by simulation; `UserSelectionStrategy` of any of them, then of users.
        noise_multiplier: in [0, inf), for balls-in-bins (0, inf): the standard deviation of the
            noise over the clipping norm of one record (of one user).
        num_examples: 1, 2, ...: of the data set (users), for batches of fixed size and cut ones.
        neighboring_relation: a `dp_accounting.NeighboringRelation`; REPLACE_SPECIAL is zero-out.

    Returns: a symmetric `Curve` of all `batches.iterations` steps.
    Guarantee: all bounds. A record of a cycle takes part in at most ceil(iterations/cycle_length)
        steps; that many are counted. In balls-in-bins these are the same steps of each cycle:
        one `worst_case.random_allocation` at noise_multiplier/sqrt(cycles).
    Raises: `bridges.dp_accounting.Unsupported`, a ValueError, for what no curve is known of, by
        name and reason; TypeError for what selects no batches; ValueError for numbers outside their
        range.
    Source: Choquette-Choo et al. 2023 for cycles; Chua et al. 2025 for balls-in-bins.

        >>> from jax_privacy.batch_selection import BallsInBinsSampling, CyclicPoissonSampling
        >>> from jaxpriv.bridges import jax_privacy
        >>> poisson = CyclicPoissonSampling(sampling_prob=0.01, iterations=1000)
        >>> print(f"{jax_privacy.dp_sgd(poisson, 1.0).epsilon(1e-5):.4f}")
        1.8282
        >>> dealt = BallsInBinsSampling(iterations=1000, cycle_length=100)
        >>> print(f"{jax_privacy.dp_sgd(dealt, 4.0).epsilon(1e-5):.4f}")
        0.3417
    """
    as_parameter("noise_multiplier", noise_multiplier, NONNEGATIVE)
    relation = NeighboringRelation(neighboring_relation)
    return _of_batches(batches, float(noise_multiplier), num_examples, relation)


def _noise(event):
    """Of the Gaussian noise of one step, whichever event it is."""
    while not hasattr(event, "noise_multiplier"):
        event = event.event
    return event.noise_multiplier


@singledispatch
def _of_batches(batches, noise, size, relation):
    del noise, size, relation
    if isinstance(batches, batch_selection.BatchSelectionStrategy):
        raise dp_accounting.Unsupported(batches, "has no pair that is known to dominate")
    raise TypeError(f"batches must be of jax_privacy.batch_selection, not {batches!r}")


@_of_batches.register
def _(batches: batch_selection.UserSelectionStrategy, noise, size, relation):
    return _of_batches(batches.base_strategy, noise, size, relation)


@_of_batches.register
def _(batches: batch_selection.CyclicPoissonSampling, noise, size, relation):
    cycle, most = batches.cycle_length, batches.truncated_batch_size
    drawn = batches.partition_type is batch_selection.PartitionType.INDEPENDENT
    if relation is ADD and cycle > 1 and not drawn:
        why = "of groups of equal size changes other records' groups, too, where one is added"
        raise dp_accounting.Unsupported(batches, why)
    common = {"num_bands": cycle, "sampling_prob": batches.sampling_prob}
    if most is None:
        event = accounting.amplified_bandmf_event(noise, batches.iterations, **common)
        return dp_accounting.curve(event, relation)
    if relation is ADD or (drawn and cycle > 1):
        why = "that is cut needs groups of a known size: EQUAL_SPLIT, and a record replaced"
        raise dp_accounting.Unsupported(batches, why)
    _check_size(batches, size)
    event = accounting.truncated_amplified_bandmf_event(
        noise, batches.iterations, **common,
        largest_group_size=size // cycle, truncated_batch_size=most,
    )  # fmt: skip
    return dp_accounting.curve(event, relation)


@_of_batches.register
def _(batches: batch_selection.FixedBatchSampling, noise, size, relation):
    _check_size(batches, size)
    event = accounting.fixed_dpsgd_event(
        noise, batches.iterations,
        dataset_size=size, batch_size=batches.batch_size, replace=batches.replace,
    )  # fmt: skip
    return dp_accounting.curve(event, relation)


@_of_batches.register
def _(batches: batch_selection.BallsInBinsSampling, noise, size, relation):
    del size
    if relation is REPLACE:
        why = "is known for the neighbouring relations ADD_OR_REMOVE_ONE and REPLACE_SPECIAL only"
        raise dp_accounting.Unsupported(batches, why)
    as_parameter("noise_multiplier", noise, POSITIVE)
    check_whole("cycle_length", batches.cycle_length)
    cycles = math.ceil(batches.iterations / batches.cycle_length)
    if cycles == 0:
        return worst_case.gaussian(0.0)
    once = noise / math.sqrt(cycles) * SHRUNK
    return worst_case.random_allocation(once, batches.cycle_length).symmetric()


def _check_size(batches, size):
    if size is None:
        raise ValueError(f"num_examples must be given for {type(batches).__name__}")
    check_whole("num_examples", size)
