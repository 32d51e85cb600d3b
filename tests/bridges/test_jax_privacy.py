"""jax-privacy's execution plans and batches, against what they do and its own accountants."""

import inspect
import math

import dp_accounting
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, pld
from jax_privacy import batch_selection
from jax_privacy.batch_selection import (
    BallsInBinsSampling,
    BMinSepSampling,
    CyclicPoissonSampling,
    FixedBatchSampling,
    PartitionType,
    UserSelectionStrategy,
)
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

from jaxpriv import correlated, worst_case
from jaxpriv.bridges import jax_privacy as bridge
from jaxpriv.bridges.dp_accounting import Unsupported
from jaxpriv.bridges.jax_privacy import ADD, NULL, REPLACE, curve, dp_sgd
from tests.slips import check_is_red

BANDS = np.array([1.0, 0.5, 0.375])


def config(relation=NULL, **more):
    settings = {"iterations": 12, "strategy": BANDS, "epsilon": None, "delta": None,
                "noise_multiplier": 2.0, "sampling_prob": 1.0, "noise_seed": 0,
                "accountant": pld.PLDAccountant(relation), **more}  # fmt: skip
    if relation is ADD:
        settings["partition_type"] = PartitionType.INDEPENDENT
    return BandMFExecutionPlanConfig(**settings)


def seen(plan_of, relation):
    """mu of who takes part in steps 0, b, 2b, ..., from the noise that a plan adds, measured."""
    transform = plan_of.plan.noise_addition_transform
    zero = jnp.zeros(40_000)
    state, noises = transform.init(zero), []
    for _ in range(plan_of.iterations):
        noise, state = transform.update(zero, state)
        noises.append(np.asarray(noise, np.float64))
    moved = np.zeros(plan_of.iterations)
    moved[:: len(plan_of.strategy)] = 2 if relation is REPLACE else 1
    return math.sqrt(moved @ np.linalg.solve(np.cov(noises), moved))


CONFIGS = {
    "bands": {},
    "long column": {"strategy": 3 * BANDS},
    "normalised": {"column_normalize": True},
    "normalised, short": {"column_normalize": True, "strategy": np.array([0.5, 0.1])},
    "independent": {"strategy": np.ones(1)},
    "clipped": {"l2_clip_norm": 0.2, "normalize_by": 5.0},
    "clipped, not rescaled": {"l2_clip_norm": 0.2, "rescale_to_unit_norm": False},
}


def check_noise(name, relation):
    """At rate 1 a plan is one Gaussian release: the curve is that of the noise it really adds."""
    described = config(relation, **CONFIGS[name])
    norm = described.plan.clipped_grad(lambda: None).l2_norm_bound  # of one record
    found = curve(described)
    want = worst_case.gaussian(norm * seen(described, relation))
    for eps in (0.1, 1.0):
        assert found.delta(eps) == pytest.approx(want.delta(eps), rel=0.05)


@pytest.mark.parametrize("relation", [NULL, ADD, REPLACE], ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", CONFIGS)
def test_curve_is_of_the_noise_that_is_added(name, relation):
    check_noise(name, relation)


def test_where_the_event_claims_too_much_noise():
    """jax-privacy 2.0: when this turns red, correct what the docstring says of their event."""
    short = config(column_normalize=True, strategy=np.array([0.5, 0.1]))
    claimed = pld.PLDAccountant(NULL).compose(short.plan.dp_event).get_epsilon(1e-5)
    assert claimed < 0.6 * curve(short).epsilon_bounds(1e-5)[0]


@pytest.mark.slow
def test_slips_are_noticed(monkeypatch):
    check_is_red(monkeypatch, bridge, "_noise", lambda event: 2.2, lambda: check_noise(
        "normalised", NULL))  # fmt: skip
    check_is_red(monkeypatch, bridge, "REPLACE", None, lambda: check_noise("bands", REPLACE))
    check_is_red(monkeypatch, bridge.math, "ceil", math.floor, check_balls_in_bins)
    check_is_red(monkeypatch, bridge.math, "sqrt", lambda cycles: 1.0, check_balls_in_bins)


@pytest.mark.parametrize("relation", [NULL, ADD, REPLACE], ids=lambda relation: relation.name)
def test_against_their_accountant(relation):
    """Of sampled plans the event is right but for the noise of a replaced record."""
    sampled = config(relation, iterations=300, sampling_prob=0.05)
    event = sampled.plan.dp_event
    if relation is REPLACE:  # in units of one contribution
        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(4.0)), 100
        )
    theirs = pld.PLDAccountant(relation).compose(event).get_epsilon(1e-5)
    low, high = curve(sampled).epsilon_bounds(1e-5)
    assert low <= theirs <= high * (1 + 1e-3)


def test_against_our_own():
    strategy = correlated.banded_toeplitz(BANDS)
    participation = correlated.CyclicPoisson(3, rate=0.05)
    noise = 2.0 * np.linalg.norm(BANDS)
    want = correlated.curve(strategy, noise, 300, participation).symmetric()
    found = curve(config(iterations=300, sampling_prob=0.05))
    assert found.epsilon(1e-5) == pytest.approx(want.epsilon(1e-5), rel=1e-9)


@pytest.mark.slow
def test_calibrated_plan():
    """Noise that their accountant chose, for a target that is kept."""
    chosen = config(noise_multiplier=None, epsilon=2.0, delta=1e-5, iterations=60,
                    sampling_prob=0.1)  # fmt: skip
    assert 1.99 < curve(chosen).epsilon_bounds(1e-5)[1] <= 2.0
    cut = config(iterations=60, sampling_prob=0.1, truncated_batch_size=20, num_examples=300)
    theirs = pld.PLDAccountant(NULL).compose(cut.plan.dp_event).get_epsilon(1e-5)
    low, high = curve(cut).epsilon_bounds(1e-5)
    assert low <= theirs
    assert curve(config(iterations=60, sampling_prob=0.1)).epsilon(1e-5) < high


def test_what_is_no_config():
    with pytest.raises(TypeError, match="not DPExecutionPlan; a plan alone tells neither"):
        curve(config().plan)


BATCHES = {
    "poisson": (CyclicPoissonSampling(0.05, 100), {}),
    "cycles": (CyclicPoissonSampling(0.05, 100, cycle_length=3), {}),
    "cut": (CyclicPoissonSampling(0.1, 30, truncated_batch_size=60, cycle_length=2),
            {"num_examples": 1001}),
    "users": (UserSelectionStrategy(CyclicPoissonSampling(0.05, 100), 4), {}),
}


@pytest.mark.parametrize("relation", [NULL, REPLACE], ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", BATCHES)
def test_batches_against_their_accountant(name, relation):
    batches, more = BATCHES[name]
    base = getattr(batches, "base_strategy", batches)
    size = len(list(base.batch_iterator(10, 0))[:: base.cycle_length])
    assert size == -(-base.iterations // base.cycle_length)
    step = dp_accounting.PoissonSampledDpEvent(
        base.sampling_prob, dp_accounting.GaussianDpEvent(2.0)
    )
    if name == "cut":
        step = dp_accounting.TruncatedSubsampledGaussianDpEvent(500, 0.1, 60, 2.0)
    event = dp_accounting.SelfComposedDpEvent(step, size)
    theirs = pld.PLDAccountant(relation).compose(event).get_epsilon(1e-5)
    low, high = dp_sgd(batches, 2.0, neighboring_relation=relation, **more).epsilon_bounds(1e-5)
    assert low <= theirs <= high * (1.1 if name == "cut" else 1 + 2e-3)


def test_batches_of_fixed_size():
    for relation, rate in ((NULL, 0.1), (REPLACE, 0.1), (ADD, 10 / 99)):
        adjacency = {NULL: "zero_out", REPLACE: "replace_one", ADD: "add_remove"}[relation]
        want = worst_case.subsampled_gaussian(4.0, rate, 5, sampling="fixed_size",
                                              adjacency=adjacency).symmetric()  # fmt: skip
        found = dp_sgd(FixedBatchSampling(10, 5), 4.0, 100, relation)
        assert found.delta(0.1) == pytest.approx(want.delta(0.1), rel=1e-9)


def check_balls_in_bins():
    """By simulation with the bins that their sampler draws: 3 cycles of 4 steps, the last cut."""
    noise, batches, records = 1.5, BallsInBinsSampling(iterations=11, cycle_length=4), 60_000
    took_part = np.zeros((records, 12))
    for step, batch in enumerate(batches.batch_iterator(records, 0)):
        took_part[batch, step] = 1.0
    assert set(took_part.sum(1)) == {2.0, 3.0}
    took_part[:, 11] = took_part[:, 3]  # the curve counts it: as if there were a twelfth
    patterns = np.tile(np.eye(4), 3)
    draws = np.random.default_rng(1).normal(size=took_part.shape)
    found = dp_sgd(batches, noise)
    for eps in (0.0, 1.0):
        deltas = []
        for sign, mean in ((1, took_part), (-1, 0.0)):
            output = mean + noise * draws
            ratios = (output @ patterns.T - 1.5) / noise**2
            losses = sign * np.log(np.exp(ratios).mean(1))
            deltas.append(np.maximum(-np.expm1(eps - losses), 0.0))
        worst = max(deltas, key=np.mean)
        assert found.delta(eps) == pytest.approx(worst.mean(), abs=4 * worst.std() / records**0.5)


def test_balls_in_bins():
    check_balls_in_bins()
    none = dp_sgd(BallsInBinsSampling(iterations=0, cycle_length=4), 1.0)
    assert none.delta(0.0) == 0.0


def test_every_way_to_select_batches_is_known_or_refused():
    kinds = {kind for _, kind in inspect.getmembers(batch_selection, inspect.isclass)
             if hasattr(kind, "batch_iterator")}  # fmt: skip
    known = set(bridge._of_batches.registry) - {object}
    assert kinds - known == {BMinSepSampling, batch_selection.BatchSelectionStrategy}


INDEPENDENT = PartitionType.INDEPENDENT


@pytest.mark.parametrize(
    ("batches", "more", "why"),
    [
        (BMinSepSampling(0.1, 10, 2), {}, "BMinSepSampling has no pair that is known"),
        (CyclicPoissonSampling(0.1, 10, cycle_length=2), {"neighboring_relation": ADD},
         "CyclicPoissonSampling of groups of equal size"),
        (CyclicPoissonSampling(0.1, 10, truncated_batch_size=3), {"neighboring_relation": ADD},
         "CyclicPoissonSampling that is cut"),
        (CyclicPoissonSampling(0.1, 10, 3, 2, INDEPENDENT), {"num_examples": 9}, "that is cut"),
        (CyclicPoissonSampling(0.1, 10, truncated_batch_size=3), {}, "num_examples must be given"),
        (FixedBatchSampling(3, 10), {}, "num_examples must be given for FixedBatchSampling"),
        (FixedBatchSampling(3, 10, replace=True), {"num_examples": 9}, "drawn several"),
        (BallsInBinsSampling(10, 2), {"neighboring_relation": REPLACE}, "is known for"),
        (BallsInBinsSampling(10, 2), {"noise_multiplier": 0.0}, "noise_multiplier = 0.0"),
        (CyclicPoissonSampling(0.1, 10), {"noise_multiplier": -1.0}, "noise_multiplier = -1.0"),
        (FixedBatchSampling(3, 10), {"num_examples": 9.5}, "num_examples = 9.5"),
    ],
)
def test_refusals(batches, more, why):
    with pytest.raises(ValueError, match=why):
        dp_sgd(batches, **{"noise_multiplier": 1.0, **more})


def test_what_selects_no_batches():
    with pytest.raises(Unsupported, match="BMinSepSampling has no pair"):
        dp_sgd(UserSelectionStrategy(BMinSepSampling(0.1, 10, 2)), 1.0)
    with pytest.raises(TypeError, match="must be of jax_privacy.batch_selection, not 0.1"):
        dp_sgd(0.1, 1.0)
    assert NeighboringRelation.REPLACE_SPECIAL is NULL
    # independent groups are right for all three
    drawn = CyclicPoissonSampling(0.1, 10, cycle_length=2, partition_type=INDEPENDENT)
    assert dp_sgd(drawn, 1.0, neighboring_relation=ADD).epsilon(1e-5) == dp_sgd(
        drawn, 1.0, neighboring_relation=NULL).epsilon(1e-5)  # fmt: skip
