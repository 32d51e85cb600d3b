"""From the transform of a composed privacy loss back to its privacy profile and error rates, with a bound of the error.

With K = sum n_i log M_i the transform of the total loss L,

    delta(eps) = (1/2 pi i) int e^(K(t) - eps t)/(t (t+1)) dt        on a line Re t = c > 0; delta - 1 on -1 < c < 0,
    power(eps) = Q(L > eps) = (1/2 pi i) int e^(K(t) - eps t)/t dt   on c > 0; power - 1 on c < 0,
    alpha(eps) = P(L > eps) = (1/2 pi i) int e^(K(t) - eps (t+1))/(t+1) dt   on c > -1; alpha - 1 on c < -1.

Each runs through the saddle of its integrand, where nothing cancels, on the side where the result is small. The midpoint
rule with step h gives sum_k (-1)^k e^(c k W) delta(eps + k W), W = 2 pi/h, exactly: the terms k /= 0 are bounded by Chernoff
and by 1, and W is chosen to make them negligible. The cost does not depend on the numbers of steps n_i.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.accounting.entrywise import entrywise
from jaxpriv.accounting.frequencies import follow
from jaxpriv.accounting.line import Kind, Term, along, on_axis
from jaxpriv.accounting.transforms import UNKNOWN
from jaxpriv.stats._logspace import log1mexp


class Logs(NamedTuple):
    """log of an integral's result and of one less it; slope: d log result/d eps; followed: to where it is negligible?"""

    result: jax.Array
    rest: jax.Array
    slope: jax.Array
    followed: jax.Array


@entrywise
def invert(terms, eps, kind, patience):
    """The `Logs` of one integral."""
    line, tilts, height = along(terms, eps, kind)
    _, sums, done = follow(terms, eps, kind, line, tilts, lambda *_: (), (), xp.zeros_like(eps), patience=patience)
    if not xp.any_jax(eps):
        logs = logs_of(line, height, sums)
        if np.all(logs.followed):
            return logs, done
    rare, slope = xp.derivative(lambda e: _rare(terms, e, kind), eps)
    return logs_of(line, height, sums, rare, slope), done


def logs_of(line, height, sums, rare=UNKNOWN, rare_slope=0.0):
    """The `Logs` of what the frequencies add up to, `height` being log of the integrand at y = 0."""
    result, rest, seldom, followed = _logs(line, height, sums, rare)
    share = xp.where(line.side > 0, 1.0, -xp.exp(rest - result))  # of a relative change of what was integrated
    slope = xp.where(seldom, rare_slope, -share * sums.slope / sums.value)
    return Logs(result, rest, slope, followed)


def _logs(line, height, sums, rare):
    """(log result, log of one less it, was `rare` taken?, were the frequencies followed to their end?)

    Where the frequencies that were left out may be more than 1% it is the saddle-point approximation, and next to the pole
    on the right, where that is no good if hardly a step tells anything, `rare`.
    """
    error = xp.abs(sums.rest / sums.value) * (sums.reach / line.spacing)
    good = (sums.value > 0) & (error < 1e-2)
    seldom = ~good & (line.side > 0) & (rare > 0.5 * UNKNOWN)
    log_value = height + xp.log(xp.where(good, sums.value, 1.0) * line.spacing / math.pi)
    value = xp.minimum(xp.where(good, log_value, xp.where(seldom, rare, line.estimate)), 0.0)
    other = log1mexp(value)
    return xp.where(line.side > 0, value, other), xp.where(line.side > 0, other, value), seldom, good


def _rare(terms, eps, kind):
    """log of the sum over the steps of what one of them alone gives, as if no two ever told anything."""
    parts = []
    kind = Kind(*(value[..., None] if np.ndim(value) else value for value in kind))
    for term in terms:
        some = term.count > 0
        once = xp.log(xp.where(some, term.count, 1.0)) + term.transform.once(eps[..., None], kind)
        parts.append(xp.where(some, once, UNKNOWN))
    return xp.logsumexp(xp.concatenate(parts, -1), -1)


@xp.custom_jvp
def log_result(terms, eps, kind):
    """(log result, log of one less the result) of an integral, differentiable in every parameter, count and eps."""
    logs = invert(terms, eps, kind)
    return logs.result, logs.rest


@log_result.defjvp
def _log_result_jvp(primals, tangents):
    """A parameter moves the integrand by its K at fixed t: d I = (1/2 pi i) int (integrand) dK dt, one more sum each."""
    terms, eps, kind = primals
    result, rest, side, by_terms, by_eps, seldom = _gradient(terms, eps, kind)
    changes = jax.tree.map(_dot, by_terms, tangents[0])
    change = sum(jax.tree.leaves(changes), by_eps * tangents[1])
    _, rare = jax.jvp(lambda t, e: _rare(t, e, kind), (terms, eps), (tangents[0], tangents[1]))
    change = xp.where(seldom, rare, change)
    # `change` is that of the log of the side that was integrated
    odds = xp.exp(xp.where(side > 0, result - rest, rest - result))
    other = -xp.where(xp.isfinite(odds), odds, 0.0) * change
    return (result, rest), (xp.where(side > 0, change, other), xp.where(side > 0, other, change))


def _dot(gradient, tangent):
    return 0.0 if tangent.dtype == jax.dtypes.float0 else xp.sum(gradient * tangent, -1)


@entrywise
def _gradient(terms, eps, kind, patience):
    """(log result, log rest, side, d log(integral) by every array of `terms`, by eps, is it the one of `_rare`?)."""
    line, tilts, height = along(terms, eps, kind)
    c = on_axis(kind, line.side, line.d)[..., None]
    spacing = line.spacing[..., None]
    leaves = [(i, k) for i, term in enumerate(terms) for k, leaf in enumerate(jax.tree.leaves(term.transform))
              if xp.issubdtype(leaf.dtype, xp.inexact)]

    def moved(i, k):
        """A transform as a function of its k-th array, and that array; all other arrays stand still."""
        flat, structure = jax.tree.flatten(terms[i].transform)
        return (lambda v: jax.tree.unflatten(structure, [*flat[:k], v, *flat[k + 1 :]])), flat[k]

    at_zero, paths, walks = [], [], []
    for rebuild, leaf in (moved(*at) for at in leaves):
        ones = (xp.ones_like(leaf),)

        def at(value, rebuild=rebuild):
            tilt = rebuild(value).tilted(c)
            return tilt.value, tilt.line(spacing)

        (_, path), (change, d_path) = jax.jvp(at, (leaf,), ones)
        at_zero.append(change)
        paths.append((path, d_path))
        walks.append(jax.jvp(lambda p: p.start(), (path,), (d_path,)))

    def visit(state, block):
        walks, sums, counts = state
        re, im = (part[..., None] for part in block.integrand)
        new_walks, new_sums = [], []
        for path, walk, total in zip(paths, walks, sums):
            (walk, _), (d_walk, change) = jax.jvp(lambda p, w: p.advance(w), (path[0], walk[0]), (path[1], walk[1]))
            new_walks.append((walk, d_walk))
            new_sums.append(total + xp.sum(re * change[0] - im * change[1], 0))
        counts = [total + xp.sum(re * ratio[0] - im * ratio[1], 0) for total, ratio in zip(counts, block.ratios)]
        return new_walks, new_sums, counts

    start = walks, [xp.zeros_like(z) for z in at_zero], [xp.zeros_like(term.count) for term in terms]
    (_, changes, counts), sums, done = follow(terms, eps, kind, line, tilts, visit, start, xp.zeros_like(eps), patience=patience)
    result, rest, seldom, _ = _logs(line, height, sums, _rare(terms, eps, kind))
    value = sums.value[..., None]
    by_leaf = {at: terms[at[0]].count * (zero + change / value) for at, zero, change in zip(leaves, at_zero, changes)}
    by_terms = []
    for i, term in enumerate(terms):
        flat, structure = jax.tree.flatten(term.transform)
        parts = [by_leaf.get((i, k), leaf) for k, leaf in enumerate(flat)]
        by_count = term.transform.tilted(c).value + counts[i] / value
        by_terms.append(Term(jax.tree.unflatten(structure, parts), by_count))
    return (result, rest, line.side, tuple(by_terms), -sums.slope / sums.value, seldom), done
