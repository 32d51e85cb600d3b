"""Parameters that follow from others, in the precision of whatever is computed from them.

A float32 number is a parameter like any other: a certificate holds for exactly that number. Were
1/noise multiplier rounded to float32 when a curve is made, every float64 bound would hold for
another mechanism. So what follows from such numbers is kept as the numbers that were given and the
function, until the dtype of an evaluation is known.
"""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE, POSITIVE, as_parameter, is_traced


@jax.tree_util.register_pytree_with_keys_class
class Derived:
    """function(*arguments), elementwise: a parameter that has not been computed yet."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments

    def tree_flatten_with_keys(self):
        keys = map(jax.tree_util.SequenceKey, range(len(self.arguments)))
        return list(zip(keys, self.arguments)), self.function

    @classmethod
    def tree_unflatten(cls, function, arguments):
        return cls(function, tuple(arguments))


def derived(function, *arguments):
    """function(*arguments) of parameters: at once where all digits are at hand, else `Derived`.

    function: elementwise, of arrays with NumPy's operators;
    of a module, for it is a part of a pytree's structure.
    """
    leaves = jax.tree.leaves(arguments)
    if any(getattr(leaf, "dtype", np.float64) != np.float64 for leaf in leaves):
        return Derived(function, arguments)
    if xp.any_jax(leaves):
        return function(*resolved(arguments, xp.float64))
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        found = function(*map(_by_numpy, arguments))
    if all(isinstance(argument, (float, int)) for argument in arguments):
        return float(found)
    return found


def _by_numpy(argument):
    if isinstance(argument, Derived):
        return argument.function(*map(_by_numpy, argument.arguments))
    return np.asarray(argument, np.float64)


def resolved(tree, dtype):
    """A pytree with every `Derived` computed in `dtype`; all other leaves stay as they are."""

    def value(leaf):
        if isinstance(leaf, Derived):
            return leaf.function(*(xp.asarray(value(a), dtype) for a in leaf.arguments))
        return leaf

    return jax.tree.map(value, tree, is_leaf=lambda leaf: isinstance(leaf, Derived))


def number(parameter):
    """A parameter as it is given out: JAX's in its dtype, all others as NumPy's float64."""
    if xp.any_jax(parameter):
        return resolved(parameter, xp.result_type(*jax.tree.leaves(parameter)))
    return np.asarray(_by_numpy(parameter), np.float64)[()]


def known_whole(parameter):
    """Is it known, outside of any trace, that all its numbers are whole?"""
    leaves = jax.tree.leaves(parameter)
    if is_traced(leaves):
        return False
    values = _by_numpy(parameter)
    return bool(np.all(values == np.floor(values)))


def quotient(a, b):
    return a / b


def reciprocal(a):
    return 1 / a


def product(a, b):
    return a * b


def square(a):
    return a * a


def grown(mu, n):
    """mu of n Gaussian releases of mu each."""
    return mu * xp.sqrt(n)


def root_sum_of_squares(*values):
    """sqrt(sum of squares), with zero gradient instead of NaN at zero."""
    total = sum((value * value for value in values[1:]), values[0] * values[0])
    return xp.where(total > 0, xp.sqrt(xp.where(total > 0, total, 1.0)), 0.0 * total)


def combined_signal(sensitivities, noise_stds, averaging):
    """mu of several Gaussian releases along the last axis: see `jaxpriv.worst_case.signal`."""
    if averaging not in ("optimal", "mean"):
        raise ValueError(f"averaging = {averaging!r}; accepted: 'optimal', 'mean'")
    sensitivities = as_parameter("sensitivities", sensitivities, NONNEGATIVE)
    noise_stds = as_parameter("noise_stds", noise_stds, POSITIVE)
    shape = np.broadcast_shapes(np.shape(sensitivities), np.shape(noise_stds))
    wide = [xp.broadcast_to(value, shape) for value in (sensitivities, noise_stds)]
    parts, noises = ([value[..., i] for i in range(shape[-1])] for value in wide)
    if averaging == "mean":
        return derived(quotient, derived(_total, *parts), derived(root_sum_of_squares, *noises))
    return derived(root_sum_of_squares, *(derived(quotient, *pair) for pair in zip(parts, noises)))


def _total(*values):
    return sum(values[1:], values[0])
