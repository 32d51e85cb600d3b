"""A private step for a loop that is there already."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxpriv import correlated, training
from jaxpriv.training import sampling
from tests.training.problems import data, equal, loss, quiet

DATA = data()


def plan(steps=12, noise=1.0, **changes):
    return training.Plan(200, 40, (noise,) * steps, 5, **changes)


def run(made, steps, seed=0):
    state = made.init(jnp.zeros(5, jnp.float32), seed=seed)
    for _ in range(steps):
        state = made.step(state, DATA)
    return state


def check_loop():
    """The parameters of the loop are those of the trainer, with the same plan and seed."""
    made = training.private(loss, optax.sgd(0.5), plan(noise=1e-6))
    state = run(made, 12)
    trainer = training.DPTrainer(loss, jnp.zeros(5, jnp.float32), optax.sgd(0.5),
                                 training.Privacy(epsilon=50.0), batch_size=40, steps=12,
                                 noise_multiplier=1.0)
    want = trainer.fit(DATA, seed=0, plan=quiet(steps=12))
    np.testing.assert_allclose(state.model, want.model, rtol=1e-5, atol=1e-6)
    assert int(state.steps) == 12


@pytest.mark.slow
def test_loop():
    check_loop()


@pytest.mark.slow
def test_epsilon_counts():
    made = training.private(loss, optax.sgd(0.5), plan())
    for steps in (0, 5, 12):
        state = run(made, steps)
        want = plan().profile(steps=steps).epsilon(1e-5)[1]
        assert made.epsilon(state) == want
    assert made.epsilon(state) > 1


@pytest.mark.slow
def test_after_the_plan_nothing_is_released():
    made = training.private(loss, optax.sgd(0.5), plan(3))
    end = run(made, 3)
    assert equal(end.state, made.step(end, DATA).state)
    assert int(made.step(end, DATA).steps) == 3


@pytest.mark.slow
def test_an_overflow_ends_it(monkeypatch):
    module = sys.modules["jaxpriv.training.private"]
    monkeypatch.setattr(module, "physical_batch", lambda *_: (4, 4))
    made = training.private(loss, optax.sgd(0.5), plan())
    state = run(made, 2)
    assert int(state.steps) == 0
    np.testing.assert_array_equal(state.model, 0)
    with pytest.raises(OverflowError, match="larger than the batch"):
        made.epsilon(state)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "strategy"),
    [(sampling.BallsInBins(), correlated.Identity()), (sampling.Shuffled(), correlated.Identity()),
     (sampling.CyclicPoisson(4), correlated.banded_square_root(4)),
     (sampling.InOrder(), correlated.buffered_toeplitz([0.9, 0.5], [0.2, 0.3]))],
)
def test_every_sampler_and_noise(sampler, strategy):
    """As the trainer does it, bit by bit but for the order of sums."""
    # one epoch of balls in bins: the curves of several take seconds
    steps = 5 if isinstance(sampler, sampling.BallsInBins) else 12
    of = plan(steps, noise=0.5, sampler=sampler, strategy=strategy)
    state = run(training.private(loss, optax.sgd(0.1), of), steps, seed=3)
    trainer = training.DPTrainer(loss, jnp.zeros(5, jnp.float32), optax.sgd(0.1),
                                 training.Privacy(epsilon=50.0), batch_size=40, steps=steps,
                                 noise_multiplier=0.5, sampler=sampler, noise=strategy)
    want = trainer.fit(DATA, seed=3, plan=of, evaluate_every=steps)
    np.testing.assert_allclose(state.model, want.model, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_modules_and_programs():
    """An NNX module comes back as one, and steps go into one program."""
    model = nnx.Linear(5, 1, rngs=nnx.Rngs(0))

    def of_model(model, example, key):
        return optax.sigmoid_binary_cross_entropy(model(example["x"])[0], example["y"])

    of = training.Plan(200, 40, (0.3,) * 20, 6)
    made = training.private(of_model, optax.sgd(1.0), of)
    state = made.init(model, seed=0)
    after = jax.jit(
        lambda state, data: jax.lax.fori_loop(0, 20, lambda _, s: made.update(s, data), state)
    )(state, DATA)
    assert int(after.steps) == 20
    right = np.mean((after.model(DATA["x"])[:, 0] > 0) == DATA["y"])
    assert right > 0.7


def test_keys_are_new_each_time():
    made = training.private(loss, optax.sgd(0.5), plan())
    one, two = (made.init(jnp.zeros(5)) for _ in range(2))
    for first, second in zip(one.keys[:3], two.keys[:3]):
        assert not np.array_equal(*map(jax.random.key_data, (first, second)))
    assert not np.array_equal(one.keys[3], two.keys[3])
    assert str(int(one.keys[3][0])) not in repr(one)


@pytest.mark.parametrize(
    ("act", "words"),
    [(lambda: training.private(loss, optax.sgd(1.0), plan(), clip_norm=0.0), "clip_norm = 0"),
     (lambda: training.private(loss, optax.sgd(1.0), plan(), microbatch=0), "microbatch = 0"),
     (lambda: training.private(loss, optax.sgd(1.0), plan()).init(jnp.zeros(4)), "4 parameters"),
     (lambda: training.private(loss, optax.sgd(1.0), None), "plan = None"),
     (lambda: jax.jit(lambda w: training.private(loss, optax.sgd(1.0), plan()).init(w).steps)(
         jnp.zeros(5)), "inside a program"),
     (lambda: training.private(loss, optax.sgd(1.0), plan(records_per_user=2)), "without users"),
     (lambda: training.private(loss, optax.sgd(1.0), plan(records_per_user=2),
                               users=np.zeros(200)), "one user has 200"),
     (lambda: run(training.private(loss, optax.sgd(1.0), training.Plan(199, 40, (1.0,), 5)), 1),
      "199 records")],
)
def test_hostile(act, words):
    with pytest.raises(ValueError, match=words):
        act()
