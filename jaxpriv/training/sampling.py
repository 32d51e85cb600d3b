"""Poisson sampling into batches of a fixed physical size:
every record takes part by its own coin, in every step anew.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import RATE, UNIT, check_key, check_number, is_traced
from jaxpriv.auditing.binomial import beta_cdf

_UNITS = 2.0**32


class Batch(NamedTuple):
    """A sample padded to a fixed size.

    Attributes:
        indices: `Int[Array, "capacity"]`, of the records, 0 for padding.
        mask: `Bool[Array, "capacity"]`, False for padding.
        overflow: `Bool[Array, ""]`: more records were drawn than fit. Then nothing may be released:
            to leave some out would not be Poisson sampling.
    """

    indices: jax.Array
    mask: jax.Array
    overflow: jax.Array


def capacity(size: int, rate: float, steps: int = 1, failure: float = 1e-12) -> int:
    """The smallest physical batch that holds every one of `steps` Poisson samples but with
    probability `failure`.

    Args:
        size: number of records, at least 1. rate: in (0, 1]. steps: at least 1.
            failure: in (0, 1), of all steps together.

    Returns: an int in [1, size]. Raises: ValueError for values outside their range.
    Guarantee: P(some sample is larger) <= failure, by the exact binomial tail and the union bound.

        >>> capacity(10_000, 0.01), capacity(10_000, 0.01, steps=1000), capacity(20, 1.0)
        (177, 189, 20)
    """
    check_number("rate", rate, RATE)
    if size < 1 or steps < 1:
        raise ValueError(f"size = {size}, steps = {steps}; accepted: [1, inf) both")
    if not 0 < failure < 1:
        raise ValueError(f"failure = {failure} is outside its range (0, 1)")
    if rate == 1:
        return int(size)
    low, high = 0, int(size)  # the tail above `high` is small enough, that above `low` is not
    with jax.ensure_compile_time_eval():  # for those who ask for it while they trace a training
        while high - low > 1:
            middle = (low + high) // 2
            # P(Binomial(n, q) > m) = P(Beta(m + 1, n - m) <= q)
            enough = float(beta_cdf(rate, middle + 1, size - middle)) <= failure / steps
            low, high = (low, middle) if enough else (middle, high)
    return high


def poisson_sample(key: jax.Array, size: int, rate: float | jax.Array, capacity: int) -> Batch:
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
        >>> batch = poisson_sample(jax.random.key(0), 1000, 0.01, capacity(1000, 0.01))
        >>> bool(batch.mask.sum() < 30), bool(batch.overflow)
        (True, False)
    """
    check_key("key", key)
    traced = is_traced(rate)
    if not traced:
        check_number("rate", rate, UNIT)
    units = jnp.floor(rate * _UNITS) if traced else np.floor(np.float64(rate) * _UNITS)
    bits = jax.random.bits(key, (size,), jnp.uint32)
    chosen = (units >= _UNITS) | (
        bits < (jnp if traced else np).where(units < _UNITS, units, 0.0).astype(np.uint32)
    )
    (indices,) = jnp.nonzero(chosen, size=capacity, fill_value=0)
    count = jnp.sum(chosen)
    return Batch(indices, jnp.arange(capacity) < count, count > capacity)
