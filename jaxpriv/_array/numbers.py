"""What NumPy and JAX spell differently of types, constants and bits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._array.which import any_jax


@functools.cache
def finfo(dtype):
    """`numpy.finfo`, of JAX's narrow types too."""
    return jnp.finfo(dtype)


def result_type(*values):
    """The dtype of what is computed from these: float64 for NumPy and Python numbers,
    JAX's promotion elsewhere.
    """
    return jnp.result_type(*values) if any_jax(*values) else np.dtype(np.float64)


def is_bool(leaf):
    """Is it an array of booleans, or one?"""
    return getattr(leaf, "dtype", None) == np.bool_


def known_false(flags):
    """Are they NumPy's, and all false? What they ask for can then be left out."""
    return not any_jax(flags) and not np.logical_or.reduce(flags, None)


def like(value, reference):
    """A constant as JAX's loops want it from the start,
    where they fold something from `reference` into it.
    """
    return jnp.asarray(value) if any_jax(reference) else value


def gathered(table, index):
    """table[index] of a NumPy table, whatever the index is, which is inside."""
    if not any_jax(table, index):
        return table[index]
    return jnp.asarray(table).at[index].get(mode="promise_in_bounds")


def make_complex(real, imag):
    """real + i imag."""
    if any_jax(real, imag):
        return jax.lax.complex(real, imag)
    found = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.complex128)
    found.real, found.imag = real, imag
    return found


def in_float32(value):
    """float64 numbers rounded to those that float32 has, still as float64.

    Not by a conversion there and back: XLA may leave such a pair out (it does on GPUs), and what
    rounding moved would seem to be nothing.
    """
    if any_jax(value):
        return jax.lax.reduce_precision(value, exponent_bits=8, mantissa_bits=23)
    return np.asarray(value, np.float32).astype(np.float64)


def bits_of(value, integer):
    """The bits of floating-point numbers as integers of the same width."""
    if any_jax(value):
        return jax.lax.bitcast_convert_type(value, integer)
    return np.asarray(value).view(integer)


def frexp(value):
    """(m, k) with value = 2^k m and 1/2 <= m < 1, of numbers > 0; in a program m is smaller for
    those that are not normal, and larger for the largest.

    (JAX's, as of 0.12, forgets in a float32 program that this part of it is in float64.)
    """
    if not any_jax(value):
        return np.frexp(value)
    info, integer = finfo(value.dtype), jnp.int64 if value.dtype == jnp.float64 else jnp.int32
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(value), integer)
    k = jnp.minimum((bits >> info.nmant) - (info.maxexp - 2), info.maxexp - 2)
    shrink = jax.lax.bitcast_convert_type((info.maxexp - 1 - k) << info.nmant, value.dtype)  # 2^-k
    return value * shrink, k
