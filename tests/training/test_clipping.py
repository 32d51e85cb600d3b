"""Clipped sums: their sensitivity, exactly measured, and every setting against a plain loop."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jaxpriv import training

SIZE = 12


def problem(dtype=jnp.float64, seed=0):
    random = np.random.default_rng(seed)
    parameters = {
        "w": jnp.asarray(random.normal(size=(4, 3)), dtype),
        "b": jnp.asarray(random.normal(size=3), dtype),
    }
    examples = {
        "x": jnp.asarray(
            random.normal(size=(SIZE, 4)) * np.geomspace(0.01, 10, SIZE)[:, None], dtype
        ),
        "y": random.integers(0, 3, SIZE),
    }
    return parameters, examples


def loss(parameters, example, key):
    x = example["x"]
    if key is not None:
        x = x * jax.random.bernoulli(key, 0.5, x.shape)
    return -jax.nn.log_softmax(x @ parameters["w"] + parameters["b"])[example["y"]]


def by_loop(parameters, examples, clip_norm, per_layer=False, mask=None):
    total = 0.0
    for i in range(SIZE):
        if mask is not None and not mask[i]:
            continue
        gradient = jax.grad(loss)(
            parameters, jax.tree.map(lambda leaf, i=i: leaf[i], examples), None
        )
        if per_layer:
            limit = clip_norm / np.sqrt(2)
            gradient = jax.tree.map(
                lambda leaf, limit=limit: leaf * min(1, limit / float(jnp.linalg.norm(leaf))),
                gradient,
            )
            total = total + np.asarray(ravel_pytree(gradient)[0])
        else:
            flat = np.asarray(ravel_pytree(gradient)[0])
            total = total + flat * min(1, clip_norm / np.linalg.norm(flat))
    return total


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("microbatch", [None, 1, 4, 12])
def test_is_the_loop(per_layer, microbatch):
    parameters, examples = problem()
    found = training.clipped_sum(
        loss, parameters, examples, clip_norm=0.3, microbatch=microbatch, per_layer=per_layer
    )
    np.testing.assert_allclose(
        flat(found.total), by_loop(parameters, examples, 0.3, per_layer), rtol=2e-5, atol=1e-6
    )
    assert found.non_finite == 0


def check_free():
    """With a bound that nobody meets the sum is the gradient of the sum,
    and norms and losses are those of each example.
    """
    parameters, examples = problem()
    found = training.clipped_sum(loss, parameters, examples, clip_norm=1e3)
    want = jax.grad(lambda p: jnp.sum(jax.vmap(loss, (None, 0, None))(p, examples, None)))(
        parameters
    )
    np.testing.assert_allclose(flat(found.total), flat(want), rtol=1e-10)
    np.testing.assert_allclose(
        found.losses, jax.vmap(loss, (None, 0, None))(parameters, examples, None), rtol=1e-12
    )
    one = jax.grad(loss)(parameters, jax.tree.map(lambda leaf: leaf[3], examples), None)
    np.testing.assert_allclose(found.norms[3], np.linalg.norm(flat(one)), rtol=1e-12)


def test_without_effect():
    check_free()


def test_padding_counts_nothing():
    """Not even where padding holds NaN."""
    parameters, examples = problem()
    mask = np.arange(SIZE) % 3 != 0
    examples["x"] = jnp.where(mask[:, None], examples["x"], jnp.nan)
    found = training.clipped_sum(loss, parameters, examples, clip_norm=0.3, mask=mask, microbatch=3)
    np.testing.assert_allclose(
        flat(found.total), by_loop(parameters, examples, 0.3, mask=mask), rtol=2e-5, atol=1e-6
    )
    assert found.non_finite == 0
    np.testing.assert_array_equal(np.asarray(found.norms) == 0, ~mask)


EXTREMES = [1e-30, 1e-3, 1.0, 1e3, 1e18, 1e30, 3e37, 1e38, np.inf, np.nan]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("scale", EXTREMES)
def test_sensitivity(dtype, per_layer, scale):
    """One example more, as wild as can be, moves the sum by at most the clipping norm,
    measured in float64.
    """
    parameters, _ = problem(dtype)
    clip_norm = 0.7

    def wild(parameters, example, key):
        return jnp.sum(parameters["w"] * example["g"].astype(dtype)) + jnp.sum(
            parameters["b"]
        ) * example["h"].astype(dtype)

    @jax.jit
    def summed(example):
        return training.clipped_sum(
            wild, parameters, example, clip_norm=clip_norm, per_layer=per_layer
        )

    for seed in range(20):
        random = np.random.default_rng(seed)
        gradients = {"g": jnp.asarray(random.normal(size=(4, 4, 3)) * scale, jnp.float32),
                     "h": jnp.asarray(random.normal(size=4) * scale, jnp.float32)}
        for i in range(4):
            example = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], gradients)
            one = summed(example)
            assert np.linalg.norm(flat(one.total).astype(np.float64)) <= clip_norm
            assert np.all(np.isfinite(flat(one.total)))
            assert one.total["w"].dtype == jnp.float32


@pytest.mark.parametrize("summed", [training.clipped_sum, partial(
    training.clipped_sum_on_grid, noise_multiplier=1.0, bits=20)])  # fmt: skip
def test_subnormal_factors(summed):
    """Of 1e-6 to lengths of 1e38: few digits are left of them, and nothing of the gradient."""
    found = summed(lambda p, x, _: jnp.sum(p * x), jnp.zeros(5, jnp.float32),
                   jnp.full((1, 5), 5e37, jnp.float32), clip_norm=1e-6)
    np.testing.assert_array_equal(found.total, np.zeros(5))
    assert found.non_finite == 0
    assert 1e38 < found.norms[0] < 1.2e38


def check_non_finite():
    parameters, examples = problem()
    broken = {**examples, "x": examples["x"].at[2, 1].set(jnp.nan).at[5, 0].set(jnp.inf)}
    found = training.clipped_sum(loss, parameters, broken, clip_norm=0.3)
    mask = ~np.isin(np.arange(SIZE), (2, 5))
    np.testing.assert_allclose(
        flat(found.total), by_loop(parameters, examples, 0.3, mask=mask), rtol=2e-5, atol=1e-6
    )
    assert found.non_finite == 2
    np.testing.assert_array_equal(np.isinf(found.norms), ~mask)


@pytest.mark.slow
def test_non_finite_gradients_count_as_zero():
    check_non_finite()


@pytest.mark.slow
def test_keys_differ_between_examples_not_between_microbatches():
    parameters, examples = problem()
    found = [
        training.clipped_sum(
            loss, parameters, examples, jax.random.key(1), clip_norm=0.3, microbatch=m
        )
        for m in (2, 6)
    ]
    np.testing.assert_allclose(flat(found[0].total), flat(found[1].total), rtol=1e-12)
    same = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), examples)
    norms = training.clipped_sum(loss, parameters, same, jax.random.key(1), clip_norm=0.3).norms
    assert len(set(np.asarray(norms).tolist())) > 2


def test_under_jit_and_traced_norm():
    parameters, examples = problem()
    got = jax.jit(lambda c: training.clipped_sum(loss, parameters, examples, clip_norm=c))(0.3)
    np.testing.assert_allclose(
        flat(got.total), by_loop(parameters, examples, 0.3), rtol=2e-5, atol=1e-6
    )


def test_no_traced_norm_is_no_limit():
    """What became NaN on the way must not turn clipping off."""
    parameters, examples = problem()
    got = jax.jit(lambda c: training.clipped_sum(loss, parameters, examples, clip_norm=c))(np.nan)
    assert np.isnan(flat(got.total)).all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"clip_norm": 0.0}, "clip_norm = 0"), ({"clip_norm": np.nan}, "clip_norm = nan"),
     ({"clip_norm": np.inf}, "clip_norm = inf"),
     ({"clip_norm": 1.0, "microbatch": 5}, "microbatch = 5"),
     ({"clip_norm": 1.0, "microbatch": 0}, "microbatch = 0")],
)
def test_errors(settings, match):
    parameters, examples = problem()
    with pytest.raises(ValueError, match=match):
        training.clipped_sum(loss, parameters, examples, **settings)
    with pytest.raises(ValueError, match="leading"):
        training.clipped_sum(loss, parameters, {**examples, "y": np.zeros(3)}, clip_norm=1.0)
