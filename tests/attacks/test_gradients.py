"""Per-example gradients of plain functions, Linen and NNX, one by one and in chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from jax.flatten_util import ravel_pytree

from jaxpriv import attacks

EXAMPLES = {"x": np.random.default_rng(0).normal(size=(11, 4)), "y": np.arange(11) % 3}


class Linear(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(linen.relu(linen.Dense(5)(x)))


class Network(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(4, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)
        self.seen = nnx.Variable(jnp.zeros(()))

    def __call__(self, x):
        return self.last(nnx.relu(self.first(x)))


def cross_entropy(logits, label):
    return -jax.nn.log_softmax(logits)[label]


def nnx_loss(model, example):
    return cross_entropy(model(example["x"]), example["y"])


def check_rows(got, gradient, parameters):
    want = [
        ravel_pytree(gradient(parameters, {"x": x, "y": y}))[0]
        for x, y in zip(EXAMPLES["x"], EXAMPLES["y"])
    ]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def check_nnx():
    model = Network(nnx.Rngs(0))
    graph, parameters, rest = nnx.split(model, nnx.Param, ...)
    gradient = jax.grad(lambda p, example: nnx_loss(nnx.merge(graph, p, rest), example))
    for chunk in (1, 4, 64):
        check_rows(attacks.per_example_gradients(nnx_loss, model, EXAMPLES, chunk_size=chunk),
                   gradient, parameters)


@pytest.mark.slow
def test_nnx():
    check_nnx()


@pytest.mark.slow
def test_linen():
    model = Linear()
    variables = model.init(jax.random.key(0), EXAMPLES["x"][0])

    def loss(parameters, example):
        return cross_entropy(model.apply(parameters, example["x"]), example["y"])

    check_rows(attacks.per_example_gradients(loss, variables, EXAMPLES), jax.grad(loss), variables)


def test_last_layer_alone():
    model = Network(nnx.Rngs(0))
    every = attacks.per_example_gradients(nnx_loss, model, EXAMPLES)
    last = attacks.per_example_gradients(
        nnx_loss, model, EXAMPLES, keep=lambda path: "last" in path
    )
    assert every.shape == (11, 4 * 5 + 5 + 5 * 3 + 3)
    np.testing.assert_allclose(last, every[:, -18:], rtol=1e-12)


def check_clip():
    model = Network(nnx.Rngs(0))
    free = np.asarray(attacks.per_example_gradients(nnx_loss, model, EXAMPLES))
    norm = np.median(np.linalg.norm(free, axis=1))
    got = attacks.per_example_gradients(nnx_loss, model, EXAMPLES, clip_norm=norm)
    want = free * np.minimum(1, norm / np.linalg.norm(free, axis=1))[:, None]
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.slow
def test_clip():
    check_clip()
    np.testing.assert_array_equal(attacks.clip(np.zeros(3), 1.0), np.zeros(3))
    assert attacks.clip(np.ones(3, np.float32), 1.0).dtype == np.float32


def test_under_jit():
    def loss(w, example):
        return jnp.sum((w * example["x"]) ** 2)

    got = jax.jit(lambda w: attacks.per_example_gradients(loss, w, EXAMPLES))(jnp.ones(4))
    np.testing.assert_allclose(got, 2 * EXAMPLES["x"] ** 2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: attacks.per_example_gradients(
                nnx_loss, Network(nnx.Rngs(0)), EXAMPLES, keep=lambda path: False
            ),
            "keep leaves no",
        ),
        (
            lambda: attacks.per_example_gradients(
                nnx_loss, Network(nnx.Rngs(0)), {"x": np.zeros((3, 4)), "y": np.zeros(2)}
            ),
            "leading",
        ),
        (lambda: attacks.per_example_gradients(nnx_loss, Network(nnx.Rngs(0)), 1.0), "leading"),
        (lambda: attacks.clip(np.ones(3), 0.0), "norm = 0"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1.0, 1e25, 1e37])
def test_clip_at_any_scale(scale):
    """Squares of float32 entries beyond 1e19 overflow, those below 1e-23 vanish;
    the norm does neither.
    """
    gradient = jnp.array([0.6, -0.8], jnp.float32) * jnp.float32(scale)
    norm = min(scale / 2, 1.0)
    np.testing.assert_allclose(
        attacks.clip(gradient, norm), np.array([0.6, -0.8]) * norm, rtol=3e-6
    )
