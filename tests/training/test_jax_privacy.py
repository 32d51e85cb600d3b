"""Clipped sums, norms and losses against jax-privacy's, an independent implementation. Ours are
clipped to (1 - 1e-5) clip_norm, theirs to clip_norm: where clipping acts the sums are 1e-5
apart, relatively.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax_privacy.clipping import clipped_grad

from jaxpriv import training

SIZE = 12
EVERY = np.ones(SIZE, bool)
# 1e-5, and some for cancellation between clipped gradients and the rounding of float32
TOLERANCE = 3e-5


def linear(parameters, example):
    return 0.5 * (example["x"] @ parameters["w"] + parameters["b"] - example["y"]) ** 2


def mlp(parameters, example):
    hidden = example["x"]
    for weights, bias in parameters["hidden"]:
        hidden = jnp.tanh(hidden @ weights + bias)
    return -jax.nn.log_softmax(hidden @ parameters["out"])[example["y"]]


def dropout(parameters, example, key):
    """The linear model on a random half of its inputs."""
    return linear(
        parameters,
        {**example, "x": example["x"] * jax.random.bernoulli(key, 0.5, example["x"].shape)},
    )


def untouched(parameters, example):
    """Its gradient is the input: an entry that is not finite leaves the others as they are."""
    return example["x"] @ parameters["w"]


def problem(loss):
    """(parameters, examples), in float32, with gradients of very different lengths."""
    random = np.random.default_rng(3)

    def normal(*shape):
        return jnp.asarray(random.normal(size=shape), jnp.float32)

    scale = jnp.asarray(np.geomspace(0.03, 10, SIZE)[:, None], jnp.float32)
    examples = {"x": normal(SIZE, 5) * scale, "y": jnp.asarray(random.integers(0, 3, SIZE))}
    if loss is mlp:
        return {
            "hidden": [(normal(5, 8), normal(8)), (normal(8, 4), normal(4))],
            "out": normal(4, 3),
        }, examples
    return {"w": normal(5), "b": normal()}, {**examples, "y": examples["y"].astype(jnp.float32)}


@functools.cache
def program(loss, microbatch):
    """Both sides of (parameters, examples, clip_norm, mask):
    a `ClippedSum`, and (sum, auxiliary output).
    """
    def ours(parameters, examples, clip_norm, mask):
        return training.clipped_sum(lambda parameters, example, key: loss(parameters, example),
                                    parameters, examples, clip_norm=clip_norm, mask=mask,
                                    microbatch=microbatch)

    def theirs(parameters, examples, clip_norm, mask):
        call = clipped_grad(loss, l2_clip_norm=clip_norm, keep_batch_dim=False,
                            microbatch_size=microbatch, return_values=True, return_grad_norms=True)
        return call(parameters, examples, is_padding_example=~mask)

    return jax.jit(ours), jax.jit(theirs)


def ours(loss, parameters, examples, clip_norm=1.0, mask=EVERY, microbatch=None):
    return program(loss, microbatch)[0](parameters, examples, clip_norm, mask)


def theirs(loss, parameters, examples, clip_norm=1.0, mask=EVERY, microbatch=None):
    return program(loss, microbatch)[1](parameters, examples, clip_norm, mask)


def check_equal(mine, other):
    """Trees of the same structure, equal but for TOLERANCE of the length of the whole."""
    assert jax.tree.structure(mine) == jax.tree.structure(other)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves((mine, other)))
    mine, other = (np.asarray(ravel_pytree(tree)[0]) for tree in (mine, other))
    length = np.linalg.norm(other)
    assert length > 0
    assert np.linalg.norm(mine - other) <= TOLERANCE * length


@pytest.mark.parametrize("microbatches", [(None, None), (3, None), (None, 3), (3, 4), (4, 3)])
@pytest.mark.parametrize("clip_norm", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("loss", [linear, mlp])
def test_sum_losses_and_norms(loss, clip_norm, microbatches):
    parameters, examples = problem(loss)
    found = ours(loss, parameters, examples, clip_norm, microbatch=microbatches[0])
    total, told = theirs(loss, parameters, examples, clip_norm, microbatch=microbatches[1])
    clipped = int(np.sum(np.asarray(told.grad_norms) > clip_norm))
    assert {1e-3: clipped == SIZE, 1.0: 0 < clipped < SIZE, 1e4: clipped == 0}[clip_norm]
    check_equal(found.total, total)
    np.testing.assert_allclose(found.losses, told.values, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.norms, told.grad_norms, rtol=1e-5)


@pytest.mark.parametrize("microbatch", [None, 3])
@pytest.mark.parametrize("padding", ["between", "at the end", "NaN"])
@pytest.mark.parametrize("loss", [linear, mlp])
def test_padding(loss, padding, microbatch):
    parameters, examples = problem(loss)
    mask = np.arange(SIZE) < 7 if padding == "at the end" else np.arange(SIZE) % 3 != 1
    if padding == "NaN":
        examples["x"] = jnp.where(mask[:, None], examples["x"], jnp.nan)
    found = ours(loss, parameters, examples, mask=mask, microbatch=microbatch)
    total, told = theirs(loss, parameters, examples, mask=mask, microbatch=microbatch)
    check_equal(found.total, total)
    # theirs still tells the losses and norms of padding
    np.testing.assert_allclose(
        np.asarray(found.losses)[mask], np.asarray(told.values)[mask], rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        np.asarray(found.norms)[mask], np.asarray(told.grad_norms)[mask], rtol=1e-5
    )


@pytest.mark.parametrize("microbatch", [None, 3])
@pytest.mark.parametrize(("loss", "value"), [(linear, np.nan), (linear, np.inf), (mlp, np.nan)])
def test_gradient_without_a_finite_entry(loss, value, microbatch):
    """Both count it as zero."""
    parameters, examples = problem(loss)
    examples["x"] = examples["x"].at[5].set(value)
    found = ours(loss, parameters, examples, microbatch=microbatch)
    check_equal(found.total, theirs(loss, parameters, examples, microbatch=microbatch)[0])
    assert found.non_finite == 1


def test_gradient_with_some_finite_entries():
    """Theirs sets the other entries to zero and keeps these, clipped;
    ours counts the whole gradient as zero.
    """
    parameters, examples = problem(untouched)
    examples["x"] = examples["x"].at[5, 2].set(jnp.nan)
    cleaned = {**examples, "x": jnp.nan_to_num(examples["x"])}
    check_equal(
        ours(untouched, parameters, cleaned).total, theirs(untouched, parameters, examples)[0]
    )
    found = ours(untouched, parameters, examples)
    assert found.non_finite == 1
    check_equal(found.total, theirs(untouched, parameters, cleaned, mask=np.arange(SIZE) != 5)[0])


@pytest.mark.parametrize("microbatch", [None, 3])
def test_keys(microbatch):
    """Both give example i the i-th key of `split`, so that random losses are the same too."""
    parameters, examples = problem(dropout)
    key = jax.random.key(7)
    found = jax.jit(
        lambda *args: training.clipped_sum(dropout, *args, clip_norm=1.0, microbatch=microbatch)
    )
    other = clipped_grad(
        dropout, l2_clip_norm=1.0, keep_batch_dim=False, prng_argnum=2, microbatch_size=microbatch
    )
    check_equal(
        found(parameters, examples, key).total, jax.jit(other.fun)(parameters, examples, key)
    )
