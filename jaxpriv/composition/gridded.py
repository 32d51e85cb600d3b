"""A composition of any mechanisms as an experiment: what `jaxpriv.composition.grid` computes at
one eps, for batches.
"""

import operator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import derived, known_whole, product, resolved
from jaxpriv._pytree import pytree
from jaxpriv.composition import estimates, grid, grown, laid
from jaxpriv.composition.beside import beside_of
from jaxpriv.composition.centred import epsilon_of, log_rest_of, slope_of
from jaxpriv.composition.directed import Directed
from jaxpriv.composition.entrywise import alike
from jaxpriv.composition.enumerated import enumerated_of
from jaxpriv.composition.mu import MuOfSteps
from jaxpriv.composition.tables import Step, tables_of
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Point, padded
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.pair import safe_log

_LITTLE = 1e-3  # width of log delta above which an eps gets lattices of its own
_HELPLESS = 0.1  # widths of epsilon, relative, from which on the general search is tried


@pytree
class Gridded(MuOfSteps, Directed):
    """Steps of any mechanisms. `steps`: tuple of `Step`s with parameters (..., members);
    flipped: hypotheses exchanged?

    Estimates are made in float64 whatever the mode:
    a lattice has more points than float32 has digits.
    """

    steps: tuple
    flipped: jax.Array | np.ndarray  # bool
    width: Any = None  # of epsilon's brackets, for which NumPy's lattices grow

    def batch_shape(self):
        return xp.broadcast_shapes(
            xp.shape(self.flipped), *(_members_of(step)[:-1] for step in self.steps)
        )

    def own_axes(self):
        own = super().own_axes()
        return replace(own, steps=jax.tree.map(lambda count: count + 1, own.steps))

    def aligned(self, shape, dtype):
        def spread(step):
            full = shape + _members_of(step)[-1:]
            count = xp.broadcast_to(xp.asarray(resolved(step.count, dtype), dtype), full)
            experiment = step.experiment.aligned(full, dtype)
            if isinstance(experiment, NormalShift):  # n steps of it are one, for any real n
                return Step(NormalShift(experiment.mu * xp.sqrt(count)), xp.ones_like(count))
            return Step(experiment, count)

        width = None if self.width is None else xp.broadcast_to(self.width, shape)
        flipped = xp.broadcast_to(self.flipped, shape)
        return type(self)(tuple(map(spread, self.steps)), flipped, width)

    def whole(self, up):
        """Between two numbers of steps there is no mechanism, but for Gaussian noise."""

        def rounded(step):
            if isinstance(step.experiment, NormalShift) or known_whole(step.count):
                return step
            return Step(step.experiment, derived(_up if up else _down, step.count))

        steps = tuple(map(rounded, self.steps))
        return self if all(map(operator.is_, steps, self.steps)) else replace(self, steps=steps)

    def defined(self):
        result = xp.ones(self.batch_shape(), bool)
        for step in self.steps:
            for leaf in jax.tree.leaves(step.count):
                result = result & xp.all(step.experiment.defined() & ~xp.isnan(leaf), -1)
        return result

    def loss_bound(self, reverse):
        return self._total(lambda experiment, r: experiment.loss_bound(r), reverse)

    def finite_bound(self, reverse):
        return self._total(lambda experiment, r: experiment.finite_bound(r), reverse)

    def _total(self, bound, reverse):
        """Of all steps' bound(experiment, reverse)."""

        def total(reverse):
            each = [
                xp.where(step.count > 0, step.count * bound(step.experiment, reverse), 0.0)
                for step in self.steps
            ]
            bounds = [xp.sum(one, -1) for one in each]
            return sum(bounds[1:], bounds[0])

        return xp.where(self.flipped ^ reverse, total(True), total(False))

    def log_told(self, reverse):
        """1 less the product of what each step does not tell."""

        def kept(step, log_told, sign):
            """The logarithm, of whose smallest values the last digits are lost."""
            least = xp.where(log_told > -xp.inf, sign * xp.finfo(log_told.dtype).tiny, 0.0)
            once = xp.minimum(log1mexp(log_told) - least, 0.0)
            return xp.sum(xp.where(step.count > 0, step.count * once, 0.0), -1)

        def total(reverse):
            known = [(step, *step.experiment.log_told(reverse)) for step in self.steps]
            lower = sum(kept(step, log_told, -1) for step, log_told, _ in known)
            upper = sum(kept(step, log_told, 1) for step, _, log_told in known)
            return padded(safe_log(-xp.expm1(lower)), safe_log(-xp.expm1(upper)))

        both = zip(total(True), total(False))
        return tuple(xp.where(self.flipped ^ reverse, *side) for side in both)

    def each(self, function, values):
        """function(experiment with scalar parameters, value) for all entries,
        one after the other, in float64; a value may have further axes behind the batch's.
        """
        dtype, shape = values.dtype, xp.shape(self.flipped)
        flat = jax.tree.map(
            lambda leaf: leaf.reshape((self.flipped.size,) + leaf.shape[len(shape) :]),
            (self, values),
        )
        with jax.enable_x64(True) if xp.any_jax(flat) else nullcontext():
            wide = jax.tree.map(_as_float64, flat)
            found = xp.each(lambda entry: function(*entry), wide)
            return jax.tree.map(
                lambda leaf: leaf.reshape(shape + leaf.shape[1:]).astype(dtype), found
            )

    def curves(self):
        """By NumPy: (the experiment with scalar parameters, where it stands) for every different
        one of the batch.
        """
        shape, size = self.flipped.shape, self.flipped.size
        flat = jax.tree.map(lambda leaf: leaf.reshape((size, *leaf.shape[len(shape) :])), self)
        for first, group in alike(list(map(np.asarray, jax.tree.leaves(flat))), size):
            where = np.zeros(size, bool)
            where[group] = True
            yield xp.row(flat, first), where.reshape(shape)

    def _asked(self, function, values):
        """By NumPy: function(experiment with scalar parameters, all values (k,) that are asked of
        it).
        """
        found = np.empty(0)
        for one, where in self.curves():
            part = function(one, values[where])
            if not found.size:
                found = np.empty((*values.shape, *part.shape[1:]))
            found[where] = part
        return found

    def followed(self, method, values):
        """By NumPy `estimates.followed` of each."""
        return self._asked(lambda one, asked: estimates.followed(one, method, asked), values)

    def smooth(self):
        """Whatever is added to a loss that has a density has one."""
        return any(map(_has_density, self.steps))

    def cornered(self):
        """A program would lay as many lattices at once as corners are looked for."""
        return not xp.any_jax(self) and not self.smooth()

    def full(self):
        return all(step.experiment.full() for step in self.steps)

    def directed(self, reverse):
        return replace(self, flipped=self.flipped ^ reverse)

    def tables(self):
        if not xp.any_jax(self):
            return laid.tables(self, lambda: tables_of(self.steps, self.flipped))
        return tables_of(self.steps, self.flipped)

    def law(self, eps, tables, size=grid.SIZE):
        """The composed law around one eps, for scalar parameters."""
        if not xp.any_jax(self, eps):
            return laid.law(self, eps, size, lambda: self._composed(eps, tables, size))
        return self._composed(eps, tables, size)

    def _composed(self, eps, tables, size):
        atoms = [step.experiment.atoms(False) for step in self.steps]
        atoms = [
            (xp.where(self.flipped, -high, low), xp.where(self.flipped, -low, high))
            for low, high in atoms
        ]
        return grid.composed(self.steps, tables, atoms, eps, self.flipped, size)

    def contact(self, eps, reverse):
        found = self.directed(reverse)._contacts(eps)
        log_delta, log_alpha, log_power, log_beta = xp.moveaxis(found, -1, 0)
        point = Point(log_alpha, log_rest_of(log_alpha), log_beta, log_power)
        above, below, leaks = self._outside(eps, reverse)
        end = Point.end(below | ~above & (eps < 0))
        out = above | below | ~leaks
        point = jax.tree.map(lambda inner, outer: xp.where(out, outer, inner), point, end)
        return xp.stop_gradient(xp.where(out, self._flat(eps), log_delta)), point

    def _contacts(self, eps):
        """(log delta, log alpha, log power, log beta) along a last axis."""
        if xp.any_jax(self, eps):
            return _evaluated(_contact_of, self, eps)
        return self._asked(estimates.contacts, eps)

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def log_delta(self, eps, reverse):
        above, below, leaks = self._outside(eps, reverse)
        own = self.directed(reverse)
        if xp.any_jax(self, eps):
            value = _evaluated(_log_delta_of, own, eps)[..., 0]
        else:
            value = own._asked(estimates.log_deltas, eps)
        return xp.where(above | below | ~leaks, self._flat(eps), value)

    def bracket(self, low, high, reverse):
        """Of whole steps, at one eps = low = high; by NumPy many of one curve share lattices."""
        del low
        found = self.brackets_near(high, high[None], reverse)
        return tuple(xp.squeeze(part, 0) for part in found)

    def brackets_near(self, center, ends, reverse):
        """From the lattices around the center; by NumPy those of a curve that is asked about at
        many are shared.
        """
        own = self.directed(reverse)
        if xp.any_jax(self, center):
            values = xp.concatenate([center[..., None], xp.moveaxis(ends, 0, -1)], -1)
            found = own.each(_brackets_of, values)
            return self._inside(ends, reverse, *(xp.moveaxis(part, -1, 0) for part in found))
        found = np.empty((3, *ends.shape))
        for one, where in own.curves():
            middle, at = (np.where(np.isfinite(eps), eps, 0.0) for eps in (center, ends))
            found[:, :, where] = _near_several(one, middle[where], at[:, where])
        return self._inside(ends, reverse, *found)

    def _inside(self, ends, reverse, lower, upper, rate):
        """Brackets at `ends`, and what is exact beyond all losses."""
        above, below, leaks = self._outside(ends, reverse)
        flat = below | ~leaks
        exact = self._flat(ends)
        lower, upper = xp.where(flat, exact, xp.maximum(lower, exact)), xp.where(flat, exact, upper)
        lower = xp.where(above, -xp.inf, padded(lower, upper)[0])
        # at the very end of the losses rounding decides whether there is anything left
        beyond = (ends > self.loss_bound(reverse) * (1 + 1e-13)) | ~leaks
        upper = xp.where(above & beyond & (ends >= 0), -xp.inf, padded(lower, upper)[1])
        return lower, upper, xp.where(above | flat, xp.inf, rate)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """By NumPy from growing lattices; by the general search where these are no good."""
        if xp.any_jax(self, log_delta):
            return super().epsilon_bracket(lowest, log_delta, reverse)
        own, shape = self.directed(np.full(log_delta.shape, reverse)), log_delta.shape
        _, _, leaks = own._outside(np.zeros(shape), False)
        endless = own.log_told(False)[0] > log_delta
        known = leaks & (lowest > -np.inf) & (log_delta < 0) & ~endless
        low, high = np.where(endless, np.inf, 0.0), np.full(shape, np.inf)
        for one, where in own.curves():
            few = beside_of(one)
            for at in filter((known & where).__getitem__, np.ndindex(shape)):
                low[at], high[at] = grown.epsilon_bracket(one, lowest[at], log_delta[at], few)
        # what was not looked for is known without: nothing at delta = 1, all losses at 0
        wide = (~(high - low <= _HELPLESS * high) | ~known) & (low < np.inf)
        if wide.any():
            rest = jax.tree.map(lambda leaf: leaf[wide], self)
            found = Directed.epsilon_bracket(rest, lowest[wide], log_delta[wide], reverse)
            low[wide], high[wide] = np.fmax(low[wide], found[0]), np.fmin(high[wide], found[1])
        return low, high

    def epsilon_brackets(self, lowest, log_delta):
        """By NumPy the other direction's only where a first lattice does not tell that they end
        below the forward one's.
        """
        if xp.any_jax(self, log_delta) or self.reversed() is self:
            return super().epsilon_brackets(lowest, log_delta)
        forward, other = self.epsilon_bracket(lowest, log_delta, False), self.directed(True)
        low, high = np.zeros(log_delta.shape), np.array(forward[0])
        rest = np.array([not grown.is_below(xp.row(other, at), forward[0][at], lowest[at])
                         for at in np.ndindex(high.shape)]).reshape(high.shape)
        if rest.any():
            left = jax.tree.map(lambda leaf: leaf[rest], self)
            low[rest], high[rest] = left.epsilon_bracket(lowest[rest], log_delta[rest], True)
        return forward, (low, high)

    def _outside(self, eps, reverse):
        """(is eps above all losses?, below all?, is there any loss at all?)"""
        bound, other = self.loss_bound(reverse), self.loss_bound(not reverse)
        return eps >= bound, -eps >= other, (bound > 0) & (other > 0)

    @staticmethod
    def _flat(eps):
        """log max(0, 1 - e^eps): what is left where no loss decides."""
        negative = eps < 0
        return xp.where(negative, log1mexp(xp.where(negative, eps, -1.0)),
                        xp.where(xp.isnan(eps), xp.nan, -xp.inf))

    def find_slope(self, alpha, reverse):
        _, _, leaks = self._outside(xp.zeros_like(alpha), reverse)
        own = self.directed(reverse)
        traced = xp.any_jax(self, alpha)
        found = own.each(slope_of, alpha) if traced else own._asked(estimates.slopes, alpha)
        return xp.where(leaks, found, 0.0)

    def solve_epsilon(self, log_delta, reverse):
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        _, _, leaks = self._outside(xp.zeros_like(log_delta), reverse)
        own, target = self.directed(reverse), xp.where(reachable, log_delta, -1.0)
        limit = xp.where((log_delta < 0) & leaks, self.loss_bound(reverse), 0.0)
        limit = limit + xp.where(xp.isnan(log_delta), xp.nan, 0.0)
        if xp.any_jax(self, log_delta):
            eps = own.each(epsilon_of, target)
        else:
            endless = own.log_told(False)[0] > log_delta
            limit, reachable = np.where(endless, np.inf, limit), reachable & ~endless
            if not np.any(reachable & leaks):
                return limit
            eps = own._asked(estimates.epsilons, np.where(endless, -1.0, target))
        return xp.where(reachable & leaks, xp.minimum(eps, limit), limit)

    def reversed(self):
        if all(step.experiment.reversed() is step.experiment for step in self.steps):
            return self
        known = isinstance(self.flipped, np.ndarray)
        return replace(self, flipped=~np.asarray(self.flipped) if known else ~self.flipped)

    def compose(self, n):
        n = n[..., None] if isinstance(n, jax.Array) else np.asarray(n)[..., None]
        steps = tuple(
            Step(step.experiment, derived(product, step.count, n)) for step in self.steps
        )
        return replace(self, steps=steps)

    def as_narrow_as(self, width=None, deep=None):
        return self if width is None else replace(self, width=np.float64(width))


def _members_of(step):
    """(..., members) of a step's parameters."""
    return xp.broadcast_shapes(
        step.experiment.batch_shape(), *map(xp.shape, jax.tree.leaves(step.count))
    )


def _has_density(step):
    known = step.experiment.finite or step.experiment.isolated
    return not known and np.all(np.isnan(step.experiment.atoms(False))) and np.any(step.count > 0)


def _up(count):
    return xp.ceil(count)


def _down(count):
    return xp.floor(count)


def _as_float64(leaf):
    return leaf if leaf.dtype == xp.bool_ else leaf.astype(xp.float64)


@partial(xp.custom_jvp, nondiff_argnums=(0,))
def _evaluated(function, experiment, values):
    """function(experiment, value), a vector, for all entries."""
    return experiment.each(function, values)


@_evaluated.defjvp
def _evaluated_jvp(function, primals, tangents):
    """By the gradients, which are formed in float64 like the values:
    what is left is linear in the program's own dtype.
    """
    experiment, values = primals

    def one(entry, value):
        found, back = jax.vjp(
            lambda steps, v: function(Gridded(steps, entry.flipped), v), entry.steps, value
        )
        return found, *xp.each(back, xp.eye(found.size, dtype=found.dtype))

    found, by_steps, by_value = experiment.each(one, values)
    change = by_value * tangents[1][..., None]
    for gradient, tangent in zip(jax.tree.leaves(by_steps), jax.tree.leaves(tangents[0].steps)):
        behind = tuple(range(values.ndim + 1, gradient.ndim))
        change = change + xp.sum(gradient * xp.expand_dims(tangent, values.ndim), behind)
    return found, change


def _near_several(entry, center, ends):
    """Brackets of one curve at eps `ends` (k, n), of which each column is near its center (n,), by
    NumPy: those of different columns that are next to the same middle from the same lattices where
    these say enough, the others from their column's own.
    """
    found = np.full((3, *ends.shape), np.nan)
    good, few = np.zeros(ends.shape, bool), beside_of(entry)
    if ends.shape[1] > laid.FEW and enumerated_of(entry) is None:
        middle = laid.near(entry, entry.tables(), ends)
        for shared in np.unique(middle):
            here = middle == shared
            if np.count_nonzero(here.any(0)) > 1:
                found[:, here] = grown.brackets(entry, shared, ends[here], few)
                lower, upper, rate = found
                enough = _LITTLE if entry.width is None else entry.width * rate
                good |= here & (upper - lower <= np.maximum(_LITTLE, enough))
    for k in np.flatnonzero(~good.all(0)):
        own = ~good[:, k]
        found[:, own, k] = grown.brackets(entry, center[k], ends[own, k], few)
    return found


def _brackets_of(entry, eps):
    """At eps[1:], all near eps[0]."""
    return grown.brackets(entry, eps[0], eps[1:])


def _contact_of(entry, eps):
    law = entry.law(eps, entry.tables())
    return xp.stack([grid.log_delta(law, eps), *grid.touch(law, eps)])


def _log_delta_of(entry, eps):
    return grid.log_delta(entry.law(eps, entry.tables()), eps)[None]
