"""The two executors: NumPy where one answer is wanted now, JAX where a million are, or a
derivative, or an accelerator.

This is the only package that knows both; everything else says `from jaxpriv import _array as xp`
and writes its mathematics once. **The namespace follows the input**, call by call: with a JAX array
or tracer among its arguments `xp.where` is `jnp.where`, else `np.where`. So Python numbers and
NumPy arrays are computed by NumPy in float64 without compiling anything, and whatever depends on a
JAX array becomes part of its program.

Any name of `numpy` that `jax.numpy` has is here too (`xp.exp`, `xp.sum`, `xp.float64`). What both
spell differently has files of its own: `numbers`, `functions`, `derivatives`, `loops`.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv._array.derivatives import (
    custom_jvp,
    derivative,
    stop_gradient,
)
from jaxpriv._array.functions import (
    contracted,
    erf,
    largest,
    log_mean_variance,
    logsumexp,
    matmul,
    running_max,
    sigmoid,
    tensordot,
    whitened,
)
from jaxpriv._array.loops import (
    cond,
    each,
    evaluate,
    fori_loop,
    in_one_dtype,
    jit,
    of_axes,
    refined,
    row,
    scan,
    stacked,
    sum_of,
    summed,
    sums_over,
    while_loop,
)
from jaxpriv._array.numbers import (
    bits_of,
    finfo,
    frexp,
    gathered,
    in_float32,
    is_bool,
    known_false,
    like,
    make_complex,
    result_type,
)
from jaxpriv._array.reductions import REDUCTIONS
from jaxpriv._array.which import Names, any_jax, dispatched

__all__ = [
    "any_jax", "bits_of", "cond", "contracted", "custom_jvp", "derivative", "each", "erf",
    "evaluate", "finfo", "fori_loop", "frexp", "gathered", "in_float32", "in_one_dtype",
    "is_bool", "jit", "known_false", "largest", "like", "log_mean_variance", "logsumexp",
    "make_complex", "matmul", "of_axes", "refined", "result_type", "row", "running_max", "scan",
    "sigmoid", "stacked", "stop_gradient", "sum_of", "summed", "sums_over", "tensordot",
    "while_loop", "whitened",
]
_CREATES = frozenset({"arange", "array", "asarray", "eye", "full", "linspace", "ones", "zeros"})


def __getattr__(name: str) -> Any:
    """A name of NumPy's: types and constants as they are,
    modules and functions by what they are given.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    by_numpy, by_jax = REDUCTIONS.get(name) or getattr(np, name), getattr(jnp, name)
    if isinstance(by_numpy, type) or not callable(by_numpy):
        found = Names(by_numpy, by_jax) if name in ("linalg", "fft") else by_numpy
    else:
        found = dispatched(by_numpy, by_jax, creates=name in _CREATES)
    globals()[name] = found
    return found
