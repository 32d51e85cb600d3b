"""The Laplace transform of a lognormal L = e^(a x - a^2/2), x ~ N(0, 1), less its first two terms:
E g(v), g(v) = e^-v - 1 + v, v = z r/t, r = L - 1, at complex z, with a bound of every error.

It is taken along x + i theta, which turns L by e^(i a theta). For 0 <= arg z <= pi/2 and theta in
[-2d, 0], d <= pi/(4 a), Re(z L) >= 0 all over that strip, hence |e^-v| <= e^(c/t), c = Re z, and
|g(v)| <= e^(c/t) min(|v|^2/2, 2 |v|). The trapezoidal rule of step h in its middle, theta = -d, is
therefore off by at most

    2 e^(2 d^2)/(e^(2 pi d/h) - 1) e^(c/t) min(|z|^2/(2 t^2) (e^(a^2) - 1 + 4 a^2 d^2), 4 |z|/t),

for |n(x + i theta)| = n(x) e^(theta^2/2), E |L e^(i a theta) - 1|^2 = e^(a^2) + 1 - 2 cos(a theta).
Columns with |v| < 1 are summed as moments, a polynomial in z; of the others e^-v is a product of
two exponentials, for nodes on a line are evenly spaced, and the sum a product of matrices.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp

_DEPTH = 42.0  # e^-42 of a trapezoidal rule is 6e-19
_REACH = 9.4  # standard deviations that nodes reach to: 3e-21 lies beyond
_BEYOND = 2 * math.exp(-(_REACH**2) / 2) / (_REACH * math.sqrt(2 * math.pi))
_ORDER = 20  # moments: 1/21! is 2e-20
_COLUMNS = 384  # of JAX's programs
_SUM = 32  # products of complex numbers, summed in any order, are off by as many ulp
ULP = 2.0**-52


class Columns(NamedTuple):
    """The rule in x for E g: weights, r = L - 1, and how far both are off, in ulp of themselves;
    `real` is the rule on the real axis. gap: of the trapezoidal rule.
    """

    a: Any
    t: Any
    weight: Any
    rise: Any
    doubt: Any
    rise_by_a: Any
    real_log_weight: Any
    real_rise: Any
    gap: Any
    depth: Any


def columns(a, t):
    """The rule of one a, t (scalars, float64)."""
    depth = xp.minimum(xp.stop_gradient(1.0 + 0 * a), math.pi / (4 * xp.stop_gradient(a)))
    low, high = -_REACH, _REACH + xp.stop_gradient(a)
    if xp.any_jax(a, t):
        count = _COLUMNS
        step = (high - low) / (count - 1)
        x = low + step * xp.arange(count, dtype=xp.float64)
    else:
        step = 2 * math.pi * depth / _DEPTH
        x = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1)
    log_weight = xp.log(step) - 0.5 * x * x - 0.5 * math.log(2 * math.pi)
    size = xp.exp(log_weight + 0.5 * depth**2)
    weight = xp.make_complex(size * xp.cos(x * depth), size * xp.sin(x * depth))
    exponent, angle = a * x - 0.5 * a * a, -a * depth
    grown, growth = xp.expm1(exponent), xp.exp(exponent)
    rise = xp.make_complex(
        grown * xp.cos(angle) - 2 * xp.sin(0.5 * angle) ** 2, growth * xp.sin(angle)
    )
    # r moves by L times the error of its exponent, which 4 ulp of its terms bound
    moved = 4 * growth * (xp.abs(a * x) + a * a) / xp.maximum(xp.abs(rise), 1e-300)
    doubt = xp.stop_gradient(40 + 2 * moved + x * x + 4 * xp.abs(x) * depth)
    gap = 2 * xp.exp(2 * depth**2) / xp.expm1(2 * math.pi * depth / step)
    by_a = xp.stop_gradient(xp.make_complex(x - a, -depth + 0 * x) * (1 + rise))
    return Columns(
        a, t, weight, *xp.stop_gradient((rise, doubt, by_a, log_weight, grown, gap, depth))
    )


def log_means(own, s):
    """Upper bounds of log E e^(-s (L - 1)/t) at real s >= 0, (k,), and the estimates."""
    scaled = s / own.t
    v = scaled[:, None] * own.real_rise
    small = xp.abs(v) < 0.05
    little = xp.where(small, v, 0.0)
    series = xp.zeros_like(little)
    for k in range(12, 2, -1):
        series = -little / k * (1 + series)
    g = xp.where(small, 0.5 * little**2 * (1 + series), xp.expm1(-xp.where(small, 1.0, v)) + v)
    near = (scaled < 1) | (own.a * scaled < 1)
    weight = xp.exp(own.real_log_weight)
    terms = weight * xp.where(near[:, None], g, 0.0)
    mean = xp.sum(terms, 1)
    ulps = ULP * (own.doubt + weight.size)
    error = xp.sum(ulps * terms, 1) + missing(own, s, s)
    # far out log E e^(-s L/t): relative to itself, but for what the rule is off by
    exponent = own.real_log_weight - scaled[:, None] * (1 + own.real_rise)
    far = xp.logsumexp(exponent, 1)
    size = xp.exp(exponent - far[:, None])
    wrong = ULP * (
        weight.size
        + 96
        + xp.sum(size * (xp.abs(exponent) + 8 * scaled[:, None] * (1 + own.real_rise)), 1)
    )
    floor = xp.log(2 * own.gap + 2 * _BEYOND)
    upper_far = scaled + xp.logaddexp(far + wrong, floor + 0 * far)
    upper = xp.where(near, xp.log1p(xp.where(near, mean + error, 0.0)), upper_far)
    return upper, xp.where(near, xp.log1p(mean), scaled + far)


def missing(own, z_size, c, log_most=np.inf):
    """What the rule for E g is off by, but for rounding, at |z| on the line.

    |e^-v| <= e^(c/t), or, for 1 - e^u <= -u, e^(c/t (2 a^2 d^2 + a^2/2) + b |x|) at x < 0 with
    b = a c/t: then E |r|^2 e^(b |x|) <= E |r|^2 + e^(b^2/2) E |r(x - b)|^2. Or
    |g| <= |e^-v| + 1 + |v|, of which log_most bounds the first's mean,
    e^(c/t) E e^(-s L/t) with s = c cos(2 a d) <= Re(z L)/L.
    """
    share, tilt = z_size / own.t, own.a * c / own.t
    spread = xp.expm1(own.a**2) + 4 * (own.a * own.depth) ** 2
    steady = c / own.t * own.a**2 * (2 * own.depth**2 + 0.5) + 0.5 * tilt**2
    growth = xp.minimum(c / own.t, steady + xp.log(2 + 2 * (own.a * tilt) ** 2 / spread))
    least = xp.minimum(0.5 * share**2 * spread, 4 * share)
    left = xp.maximum(_REACH - tilt, 0.4)  # of nodes, where x < 0 weighs more
    beyond = xp.minimum(
        c / own.t + math.log(_BEYOND), steady + math.log(2 * math.e) - 0.5 * left**2 - xp.log(left)
    )
    beyond = xp.maximum(beyond, math.log(_BEYOND))
    most = xp.exp(log_most) + 1 + 2 * share
    least = xp.minimum(xp.exp(growth) * least, most)
    return own.gap * least + 8 * share * xp.exp(0.5 * own.depth**2 + beyond)


def block(own, z, step):
    """By NumPy E g at z, evenly spaced with |z| growing by about 2, and its rounding error."""
    top = np.abs(z[-1]) / own.t
    small = np.abs(own.rise) * top < 1
    share = z / own.t
    size = np.abs(share)
    rise, weight, doubt = own.rise[small], own.weight[small], own.doubt[small]
    term, total, moments = weight, np.zeros_like(z), []
    for k in range(1, _ORDER + 1):
        term = term * (-rise * top / k)
        moments.append(np.sum(term))
    for moment in moments[:0:-1]:
        total = (total + moment) * (share / top)
    total = total * (share / top)
    error = 1.5 * size**2 * np.sum(np.abs(weight) * np.abs(rise) ** 2 * (doubt + _SUM))
    rise, weight, doubt = own.rise[~small], own.weight[~small], own.doubt[~small]
    if rise.size:
        inner = 1 << (max(z.size, 2).bit_length() // 2)
        rows = np.exp(-share[:inner, None] * rise)
        jumps = np.arange(-(-z.size // inner)) * (inner * step / own.t)
        shifts = np.exp(-1j * jumps[:, None] * rise) * weight
        found = sum(
            np.matmul(shifts[:, first : first + _SUM], rows[:, first : first + _SUM].T)
            for first in range(0, rise.size, _SUM)
        ).reshape(-1)[: z.size]
        total = total + (found + (share * np.sum(weight * rise) - np.sum(weight)))
        # |e^-v| <= e^(-c Re r/t), for Im r < 0 and Im z > 0
        grown = np.exp(np.maximum(-share[0].real * rise.real, 0.0))
        each = np.abs(weight) * (doubt + _SUM + rise.size / _SUM) * grown
        error = error + 2 * np.sum(each) + 8 * size * np.sum(each * np.abs(rise))
    return total, error * ULP


def at_once(own, z):
    """By JAX E g at z, each term on its own, and its rounding error."""
    size = xp.abs(z) / own.t
    grown = xp.exp(xp.maximum(-size[0] * own.rise.real, 0.0))
    each = xp.abs(own.weight) * (own.doubt + 2 * _SUM) * grown
    length = xp.abs(own.rise)
    error = xp.minimum(2 * size**2 * xp.sum(each * length**2), 8 * size * xp.sum(each * length))
    frozen = xp.stop_gradient(own)
    return _mean(own.a, own.t, frozen, z), xp.stop_gradient(error) * ULP


@xp.custom_jvp
def _mean(a, t, own, z):
    del a
    v = (z / t)[:, None] * own.rise
    small = xp.abs(v) < 0.5
    little, much = xp.where(small, v, 0.0), xp.where(small, 1.0, v)
    series = xp.zeros_like(v)
    for k in range(15, 2, -1):
        series = -little / k * (1 + series)
    g = xp.where(small, 0.5 * little**2 * (1 + series), xp.exp(-much) - 1 + much)
    return xp.sum(g * own.weight, 1)


@_mean.defjvp
def _mean_jvp(primals, tangents):
    """g' = 1 - e^-v; dr/da = (x - a) L, dv/dt = -v/t. The rule and z stand still."""
    a, t, own, z = primals
    share = z / t
    slope = 1 - xp.exp(-share[:, None] * own.rise)
    by_a = share * xp.sum(slope * (own.weight * own.rise_by_a), 1)
    by_t = -share / t * xp.sum(slope * (own.weight * own.rise), 1)
    return _mean(*primals), by_a * tangents[0] + by_t * tangents[1]
