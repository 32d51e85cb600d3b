"""Frequencies y = spacing/2, 3 spacing/2, ..., some blocks at a time."""

import numpy as np

from jaxpriv import _array as xp

BLOCK = 16  # frequencies to a table
# such blocks at a time: by NumPy, to which a call costs as much as a thousand numbers; in programs,
# in which each turn of a loop costs as much as some blocks, and as dozens on an accelerator
_BY_NUMPY, _IN_PROGRAMS = 16, 8
LONG, TIMES = 64, 4  # by NumPy, of lines longer than this, so many times as many


def blocks_at_once(value):
    """How many blocks of frequencies a `line` advances by."""
    return _IN_PROGRAMS if xp.any_jax(value) else _BY_NUMPY


def rows_at_once(value):
    """(how many frequencies to a row, how many rows) make these blocks where a product of matrices
    serves: fewer rows leave less outside of it, and longer ones take longer to set up.
    """
    return 2 * BLOCK, blocks_at_once(value) // 2


def block_of_frequencies(first, spacing):
    """(the frequencies of the next blocks from `first` on, and the first one after them)."""
    count = BLOCK * blocks_at_once(first)
    y = first + xp.arange(count, dtype=first.dtype).reshape((-1,) + (1,) * first.ndim) * spacing
    return y, first + count * spacing


class Several:
    """A path that takes several turns of another one at a time, by NumPy."""

    def __init__(self, path, times):
        self._path, self._times = path, times

    def advance(self, state):
        found = []
        for _ in range(self._times):
            state, ratio = self._path.advance(state)
            found.append(ratio)
        return state, tuple(map(np.concatenate, zip(*found)))
