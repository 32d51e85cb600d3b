"""Whose a number is: NumPy's and Python's, or JAX's; and functions of both that follow it."""

import functools

import jax
import numpy as np

_PYTHON = frozenset({bool, int, float})
_KNOWN = frozenset({np.ndarray, np.float64, np.bool_})  # without JAX in them
_IS_JAX: dict = {np.ndarray: False, np.float64: False, np.bool_: False, bool: False, int: False,
                 float: False, str: False, type(None): False}


def any_jax(*trees):
    """Is any leaf of these pytrees a JAX array or tracer?"""
    return any(map(has_jax, trees))


def has_jax(tree):
    """`any_jax` of one."""
    known = _IS_JAX.get(type(tree))
    if known is not None:
        return known
    if isinstance(tree, (list, tuple)):
        return any(map(has_jax, tree))
    if isinstance(tree, (jax.Array, jax.core.Tracer)):
        _IS_JAX[type(tree)] = True
        return True
    if isinstance(tree, (np.generic, np.dtype, type)):
        _IS_JAX[type(tree)] = False
        return False
    leaves = jax.tree.leaves(tree)
    return any(leaf is not tree and has_jax(leaf) for leaf in leaves)


class Names:
    """Two modules as one: `linalg` and `fft`."""

    def __init__(self, by_numpy, by_jax):
        self._by_numpy, self._by_jax = by_numpy, by_jax

    def __getattr__(self, name):
        return dispatched(getattr(self._by_numpy, name), getattr(self._by_jax, name))


def dispatched(by_numpy, by_jax, creates=False):
    """A function that is one of both by what it is given; creates: arrays, of whatever?"""

    @functools.wraps(by_numpy)
    def function(*args, **kwargs):
        plain = not creates
        for argument in args:
            kind = type(argument)
            if kind not in _PYTHON:
                if kind not in _KNOWN and has_jax(argument):
                    return by_jax(*args, **kwargs)
                plain = False
        if kwargs and has_jax(tuple(kwargs.values())):
            return by_jax(*args, **kwargs)
        found = by_numpy(*args, **kwargs)
        # of Python numbers a Python number, which does not widen what it is multiplied with in JAX
        return found.item() if plain and _is_number(found) else found

    return function


def _is_number(found):
    return isinstance(found, np.generic) or isinstance(found, np.ndarray) and not found.ndim
