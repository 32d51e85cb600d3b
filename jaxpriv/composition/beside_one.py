"""One step that is not discrete, a release with Laplace or Gaussian noise, say, beside outcomes
that are counted (`enumerated`), by NumPy: delta(eps) = P(L = inf) + sum P_i delta_step(eps - l_i),
and its levels alike. Nothing is discretised.
"""

import numpy as np

from jaxpriv.composition.chain import spread, summed_over
from jaxpriv.tradeoff.solve import newton_in_bracket, secant_in_bracket

_AT_ONCE = 1 << 20  # losses of the step that are asked for at once
_FIRST, _FARTHEST = 1.0, 2.0**20  # of eps that are looked for
_TRIES, _NEAR = 60, 1e-11  # how often, how closely


class BesideOne:
    """What is `Counted` of all other steps, and the step (scalar parameters) of one direction."""

    def __init__(self, counted, step, reverse):
        self.counted, self.step, self.reverse = counted, step, reverse

    def brackets(self, eps):
        """(lower, upper) of log delta at eps (any shape), and -d log delta/d eps."""
        upper, lower, _ = self.counted
        with np.errstate(all="ignore"):
            low, _ = summed_over(lower, self.step, self.reverse, eps, -1)
            high, rate = summed_over(upper, self.step, self.reverse, eps, 1)
        return low, high, np.where(np.isnan(rate), np.inf, rate)

    def contacts(self, eps):
        """(log delta, log alpha, log power, log beta) at eps (k,), as (k, 4)."""
        rows = max(_AT_ONCE // self.counted.middle.loss.size, 1)
        parts = [self._contacts(eps[at : at + rows]) for at in range(0, len(eps), rows)]
        return np.concatenate([np.zeros((0, 4)), *parts])

    @np.errstate(all="ignore")
    def _contacts(self, eps):
        loss, mass, endless = self.counted.middle
        rest = eps[:, None] - loss
        log_delta, point = spread(self.step, rest.shape).contact(rest, self.reverse)

        def total(logs, weights, also=0.0):
            return np.log(np.minimum(np.exp(logs) @ weights + also, 1.0))

        return np.stack([
            total(log_delta, mass, endless), total(point.log_alpha, mass * np.exp(-loss)),
            total(point.log_power, mass, endless), total(point.log_beta, mass)], -1)

    def slopes(self, alpha):
        """The eps at which alpha (k,) is the type I error, which falls, and leaps at atoms."""
        log_alpha = np.log(alpha)

        def surplus(eps):
            return self.contacts(eps)[:, 1] - log_alpha

        low, high = self._around(surplus, alpha.shape)
        with np.errstate(invalid="ignore"):
            return secant_in_bracket(lambda eps: -surplus(eps), low, high, _TRIES, tolerance=_NEAR)

    def epsilons(self, log_delta):
        """The eps at which log delta is `log_delta` (k,)."""
        low, high = self._around(lambda eps: self.contacts(eps)[:, 0] - log_delta, log_delta.shape)

        @np.errstate(all="ignore")
        def shortfall(eps):
            found = self.contacts(eps)
            return log_delta - found[:, 0], np.exp(eps + found[:, 1] - found[:, 0])

        eps = newton_in_bracket(shortfall, low, high, _TRIES)
        return np.where(high < _FARTHEST, eps, np.inf)

    @staticmethod
    def _around(falling, shape):
        """Two eps between which a function that falls crosses zero, if any is not too far."""
        size = np.full(shape, _FIRST)
        while True:
            outside = (falling(-size) < 0) | (falling(size) > 0)
            if not (outside & (size < _FARTHEST)).any():
                return -size, size
            size = np.where(outside, np.minimum(2 * size, _FARTHEST), size)
