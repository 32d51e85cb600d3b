"""Plans: whatever is left out is solved so that the target just holds,
and the worst case is always there.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import training, worst_case
from jaxpriv.training import Plan, Privacy, make_plan, planning
from jaxpriv.training.planning import holds, steps_of

MU = Privacy(mu=0.5, threat_model="membership")
SETTINGS = {"batch_size": 100, "steps": 100, "noise_multiplier": 5.0}


@pytest.mark.parametrize("left_out", ["noise_multiplier", "batch_size", "steps"])
def test_solved_plans_just_hold(left_out):
    """A little less noise, a larger batch, a step more: the target is missed."""
    plan = make_plan(
        MU, 10_000, 1000, **{name: value for name, value in SETTINGS.items() if name != left_out}
    )
    assert holds(plan, MU)
    noise = plan.noise_multipliers
    beyond = {
        "noise_multiplier": dataclasses.replace(
            plan, noise_multipliers=tuple(n * (1 - 1e-6) for n in noise)
        ),
        "batch_size": dataclasses.replace(plan, batch_size=plan.batch_size * (1 + 1e-6)),
        "steps": dataclasses.replace(plan, noise_multipliers=(*noise, noise[0])),
    }[left_out]
    assert not holds(beyond, MU)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "users"), [
    ({"epsilon": 1.0}, 1), ({"advantage": 0.1}, 3), ({"fpr": 0.01, "tpr": 0.1}, 1),
    ({"mu": 0.5, "threat_model": "membership"}, 1),
])
def test_looking_at_the_first_step_first_changes_nothing(monkeypatch, target, users):
    def solved():
        return make_plan(Privacy(**target), 1000, 10, batch_size=100, steps=20,
                         records_per_user=users)

    found = solved()
    monkeypatch.setattr(planning, "_meets_in_all", holds)
    assert solved() == found


def check_solved():
    """The target just holds, by its upper bound."""
    assert holds(training.make_plan(MU, 10_000, 1000, batch_size=100, steps=100), MU)


def check_worst_case():
    """The noise that epsilon and delta need, as `calibrate` finds it."""
    privacy = Privacy(epsilon=2.0)
    plan = make_plan(privacy, 1000, 10, batch_size=50, steps=50)
    noise = jaxpriv.calibrate(lambda s: worst_case.subsampled_gaussian(s, 0.05, 50.0), epsilon=2.0,
                              delta=1e-5, bracket=(0.5, 8))
    assert plan.noise_multipliers == pytest.approx((noise,) * 50, rel=1e-8)
    assert holds(plan, privacy)


@pytest.mark.slow
def test_worst_case():
    check_worst_case()


@pytest.mark.slow
def test_budget_ends_the_training():
    """With everything given, as many steps as the target allows."""
    privacy = Privacy(epsilon=3.0)
    plan = make_plan(privacy, 1000, 10, batch_size=50, steps=500, noise_multiplier=1.0)
    assert 1 < plan.steps < 500
    assert holds(plan, privacy)
    assert not holds(
        dataclasses.replace(plan, noise_multipliers=(1.0,) * (plan.steps + 1)), privacy
    )


@pytest.mark.slow
def test_schedules_compose():
    """Steps of several noises: the curve is the composition of their parts,
    at the end and on the way.
    """
    plan = Plan(1000, 50, (2.0,) * 10 + (1.0,) * 20, 10)
    want = jaxpriv.compose(
        worst_case.subsampled_gaussian(2.0, 0.05, 10.0),
        worst_case.subsampled_gaussian(1.0, 0.05, 20.0),
    )
    np.testing.assert_allclose(plan.curve().delta(1.0), want.symmetric().delta(1.0), rtol=1e-9)
    early = worst_case.subsampled_gaussian(2.0, 0.05, 10.0).symmetric()
    np.testing.assert_allclose(plan.curve(steps=10).delta(0.5), early.delta(0.5), rtol=1e-9)
    np.testing.assert_allclose(
        jax.jit(plan.epsilon)(jnp.int32(30)), want.symmetric().epsilon(1e-5), rtol=1e-5
    )
    shaped = make_plan(Privacy(mu=2.0, threat_model="membership"), 1000, 10, batch_size=50, steps=3,
                       schedule=[1.0, 2.0, 4.0])
    np.testing.assert_allclose(
        np.divide(shaped.noise_multipliers, shaped.noise_multipliers[0]), [1, 2, 4]
    )
    spread = make_plan(Privacy(mu=2.0, threat_model="membership"), 1000, 10, batch_size=50, steps=5,
                       schedule=[2.0, 1.0])
    np.testing.assert_allclose(
        np.divide(spread.noise_multipliers, spread.noise_multipliers[4]), [2, 2, 2, 1, 1]
    )


def test_a_weak_adversary_needs_no_more_noise():
    """Where the membership approximation asks for more noise than the worst case,
    the worst case's noise is enough.
    """
    weak = Privacy(mu=0.9, threat_model="membership")
    plan = make_plan(weak, 1000, 100_000, batch_size=50, steps=1)
    worst = make_plan(Privacy(mu=0.9), 1000, 100_000, batch_size=50, steps=1)
    assert plan.noise_multipliers[0] <= worst.noise_multipliers[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"threat_model": "strong"}, "threat_model = 'strong'"), ({"mu": None}, "got none"),
     ({"advantage": 0.1}, "got mu, advantage"), ({"mu": None, "fpr": 0.1}, "fpr and tpr"),
     ({"mu": -1.0}, "mu = -1"), ({"mu": np.nan}, "mu = nan"), ({"delta": 0.0}, "delta = 0"),
     ({"mu": None, "advantage": 2.0}, "advantage = 2"), ({"mu": np.inf}, "mu = inf")],
)
def test_bad_targets(changes, words):
    with pytest.raises(ValueError, match=words):
        Privacy(**{"mu": 1.0, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"batch_size": None, "steps": None}, "batch_size and steps are missing"),
     ({"batch_size": 20_000}, "batch_size = 20000"), ({"batch_size": 0}, "batch_size = 0"),
     ({"steps": 0}, "steps = 0"), ({"steps": 1.5}, "steps = 1.5"),
     ({"noise_multiplier": 0.0}, "noise_multipliers = 0"),
     ({"noise_multiplier": np.nan}, "noise_multipliers"),
     ({"schedule": [1.0] * 101}, "schedule has shape"), ({"schedule": []}, "schedule has shape"),
     ({"schedule": 2.0}, "schedule has shape"), ({"steps": None, "schedule": [1.0]}, "steps"),
     ({"schedule": [-1.0] * 100}, "noise_multipliers = -5")],
)
def test_bad_settings(changes, words):
    with pytest.raises(ValueError, match=words):
        make_plan(MU, 10_000, 1000, **{**SETTINGS, **changes})


@pytest.mark.parametrize(
    ("privacy", "words"),
    [(Privacy(mu=0.0, threat_model="membership"), "above 4096"),
     (Privacy(mu=1e9, threat_model="membership"), "below 0.0625")],
)
def test_targets_out_of_reach(privacy, words):
    with pytest.raises(ValueError, match=words):
        make_plan(privacy, 10_000, 1000, batch_size=100, steps=100)


def test_steps_of():
    assert steps_of(1000, 10, 1.1) == 110


def test_words():
    """What a report says of a plan."""
    plan = make_plan(MU, 10_000, 1000, batch_size=100, steps=100)
    assert "100 steps" in plan.describe()
    assert "probability 0.01" in plan.sampling
    assert plan.settings()["noise_multiplier"] == plan.noise_multipliers[0]
    assert training.Privacy(fpr=0.1, tpr=0.2).target == {"fpr": 0.1, "tpr": 0.2}
