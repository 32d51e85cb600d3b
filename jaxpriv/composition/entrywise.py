"""Functions of one integral on arrays of any shape: one entry after the other, or a few side by
side.
"""

from functools import wraps

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.line import Kind

_TOGETHER = 4096  # entries at a time on an accelerator
_SIDE_BY_SIDE = 16  # by NumPy, unless a transform's nodes are costly
_PATIENCE = 1024  # blocks of frequencies, over these entries, that they wait for the slowest


def entrywise(function):
    """A function of (terms, values, kind, patience), on arrays of any shape and under vmap.

    values: a pytree of arrays of one entry. It returns (result, done): done is False where more
    than `patience` blocks of frequencies would be needed, which is None where
    there is no such limit.

    On a processor one entry after the other, or by NumPy a few side by side: its cache holds the
    nodes of these. What they would wait for is computed alone.
    """

    def on_arrays(terms, values, kind):
        if not xp.any_jax(terms, values, kind):
            return _in_blocks(function, terms, values, kind)
        shape = jax.tree.leaves(values)[0].shape
        axes = [0 if hasattr(value, "dtype") else None for value in kind]
        varying = [xp.broadcast_to(v, shape) for v, axis in zip(kind, axes) if axis == 0]

        def one(terms, values, *varying):
            left = iter(varying)
            own = Kind(*(v if axis is None else next(left) for v, axis in zip(kind, axes)))
            return function(terms, values, own, None)[0]

        on_processor = jax.default_backend() == "cpu"
        one = _in_turn(one) if on_processor else one
        if not shape:
            return one(terms, values, *varying)
        flat = _flat((terms, values, *varying), shape)
        batch = None if on_processor else _TOGETHER
        found = jax.lax.map(lambda entry: one(*entry), flat, batch_size=batch)
        return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), found)

    return wraps(function)(on_arrays)


def _flat(tree, shape):
    """Arrays (*shape, ...) with one axis in the place of `shape`."""
    size = int(np.prod(shape))
    return jax.tree.map(lambda leaf: leaf.reshape((size, *leaf.shape[len(shape) :])), tree)


def _in_blocks(function, terms, values, kind):
    """The function of blocks of entries, by NumPy."""
    shape = jax.tree.leaves(values)[0].shape
    kind = [np.broadcast_to(v, shape).ravel() if np.ndim(v) else v for v in kind]
    flat = _flat((terms, values), shape)
    size = int(np.prod(shape))

    def entries(some, patience):
        own, given = jax.tree.map(lambda leaf: leaf[some], flat)
        return function(own, given, Kind(*(v[some] if np.ndim(v) else v for v in kind)), patience)

    every = [leaf for leaf in (*jax.tree.leaves(flat), *kind) if np.ndim(leaf)]
    if size > 1 and all((leaf == leaf[:1]).all() for leaf in every):
        one = entries(0, None)[0]
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape + np.shape(leaf)).copy(), one)
    found = []
    together = min(getattr(term.transform, "together", _SIDE_BY_SIDE) for term in terms)
    for start in range(0, size, together):
        some = slice(start, start + together)
        patience = _PATIENCE // min(together, size - start)
        if size - start == 1:
            found.append(entries(some, None)[0])
            continue
        several, done = entries(some, patience)
        for late in np.flatnonzero(~done):
            alone = entries(slice(start + late, start + late + 1), None)[0]
            several = jax.tree.map(
                lambda all_of, own, at=late: _put(all_of, at, own), several, alone
            )
        found.append(several)
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)
    return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), joined)


def _put(leaf, at, own):
    leaf = np.array(leaf)
    leaf[at] = own[0]
    return leaf


def _in_turn(function):
    """The function, to which vmap is a loop.

    (`jax.custom_batching.sequential_vmap` fails where only tangents are mapped.)
    """
    in_turn = jax.custom_batching.custom_vmap(function)

    @in_turn.def_vmap
    def looped(axis_size, mapped, *arguments):
        if not any(jax.tree.leaves(mapped)):
            found = function(*arguments)
            return found, jax.tree.map(lambda _: False, found)

        def spread(leaf, own):
            return leaf if own else xp.broadcast_to(leaf, (axis_size, *xp.shape(leaf)))

        each = jax.tree.map(spread, arguments, tuple(mapped))
        found = jax.lax.map(lambda entry: in_turn(*entry), each)
        return found, jax.tree.map(lambda _: True, found)

    return in_turn
