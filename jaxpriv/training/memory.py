"""How many examples at once fit into memory: measured on compiled programs, not guessed."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import jax

from jaxpriv._checks import check_whole

# of a computer's memory, where the device has none of its own: others use it too
_SHARE = 0.5


def microbatch_that_fits(
    compiled_for: Callable[[int], Any], sizes: Iterable[int], budget: float | None = None
) -> int:
    """A microbatch whose program keeps within a budget of memory: the largest, if memory grows
    linearly with it.

    The programs of the largest and of the smallest size tell where the budget is reached, unless
    the largest keeps within it. The program of the size found is compiled and read too, and those
    of smaller ones where it needs more after all. Nothing is run.

    Args:
        compiled_for: (microbatch) -> the compiled program, of `jax.jit(step).lower(...).compile()`.
        sizes: microbatches to choose from, whole numbers >= 1: divisors of the batch.
        budget: in bytes, for what the program needs besides its arguments (temporaries and
            outputs); the free memory of JAX's first device unless given, or half of the computer's
            where the device has none of its own.

    Returns: one of `sizes`.
    Guarantee: `needed(compiled_for(it)) <= budget`.
    Raises: ValueError if the smallest does not fit, for sizes or a budget that are none, and where
        the backend does not tell what a program needs.

        >>> import jax, jax.numpy as jnp
        >>> from jaxpriv.training import clipped_sum
        >>> x = jax.ShapeDtypeStruct((64, 100), jnp.float32)
        >>> w = jax.ShapeDtypeStruct((100, 100), jnp.float32)
        >>> def compiled_for(microbatch):
        ...     def step(w, x):
        ...         return clipped_sum(lambda w, x, key: jnp.sum(jnp.tanh(x @ w)), w, x,
        ...                            clip_norm=1.0, microbatch=microbatch)
        ...     return jax.jit(step).lower(w, x).compile()
        >>> microbatch_that_fits(compiled_for, [1, 2, 4, 8, 16, 32, 64], budget=600_000)
        8
    """
    sizes = list(sizes)
    for size in sizes:
        check_whole("a microbatch of sizes", size)
    if not sizes:
        raise ValueError("sizes is empty; accepted: whole numbers >= 1")
    sizes = sorted({int(size) for size in sizes})
    budget = free_memory() if budget is None else budget
    check_whole("budget", budget, most=2**63)
    measured: dict = {}

    def fits(size):
        if size not in measured:
            measured[size] = needed(compiled_for(size))
        return measured[size] <= budget

    if fits(sizes[-1]):
        return sizes[-1]
    if not fits(sizes[0]):
        raise ValueError(
            f"a microbatch of {sizes[0]} needs {measured[sizes[0]]:,} bytes, more than the budget "
            f"of {budget:,}"
        )
    slope = (measured[sizes[-1]] - measured[sizes[0]]) / (sizes[-1] - sizes[0])
    left = [size for size in sizes[:-1] if measured[sizes[0]] + slope * (size - sizes[0]) <= budget]
    return next(size for size in reversed(left) if fits(size))


def needed(compiled):
    """Bytes that a compiled program needs besides its arguments: temporaries and outputs.
    Raises: ValueError where the backend does not tell.
    """
    found = compiled.memory_analysis()
    if found is None:
        raise ValueError("this backend does not tell what a compiled program needs")
    return int(found.temp_size_in_bytes + found.output_size_in_bytes)


def free_memory(device=None):
    """Bytes that a device (JAX's first unless given) has free: of its own memory, or half of the
    computer's, where it has none.
    """
    device = jax.local_devices()[0] if device is None else device
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
