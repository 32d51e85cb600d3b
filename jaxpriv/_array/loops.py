"""Programs and loops: Python's own until something of JAX enters."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._array.numbers import finfo
from jaxpriv._array.which import any_jax, has_jax

_FEW = 1 << 12  # numbers


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
        return evaluate(compiled if has_jax(args) else function, *args)

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
