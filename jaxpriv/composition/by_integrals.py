"""Searches on a composition with an integral for every step: those of programs, and by NumPy where
no line that is kept serves.
"""

from jaxpriv import _array as xp
from jaxpriv.composition.inversion import Gradient, changes, gradient, invert
from jaxpriv.composition.line import ALPHA, DELTA
from jaxpriv.tradeoff.solve import newton_in_bracket


def slope(terms, start, log_alpha, log_rest, small, mean, variance):
    """The slope at alpha by Newton."""

    def shortfall(eps):
        logs = invert(terms, eps, ALPHA)
        value = xp.where(small, log_alpha - logs.result, logs.rest - log_rest)
        return value, -logs.slope * xp.where(small, 1.0, xp.exp(logs.result - logs.rest))

    # Newton's errors square, so that what follows a step this small is right to rounding
    near = 1e-8 * (xp.abs(mean) + xp.sqrt(variance))
    width = 1e3 + 1e3 * xp.sqrt(variance)
    return newton_in_bracket(
        shortfall, mean - width, mean + width, iterations=16, start=start, tolerance=near
    )


@xp.custom_jvp
def epsilon(terms, start, log_delta, reachable):
    """The eps at which delta is e^log_delta by Newton."""

    def ask(eps):
        logs = invert(terms, eps, DELTA)
        return logs.result, logs.slope, ()

    return _newton(ask, start, log_delta, reachable)[0]


@epsilon.defjvp
def _epsilon_jvp(primals, tangents):
    """By the implicit function theorem; the gradient is that of the search's last integral, so that
    a program has one integral in it and not a second one for the derivative.
    """
    terms, start, log_delta, reachable = primals

    def ask(eps):
        found = gradient(terms, eps, DELTA)
        return found.result, found.of_result(found.by_eps)[0], found

    eps, found = _newton(ask, start, log_delta, reachable, Gradient.none(terms, start))
    by_terms, by_eps = changes(found, terms, eps, DELTA)
    moved, rate = (found.of_result(change)[0] for change in (by_terms(tangents[0]), by_eps))
    moving = reachable & (eps > 0) & xp.isfinite(rate) & (rate < 0)
    change = (tangents[2] - moved) / xp.where(moving, rate, -1.0)
    return eps, xp.where(moving, change, xp.where(xp.isnan(eps), xp.nan, 0.0))


def _newton(ask, start, log_delta, reachable, more=()):
    """(eps >= 0 at which log delta is as wanted, and what else was found there).

    ask: eps -> (log delta, its slope, more, of which the last argument is the first).
    """

    # Newton's errors square: after a change this small there is no other to speak of, and what was
    # found before it was found at the answer
    near = 1e-11 if more else 1e-9

    def step(state):
        count, eps, _, _ = state
        value, slope, more = ask(eps)
        change = (log_delta - value) / slope
        new = xp.maximum(eps + xp.where(xp.isfinite(change), change, 0.0), 0.0)
        return count + 1, new, xp.abs(new - eps), more

    def moves(state):
        count, eps, change, _ = state
        return (count < 8) & xp.any(reachable & (change > near * (1e-3 + eps)))

    _, eps, _, more = xp.while_loop(moves, step, (0, start, xp.full_like(start, xp.inf), more))
    return eps, more
