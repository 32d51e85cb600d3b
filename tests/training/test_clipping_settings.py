"""Trainings whose clipping norm moves, whose gradients are scaled, or clipped in groups."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import training
from jaxpriv.training.adaptive_clipping import AdaptiveClipping, split_noise
from jaxpriv.training.optimizers import ScaleThenPrivatise
from tests.training.problems import Quiet, data, equal, quiet, trainer

DATA = data()
LENGTHS = np.linspace(0.0, 2.0, 200).astype(np.float32)


def fitted(plan=None, records=None, **changes):
    """A training on gradients of known lengths, whose model has no part in them."""
    steps = changes.pop("steps", 60)
    made = training.DPTrainer(
        lambda w, x, key: w @ x, jnp.zeros(5, jnp.float32), optax.sgd(0.0),
        training.Privacy(epsilon=50.0), batch_size=40, steps=steps, noise_multiplier=1.0, **changes,
    )
    plan = plan or quiet(steps=steps)
    rows = LENGTHS[:, None] * np.eye(5, dtype=np.float32)[0] if records is None else records
    return made.fit(rows, seed=0, plan=plan, record_releases=True, evaluate_every=steps)


def on_grid(plan, whole):
    return dataclasses.replace(plan, whole_numbers=whole)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_an_adaptive_norm_goes_to_its_quantile(whole):
    """Means of clipped gradients grow until the clipping norm is the median, 1."""
    adaptive = AdaptiveClipping(1.0, 40, learning_rate=0.5)
    found = fitted(on_grid(quiet(steps=60), whole), clip_norm=0.05,
                   adaptive_clipping=adaptive).releases[:, 0]
    median = np.mean(np.minimum(LENGTHS, 1.0))
    assert found[0] < 0.1 * median
    np.testing.assert_allclose(found[-20:].mean(), median, rtol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_adaptive_noise_is_what_the_count_leaves(whole):
    """Of noise multiplier 1 the gradients have more, by what the count takes."""
    plan = training.Plan(200, 40, (1.0,) * 200, 5, whole_numbers=whole)
    adaptive = AdaptiveClipping(0.6, 40, quantile=0.5, learning_rate=1e-9)
    found = fitted(plan, np.zeros((200, 5), np.float32), steps=200, adaptive_clipping=adaptive)
    want = split_noise(1.0, 0.6) / 40
    assert want > 1.5 / 40
    np.testing.assert_allclose(found.releases.std(), want, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_scaled_gradients_have_scaled_noise(whole):
    """Entries with small releases get less noise than others, at the same clipping norm."""
    plan = Quiet(200, 40, (0.05,) * 200, 5, whole_numbers=whole)
    rows = np.tile(np.array([1, 0, 0, 0, 0.01], np.float32), (200, 1))
    found = fitted(plan, rows, steps=200, scaling=ScaleThenPrivatise(0.9, 0.01), clip_norm=1e-3)
    late = found.releases[50:]
    assert late[:, 2].std() < 0.2 * late[:, 0].std()


@pytest.mark.slow
def test_groups_are_in_the_header(tmp_path):
    """Groups of arrays, which JSON does not hold, and other groups are refused on resumption."""
    def made(share):
        groups = training.Groups(lambda path: path, {"['a']": share, "['b']": 0.6})
        return training.DPTrainer(
            lambda w, x, key: jnp.sum(w["a"] * x) + w["b"], {"a": jnp.zeros(5), "b": jnp.zeros(())},
            optax.sgd(0.1), training.Privacy(epsilon=50.0), batch_size=40, steps=3,
            noise_multiplier=1.0, per_layer=groups)

    found = made(0.8).fit(DATA["x"], seed=0, folder=tmp_path / "run", plan=quiet(6, 3))
    assert found.steps == 3
    with pytest.raises(ValueError, match="per_layer"):
        made(0.5).fit(DATA["x"], seed=0, folder=tmp_path / "run", plan=quiet(6, 3), resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_moving_norm_resumes(tmp_path, whole):
    """The clipping norm and the scale are in the checkpoint."""
    plan = training.Plan(200, 40, (1.0,) * 20, 5, whole_numbers=whole)
    settings = {"adaptive_clipping": AdaptiveClipping(3.0, 40), "scaling": ScaleThenPrivatise()}

    class Stop(Exception):
        pass

    def stop(model):
        stop.calls += 1
        if stop.calls == 12:
            raise Stop
        return {}

    stop.calls = 0
    with pytest.raises(Stop):
        trainer(**settings).fit(DATA, seed=1, folder=tmp_path / "run", evaluate=stop, plan=plan,
                                evaluate_every=1, checkpoint_every=5)
    found = trainer(**settings).fit(DATA, seed=1, folder=tmp_path / "run", resume=True, plan=plan,
                                    evaluate_every=1, checkpoint_every=5)
    want = trainer(**settings).fit(DATA, seed=1, plan=plan, evaluate_every=1, checkpoint_every=5)
    assert equal(found.model, want.model)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"adaptive_clipping": 3}, "adaptive_clipping = 3"), ({"scaling": "yes"}, "scaling = 'yes'"),
     ({"adaptive_clipping": AdaptiveClipping(3.0, 41)}, "expected_batch_size = 41"),
     ({"adaptive_clipping": AdaptiveClipping(0.4, 40)}, "count_std = 0.4"),
     ({"clip_norm": 0.0}, "clip_norm = 0")],
)
def test_hostile(settings, words):
    with pytest.raises(ValueError, match=words):
        trainer(**settings).fit(DATA, seed=0)
