"""Where a composed law meets a target: by the saddle-point approximation first, then by Newton on a
lattice that is laid around the last answer. All of scalar parameters.
"""

import jax

from jaxpriv import _array as xp
from jaxpriv.composition import grid
from jaxpriv.composition.line import ALPHA, Term, cumulants, place, saddle_epsilon
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket

_FEW = 1 << 13  # points of a first lattice


def log_rest_of(log_value):
    """log(1 - e^log_value)."""
    inside = log_value < 0
    return xp.where(inside, log1mexp(xp.where(inside, log_value, -1.0)), -xp.inf)


def _terms(entry, tables):
    return tuple(Term(table, step.count) for table, step in zip(tables, entry.steps))


def ends(entry, tables):
    """The least and the largest loss that the steps' tables know."""
    return [
        sum(xp.sum(step.count * table.edges[:, end]) for step, table in zip(entry.steps, tables))
        for end in (0, -1)
    ]


def approximate(entry, tables, log_alpha, log_rest):
    """The eps at which the saddle-point approximation of the type I error meets `log_alpha`."""
    terms = _spread(_terms(entry, tables), xp.shape(log_alpha))
    small = log_alpha < log_rest

    def shortfall(eps):
        """Along the line log of the integral falls by d, the distance from its pole, per eps."""
        line = place(terms, eps, ALPHA)
        other = log1mexp(xp.minimum(line.estimate, -1e-300))
        upper, lower = (
            xp.where(line.side > 0, *pair)
            for pair in ((line.estimate, other), (other, line.estimate))
        )
        own = small == (line.side > 0)
        rate = line.d * xp.where(own, 1.0, xp.exp(line.estimate - other))
        return xp.where(small, log_alpha - upper, lower - log_rest), rate

    low, high = (xp.broadcast_to(end, xp.shape(log_alpha)) for end in ends(entry, tables))
    _, mean, variance = cumulants(terms, xp.full_like(log_alpha, -0.5))
    near = 1e-3 * xp.sqrt(variance)
    return newton_in_bracket(shortfall, low, high, 48, mean, xp.max(near))


def _spread(terms, shape):
    """Terms of scalar parameters for arrays of questions."""
    return jax.tree.map(lambda leaf: xp.broadcast_to(leaf, (*shape, *xp.shape(leaf))), terms)


def _refined(entry, tables, eps, solve):
    """eps = solve(law, eps) twice, of the composed law around the last one; by NumPy first of few
    points.
    """
    if not xp.any_jax(entry, eps):
        for size in (_FEW, grid.SIZE):
            eps = solve(entry.law(eps, tables, size), eps)
        return eps
    return xp.fori_loop(0, 2, lambda _, eps: solve(entry.law(eps, tables), eps), eps)


def _around(law, eps, shortfall, tolerance=None):
    """By Newton inside the window of a law; shortfall(eps) is (value, slope)."""
    reach = 0.25 * law.spacing * law.nu.shape[-1]
    return newton_in_bracket(shortfall, eps - reach, eps + reach, 16, eps, tolerance)


def start_of(entry, tables, log_delta):
    """The eps at which the saddle-point approximation of log delta is `log_delta`."""
    terms = _spread(_terms(entry, tables), xp.shape(log_delta))
    return saddle_epsilon(terms, log_delta)[0]


def solved(law, log_delta, eps, tolerance=None):
    """The eps near the last one at which the law's estimate is `log_delta`."""

    def shortfall(eps):
        return log_delta - grid.log_delta(law, eps), grid.steepness(law, eps)

    return _around(law, eps, shortfall, tolerance)


def epsilon_of(entry, log_delta):
    tables = entry.tables()
    start = start_of(entry, tables, log_delta)
    eps = _refined(entry, tables, start, lambda law, eps: solved(law, log_delta, eps))
    # below the probability of an infinite loss no eps is enough
    never = sum(
        xp.sum(step.count * xp.log1p(-table.endless)) for step, table in zip(entry.steps, tables)
    )
    return xp.where(log_delta < safe_log(-xp.expm1(never)), xp.inf, eps)


def slope_of(entry, alpha):
    log_alpha, log_rest = xp.log(alpha), xp.log1p(-alpha)
    tables = entry.tables()
    start = approximate(entry, tables, log_alpha, log_rest)
    small = log_alpha < log_rest

    def solve(law, eps):
        def shortfall(eps):
            value, slope = xp.derivative(lambda e: grid.touch(law, e)[0], eps)
            rest = log_rest_of(value)
            return xp.where(small, log_alpha - value, rest - log_rest), -slope * xp.where(
                small, 1.0, xp.exp(value - rest)
            )

        return _around(law, eps, shortfall)

    return _refined(entry, tables, start, solve)
