"""Compositions with steps that are known between two pairs:
bounded by those of the pairs above and of the pairs below.
"""

from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.composition.directed import Directed
from jaxpriv.tradeoff import allocation_pairs
from jaxpriv.tradeoff.allocation import Allocation
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.many_outcomes import ManyOutcomes, Table
from jaxpriv.tradeoff.subsampled import Reversed


@pytree
class Between(Directed):
    """What lies between two experiments, in both directions; estimates are half way."""

    upper: Any
    lower: Any

    def _both_of(self, method, *args):
        return type(self)(getattr(self.upper, method)(*args), getattr(self.lower, method)(*args))

    def batch_shape(self):
        return self.upper.batch_shape()

    def aligned(self, shape, dtype):
        return self._both_of("aligned", shape, dtype)

    def defined(self):
        return self.upper.defined() & self.lower.defined()

    def whole(self, up):
        found = self._both_of("whole", up)
        return self if found.upper is self.upper else found

    def directed(self, reverse):
        return self._both_of("directed", reverse)

    def reversed(self):
        found = self._both_of("reversed")
        return self if found.upper is self.upper and found.lower is self.lower else found

    def compose(self, n):
        return self._both_of("compose", n)

    def as_narrow_as(self, width=None, deep=None):
        return self._both_of("as_narrow_as", width, deep)

    def log_delta(self, eps, reverse):
        return _middle(self.upper.log_delta(eps, reverse), self.lower.log_delta(eps, reverse))

    def contact(self, eps, reverse):
        pairs = self.upper.contact(eps, reverse), self.lower.contact(eps, reverse)
        return jax.tree.map(_middle, *pairs)

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def find_slope(self, alpha, reverse):
        ends = (own.find_slope(alpha, reverse) for own in (self.upper, self.lower))
        return 0.5 * sum(ends)

    def solve_epsilon(self, log_delta, reverse):
        most, least = (own.solve_epsilon(log_delta, reverse) for own in (self.upper, self.lower))
        return xp.where(xp.isfinite(most), 0.5 * most + 0.5 * xp.maximum(least, 0.0), most)

    def bracket(self, low, high, reverse):
        lower, _, _ = self.lower.bracket(low, high, reverse)
        _, upper, rate = self.upper.bracket(low, high, reverse)
        return lower, upper, rate

    def brackets_near(self, center, ends, reverse):
        lower, _, _ = self.lower.brackets_near(center, ends, reverse)
        _, upper, rate = self.upper.brackets_near(center, ends, reverse)
        return lower, upper, rate

    def epsilon_bracket(self, lowest, log_delta, reverse):
        low, _ = self.lower.epsilon_bracket(lowest, log_delta, reverse)
        _, high = self.upper.epsilon_bracket(lowest, log_delta, reverse)
        return low, high

    def log_told(self, reverse):
        return self.lower.log_told(reverse)[0], self.upper.log_told(reverse)[1]

    def loss_bound(self, reverse):
        return self.upper.loss_bound(reverse)

    def tail_mu(self):
        return self.upper.tail_mu()


def _middle(one, other):
    """log of the mean."""
    return xp.logaddexp(one, other) - np.log(2.0)


def is_between(experiment):
    """Is it, or its reverse, known between two pairs only?"""
    forward = experiment.base if isinstance(experiment, Reversed) else experiment
    return isinstance(forward, (Allocation, Between))


def sides(experiment, axis=None):
    """(an experiment above, one below) of any: itself twice where it is known."""
    if isinstance(experiment, Reversed) and is_between(experiment):
        return tuple(side.reversed() for side in sides(experiment.base, axis))
    if isinstance(experiment, Between):
        return experiment.upper, experiment.lower
    if isinstance(experiment, Allocation):
        return _pairs_of(experiment)
    return experiment, experiment


def _pairs_of(allocation):
    """The pairs of all entries of a batch."""
    if is_traced(allocation):
        raise ValueError(
            "compositions of random allocations are computed of concrete numbers, not inside jit"
        )
    # as float64 first: of float32 numbers 1/noise would be another mechanism's
    wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), allocation)
    given = resolved(wide, np.float64)
    mu, steps = (
        np.broadcast_to(np.asarray(leaf, np.float64), allocation.batch_shape())
        for leaf in (given.mu, given.steps)
    )
    alone = steps == 1
    if alone.all():
        one: Any = mu
        return NormalShift(one), NormalShift(one)
    if alone.any():
        raise ValueError("steps of a composed random allocation are all 1, or none is")
    found = [allocation_pairs.between(*entry) for entry in zip(mu.ravel(), steps.ravel())]
    rows = np.arange(float(mu.size)).reshape(mu.shape)
    return tuple(
        ManyOutcomes(rows, mu, Table.of([pair[side] for pair in found])) for side in (0, 1)
    )
