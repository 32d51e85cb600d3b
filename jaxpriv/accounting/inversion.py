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
from functools import wraps
from typing import NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.accounting.line import DELTA, Kind, Term, along, at_smallest, on_axis, over_steps, tilted
from jaxpriv.accounting.transforms import BLOCK, UNKNOWN
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import padded
from jaxpriv.tradeoff.solve import newton_in_bracket

_BLOCKS = 4096
_LOOK = 64  # blocks after which it shows whether the frequencies will end
_TOGETHER = 4096  # entries at a time on an accelerator
_SIDE_BY_SIDE = 64  # by NumPy


def entrywise(function):
    """A function of (terms, eps, kind) with scalar eps, on arrays of any shape and under vmap.

    On a processor one entry after the other, or by NumPy a few side by side: its cache holds the nodes of these, and each
    ends its loops on its own.
    """

    def on_arrays(terms, eps, kind):
        if not xp.any_jax(terms, eps, kind):
            return _in_blocks(function, terms, eps, kind)
        axes = (None if not hasattr(kind.pole, "dtype") else 0), (None if not hasattr(kind.double, "dtype") else 0)
        kind = Kind(*(value if axis is None else xp.broadcast_to(value, eps.shape) for value, axis in zip(kind, axes)))
        varying = [value for value, axis in zip(kind, axes) if axis == 0]

        def one(terms, eps, *varying):
            left = iter(varying)
            return function(terms, eps, Kind(*(value if axis is None else next(left) for value, axis in zip(kind, axes))))

        on_processor = jax.default_backend() == "cpu"
        one = _in_turn(one) if on_processor else one
        if eps.ndim == 0:
            return one(terms, eps, *varying)
        flat = jax.tree.map(lambda leaf: leaf.reshape((eps.size, *leaf.shape[eps.ndim :])), (terms, eps, *varying))
        found = jax.lax.map(lambda entry: one(*entry), flat, batch_size=None if on_processor else _TOGETHER)
        return jax.tree.map(lambda leaf: leaf.reshape(eps.shape + leaf.shape[1:]), found)

    return wraps(function)(on_arrays)


def _in_blocks(function, terms, eps, kind):
    """The function of blocks of entries, by NumPy."""
    kind = Kind(*(np.broadcast_to(value, eps.shape).ravel() if np.ndim(value) else value for value in kind))
    flat = jax.tree.map(lambda leaf: leaf.reshape((eps.size, *leaf.shape[eps.ndim :])), (terms, eps))
    found = []
    if eps.size > 1 and all((leaf == leaf[:1]).all() for leaf in (*jax.tree.leaves(flat), *kind) if np.ndim(leaf)):
        one = function(*jax.tree.map(lambda leaf: leaf[0], flat), Kind(*(np.ravel(value)[0] for value in kind)))
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, eps.shape + np.shape(leaf)).copy(), one)
    for start in range(0, eps.size, _SIDE_BY_SIDE):
        some = slice(start, start + _SIDE_BY_SIDE)
        own, values = jax.tree.map(lambda leaf, some=some: leaf[some], flat)
        found.append(function(own, values, Kind(*(value[some] if np.ndim(value) else value for value in kind))))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves).reshape(eps.shape + leaves[0].shape[1:]), *found)


def _in_turn(function):
    """The function, to which vmap is a loop. (`jax.custom_batching.sequential_vmap` fails where only tangents are mapped.)"""
    in_turn = jax.custom_batching.custom_vmap(function)

    @in_turn.def_vmap
    def looped(axis_size, mapped, *arguments):
        if not any(jax.tree.leaves(mapped)):
            found = function(*arguments)
            return found, jax.tree.map(lambda _: False, found)

        def spread(leaf, own):
            return leaf if own else xp.broadcast_to(leaf, (axis_size, *xp.shape(leaf)))

        found = jax.lax.map(lambda entry: in_turn(*entry), jax.tree.map(spread, arguments, tuple(mapped)))
        return found, jax.tree.map(lambda _: True, found)

    return in_turn


class Sums(NamedTuple):
    """What the frequencies add up to, relative to the integrand at y = 0.

    value; slope: the integrand times t - pole; size: of moduli times their relative rounding errors in ulp; rest, alive: the
    largest modulus in the last block, with the kernel and without; reach: the frequency reached.
    """

    value: jax.Array
    slope: jax.Array
    size: jax.Array
    rest: jax.Array
    alive: jax.Array
    reach: jax.Array


def _kernel(kind, a, y):
    """The kernel over its value at y = 0: a/(a+iy), times (1+a)/(1+a+iy) where it is double."""
    size = a / (a * a + y * y)
    re, im = a * size, -y * size
    b = 1 + a
    other = b / (b * b + y * y)
    both = b * re * other + im * y * other, b * im * other - re * y * other
    return xp.where(kind.double, both[0], re), xp.where(kind.double, both[1], im)


def _frequencies(terms, eps, kind, line, tilts, visit, start, stop, blocks):
    """Loop over the frequencies until the integrand is negligible and y >= stop: `visit` folds into its state.

    visit(state, integrand, log ratios) for a block of frequencies along the first axis, with the integrand, over its value
    at y = 0, as (re, im). Returns (state, Sums).
    """
    a = line.side * line.d
    doubt, reach = over_steps(terms, [tilt.doubt() for tilt in tilts]), xp.abs(on_axis(kind, line.side, line.d)) + 1
    lines = [tilt.line(line.spacing[..., None]) for tilt in tilts]
    zero = xp.zeros_like(eps)
    steps = xp.arange(BLOCK, dtype=eps.dtype).reshape((-1,) + (1,) * eps.ndim)

    def block(carry):
        index, walks, sums, apart, state = carry
        y = (BLOCK * index + steps + 0.5) * line.spacing
        walks, ratios = zip(*(path.advance(walk) for path, walk in zip(lines, walks)))
        log_size, angle = (over_steps(terms, column) for column in zip(*ratios))
        angle = angle - eps * y
        # rounding of M(c+iy)/M(c): E|e^(iyL) - 1| <= (2 E(1 - cos yL))^1/2 for each step, at this frequency and at those whose
        # turns it is made of, and as many roundings as the brackets have been carried on from one block to the next
        apart = tuple(xp.maximum(far, xp.max(_apart(ratio), 0)) for far, ratio in zip(apart, ratios))
        unrest = over_steps(terms, map(_unrest, apart, ratios))
        kr, ki = _kernel(kind, a, y)
        size = xp.exp(log_size)
        cos, sin = size * xp.cos(angle), size * xp.sin(angle)
        re, im = cos * kr - sin * ki, cos * ki + sin * kr
        modulus = size * xp.sqrt(kr * kr + ki * ki)
        ulps = 16 + (32 + 2 * index) * unrest + 2 * xp.abs(angle) + 2 * xp.abs(eps * y) + doubt * (reach + y)
        value, slope, rounding = (xp.sum(part, 0) for part in (re, re * a - im * y, modulus * ulps))
        sums = Sums(sums.value + value, sums.slope + slope, sums.size + rounding, xp.max(modulus, 0), xp.max(size, 0),
                    y[-1] + 0.5 * line.spacing)
        return index + 1, walks, sums, apart, visit(state, (re, im), ratios)

    def goes_on(carry):
        index, _, sums, _, _ = carry
        unfinished = (sums.rest > 1e-17 * xp.abs(sums.value)) | (sums.reach < stop)
        # what falls as slowly as this, though it were as fast as a normal law's, would not be done in the end
        hopeless = (index >= _LOOK) & (xp.log(sums.alive) * (blocks / index) ** 2 > -18.0)
        return (index < blocks) & xp.any(unfinished & ~hopeless)

    sums = Sums(zero, zero, zero, zero + xp.inf, zero + 1, zero)
    apart = tuple(xp.zeros_like(term.count) for term in terms)
    carry = (xp.zeros((), eps.dtype), tuple(path.start() for path in lines), sums, apart, start)
    _, _, sums, _, state = xp.while_loop(goes_on, block, carry)
    return state, sums


def _apart(ratio):
    """(2 Re(1 - phi))^1/2 from log phi."""
    log_size, angle = ratio
    return xp.sqrt(2 * (-xp.expm1(xp.minimum(log_size, 0.0)) + 2 * xp.sin(angle / 2) ** 2))


def _unrest(apart, ratio):
    """What an error of `apart` in phi is in log phi, and |log phi|, whose own rounding it has."""
    log_size, _ = ratio
    return apart * xp.exp(-xp.maximum(log_size, -40.0)) + xp.minimum(xp.abs(log_size), 50.0)


class Logs(NamedTuple):
    """log of an integral's result and of one less it; slope: d log result/d eps; followed: to where it is negligible?"""

    result: jax.Array
    rest: jax.Array
    slope: jax.Array
    followed: jax.Array


@entrywise
def invert(terms, eps, kind):
    """The `Logs` of one integral."""
    line, tilts, height = along(terms, eps, kind)
    _, sums = _frequencies(terms, eps, kind, line, tilts, lambda *_: (), (), xp.zeros_like(eps), _BLOCKS)
    rare, slope = xp.derivative(lambda e: _rare(terms, e, kind), eps)
    result, rest, seldom, followed = _logs(line, height, sums, rare)
    share = xp.where(line.side > 0, 1.0, -xp.exp(rest - result))  # of a relative change of what was integrated
    return Logs(result, rest, xp.where(seldom, slope, -share * sums.slope / sums.value), followed)


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
def _gradient(terms, eps, kind):
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

    def visit(state, integrand, ratios):
        walks, sums, counts = state
        re, im = (part[..., None] for part in integrand)
        new_walks, new_sums = [], []
        for path, walk, total in zip(paths, walks, sums):
            (walk, _), (d_walk, change) = jax.jvp(lambda p, w: p.advance(w), (path[0], walk[0]), (path[1], walk[1]))
            new_walks.append((walk, d_walk))
            new_sums.append(total + xp.sum(re * change[0] - im * change[1], 0))
        counts = [total + xp.sum(re * ratio[0] - im * ratio[1], 0) for total, ratio in zip(counts, ratios)]
        return new_walks, new_sums, counts

    start = walks, [xp.zeros_like(z) for z in at_zero], [xp.zeros_like(term.count) for term in terms]
    (_, changes, counts), sums = _frequencies(terms, eps, kind, line, tilts, visit, start, xp.zeros_like(eps), _BLOCKS)
    result, rest, seldom, _ = _logs(line, height, sums, _rare(terms, eps, kind))
    value = sums.value[..., None]
    by_leaf = {at: terms[at[0]].count * (zero + change / value) for at, zero, change in zip(leaves, at_zero, changes)}
    by_terms = []
    for i, term in enumerate(terms):
        flat, structure = jax.tree.flatten(term.transform)
        parts = [by_leaf.get((i, k), leaf) for k, leaf in enumerate(flat)]
        by_count = term.transform.tilted(c).value + counts[i] / value
        by_terms.append(Term(jax.tree.unflatten(structure, parts), by_count))
    return result, rest, line.side, tuple(by_terms), -sums.slope / sums.value, seldom


class Bracket(NamedTuple):
    """Certified (lower, upper) of log delta, -d log delta/d eps, and the sources of the width, relative to the integral."""

    lower: jax.Array
    upper: jax.Array
    rate: jax.Array
    aliasing: jax.Array
    truncation: jax.Array
    quadrature: jax.Array
    rounding: jax.Array


def bracket(terms, eps):
    """A bracket of log delta(eps), eps >= 0."""
    return _bracket(terms, eps, DELTA)


@entrywise
def _bracket(terms, eps, kind):
    line, tilts, height = along(terms, eps, kind)
    d, inner = line.d, line.side < 0
    away = xp.where(inner, 1 - d, 1 + d)
    decays = [(tilt.log_decay, tilt.decay()) for tilt in tilts]

    def log_decay(y):
        """log of a bound of the whole integrand beyond y."""
        return over_steps(terms, [bound(parts, y[..., None]) for bound, parts in decays])

    stop = _where_decayed(log_decay, d, line)
    _, sums = _frequencies(terms, eps, kind, line, tilts, lambda *_: (), (), stop, 4 * _BLOCKS)
    scale = line.spacing / math.pi
    log_value = height + xp.log(xp.maximum(sums.value * scale, 1e-300))

    width = 2 * math.pi / line.spacing
    near = xp.exp(-d * width - log_value) / -xp.expm1(-d * width)
    # the best candidate of few nodes, bounded by all of them and by their rule's error
    best = at_smallest(line.beyond - (line.further - d) * width, line.further)
    far = tilted(terms, on_axis(kind, line.side, best))
    beyond = over_steps(terms, [tilt.value + 2 * tilt.line_error() for tilt in far]) - line.side * eps * best
    step = (best - d) * width
    aliasing = near + xp.exp(beyond - step - log_value) / -xp.expm1(-step)
    # the integral of |kernel| over y > Y is at most d away/Y of its value at 0
    truncation = xp.exp(log_decay(sums.reach)) * d * away / (sums.reach * math.pi * scale * sums.value)
    error = 2 * over_steps(terms, [tilt.line_error() for tilt in tilts])
    # the integral of |kernel| over all y is at most pi max(d, 1)
    quadrature = error * xp.maximum(xp.maximum(d, away), 1.0) / (scale * sums.value)
    values = [tilt.value for tilt in tilts]
    total, steps = over_steps(terms, values), over_steps(terms, [xp.sqrt(2 * xp.abs(value)) for value in values])
    c = on_axis(kind, line.side, d)
    ulps = sums.size / xp.abs(sums.value) + 16 * (1 + xp.abs(total) + xp.abs(eps * c) + steps + xp.abs(height))
    rounding = xp.finfo(eps.dtype).eps * ulps
    relative = aliasing + truncation + quadrature + rounding
    relative = xp.where(xp.isnan(relative) | ~(sums.value > 0), xp.inf, relative)

    log_high = xp.where(relative < xp.inf, log_value + xp.log1p(relative), xp.inf)
    log_low = xp.where(relative < 1, log_value + xp.log1p(-xp.minimum(relative, 1.0)), -xp.inf)
    # whatever happened above, Chernoff's bound holds: (1 - e^(eps - L))_+ <= e^(c (L - eps)) c^c/(1+c)^(1+c)
    chernoff = xp.where(inner, 0.0, total + xp.log1p(error) - eps * d + d * xp.log(d) - (1 + d) * xp.log1p(d))
    chernoff = chernoff + 64 * xp.finfo(eps.dtype).eps * (1 + xp.abs(total) + eps * d + xp.abs(chernoff))
    chernoff = xp.where(xp.isnan(chernoff), 0.0, xp.minimum(chernoff, 0.0))
    rest_high, rest_low = (log1mexp(xp.minimum(xp.where(inner, end, -1.0), 0.0)) for end in (log_low, log_high))
    lower, upper = padded(xp.where(inner, rest_low, xp.minimum(log_low, 0.0)),
                          xp.where(inner, rest_high, xp.minimum(log_high, chernoff)))
    # the integral is delta, or one less it
    rate = sums.slope / sums.value * xp.where(inner, -xp.expm1(-upper), 1.0)
    return Bracket(lower, upper, rate, aliasing, truncation, quadrature, rounding)


def _where_decayed(log_decay, d, line):
    """The frequency beyond which all that is left out is negligible, by a search on a logarithmic scale."""

    def excess(log_y):
        return log_y - log_decay(xp.exp(log_y)) - xp.log(d) - 30.0, xp.zeros_like(log_y)

    start = xp.log(line.spacing)
    return xp.exp(newton_in_bracket(excess, start, start + 20.0, iterations=24))
