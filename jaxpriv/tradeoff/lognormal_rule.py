"""The Laplace transform of a lognormal L = e^(a x - a^2/2), x ~ N(0, 1), with a bound of every
error: at real s the logarithm of E e^(-s (L - 1)/t); at complex z, |arg z| < pi, with
v = (z/t)(L - 1),

    E g(v), g(v) = e^-v - 1 + v,    or, where Re z/t is large,   E e^(-z L/t).

It is taken along x + i theta, which turns L by e^(i a theta): with d <= pi/(4 a) and
theta = -d - D, D = (arg z - pi/2)_+/a, Re(z L) >= 0 all over the strip of half width d around that
line, hence |e^-v| <= e^(c/t), c = (Re z)_+, and |g(v)| <= e^(c/t) min(|v|^2/2, 2 |v|). The
trapezoidal rule of step h is therefore off by at most

    2 e^(w^2/2)/(e^(2 pi d/h) - 1) e^(c/t) min(|z|^2/(2 t^2) (e^(a^2) - 1 + a^2 w^2), 4 |z|/t),

w = D + 2 d, for |n(x + i theta)| = n(x) e^(theta^2/2), E |L e^(i a theta) - 1|^2 = e^(a^2) + 1 -
2 cos(a theta). A narrower strip, on which Re(z L) >= s L, counts E e^(-s L/t) for e^-v.

**Little noise in the logarithm**, a < `SLIGHT`: D would be large. There theta = -d for all z; then
|e^-v| <= e^(r (L - 1)), r = (-Re z)_+/t, which is at most e^(b x) up to x = X, b = r (L(X) - 1)/X,
and what lies beyond X may still be turned: n(X) is e^-80 of what turning it costs.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp

_DEPTH = 56.0  # e^-56 of a trapezoidal rule is 5e-25
_LEFT, _RIGHT = 12.5, 11.0  # standard deviations that nodes reach to, and what lies beyond
_BELOW, _ABOVE = 1e-35, 5e-28
_TILT = 5.0  # further to the right where nothing is turned
SLIGHT = 0.15  # a below which nothing is turned, for D would be large
_STRIPS = (1.0, 0.7, 0.45)  # of d
_ORDER = 15  # of g's series: 0.5^16/16! is 7e-19
_COLUMNS = 384  # of JAX's programs
_MOST = 4096  # of NumPy's: up to a = 10
_TABLE, NEGATIVE = 320, 160  # real s
# by which arg z may exceed pi/2 on a path's edges, 1.95 phi; and that over a where it is turned
_FARTHEST, _FARTHEST_TURNED = 1.47, 3.9
ULP = 2.0**-52


class Columns(NamedTuple):
    """Nodes x of the rule, log of their weights on the real axis, and log L there; 1/(e^(2 pi d/h)
    - 1) for each strip. growth, fall: upper bounds of t log E e^(-s (L - 1)/t) and of that less s,
    chords of which lie above; at s < 0 of what is left of it by turning where L is large.
    """

    a: Any
    t: Any
    x: Any
    log_weight: Any
    log_l: Any
    depth: Any
    gaps: Any
    s: Any
    growth: Any
    fall: Any


def columns(a, t):
    """The rule of one a, t (scalars, float64)."""
    if xp.any_jax(a, t):
        return _columns(a, t)
    return _kept(float(a), float(t))


@functools.lru_cache(maxsize=8)
def _kept(a, t):
    with np.errstate(all="ignore"):
        return _columns(np.float64(a), np.float64(t))


def _columns(a, t):
    own = xp.stop_gradient(a), xp.stop_gradient(t)
    depth = xp.minimum(1.0 + 0 * own[0], math.pi / (4 * own[0]))
    low, high = -_LEFT, _RIGHT + own[0] + xp.where(own[0] < SLIGHT, _TILT, 0.0)
    if xp.any_jax(a, t):
        step = (high - low) / (_COLUMNS - 1)
        x = low + step * xp.arange(_COLUMNS, dtype=xp.float64)
    else:
        step = max(2 * math.pi * depth / _DEPTH, (high - low) / _MOST)
        x = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1)
    log_weight = xp.log(step) - 0.5 * x * x - 0.5 * math.log(2 * math.pi)
    log_l = own[0] * x - 0.5 * own[0] ** 2
    gaps = xp.stack([1 / xp.expm1(2 * math.pi * part * depth / step) for part in _STRIPS])
    spread = xp.minimum(xp.sqrt(xp.expm1(own[0] ** 2) / own[1]), 1.0)
    least = 0.05 / spread
    log_most = xp.log(own[1] * 100 / own[0]) + _LEFT * own[0] + 0.5 * own[0] ** 2
    most = xp.exp(xp.minimum(log_most, 600.0))
    s = least * xp.exp(xp.linspace(0.0, 1.0, _TABLE, dtype=xp.float64) * xp.log(most / least))
    rule = Columns(*own, x, log_weight, log_l, depth, gaps, None, None, None)
    growth = own[1] * log_means(rule, s)
    negative = least * xp.asarray(np.geomspace(1.0, 1e5, NEGATIVE + 1))
    turned, least_growth = _log_means_turned(rule, negative)
    # at -s_i what holds at -s_(i+1): between them a bound, which grows with |s|
    s = xp.concatenate([-negative[-2::-1], 0 * s[:1], s])
    growth = xp.concatenate([own[1] * turned[:0:-1], own[1] * least_growth[None], growth])
    return Columns(a, t, *rule[2:7], *xp.stop_gradient((s, growth, growth - s)))


def log_means(own, s):
    """Upper bounds of log E e^(-s (L - 1)/t) at real s > 0, (k,)."""
    scaled = s / own.t
    near = (scaled < 1) | (own.a * scaled < 1) | (own.a < SLIGHT)
    share = xp.where(near, scaled, 0.0)[:, None]
    weight, rise = xp.exp(own.log_weight), xp.expm1(own.log_l)
    v = share * rise
    mean = xp.sum(weight * _rest(v, 1.0), 1)
    doubt = weight * _doubt(own, share, 0.0, xp.abs(v), xp.exp(-v), 1.0)
    error = ULP * xp.sum(doubt, 1) + missing(own, s, s, 0 * s, 0 * s, 0 * s)
    upper = xp.where(near, xp.log1p(mean + error), xp.inf)
    # far out log E e^(-s L/t): relative to itself, but for what the rule is off by
    power = scaled[:, None] * xp.exp(own.log_l)
    exponent = own.log_weight - power
    far = xp.logsumexp(exponent, 1)
    size = xp.exp(exponent - far[:, None])
    wrong = xp.abs(exponent) + 8 * power * (1 + xp.abs(own.a * own.x) + own.a**2)
    wrong = ULP * (own.x.size + 96 + xp.sum(size * xp.where(size > 0, wrong, 0.0), 1))
    # the strip around the real axis is twice as wide
    gap = 2 * xp.exp(2 * own.depth**2) * own.gaps[0] ** 2
    floor = xp.log(gap + _BELOW + _ABOVE * xp.exp(-scaled))
    far = scaled + xp.logaddexp(far + wrong, floor)
    upper, far = (xp.where(xp.isnan(bound), xp.inf, bound) for bound in (upper, far))
    return xp.minimum(upper, far)


def _log_means_turned(own, s):
    """Bounds of log|E e^(-z (L - 1)/t)| on lines where Re(z e^(i a theta)) = -s < 0, less
    theta^2/2 and what turning does to the 1, ascending in s, and the same at s = 0.

    Up to X, |e^u| <= 1 + u + (e^u - 1 - u), u = s (L - 1)/t, of which the last is bounded cell by
    cell, and E (L - 1) <= 0 there. At X it is turned up to where Re(z L) = 0, by at most D, and
    past the nodes u <= b x. The best of a few X.
    """
    scaled = s / own.t
    farthest = _FARTHEST / own.a
    farthest = xp.where(own.a < SLIGHT, farthest, xp.minimum(farthest, _FARTHEST_TURNED))
    u = scaled[:, None] * xp.expm1(own.log_l)
    convex = xp.expm1(u) - u
    convex = xp.where(xp.abs(u) < 1e-4, 0.5 * u**2 * (1 + xp.abs(u)), convex)
    step = own.x[1] - own.x[0]
    peak = xp.where(own.x[:-1] > 0, own.x[:-1], xp.where(own.x[1:] < 0, own.x[1:], 0.0))
    density = 0.4 * xp.exp(-0.5 * peak**2)
    cells = step * density * xp.maximum(convex[:, :-1], convex[:, 1:]) * (1 + 1e-9)
    below = _BELOW * convex[:, 0]  # E of what grows to the left
    best, at_zero = xp.inf, xp.inf
    for more in (4.5, 5.5, 7.0, 9.0, 13.0):
        end, depth = farthest + more, more * farthest + 0.5 * more**2
        high = xp.maximum(xp.expm1(own.a * end - 0.5 * own.a**2), 0.0)
        near = xp.sum(xp.where(own.x[:-1] <= end, cells, 0.0), 1)
        b = scaled * high / end
        past = xp.exp(0.5 * b**2 - 0.5 * xp.maximum(own.x[-1] - b, 0.0) ** 2)
        past = xp.where(end > own.x[-1], past, 0.0)
        outside = (farthest + 2 + scaled) * xp.exp(scaled * high - depth)
        found = near + below + past + outside
        best = xp.minimum(best, xp.where(xp.isnan(found), xp.inf, found))
        at_zero = xp.minimum(at_zero, (farthest + 2) * xp.exp(-depth))
    return xp.log1p(best), xp.log1p(at_zero)


def means(own, z, deep):
    """(E g(v), or E e^(-z L/t) where `deep`, at z (k,); a bound of its error, by rounding too)."""
    frozen, z = xp.stop_gradient((own, z))
    size, angle = xp.abs(z), xp.arctan2(z.imag, z.real)
    past = xp.maximum(angle - 0.5 * math.pi, 0.0)
    turned = xp.where(frozen.a < SLIGHT, 0.0, past / frozen.a)
    theta = -(frozen.depth + turned)[:, None]
    mean, rounding = _mean(own.a, own.t, frozen, z, theta, xp.where(deep, 0.0, 1.0))
    c, lean = xp.maximum(z.real, 0.0), xp.maximum(-z.real, 0.0) / frozen.t
    lean = xp.where(frozen.a < SLIGHT, lean, 0.0)
    off = xp.where(
        deep,
        _missing_deep(frozen, size, angle, turned),
        missing(frozen, size, c, past, turned, lean),
    )
    return mean, xp.stop_gradient(rounding + off)


def _along(own, theta, unit):
    """(weights, L - unit) at x + i theta, (nodes, columns)."""
    size, phase = xp.exp(own.log_weight + 0.5 * theta**2), -own.x * theta
    weight = xp.make_complex(size * xp.cos(phase), size * xp.sin(phase))
    turn, grown = own.a * theta, xp.exp(own.log_l)
    less_one = xp.expm1(own.log_l) * xp.cos(turn) - 2 * xp.sin(0.5 * turn) ** 2
    real = xp.where(unit > 0, less_one, grown * xp.cos(turn))
    return weight, xp.make_complex(real, grown * xp.sin(turn))


def _rest(v, unit):
    """g(v) = e^-v - 1 + v; and, where unit is 0 and v is what stands in the exponent, e^-v."""
    small = (xp.abs(v) < 0.5) & (unit > 0)
    little, much = xp.where(small, v, 0.0), xp.where(small, 1.0, v)
    series = xp.zeros_like(v)
    for k in range(_ORDER, 2, -1):
        series = -little / k * (1 + series)
    return xp.where(small, 0.5 * little**2 * (1 + series), xp.exp(-much) - unit * (1 - much))


@xp.custom_jvp
def _mean(a, t, own, z, theta, unit):
    """(the sum, a bound of its rounding error)."""
    del a
    weight, shift = _along(own, theta, unit)
    v = (z / t)[:, None] * shift
    each = _doubt(own, xp.abs(z)[:, None] / own.t, theta, xp.abs(v), xp.exp(-v.real), unit)
    return xp.sum(_rest(v, unit) * weight, 1), ULP * xp.sum(xp.abs(weight) * each, 1)


@_mean.defjvp
def _mean_jvp(primals, tangents):
    """g' = 1 - e^-v; dL/da = (x + i theta - a) L, dv/dt = -v/t. The rule and z stand still."""
    a, t, own, z, theta, unit = primals
    weight, shift = _along(own, theta, unit)
    share = z / t
    slope = (unit - xp.exp(-share[:, None] * shift)) * weight
    by_a = xp.make_complex(own.x - own.a + 0 * theta, theta + 0 * own.x) * (shift + unit)
    by_a = share * xp.sum(slope * by_a, 1)
    by_t = -share / t * xp.sum(slope * shift, 1)
    found = _mean(*primals)
    return found, (by_a * tangents[0] + by_t * tangents[1], 0 * found[1])


def _doubt(own, share, theta, v, power, unit):
    """Bounds of the relative error of a weight times what `_rest` is, in ulp: of weights; of L,
    which moves by L times the error of its exponent; of g, which moves by at most |1 - e^-v| times
    that of v; of the sum.
    """
    small = (v < 0.5) & (unit > 0)
    slope = xp.where(small, 2 * v, power + unit)
    value = xp.where(small, v**2, power + unit * (1 + v))
    grown = xp.exp(own.log_l)
    moved = xp.abs(own.a * own.x) + own.a**2 + xp.abs(own.a * theta)
    moved = 4 * xp.where(unit > 0, xp.maximum(grown, 1.0) * moved, grown * (moved + 2))
    count = own.x.size if xp.any_jax(share) else 16  # NumPy sums in pairs
    ulps = 16 + count + own.x**2 + theta**2 + 2 * xp.abs(own.x * theta)
    return ulps * value + slope * (4 * v + share * moved)


def missing(own, size, c, past, turned, lean):
    """What the rule for E g is off by, but for rounding, at |z| = size and (Re z)_+ = c.

    |e^-v| <= e^(c/t), or, for 1 - e^u <= -u, e^(c/t (2 a^2 d^2 + a^2/2) + b |x|) at x < 0 with
    b = a c/t: then E |r|^2 e^(b |x|) <= E |r|^2 + e^(b^2/2) E |r(x - b)|^2.
    """
    share, tilt = size / own.t, own.a * c / own.t
    edge = turned + 2 * own.depth
    spread = xp.expm1(own.a**2) + (own.a * edge) ** 2
    steady = c / own.t * own.a**2 * (2 * own.depth**2 + 0.5) + 0.5 * tilt**2
    growth = xp.minimum(c / own.t, steady + xp.log(2 + 2 * (own.a * tilt) ** 2 / spread))
    inside = xp.exp(growth) * xp.minimum(0.5 * share**2 * spread, 4 * share)
    left = xp.maximum(_LEFT - tilt, 0.4)  # of nodes, where x < 0 weighs more
    below = xp.minimum(
        c / own.t + math.log(_BELOW), steady + math.log(2 * math.e) - 0.5 * left**2 - xp.log(left)
    )
    above = math.log(_ABOVE) + xp.minimum(c / own.t, steady)
    outside = 8 * share * (xp.exp(xp.maximum(below, math.log(_BELOW))) + xp.exp(above))
    # what leans to the left and is not turned
    far, high, b = leaning(own, past, lean)
    moved = xp.expm1(own.a * b) ** 2 + xp.exp(own.a * b) * (
        xp.exp(own.a * b) * xp.expm1(own.a**2) + (own.a * edge) ** 2
    )
    leant = 0.5 * share**2 * (spread + xp.exp(0.5 * b**2) * moved)
    right = xp.maximum(_RIGHT + _TILT + own.a - b, 0.0)
    outside_leant = 2 * (share * high) ** 2 * xp.exp(0.5 * b**2 - 0.5 * right**2)
    beyond = -0.5 * far**2 + 0.5 * (2 + past / own.a) ** 2 + lean * (high - 1)
    beyond = (past / own.a + 8) * xp.exp(beyond) * ((share * (high + 1)) ** 2 + 4 * share * high)
    leans = lean > 0
    inside = xp.where(leans, leant, inside)
    outside = outside + xp.where(leans, outside_leant, 0.0)
    weight = xp.exp(0.5 * (turned + own.depth) ** 2)
    strip = 2 * xp.exp(0.5 * edge**2) * own.gaps[0]
    return strip * inside + weight * outside + xp.where(leans, beyond, 0.0)


def leaning(own, past, lean):
    """(X, from which on it is turned, L there, b) of what leans to the left by lean = (-Re z)_+/t,
    arg z = pi/2 + past.
    """
    far = 13 + past / own.a
    high = xp.exp(own.a * far)
    return far, high, lean * (high - 1) / far


def _missing_deep(own, size, angle, turned):
    """The same for E e^(-z L/t): the best of a few strips, on each of which Re(z L) >= s L."""
    middle = turned + own.depth
    inside = xp.inf
    for part, gap in zip(_STRIPS, own.gaps):
        half = part * own.depth
        nearest = xp.minimum(
            xp.cos(angle - own.a * (middle + half)), xp.cos(angle - own.a * (middle - half))
        )
        least = xp.interp(size * xp.maximum(nearest, 0.0), own.s, own.fall)
        on_edges = 2 * xp.exp(0.5 * (middle + half) ** 2 + least / own.t) * gap
        inside = xp.minimum(inside, on_edges)
    falls = size / own.t * xp.maximum(xp.cos(angle - own.a * middle), 0.0) * xp.exp(own.a * _RIGHT)
    return inside + xp.exp(0.5 * middle**2) * (_BELOW + _ABOVE * xp.exp(-falls))
