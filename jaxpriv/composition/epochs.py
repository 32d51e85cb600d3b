"""The largest sums of several epochs, each shuffled anew, seen together: an attack, composed."""

from dataclasses import field, replace
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced
from jaxpriv._pytree import pytree
from jaxpriv.composition import grid, laid, summed
from jaxpriv.composition.centred import log_rest_of
from jaxpriv.composition.entrywise import alike
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.pieces import behind
from jaxpriv.composition.tables import Step
from jaxpriv.tradeoff.attacked import seen_below
from jaxpriv.tradeoff.experiment import Experiment, Point, never_told, padded
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.hull import Symmetric
from jaxpriv.tradeoff.largest_sum import LargestSum, binned
from jaxpriv.tradeoff.subsampled import Reversed

_SIZE = 1 << 14  # points of the lattice: an attack need not be known better than to a thousandth
_NEAR = 3e-4  # of its epsilon


@pytree
class Epochs(Experiment):
    """`count` times a `LargestSum`, on a lattice; in a program, which has no lattices for it, once:
    what the last epoch tells.
    """

    once: Any
    flipped: bool = field(metadata={"static": True})
    count: int = field(metadata={"static": True})

    def gridded(self):
        count: Any = np.full(1, float(self.count))
        return Gridded((Step(behind(binned(self.once)), count),), np.asarray(self.flipped))

    def _entries(self, shape):
        """(one entry on a lattice, the places in an array of this shape that have the same)."""
        wide, size = self.aligned(shape, np.float64), int(np.prod(shape))
        entries = jax.tree.map(lambda leaf: leaf.reshape(size), wide)
        for first, group in alike(jax.tree.leaves(entries), size):
            yield xp.row(entries, first).gridded().aligned((), np.float64), group

    def _each(self, function, parts, eps, reverse):
        """function(law, eps (k,)) -> (parts, k), of all eps: from a few laws that serve those next
        to their middles, where many are asked of one entry.
        """
        flat, found = eps.ravel(), np.full((parts, eps.size), np.nan)
        for entry, group in self._entries(eps.shape):
            own, asked = entry.directed(reverse), flat[group]
            tables = own.tables()
            middles = laid.near(own, tables, asked) if asked.size > laid.FEW else asked
            for middle in np.unique(middles[~np.isnan(middles)]):
                here = group[middles == middle]
                found[:, here] = function(own.law(middle, tables, _SIZE), flat[here])
        return found.reshape(parts, *eps.shape)

    def _in_program(self):
        return self.once.reversed() if self.flipped else self.once

    def aligned(self, shape, dtype):
        return replace(self, once=self.once.aligned(shape, dtype))

    def batch_shape(self):
        return self.once.batch_shape()

    def reversed(self):
        return replace(self, flipped=not self.flipped)

    def compose(self, n):
        return replace(self, count=self.count * int(n))

    def log_told(self, reverse):
        return never_told(self, reverse)

    def tail_mu(self):
        return np.sqrt(self.count) * self.once.tail_mu()

    def bracket(self, low, high, reverse):
        if xp.any_jax(self, high):
            return self._in_program().bracket(low, high, reverse)
        lower, upper, rate = self._each(summed.brackets, 3, high, reverse)
        lower = xp.maximum(lower, NormalShift.same_law(high))
        return *padded(lower, upper), rate

    def contact(self, eps, reverse):
        if xp.any_jax(self, eps):
            return self._in_program().contact(eps, reverse)
        log_delta, log_alpha, log_power, log_beta = self._each(_contacts_on, 4, eps, reverse)
        return log_delta, Point(log_alpha, log_rest_of(log_alpha), log_beta, log_power)

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def log_delta(self, eps, reverse):
        return self.contact(eps, reverse)[0]

    def slope(self, alpha, reverse):
        if xp.any_jax(self, alpha):
            return self._in_program().slope(alpha, reverse)
        found, flat = np.empty(alpha.size), alpha.ravel()
        for entry, group in self._entries(alpha.shape):
            found[group] = entry.aligned(group.shape, np.float64).slope(flat[group], reverse)
        return found.reshape(alpha.shape)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        if xp.any_jax(self, log_delta):
            return self._in_program().epsilon_bracket(lowest, log_delta, reverse)
        return seen_below(self, log_delta, reverse, _NEAR)

    def errors(self, *_):
        raise TypeError("an attack on several epochs is for bounds")

    solve_epsilon = subsampled = errors


def _contacts_on(law, eps):
    return np.transpose([[grid.log_delta(law, at), *grid.touch(law, at)] for at in eps])


def on_lattice(attack):
    """An attack as what composes with other mechanisms."""
    if isinstance(attack, Symmetric):
        return Symmetric(tuple(map(on_lattice, attack.members)))
    if isinstance(attack, Reversed) and isinstance(attack.base, LargestSum):
        return on_lattice(attack.base).reversed()
    if isinstance(attack, LargestSum):
        return on_lattice(Epochs(attack, False, 1))
    if not isinstance(attack, Epochs):
        return attack
    if is_traced(attack):
        raise ValueError(
            "compositions of shuffled batches with other curves are computed of concrete numbers, "
            "not inside jit"
        )
    return attack.gridded()
