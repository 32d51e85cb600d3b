"""By NumPy: a line's frequencies are kept, and serve every eps near the one it was placed for."""

import functools
from typing import NamedTuple

import numpy as np

from jaxpriv.composition.blocks import BLOCK
from jaxpriv.composition.frequencies import follow, kernel, plain_paths, summed
from jaxpriv.composition.interpolated import between
from jaxpriv.composition.line import log_factor
from jaxpriv.composition.logs import logs_of
from jaxpriv.composition.products import Products
from jaxpriv.stats._logspace import log1mexp

_NEWTON = 12
_SIGHT = 6.0
_ROUGHLY = 1e-3  # of eps: after a larger last step nothing was found
_COUNTS = 1e-18  # of the sum of all moduli: what adds up to less is no more than rounding
_MANY = 16  # eps, for which products of matrices are set up
_SETTLED = 1e-8  # of eps: after so small a step the next is one of rounding


class Kept:
    """log (M(c+iy)/M(c)) of all steps along one line, to where it is negligible and to `stop`."""

    def __init__(self, terms, eps, kind, placed, stop, limit, patience):
        """placed: what `along` gives at eps."""
        line, tilts, height = placed
        self.spread = line.spread
        self._kind, self._line, self._eps = kind, line, eps
        self._total = height - log_factor(kind, line.side, line.d, eps)
        blocks = []

        def keep(state, block):
            blocks.append((block.y, block.log_size, block.angle, block.ulps))
            return state

        paths = plain_paths(tilts, line)
        _, sums, self.done = follow(
            terms, eps, kind, line, tilts, paths, keep, (), stop, limit, patience
        )
        columns = [np.concatenate(column) for column in zip(*blocks)]
        count = self._that_count(*columns)
        self._blocks = [column[:count] for column in columns]
        self.reach = sums.reach

    def _that_count(self, y, log_size, _, ulps):
        """How many frequencies count. Of the others, which are followed for their error bound only,
        the moduli and their rounding are taken for rounding: they are what they may add at any eps.
        """
        modulus = self._modulus(y, log_size)
        beyond = np.cumsum(modulus[::-1], 0)[::-1]
        # one at least: where all moduli underflow the first says so
        count = max(1, int(np.max(np.sum(~(beyond <= _COUNTS * beyond[0]), 0))))
        ulp = np.finfo(np.float64).eps
        self._left_out = np.sum((modulus * (1 / ulp + ulps))[count:], 0)
        self._rest = np.max(modulus[-BLOCK:], 0)
        return count

    def _modulus(self, y, log_size):
        re, im = kernel(self._kind, self._line.side * self._line.d, y)
        return np.exp(log_size) * np.sqrt(re * re + im * im)

    def sums_of_many(self, eps):
        """The `Sums` of a single line at many eps, whose errors are not known as well."""
        y, log_size, *_ = self._blocks
        each = self.sums if eps.size < _MANY else self._sums_by_products
        return between(self.sums, y, self._modulus(y, log_size), eps, each)

    def _sums_by_products(self, eps):
        return self._with_left_out(self._products.sums(eps))

    @functools.cached_property
    def _products(self):
        return Products(self._kind, self._line.side * self._line.d, self._eps, *self._blocks)

    def sums(self, eps):
        """The `Sums` at eps, of the shape of the line's own or with further axes before it."""
        more = eps.ndim - self.reach.ndim
        blocks = (part.reshape((-1,) + (1,) * more + part.shape[1:]) for part in self._blocks)
        found, _ = summed(self._kind, self._line.side * self._line.d, eps, *blocks)
        return self._with_left_out(found)

    def _with_left_out(self, found):
        return found._replace(
            size=found.size + self._left_out, rest=self._rest, reach=self.reach
        )

    def logs(self, eps):
        """(the `Logs`, the `Sums`) at eps."""
        height = self._total + log_factor(self._kind, self._line.side, self._line.d, eps)
        sums = self.sums(eps)
        return logs_of(self._line, height, sums), sums

    def newton(self, target, start=None):
        """(eps at which the `Target` is met, how much rounding may move it, was it found and does
        the line serve there?, the `Logs` there)

        Where K leaps a line may be so far off that what it says is rounding, and steps go astray.
        """
        # further off it still says where to place the next one
        low, high = self._eps - _SIGHT * self.spread, self._eps + _SIGHT * self.spread
        eps = self._eps if start is None else np.clip(start, low, high)
        for _ in range(_NEWTON):
            logs, sums = self.logs(eps)
            over, rate = target.surplus(logs)
            known = np.isfinite(over / rate)
            step = np.where(known, -over / rate, 0.0)
            moved = np.maximum(np.clip(eps + step, low, high), target.least)
            moved = np.where(moved < target.most, moved, 0.5 * (eps + target.most))
            change, eps = moved - eps, moved
            if np.all(np.abs(change) <= _SETTLED * (1e-3 + np.abs(eps))):
                break
        # what a line sees as nothing at all is no root
        found = known & (np.abs(change) <= _ROUGHLY * (1e-3 + np.abs(eps)))
        blur = np.finfo(np.float64).eps * np.abs(sums.size / sums.slope)
        return eps, blur, found & (np.abs(eps - self._eps) <= self.spread), logs


class Target(NamedTuple):
    """What log of an integral's result has to be, and log of one less it where that is small; eps
    >= least, and < most, the largest loss, next to which nothing is left of a result.
    """

    least: np.ndarray
    most: np.ndarray
    log_result: np.ndarray
    log_rest: np.ndarray
    small: np.ndarray

    @classmethod
    def of_delta(cls, log_delta, most):
        """At eps >= 0."""
        small = np.ones(log_delta.shape, bool)
        return cls(np.zeros_like(log_delta), most, log_delta, log1mexp(log_delta), small)

    def surplus(self, logs):
        """(by how much the integral is above, its slope in eps)."""
        over = np.where(self.small, logs.result - self.log_result, self.log_rest - logs.rest)
        return over, logs.slope * np.where(self.small, 1.0, np.exp(logs.result - logs.rest))
