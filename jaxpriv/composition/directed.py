"""Compositions whose direction is data: both directions of one are a batch twice as
large, compiled once.
"""

from abc import abstractmethod

import jax

from jaxpriv import _array as xp
from jaxpriv.tradeoff.envelope import Envelope


class Directed(Envelope):
    """An envelope that gives `directed`."""

    @abstractmethod
    def directed(self, reverse):
        """The experiment whose forward direction is the one asked for;
        reverse: bool, or an array of them over the batch.
        """

    def _both(self, method, *values):
        """The results of method(experiment, *values) for both directions, once where exchanging
        the hypotheses changes nothing; further axes stand before the batch's.
        """
        first = values[0]
        if self.reversed() is self:
            found = method(self.aligned(first.shape, first.dtype), *values)
            return found, found
        wide = self.aligned((2, *first.shape), first.dtype)
        when = xp.asarray([False, True]).reshape((2,) + (1,) * first.ndim)
        twice = [xp.stack([value, value], value.ndim - first.ndim) for value in values]
        found = method(wide.directed(when), *twice)

        def of(side):
            return jax.tree.map(lambda leaf: xp.moveaxis(leaf, -1 - first.ndim, 0)[side], found)

        return of(0), of(1)

    def log_deltas(self, eps):
        return self._both(lambda own, e: own.log_delta(e, False), eps)

    def epsilons(self, log_delta):
        return self._both(lambda own, d: own.epsilon(d, False), log_delta)

    def contacts(self, eps):
        return self._both(lambda own, e: own.contact(e, False), eps)

    def slopes(self, alpha):
        return self._both(lambda own, a: own.slope(a, False), alpha)

    def brackets(self, low, high):
        del low  # the same number
        return self._both(lambda own, e: own.bracket(e, e, False), high)

    def both_brackets_near(self, center, ends):
        return self._both(lambda own, c, e: own.brackets_near(c, e, False), center, ends)

    def epsilon_brackets(self, lowest, log_delta):
        return self._both(lambda own, a, b: own.epsilon_bracket(a, b, False), lowest, log_delta)

    def subsampled(self, rate):
        raise ValueError(
            "subsample() of a composition: sub-sample the steps before they are composed"
        )
