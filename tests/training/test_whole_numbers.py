"""Trainings whose sums and noise are whole numbers on a grid."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import correlated, training
from jaxpriv.report.training import training_certificate
from jaxpriv.training import planning, sampling, step
from jaxpriv.training.adaptive_clipping import AdaptiveClipping
from tests.training.problems import data, equal, loss, trainer

DATA = data()


def plan(steps=20, noise=1.0, **changes):
    return training.Plan(200, 40, (noise,) * steps, 5, whole_numbers=True, **changes)


def check_releases(monkeypatch):
    """Every release is half a unit beside a whole number of units; noise is as wide as planned."""
    # float32 holds all digits of so coarse a grid
    monkeypatch.setattr(step, "grid_bits", lambda *_: 12)
    found = trainer(noise="discrete", clip_norm=2.0).fit(
        DATA, seed=0, plan=plan(), record_releases=True).releases
    whole = found.astype(np.float64) / (2.0 * 2.0**-12 / 40) - 0.5
    assert np.abs(whole).max() > 1000
    np.testing.assert_allclose(whole, np.round(whole), atol=0.01)
    still = training.DPTrainer(
        lambda w, x, key: 0.0 * jnp.sum(w), jnp.zeros(50), optax.sgd(0.0),
        training.Privacy(epsilon=50.0), batch_size=40, steps=100, noise_multiplier=0.5,
        noise="discrete",
    ).fit(DATA["x"], seed=1, plan=dataclasses.replace(plan(100, 0.5), dim=50),
          record_releases=True, evaluate_every=100).releases
    np.testing.assert_allclose(still.std(), 0.5 / 40, rtol=0.05)


@pytest.mark.slow
def test_releases(monkeypatch):
    check_releases(monkeypatch)


@pytest.mark.slow
def test_half_the_noise_is_seen(monkeypatch):
    def half(words, total, *, noise_multiplier, true=step.private_mean_on_grid, **settings):
        return true(words, total, noise_multiplier=noise_multiplier / 2, **settings)

    monkeypatch.setattr(step, "private_mean_on_grid", half)
    with pytest.raises(AssertionError):
        check_releases(monkeypatch)


@pytest.mark.slow
def test_a_grid_that_is_ignored_is_seen(monkeypatch):
    """Noise of floating point on whole sums, as wide as planned."""
    def floats(words, total, *, clip_norm, noise_multiplier, bits, expected_batch_size):
        drawn = jax.random.normal(jax.random.wrap_key_data(words[:2]), total.shape)
        unit = clip_norm * noise_multiplier * 2.0**-bits
        return (total + 2.0**bits * drawn) * unit / expected_batch_size

    monkeypatch.setattr(step, "private_mean_on_grid", floats)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_releases(monkeypatch)


@pytest.mark.slow
def test_loops_and_resumption_agree(tmp_path):
    """The trainer, a run that was interrupted, and a loop of one's own: the same numbers."""
    class Stop(Exception):
        pass

    def stop(model):
        stop.calls += 1
        if stop.calls == 8:
            raise Stop
        return {}

    stop.calls = 0
    made = trainer(noise="discrete", optimizer=optax.sgd(0.5))
    settings = {"seed": 5, "plan": plan(), "evaluate_every": 1, "checkpoint_every": 3}
    with pytest.raises(Stop):
        made.fit(DATA, folder=tmp_path / "run", evaluate=stop, **settings)
    found = made.fit(DATA, folder=tmp_path / "run", resume=True, **settings)
    want = made.fit(DATA, **settings)
    assert equal(found.model, want.model)
    run = training.private(loss, optax.sgd(0.5), plan())
    state = run.init(jnp.zeros(5, jnp.float32), seed=5)
    for _ in range(20):
        state = run.step(state, DATA)
    np.testing.assert_allclose(state.model, want.model, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_dirac_canaries_are_as_long():
    """With hardly any noise a canary's entry counts its batches."""
    made = trainer(noise="discrete", loss=lambda w, x, key: 0.0 * jnp.sum(w), noise_multiplier=0.01)

    class Quiet(training.Plan):
        def curve(self, threat_model="worst_case", steps=None):
            return training.Plan(200, 40, (1.0,), 5).curve()

    quiet = Quiet(200, 40, (0.01,) * 20, 5, whole_numbers=True)
    found = made.fit(DATA, seed=0, plan=quiet, canaries=5, evaluate_every=20)
    counts = found.canary_scores * 40
    np.testing.assert_allclose(counts, np.round(counts), atol=0.25)
    assert np.all(np.round(counts[~found.canary_members]) == 0)
    assert np.all(counts[found.canary_members] > 0.5)


@pytest.mark.slow
def test_the_certificate_does_not_speak_of_floats():
    found = trainer(noise="discrete").fit(DATA, plan=plan(), evaluate_every=20)
    said = " ".join(training_certificate(found, None, None)["assumptions"])
    assert "Mironov" not in said
    assert "whole numbers" in said
    assert "128 bits of key" in said
    assert "on a grid of whole numbers" in plan().describe()
    other = " ".join(training_certificate(
        trainer().fit(DATA, evaluate_every=20), None, None)["assumptions"])
    assert "Mironov" in other
    assert "64 bits of key" in other


@pytest.mark.slow
def test_plans():
    """Calibrated like others, with hardly anything added; one in a batch of fixed size counts
    twice.
    """
    privacy = training.Privacy(epsilon=2.0)
    settings = {"batch_size": 100, "steps": 50}
    found = planning.make_plan(privacy, 1000, 10, noise="discrete", **settings)
    want = planning.make_plan(privacy, 1000, 10, **settings)
    assert found.whole_numbers
    np.testing.assert_allclose(found.noise_multipliers, want.noise_multipliers, rtol=1e-8)
    assert found.noise_delta(2.0) < want.noise_delta(2.0)
    assert plan(sampler=sampling.FixedSize()).noise_delta(50.0) > plan().noise_delta(50.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"ghost": True}, "ghost has no per-example gradients"),
     ({"adaptive_clipping": AdaptiveClipping(1e8, 40)}, "rounding could take")],
)
def test_what_does_not_go_together(settings, words):
    with pytest.raises(ValueError, match=words):
        trainer(noise="discrete", **settings).fit(DATA, plan=plan())


def planned(**changes):
    settings = {"batch_size": 40, "steps": 20, "noise_multiplier": 1.0, **changes}
    return training.DPTrainer(loss, jnp.zeros(5), optax.sgd(0.5), training.Privacy(epsilon=50.0),
                              **settings).plan(200)


@pytest.mark.parametrize(
    ("settings", "whole"),
    [({}, True), ({"batch_size": 31}, False), ({"batch_size": 32}, True), ({"ghost": True}, False),
     ({"noise": "independent"}, False), ({"batch_size": 31, "noise": "discrete"}, True),
     ({"scaling": training.optimizers.ScaleThenPrivatise()}, True),
     ({"adaptive_clipping": AdaptiveClipping(3.0, 40)}, True),
     ({"noise": correlated.banded_toeplitz([1.0, 0.5]), "sampler": sampling.CyclicPoisson(2)},
      False)],
)
def test_the_default_is_a_grid_where_it_is_cheap(settings, whole):
    assert planned(**settings).whole_numbers is whole


def test_no_grid_where_sums_are_too_long():
    made = training.Plan(200, 40, (1e-10,) * 20, 5)
    assert planning.on_grid_if_cheap(made) is made
