"""Functions of one integral on arrays of any shape: one entry after the other, or a few side by
side.
"""

from functools import partial, wraps

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.line import Kind

_TOGETHER = 4096  # entries at a time on an accelerator
_MANY = 6  # entries that are asked of one composition
_SIDE_BY_SIDE = 16  # by NumPy, unless a transform's nodes are costly
_PATIENCE = 1024  # blocks of frequencies, over these entries, that they wait for the slowest


def entrywise(function, several=None):
    """A function of (terms, values, kind, patience), on arrays of any shape and under vmap.

    values: a pytree of arrays of one entry. It returns (result, done): done is False where more
    than `patience` blocks of frequencies would be needed, which is None where
    there is no such limit.

    On a processor one entry after the other, or by NumPy a few side by side: its cache holds the
    nodes of these. What they would wait for is computed alone.

    several: (terms, values (k, ...), kind) -> (result, was it found?) of entries of one composition
    and kind, which share more than a call (`nearby.served`); by NumPy, where there are many.
    """

    def on_arrays(terms, values, kind):
        if not xp.any_jax(terms, values, kind):
            return _by_numpy(function, several, terms, values, kind)
        shape = jax.tree.leaves(values)[0].shape
        axes = [0 if hasattr(value, "dtype") else None for value in kind]
        varying = [xp.broadcast_to(v, shape) for v, axis in zip(kind, axes) if axis == 0]

        def one(terms, values, *varying):
            left = iter(varying)
            own = Kind(*(v if axis is None else next(left) for v, axis in zip(kind, axes)))
            return function(terms, values, own, None)[0]

        def each(one, together, given):
            """Of entries (*shape, ...), so many together."""
            if not shape:
                return one(*given)
            flat = _flat(given, shape)
            found = jax.lax.map(lambda entry: one(*entry), flat, batch_size=together)
            return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), found)

        in_turn = partial(each, _in_turn(one), None)
        given = terms, values, *varying
        if jax.default_backend() == "cpu":
            return in_turn(given)
        # it may be a program for the processor all the same
        return jax.lax.platform_dependent(
            given, cpu=in_turn, default=partial(each, one, _TOGETHER)
        )

    return wraps(function)(on_arrays)


def _flat(tree, shape):
    """Arrays (*shape, ...) with one axis in the place of `shape`."""
    size = int(np.prod(shape))
    return jax.tree.map(lambda leaf: leaf.reshape((size, *leaf.shape[len(shape) :])), tree)


def _by_numpy(function, several, terms, values, kind):
    """The function of entries in groups that share what they are asked of, and in blocks."""
    shape = jax.tree.leaves(values)[0].shape
    kind = [np.broadcast_to(v, shape).ravel() if np.ndim(v) else v for v in kind]
    flat = _flat((terms, values), shape)

    def of(index):
        index = slice(index.start, index.stop) if isinstance(index, range) else index
        own, given = jax.tree.map(lambda leaf: leaf[index], flat)
        return own, given, Kind(*(v[index] if np.ndim(v) else v for v in kind))

    size = int(np.prod(shape))
    parts, left = [], range(size)
    if several is not None and size >= _MANY:
        arrays = [*jax.tree.leaves(flat[0]), *(v for v in kind if np.ndim(v))]
        groups = [(first, group) for first, group in alike(arrays, size) if len(group) >= _MANY]
        for first, group in groups:
            (own, _, its), (_, given, _) = of(first), of(group)
            found, good = several(own, given, its)
            if good.any():
                parts.append((group[good], jax.tree.map(lambda leaf, good=good: leaf[good], found)))
        left = np.setdiff1d(left, np.concatenate([[], *(index for index, _ in parts)]))
    if len(left):
        every = [leaf for leaf in (*jax.tree.leaves(flat), *kind) if np.ndim(leaf)]
        if len(left) > 1 and not parts and all((leaf == leaf[:1]).all() for leaf in every):
            one = function(*of(0), None)[0]
            return jax.tree.map(
                lambda leaf: np.broadcast_to(leaf, shape + np.shape(leaf)).copy(), one
            )
        parts.append((left, _in_blocks(function, of, left, terms)))
    joined = parts[0][1]
    if len(parts) > 1:
        order = np.argsort(np.concatenate([index for index, _ in parts]))
        joined = jax.tree.map(
            lambda *some: np.concatenate(some)[order], *(part for _, part in parts)
        )
    return jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), joined)


def alike(arrays, size):
    """(the first, all) entries that are equal in all arrays, for every different one."""
    if not size:
        return
    rows = [np.ascontiguousarray(leaf).reshape(size, -1).view(np.uint8) for leaf in arrays]
    _, first, which = np.unique(
        np.concatenate(rows, 1), axis=0, return_index=True, return_inverse=True
    )
    for k, index in enumerate(first):
        yield index, np.flatnonzero(which.ravel() == k)


def side_by_side(terms):
    """How many entries NumPy computes at a time."""
    return min(getattr(term.transform, "together", _SIDE_BY_SIDE) for term in terms)


def _in_blocks(function, of, index, terms):
    """The function of these entries, some at a time."""
    found, together = [], side_by_side(terms)
    for start in range(0, len(index), together):
        some = index[start : start + together]
        if len(some) == 1:
            found.append(function(*of(some), None)[0])
            continue
        several, done = function(*of(some), _PATIENCE // len(some))
        for late in np.flatnonzero(~done):
            alone = function(*of(some[late : late + 1]), None)[0]
            several = jax.tree.map(
                lambda all_of, own, at=late: _put(all_of, at, own), several, alone
            )
        found.append(several)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)


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
