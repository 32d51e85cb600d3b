"""Poisson sampling: every record takes part by its own coin, in every step anew."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import UNIT, check_key, check_number, is_traced
from jaxpriv.training.sampling.batch import chosen

_UNITS = 2.0**32


def poisson_sample(key, size, rate, capacity):
    """One Poisson sample of the records 0 ... size-1.

    Args:
        key: a JAX key, used once, and never for noise. size: number of records.
            rate: in [0, 1], may be traced.
        capacity: of the batch, from `capacity`.

    Returns: a `Batch`. Every record takes part with probability floor(2^32 rate)/2^32, never above
        the rate that is accounted (uniform float32 numbers would be off by 2^-23,
        a thousandth of a rate of 1e-4).
    Raises: ValueError for a rate outside its range and for old-style keys.

        >>> import jax
        >>> from jaxpriv.training.sampling import capacity
        >>> batch = poisson_sample(jax.random.key(0), 1000, 0.01, capacity(1000, 0.01))
        >>> bool(batch.mask.sum() < 30), bool(batch.overflow)
        (True, False)
    """
    check_key("key", key)
    if not is_traced(rate):
        check_number("rate", rate, UNIT)
    return chosen(coins(key, size, rate), capacity)


def coins(key, size, rate):
    """`Bool[Array, "size"]`, each True with probability floor(2^32 rate)/2^32 on its own."""
    traced = is_traced(rate)
    units = jnp.floor(rate * _UNITS) if traced else np.floor(np.float64(rate) * _UNITS)
    bits = jax.random.bits(key, (size,), jnp.uint32)
    # units = 2^32 is none of uint32
    return (units >= _UNITS) | (
        bits < (jnp if traced else np).where(units < _UNITS, units, 0.0).astype(np.uint32)
    )
