"""The two executors: NumPy where one answer is wanted now, JAX where a million are, or a
derivative, or an accelerator.

This is the only module that knows both; everything else says `from jaxpriv import _array as xp` and
writes its mathematics once. **The namespace follows the input**, call by call: with a JAX array or
tracer among its arguments `xp.where` is `jnp.where`, else `np.where`. So Python numbers and NumPy
arrays are computed by NumPy in float64 without compiling anything, and whatever depends on a JAX
array becomes part of its program.

Any name of `numpy` that `jax.numpy` has is here too (`xp.exp`, `xp.sum`, `xp.float64`). What both
spell differently is written out below: loops, derivative rules, compilation, bits.
"""

import builtins
import contextlib
import functools
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._reductions import REDUCTIONS

_PYTHON = frozenset({bool, int, float})
_KNOWN = _PYTHON | {np.ndarray, np.float64, np.bool_}  # without JAX in them
_ARRAY_OR_TUPLE = frozenset({np.ndarray, tuple})
_IS_JAX: dict = {np.ndarray: False, np.float64: False, np.bool_: False, bool: False, int: False,
                 float: False, str: False, type(None): False}
_FEW, _SHORT = 1 << 12, 1 << 10  # numbers
# multiplications in a product of matrices, from twice as many of which OpenBLAS shares it among its
# threads: they wait for each other by spinning, for milliseconds where a core is busy with others
_OF_ONE_THREAD = 2**18
_CREATES = frozenset({"arange", "array", "asarray", "eye", "full", "linspace", "ones", "zeros"})


def any_jax(*trees):
    """Is any leaf of these pytrees a JAX array or tracer?"""
    return builtins.any(map(_has_jax, trees))


def _has_jax(tree):
    known = _IS_JAX.get(type(tree))
    if known is not None:
        return known
    if isinstance(tree, (list, tuple)):
        return builtins.any(map(_has_jax, tree))
    if isinstance(tree, (jax.Array, jax.core.Tracer)):
        _IS_JAX[type(tree)] = True
        return True
    if isinstance(tree, (np.generic, np.dtype, type)):
        _IS_JAX[type(tree)] = False
        return False
    leaves = jax.tree.leaves(tree)
    return builtins.any(leaf is not tree and _has_jax(leaf) for leaf in leaves)


def __getattr__(name: str) -> Any:
    """A name of NumPy's: types and constants as they are,
    modules and functions by what they are given.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    by_numpy, by_jax = REDUCTIONS.get(name) or getattr(np, name), getattr(jnp, name)
    if isinstance(by_numpy, type) or not callable(by_numpy):
        found = _Names(by_numpy, by_jax) if name in ("linalg", "fft") else by_numpy
    else:
        found = _dispatched(by_numpy, by_jax, creates=name in _CREATES)
    globals()[name] = found
    return found


class _Names:
    """`linalg` and `fft`."""

    def __init__(self, by_numpy, by_jax):
        self._by_numpy, self._by_jax = by_numpy, by_jax

    def __getattr__(self, name):
        return _dispatched(getattr(self._by_numpy, name), getattr(self._by_jax, name))


def _dispatched(by_numpy, by_jax, creates=False):
    @functools.wraps(by_numpy)
    def function(*args, **kwargs):
        for argument in args:
            if type(argument) not in _KNOWN and _has_jax(argument):
                return by_jax(*args, **kwargs)
        if kwargs and _has_jax(tuple(kwargs.values())):
            return by_jax(*args, **kwargs)
        found = by_numpy(*args, **kwargs)
        if creates or type(found) in _ARRAY_OR_TUPLE and (type(found) is tuple or found.ndim):
            return found
        # of Python numbers a Python number, which does not widen what it is multiplied with in JAX
        plain = builtins.all(type(argument) in _PYTHON for argument in args)
        return found.item() if plain and isinstance(found, (np.generic, np.ndarray)) else found

    return function


# ----------------------------------------------------------------------------------------
# types and constants


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


# ----------------------------------------------------------------------------------------
# functions that NumPy lacks


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


# ----------------------------------------------------------------------------------------
# derivatives


class custom_jvp:
    """`jax.custom_jvp` for JAX's arguments;
    NumPy calls the function, for it asks for no derivative.
    """

    def __init__(self, function, nondiff_argnums=()):
        self._by_numpy = function
        self._by_jax = jax.custom_jvp(function, nondiff_argnums=nondiff_argnums)
        functools.update_wrapper(self, function)

    def __call__(self, *args):
        return (self._by_jax if _has_jax(args) else self._by_numpy)(*args)

    def defjvp(self, rule, symbolic_zeros=False):
        self._by_jax.defjvp(rule, symbolic_zeros=symbolic_zeros)
        return rule


def stop_gradient(tree):
    """The same, as a constant of every derivative."""
    return jax.lax.stop_gradient(tree) if any_jax(tree) else tree


def derivative(function, x):
    """(function(x), its derivative) of an elementwise function;
    by NumPy from differences, to steer a search.
    """
    if any_jax(x):
        return jax.jvp(function, (x,), (jnp.ones_like(x),))
    step = 1e-6 * (1 + np.abs(x))
    return function(x), (function(x + step) - function(x - step)) / (2 * step)


# ----------------------------------------------------------------------------------------
# programs and loops


def evaluate(function, *args, **kwargs):
    """function(...) by NumPy, which warns of nothing:
    infinities and NaN are part of what is computed.
    """
    with np.errstate(all="ignore"):
        return function(*args, **kwargs)


def in_one_dtype(function, values):
    """function(*arrays) of values in the dtype that they promote to, and the result in it;
    NumPy's numbers as numbers.
    """
    if not any_jax(*values):
        return function(*(np.asarray(value, np.float64) for value in values))[()]
    dtype = jnp.result_type(*values, 0.0)
    computed = dtype if finfo(dtype).bits >= 32 else jnp.float32
    return function(*(jnp.asarray(value, computed) for value in values)).astype(dtype)


def jit(function):
    """Compiled for JAX's arguments, called as it stands for NumPy's."""
    compiled = jax.jit(function)

    @functools.wraps(function)
    def call(*args):
        return evaluate(compiled if _has_jax(args) else function, *args)

    return call


def while_loop(goes_on, step, state):
    """`jax.lax.while_loop`; by Python's loop until something of JAX enters."""
    while not any_jax(state):
        more = goes_on(state)
        if any_jax(more):
            break
        if not more:
            return state
        state = step(state)
    return jax.lax.while_loop(goes_on, step, state)


def cond(needed, function, otherwise):
    """function() or otherwise(), by a scalar: one of them in a program that is not batched."""
    if any_jax(needed):
        return jax.lax.cond(needed, function, otherwise)
    return function() if needed else otherwise()


def fori_loop(start, stop, step, state, settled=None):
    """`jax.lax.fori_loop`; by NumPy it ends as soon as a step has been taken after
    which `settled`(state).
    """
    for index in range(start, stop):
        if any_jax(state):
            return jax.lax.fori_loop(index, stop, step, state)
        state = step(index, state)
        if settled is not None and not any_jax(state) and settled(state):
            break
    return state


def refined(step, x, count, close):
    """x after `count` steps x -> step(x) of a search that converges fast; by NumPy it ends once one
    has moved each number by no more than `close` of itself, when the next moves none but by
    rounding. Of a tuple the first array tells.
    """
    for index in range(count):
        if any_jax(x):
            return jax.lax.fori_loop(index, count, lambda _, x: step(x), x)
        before, x = x, step(x)
        if not any_jax(x) and _stands(before, x, close):
            break
    return x


def _stands(before, after, close):
    if isinstance(after, tuple):
        before, after = before[0], after[0]
    # what is no number is none after the next step either
    return not (np.abs(after - before) > close * np.abs(after)).any()


def scan(step, state, values=None, length=None):
    """`jax.lax.scan`."""
    if any_jax(state, values):
        return jax.lax.scan(step, state, values, length=length)
    found = []
    count = length if values is None else len(jax.tree.leaves(values)[0])
    for index in range(count):
        state, one = step(state, None if values is None else row(values, index))
        found.append(one)
    return state, stacked(found)


def each(function, values):
    """`jax.lax.map`: the function of all entries along the first axis, one after the other."""
    if any_jax(values):
        return jax.lax.map(function, values)
    count = len(jax.tree.leaves(values)[0])
    return stacked([function(row(values, index)) for index in range(count)])


def sum_of(function, values):
    """function(*entries) summed over the first axis of all values;
    by NumPy in one call with all of them.
    """
    if not any_jax(values):
        return np.sum(function(*values), 0)
    shape = jax.eval_shape(function, *(value[0] for value in values))
    start = jnp.zeros(shape.shape, shape.dtype)
    return jax.lax.scan(lambda total, entries: (total + function(*entries), None), start, values)[0]


def summed(term, constants, like):
    """term(*entry) summed over the entries of a few constants' arrays, each term in the shape of
    `like`: written out in a program and of large arrays; by NumPy all at once of small ones, for a
    call takes as long as computing a thousand numbers.
    """
    if any_jax(like) or like.size > _FEW:
        terms = (term(*entry) for entry in zip(*(constant.tolist() for constant in constants)))
        return functools.reduce(operator.add, terms)
    return np.sum(term(*(_in_front(constant, like) for constant in constants)), 0)


def sums_over(terms, count, like):
    """Sums of the several terms(index) over index < count, by NumPy: at once of small arrays."""
    if like.size > _FEW:
        return functools.reduce(lambda sums, more: [a + b for a, b in zip(sums, more)],
                                map(terms, range(count)))
    return [np.sum(parts, 0) for parts in terms(_in_front(np.arange(count), like))]


def _in_front(constant, like):
    """Constants along a further first axis."""
    return constant.reshape((-1,) + (1,) * like.ndim)


def row(tree, index):
    """The entries of a pytree of arrays at an index of the first axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def of_axes(leaf, count):
    """An array with at least so many axes, further ones in front."""
    leaf = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    return leaf.reshape((1,) * (count - leaf.ndim) + leaf.shape)


def stacked(trees):
    """Equal pytrees as one, along a new first axis."""
    return jax.tree.map(lambda *leaves: _stack(leaves), *trees)


def _stack(leaves):
    return jnp.stack(leaves) if any_jax(leaves) else np.stack(leaves)
