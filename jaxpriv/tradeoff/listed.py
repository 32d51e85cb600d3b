"""A mechanism whose outcomes are written down one by one, up to hundreds of thousands of them."""

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.discrete import Discrete, Mirrored
from jaxpriv.tradeoff.experiment import Experiment, Point
from jaxpriv.tradeoff.outcomes import Outcomes


class Listing:
    """Outcomes of ascending loss, with logarithms of both laws' masses: NumPy arrays of float64
    that are a part of a program's structure, equal if their numbers are.
    """

    def __init__(self, loss, null, alternative):
        self.columns = tuple(np.array(one, float) for one in (loss, null, alternative))

    @classmethod
    def of(cls, outcomes):
        """Of (loss, log of the null's mass, log of the alternative's) where one has some."""
        return cls(*zip(*(one for one in outcomes if max(one[1:]) > -np.inf)))

    @cached_property
    def _key(self):
        return b"".join(column.tobytes() for column in self.columns)

    def __eq__(self, other):
        return isinstance(other, Listing) and self._key == other._key

    def __hash__(self):
        return hash(self._key)

    @cached_property
    def tests(self):
        """A `Point` of tests: they reject the losses above the k-th, k = 0, 1, ..."""
        _, null, alternative = self.columns
        below = [_log_cumulated(mass) for mass in (null, alternative)]
        above = [_log_cumulated(mass[::-1])[::-1] for mass in (null, alternative)]
        return Point(above[0], below[0], below[1], above[1])

    @cached_property
    def mirrored(self):
        """With the hypotheses exchanged; itself if that changes nothing."""
        loss, null, alternative = (column[::-1] for column in self.columns)
        found = Listing(0.0 - loss, alternative, null)
        if found == self:
            return self
        found.__dict__["mirrored"] = self
        return found


@pytree
class Listed(Outcomes):
    """told: the probability of an infinite loss."""

    told: Any
    outcomes: Listing = field(metadata={"static": True})

    aligned = Experiment.aligned

    def spelled(self, shape, dtype):
        told = xp.broadcast_to(xp.asarray(self.told, dtype), shape)
        loss, null, alternative = (
            xp.broadcast_to(xp.like(column.astype(told.dtype), told), (*shape, len(column)))
            for column in self.outcomes.columns
        )
        if self.reversed() is self:
            return Mirrored(null, alternative, loss, told)
        return Discrete(null, alternative, loss, xp.full_like(told, xp.nan))

    def touch(self, eps, reverse):
        """Found by bisection: `Discrete` looks at all losses."""
        own = self.outcomes.mirrored if reverse else self.outcomes
        loss, tests = own.columns[0], own.tests
        at = xp.searchsorted(xp.like(loss.astype(eps.dtype), eps), eps, side="right")
        return Point(*(xp.gathered(column.astype(eps.dtype), at) for column in tests))

    def subsampled(self, rate):
        """A list again, of a rate that is a number."""
        if xp.any_jax(rate, self) or np.size(rate) > 1:
            return super().subsampled(rate)
        rate = np.asarray(rate, float).reshape(())
        found = self.spelled((), rate.dtype).subsampled(rate)
        return Listed(self.told * rate, Listing(found.loss, found.null, found.alternative))

    def reversed(self):
        mirrored = self.outcomes.mirrored
        return self if mirrored is self.outcomes else Listed(self.told, mirrored)


def _log_cumulated(mass):
    """log of the sums of the first k, k = 0, 1, ..., with digits to spare."""
    total = np.logaddexp.accumulate(mass.astype(np.longdouble))
    return np.concatenate([[-np.inf], np.minimum(total, 0.0).astype(float)])
