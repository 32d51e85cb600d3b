"""Noise has the variance that is said, and is independent between steps, leaves and keys."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

from jaxpriv import training

SETTINGS = {"clip_norm": 1.0, "noise_multiplier": 1.0, "expected_batch_size": 4}
TREE = {"a": jnp.ones((200, 100)), "b": jnp.arange(20_000.0)}


def whole(tree):
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)])


def check_mean():
    """chi-square test of the variance, Kolmogorov-Smirnov of the law."""
    got = training.private_mean(
        jax.random.key(0), TREE, clip_norm=0.5, noise_multiplier=3.0, expected_batch_size=20.0
    )
    noise = whole(jax.tree.map(lambda g, t: g - t / 20, got, TREE)) / (0.5 * 3 / 20)
    assert abs(scipy.stats.chi2(noise.size).cdf(np.sum(noise**2)) - 0.5) < 0.4999
    assert scipy.stats.kstest(noise, "norm").pvalue > 1e-4
    first, second = np.split(noise, 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(first.size)


def test_private_mean():
    check_mean()


def check_transformation():
    optimizer = training.add_noise(jax.random.key(0), lambda step: 1.0 + step)
    state, drawn = optimizer.init(TREE), []
    for _ in range(3):
        got, state = optimizer.update(TREE, state)
        drawn.append(whole(jax.tree.map(jnp.subtract, got, TREE)))
    assert state.step == 3
    for i, noise in enumerate(drawn):
        assert abs(scipy.stats.chi2(noise.size).cdf(np.sum((noise / (1 + i)) ** 2)) - 0.5) < 0.4999
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(drawn[one], drawn[other])[0, 1]) < 5 / np.sqrt(drawn[0].size)


def test_transformation():
    check_transformation()


def test_resumed_and_jitted_it_is_the_same():
    optimizer = optax.chain(training.add_noise(jax.random.key(3), 0.5), optax.sgd(0.1))
    state = optimizer.init(TREE)
    _, state = optimizer.update(TREE, state)
    for one, other in zip(jax.tree.leaves(optimizer.update(TREE, state)[0]),
                          jax.tree.leaves(jax.jit(optimizer.update)(TREE, state)[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_dtype_is_kept():
    got = training.private_mean(jax.random.key(0), jnp.zeros(3, jnp.float32), **SETTINGS)
    assert got.dtype == jnp.float32


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"clip_norm": 0.0}, "clip_norm = 0"), ({"noise_multiplier": -1.0}, "noise_multiplier = -1"),
     ({"noise_multiplier": np.nan}, "noise_multiplier = nan"),
     ({"expected_batch_size": 0}, "expected_batch_size = 0")],
)
def test_errors(settings, match):
    with pytest.raises(ValueError, match=match):
        training.private_mean(jax.random.key(0), TREE, **{**SETTINGS, **settings})
    with pytest.raises(ValueError, match="std = -1"):
        training.add_noise(jax.random.key(0), -1.0)
