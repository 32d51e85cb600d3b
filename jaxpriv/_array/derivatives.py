"""Rules for derivatives, which NumPy has no use for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._array.which import any_jax, has_jax


class custom_jvp:
    """`jax.custom_jvp` for JAX's arguments;
    NumPy calls the function, for it asks for no derivative.
    """

    def __init__(self, function, nondiff_argnums=()):
        self._by_numpy = function
        self._by_jax = jax.custom_jvp(function, nondiff_argnums=nondiff_argnums)
        functools.update_wrapper(self, function)

    def __call__(self, *args):
        return (self._by_jax if has_jax(args) else self._by_numpy)(*args)

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
