"""Odometers: at any time a bound of the privacy loss so far, all of them holding together.

A ladder of budgets b_1 < ... < b_k is fixed beforehand. For each rung the interaction that ends
before b_j is exceeded has that budget (it is what a filter accepts), and so has the one that ends
also as soon as the privacy loss L_t = log(P/Q) of what was seen is above a number eps_j, for L_t is
a function of what was seen. If it ends so with probability p under P, it does with at most e^-eps_j
p under Q, which is a test: by mu-GDP Phi^-1(p) <= Phi^-1(e^-eps_j p) + mu, and by a Renyi
divergence p <= e^((order - 1)(b_j - eps_j)) (Markov). With p = delta/k that is the eps_j below; all
rungs together fail with probability delta at most, at whatever time one looks.
"""

from abc import abstractmethod
from typing import Any

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import OPEN_UNIT, as_parameter
from jaxpriv._pytree import pytree
from jaxpriv._types import Answer, Numbers
from jaxpriv.filters.filter import BUDGET, ORDER, Filter, linear, root_up, squared
from jaxpriv.filters.total import Total, as_number, square, term
from jaxpriv.stats import norm


class Odometer(Filter):
    """Of both kinds: a filter with the last rung for a budget."""

    rungs: Any

    def _shape(self):
        return ()

    def _at(self, index):
        return Total(*(word[index] for word in self._bounds()))

    @abstractmethod
    def _bounds(self):
        """The words of what may be spent up to each rung, rounded downwards."""

    @abstractmethod
    def _epsilons(self, log_share):
        """The eps_j of each rung, for log(delta/k)."""

    def _bound(self):
        return self._at(-1)

    def epsilon(self, state: Total, delta: Numbers) -> Answer:
        """What the privacy loss so far is at most, delta in (0, 1) fixed beforehand.

        Guarantee: with probability at least 1 - delta, over everything that is released with the
        record (and over everything without it, of the loss the other way round), the loss of what
        was released up to t is at most epsilon(state_t, delta) at every t at once: at times that
        are chosen by what came out, too, and after the last. 0 before the first step.
        """
        log_delta = xp.log(as_number(as_parameter("delta", delta, OPEN_UNIT)))
        count = self.rungs.shape[-1]
        log_share = log_delta - np.log(count) * (1 + 1e-15)
        found = self._epsilons(xp.expand_dims(log_share, -1))
        held = [state.within(self._at(index)) for index in range(count)]
        result = found[..., count - 1]
        for index in range(count - 2, -1, -1):
            result = xp.where(held[index], found[..., index], result)
        return xp.where(state.high > 0, xp.maximum(result, 0.0), 0.0)[()]


@pytree
class GaussianOdometer(Odometer):
    """See `odometer`."""

    rungs: Any
    name = "mu"

    def _term(self, spent):
        return squared(spent)

    def _bounds(self):
        found = term(square(as_number(self.rungs), up=False), up=False)
        return found.high, found.low

    def _epsilons(self, log_share):
        quantile = norm.ppf_exp(log_share)
        mu = as_number(self.rungs)
        tail = norm.logcdf(quantile - mu)
        off = 256 * xp.finfo(tail.dtype).eps * (1 + xp.abs(tail) + mu * (1 + xp.abs(quantile) + mu))
        return log_share - tail + off

    def spent(self, state: Total) -> Answer:
        """mu of what was accepted so far, rounded upwards: of the books."""
        return root_up(state.value())


@pytree
class RenyiOdometer(Odometer):
    """See `renyi_odometer`."""

    order: Any
    rungs: Any
    name = "divergence"

    def _term(self, spent):
        return linear(spent)

    def _bounds(self):
        found = term(as_number(self.rungs), up=False)
        return found.high, found.low

    def _epsilons(self, log_share):
        budget = as_number(self.rungs)
        rest = -log_share / (as_number(self.order) - 1)
        return budget + rest + 16 * xp.finfo(rest.dtype).eps * (budget + rest)

    def spent(self, state: Total) -> Answer:
        """The divergence of what was accepted so far, rounded upwards: of the books."""
        return state.value()


def odometer(rungs: Numbers) -> GaussianOdometer:
    """A Gaussian odometer: what was spent so far, at any time, of steps that are mu_i-GDP.

    Args:
        rungs: `Float[Array, "rungs"]` in [1e-9, 1e15], ascending, fixed before the first step: the
            values of mu at which the bound moves up. The last is a budget: beyond it is refused.

    Returns: a `GaussianOdometer`: `init` and `spend` as of `gaussian`, and
        `odometer.epsilon(state, delta)`.
    Guarantee: that of `GaussianOdometer.epsilon`: a bound of the privacy loss at all times with
        probability 1 - delta, of steps chosen adaptively. It is not mu-GDP with the rung that was
        reached, which no bound at times that the outputs choose can be; the last rung's mu is.
        More rungs are nearer to what is spent, and cost log(rungs) each.
    Raises: ValueError for rungs that are outside their range or do not ascend.
    Source: Rogers et al. 2016 (arXiv:1605.08294), who define odometers; the ladder as Lecuyer
    2021 (arXiv:2103.01379), with the trade-off function for the tail, derived in this module.

        >>> import jaxpriv
        >>> meter = jaxpriv.filters.odometer([0.5, 1.0, 2.0])
        >>> state, _ = meter.spend(meter.init(), 0.4)
        >>> first = meter.epsilon(state, 1e-5)
        >>> state, _ = meter.spend(state, 0.8)
        >>> print(f"{first:.3f} {meter.epsilon(state, 1e-5):.3f}")
        2.475 5.191
    """
    return GaussianOdometer(_ascending(rungs))


def renyi_odometer(order: Numbers, rungs: Numbers) -> RenyiOdometer:
    """A Renyi odometer: what was spent so far, at any time, in divergences of one order.

    Args:
        order: in (1, inf), fixed before the first step.
        rungs: `Float[Array, "rungs"]` in [1e-9, 1e15], ascending, fixed before the first step.

    Returns: a `RenyiOdometer`: `init` and `spend` as of `renyi`, and
        `odometer.epsilon(state, delta)`.
    Guarantee: as `odometer`; of the divergence of the whole interaction the last rung.
    Raises: ValueError for values outside their range and rungs that do not ascend.
    Source: as `odometer`.

        >>> import jaxpriv
        >>> meter = jaxpriv.filters.renyi_odometer(16.0, [0.1, 1.0])
        >>> state, _ = meter.spend(meter.init(), 0.05)
        >>> print(f"{meter.epsilon(state, 1e-5):.4f}")
        0.9137
    """
    return RenyiOdometer(as_parameter("order", order, ORDER), _ascending(rungs))


def _ascending(rungs):
    found = as_parameter("rungs", rungs, BUDGET)
    if np.ndim(found) != 1 or not np.size(found):
        raise ValueError(f"rungs = {rungs!r} has shape {np.shape(found)}; accepted: (rungs,)")
    if not xp.any_jax(found) and not np.all(np.diff(found) > 0):
        raise ValueError(f"rungs = {rungs!r} do not ascend")
    return found
