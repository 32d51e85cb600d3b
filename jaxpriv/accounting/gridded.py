"""A composition of any mechanisms as an experiment: what `jaxpriv.accounting.grid` computes at one eps, for batches."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._pytree import pytree
from jaxpriv.accounting import grid
from jaxpriv.accounting.grid import Step
from jaxpriv.accounting.inversion import ALPHA, DELTA, Term, place
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.solve import newton_in_bracket


@pytree
class Gridded(Envelope):
    """Steps of any mechanisms. `steps`: tuple of `Step`s with parameters (..., members).

    Estimates are made in float64 whatever the mode: a lattice has more points than float32 has digits.
    """

    steps: tuple

    def batch_shape(self):
        return jnp.broadcast_shapes(*(shape[:-1] for step in self.steps
                                      for shape in (step.experiment.batch_shape(), jnp.shape(step.count))))

    def aligned(self, shape, dtype):
        def spread(step):
            full = shape + jnp.broadcast_shapes(step.experiment.batch_shape(), jnp.shape(step.count))[-1:]
            return Step(step.experiment.aligned(full, dtype), jnp.broadcast_to(jnp.asarray(step.count, dtype), full))

        return Gridded(tuple(map(spread, self.steps)))

    def defined(self):
        result = jnp.ones(self.batch_shape(), bool)
        for step in self.steps:
            result = result & jnp.all(step.experiment.defined() & ~jnp.isnan(step.count), -1)
        return result

    def loss_bound(self, reverse):
        total = 0.0
        for step in self.steps:
            bound = step.experiment.loss_bound(reverse)
            total = total + jnp.sum(jnp.where(step.count > 0, step.count * bound, 0.0), -1)
        return total

    def _each(self, function, values, reverse):
        """function(experiment with scalar parameters, value) for all entries of the batch, one after the other, in float64."""
        dtype = values.dtype
        flat = jax.tree.map(lambda leaf: leaf.reshape((values.size,) + leaf.shape[values.ndim :]), self)
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), (flat, values.ravel()))
            found = jax.lax.map(lambda entry: function(entry[0], entry[1], reverse), wide)
            return jax.tree.map(lambda leaf: leaf.reshape(values.shape + leaf.shape[1:]).astype(dtype), found)

    def _law(self, eps, reverse):
        atoms = [step.experiment.atoms(reverse) for step in self.steps]
        return grid.composed(self.steps, grid.tables_of(self.steps, reverse), atoms, eps, reverse)

    def contact(self, eps, reverse):
        def one(entry, eps, reverse):
            law = entry._law(eps, reverse)
            log_alpha, log_power, log_beta = grid.touch(law, eps)
            return jax.lax.stop_gradient(grid.log_delta(law, eps)), Point(log_alpha, _rest(log_alpha), log_beta, log_power)

        log_delta, point = self._each(one, eps, reverse)
        above, below, leaks = self._outside(eps, reverse)
        end = Point.end(below | ~above & (eps < 0))
        out = above | below | ~leaks
        point = jax.tree.map(lambda inner, outer: jnp.where(out, outer, inner), point, end)
        return jnp.where(out, self._flat(eps), log_delta), point

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def log_delta(self, eps, reverse):
        above, below, leaks = self._outside(eps, reverse)
        value = self._each(lambda entry, e, r: grid.log_delta(entry._law(e, r), e), eps, reverse)
        return jnp.where(above | below | ~leaks, self._flat(eps), value)

    def bracket(self, eps, reverse):
        def one(entry, eps, reverse):
            law = entry._law(eps, reverse)
            return *grid.bracket(law), jnp.exp(eps + grid.touch(law, eps)[0] - grid.log_delta(law, eps))

        above, below, leaks = self._outside(eps, reverse)
        low, high, rate = self._each(one, eps, reverse)
        exact = jnp.maximum(-jnp.expm1(eps), 0.0)
        ulp = 4 * jnp.finfo(eps.dtype).eps
        flat = below | ~leaks
        low = jnp.where(above, 0.0, jnp.where(flat, exact * (1 - ulp), jnp.maximum(low, exact * (1 - ulp))))
        # at the very end of the losses rounding decides whether there is anything left
        edge = above & (eps <= self.loss_bound(reverse) * (1 + 1e-13)) & leaks
        high = jnp.where(above & ~edge, 0.0, jnp.where(flat, exact * (1 + ulp), high))
        return low, high, jnp.where(above | flat, jnp.inf, rate)

    def brackets(self, eps):
        return self.bracket(eps, False), self.bracket(eps, True)

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
        return jnp.where(leaks, self._each(_slope_of, alpha, reverse), 0.0)

    def solve_epsilon(self, log_delta, reverse):
        reachable = (log_delta > -jnp.inf) & (log_delta < 0)
        _, _, leaks = self._outside(jnp.zeros_like(log_delta), reverse)
        eps = self._each(_epsilon_of, jnp.where(reachable, log_delta, -1.0), reverse)
        limit = jnp.where((log_delta < 0) & leaks, self.loss_bound(reverse), 0.0)
        limit = limit + jnp.where(jnp.isnan(log_delta), jnp.nan, 0.0)
        return jnp.where(reachable & leaks, jnp.minimum(eps, limit), limit)

    def tail_mu(self):
        """All steps with the record decide for alpha -> 0, if they do for each step: mu^2 = sum n_i mu_i^2."""
        known = [step.experiment.tail_mu() for step in self.steps]
        if any(mu is None for mu in known):
            return None
        return jnp.sqrt(sum(jnp.sum(step.count * mu**2, -1) for step, mu in zip(self.steps, known)))

    def reversed(self):
        return Gridded(tuple(Step(step.experiment.reversed(), step.count) for step in self.steps))

    def compose(self, n):
        n = n[..., None] if isinstance(n, jax.Array) else np.asarray(n)[..., None]
        return Gridded(tuple(Step(step.experiment, step.count * n) for step in self.steps))

    def subsampled(self, rate):
        raise ValueError("subsample() of a composition: sub-sample the steps before they are composed")


def _rest(log_value):
    inside = log_value < 0
    return jnp.where(inside, log1mexp(jnp.where(inside, log_value, -1.0)), -jnp.inf)


def _approximate(entry, reverse, kind, goal):
    """The eps at which the saddle-point approximation of an integral's result meets a goal (log result, log of the rest)."""
    tables = grid.tables_of(entry.steps, reverse)
    terms = tuple(Term(table, step.count) for table, step in zip(tables, entry.steps))
    log_result, log_rest = goal
    small = log_result < log_rest

    def shortfall(eps):
        line = place(terms, eps, kind)
        other = log1mexp(jnp.minimum(line.estimate, -1e-300))
        upper, lower = (jnp.where(line.side > 0, *pair) for pair in ((line.estimate, other), (other, line.estimate)))
        return jnp.where(small, log_result - upper, lower - log_rest), jnp.zeros_like(eps)

    ends = [sum(jnp.sum(step.count * table.edges[:, end]) for step, table in zip(entry.steps, tables)) for end in (0, -1)]
    return newton_in_bracket(shortfall, *ends, iterations=48)


def _refined(entry, eps, reverse, shortfall):
    """Newton inside the composed law around eps, twice: shortfall(law, eps) is (value, slope)."""
    for _ in range(2):
        law = entry._law(eps, reverse)
        reach = 0.25 * law.spacing * grid.SIZE
        eps = newton_in_bracket(partial(shortfall, law), eps - reach, eps + reach, iterations=12)
    return eps


def _epsilon_of(entry, log_delta, reverse):
    start = _approximate(entry, reverse, DELTA, (log_delta, _rest(log_delta)))

    def shortfall(law, eps):
        value = grid.log_delta(law, eps)
        return log_delta - value, jnp.exp(eps + grid.touch(law, eps)[0] - value)

    return _refined(entry, jnp.maximum(start, 0.0), reverse, shortfall)


def _slope_of(entry, alpha, reverse):
    log_alpha, log_rest = jnp.log(alpha), jnp.log1p(-alpha)
    start = _approximate(entry, reverse, ALPHA, (log_alpha, log_rest))
    small = log_alpha < log_rest

    def shortfall(law, eps):
        value = grid.touch(law, eps)[0]
        return jnp.where(small, log_alpha - value, _rest(value) - log_rest), jnp.zeros_like(eps)

    return _refined(entry, start, reverse, shortfall)
