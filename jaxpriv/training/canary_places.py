"""The entries of parameters that belong to Dirac canaries, by their places in the flattened tree.

Array by array: a flattened copy would bring all parts of a sharded model to every device.
"""

import jax
import jax.numpy as jnp
import numpy as np


def added(tree, places, times, longest):
    """The tree, with `times` (`Int[Array, "places"]`) the entry `longest` added at these places."""
    leaves, structure = jax.tree.flatten(tree)
    for number, mine, index in _by_leaf(leaves, places):
        leaf = jnp.atleast_1d(leaves[number])
        more = times[mine] * longest.astype(leaf.dtype)
        leaves[number] = leaf.at[index].add(more).reshape(leaves[number].shape)
    return jax.tree.unflatten(structure, leaves)


def taken(tree, places, dtype):
    """`Array["places"]`, the entries at these places."""
    leaves, found = jax.tree.leaves(tree), jnp.zeros(len(places), dtype)
    for number, mine, index in _by_leaf(leaves, places):
        found = found.at[mine].set(jnp.atleast_1d(leaves[number])[index].astype(dtype))
    return found


def _by_leaf(leaves, places):
    """(number of an array, which of the places are in it, their indices there)."""
    ends = np.cumsum([leaf.size for leaf in leaves])
    owner = np.searchsorted(ends, places, side="right")
    for number in np.unique(owner):
        leaf, mine = leaves[number], np.flatnonzero(owner == number)
        within = places[mine] - (ends[number] - leaf.size)
        yield number, mine, np.unravel_index(within, leaf.shape or (1,))
