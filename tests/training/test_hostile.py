"""What a hostile tester broke: repeated noise on other gradients, steps that did not count,
noise of few values.
"""

import dataclasses
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import Mesh

from jaxpriv import training
from jaxpriv.report import certify_training
from jaxpriv.report.digest import with_digest
from jaxpriv.report.training import _arrays
from jaxpriv.training.run import locked
from tests.training.problems import GENEROUS, STEPS, Cheap, data, equal, loss, trainer

DATA = data()


def injected(rate):
    """The learning rate is part of the state, not of the program."""
    return optax.inject_hyperparams(optax.sgd)(learning_rate=rate)


class Crash(Exception):
    pass


def crashed(folder, **changes):
    """A run that ended in its third step, before its first checkpoint."""
    def evaluate(model):
        raise Crash

    with pytest.raises(Crash):
        trainer(**changes).fit(
            DATA, folder=folder, evaluate=evaluate, evaluate_every=3, checkpoint_every=5
        )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"model": jnp.full(5, 0.1, jnp.float32)}),
     ({"optimizer": injected(0.5)}, {"optimizer": injected(0.25)})],
)
def test_other_starts_are_refused(tmp_path, before, after):
    """The program is the same, but its first numbers are not: its repeated steps would show the
    difference of gradients.
    """
    folder = crashed(tmp_path / "run", **before)
    with pytest.raises(ValueError, match="starts with other numbers"):
        trainer(**after).fit(DATA, folder=folder, resume=True, evaluate_every=3, checkpoint_every=5)
    trained = trainer(**before).fit(DATA, folder=folder, resume=True, evaluate_every=3,
                                    checkpoint_every=5)
    assert trained.steps == STEPS


@pytest.mark.parametrize("name", ["checkpoint_every", "evaluate_every"])
@pytest.mark.parametrize("value", [-1, 0, 2.5, 0.5, True, np.nan])
def test_odd_intervals(tmp_path, name, value):
    with pytest.raises(ValueError, match=name):
        trainer().fit(DATA, folder=tmp_path / "run", **{name: value})
    assert not (tmp_path / "run").exists()


def test_ledger_counts_whole_steps(tmp_path):
    with training.Ledger.create(tmp_path / "ledger.jsonl", {}) as ledger:
        for until in (2.5, -1, "3"):
            with pytest.raises(ValueError, match="until"):
                ledger.reserve(until)
        assert ledger.reserved == 0


@pytest.mark.parametrize("leaf", [jnp.zeros(2, jnp.complex64), jnp.zeros(2, jnp.int32)])
def test_only_real_numbers(leaf):
    """The square of a complex number is no length: such gradients would not be clipped."""
    key, settings = jax.random.key(0), {"clip_norm": 1.0}
    for attempt in (
        lambda: training.clipped_sum(
            lambda w, x, key: 0.0, {"w": leaf}, jnp.zeros((2, 2)), **settings
        ),
        lambda: training.private_mean(
            key, {"w": leaf}, noise_multiplier=1.0, expected_batch_size=2, **settings
        ),
        lambda: training.add_noise(key, 1.0).update(
            {"w": leaf}, training.NoiseState(key, jnp.int32(0))
        ),
        lambda: trainer(exact=True, model={"w": leaf}),
    ):
        with pytest.raises(ValueError, match=r"\['w'\] is (complex64|int32)"):
            attempt()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_noise_of_narrow_types(dtype):
    """It is drawn in float32 and then rounded: drawn in bfloat16,
    it has 128 values and ends at 2.9 standard deviations.
    """
    zeros = jnp.zeros(1_000_000, dtype)
    key = jax.random.key(0)
    means = training.private_mean(
        key, zeros, clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=1
    )
    updates, _ = training.add_noise(key, 1.0).update(zeros, training.NoiseState(key, jnp.int32(0)))
    for noisy in (means, updates):
        assert noisy.dtype == dtype
        assert float(jnp.max(jnp.abs(noisy))) > 4.2
        assert len(np.unique(np.asarray(noisy, np.float32))) > 1500


@pytest.mark.slow
def test_two_starts_at_once(tmp_path):
    """The second is refused, and takes nothing away."""
    folder = tmp_path / "run"
    crashed(folder)
    before = sorted(path.name for path in folder.iterdir())
    lock = locked(folder)
    for resume in (False, True):
        with pytest.raises(ValueError, match="in use by another process"):
            trainer().fit(DATA, folder=folder, resume=resume, evaluate_every=3, checkpoint_every=5)
    assert sorted(path.name for path in folder.iterdir()) == before
    os.close(lock)
    assert (
        trainer().fit(DATA, folder=folder, resume=True, evaluate_every=3, checkpoint_every=5).steps
        == STEPS
    )


def test_losses_that_mix_examples():
    """The axis over which batches are split has a name that no loss knows,
    whatever the given mesh calls it.
    """
    def mixing(w, example, key):
        return loss(w, {**example, "x": jax.lax.pmean(example["x"], "data")}, key)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    assert trainer(mesh=mesh).fit(DATA, seed=0).steps == STEPS
    with pytest.raises(NameError, match="data"):
        trainer(loss=mixing, mesh=mesh).fit(DATA, seed=0)


def test_a_mesh_of_three_axes():
    mesh = Mesh(np.reshape(jax.devices()[:1], (1, 1, 1)), ("a", "b", "c"))
    with pytest.raises(ValueError, match="mesh has 3 axes; accepted: one, or two"):
        trainer(mesh=mesh)


@pytest.mark.parametrize(
    "plan", [Cheap(1000, 40.0, (1.0,) * 20, 5), Cheap(200, 40.0, (1.0,) * 20, 1000)]
)
def test_plans_of_other_trainings(tmp_path, plan):
    with pytest.raises(ValueError, match="plan is for"):
        trainer().fit(DATA, plan=plan, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"dim": 0}, "dim = 0"), ({"dim": -3}, "dim = -3"),
     ({"dataset_size": 200.5}, "dataset_size = 200.5"),
     ({"dataset_size": np.nan}, "dataset_size = nan"), ({"delta": 0.0}, "delta = 0"),
     ({"delta": 2.0}, "delta = 2"),
     ({"noise_multipliers": (1e39,)}, r"noise_multipliers = 1e\+39"),
     ({"noise_multipliers": ()}, "steps = 0")],
)
def test_bad_plans(changes, words):
    with pytest.raises(ValueError, match=words):
        training.Plan(
            **{
                "dataset_size": 200, "batch_size": 40.0, "noise_multipliers": (1.0,), "dim": 5,
                **changes,
            }
        )


@pytest.mark.slow
def test_edited_keys(tmp_path):
    """A run with a seed stays not private; other noise for the same steps is refused."""
    folder = tmp_path / "run"

    def evaluate(model):
        raise Crash

    settings = {"folder": folder, "seed": 1, "evaluate_every": 3, "checkpoint_every": 5}
    with pytest.raises(Crash):
        trainer().fit(DATA, evaluate=evaluate, **settings)
    keys = json.loads((folder / "keys.json").read_text())
    (folder / "keys.json").write_text(json.dumps({**keys, "noise": "00" * 8}))
    with pytest.raises(ValueError, match=r"keys.json was changed"):
        trainer().fit(DATA, resume=True, **settings)
    (folder / "keys.json").write_text(json.dumps({**keys, "private": True}))
    assert not trainer().fit(DATA, resume=True, **settings).private


def test_other_compiler_flags(tmp_path, monkeypatch):
    """They change the last digits of gradients, and repeated noise would show them."""
    folder = crashed(tmp_path / "run")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    with pytest.raises(ValueError, match="xla_flags"):
        trainer().fit(DATA, folder=folder, resume=True, evaluate_every=3, checkpoint_every=5)


@pytest.mark.parametrize("clip_norm", [1e-37, 1e38])
def test_scales_beyond_float32(clip_norm):
    """Products of norm and noise that float32 does not hold would be no noise at
    all, or all infinite.
    """
    for attempt in (
        lambda: trainer(clip_norm=clip_norm),
        lambda: training.private_mean(
            jax.random.key(0),
            jnp.zeros(2),
            clip_norm=clip_norm,
            noise_multiplier=1.0,
            expected_batch_size=1,
        ),
        lambda: training.clipped_sum(loss, jnp.zeros(5), DATA, clip_norm=clip_norm),
    ):
        with pytest.raises(ValueError, match="clip_norm"):
            attempt()


@pytest.mark.slow
def test_interrupted_before_the_report(tmp_path):
    """Until the report is there the run can be gone on with,
    to the same result without a further step.
    """
    seen = []

    def interrupted(trained):
        seen.append(trained)
        raise KeyboardInterrupt

    settings = {"folder": tmp_path / "run", "canaries": 3}
    with pytest.raises(KeyboardInterrupt):
        trainer().fit(DATA, then=interrupted, **settings)
    assert (tmp_path / "run" / "keys.json").exists()
    again = trainer().fit(DATA, then=seen.append, resume=True, **settings)
    assert seen[1] is again
    assert equal(seen[0].model, again.model)
    for name in ("canary_members", "canary_scores"):
        np.testing.assert_array_equal(getattr(seen[0], name), getattr(again, name))
    assert (again.steps, again.spent, again.epsilon) == (STEPS, STEPS, seen[0].epsilon)
    assert not (tmp_path / "run" / "keys.json").exists()
    with pytest.raises(ValueError, match="is gone"):
        trainer().fit(DATA, resume=True, **settings)


def test_models_of_evaluations_last():
    kept = []
    found = trainer().fit(
        DATA, seed=0, evaluate=lambda model: kept.append(model) or {}, evaluate_every=5
    )
    assert equal(kept[-1], found.model)
    assert np.isfinite(kept[0]).all()


def test_releases_from_the_start_or_not_at_all(tmp_path):
    folder = crashed(tmp_path / "run")
    with pytest.raises(ValueError, match="record_releases: False -> True"):
        trainer().fit(
            DATA, folder=folder, resume=True, record_releases=True, evaluate_every=3,
            checkpoint_every=5,
        )


@pytest.mark.slow
@pytest.mark.parametrize("line", ["{}", "[1]", "1", '{"step": "a"}', "null", '{"step"'])
def test_rows_that_are_none(tmp_path, line):
    folder = crashed(tmp_path / "run")
    (folder / "metrics.jsonl").write_text(line + "\n")
    found = trainer().fit(DATA, folder=folder, resume=True, evaluate_every=3, checkpoint_every=5)
    assert [row["step"] for row in found.history] == [3, 6, 9, 12, 15, 18, 20]


@pytest.mark.parametrize(("x", "words"), [
    (np.full((200, 5), "a"), "accepted: numbers"), (np.full((200, 5), None), "accepted: numbers"),
    (jnp.full((200, 5), jnp.nan, jnp.bfloat16), "is not finite in record 0")])
def test_data_of_odd_types(tmp_path, x, words):
    with pytest.raises(ValueError, match=words):
        trainer().fit({**DATA, "x": x}, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_narrow_data_are_kept_apart(tmp_path):
    """bfloat16 records have a fingerprint as well."""
    narrow = {**DATA, "x": jnp.asarray(DATA["x"], jnp.bfloat16)}
    assert trainer().fit(narrow, folder=tmp_path / "run").steps == STEPS


class Net(nnx.Module):
    def __init__(self):
        self.layers = nnx.List([nnx.Linear(5, 2, rngs=nnx.Rngs(0))])


def test_arrays_of_models():
    """Each by its name, as numbers that files know."""
    found = _arrays({"a": [jnp.ones(2, jnp.bfloat16)], "b": jnp.zeros((), jnp.float16)})
    assert {name: array.dtype for name, array in found.items()} == {
        "a/0": np.float32,
        "b": np.float32,
    }
    assert _arrays(jnp.ones(3))["parameters"].shape == (3,)


def check_certificate(trained, folder, epsilon=None):
    """All steps that count are in its worst case, and nobody else has more."""
    certificate = certify_training(trained, folder)
    worst, *others = certificate["adversaries"]
    assert worst["epsilon"] == pytest.approx(
        trained.epsilon if epsilon is None else epsilon, rel=1e-9
    )
    assert all(
        row["epsilon"] <= worst["epsilon"] and row["advantage"] <= worst["advantage"]
        for row in others
    )
    assert json.loads((folder / "certificate.json").read_text()) == with_digest(certificate)


@pytest.mark.slow
def test_certificate_from_python(tmp_path):
    """Audit, pages and parameters of any training; a model's arrays have its names."""
    def of_net(model, example, key):
        return optax.softmax_cross_entropy_with_integer_labels(
            model.layers[0](example["x"]), example["y"].astype(jnp.int32)
        )

    made = trainer(loss=of_net, model=Net(), privacy=GENEROUS)
    found = made.fit(DATA, canaries=4)
    check_certificate(found, tmp_path)
    # a slip: steps that the certificate does not count
    forgotten = dataclasses.replace(found, spent=found.spent // 2)
    with pytest.raises(AssertionError):
        check_certificate(forgotten, tmp_path, found.epsilon)
    certificate = certify_training(found, tmp_path / "new" / "folder", settings={"a": 1})
    assert certificate["target"] == str(GENEROUS)
    assert certificate["settings"] == {"a": 1}
    few = min(found.canary_members.sum(), (~found.canary_members).sum()) < 2
    assert (certificate["audit"] is None) == few
    assert "Privacy certificate" in (tmp_path / "new" / "folder" / "certificate.html").read_text()
    with np.load(tmp_path / "new" / "folder" / "model.npz") as arrays:
        np.testing.assert_array_equal(arrays["layers/0/kernel"], found.model.layers[0].kernel[...])
        assert set(arrays) == {"layers/0/kernel", "layers/0/bias"}
    with pytest.raises(ValueError, match="confidence"):
        certify_training(found, tmp_path / "other", confidence=1.5)
    assert not (tmp_path / "other").exists()
