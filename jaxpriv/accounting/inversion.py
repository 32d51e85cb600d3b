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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxpriv._pytree import pytree
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.solve import newton_in_bracket

_BLOCK = 16  # frequencies between two looks at the remainder
_BLOCKS = 1024
_NEGLIGIBLE = 38.0  # aliases are made e^-38 of the result
_CANCELS = 4.0  # by how much the integrand may exceed its value at the saddle, in logarithms


@pytree
class Term:
    """Equal steps of several mechanisms: a transform with parameters (..., members) and how often each is taken."""

    transform: Any
    count: jax.Array


class Kind(NamedTuple):
    """An integral: the pole next to which its line runs, and whether the kernel has both poles. Numbers, or arrays as eps."""

    pole: Any
    double: Any


DELTA, POWER, ALPHA = Kind(0.0, True), Kind(0.0, False), Kind(-1.0, False)


class Line(NamedTuple):
    """Where to integrate: t = pole + side d + iy, y = (j + 1/2) spacing.

    height: log of the integrand at y = 0.
    saddle: the d at which the integrand is lowest, exponent: K - eps t there.
    estimate: the saddle-point approximation of the log of the integral.
    """

    d: jax.Array
    side: jax.Array
    height: jax.Array
    spacing: jax.Array
    estimate: jax.Array
    saddle: jax.Array
    exponent: jax.Array


class Sums(NamedTuple):
    """What the frequencies add up to, relative to the integrand at y = 0.

    value; slope: the integrand times t - pole; size: of moduli times their relative rounding errors in ulp; rest: the
    largest modulus in the last block; reach: the frequency reached.
    """

    value: jax.Array
    slope: jax.Array
    size: jax.Array
    rest: jax.Array
    reach: jax.Array


def tilted(terms, c):
    """What is known of every transform at real c."""
    return [term.transform.tilted(c[..., None]) for term in terms]


def over_steps(terms, values):
    """The sum over all steps of values given for each term's members."""
    parts = [jnp.sum(term.count * value, -1) for term, value in zip(terms, values)]
    return sum(parts[1:], parts[0])


def cumulants(terms, c):
    """Sums over all steps of (K, K', K'') at real c."""
    return [over_steps(terms, column) for column in zip(*(tilt.cumulants for tilt in tilted(terms, c)))]


def loss_bound(terms):
    """The largest total loss."""

    def of_term(term):
        # infinite times a count has no derivative, and would spoil those of what was chosen instead
        each = term.transform.loss_bound()
        finite = term.count * jnp.where(each < jnp.inf, each, 0.0)
        return jnp.sum(jnp.where(term.count > 0, jnp.where(each < jnp.inf, finite, jnp.inf), 0.0), -1)

    bounds = [of_term(term) for term in terms]
    return sum(bounds[1:], bounds[0])


def _c(kind, line_side, d):
    return kind.pole + line_side * d


def place(terms, eps, kind):
    """The line through the saddle, or between it and the pole where that allows a wider spacing."""
    mean = cumulants(terms, jnp.full_like(eps, kind.pole))[1]
    side = jnp.where(eps > mean, 1.0, -1.0).astype(eps.dtype)
    inner = (side < 0) & jnp.asarray(kind.double)  # between both poles: 0 < d < 1

    def other(d):
        """d log|other factor of the kernel| / d log d and its derivative."""
        away = jnp.where(inner, 1 - d, 1 + d)
        return jnp.where(kind.double, -side * d / away, 0.0), jnp.where(kind.double, -side * d / (away * away), 0.0)

    def pull(x):
        """d height/d log d, and its slope."""
        d = jnp.exp(x)
        _, first, second = cumulants(terms, _c(kind, side, d))
        lean, bend = other(d)
        along = side * d * (first - eps)
        return along - 1 + lean, along + d * d * second + bend

    low = jnp.full_like(eps, -32.0)
    farthest = 60.0 if eps.dtype == jnp.float64 else 16.0  # its square must not overflow
    high = jnp.where(inner, -1e-9, farthest)
    saddle = jnp.exp(newton_in_bracket(pull, low, high, iterations=40))

    def heights(d):
        total, _, second = cumulants(stacked(terms, d.shape[0]), _c(kind, side, d))
        away = jnp.where(kind.double, jnp.log(jnp.where(inner, 1 - d, 1 + d)), 0.0)
        return total - side * eps * d - jnp.log(d) - away, second, total

    # nearer to the pole the integrand is a little higher, but a heavy tail weighs less, and its aliases come down earlier
    share = jnp.where(inner, 1.0, 2.0 ** (-0.5 * jnp.arange(7.0, dtype=eps.dtype)).reshape((7,) + (1,) * eps.ndim))
    d = share * saddle
    height, second, total = heights(d)
    estimate = jnp.minimum(height[0] - 0.5 * jnp.log(2 * math.pi * (second[0] + 1 / saddle**2)), 0.0)
    further, beyond = _further(terms, eps, kind, side, saddle, inner)
    far = jnp.min((beyond - estimate + _NEGLIGIBLE) / (further - d[:, None]), 1)
    width = jnp.maximum((_NEGLIGIBLE - estimate) / d, far)
    width = jnp.where(height <= height[0] + _CANCELS, width, jnp.inf)
    d, height, width = at_smallest(width, d), at_smallest(width, height), jnp.min(width, 0)
    return Line(d, side, height, 2 * math.pi / width, estimate, saddle, total[0] - side * eps * saddle)


def at_smallest(keys, values):
    """The value, along the first axis, at the smallest key. (argmin does not compile in float64 inside a float32 program.)"""
    return jnp.max(jnp.where(keys == jnp.min(keys, 0), values, -jnp.inf), 0)


def stacked(terms, count):
    """The terms `count` times along a new first axis."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), terms)


def _further(terms, eps, kind, side, saddle, inner):
    """Candidates for the Chernoff bounds of aliases, further from the pole than the saddle and before the other one.

    Returns distances, stacked, and the logs of the bounds at eps; one that is out of range bounds nothing.
    """
    k = jnp.arange(1.0, 11.0, dtype=eps.dtype).reshape((10,) + (1,) * eps.ndim)
    further = jnp.where(inner, 1 - (1 - saddle) * 0.5**k, saddle * (1 + 2.0 ** (k - 6)))
    beyond = cumulants(stacked(terms, 10), _c(kind, side, further))[0] - side * eps * further
    return further, jnp.where(jnp.isnan(beyond), jnp.inf, beyond)


def _kernel(kind, a, y):
    """The kernel over its value at y = 0: a/(a+iy), times (1+a)/(1+a+iy) where it is double."""
    size = a / (a * a + y * y)
    re, im = a * size, -y * size
    b = 1 + a
    other = b / (b * b + y * y)
    both = b * re * other + im * y * other, b * im * other - re * y * other
    return jnp.where(kind.double, both[0], re), jnp.where(kind.double, both[1], im)


def _frequencies(terms, eps, kind, line, visit, start, stop, blocks):
    """Loop over the frequencies until the integrand is negligible and y >= stop: `visit` folds into its state.

    visit(state, integrand, log ratios) with the integrand, over its value at y = 0, as (re, im). Returns (state, Sums).
    """
    a = line.side * line.d
    lines = [tilt.line(line.spacing[..., None]) for tilt in tilted(terms, _c(kind, line.side, line.d))]
    zero = jnp.zeros_like(eps)

    def one(j, carry):
        index, walks, sums, state = carry
        y = (index + 0.5) * line.spacing
        walks, ratios = zip(*(path.advance(walk) for path, walk in zip(lines, walks)))
        log_size, angle = (over_steps(terms, column) for column in zip(*ratios))
        angle = angle - eps * y
        # rounding of log M(c+iy)/M(c): E|e^(iyL) - 1| <= (2 E(1 - cos yL))^1/2 for each step, and as many roundings as
        # the brackets e^(iyL) - 1 have been carried on from one frequency to the next
        ulps = (8 + 2 * index) * over_steps(terms, map(_unrest, ratios))
        kr, ki = _kernel(kind, a, y)
        size = jnp.exp(log_size)
        cos, sin = size * jnp.cos(angle), size * jnp.sin(angle)
        re, im = cos * kr - sin * ki, cos * ki + sin * kr
        modulus = size * jnp.sqrt(kr * kr + ki * ki)
        rest = jnp.maximum(jnp.where(j == 0, 0.0, sums.rest), modulus)
        ulps = 16 + ulps + 2 * jnp.abs(angle) + 2 * jnp.abs(eps * y)
        sums = Sums(sums.value + re, sums.slope + re * a - im * y, sums.size + modulus * ulps, rest, y + 0.5 * line.spacing)
        return index + 1, walks, sums, visit(state, (re, im), ratios)

    def goes_on(carry):
        index, _, sums, _ = carry
        unfinished = (sums.rest > 1e-17 * jnp.abs(sums.value)) | (sums.reach < stop)
        return (index < blocks * _BLOCK) & jnp.any(unfinished)

    def block(carry):
        return jax.lax.fori_loop(0, _BLOCK, one, carry)

    sums = Sums(zero, zero, zero, zero + jnp.inf, zero)
    carry = (jnp.zeros((), eps.dtype), tuple(path.start() for path in lines), sums, start)
    _, _, sums, state = jax.lax.while_loop(goes_on, block, carry)
    return state, sums


def _unrest(ratio):
    """(2 Re(1 - phi))^1/2 from log phi, and |log phi| where that is larger."""
    log_size, angle = ratio
    gap = -jnp.expm1(jnp.minimum(log_size, 0.0)) + 2 * jnp.sin(angle / 2) ** 2
    return jnp.sqrt(2 * gap) + jnp.minimum(jnp.abs(log_size), 50.0)


class Logs(NamedTuple):
    """log of an integral's result and of one less it, with what the loop over the frequencies left over.

    slope: d log result/d eps; resolved: an estimate of the relative error from the frequencies that were left out.
    """

    result: jax.Array
    rest: jax.Array
    slope: jax.Array
    resolved: jax.Array


def invert(terms, eps, kind):
    """The `Logs` of one integral."""
    line = place(terms, eps, kind)
    _, sums = _frequencies(terms, eps, kind, line, lambda *_: (), (), jnp.zeros_like(eps), _BLOCKS)
    result, rest, resolved = _logs(line, sums)
    share = jnp.where(line.side > 0, 1.0, -jnp.exp(rest - result))  # of a relative change of what was integrated
    return Logs(result, rest, -share * sums.slope / sums.value, resolved)


def _logs(line, sums):
    """(log result, log of one less it, estimated relative error); the saddle-point approximation if that is above 1%."""
    resolved = jnp.abs(sums.rest / sums.value) * (sums.reach / line.spacing)
    good = (sums.value > 0) & (resolved < 1e-2)
    log_value = line.height + jnp.log(jnp.where(good, sums.value, 1.0) * line.spacing / math.pi)
    value = jnp.minimum(jnp.where(good, log_value, line.estimate), 0.0)
    other = log1mexp(value)
    return jnp.where(line.side > 0, value, other), jnp.where(line.side > 0, other, value), resolved


@jax.custom_jvp
def log_result(terms, eps, kind):
    """(log result, log of one less the result) of an integral, differentiable in every parameter, count and eps."""
    logs = invert(terms, eps, kind)
    return logs.result, logs.rest


@log_result.defjvp
def _log_result_jvp(primals, tangents):
    """A parameter moves the integrand by its K at fixed t: d I = (1/2 pi i) int (integrand) dK dt, one more sum each."""
    terms, eps, kind = primals
    result, rest, side, by_terms, by_eps = _gradient(terms, eps, kind)
    changes = jax.tree.map(_dot, by_terms, tangents[0])
    change = sum(jax.tree.leaves(changes), by_eps * tangents[1])
    # `change` is that of the log of the side that was integrated
    odds = jnp.exp(jnp.where(side > 0, result - rest, rest - result))
    other = -jnp.where(jnp.isfinite(odds), odds, 0.0) * change
    return (result, rest), (jnp.where(side > 0, change, other), jnp.where(side > 0, other, change))


def _dot(gradient, tangent):
    return 0.0 if tangent.dtype == jax.dtypes.float0 else jnp.sum(gradient * tangent, -1)


def _gradient(terms, eps, kind):
    """(log result, log rest, side, d log(integral) by every array of `terms`, by eps)."""
    line = place(terms, eps, kind)
    c = _c(kind, line.side, line.d)[..., None]
    spacing = line.spacing[..., None]
    leaves = [(i, k) for i, term in enumerate(terms) for k, leaf in enumerate(jax.tree.leaves(term.transform))
              if jnp.issubdtype(leaf.dtype, jnp.inexact)]

    def moved(i, k):
        """A transform as a function of its k-th array, and that array; all other arrays stand still."""
        flat, structure = jax.tree.flatten(terms[i].transform)
        return (lambda v: jax.tree.unflatten(structure, [*flat[:k], v, *flat[k + 1 :]])), flat[k]

    at_zero, paths, walks = [], [], []
    for rebuild, leaf in (moved(*at) for at in leaves):
        ones = (jnp.ones_like(leaf),)

        def along(value, rebuild=rebuild):
            tilt = rebuild(value).tilted(c)
            return tilt.cumulants[0], tilt.line(spacing)

        (_, path), (change, d_path) = jax.jvp(along, (leaf,), ones)
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
            new_sums.append(total + re * change[0] - im * change[1])
        counts = [total + re * ratio[0] - im * ratio[1] for total, ratio in zip(counts, ratios)]
        return new_walks, new_sums, counts

    start = walks, [jnp.zeros_like(z) for z in at_zero], [jnp.zeros_like(term.count) for term in terms]
    (_, changes, counts), sums = _frequencies(terms, eps, kind, line, visit, start, jnp.zeros_like(eps), _BLOCKS)
    result, rest, _ = _logs(line, sums)
    value = sums.value[..., None]
    by_leaf = {at: terms[at[0]].count * (zero + change / value) for at, zero, change in zip(leaves, at_zero, changes)}
    by_terms = []
    for i, term in enumerate(terms):
        flat, structure = jax.tree.flatten(term.transform)
        parts = [by_leaf.get((i, k), leaf) for k, leaf in enumerate(flat)]
        by_count = term.transform.tilted(c).cumulants[0] + counts[i] / value
        by_terms.append(Term(jax.tree.unflatten(structure, parts), by_count))
    return result, rest, line.side, tuple(by_terms), -sums.slope / sums.value


class Bracket(NamedTuple):
    """Certified (lower, upper) of delta, -d log delta/d eps, and the sources of the width, relative to the integral."""

    lower: jax.Array
    upper: jax.Array
    rate: jax.Array
    aliasing: jax.Array
    truncation: jax.Array
    quadrature: jax.Array
    rounding: jax.Array


def bracket(terms, eps):
    """A bracket of delta(eps), eps >= 0."""
    line = place(terms, eps, DELTA)
    c = _c(DELTA, line.side, line.d)
    d, inner = line.d, line.side < 0
    away = jnp.where(inner, 1 - d, 1 + d)
    tilts = tilted(terms, c)
    decays = [(tilt.log_decay, tilt.decay()) for tilt in tilts]

    def log_decay(y):
        """log of a bound of the whole integrand beyond y."""
        return over_steps(terms, [bound(parts, y[..., None]) for bound, parts in decays])

    stop = _where_decayed(log_decay, d, line)
    _, sums = _frequencies(terms, eps, DELTA, line, lambda *_: (), (), stop, 4 * _BLOCKS)
    scale = line.spacing / math.pi
    log_value = line.height + jnp.log(jnp.maximum(sums.value * scale, 1e-300))

    width = 2 * math.pi / line.spacing
    near = jnp.exp(-d * width - log_value) / -jnp.expm1(-d * width)
    further, beyond = _further(terms, eps, DELTA, line.side, line.saddle, inner)
    step = (further - d) * width
    aliasing = near + jnp.min(jnp.exp(beyond - step - log_value) / -jnp.expm1(-step), 0)
    # the integral of |kernel| over y > Y is at most d away/Y of its value at 0
    truncation = jnp.exp(log_decay(sums.reach)) * d * away / (sums.reach * math.pi * scale * sums.value)
    error = 2 * over_steps(terms, [tilt.line_error() for tilt in tilts])
    # the integral of |kernel| over all y is at most pi max(d, 1)
    quadrature = error * jnp.maximum(jnp.maximum(d, away), 1.0) / (scale * sums.value)
    values = [tilt.cumulants[0] for tilt in tilts]
    total, steps = over_steps(terms, values), over_steps(terms, [jnp.sqrt(2 * jnp.abs(value)) for value in values])
    ulps = sums.size / jnp.abs(sums.value) + 16 * (1 + jnp.abs(total) + jnp.abs(eps * c) + steps + jnp.abs(line.height))
    rounding = jnp.finfo(eps.dtype).eps * ulps
    relative = aliasing + truncation + quadrature + rounding
    relative = jnp.where(jnp.isnan(relative) | ~(sums.value > 0), jnp.inf, relative)

    log_high = jnp.where(relative < jnp.inf, log_value + jnp.log1p(relative), jnp.inf)
    log_low = jnp.where(relative < 1, log_value + jnp.log1p(-jnp.minimum(relative, 1.0)), -jnp.inf)
    # whatever happened above, Chernoff's bound holds: (1 - e^(eps - L))_+ <= e^(c (L - eps)) c^c/(1+c)^(1+c)
    best = line.saddle
    chernoff = jnp.where(inner, 0.0, line.exponent + best * jnp.log(best) - (1 + best) * jnp.log1p(best))
    chernoff = chernoff + 64 * jnp.finfo(eps.dtype).eps * (1 + jnp.abs(chernoff))
    chernoff = jnp.where(jnp.isnan(chernoff), 0.0, jnp.minimum(chernoff, 0.0))
    upper = jnp.where(inner, -jnp.expm1(jnp.minimum(log_low, 0.0)), jnp.exp(jnp.minimum(log_high, chernoff)))
    lower = jnp.where(inner, -jnp.expm1(jnp.minimum(log_high, 0.0)), jnp.exp(jnp.minimum(log_low, 0.0)))
    # the integral is delta, or one less it
    rate = sums.slope / sums.value * jnp.where(inner, 1 - 1 / jnp.maximum(upper, 1e-300), 1.0)
    return Bracket(lower, jnp.minimum(upper, 1.0), rate, aliasing, truncation, quadrature, rounding)


def _where_decayed(log_decay, d, line):
    """The frequency beyond which all that is left out is negligible, by a search on a logarithmic scale."""

    def excess(log_y):
        return log_y - log_decay(jnp.exp(log_y)) - jnp.log(d) - 30.0, jnp.zeros_like(log_y)

    start = jnp.log(line.spacing)
    return jnp.exp(newton_in_bracket(excess, start, start + 20.0, iterations=24))
