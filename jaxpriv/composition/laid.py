"""Lattices that are laid once for many questions, by NumPy.

Whoever asks for a profile all over its range asks for thousands of eps, one composition at a time.
Its lattices lie at multiples of a fixed distance, one to two standard deviations of the total loss,
so that what is known of one eps serves all its neighbours, whichever was asked for first.
"""

import numpy as np

from jaxpriv import _stored as stored
from jaxpriv._stored import key_of
from jaxpriv.composition import grid, labels
from jaxpriv.composition.line import Term
from jaxpriv.composition.tables import cumulants

FEW = 3  # eps that are asked for around one: for so many a lattice of their own is laid
# kept at most, of 8 MB, 4 MB, 6 MB, 100 KB, 1 MB and some numbers
_laws, _sums, _labels = stored.store(24), stored.store(24), stored.store(12)
_tables, _chains, _slopes = stored.store(64), stored.store(24), stored.store(64)


def tables(entry, make):
    """The tables of all steps, which make() computes."""
    return _tables.get(key_of(entry.steps, entry.flipped), make)


def chain(steps, flipped, make):
    """The `Chain` of these steps, with the laws that were made of it; make() begins one."""
    return _chains.get(key_of(steps, flipped), make)


def distance(entry, tables):
    """From one middle to the next."""
    terms = tuple(Term(table, step.count) for table, step in zip(tables, entry.steps))
    variance = cumulants(terms, np.float64(-0.5))[2]  # of P and Q alike
    return 2.0 ** np.floor(0.5 * np.log2(variance) + 1)


def near(entry, tables, eps):
    """The lattices' middles next to eps, of any shape, which lie before the largest losses."""
    apart = distance(entry, tables)
    if not (np.isfinite(apart) and apart > 0):
        return np.asarray(eps)
    low, high = -entry.finite_bound(True), entry.finite_bound(False)
    middle = np.round(eps / apart) * apart
    return np.clip(middle, low + 0.25 * apart, high - 0.25 * apart)


def law(entry, middle, size, make):
    """The composed law around a middle, which make() computes."""
    if size > grid.SIZE:
        return make()
    return _laws.get((*key_of(entry.steps, entry.flipped), float(middle), size), make)


def sums(entry, middle, size, make):
    """The running sums of the law around a middle, which make() computes."""
    return _sums.get((*key_of(entry.steps, entry.flipped), float(middle), size), make)


def slopes(entry, alpha, size, make):
    """The slopes at levels, which make() searches for: all means of a bracket ask for the same."""
    return _slopes.get((*key_of(entry.steps, entry.flipped), alpha.tobytes(), size), make)


def labels_around(entry, tables, middle, size):
    """`labels.around` of the entry's direction."""

    def make():
        return labels.around(entry.steps, tables, bool(entry.flipped), middle, size)

    if size > grid.SIZE:
        return make()
    return _labels.get((*key_of(entry.steps, entry.flipped), float(middle), size), make)
