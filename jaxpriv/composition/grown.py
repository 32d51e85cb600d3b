"""Brackets of a composed law from lattices that grow with the question, for scalar parameters: by
NumPy until the brackets are narrow, or more points would tell nothing; in a program of one size.

One lattice, laid around one eps, serves all eps near it.
"""

import math
from functools import partial

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition import chain, grid, laid, summed
from jaxpriv.composition.centred import solved, start_of
from jaxpriv.composition.enumerated import enumerated_of
from jaxpriv.tradeoff.experiment import ANY, DEEPEST
from jaxpriv.tradeoff.stepping import stepped_out

_NARROW = 1e-6  # width of log delta
_WIDE, _VERY_WIDE = 1e-4, 1e-2  # what laws of few, of many steps at uneven losses stay below
_FAR = 1e-3  # width of log delta from which on an end gets a law at uneven losses of its own
_HELPLESS = 0.1  # width from which on a lattice is tried where these were the first
_HOPELESS = 10.0  # width of log delta around which no end of epsilon verifies
_ROUNDING = 1e-12  # of logarithms of probabilities
_UNCOUNTED = -650.0  # log delta below which outcomes that can be counted are not followed
_NEAR = 1e-10  # of eps, around which the ends are stepped out
_USELESS = 1e7  # so many times too wide is what does not fit: only the largest lattice may help
_SLOW = 0.5  # order from which on points help: the lattice's own errors shrink with the second


def brackets(entry, center, ends, beside=None):
    """(lower, upper) of log delta at eps `ends` (k,) near `center`, -d log delta/d eps there; from
    the entry's `Beside` as well, if there is one.
    """
    if xp.any_jax(entry, center, ends):
        return _on(entry.law(center, entry.tables()), ends)
    counted = enumerated_of(entry)
    if counted is None and entry.width is not None and entry.width >= ANY:
        return _on(entry.law(center, entry.tables(), grid.SIZES[0]), ends)
    labelled = Labelled(entry)
    known = [np.full(ends.shape, -np.inf), np.zeros(ends.shape), np.ones(ends.shape)]

    def too_wide(enough):
        lower, upper, rate = known
        return np.max((upper - lower) / (enough if entry.width is None else entry.width * rate))

    def add(lower, upper, rate):
        known[:] = np.fmax(known[0], lower), np.fmin(known[1], upper), rate

    def look(size):
        law = entry.law(center, tables, size)
        lower, upper, rate = _on(law, ends)
        add(labelled.lower(tables, law, size, ends, lower, upper), upper, rate)
        return too_wide(_NARROW)

    if counted is not None:
        add(*counted.brackets(ends))
        if not np.any((known[1] < _UNCOUNTED) & (ends < entry.finite_bound(False))):
            return tuple(known)
    steps = chain.chain_of(entry.steps, entry.flipped)
    first = steps is not None and steps.seldom
    if first:
        add(*by_chain(steps, center, ends))
        if too_wide(_HELPLESS) <= 1:
            return tuple(known)
    if beside is not None:
        add(*beside.near(center, ends))
        if too_wide(_NARROW) <= 1:
            return tuple(known)
    tables = entry.tables()
    if len(ends) > laid.FEW:
        center = laid.near(entry, tables, center)
    _grow(entry, look)
    if steps is not None and not first and np.max(known[1] - known[0]) > _least(steps):
        lower, upper, _ = by_chain(steps, center, ends)
        add(lower, upper, known[2])
    return tuple(known)


def epsilon_bracket(entry, lowest, log_delta, beside):
    """(low, high) of eps for log delta between `lowest` and `log_delta`, by NumPy: on each lattice
    the estimate, and its ends stepped out; from the entry's `Beside` as well, if it has one.
    (0, inf) is what is not known.
    """
    steps = chain.chain_of(entry.steps, entry.flipped)
    first = steps is not None and steps.seldom
    eps, low, high, enough = None, 0.0, np.inf, entry.width
    labelled = Labelled(entry)

    def add(found):
        nonlocal low, high
        low, high = np.fmax(low, found[0]), np.fmin(high, found[1])

    counted = enumerated_of(entry)
    if counted is not None:
        near = np.maximum(counted.epsilons(np.reshape(log_delta, 1))[0], 0.0)
        add(stepped_out(near, counted.brackets, lowest, log_delta))
        if lowest > _UNCOUNTED:
            return low, high
    if first:
        add(chain.epsilon_bracket(steps, lowest, log_delta))
        if high - low <= (_HELPLESS * high if enough is None else enough):
            return low, high
    tables, bound = entry.tables(), entry.loss_bound(False)
    eps = start_of(entry, tables, log_delta)
    if beside is not None:
        *found, rate = beside.epsilon_bracket(eps, lowest, log_delta)
        add(found)
        if high - low <= (_NARROW / rate if enough is None else enough) and high < np.inf:
            return low, high

    def at(law, size, ends):
        """From the largest loss on nothing is left, rounding apart."""
        lower, upper, rate = _on(law, ends)
        lower = labelled.lower(tables, law, size, ends, lower, upper)
        lower = np.where(ends >= bound, -np.inf, lower)
        return lower, np.where(ends > bound * (1 + 1e-13), -np.inf, upper), rate

    def look(size):
        nonlocal eps, enough
        law = entry.law(eps, tables, size)
        if law.log_endless > log_delta + _ROUNDING:
            add((np.inf, np.inf))
            return 0.0
        eps = np.maximum(solved(law, log_delta, eps, _NEAR), 0.0)
        (lower,), (upper,), (rate,) = at(law, size, eps[None])
        if not upper - lower <= _HOPELESS:
            return np.inf
        add(stepped_out(eps, partial(at, law, size), lowest, log_delta))
        if entry.width is None:
            enough = _NARROW / rate
        return (high - low) / enough

    _grow(entry, look)
    if first or steps is None or low == np.inf:
        return low, high
    if enough is None or high - low > enough * _least(steps) / _NARROW:
        add(chain.epsilon_bracket(steps, lowest, log_delta))
    return low, high


def is_below(entry, eps, log_delta):
    """Is log delta(eps) no more than this for sure, and plainly? By NumPy."""
    if not 0 < eps < entry.loss_bound(False):
        return eps > 0
    upper = _on(entry.law(eps, entry.tables(), grid.SIZES[0]), np.asarray(eps)[None])[1]
    return bool(upper[0] <= log_delta)


class Labelled:
    """Lower ends of isolated outcomes by their labels, as long as these are of use."""

    def __init__(self, entry):
        self.entry = entry
        self.useful = any(step.experiment.isolated for step in entry.steps)

    def lower(self, tables, law, size, ends, lower, upper):
        """What has a label has no infinite loss: that is told on top of it."""
        if not self.useful or np.max(upper - lower) <= _NARROW:
            return lower
        by_labels = laid.labels_around(self.entry, tables, law.middle, size)(ends)
        found = np.logaddexp(by_labels, law.log_endless)
        self.useful = bool(np.any(found > lower))
        return np.fmax(lower, found)


def _least(steps):
    """The width of log delta from which on laws at uneven losses are tried."""
    return _WIDE if steps.count <= chain.FEW else _VERY_WIDE


def _grow(entry, look):
    """look(points) -> how many times too wide what is known now is; of ever larger lattices."""
    sizes = [*grid.SIZES, *(() if entry.width is None else grid.LARGER)]
    before = None
    while sizes:
        size = sizes.pop(0)
        try:
            wide = look(size)
        except MemoryError:
            if size <= grid.SIZE:
                raise
            return
        if wide <= 1:
            return
        sizes = _promising(sizes, size, wide, before)
        before = size, wide


def _promising(sizes, size, wide, before):
    """Those from the one on that is enough if what is too wide shrinks like the last two did, else
    the largest.
    """
    if not wide < _USELESS:
        return sizes[-1:]
    if before is None:
        return sizes
    order = math.log(before[1] / wide) / math.log(size / before[0])
    needed = size * wide ** (1 / order) if order > _SLOW else math.inf
    return [more for more in sizes if more >= needed] or sizes[-1:]


def _on(law, ends):
    """Of one law at every end."""
    if not xp.any_jax(law.nu, ends):
        return summed.brackets(law, ends)
    found = [(*grid.bracket(law, eps), grid.steepness(law, eps)) for eps in ends]
    return tuple(xp.stack(column) for column in zip(*found))


def by_chain(steps, center, ends):
    """From a law at uneven losses aimed at the center, and where that says little from others,
    aimed at the ends about which least is known.
    """
    found = np.stack(steps.bracket(chain.law_at(steps, float(center)), ends))
    asked = ends == center
    while True:
        width = np.where(asked | (found[1] < DEEPEST), 0.0, found[1] - found[0])
        worst = np.argmax(width)
        if width[worst] <= _FAR:
            return found
        asked |= ends == ends[worst]
        lower, upper, rate = steps.bracket(chain.law_at(steps, float(ends[worst])), ends)
        better = upper - lower < found[1] - found[0]
        lower, upper = np.fmax(found[0], lower), np.fmin(found[1], upper)
        found = np.stack([lower, upper, np.where(better, rate, found[2])])
