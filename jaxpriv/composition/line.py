"""Where to integrate: the vertical line of an inverse transform, and how finely (see
`jaxpriv.composition.inversion`).
"""

import math
from typing import Any, NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.transforms import OUTSIDE
from jaxpriv.tradeoff.solve import newton_in_bracket

_NEGLIGIBLE = 38.0  # aliases are made e^-38 of the result
_LOWER = 8.0  # logarithm of by how much the integral may differ where a line still serves
_SHY = 1e-4
_NEARER, _FURTHER = 8, 6  # candidates between the pole and the saddle, and beyond it
_SMALL = 0.01  # of the square of a loss: delta is then small on both sides of the mean
_CANCELS = 4.0  # by how much the integrand may exceed its value at the saddle, in logarithms


@pytree
class Term:
    """Equal steps of several mechanisms: a transform with parameters (..., members) and how often
    each is taken.
    """

    transform: Any
    count: jax.Array


class Kind(NamedTuple):
    """An integral: the pole next to which its line runs, and whether the kernel has both poles.
    Numbers, or arrays as eps.
    """

    pole: Any
    double: Any


DELTA, POWER, ALPHA = Kind(0.0, True), Kind(0.0, False), Kind(-1.0, False)


class Line(NamedTuple):
    """Where to integrate: t = pole + side d + iy, y = (j + 1/2) spacing.

    spread: how far from its eps the line serves. estimate: the saddle-point approximation of log of
    the integral. further: (candidates, ...), other d, and beyond: Chernoff's exponents there,
    infinite for those that are not larger.
    """

    d: jax.Array
    side: jax.Array
    spacing: jax.Array
    spread: jax.Array
    estimate: jax.Array
    further: jax.Array
    beyond: jax.Array


def tilted(terms, c):
    """What is known of every transform at real c."""
    return [term.transform.tilted(c[..., None]) for term in terms]


def bound_far(terms, c):
    """An upper bound of K of all steps at real c."""
    tilts = []
    for term in terms:
        transform = term.transform
        tilts.append(getattr(transform, "tilted_far", transform.tilted)(c[..., None]))
    return over_steps(terms, [tilt.value + 2 * tilt.line_error() for tilt in tilts])


def over_steps(terms, values):
    """The sum over all steps of values given for each term's members."""
    parts = [xp.sum(term.count * value, -1) for term, value in zip(terms, values)]
    return sum(parts[1:], parts[0])


def cumulants(terms, c):
    """Sums over all steps of (K, K', K'') at real c."""
    return [
        over_steps(terms, column)
        for column in zip(*(term.transform.cumulants(c[..., None]) for term in terms))
    ]


def loss_bound(terms):
    """The largest total loss."""

    def of_term(term):
        # infinite times a count has no derivative, and would spoil those of what was chosen instead
        each = term.transform.loss_bound()
        finite = term.count * xp.where(each < xp.inf, each, 0.0)
        return xp.sum(xp.where(term.count > 0, xp.where(each < xp.inf, finite, xp.inf), 0.0), -1)

    bounds = [of_term(term) for term in terms]
    return sum(bounds[1:], bounds[0])


def before_largest(terms, eps):
    """eps, or where there is no such loss half the largest: no line is far out for nothing."""
    largest = loss_bound(terms)
    return xp.where(eps < largest, eps, 0.5 * xp.where(largest < xp.inf, largest, 0.0))


def advantage_bound(terms):
    """An upper bound of the advantage: over the steps it adds up at most, each rate (2 Phi(mu/2) -
    1) or less, mu how far apart the records are that a step may show.
    """

    def of_step(transform):
        rate = getattr(transform, "rate", 1.0)
        return rate * xp.erf(transform.apart / math.sqrt(8.0))

    return over_steps(terms, [of_step(term.transform) for term in terms]) * (1 + 1e-12)


def on_axis(kind, side, d):
    """The real t at distance d from the pole."""
    return kind.pole + side * d


def place(terms, eps, kind, guess=None):
    """The line through the saddle, or between it and the pole where that allows a wider spacing.

    guess: log of the saddle's distance from the pole, roughly, where it is known.
    """
    _, mean, variance = cumulants(terms, xp.full_like(eps, kind.pole))
    # what is small is integrated: on the right of the mean the result, on its left one less it,
    # unless all losses are small
    gap = xp.abs(eps - mean)
    outer = (eps > mean) | (xp.asarray(kind.double) & (variance + gap * gap < _SMALL))
    side = xp.where(outer, 1.0, -1.0).astype(eps.dtype)
    inner = (side < 0) & xp.asarray(kind.double)  # between both poles: 0 < d < 1
    ahead, behind = (xp.maximum(sign * side * (eps - mean), 0.0) for sign in (1, -1))

    def excess(x):
        """Of log of what pulls away from the pole over what pulls towards it, d = e^x; its slope.

        The integrand's height on the axis is K - side eps d - log d - log(away), where the last
        one, of the other pole, is there if the kernel is double: its slope by log d is zero where
        side d (K' - m) + d (-ahead)_+ + (d/away on the left) = d ahead_+ + 1 + (d/away on the
        right), ahead = side (eps - m), each a sum of positive terms.
        """
        d = xp.exp(x)
        _, first, second = cumulants(terms, on_axis(kind, side, d))
        away = xp.where(inner, 1 - d, 1 + d)
        lean, bend = xp.where(kind.double, d / away, 0.0), xp.where(kind.double, d / away**2, 0.0)
        pull = side * d * (first - mean)
        pull = xp.where(xp.isfinite(pull), xp.maximum(pull, 0.0), xp.inf) + d * behind
        steeper, stiffer = pull + d * d * second, d * ahead
        hold = stiffer + 1
        pull, steeper = pull + xp.where(inner, lean, 0.0), steeper + xp.where(inner, bend, 0.0)
        hold, stiffer = hold + xp.where(inner, 0.0, lean), stiffer + xp.where(inner, 0.0, bend)
        return xp.log(pull / hold), steeper / pull - stiffer / hold

    low = xp.full_like(eps, -32.0)
    farthest = 60.0 if eps.dtype == xp.float64 else 16.0  # its square must not overflow
    high = xp.where(inner, -1e-9, farthest)
    if guess is None:
        # of a normal law d variance = |eps - mean| + 1/d
        guess = xp.log(gap + xp.sqrt(gap * gap + 4 * variance)) - xp.log(2 * variance)
    # any d near the saddle serves
    guess = xp.where(xp.isfinite(guess), guess, 0.0)
    start = xp.where(inner, xp.minimum(guess, -0.1), guess)
    # on the near side of where K may become infinite
    saddle = xp.exp(newton_in_bracket(excess, low, high, start=start, tolerance=_SHY) - 3 * _SHY)

    # nearer to the pole the integrand is a little higher, but a heavy tail weighs less, and its
    # aliases come down earlier
    share = xp.where(
        inner,
        1.0,
        2.0 ** (-0.75 * xp.arange(_NEARER, dtype=eps.dtype)).reshape((-1,) + (1,) * eps.ndim),
    )
    # Chernoff's bounds of aliases, further from the pole than the saddle and before the other one
    k = 1.6 * xp.arange(1.0, _FURTHER + 1, dtype=eps.dtype).reshape((-1,) + (1,) * eps.ndim)
    further = xp.where(inner, 1 - (1 - saddle) * 0.5**k, saddle * (1 + 2.0 ** (k - 6.6)))
    d = xp.concatenate([xp.broadcast_to(share * saddle, (_NEARER, *eps.shape)), further])
    total, _, second = cumulants(stacked(terms, d.shape[0]), on_axis(kind, side, d))
    beyond = total - side * eps * d
    beyond = xp.where(xp.isnan(beyond), xp.inf, beyond)  # what is out of range bounds nothing
    # beyond the saddle exponents rise, for K is convex: a lower one has too few nodes
    fallen = (d > saddle * (1 + 1e-9)) & (beyond < beyond[0] - 1.0) & ~inner
    beyond = xp.where(fallen, xp.inf, beyond)
    further, d, total, spread = d, d[:_NEARER], total[:_NEARER], xp.sqrt(second[:_NEARER])
    height = total + log_factor(kind, side, d, eps)
    estimate = xp.minimum(height[0] - 0.5 * xp.log(2 * math.pi * (second[0] + 1 / saddle**2)), 0.0)
    # where steps tell much rarely K leaps at some d, and what lies before it bounds what lies
    # further than a smaller d
    step = further - d[:, None]
    away_from = step > 1e-9 * further
    far = xp.min(
        xp.where(
            away_from, (beyond - estimate + _NEGLIGIBLE) / xp.where(away_from, step, 1.0), xp.inf
        ),
        1,
    )
    width = xp.maximum((_NEGLIGIBLE - estimate) / d, far)
    width = xp.where(height <= height[0] + _CANCELS, width, xp.inf)
    d, spread, width = at_smallest(width, d), at_smallest(width, spread), xp.min(width, 0)
    spread = xp.minimum(spread, _LOWER / d)
    beyond = xp.where(further > d * (1 + 1e-9), beyond, xp.inf)
    return Line(d, side, 2 * math.pi / width, spread, estimate, further, beyond)


def log_factor(kind, side, d, eps):
    """log of the integrand at y = 0, less K."""
    away = xp.where(
        kind.double, xp.log(xp.where((side < 0) & xp.asarray(kind.double), 1 - d, 1 + d)), 0.0
    )
    return -side * eps * d - xp.log(d) - away


def along(terms, eps, kind, guess=None):
    """(the `Line`, the transforms there, log of the integrand at y = 0)."""
    line = place(terms, eps, kind, guess)
    tilts = tilted(terms, on_axis(kind, line.side, line.d))
    total = over_steps(terms, [tilt.value for tilt in tilts])
    return line, tilts, total + log_factor(kind, line.side, line.d, eps)


def saddle_epsilon(terms, log_delta):
    """The eps >= 0 at which the saddle-point approximation of log delta is `log_delta`, to about a
    hundredth, and log of the saddle there.
    """

    def saddle(c):
        """eps whose saddle is c, -log delta there, and c times its slope in c."""
        total, mean, variance = cumulants(terms, c)
        total = xp.where(total < OUTSIDE / 2, total, -xp.inf)  # beyond what is in range
        eps = mean - 1 / c - 1 / (1 + c)
        bend = variance + 1 / c**2 + 1 / (1 + c) ** 2
        value = eps * c + xp.log(c) + xp.log1p(c) - total + 0.5 * xp.log(2 * math.pi * bend)
        return eps, value, c * c * bend

    def shortfall(x):
        """On a scale on which a Newton step stays a good one where K leaps, and value with it."""
        _, value, slope = saddle(xp.exp(x))
        value = xp.where(xp.isnan(value), xp.inf, value)
        size = 1 + xp.abs(value)
        return xp.copysign(xp.log(size), value) - goal, slope / size

    # of a normal law -log delta is about c^2 variance/2; from a start that is too far out, where
    # it grows like a power of c, few steps lead back
    low, goal = xp.full_like(log_delta, -20.0), xp.log1p(-log_delta)
    start = 1.0 + 0.5 * goal
    x = newton_in_bracket(shortfall, low, low + 36.0, start=start, tolerance=1e-2)
    # on the near side of where K becomes infinite
    x = x - 0.03
    return xp.maximum(saddle(xp.exp(x))[0], 0.0), x


def at_smallest(keys, values):
    """The value, along the first axis, at the smallest key. (argmin does not compile in float64
    inside a float32 program.)
    """
    return xp.max(xp.where(keys == xp.min(keys, 0), values, -xp.inf), 0)


def stacked(terms, count):
    """The terms `count` times along a new first axis."""
    return jax.tree.map(lambda leaf: xp.broadcast_to(leaf, (count, *leaf.shape)), terms)
