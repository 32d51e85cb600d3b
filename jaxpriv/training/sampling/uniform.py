"""Uniform choices out of random words, and how far they are from uniform."""

import jax
import jax.numpy as jnp


def bins(key, size, count):
    """`Int[Array, "size"]`: for each record one of `count` bins, uniformly and on its own.

    A word w of 64 random bits modulo `count`: each bin has floor or ceil of 2^64/count words, so
    that the law is within `bins_unlike(count)` of uniform.
    """
    words = jax.random.bits(key, (2, size), jnp.uint32)
    with jax.enable_x64(True):  # uint64, whatever JAX's mode
        wide = words.astype(jnp.uint64)
        return (((wide[0] << 32) | wide[1]) % jnp.uint64(count)).astype(jnp.int32)


def bins_unlike(count):
    """The total variation distance of one record's bin from uniform is at most this: among `count`
    probabilities, each is off by less than 2^-64.
    """
    return count * 2.0**-65


def order(key, records, mask=None):
    """`Int[Array, "size"]`: these records in uniformly random order; those out of the mask last.

    Sorted by words of 96 random bits each: uniform, given that no two are equal.
    """
    words = jax.random.bits(key, (3, len(records)), jnp.uint32)
    last = () if mask is None else ((~mask).astype(jnp.uint32),)
    keys = (*last, *words)
    return jax.lax.sort((*keys, records), num_keys=len(keys))[-1]


def order_unlike(size):
    """The probability that two of so many words of 96 bits are equal is at most this."""
    return size * (size - 1.0) * 2.0**-97
