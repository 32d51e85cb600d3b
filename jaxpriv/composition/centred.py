"""Where a composed law meets a target: by the saddle-point approximation first, then by Newton on a
lattice that is laid around the last answer. All of scalar parameters.
"""

from functools import partial

from jaxpriv import _array as xp
from jaxpriv.composition import grid
from jaxpriv.composition.line import ALPHA, DELTA, Term, place
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket


def log_rest_of(log_value):
    """log(1 - e^log_value)."""
    inside = log_value < 0
    return xp.where(inside, log1mexp(xp.where(inside, log_value, -1.0)), -xp.inf)


def _approximate(entry, tables, kind, goal):
    """The eps at which the saddle-point approximation of an integral's result meets a goal (log
    result, log of the rest).
    """
    terms = tuple(Term(table, step.count) for table, step in zip(tables, entry.steps))
    log_result, log_rest = goal
    small = log_result < log_rest

    def shortfall(eps):
        line = place(terms, eps, kind)
        other = log1mexp(xp.minimum(line.estimate, -1e-300))
        upper, lower = (
            xp.where(line.side > 0, *pair)
            for pair in ((line.estimate, other), (other, line.estimate))
        )
        return xp.where(small, log_result - upper, lower - log_rest), xp.zeros_like(eps)

    low, high = (
        sum(xp.sum(step.count * table.edges[:, end]) for step, table in zip(entry.steps, tables))
        for end in (0, -1)
    )
    return newton_in_bracket(shortfall, low, high, iterations=48)


def _refined(entry, tables, eps, shortfall):
    """Newton inside the composed law around eps, twice: shortfall(law, eps) is (value, slope)."""

    def recentre(_, eps):
        law = entry.law(eps, tables)
        reach = 0.25 * law.spacing * grid.SIZE
        return newton_in_bracket(partial(shortfall, law), eps - reach, eps + reach, iterations=16)

    return xp.fori_loop(0, 2, recentre, eps)


def epsilon_of(entry, log_delta):
    tables = entry.tables()
    start = _approximate(entry, tables, DELTA, (log_delta, log_rest_of(log_delta)))

    def shortfall(law, eps):
        value = grid.log_delta(law, eps)
        return log_delta - value, xp.exp(eps + grid.touch(law, eps)[0] - value)

    eps = _refined(entry, tables, xp.maximum(start, 0.0), shortfall)
    # below the probability of an infinite loss no eps is enough
    never = sum(
        xp.sum(step.count * xp.log1p(-table.endless)) for step, table in zip(entry.steps, tables)
    )
    return xp.where(log_delta < safe_log(-xp.expm1(never)), xp.inf, eps)


def slope_of(entry, alpha):
    log_alpha, log_rest = xp.log(alpha), xp.log1p(-alpha)
    tables = entry.tables()
    start = _approximate(entry, tables, ALPHA, (log_alpha, log_rest))
    small = log_alpha < log_rest

    def shortfall(law, eps):
        value, slope = xp.derivative(lambda e: grid.touch(law, e)[0], eps)
        rest = log_rest_of(value)
        return xp.where(small, log_alpha - value, rest - log_rest), -slope * xp.where(
            small, 1.0, xp.exp(value - rest)
        )

    return _refined(entry, tables, start, shortfall)
