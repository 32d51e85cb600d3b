"""A sample as programs take it: so many rows, whatever their number, and a mask."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxpriv._checks import RATE, check_number
from jaxpriv.auditing.binomial import beta_cdf


class Batch(NamedTuple):
    """A sample padded to a fixed size.

    Attributes:
        indices: `Int[Array, "capacity"]`, of the records, 0 for padding.
        mask: `Bool[Array, "capacity"]`, False for padding.
        overflow: `Bool[Array, ""]`: more records were drawn than fit. Then nothing may be released:
            to leave some out would not be the sampling that is accounted.
    """

    indices: jax.Array
    mask: jax.Array
    overflow: jax.Array


def chosen(marks, rows):
    """The `Batch` of the records with a mark, `Bool[Array, "records"]`, in their order."""
    (indices,) = jnp.nonzero(marks, size=rows, fill_value=0)
    count = jnp.sum(marks)
    return Batch(indices, jnp.arange(rows) < count, count > rows)


def capacity(size, rate, steps=1, failure=1e-12):
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
