"""A composition of any mechanisms as an experiment: what `jaxpriv.accounting.grid` computes at one eps, for batches."""

import operator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._derived import derived, known_whole, product, resolved
from jaxpriv._pytree import pytree
from jaxpriv.accounting import grid
from jaxpriv.accounting.directed import Directed
from jaxpriv.accounting.grid import Step
from jaxpriv.accounting.line import ALPHA, DELTA, Term, place
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.evaluate import search_mu
from jaxpriv.tradeoff.experiment import Point, padded
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket


@pytree
class Gridded(Directed):
    """Steps of any mechanisms. `steps`: tuple of `Step`s with parameters (..., members); flipped: hypotheses exchanged?

    Estimates are made in float64 whatever the mode: a lattice has more points than float32 has digits.
    """

    steps: tuple
    flipped: jax.Array | np.ndarray  # bool

    def batch_shape(self):
        return jnp.broadcast_shapes(jnp.shape(self.flipped), *(_members_of(step)[:-1] for step in self.steps))

    def aligned(self, shape, dtype):
        def spread(step):
            full = shape + _members_of(step)[-1:]
            count = jnp.broadcast_to(jnp.asarray(resolved(step.count, dtype), dtype), full)
            experiment = step.experiment.aligned(full, dtype)
            if isinstance(experiment, NormalShift):  # n steps of it are one, for any real n
                return Step(NormalShift(experiment.mu * jnp.sqrt(count)), jnp.ones_like(count))
            return Step(experiment, count)

        return Gridded(tuple(map(spread, self.steps)), jnp.broadcast_to(self.flipped, shape))

    def whole(self, up):
        """Between two numbers of steps there is no mechanism, but for Gaussian noise."""

        def rounded(step):
            if isinstance(step.experiment, NormalShift) or known_whole(step.count):
                return step
            return Step(step.experiment, derived(_up if up else _down, step.count))

        steps = tuple(map(rounded, self.steps))
        return self if all(map(operator.is_, steps, self.steps)) else Gridded(steps, self.flipped)

    def defined(self):
        result = jnp.ones(self.batch_shape(), bool)
        for step in self.steps:
            for leaf in jax.tree.leaves(step.count):
                result = result & jnp.all(step.experiment.defined() & ~jnp.isnan(leaf), -1)
        return result

    def loss_bound(self, reverse):
        def total(reverse):
            bounds = [jnp.sum(jnp.where(step.count > 0, step.count * step.experiment.loss_bound(reverse), 0.0), -1)
                      for step in self.steps]
            return sum(bounds[1:], bounds[0])

        return jnp.where(self.flipped ^ reverse, total(True), total(False))

    def each(self, function, values):
        """function(experiment with scalar parameters, value) for all entries, one after the other, in float64."""
        dtype = values.dtype
        flat = jax.tree.map(lambda leaf: leaf.reshape((values.size,) + leaf.shape[values.ndim :]), self)
        with jax.enable_x64(True):
            wide = jax.tree.map(_as_float64, (flat, values.ravel()))
            found = jax.lax.map(lambda entry: function(*entry), wide)
            return jax.tree.map(lambda leaf: leaf.reshape(values.shape + leaf.shape[1:]).astype(dtype), found)

    def directed(self, reverse):
        return Gridded(self.steps, self.flipped ^ reverse)

    def tables(self):
        return grid.tables_of(self.steps, self.flipped)

    def law(self, eps, tables):
        """The composed law around one eps, for scalar parameters."""
        atoms = [step.experiment.atoms(False) for step in self.steps]
        atoms = [(jnp.where(self.flipped, -high, low), jnp.where(self.flipped, -low, high)) for low, high in atoms]
        return grid.composed(self.steps, tables, atoms, eps, self.flipped)

    def contact(self, eps, reverse):
        found = _evaluated(_contact_of, self.directed(reverse), eps)
        log_delta, log_alpha, log_power, log_beta = jnp.moveaxis(found, -1, 0)
        point = Point(log_alpha, _rest(log_alpha), log_beta, log_power)
        above, below, leaks = self._outside(eps, reverse)
        end = Point.end(below | ~above & (eps < 0))
        out = above | below | ~leaks
        point = jax.tree.map(lambda inner, outer: jnp.where(out, outer, inner), point, end)
        return jax.lax.stop_gradient(jnp.where(out, self._flat(eps), log_delta)), point

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def log_delta(self, eps, reverse):
        above, below, leaks = self._outside(eps, reverse)
        value = _evaluated(_log_delta_of, self.directed(reverse), eps)[..., 0]
        return jnp.where(above | below | ~leaks, self._flat(eps), value)

    def bracket(self, low, high, reverse):
        """Of whole steps, at one eps = low = high."""
        del low
        eps = high

        def one(entry, eps):
            law = entry.law(eps, entry.tables())
            return *grid.bracket(law), jnp.exp(eps + grid.touch(law, eps)[0] - grid.log_delta(law, eps))

        above, below, leaks = self._outside(eps, reverse)
        lower, upper, rate = self.directed(reverse).each(one, eps)
        flat = below | ~leaks
        exact = self._flat(eps)
        lower, upper = jnp.where(flat, exact, jnp.maximum(lower, exact)), jnp.where(flat, exact, upper)
        lower = jnp.where(above, -jnp.inf, padded(lower, upper)[0])
        # at the very end of the losses rounding decides whether there is anything left
        beyond = (eps > self.loss_bound(reverse) * (1 + 1e-13)) | ~leaks
        upper = jnp.where(above & beyond & (eps >= 0), -jnp.inf, padded(lower, upper)[1])
        return lower, upper, jnp.where(above | flat, jnp.inf, rate)

    def _outside(self, eps, reverse):
        """(is eps above all losses?, below all?, is there any loss at all?)"""
        bound, other = self.loss_bound(reverse), self.loss_bound(not reverse)
        return eps >= bound, -eps >= other, (bound > 0) & (other > 0)

    @staticmethod
    def _flat(eps):
        """log max(0, 1 - e^eps): what is left where no loss decides."""
        negative = eps < 0
        return jnp.where(negative, log1mexp(jnp.where(negative, eps, -1.0)), jnp.where(jnp.isnan(eps), jnp.nan, -jnp.inf))

    def find_slope(self, alpha, reverse):
        _, _, leaks = self._outside(jnp.zeros_like(alpha), reverse)
        return jnp.where(leaks, self.directed(reverse).each(_slope_of, alpha), 0.0)

    def solve_epsilon(self, log_delta, reverse):
        reachable = (log_delta > -jnp.inf) & (log_delta < 0)
        _, _, leaks = self._outside(jnp.zeros_like(log_delta), reverse)
        eps = self.directed(reverse).each(_epsilon_of, jnp.where(reachable, log_delta, -1.0))
        limit = jnp.where((log_delta < 0) & leaks, self.loss_bound(reverse), 0.0)
        limit = limit + jnp.where(jnp.isnan(log_delta), jnp.nan, 0.0)
        return jnp.where(reachable & leaks, jnp.minimum(eps, limit), limit)

    def tail_mu(self):
        """All steps with the record decide for alpha -> 0, if they do for each step: mu^2 = sum n_i mu_i^2."""
        known = [step.experiment.tail_mu() for step in self.steps]
        if any(mu is None for mu in known):
            return None
        return jnp.sqrt(sum(jnp.sum(step.count * mu**2, -1) for step, mu in zip(self.steps, known)))

    def gaussian_mu(self):
        """mu-GDP composes as mu^2 = sum n_i mu_i^2: an upper bound, exact where `tail_mu` is."""
        def square(step):
            mu = step.experiment.gaussian_mu()
            mu = search_mu(step.experiment, jnp.zeros_like(step.count)) if mu is None else mu
            return jnp.sum(jnp.where(step.count > 0, step.count * mu**2, 0.0), -1)

        return jnp.sqrt(sum(map(square, self.steps), jnp.zeros(())))

    def reversed(self):
        return Gridded(self.steps, ~np.asarray(self.flipped) if isinstance(self.flipped, np.ndarray) else ~self.flipped)

    def compose(self, n):
        n = n[..., None] if isinstance(n, jax.Array) else np.asarray(n)[..., None]
        return Gridded(tuple(Step(step.experiment, derived(product, step.count, n)) for step in self.steps), self.flipped)


def _members_of(step):
    """(..., members) of a step's parameters."""
    return jnp.broadcast_shapes(step.experiment.batch_shape(), *map(jnp.shape, jax.tree.leaves(step.count)))


def _up(count):
    return jnp.ceil(count) if isinstance(count, jax.Array) else np.ceil(count)


def _down(count):
    return jnp.floor(count) if isinstance(count, jax.Array) else np.floor(count)


def _as_float64(leaf):
    return leaf if leaf.dtype == jnp.bool_ else leaf.astype(jnp.float64)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _evaluated(function, experiment, values):
    """function(experiment, value), a vector, for all entries."""
    return experiment.each(function, values)


@_evaluated.defjvp
def _evaluated_jvp(function, primals, tangents):
    """By the gradients, which are formed in float64 like the values: what is left is linear in the program's own dtype."""
    experiment, values = primals

    def one(entry, value):
        found, back = jax.vjp(lambda steps, v: function(Gridded(steps, entry.flipped), v), entry.steps, value)
        return found, *jax.lax.map(back, jnp.eye(found.size, dtype=found.dtype))

    found, by_steps, by_value = experiment.each(one, values)
    change = by_value * tangents[1][..., None]
    for gradient, tangent in zip(jax.tree.leaves(by_steps), jax.tree.leaves(tangents[0].steps)):
        behind = tuple(range(values.ndim + 1, gradient.ndim))
        change = change + jnp.sum(gradient * jnp.expand_dims(tangent, values.ndim), behind)
    return found, change


def _contact_of(entry, eps):
    law = entry.law(eps, entry.tables())
    return jnp.stack([grid.log_delta(law, eps), *grid.touch(law, eps)])


def _log_delta_of(entry, eps):
    return grid.log_delta(entry.law(eps, entry.tables()), eps)[None]


def _rest(log_value):
    inside = log_value < 0
    return jnp.where(inside, log1mexp(jnp.where(inside, log_value, -1.0)), -jnp.inf)


def _approximate(entry, tables, kind, goal):
    """The eps at which the saddle-point approximation of an integral's result meets a goal (log result, log of the rest)."""
    terms = tuple(Term(table, step.count) for table, step in zip(tables, entry.steps))
    log_result, log_rest = goal
    small = log_result < log_rest

    def shortfall(eps):
        line = place(terms, eps, kind)
        other = log1mexp(jnp.minimum(line.estimate, -1e-300))
        upper, lower = (jnp.where(line.side > 0, *pair) for pair in ((line.estimate, other), (other, line.estimate)))
        return jnp.where(small, log_result - upper, lower - log_rest), jnp.zeros_like(eps)

    low, high = (sum(jnp.sum(step.count * table.edges[:, end]) for step, table in zip(entry.steps, tables)) for end in (0, -1))
    return newton_in_bracket(shortfall, low, high, iterations=48)


def _refined(entry, tables, eps, shortfall):
    """Newton inside the composed law around eps, twice: shortfall(law, eps) is (value, slope)."""

    def recentre(_, eps):
        law = entry.law(eps, tables)
        reach = 0.25 * law.spacing * grid.SIZE
        return newton_in_bracket(partial(shortfall, law), eps - reach, eps + reach, iterations=16)

    return jax.lax.fori_loop(0, 2, recentre, eps)


def _epsilon_of(entry, log_delta):
    tables = entry.tables()
    start = _approximate(entry, tables, DELTA, (log_delta, _rest(log_delta)))

    def shortfall(law, eps):
        value = grid.log_delta(law, eps)
        return log_delta - value, jnp.exp(eps + grid.touch(law, eps)[0] - value)

    eps = _refined(entry, tables, jnp.maximum(start, 0.0), shortfall)
    # below the probability of an infinite loss no eps is enough
    never = sum(jnp.sum(step.count * jnp.log1p(-table.endless)) for step, table in zip(entry.steps, tables))
    return jnp.where(log_delta < safe_log(-jnp.expm1(never)), jnp.inf, eps)


def _slope_of(entry, alpha):
    log_alpha, log_rest = jnp.log(alpha), jnp.log1p(-alpha)
    tables = entry.tables()
    start = _approximate(entry, tables, ALPHA, (log_alpha, log_rest))
    small = log_alpha < log_rest

    def shortfall(law, eps):
        value, slope = jax.jvp(lambda e: grid.touch(law, e)[0], (eps,), (jnp.ones_like(eps),))
        rest = _rest(value)
        return jnp.where(small, log_alpha - value, rest - log_rest), -slope * jnp.where(small, 1.0, jnp.exp(value - rest))

    return _refined(entry, tables, start, shortfall)
