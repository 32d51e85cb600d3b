"""The mean M of t independent lognormals L = e^(a x - a^2/2), x ~ N(0, 1): E (K - M)_+, E (M - K)_+
and their probabilities by one short sum, at a cost that does not depend on t, with a bound of every
error.

With N(z) = E e^(-z (M - 1)) = (1 + E g(z (L - 1)/t))^t, g(v) = e^-v - 1 + v (`lognormal_rule`),

    E (K - M)_+ = 1/(2 pi i) int e^(z (K - 1)) N(z)/z^2 dz            for every K,
    E (M - K)_+ = 1/(2 pi i) int e^(z (K - 1)) (N(z) - 1)/z^2 dz      for K > 1,

the second since 1 alone gives K - 1; P(M < K) and -P(M > K) are the same with 1/z. The path comes
from the left below the branch cut z <= 0 of N and goes back above it (`lognormal_path`), where
e^(z (K - 1)) has decayed.

**The right tail.** N - 1 is about z^2 Var M/2 where the kernel is large, |z| < 1/(K - 1): what
rounding takes is of the size of Var M/(K - 1). Where M is nearly normal the path ends where N is
small, and 1 is replaced by N_G, of a normal variable of mean 1 and the same variance, whose part is
known.
"""

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._stored import store
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.stats._mills import normal as normal_tails
from jaxpriv.tradeoff.lognormal_path import FARTHER, Asked, Path, path
from jaxpriv.tradeoff.lognormal_rule import NEGATIVE, SLIGHT, ULP, means
from jaxpriv.tradeoff.pair import safe_log

_RIGHT = 2.5  # standard deviations from which on K lies in the right tail
_AHEAD = 0.6  # c (K - 1) there
_NARROW = 0.1  # standard deviation of M below which it is nearly normal
_DEEP = 3.0  # c/t from which on E e^(-z L/t) is formed itself
_SURE = 41.0  # e^-41 is 2e-18
_FARTHEST = 700.0  # whose e^x is a number
_APART = 0.5  # lines in the right tail, in log(K - 1)
_lines, _left_places = store(64), store(64)  # of 100 KB, 1 KB


class Line(NamedTuple):
    """N along one path through c: log of (1 + E g)^t, or of E e^(-z L/t)^t where `deep`, log of
    what the size of that may be, and what share of it is error. It is for E (M - K)_+ where
    `right`, and serves where K, or K - 1 in the right tail, is at least `least`.
    """

    right: Any
    width: Any
    deep: Any
    least: Any
    c: Any
    log_c: Any
    path: Path
    log_n: Any
    log_most: Any
    doubt: Any


class Integrals(NamedTuple):
    """At one K, in units of a scale: E (M - K)_+ and P(M > K) where `right`, whose scale is 1, else
    E (K - M)_+ and P(M < K); and their errors.
    """

    right: Any
    log_scale: Any
    gain: Any
    mass: Any
    gain_error: Any
    mass_error: Any


def line(own, x):
    """The `Line` for K = e^x and what is near it. By NumPy it is that of the `middle` of x, or of
    several that have the same: whoever asks all over the range needs a few lines, whatever was
    asked for first.
    """
    if xp.any_jax(own, x):
        return placed(own, x)
    place = middle(own, np.ravel(x)[0])
    return _lines.get((float(own.a), float(own.t), place), lambda: placed(own, np.float64(place)))


def middle(own, x):
    """By NumPy: where the line for x lies, as a number; where K is too small for a table of them,
    there itself. In the right tail they are a factor of K - 1 apart.
    """
    first, x = _RIGHT * float(_spread(own)), float(x)
    if not (first > 0 and abs(x) < _FARTHEST):
        return x
    k = math.expm1(x)
    if k > first:
        apart = math.floor(math.log(k / first) / _APART) + 0.5
        return math.log1p(first * math.exp(_APART * apart))
    ends, places = _left_places.get((float(own.a), float(own.t)), lambda: _places(own))
    found = places[np.searchsorted(ends, x)]
    return x if np.isnan(found) else min(float(found), math.log1p(first))


def _places(own):
    """(where one line hands over to the next, where they lie: x, rising, and NaN before the first).

    Every s of the table is the saddle of some K, K - 1 = 2/s - d growth/ds. At another K the
    integrand along its line is larger than along K's own by e^(d^2/2), d about the distance in
    int (-dK/ds)^(1/2) ds, in which they are 1 apart.
    """
    s, fall, growth = (part[NEGATIVE + 1 :] for part in (own.s, own.fall, own.growth))
    at = s[1:-1]
    level, k = (2 / at - (part[2:] - part[:-2]) / (s[2:] - s[:-2]) for part in (fall, growth))
    deep = k < -0.5  # where K itself keeps its digits
    x = np.where(deep, np.log(np.maximum(level, 1e-300)), np.log1p(np.maximum(k, -0.5)))
    x = np.minimum.accumulate(x)
    moved = np.maximum(np.where(deep[1:], -np.diff(level), -np.diff(k)), 0.0)
    distance = np.cumsum(np.sqrt(moved * np.diff(at)))
    _, last = np.unique(np.floor(distance), return_index=True)
    nearest = np.searchsorted(distance, np.floor(distance[last]) + 0.5)
    nearest = 1 + np.minimum(nearest, distance.size - 1)
    ends = np.concatenate([x[1 + last[1:]], x[-1:]])
    return ends[::-1], np.concatenate([[np.nan], x[nearest][::-1]])


def _spread(own):
    return xp.minimum(xp.sqrt(xp.expm1(own.a**2) / own.t), 1.0)


def placed(own, x):
    """The `Line` for K = e^x and what is near it, placed there."""
    frozen, x = xp.stop_gradient((own, x))
    k, level = xp.expm1(x), xp.exp(x)
    spread = _spread(frozen)
    right = k > _RIGHT * spread
    normal = right & ((spread < _NARROW) | (frozen.a < SLIGHT))
    asked = Asked(k, level, right, xp.where(normal, spread, 0.0))
    beyond = xp.where(right, k, 1.0)
    c = xp.where(right, _AHEAD / beyond, _saddle(frozen, k, level))
    deep = ~right & (frozen.a >= SLIGHT) & (c > _DEEP * frozen.t)
    log_c = xp.interp(c, frozen.s, xp.where(deep, frozen.fall, frozen.growth))
    # what the integrand takes in all
    taken = xp.where(deep, level, k) * c + log_c - xp.log(c)
    taken = xp.where(right, xp.log(xp.minimum(spread**2 / beyond, 1.0)), taken)
    along = path(frozen, asked, c, taken - _SURE)
    powers = _powers(own, along.z, deep)
    least = asked.falls() / FARTHER
    return Line(right, asked.width, deep, least, c, log_c, along, *powers)


def _saddle(own, k, level):
    """The c > 0 where e^(c k) N(c)/c^2 is smallest, nearly."""
    s, fall, growth = (part[NEGATIVE + 1 :] for part in (own.s, own.fall, own.growth))
    height = xp.where(level < 0.5, s * level + fall, s * k + growth)
    height = height - 2 * xp.log(s)
    at = xp.clip(xp.argmin(height), 1, s.size - 2)
    before, here, after = height[at - 1], height[at], height[at + 1]
    bend = xp.maximum(before - 2 * here + after, 1e-12)
    shift = xp.clip(0.5 * (before - after) / bend, -0.5, 0.5)
    return s[at] * (s[1] / s[0]) ** shift


def _powers(own, z, deep):
    """(log N, or of E e^(-z L/t)^t; log of what its size may be; what share of that is error)."""
    mean, error = means(own, z, deep)
    size = xp.abs(mean)
    one = xp.where(deep, size, xp.abs(1 + mean))
    one = xp.maximum(one, 1e-290)
    error = error + 16 * ULP * size * (1 + size) / xp.maximum(one, 0.5)  # of `_log1p`
    log_one = _log1p(xp.where(deep, mean - 1, mean))
    log_deep = xp.make_complex(xp.log(one), xp.arctan2(mean.imag, mean.real))
    log_n = own.t * xp.where(deep, log_deep, log_one)
    frozen = xp.stop_gradient((own.t, one, error))
    log_most = frozen[0] * xp.log(frozen[1] + frozen[2])
    doubt = frozen[0] * xp.log1p(frozen[2] / frozen[1]) + 8 * ULP * xp.abs(xp.stop_gradient(log_n))
    return log_n, log_most, -xp.expm1(-doubt)


def _log1p(value):
    """log(1 + value), complex, without cancellation next to 0."""
    re, im = value.real, value.imag
    near = (1 + re) ** 2 + im**2
    away = near < 0.3
    log_size = xp.where(
        away,
        0.5 * xp.log(xp.maximum(near, 1e-300)),
        0.5 * xp.log1p(xp.where(away, 0.0, re * (2 + re) + im**2)),
    )
    return xp.make_complex(log_size, xp.arctan2(im, 1 + re))


def _expm1(value):
    """e^value - 1, complex."""
    re, im = value.real, value.imag
    return xp.make_complex(
        xp.expm1(re) * xp.cos(im) - 2 * xp.sin(0.5 * im) ** 2, xp.exp(re) * xp.sin(im)
    )


def integrals(found, x, side=0):
    """The `Integrals` at every K = e^x, near what the line was placed for; on either side of what
    rounding leaves of K and K - 1.
    """
    off = side * 4 * ULP * (2 + xp.abs(x))
    level, k = xp.exp(x) * (1 + off), xp.expm1(x)
    k = k + off * xp.abs(k)
    right = found.right
    used = xp.where(found.deep, level, k)
    log_scale = xp.where(right, 0.0, used * found.c + found.log_c)
    gain, mass, gain_error, mass_error = _sums(found, used[..., None], log_scale[..., None])
    asked = Asked(k[..., None], level[..., None], right, found.width)
    log_unit = log_scale[..., None] + math.log(math.pi) - 1e-9
    for cells, log_part in ((found.path.edges, found.path.log_gap), (found.path.rest, 0.0)):
        bound = cells.log_size(asked) - log_unit + log_part
        gain_error, mass_error = (
            error + xp.exp(xp.minimum(xp.logsumexp(bound + by, -1), 600.0))
            for error, by in ((gain_error, cells.by_gain), (mass_error, cells.by_mass))
        )
    # of the normal variable
    normal = found.width > 0
    u = xp.where(normal, k, 0.0) / xp.where(normal, found.width, 1.0)
    density = xp.exp(-0.5 * u * u - 0.5 * math.log(2 * math.pi))
    above = xp.exp(normal_tails(u)[0])
    gain = gain + found.width * (density - u * above)
    mass = xp.where(right, xp.where(normal, above, 0.0) - mass, mass)
    off = 16 * ULP * (1 + u * u)
    gain_error = gain_error + found.width * off * density
    mass_error = mass_error + xp.where(normal, off * above, 0.0)
    serves = xp.where(right, k, level) >= found.least
    errors = (xp.where(serves, error, xp.inf) for error in (gain_error, mass_error))
    return Integrals(right, log_scale, gain, mass, *xp.stop_gradient(tuple(errors)))


def _sums(found, used, log_scale):
    """(sum of e^(z used - log_scale) (N or N - N_G) dz/z^2, that of dz/z, bounds of what rounding
    and the error of N take of both), used: K, or K - 1.
    """
    z, jump, log_n, right = found.path.z, found.path.jump, found.log_n, found.right
    exponent = z * used - log_scale
    whole = xp.where(right, exponent, exponent + log_n)
    kernel = xp.exp(whole.real)
    turn = kernel * xp.make_complex(xp.cos(whole.imag), xp.sin(whole.imag))
    normal = 0.5 * (found.width * z) ** 2
    both = (_expm1(xp.where(right, value, 0.0)) for value in (log_n, normal))
    turn = turn * xp.where(right, operator.sub(*both), xp.ones_like(z))
    sums = (xp.sum((turn * (jump / power)).imag, -1) for power in (z**2, z))
    exponent, log_n = xp.stop_gradient((exponent, log_n))
    wrong = found.doubt * xp.exp(exponent.real + found.log_most)
    # N - 1 and N_G - 1, next to 0 and not, of which a difference is taken
    least = sum(xp.minimum(xp.abs(value), 1 + xp.exp(value.real)) for value in (log_n, normal))
    least = xp.where(right, 8 * least * xp.exp(exponent.real), 0.0)
    # of exponents, where the path was rounded too, and of the sum
    steps = (64 if not xp.any_jax(z) else 64 + z.size) + 4 * (xp.abs(z * used) + xp.abs(log_n))
    rounded = least + (steps + xp.abs(log_scale)) * xp.abs(turn)
    size = xp.abs(z)
    wrong = (wrong + ULP * rounded) * xp.abs(jump)
    return *sums, *(xp.sum(wrong / power, -1) for power in (size**2, size))


class Bounds(NamedTuple):
    """(lower, upper) of log E (K - M)_+, log E (M - K)_+, log P(M < K) and log P(M > K)."""

    put: Any
    call: Any
    below: Any
    above: Any


def bounds(found, x):
    """The `Bounds` at K = e^x. K and K - 1 are known to a few ulp of themselves, and all of these
    are monotone in K: they are taken on both sides of that.
    """
    less, more = (integrals(found, x, side) for side in (-1, 1))
    right, k = found.right, xp.expm1(x)

    def end(part, side):
        # E (M - K)_+ and P(M > K) fall, the others grow
        one, other = (less, more) if side < 0 else (more, less)
        log_scale, value, error = (
            xp.where(right, getattr(other, name), getattr(one, name))
            for name in ("log_scale", part, f"{part}_error")
        )
        log_value = log_scale + safe_log(xp.maximum(value + side * error, 0.0))
        log_value = log_value + side * 16 * ULP * (1 + xp.abs(log_scale))
        return xp.where(xp.isnan(log_value), side * xp.inf, log_value)

    def rest(log_value, side):
        """What is left to 1 of a probability, which is on the other side."""
        value = xp.minimum(log_value, 0.0)
        return xp.where(value < 0, log1mexp(xp.minimum(value, -1e-300)), -xp.inf) + side * 8 * ULP

    def parted(log_value, side):
        """put - call = K - 1."""
        size = xp.exp(xp.minimum(log_value, 700.0))
        total = xp.where(right, size + k, size - k)
        total = total + side * (16 * ULP * size + 8 * ULP * xp.abs(k))
        return xp.where(log_value < 700, safe_log(xp.maximum(total, 0.0)), side * xp.inf)

    gain, mass = (tuple(end(part, side) for side in (-1, 1)) for part in ("gain", "mass"))
    mass = tuple(xp.minimum(value, 0.0) for value in mass)
    other = tuple(parted(value, side) for value, side in zip(gain, (-1, 1)))
    others = tuple(rest(value, side) for value, side in zip(mass[::-1], (-1, 1)))

    def chosen(where_right, elsewhere):
        return tuple(xp.where(right, *pair) for pair in zip(where_right, elsewhere))

    return Bounds(
        chosen(other, gain), chosen(gain, other), chosen(others, mass), chosen(mass, others)
    )
