"""From the transform of a composed privacy loss back to its privacy profile and error rates,
with a bound of the error.

With K = sum n_i log M_i the transform of the total loss L,

    delta(eps) = (1/2 pi i) int e^(K(t) - eps t)/(t (t+1)) dt
                    on a line Re t = c > 0; delta - 1 on -1 < c < 0,
    power(eps) = Q(L > eps) = (1/2 pi i) int e^(K(t) - eps t)/t dt
                    on c > 0; power - 1 on c < 0,
    alpha(eps) = P(L > eps) = (1/2 pi i) int e^(K(t) - eps (t+1))/(t+1) dt
                    on c > -1; alpha - 1 on c < -1.

Each runs through the saddle of its integrand, where nothing cancels, on the side where the result
is small. The midpoint rule with step h gives sum_k (-1)^k e^(c k W) delta(eps + k W), W = 2 pi/h,
exactly: the terms k /= 0 are bounded by Chernoff and by 1, and W is chosen to make them negligible.
The cost does not depend on the numbers of steps n_i.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.decisive import beside_small_losses
from jaxpriv.composition.entrywise import entrywise
from jaxpriv.composition.frequencies import follow, plain_paths
from jaxpriv.composition.line import Term, along, on_axis, tilted
from jaxpriv.composition.logs import logs_of, side_of
from jaxpriv.composition.nearby import logs_nearby
from jaxpriv.composition.slopes import by_each
from jaxpriv.composition.transforms import UNKNOWN


@partial(entrywise, several=logs_nearby)
def invert(terms, eps, kind, patience):
    """The `Logs` of one integral."""
    line, tilts, height = along(terms, eps, kind)
    paths, nothing = plain_paths(tilts, line), lambda *_: ()
    _, sums, done = follow(
        terms, eps, kind, line, tilts, paths, nothing, (), xp.zeros_like(eps), patience=patience
    )
    logs = logs_of(line, height, sums)
    if not xp.any_jax(eps) and np.all(logs.followed):
        return logs, done
    seldom = _where_needed(~logs.followed, terms, tilts, line, eps, kind)
    return logs_of(line, height, sums, *seldom), done


def _where_needed(needed, terms, tilts, line, eps, kind):
    """`beside_small_losses` on the line if any entry needs it."""
    return xp.cond(
        xp.any(needed & (line.side > 0)),
        lambda: beside_small_losses(terms, tilts, on_axis(kind, line.side, line.d), eps, kind),
        lambda: (xp.full_like(eps, UNKNOWN), xp.zeros_like(eps)),
    )


@xp.custom_jvp
def log_result(terms, eps, kind):
    """(log result, log of one less the result) of an integral,
    differentiable in every parameter, count and eps.
    """
    logs = invert(terms, eps, kind)
    return logs.result, logs.rest


@log_result.defjvp
def _log_result_jvp(primals, tangents):
    """A parameter moves the integrand by its K at fixed t:
    d I = (1/2 pi i) int (integrand) dK dt, one more sum each.
    """
    terms, eps, kind = primals
    found = gradient(terms, eps, kind)
    by_terms, by_eps = changes(found, terms, eps, kind)
    return (found.result, found.rest), found.of_result(by_terms(tangents[0]) + by_eps * tangents[1])


class Gradient(NamedTuple):
    """The logs of one integral, and how the log of the side that was integrated moves: by every
    array of the terms, and by eps; seldom: is it that of `beside_small_losses` at c?
    """

    result: jax.Array
    rest: jax.Array
    side: jax.Array
    by_terms: Any
    by_eps: jax.Array
    seldom: jax.Array
    c: jax.Array

    @classmethod
    def none(cls, terms, eps):
        """Zeros of its shapes."""
        zero = xp.zeros_like(eps)
        return cls(zero, zero, zero, jax.tree.map(xp.zeros_like, terms), zero, zero > 0, zero)

    def of_result(self, change):
        """The changes of log result and of log rest by one of the side that was integrated."""
        right = self.side > 0
        odds = xp.exp(xp.where(right, self.result - self.rest, self.rest - self.result))
        other = -xp.where(xp.isfinite(odds), odds, 0.0) * change
        return xp.where(right, change, other), xp.where(right, other, change)


def changes(found, terms, eps, kind):
    """(tangents of the terms -> how they move what a `Gradient` was found for, how eps does)."""
    still = jax.tree.map(_no_tangent, terms)

    def single(terms, eps):
        # elsewhere a line on which all is finite, for nothing times infinity is no derivative
        c = xp.stop_gradient(xp.where(found.seldom, found.c, kind.pole + 1.0))
        return beside_small_losses(terms, tilted(terms, c), c, eps, kind)[0]

    _, seldom = jax.linearize(single, terms, eps)

    def by_terms(tangents):
        parts = jax.tree.leaves(jax.tree.map(_dot, found.by_terms, tangents))
        return xp.where(
            found.seldom, seldom(tangents, xp.zeros_like(eps)), sum(parts[1:], parts[0])
        )

    return by_terms, xp.where(found.seldom, seldom(still, xp.ones_like(eps)), found.by_eps)


def _no_tangent(leaf):
    if xp.issubdtype(leaf.dtype, xp.inexact):
        return xp.zeros_like(leaf)
    return np.zeros(leaf.shape, jax.dtypes.float0)


def _dot(gradient, tangent):
    return 0.0 if tangent.dtype == jax.dtypes.float0 else xp.sum(gradient * tangent, -1)


@entrywise
def gradient(terms, eps, kind, patience):
    """The `Gradient` of one integral."""
    line, tilts, height = along(terms, eps, kind)
    c = on_axis(kind, line.side, line.d)[..., None]
    at_zero = [
        by_each(lambda transform: transform.tilted(c).value, term.transform) for term in terms
    ]
    paths = [tilt.slopes(line.spacing[..., None], zero) for tilt, zero in zip(tilts, at_zero)]

    def visit(state, block):
        """Add up the integrand times dK, and times K for the counts,
        less what they are at y = 0.
        """
        re, im = (part[..., None] for part in block.integrand)

        def more(total, real, imaginary):
            return total + xp.sum(re * real - im * imaginary, -1 - re.ndim + 1)

        changes = [more(total, *ratio[2:]) for total, ratio in zip(state[0], block.ratios)]
        return changes, [more(total, *ratio[:2]) for total, ratio in zip(state[1], block.ratios)]

    start = [xp.zeros_like(zero) for zero in at_zero], [xp.zeros_like(term.count) for term in terms]
    (changes, counts), sums, done = follow(
        terms, eps, kind, line, tilts, paths, visit, start, xp.zeros_like(eps), patience=patience
    )
    needed = ~logs_of(line, height, sums).followed
    alone, _ = _where_needed(needed, terms, tilts, line, eps, kind)
    result, rest, seldom, *_ = side_of(line, height, sums, alone)
    value = sums.value[..., None]
    by_terms = []
    for term, tilt, zero, change, count in zip(terms, tilts, at_zero, changes, counts):
        slopes = iter(term.count * (zero + change / value))
        leaves, structure = jax.tree.flatten(term.transform)
        parts = [next(slopes) if xp.issubdtype(leaf.dtype, xp.inexact) else leaf for leaf in leaves]
        by_terms.append(Term(jax.tree.unflatten(structure, parts), tilt.value + count / value))
    by_eps = -sums.slope / sums.value
    return Gradient(result, rest, line.side, tuple(by_terms), by_eps, seldom, c[..., 0]), done
