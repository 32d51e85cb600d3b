"""Lattices that are laid once for many questions, by NumPy.

Whoever asks for a profile all over its range asks for thousands of eps, one composition at a time.
Its lattices lie at multiples of a fixed distance, one to two standard deviations of the total loss,
so that what is known of one eps serves all its neighbours, and no answer depends on what was asked
before: what is kept is what would be computed again.
"""

from collections import OrderedDict

import jax
import numpy as np

from jaxpriv.composition import grid, labels
from jaxpriv.composition.line import Term
from jaxpriv.composition.tables import cumulants

FEW = 3  # eps that are asked for around one: for so many a lattice of their own is laid
# kept at most, of 8 MB, 4 MB, 6 MB, 100 KB, 1 MB and some numbers
_LAWS, _SUMS, _LABELS, _TABLES, _CHAINS, _SLOPES = 24, 24, 12, 64, 24, 64
_OF_CHAIN = 16  # laws
_laws: OrderedDict = OrderedDict()
_sums: OrderedDict = OrderedDict()
_labels: OrderedDict = OrderedDict()
_tables: OrderedDict = OrderedDict()
_chains: OrderedDict = OrderedDict()
_slopes: OrderedDict = OrderedDict()


def forget():
    """What was kept."""
    for store in (_laws, _sums, _labels, _tables, _chains, _slopes):
        store.clear()


def tables(entry, make):
    """The tables of all steps, which make() computes."""
    return _kept(_tables, _TABLES, _key(entry.steps, entry.flipped), make)


def chain(steps, flipped, make):
    """The `Chain` of these steps, with the laws that were made of it; make() begins one."""
    return _kept(_chains, _CHAINS, _key(steps, flipped), make)


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
    low, high = -entry.loss_bound(True), entry.loss_bound(False)
    middle = np.round(eps / apart) * apart
    return np.clip(middle, low + 0.25 * apart, high - 0.25 * apart)


def law(entry, middle, size, make):
    """The composed law around a middle, which make() computes."""
    if size > grid.SIZE:
        return make()
    return _kept(_laws, _LAWS, (*_key(entry.steps, entry.flipped), float(middle), size), make)


def sums(entry, middle, size, make):
    """The running sums of the law around a middle, which make() computes."""
    return _kept(_sums, _SUMS, (*_key(entry.steps, entry.flipped), float(middle), size), make)


def slopes(entry, alpha, size, make):
    """The slopes at levels, which make() searches for: all means of a bracket ask for the same."""
    return _kept(_slopes, _SLOPES, (*_key(entry.steps, entry.flipped), alpha.tobytes(), size), make)


def labels_around(entry, tables, middle, size):
    """`labels.around` of the entry's direction."""

    def make():
        return labels.around(entry.steps, tables, bool(entry.flipped), middle, size)

    if size > grid.SIZE:
        return make()
    return _kept(_labels, _LABELS, (*_key(entry.steps, entry.flipped), float(middle), size), make)


def kept_few(store, key, make):
    """What make() makes for a key, in a store of a chain's own."""
    return _kept(store, _OF_CHAIN, key, make)


def _key(steps, flipped):
    """All that a law depends on."""
    leaves, structure = jax.tree.flatten((steps, flipped))
    return structure, tuple((np.shape(leaf), np.asarray(leaf).tobytes()) for leaf in leaves)


def _kept(store, most, key, make):
    """What was made for a key, the latest `most` of them."""
    try:
        found = store.pop(key)
    except KeyError:
        found = make()
    store[key] = found
    while len(store) > most:
        store.popitem(last=False)
    return found
