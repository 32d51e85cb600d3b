"""Correlated noise as it streams is C^-1 times the independent noise, step for step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import correlated, training
from jaxpriv.training import planning, sampling, streams
from jaxpriv.training.strategies import in_words, settings_of, strategy_of
from tests.slips import check_is_red
from tests.training.problems import data, equal, loss

STEPS = 17
STRATEGIES = {
    "identity": correlated.Identity(),
    "one band": correlated.banded_toeplitz([2.0]),
    "bands": correlated.banded_toeplitz([1.0, 0.6, 0.3, -0.1]),
    "as many bands as steps": correlated.banded_square_root(STEPS),
    "inverse": correlated.banded_inverse_square_root(4),
    "one inverse": correlated.banded_inverse([0.5]),
    "buffers": correlated.buffered_toeplitz([0.9, 0.5, 0.1], [0.2, 0.3, 0.1]),
}
DATA = data()


def matrix(strategy):
    """C^-1 by its first column, as the module's neighbours compute it."""
    column = strategy.inverse_column(STEPS)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(STEPS)]
                     for i in range(STEPS)])


def check_stream(name):
    strategy = STRATEGIES[name]
    stream = streams.stream_of(strategy)
    random = np.random.default_rng(0)
    g = {"a": random.normal(size=(STEPS, 3)), "b": random.normal(size=(STEPS, 2, 2))}
    g = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), g)
    like = {"a": jnp.zeros(3, jnp.float32), "b": jnp.zeros((2, 2), jnp.bfloat16)}
    state = stream.start(like)
    step = jax.jit(stream.noise)
    found = []
    for at in range(STEPS):
        noise, state = step(jax.tree.map(lambda leaf, at=at: leaf[at], g), at, state)
        found.append(noise)
    found = jax.tree.map(lambda *leaves: np.stack(leaves), *found)
    for leaf in "ab":
        want = np.tensordot(matrix(strategy), np.asarray(g[leaf]), 1)
        np.testing.assert_allclose(found[leaf], want, rtol=2e-5, atol=2e-5)
        assert found[leaf].dtype == np.float32


@pytest.mark.parametrize("name", STRATEGIES)
def test_stream(name):
    check_stream(name)


def check_release():
    """What a training releases, less what it would without noise, is clip_norm noise/batch times
    C^-1 g: C of it is white.
    """
    strategy = correlated.banded_square_root(4)
    noise, steps = 2.0, 400
    made = training.DPTrainer(
        lambda w, example, key: 0.0 * jnp.sum(w) * example["y"], jnp.zeros(50, jnp.float32),
        optax.sgd(0.0), training.Privacy(epsilon=50.0), batch_size=40, steps=steps,
        noise_multiplier=noise, clip_norm=3.0, sampler=sampling.CyclicPoisson(4), noise=strategy,
    )
    of = training.Plan(200, 40, (noise,) * steps, 50, sampler=sampling.CyclicPoisson(4),
                       strategy=strategy)
    found = made.fit(DATA, seed=1, plan=of, record_releases=True, evaluate_every=steps).releases
    column = strategy.column(steps)
    white = sum(column[k] * np.pad(found, ((k, 0), (0, 0)))[:steps] for k in range(4))
    white = white * 40 / (3.0 * noise)
    assert abs(white.std() - 1) < 4 / np.sqrt(2 * white.size)
    for lag in (1, 2, 3):
        assert abs(np.mean(white[lag:] * white[:-lag])) < 4 / np.sqrt(white.size)
    assert np.mean(found[1:] * found[:-1]) < -0.2 * np.mean(found**2)  # which itself is not


@pytest.mark.slow
def test_release():
    check_release()


@pytest.mark.slow
def test_resumed_bit_by_bit(tmp_path):
    """What is kept of the noises goes on where it stopped."""
    class Stop(Exception):
        pass

    def made():
        return training.DPTrainer(
            loss, jnp.zeros(5, jnp.float32), optax.sgd(0.3), training.Privacy(epsilon=50.0),
            batch_size=40, steps=12, noise_multiplier=1.0, sampler=sampling.InOrder(),
            noise=correlated.banded_square_root(4),
        )

    of = training.Plan(200, 40, (1.0,) * 12, 5, sampler=sampling.InOrder(),
                       strategy=correlated.banded_square_root(4))

    def stop(model):
        stop.calls += 1
        if stop.calls == 7:
            raise Stop
        return {}

    stop.calls = 0
    with pytest.raises(Stop):
        made().fit(DATA, seed=2, plan=of, folder=tmp_path / "run", evaluate=stop, evaluate_every=1,
                   checkpoint_every=3)
    found = made().fit(DATA, seed=2, plan=of, folder=tmp_path / "run", resume=True,
                       evaluate_every=1, checkpoint_every=3)
    want = made().fit(DATA, seed=2, plan=of, evaluate_every=1, checkpoint_every=3)
    assert equal(found.model, want.model)
    other = training.Plan(200, 40, (1.0,) * 12, 5, sampler=sampling.InOrder(),
                          strategy=correlated.banded_square_root(3))
    with pytest.raises(ValueError, match="another configuration: plan.strategy"):
        made().fit(DATA, seed=2, plan=other, folder=tmp_path / "run", resume=True)


@pytest.mark.slow
def test_plans_choose_the_noise():
    """Banded noise with groups; bands and groups together; buffers in order: each meets its target,
    and adds less to the sums than independent noise does.
    """
    privacy = training.Privacy(epsilon=4.0)
    settings = {"batch_size": 100, "steps": 64}
    plain = planning.make_plan(privacy, 1600, 10, **settings)
    free = planning.make_plan(privacy, 1600, 10, noise="banded", **settings)
    cyclic = planning.make_plan(privacy, 1600, 10, noise="banded",
                                sampler=sampling.CyclicPoisson(4), **settings)
    ordered = planning.make_plan(privacy, 1600, 10, noise="buffered", sampler=sampling.InOrder(),
                                 **settings)
    banded = planning.make_plan(privacy, 1600, 10, noise="banded", sampler=sampling.InOrder(),
                                **settings)
    assert cyclic.strategy.bands() == 4
    assert banded.strategy.bands() == 16
    assert free.sampler == sampling.CyclicPoisson(free.strategy.bands())

    def error(plan):
        norms = correlated.row_norms(plan.strategy, plan.steps)
        return plan.noise_multipliers[0] * float(np.sqrt(np.mean(np.square(norms))))

    for plan in (free, cyclic, ordered, banded):
        assert planning.holds(plan, privacy)
        assert plan.threat_models == ("worst_case",)
    assert error(free) <= min(error(plain), error(cyclic)) * (1 + 1e-3)
    assert error(cyclic) < error(plain)


def test_settings_come_back():
    for name in ("bands", "inverse", "buffers"):
        strategy = STRATEGIES[name]
        assert equal(strategy_of(settings_of(strategy)), strategy)
    assert in_words(STRATEGIES["bands"]) == "banded Toeplitz, 4 bands"


@pytest.mark.parametrize(
    ("make", "words"),
    [(lambda: streams.stream_of(correlated.dense(np.eye(3))), "Dense cannot be streamed"),
     (lambda: settings_of(correlated.dense(np.eye(3))), "strategy = Dense"),
     (lambda: strategy_of({"name": "dense"}), "strategy = 'dense'"),
     (lambda: make(noise="pink"), "noise = 'pink'"),
     (lambda: make(noise="buffered"), "'buffered' with poisson"),
     (lambda: make(noise="banded", sampler=sampling.Shuffled()), "'banded' with shuffled"),
     (lambda: make(noise=correlated.banded_square_root(2)), "correlated noise with poisson"),
     (lambda: make(noise="banded", steps=None, noise_multiplier=1.0), "steps is missing"),
     (lambda: make(sampler=sampling.BallsInBins(), batch_size=None, noise_multiplier=1.0),
      "batch_size is missing"),
     (lambda: planning.make_plan(training.Privacy(mu=1.0, threat_model="relaxed"), 100, 5,
                                 batch_size=10, steps=5, sampler=sampling.BallsInBins()),
      "threat_model = 'relaxed' of balls_in_bins"),
     (lambda: training.Plan(100, 10, (1.0, 2.0), 5, sampler=sampling.InOrder(),
                            strategy=correlated.banded_square_root(2)), "2 different")],
)
def test_hostile(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def make(**changes):
    return planning.make_plan(training.Privacy(epsilon=3.0), 100, 5,
                              **{"batch_size": 10, "steps": 5, **changes})


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    """Noise of another step's place, and independent noise sold as correlated."""
    true = streams.stream_of

    check_is_red(monkeypatch, streams, "stream_of", lambda s: true(correlated.Identity()),
                 lambda: check_stream("bands"))
    shifted = STRATEGIES["bands"].coefficients[::-1]
    check_is_red(monkeypatch, streams, "stream_of",
                 lambda s: true(correlated.banded_toeplitz(shifted)), lambda: check_stream("bands"))
    monkeypatch.setattr("jaxpriv.training.step.stream_of", lambda s: true(correlated.Identity()))
    with pytest.raises(AssertionError):
        check_release()
