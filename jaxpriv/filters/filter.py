"""Filters: what refuses a step that would exceed the budget, however the steps were chosen."""

import math
from abc import ABC, abstractmethod
from typing import Any

from jaxpriv import _array as xp
from jaxpriv import worst_case
from jaxpriv._checks import NONNEGATIVE, RATE, Domain, as_parameter, check_number, is_traced
from jaxpriv._pytree import pytree
from jaxpriv._types import Answer, Numbers
from jaxpriv.curve import Curve
from jaxpriv.filters.total import MOST, Total, as_number, square, term
from jaxpriv.tradeoff.pair import safe_log

BUDGET = Domain(1e-9, 1e15, "[1e-9, 1e15]", 1.0)
ORDER = Domain(1.0, math.inf, "(1, inf)", 2.0, open_low=True, open_high=True)


class Filter(ABC):
    """Of both kinds: a state is a `Total` of what was spent, to be kept by whoever spends.

    Everything is elementwise: a filter with an array of budgets is one for each record.
    """

    name = ""

    @abstractmethod
    def _shape(self):
        """That of the budgets."""

    @abstractmethod
    def _term(self, spent):
        """What a step adds, rounded upwards."""

    @abstractmethod
    def _bound(self):
        """What may be spent, rounded downwards."""

    def init(self) -> Total:
        """The state of which nothing is spent."""
        return Total.nothing(self._shape())

    def spend(self, state: Total, spent: Numbers) -> tuple[Total, Answer]:
        """(new state, accepted): what is left to be run is a step that was accepted.

        state: from `init` or `spend`. spent: `Float[Array, "..."]`, the step's own parameter, >= 0,
        which may depend on everything that was released before, and on nothing else of the data
        (with a filter for each record also on that record, if nobody is told what is accepted).

        A step that is refused leaves the state as it was, and a smaller one may still be accepted:
        not to run it is a choice like any other. Numbers count exactly as they are given, rounded
        upwards: budgets that are to be spent in parts which are not exact, as 0.1, need a share of
        1e-6 more. Positive numbers too small to be squared are counted as larger ones. Inside `jit`
        NaN and negative numbers are not accepted.

        Raises: ValueError for NaN and numbers outside [0, inf), and for a curve: adaptively chosen
        curves do not compose as curves do (Tran et al. 2026, arXiv:2602.06756).
        """
        spent = _checked(self.name, spent)
        valid = (spent >= 0) & (spent < xp.inf)
        after = state.plus(self._term(xp.where(valid, spent, 0.0).astype(spent.dtype)))
        accepted = valid & after.within(self._bound())
        return _where(accepted, after, state), accepted


def _checked(name, spent):
    if isinstance(spent, Curve):
        raise ValueError(
            f"{name} is a Curve: curves that are chosen adaptively do not compose as curves do; "
            "spend its gdp_mu(), or its Renyi divergence of the filter's order"
        )
    if not is_traced(spent):
        check_number(name, spent, NONNEGATIVE)
    return as_number(spent)


def _where(accepted, after, before):
    return Total(
        xp.where(accepted, after.high, before.high), xp.where(accepted, after.low, before.low)
    )


def root_up(value):
    """Of a sum of squares, rounded upwards."""
    return xp.nextafter(xp.sqrt(value), xp.asarray(math.inf, value.dtype))


@pytree
class GaussianFilter(Filter):
    """See `gaussian`."""

    mu: Any
    name = "mu"

    def _shape(self):
        return xp.shape(self.mu)

    def _term(self, spent):
        return squared(spent)

    def _bound(self):
        return term(square(as_number(self.mu), up=False), up=False)

    def spent(self, state: Total) -> Answer:
        """mu of what was accepted so far, rounded upwards: of the books, for what was accepted is
        mu-GDP with the budget's mu only, or by `odometer` with one that is announced as one goes.
        """
        return root_up(state.value())

    def curve(self) -> Curve:
        """The `Curve` of everything that is accepted, whenever the interaction ends."""
        return worst_case.gaussian(self.mu)


def squared(spent):
    """mu^2 as a term, of one that is larger where it could be too small or too large a number."""
    size = xp.clip(spent, 1.0001e-10, 3e15).astype(spent.dtype)
    found = term(square(size))
    some = spent > 0
    return Total(*(xp.where(some, word, xp.zeros_like(word)) for word in (found.high, found.low)))


def gaussian(mu: Numbers) -> GaussianFilter:
    """A filter for Gaussian differential privacy: accepts steps that are mu_i-GDP as long as
    the sum of mu_i^2 is at most mu^2.

    Args:
        mu: `Float[Array, "..."]` in [1e-9, 1e15]: the budget.

    Returns: a `GaussianFilter`, a pytree: `state = filter.init()`, then
        `state, accepted = filter.spend(state, mu_i)` for every step, before it is run.
    Guarantee: the whole interaction is mu-GDP (`filter.curve()`), though mechanisms and mu_i depend
        on all earlier outputs: the squares are never under-counted, in float32 and float64, and
        over-counted by less than 1e-14 of mu^2 for a step, and 1e-6 of its own in float32. mu_i has
        to hold without slack (`curve.gdp_mu()`), for the adjacency in question.
    Raises: ValueError if mu is outside its range.
    Source: Smith and Thakurta 2022 (arXiv:2210.17520); Koskela, Tobaben, Honkela 2023
    (arXiv:2209.15596), for filters of single records, too.

        >>> import jaxpriv
        >>> filter = jaxpriv.filters.gaussian(2.0)
        >>> state, told = filter.init(), []
        >>> for mu in (1.0, 1.5, 1.0, 1.0, 0.5):
        ...     state, accepted = filter.spend(state, mu)
        ...     told.append(bool(accepted))
        >>> told, f"{filter.spent(state):.3f}"
        ([True, True, False, False, True], '1.871')
    """
    return GaussianFilter(as_parameter("mu", mu, BUDGET))


@pytree
class RenyiFilter(Filter):
    """See `renyi`."""

    order: Any
    budget: Any
    name = "divergence"

    def _shape(self):
        return xp.broadcast_shapes(xp.shape(self.order), xp.shape(self.budget))

    def _term(self, spent):
        return linear(spent)

    def _bound(self):
        return term(as_number(self.budget), up=False)

    def spent(self, state: Total) -> Answer:
        """The divergence of what was accepted so far, rounded upwards: of the books, as
        `GaussianFilter.spent`.
        """
        return state.value()

    def epsilon(self, delta: Numbers) -> Answer:
        """The epsilon at delta in (0, 1] of everything that is accepted: budget
        + log(1 - 1/order) - log(order delta)/(order - 1), rounded upwards, or 0.

        Source: Canonne, Kamath, Steinke 2020, Proposition 12.
        """
        delta = as_parameter("delta", delta, RATE)
        c = as_number(self.order) - 1
        parts = (
            as_number(self.budget),
            xp.log(c) - xp.log1p(c),
            -(safe_log(as_number(delta)) + xp.log1p(c)) / c,
        )
        size = sum(map(xp.abs, parts)) + (1 + xp.log1p(c)) / c
        found = sum(parts)
        return xp.maximum(found + 16 * xp.finfo(found.dtype).eps * size, 0.0)[()]


def linear(spent):
    """A divergence as a term."""
    return term(xp.minimum(spent, MOST).astype(spent.dtype))


def renyi(order: Numbers, budget: Numbers) -> RenyiFilter:
    """A Renyi filter: accepts steps whose divergences of one order add up to at most the budget.

    Args:
        order: `Float[Array, "..."]` in (1, inf), fixed before the first step.
        budget: `Float[Array, "..."]` in [1e-9, 1e15].

    Returns: a `RenyiFilter`, a pytree: `state = filter.init()`, then
        `state, accepted = filter.spend(state, divergence)` for every step, before it is run.
    Guarantee: the Renyi divergence of this order of the whole interaction is at most the budget, in
        both directions if those of the steps are, though mechanisms and divergences depend on all
        earlier outputs; never under-counted, as `gaussian`. `filter.epsilon(delta)` converts. One
        order only: the best of several after the fact is not covered.
    Raises: ValueError for values outside their range.
    Source: Feldman and Zrnic 2021 (arXiv:2008.11193); Lecuyer 2021 (arXiv:2103.01379).

        >>> import jaxpriv
        >>> filter = jaxpriv.filters.renyi(order=8.0, budget=1.0)
        >>> step = jaxpriv.worst_case.gaussian(1.0).subsample(0.01).symmetric()
        >>> state, accepted = filter.spend(
        ...     filter.init(), 100 * jaxpriv.accounting.renyi_divergence(step, 8.0))
        >>> bool(accepted), f"{filter.spent(state):.4f} {filter.epsilon(1e-5):.4f}"
        (True, '0.0894 2.2141')
    """
    return RenyiFilter(as_parameter("order", order, ORDER), as_parameter("budget", budget, BUDGET))
