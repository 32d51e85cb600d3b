"""Optimisers for noisy gradients: against plain loops in NumPy, and doing what they are for."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv.training import clipped_sum, private_mean
from jaxpriv.training.optimizers import (
    ScaleThenPrivatise,
    adam_bc,
    average,
    parameter_average,
    scaled,
    scaled_clipped_sum,
    unscaled,
)
from tests.slips import check_is_red
from tests.training.test_clipping import SIZE, flat, loss, problem

# the package has the function by this name
adam_module = importlib.import_module("jaxpriv.training.optimizers.adam_bc")


def ran(optimizer, releases, parameters):
    """Updates of every step, as one program."""

    def step(state, release):
        updates, state = optimizer.update(release, state, parameters)
        return state, updates

    return jax.jit(lambda: jax.lax.scan(step, optimizer.init(parameters), releases))()


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def check_adam_bc_by_loop():
    releases, stds = 0.3 + normal(40, 3), 1 + 0.1 * np.arange(40)
    floor, b1, b2 = 0.01, 0.8, 0.95
    optimizer = adam_bc(0.1, lambda step: 1 + 0.1 * step, b1, b2, floor=floor)
    _, got = ran(optimizer, jnp.asarray(releases), jnp.zeros(3))
    for t in range(1, 41):
        one, two = ((1 - b) * b ** np.arange(t)[::-1] / (1 - b**t) for b in (b1, b2))
        second = two @ (releases[:t] ** 2 - stds[:t, None] ** 2)
        expected = -0.1 * (one @ releases[:t]) / np.sqrt(np.maximum(second, floor))
        np.testing.assert_allclose(got[t - 1], expected, rtol=1e-9)


def test_adam_bc_by_loop():
    check_adam_bc_by_loop()


def test_adam_bc_without_noise_is_adam():
    releases = jnp.asarray(normal(30, 4))
    _, got = ran(adam_bc(0.1, 1e-9, floor=1e-30), releases, jnp.zeros(4))
    _, expected = ran(optax.adam(0.1, eps=0.0), releases, jnp.zeros(4))
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def check_moments(signal=0.0, std=2.0, steps=50, entries=20_000):
    """Second moments without bias, and the default floor is one standard deviation of them."""
    releases = signal + std * normal(steps, entries)
    state, _ = ran(adam_bc(0.1, std, b2=0.9), jnp.asarray(releases), jnp.zeros(entries))
    unbiased = np.asarray(state[0].second - state[0].noise) / (1 - 0.9**steps)
    spread = float(adam_module._spread(0.9, steps)) * std**2
    assert abs(np.mean(unbiased) - signal**2) < 5 * np.std(unbiased) / np.sqrt(entries)
    if signal == 0:
        assert np.std(unbiased) == pytest.approx(spread, rel=0.03)


@pytest.mark.parametrize("signal", [0.0, 1.5])
def test_adam_bc_moments(signal):
    check_moments(signal)


def test_adam_bc_moves_small_entries_as_far_as_large_ones():
    """What Adam is for, and what noise takes from it: steps of the same length for entries whose
    gradients are 0.3 and 3, under noise of 1.
    """
    gradients = np.array([0.3, 3.0])
    releases = jnp.asarray(gradients + normal(20_000, 2))

    def ratio(optimizer):
        _, updates = ran(optimizer, releases, jnp.zeros(2))
        long = np.asarray(updates[2000:]).mean(0)
        return long[0] / long[1]

    assert ratio(optax.adam(1.0, b2=0.9999)) < 0.35
    assert 0.75 < ratio(adam_bc(1.0, 1.0, b2=0.9999)) < 1.3


def test_adam_bc_keeps_dtype_and_counts_finely():
    optimizer = adam_bc(0.1, 1.0)
    tree = {"w": jnp.ones(3, jnp.bfloat16)}
    updates, state = optimizer.update(tree, optimizer.init(tree))
    assert updates["w"].dtype == jnp.bfloat16
    assert state[0].second["w"].dtype == jnp.float32
    assert np.all(np.isfinite(np.asarray(updates["w"], np.float32)))


PARAMETERS, EXAMPLES = problem()
SCALE = jax.tree.map(lambda leaf: jnp.asarray(np.exp(normal(*leaf.shape))), PARAMETERS)


def check_scaled_sum():
    found = jax.jit(lambda: scaled_clipped_sum(loss, PARAMETERS, EXAMPLES, scale=SCALE,
                                               clip_norm=0.3))()
    gradient_of = jax.jit(lambda one: jax.grad(loss)(PARAMETERS, one, None))
    expected, norms = 0.0, []
    for i in range(SIZE):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], EXAMPLES)
        gradient = flat(gradient_of(one)) * flat(SCALE)
        norms.append(np.linalg.norm(gradient))
        expected = expected + gradient * min(1, 0.3 / norms[-1])
    np.testing.assert_allclose(flat(found.total), expected, rtol=3e-5, atol=1e-6)
    np.testing.assert_allclose(found.norms, norms, rtol=1e-9)


def test_scaled_sum():
    check_scaled_sum()


def test_scaled_sum_of_unit_scale_is_the_sum():
    ones = jax.tree.map(jnp.ones_like, PARAMETERS)
    key, settings = jax.random.key(0), {"clip_norm": 0.3, "microbatch": 4}
    found = scaled_clipped_sum(loss, PARAMETERS, EXAMPLES, key, scale=ones, **settings)
    same = clipped_sum(loss, PARAMETERS, EXAMPLES, key, **settings)
    np.testing.assert_allclose(flat(found.total), flat(same.total), rtol=1e-12)
    np.testing.assert_allclose(found.losses, same.losses, rtol=1e-12)


def check_scale_by_loop():
    releases, method = normal(20, 3), ScaleThenPrivatise(b2=0.9, eps=0.1)
    state = method.init(jnp.zeros(3))
    np.testing.assert_allclose(method.scale(state), 10.0, rtol=1e-6)
    for t in range(20):
        state = method.update(jnp.asarray(releases[t]), state)
        weights = 0.1 * 0.9 ** np.arange(t + 1)[::-1] / (1 - 0.9 ** (t + 1))
        expected = 1 / (np.sqrt(weights @ releases[: t + 1] ** 2) + 0.1)
        np.testing.assert_allclose(method.scale(state), expected, rtol=1e-5)


def test_scale_by_loop():
    check_scale_by_loop()


def test_small_entries_get_less_noise():
    """Two entries, of gradients around 1 and 0.01: with the scale the small one's noise is smaller
    than without, at the same noise multiplier and with (almost) nothing clipped.
    """
    rows = jnp.asarray(np.array([1.0, 0.01]) * (1 + 0.1 * normal(200, 2)))

    def linear(w, x, key):
        return w @ x

    method = ScaleThenPrivatise(b2=0.9, eps=0.003)
    settings = {"noise_multiplier": 2.0, "expected_batch_size": 200}

    @jax.jit
    def run(key):
        def step(state, key):
            scale = method.scale(state)
            # scaled gradients have a length of about 2^1/2, after the first steps
            total = scaled_clipped_sum(linear, jnp.zeros(2), rows, scale=scale, clip_norm=2.0).total
            release = private_mean(key, total, clip_norm=2.0, **settings)
            release = unscaled(release, scale)
            return method.update(release, state), release

        return jax.lax.scan(step, method.init(jnp.zeros(2)), jax.random.split(key, 100))[1]

    releases = np.asarray(run(jax.random.key(0)))[20:]
    plain = 1.2 * 2.0 / 200  # std with a clipping norm of 1.2, without a scale
    assert np.std(releases[:, 1]) < 0.1 * plain
    assert np.mean(releases[:, 1]) == pytest.approx(0.01, rel=0.1)
    assert np.std(releases[:, 0]) < 3 * plain


def check_average():
    gradients, decay = normal(60, 2), 0.9
    optimizer = optax.chain(optax.sgd(0.5), parameter_average(decay))

    def step(carry, gradient):
        parameters, state = carry
        updates, state = optimizer.update(gradient, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return (parameters, state), parameters

    start = jnp.ones(2)
    (_, state), path = jax.lax.scan(step, (start, optimizer.init(start)), jnp.asarray(gradients))
    expected = np.ones(2)
    for t, parameters in enumerate(np.asarray(path)):
        d = min(decay, (1 + t) / (10 + t))
        expected = d * expected + (1 - d) * parameters
    np.testing.assert_allclose(
        optax.tree.get(state, "parameter_average"), expected, rtol=1e-6
    )
    np.testing.assert_allclose(path[-1], 1 - 0.5 * gradients.sum(0), rtol=1e-9)


def test_average():
    check_average()


def test_states_share_no_buffer_with_parameters():
    """`DPTrainer`'s step donates all of them."""
    parameters = jnp.ones(3)
    optimizer = optax.chain(adam_bc(0.1, 1.0), parameter_average(0.9))
    step = jax.jit(lambda parameters, state: (parameters + 1, state), donate_argnums=(0, 1))
    step(parameters, optimizer.init(parameters))


def test_average_of_low_precision_moves():
    """In bfloat16 1 + 1e-3 is 1: the average is kept in float32."""
    optimizer = parameter_average(0.999)
    parameters = jnp.ones(1, jnp.bfloat16)
    state = optimizer.init(parameters)._replace(step=jnp.asarray(10**6))
    _, state = optimizer.update(jnp.ones(1, jnp.bfloat16), state, parameters)
    assert state.parameter_average[0] == pytest.approx(1.001, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "match"),
    [(lambda: adam_bc(0.1, 0.0), "noise_std = 0"),
     (lambda: adam_bc(0.1, np.nan), "noise_std = nan"),
     (lambda: adam_bc(0.1, 1.0, b1=1.0), "b1 = 1"),
     (lambda: adam_bc(0.1, 1.0, b2=-0.1), "b2 = -0.1"),
     (lambda: adam_bc(0.1, 1.0, floor=0.0), "floor = 0"),
     (lambda: ScaleThenPrivatise(b2=1.0), "b2 = 1"),
     (lambda: ScaleThenPrivatise(eps=0.0), "eps = 0"),
     (lambda: ScaleThenPrivatise().init(jnp.zeros(2, int)), "int"),
     (lambda: scaled_clipped_sum(loss, PARAMETERS, EXAMPLES, scale=jnp.ones(3), clip_norm=1.0),
      "scale is no pytree"),
     (lambda: scaled_clipped_sum(loss, PARAMETERS, EXAMPLES, clip_norm=1.0,
                                 scale=jax.tree.map(lambda leaf: leaf[:1], SCALE)), "scale is no"),
     (lambda: parameter_average(1.0), "decay = 1"),
     (lambda: parameter_average(0.9).update(jnp.ones(1), parameter_average(0.9).init(jnp.ones(1))),
      "update")],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    def without_correction(noise_std, b1, b2, floor, true=adam_module._scale_by_adam_bc):
        return true(1e-9, b1, b2, floor)

    def rooted(self, state):
        return jax.tree.map(lambda v: 1 / (jnp.sqrt(v) + self.eps), state.second)

    check_is_red(monkeypatch, adam_module, "_scale_by_adam_bc", without_correction,
                 check_adam_bc_by_loop)
    check_is_red(monkeypatch, adam_module, "_spread", lambda b2, count: 1.0, check_moments)
    check_is_red(monkeypatch, ScaleThenPrivatise, "scale", rooted, check_scale_by_loop)
    check_is_red(monkeypatch, scaled, "clipped_sum",
                 lambda loss, offset, *rest, true=scaled.clipped_sum, **settings:
                 true(loss, jax.tree.map(jnp.ones_like, offset), *rest, **settings),
                 check_scaled_sum)
    check_is_red(monkeypatch, average.optax, "apply_updates",
                 lambda parameters, updates: parameters, check_average)
