"""Functions that NumPy lacks, or that one of both computes otherwise than is wanted here."""

import contextlib
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._array.which import any_jax

_SHORT = 1 << 10  # numbers
# multiplications in a product of matrices, from twice as many of which OpenBLAS shares it among its
# threads: they wait for each other by spinning, for milliseconds where a core is busy with others
_OF_ONE_THREAD = 2**18


def logsumexp(values, axis=None, keepdims=False):
    """log sum exp, -inf where all are; short ones in one pass of a program."""
    if any_jax(values):
        if axis is None or keepdims or values.shape[axis] > _SHORT:
            return jax.nn.logsumexp(values, axis=axis, keepdims=keepdims)
        return _log_sum(values, axis % values.ndim)
    top = np.maximum.reduce(values, axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.add.reduce(np.exp(values - top), axis, keepdims=True)
    found = np.log(total) + top
    return found if keepdims else np.squeeze(found, axis)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _log_sum(values, axis):
    """Of parts (largest exponent, sum over e^it)."""

    def pooled(one, other):
        (top, total), (top_2, total_2) = one, other
        less = jnp.where(top == top_2, 1.0, jnp.exp(-jnp.abs(top - top_2)))
        down, down_2 = jnp.where(top < top_2, less, 1.0), jnp.where(top > top_2, less, 1.0)
        return jnp.maximum(top, top_2), total * down + total_2 * down_2

    start = tuple(jnp.asarray(number, values.dtype) for number in (-jnp.inf, 0.0))
    top, total = jax.lax.reduce((values, jnp.ones_like(values)), start, pooled, (axis,))
    return top + jnp.log(total)


@_log_sum.defjvp
def _log_sum_jvp(axis, primals, tangents):
    (values,), (moved,) = primals, tangents
    found = _log_sum(values, axis)
    some = jnp.expand_dims(jnp.where(jnp.isfinite(found), found, 0.0), axis)
    return found, jnp.sum(jnp.exp(values - some) * moved, axis)


def log_mean_variance(exponents, values):
    """log sum_k e^exponent_k along the first axis, and mean and variance of values_k with these
    weights. A program goes through them once, for every pass is another loop to compile.
    """
    if any_jax(exponents, values):
        return _in_one_pass(*jnp.broadcast_arrays(exponents, values))
    top = np.maximum.reduce(exponents, 0)
    weight = np.exp(exponents - top)
    total, moment = np.add.reduce(weight, 0), np.add.reduce(weight * values, 0)
    mean = moment / total
    return top + np.log(total), mean, np.add.reduce(weight * (values - mean) ** 2, 0) / total


@jax.custom_jvp
def _in_one_pass(exponents, values):
    # where JAX linearised a loop the rule below is lost to a second derivative, and its own one
    # of a reduction takes no operand for a constant: none is, as all move with these zeros
    zeros = 0 * (jnp.clip(exponents, -1, 1) + jnp.clip(values, -1, 1))
    start = tuple(jnp.asarray(number, values.dtype) for number in (-jnp.inf, 0.0, 0.0, 0.0))
    each = exponents + zeros, zeros + 1, values + zeros, zeros
    top, total, mean, variance = jax.lax.reduce(each, start, _pooled, (0,))
    return top + jnp.log(total), mean, variance


@_in_one_pass.defjvp
def _in_one_pass_jvp(primals, tangents):
    """The weights move by themselves times what their exponents move by, less its mean."""
    (exponents, values), (rise, moved) = primals, tangents
    found = log_total, mean, variance = _in_one_pass(exponents, values)
    weight, away = jnp.exp(exponents - log_total), values - mean
    changes = rise, moved + away * rise, 2 * away * moved + (away**2 - variance) * rise
    return found, tuple(jnp.sum(weight * change, 0) for change in changes)


def _pooled(one, other):
    """Two parts of such a sum as one: (largest exponent, sum over e^it, mean, variance)."""
    (top, total, mean, variance), (top_2, total_2, mean_2, variance_2) = one, other
    less = jnp.where(top == top_2, 1.0, jnp.exp(-jnp.abs(top - top_2)))
    total = jnp.where(top < top_2, less, 1.0) * total
    total_2 = jnp.where(top > top_2, less, 1.0) * total_2
    both, gap = total + total_2, mean_2 - mean
    share = total_2 / jnp.where(both > 0, both, 1.0)
    spread = (variance_2 - variance) * share + gap * gap * share * (1 - share)
    return jnp.maximum(top, top_2), both, mean + gap * share, variance + spread


def sigmoid(x):
    """1/(1 + e^-x)."""
    return jax.nn.sigmoid(x) if any_jax(x) else 1 / (1 + np.exp(-x))


def erf(x):
    """The error function."""
    return jax.scipy.special.erf(x) if any_jax(x) else _erf(x)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def largest(values, count):
    """(the largest of a vector in falling order, where they stand)."""
    if any_jax(values):
        return jax.lax.top_k(values, count)
    index = np.argsort(-values, kind="stable")[:count]
    return values[index], index


def whitened(covariance, away):
    """L^-1 away with the Cholesky factor L of covariance matrices;
    NaN where one is not positive definite.
    """
    if any_jax(covariance, away):
        return jax.scipy.linalg.solve_triangular(
            jnp.linalg.cholesky(covariance), away[..., None], lower=True
        )[..., 0]
    shape = np.broadcast_shapes(np.shape(covariance)[:-1], np.shape(away))
    covariance = np.broadcast_to(covariance, (*shape, shape[-1]))
    away = np.broadcast_to(away, shape)
    found = np.full(shape, np.nan)
    for index in np.ndindex(shape[:-1]):  # NumPy refuses all matrices for one
        with contextlib.suppress(np.linalg.LinAlgError):
            found[index] = np.linalg.solve(np.linalg.cholesky(covariance[index]), away[index])
    return found


def running_max(values):
    """The largest so far, along the first axis."""
    return jax.lax.cummax(values) if any_jax(values) else np.maximum.accumulate(values)


def tensordot(one, other, axes):
    """`numpy.tensordot`; of float32, accelerators would otherwise multiply ten bits."""
    if any_jax(one, other):
        return jnp.tensordot(one, other, axes, precision="highest")
    return np.tensordot(one, other, axes)


def matmul(one, other):
    """`numpy.matmul`, likewise."""
    if any_jax(one, other):
        return jnp.matmul(one, other, precision="highest")
    return np.matmul(one, other)


def contracted(one, other):
    """sum_n one[a, n, ...] other[j, n, ...] as [a, j, ...]: by NumPy as products of matrices,
    which its einsum is not, each so small that one thread computes it.
    """
    if any_jax(one, other):
        return jnp.einsum("an...,jn...->aj...", one, other, precision="highest")
    one, other = np.moveaxis(one, (0, 1), (-2, -1)), np.moveaxis(other, (0, 1), (-1, -2))
    most = 1 + _OF_ONE_THREAD // (one.shape[-2] * other.shape[-1])
    ranges = [slice(start, start + most) for start in range(0, one.shape[-1], most)]
    parts = [np.matmul(one[..., part], other[..., part, :]) for part in ranges]
    return np.moveaxis(functools.reduce(np.add, parts), (-2, -1), (0, 1))
