"""Which of several directions support the envelope of their trade-off functions, and the search for
what supports it at a type I error: one of them, or the straight piece between two.
"""

from typing import Any, NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv.tradeoff.experiment import Point

_ROUNDS = 204  # of which a fourth are bisections: 51


class _Search(NamedTuple):
    """For a slope at alpha: those tried next (slopes, ...), the bracket's ends, will the next one
    be it, the best (slope, contact) until now, and is that it?
    """

    step: Any
    tried: jax.Array
    low: jax.Array
    high: jax.Array
    near: jax.Array
    best: tuple
    found: jax.Array


def search(tried, alpha, candidates):
    """The loop that looks for the contact at alpha: its start, its step, does it go on?

    tried(eps): of all slopes (slopes, ...) log deltas (directions, slopes, ...), of the first one
        log alpha (directions, ...), and the contact or, by NumPy, None. candidates: the slopes that
        the first round looks at: 0, for the middle piece, and between which the others are.
    """

    def choose(log_deltas, log_alpha, looked):
        """(what of the candidates supports the envelope at alpha, is there any?)"""
        supports = support(log_deltas)
        start, stop = span(log_alpha, supports[:, 0])
        found = (alpha >= start) & (alpha <= stop)
        best = _row(looked, 0)
        for index in range(1, len(candidates)):
            take = supports[index - 1, index] & ~found
            best, found = _where(take, _row(looked, index), best), found | take
        return best, found | xp.isnan(alpha)

    def look(state):
        step, eps, low, high, near, best, found = state
        log_deltas, log_alpha, contact = tried(eps)
        looked, first = (eps, contact), xp.asarray(step == 0)
        of_candidates, settled = (
            choose(log_deltas, log_alpha, looked) if len(eps) > 1 else (best, found)
        )
        best = _where(first, of_candidates, _where(found, best, _row(looked, 0)))
        beyond = span(log_alpha, support(log_deltas)[:, 0])[0] > alpha
        low = xp.where(~first & beyond, eps[0], low)
        high = xp.where(~first & ~beyond, eps[0], high)
        found = xp.where(first, settled, found | near)
        following = _chord(eps[0], log_deltas[:, 0], log_alpha, alpha, low, high)
        # after so small a step of Newton's what is left is rounding
        near = xp.abs(following - eps[0]) <= close * (1 + xp.abs(eps[0]))
        near = near | (high - low <= close**2 * (1 + xp.abs(high)))
        # a middle now and then ends what chords creep through
        inside = (following >= low) & (following <= high) & xp.asarray(step % 4 < 3)
        following = xp.where(near | inside, following, 0.5 * (low + high))
        following = xp.broadcast_to(following, eps.shape)
        return _Search(step + 1, following, low, high, near, best, found)

    def unfinished(state):
        return (state.step == 0) | ((state.step < _ROUNDS) & ~xp.all(state.found))

    zero = xp.zeros_like(alpha)
    contact = (zero, Point(zero, zero, zero, zero)) if xp.any_jax(candidates) else None
    low, high = xp.min(candidates[1:], 0), xp.max(candidates[1:], 0)
    no = xp.zeros(alpha.shape, bool)
    close = xp.finfo(candidates.dtype).eps ** 0.5
    return _Search(0, candidates, low, high, no, (zero, contact), no), look, unfinished


def _chord(eps, log_deltas, log_alpha, alpha, low, high):
    """The next slope for the straight piece above alpha, from the contacts of all directions with
    lines of slope -x, x = e^eps; the end of the bracket where none lies to one of its sides.

    Of the directions that touch right of alpha, and of those left of it, one has the largest
    profile. Its point has beta = 1 - delta - x alpha, so that the chord from one to the other has
    -slope x + (delta_1 - delta_2) / (alpha_1 - alpha_2): Newton's step for delta_1 = delta_2.
    """
    right = xp.exp(log_alpha) > alpha
    (one, alpha_one), (other, alpha_other) = (
        at_least(xp.where(side, -log_deltas, xp.inf), (log_deltas, log_alpha))
        for side in (right, ~right)
    )
    apart = xp.where(one > other, 1.0, -1.0) * -xp.expm1(-xp.abs(one - other))
    over = xp.exp(xp.maximum(one, other) - eps - alpha_one) / -xp.expm1(alpha_other - alpha_one)
    found = eps + xp.log1p(apart * over)
    return xp.where(xp.any(right, 0), xp.where(xp.any(~right, 0), found, high), low)


def support(log_deltas):
    """Which directions (first axis) have the largest profile, up to rounding."""
    worst = xp.max(log_deltas, 0)
    slack = 16 * xp.finfo(worst.dtype).eps * (1 + xp.abs(worst))
    return (log_deltas == worst) | (log_deltas >= worst - xp.where(xp.isfinite(slack), slack, 0.0))


def first_support(log_deltas, points):
    """Of the supporting points that with the smallest alpha."""
    return at_least(xp.where(support(log_deltas), points.log_alpha, xp.inf), points)


def at_least(keys, tree):
    """The rows of a pytree at the first smallest of a few keys.
    (argmin does not compile in float64 inside float32.)
    """
    least, chosen = keys[0], _row(tree, 0)
    for row in range(1, keys.shape[0]):
        less = keys[row] < least
        least = xp.where(less, keys[row], least)
        chosen = _where(less, _row(tree, row), chosen)
    return chosen


def span(log_alpha, supports):
    """Smallest and largest alpha among the supporting points: the ends of a straight piece."""
    low = xp.min(xp.where(supports, log_alpha, xp.inf), 0)
    return xp.exp(low), xp.exp(xp.max(xp.where(supports, log_alpha, -xp.inf), 0))


def _row(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _where(condition, tree, other):
    return jax.tree.map(lambda *pair: xp.where(condition, *pair), tree, other)
