"""Compositions whose direction is data: both directions of one are a batch twice as
large, compiled once.
"""

from abc import abstractmethod

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import roughly


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
        return self._larger(lambda own, e: own.bracket(e, e, False), high)

    def both_brackets_near(self, center, ends):
        return self._larger(lambda own, c, e: own.brackets_near(c, e, False), center, ends)

    def _larger(self, method, *values):
        """`_both` of brackets, of which the larger ones are asked for: by NumPy narrow ones only
        where wide ones, which take less, do not show that the other direction's lie above.
        """
        program = xp.any_jax(self, *values)
        if program or self.reversed() is self or roughly(self) is None:
            return self._both(method, *values)
        shape, size = values[0].shape, values[0].size
        flat = [value.reshape(*value.shape[: value.ndim - len(shape)], size) for value in values]
        wide = jax.tree.map(
            lambda leaf: leaf.reshape(size, *leaf.shape[len(shape) :]),
            self.aligned(shape, values[0].dtype),
        )
        known = [np.stack(one) for one in roughly(wide)._both(method, *flat)]
        for side, (own, other) in enumerate((known, known[::-1])):
            # lower, upper, rate; further axes; entries
            hidden = own[1] < other[0]
            left = ~np.all(hidden, tuple(range(hidden.ndim - 1)))
            if left.any():
                entries = jax.tree.map(lambda leaf, left=left: leaf[left], wide)
                asked = entries.directed(np.full(int(left.sum()), bool(side)))
                found = np.stack(method(asked, *(value[..., left] for value in flat)))
                known[side] = np.where(left, np.nan, own)
                known[side][..., left] = found
        return tuple(tuple(one.reshape(*one.shape[:-1], *shape)) for one in known)

    def epsilon_brackets(self, lowest, log_delta):
        return self._both(lambda own, a, b: own.epsilon_bracket(a, b, False), lowest, log_delta)

    def subsampled(self, rate):
        raise ValueError(
            "subsample() of a composition: sub-sample the steps before they are composed"
        )
