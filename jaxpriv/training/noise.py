"""Gaussian noise on sums of clipped gradients, as a function and as an optax transformation."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxpriv import random
from jaxpriv._checks import (
    NONNEGATIVE,
    POSITIVE,
    SCALE,
    check_floating,
    check_key,
    check_number,
    is_traced,
)


def private_mean(key, total, *, clip_norm, noise_multiplier, expected_batch_size):
    """The release of DP-SGD: (total + clip_norm noise_multiplier N(0, I))/expected_batch_size.

    The divisor does not depend on the data: the number of records in a Poisson sample would itself
    have to be protected.

    Args:
        key: a JAX key, used once and for nothing else.
        total: a pytree, from `clipped_sum`. clip_norm: in [1e-15, 1e15], the one of that sum.
        noise_multiplier: 0, or in [1e-15, 1e15]. expected_batch_size: in (0, inf): sampling rate
            times number of records.

    Returns: a pytree like `total`.
    Guarantee: one step of `jaxpriv.worst_case.subsampled_gaussian` with this noise multiplier, for
        a batch sampled so; up to the tail and the rounding of `jaxpriv.random.normal`.
    Raises: ValueError for values outside their range and for old-style keys. Source: Abadi et al.
        2016, Algorithm 1.

        >>> import jax, jax.numpy as jnp
        >>> settings = {"clip_norm": 2.0, "noise_multiplier": 0.0, "expected_batch_size": 4}
        >>> print(private_mean(jax.random.key(0), jnp.array([2.0, 4.0]), **settings))
        [0.5 1. ]
    """
    for name, value, domain in (("clip_norm", clip_norm, SCALE),
                                ("noise_multiplier", noise_multiplier, NONNEGATIVE),
                                ("expected_batch_size", expected_batch_size, POSITIVE)):
        if not is_traced(value):
            check_number(name, value, domain)
    if not is_traced(noise_multiplier) and np.all(noise_multiplier):
        check_number("noise_multiplier", noise_multiplier, SCALE)
    check_key("key", key)
    return noisy_mean(total, normal_like(key, total), clip_norm * noise_multiplier,
                      expected_batch_size)


def noisy_mean(total, noise, std, expected_batch_size):
    """(total + std noise)/expected_batch_size, of two pytrees; rounded to the total's types."""
    def mean(leaf, normal):
        noisy = _sum(leaf, normal, std)
        return noisy / jnp.asarray(expected_batch_size, noisy.dtype)

    return jax.tree.map(mean, total, noise)


def normal_like(key, tree):
    """Independent normal entries in the shape of a pytree, from a key of its own for every leaf.

    In float32 at least: in bfloat16 a normal number has 128 values, none beyond three standard
    deviations; rounding the sum tells nothing more.
    """
    check_floating("", tree)
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, max(len(leaves), 1))
    drawn = [random.normal(own, leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32))
             for own, leaf in zip(keys, leaves)]
    return jax.tree.unflatten(structure, drawn)


def _sum(leaf, normal, std):
    return (leaf.astype(normal.dtype) + jnp.asarray(std, normal.dtype) * normal).astype(leaf.dtype)


class NoiseState(NamedTuple):
    """The key of all noise to come, and the number of steps that have theirs."""

    key: Any
    step: jax.Array


def add_noise(key, std):
    """An optax transformation that adds N(0, std^2) to every entry of every update,
    fresh in each step.

    Chained before an optimiser it makes any optax training loop private: give it sums of clipped
    gradients over the expected batch size, with std = clip_norm
    noise_multiplier/expected batch size.

    Args:
        key: a JAX key, used for nothing else: each optimiser, and each `init`,
            needs one of its own, or noise repeats.
        std: in [0, inf), or a schedule: (step) -> std.

    Returns: an `optax.GradientTransformation`; the noise of step i comes from `fold_in(key, i)`.
    Raises: ValueError for std outside its range and for old-style keys.

        >>> import jax, jax.numpy as jnp, optax
        >>> optimizer = optax.chain(add_noise(jax.random.key(0), 1.0), optax.sgd(0.1))
        >>> updates, _ = optimizer.update(jnp.zeros(10_000), optimizer.init(jnp.zeros(10_000)))
        >>> print(f"{updates.std():.2f}")
        0.10
    """
    check_key("key", key)
    if not callable(std) and not is_traced(std):
        check_number("std", std, NONNEGATIVE)

    def init(parameters):
        del parameters
        return NoiseState(key, jnp.zeros((), jnp.int32))

    def update(updates, state, parameters=None):
        del parameters
        now = std(state.step) if callable(std) else std
        drawn = normal_like(jax.random.fold_in(state.key, state.step), updates)
        noisy = jax.tree.map(lambda leaf, normal: _sum(leaf, normal, now), updates, drawn)
        return noisy, NoiseState(state.key, state.step + 1)

    return optax.GradientTransformation(init, update)
