"""The trainer: what it releases is what was planned, resumed runs are the same bit by bit,
bad input loses nothing.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from flax import linen, nnx

from jaxpriv import auditing, training
from jaxpriv.training import trainer as trainer_module
from tests.training.problems import PRIVACY, STEPS, data, equal, loss, quiet, trainer

DATA = data()


@pytest.fixture(scope="module")
def recorded():
    return trainer(exact=True).fit(DATA, seed=3, record_releases=True)


def check_noise(releases, clean, std):
    """The difference is normal with this variance, independent from step to step."""
    noise = (releases - clean) / std
    assert 0.001 < scipy.stats.chi2.cdf(np.sum(noise**2), noise.size) < 0.999
    assert scipy.stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 5 / np.sqrt(noise.size)


def check_released():
    """A loss without gradient: what is released is noise alone,
    of standard deviation clip_norm noise/batch size.
    """
    flat = trainer(loss=lambda w, example, key: 0.0 * jnp.sum(w), model=jnp.zeros(400, jnp.float32),
                   clip_norm=2.0)
    found = flat.fit(DATA, seed=1, record_releases=True)
    check_noise(found.releases, 0.0, 2.0 * 1.0 / 40)


@pytest.mark.slow
def test_released():
    check_released()


@pytest.mark.slow
def test_result(recorded):
    """All numbers of a result belong together."""
    assert (recorded.steps, recorded.spent) == (STEPS, STEPS)
    assert not recorded.private
    assert recorded.plan.sampling_rate == 0.2
    assert recorded.releases.shape == (STEPS, 5)
    assert recorded.history[-1]["step"] == STEPS
    assert recorded.epsilon == pytest.approx(recorded.history[-1]["epsilon"], rel=1e-5)
    assert recorded.epsilon == pytest.approx(
        float(recorded.plan.curve().epsilon_bounds(1e-5)[1]), rel=1e-8
    )


def test_the_model_follows_from_the_releases(recorded):
    """The optimiser sees nothing else."""
    optimizer, w = optax.sgd(0.5, momentum=0.5), jnp.zeros(5, jnp.float32)
    state = optimizer.init(w)
    for release in recorded.releases:
        updates, state = optimizer.update(jnp.asarray(release), state, w)
        w = optax.apply_updates(w, updates)
    np.testing.assert_allclose(recorded.model, w, rtol=1e-5)


def test_without_noise_it_learns():
    found = trainer().fit(DATA, seed=0, plan=quiet())
    assert np.mean((DATA["x"] @ np.asarray(found.model) > 0) == DATA["y"]) > 0.95


class Net(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(5, 4, rngs=rngs)
        self.out = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(jnp.tanh(self.hidden(x)))[0]


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1, name="out")(jnp.tanh(linen.Dense(4, name="hidden")(x)))[0]


@pytest.mark.slow
def test_nnx_and_linen_are_trained_alike():
    """The same weights, data and keys give the same weights, each in the clothes of its library."""
    net = Net(nnx.Rngs(0))
    parameters = {
        "params": {
            name: {
                kind: jnp.array(getattr(getattr(net, name), kind)[...])
                for kind in ("kernel", "bias")
            }
            for name in ("hidden", "out")
        }
    }

    def cross_entropy(logit, y):
        return optax.sigmoid_binary_cross_entropy(logit, y)

    in_nnx = trainer(
        model=net, loss=lambda net, example, key: cross_entropy(net(example["x"]), example["y"])
    )
    in_linen = trainer(
        model=parameters, loss=lambda p, e, key: cross_entropy(LinenNet().apply(p, e["x"]), e["y"])
    )
    one, other = (made.fit(DATA, seed=0, plan=quiet(made.dim)) for made in (in_nnx, in_linen))
    for name in ("hidden", "out"):
        np.testing.assert_allclose(
            getattr(one.model, name).kernel[...], other.model["params"][name]["kernel"], atol=2e-5
        )
    # the module that was given is as it was
    assert np.any(one.model.out.kernel[...] != net.out.kernel[...])
    assert net.out.kernel[...].shape == (4, 1)


@pytest.mark.slow
def test_keys_reach_the_loss():
    """Every example of every step has its own: the mean of what they draw says so."""
    def drawn(w, example, key):
        return w[0] * 1e-3 * jax.random.normal(key)

    found = trainer(loss=drawn).fit(DATA, seed=0, plan=quiet(), record_releases=True)
    sums = found.releases[:, 0] * 40 / 1e-3  # of about 40 normal numbers each
    assert 2.5 < np.std(sums) < 12
    assert len(set(sums.tolist())) == STEPS


@pytest.mark.slow
def test_entropy_by_default():
    """Two runs without a seed have nothing in common, and say that they are private."""
    flat = trainer(loss=lambda w, example, key: 0.0 * jnp.sum(w))
    one, other = (flat.fit(DATA) for _ in range(2))
    assert one.private
    assert not np.any(np.asarray(one.model) == np.asarray(other.model))


@pytest.mark.slow
@pytest.mark.parametrize("stop", [4, 10])
def test_resumed_is_the_same(tmp_path, stop, recorded):
    """Stopped after some steps by an error in an evaluation, and gone on with:
    parameters, logs, releases, ledger.
    """
    class Stopped(Exception):
        pass

    def evaluate(at):
        def told(model):
            told.count += 1
            if told.count == at:
                raise Stopped
            return {"length": float(jnp.linalg.norm(model))}

        told.count = 0
        return told

    settings = {"seed": 3, "record_releases": True, "evaluate_every": 1, "checkpoint_every": 3,
                "canaries": 4}
    whole = trainer().fit(DATA, folder=tmp_path / "whole", evaluate=evaluate(None), **settings)
    with pytest.raises(Stopped):
        trainer().fit(DATA, folder=tmp_path / "run", evaluate=evaluate(stop), **settings)
    assert training.spent(tmp_path / "run" / "ledger.jsonl")[1] >= stop
    again = trainer().fit(
        DATA, folder=tmp_path / "run", evaluate=evaluate(None), resume=True, **settings
    )
    assert equal(again.model, whole.model)
    assert np.array_equal(again.releases, whole.releases)
    assert np.array_equal(again.canary_scores, whole.canary_scores)
    assert again.history == whole.history
    for name in ("metrics.jsonl", "releases.npy"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert again.spent == STEPS
    assert not (tmp_path / "run" / "keys.json").exists()


def stopped(tmp_path, **settings):
    """The folder of a run that was interrupted half-way."""
    def evaluate(model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer().fit(
            DATA, folder=tmp_path / "run", evaluate=evaluate, evaluate_every=10, checkpoint_every=4,
            **settings,
        )
    return tmp_path / "run"


def test_keys_are_the_owner_s_alone(tmp_path):
    folder = stopped(tmp_path)
    assert (folder / "keys.json").stat().st_mode & 0o777 == 0o600
    assert (folder / "ledger.jsonl").stat().st_mode & 0o777 == 0o600
    assert json.loads((folder / "keys.json").read_text())["private"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [({"clip_norm": 2.0}, "clip_norm: 1.0 -> 2.0"),
     ({"batch_size": 20}, "batch_size: 40.0 -> 20.0"),
     ({"noise_multiplier": 1.5}, "noise_multiplier: 1.0 -> 1.5"),
     ({"steps": 10}, "plan.steps: 20 -> 10")],
)
def test_changed_configurations_are_refused(tmp_path, changes, words):
    folder = stopped(tmp_path)
    with pytest.raises(ValueError, match=words):
        trainer(**changes).fit(DATA, folder=folder, resume=True)
    assert trainer().fit(DATA, folder=folder, resume=True).steps == STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"optimizer": optax.sgd(0.25, momentum=0.5)},
     {"loss": lambda w, example, key: 2.0 * loss(w, example, key)}],
)
def test_changed_programs_are_refused(tmp_path, changes):
    """Repeated with another learning rate or loss,
    steps would release the same noise on other gradients.
    """
    folder = stopped(tmp_path)
    counted = training.spent(folder / "ledger.jsonl")
    with pytest.raises(ValueError, match="another program"):
        trainer(**changes).fit(DATA, folder=folder, resume=True)
    assert training.spent(folder / "ledger.jsonl") == counted
    assert trainer().fit(DATA, folder=folder, resume=True).steps == STEPS


def test_stopped_early_and_cut_off(tmp_path, monkeypatch):
    """A run that an evaluation has ended stays ended,
    though it was killed before it could say so.
    """
    def evaluate(model):
        evaluate.calls += 1
        return {"stop": evaluate.calls == 2}

    evaluate.calls = 0
    monkeypatch.setattr(trainer_module.Run, "finish", lambda self: None)
    settings = {"folder": tmp_path / "run", "evaluate": evaluate, "evaluate_every": 4,
                "checkpoint_every": 4, "seed": 1}
    one = trainer().fit(DATA, **settings)
    monkeypatch.undo()
    other = trainer().fit(DATA, resume=True, **settings)
    assert (one.steps, other.steps) == (8, 8)
    assert equal(one.model, other.model)


@pytest.mark.slow
def test_other_data_and_broken_runs_are_refused(tmp_path):
    """Each with its reason; the run itself can still go on."""
    folder = stopped(tmp_path)
    made = trainer()
    changed = {**DATA, "x": DATA["x"] + np.eye(200, 5, dtype=np.float32)}
    for bad, words in ((changed, "other data"), (data(100), "dataset_size: 200 -> 100")):
        with pytest.raises(ValueError, match=words):
            made.fit(bad, folder=folder, resume=True)
    with pytest.raises(ValueError, match="seed: none -> 1"):
        made.fit(DATA, folder=folder, resume=True, seed=1)
    with pytest.raises(ValueError, match="has the ledger of a run"):
        made.fit(DATA, folder=folder)
    with pytest.raises(ValueError, match="without a folder"):
        made.fit(DATA, resume=True)
    with pytest.raises(ValueError, match="is missing"):
        made.fit(DATA, folder=tmp_path / "nothing", resume=True)
    keys = (folder / "keys.json").read_text()
    for content in ("", "{}", keys.replace('"noise": "', '"noise": "zz')):
        (folder / "keys.json").write_text(content)
        with pytest.raises(ValueError, match="is broken"):
            made.fit(DATA, folder=folder, resume=True)
    (folder / "keys.json").unlink()
    with pytest.raises(ValueError, match="without its keys"):
        made.fit(DATA, folder=folder, resume=True)
    (folder / "keys.json").write_text(keys)
    assert made.fit(DATA, folder=folder, resume=True).steps == STEPS


@pytest.mark.slow
def test_corrupt_checkpoint(tmp_path):
    """It is named; without it the run goes on from the one before, to the same end."""
    folder = stopped(tmp_path, seed=5)
    last = max(
        (path for path in (folder / "checkpoints").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    assert last.name == "8"
    for path in last.rglob("*"):
        if path.is_file():
            path.write_bytes(b"broken")
    made = trainer()
    with pytest.raises(ValueError, match="8 can't be read"):
        made.fit(DATA, folder=folder, resume=True, seed=5)
    for path in sorted(last.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    last.rmdir()
    assert equal(
        made.fit(DATA, folder=folder, resume=True, seed=5).model, made.fit(DATA, seed=5).model
    )


def test_ledger_of_too_little(tmp_path):
    """A ledger that counts less than a checkpoint shows is no ledger of that run."""
    folder = stopped(tmp_path)
    lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "ledger.jsonl").write_bytes(b"".join(lines[:4]))
    with pytest.raises(ValueError, match="checkpoint after 8 steps, but its ledger counts 4"):
        trainer().fit(DATA, folder=folder, resume=True)


@pytest.mark.slow
def test_full_disk(tmp_path, monkeypatch):
    """No step runs that the ledger could not count."""
    ran = []
    true = training.Ledger.reserve

    def full(self, until):
        if until > 8:
            raise OSError(28, "No space left on device")
        true(self, until)

    monkeypatch.setattr(training.Ledger, "reserve", full)

    def evaluate(model):
        ran.append(1)
        return {}

    with pytest.raises(OSError, match="No space left"):
        trainer().fit(
            DATA, folder=tmp_path / "run", evaluate=evaluate, evaluate_every=1, checkpoint_every=4,
            seed=2,
        )
    assert len(ran) == 8
    monkeypatch.undo()
    assert equal(
        trainer().fit(DATA, folder=tmp_path / "run", resume=True, seed=2, checkpoint_every=4).model,
        trainer().fit(DATA, seed=2).model,
    )


def test_overflow_releases_nothing(monkeypatch):
    """A batch that is too small for the sample is an error before the step."""
    monkeypatch.setattr(
        trainer_module, "physical_batch", lambda plan, records, devices, microbatch: (4, 4)
    )
    seen = []
    with pytest.raises(OverflowError, match="larger than the batch of 4"):
        trainer().fit(DATA, seed=0, evaluate=lambda model: seen.append(1) or {}, evaluate_every=1)
    assert not seen


def test_early_stop():
    """An evaluation may end the training: fewer steps are counted."""
    def evaluate(model):
        evaluate.calls += 1
        return {"stop": evaluate.calls == 3}

    evaluate.calls = 0
    found = trainer().fit(DATA, seed=0, evaluate=evaluate, evaluate_every=2, checkpoint_every=2)
    assert (found.steps, found.spent) == (6, 6)
    assert found.epsilon == pytest.approx(
        float(found.plan.curve(steps=6).epsilon_bounds(1e-5)[1]), rel=1e-8
    )


@pytest.mark.slow
def test_dirac_canaries():
    """Those in the data show in the releases' sums, by their coin alone,
    as often as records are sampled.
    """
    made = trainer(loss=lambda w, example, key: 0.0 * jnp.sum(w), model=jnp.zeros(400, jnp.float32),
                   clip_norm=3.0)
    found = made.fit(DATA, seed=0, plan=quiet(400), canaries=400)
    members = found.canary_members
    assert 150 < members.sum() < 250
    counts = found.canary_scores * 40 / 3.0
    np.testing.assert_allclose(counts[~members], 0.0, atol=1e-3)
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-3)
    assert abs(counts[members].sum() / (members.sum() * STEPS) - 0.2) < 5 * np.sqrt(
        0.16 / (members.sum() * STEPS)
    )
    assert auditing.one_run(found.canary_scores, members).epsilon > 2


def test_canary_records():
    """Records by their coin: the sampling rate counts every candidate,
    the model those that are in.
    """
    extra = {"x": np.full((100, 5), 3.0, np.float32), "y": np.zeros(100, np.float32)}
    found = trainer().fit(DATA, seed=0, canaries=extra)
    assert found.plan.dataset_size == 300
    assert 25 < found.canary_members.sum() < 75
    assert found.canary_scores.shape == (0,)


@pytest.mark.slow
def test_diagnostics_are_apart(tmp_path):
    """Loss, clipped share and non-finite gradients are told only when asked for,
    in a file of their own.
    """
    found = trainer().fit(DATA, seed=0, folder=tmp_path / "run", diagnostics=True)
    rows = [
        json.loads(line)
        for line in (tmp_path / "run" / "diagnostics.jsonl").read_text().splitlines()
    ]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert all(
        0 <= row["clipped"] <= 1 and row["non_finite"] == 0 and row["loss"] > 0 for row in rows
    )
    assert set(found.history[0]) == {"step", "epsilon"}
    trainer().fit(DATA, seed=0, folder=tmp_path / "other")
    assert not (tmp_path / "other" / "diagnostics.jsonl").exists()


@pytest.mark.slow
def test_metrics_have_epsilon(tmp_path):
    found = trainer(exact=True).fit(DATA, seed=0, folder=tmp_path / "run", evaluate_every=5)
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert rows == found.history
    epsilons = [row["epsilon"] for row in rows]
    assert epsilons == sorted(epsilons)
    np.testing.assert_allclose(epsilons[1], found.plan.curve(steps=10).epsilon(1e-5), rtol=1e-5)


class WithStatistics(nnx.Module):
    def __init__(self):
        self.norm = nnx.BatchNorm(5, rngs=nnx.Rngs(0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"clip_norm": 0.0}, "clip_norm = 0"),
     ({"privacy": "epsilon = 1"}, "privacy = 'epsilon = 1'"),
     ({"epochs": 1}, "epochs or steps, not both"), ({"steps": None, "epochs": 0}, "epochs = 0"),
     ({"microbatch": 0}, "microbatch = 0"), ({"model": {}}, "no parameters"),
     ({"model": WithStatistics()}, "batch statistics")],
)
def test_bad_settings(changes, words):
    with pytest.raises(ValueError, match=words):
        trainer(exact=True, **changes)


BAD = {
    "empty": ({"x": np.zeros((0, 5)), "y": np.zeros(0)}, "no records"),
    "ragged": ({**DATA, "y": DATA["y"][:-1]}, "leading axes"),
    "nan": ({**DATA, "x": np.where(np.arange(200)[:, None] == 7, np.nan, DATA["x"])},
            r"\['x'\] is not finite in record 7"),
    "small": (data(20), "batch_size = 40 is outside its range"),
    "none": ({}, "leading axes"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data(name, tmp_path):
    bad, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        trainer().fit(bad, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bad_canaries_and_seeds(tmp_path):
    for settings, words in (({"canaries": 6}, "canaries = 6"), ({"canaries": -1}, "canaries = -1"),
                            ({"seed": -1}, "seed = -1"), ({"seed": "a"}, "seed = 'a'")):
        with pytest.raises(ValueError, match=words):
            trainer().fit(DATA, folder=tmp_path / "run", **settings)
    assert not (tmp_path / "run" / "ledger.jsonl").exists()


@pytest.mark.slow
def test_membership_target():
    """A target for a weak adversary: the noise is its own, the result tells the worst case."""
    found = trainer(exact=True, privacy=PRIVACY, noise_multiplier=None).fit(DATA, seed=0)
    assert (
        float(found.plan.curve("membership").gdp_mu()) <= 1.0
        or float(found.plan.curve().gdp_mu()) <= 1.0
    )
    assert found.epsilon == pytest.approx(
        float(found.plan.curve().epsilon_bounds(1e-5)[1]), rel=1e-8
    )


def test_loss_in_bfloat16():
    """Parameters stay what they are."""
    found = trainer(model=jnp.zeros(5, jnp.bfloat16)).fit(DATA, seed=0)
    assert found.model.dtype == jnp.bfloat16
    assert np.all(np.isfinite(np.asarray(found.model, np.float32)))


def test_uses_loss():
    assert float(loss(jnp.zeros(5), {"x": jnp.ones(5), "y": 1.0}, None)) == pytest.approx(np.log(2))


@pytest.mark.slow
@pytest.mark.parametrize("left", [[], ["keys.json"], ["keys.json", "ledger.jsonl"]])
def test_a_start_that_was_cut_off(tmp_path, left):
    """Before the ledger's first line is whole nothing was spent: the run may start again."""
    (tmp_path / "run").mkdir()
    for name in left:
        (tmp_path / "run" / name).write_text('{"header": ')
    assert trainer().fit(DATA, folder=tmp_path / "run").steps == STEPS
