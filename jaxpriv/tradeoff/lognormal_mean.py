"""The mean M of t independent lognormals L = e^(a x - a^2/2), x ~ N(0, 1): E (K - M)_+ and P(M < K)
along one vertical line, at a cost that does not depend on t, with a bound of every error.

With N(z) = E e^(-z (M - 1)) = (1 + E g(z (L - 1)/t))^t, g(v) = e^-v - 1 + v (`lognormal_rule`),

    E (K - M)_+ = 1/(2 pi i) int e^(z (K - 1)) N(z)/z^2 dz  along Re z = c > 0,

and P(M < K) is the same integral with 1/z. The midpoint rule of step 2 pi/W gives
sum_j (-1)^j e^(-c j W) Put(K + j W), no more and no less. The terms j != 0 are bounded by
Put(x) <= (x - 1)_+ + sd(M)/2, by Put(x) = 0 for x <= 0, and by Chernoff, Put(x) <=
e^(s (x - 1)) N(s)/(e s) for every s > 0. What is left out, |y| > Y, is bounded by turning L again:
|N(c + i y)| <= e^c (e^(theta^2/2) E e^(-s L/t))^t with s = c cos(a theta) + y sin(a |theta|),
which falls with y.

**The right tail**, k = K - 1 >= 0: E (M - K)_+ = Put(K) - k would lose its digits. With a normal
variable G of mean 1 and small variance, whose Put(K) - k is known, the difference of both is the
same integral of N - N_G, which is small as (z sd(M))^2 where the kernel is large: what rounding
takes is of the size of sd(M), not of k.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._mills import normal as mills_tails
from jaxpriv.tradeoff.lognormal_rule import ULP, at_once, block, log_means, missing

_LEAST = 42.0  # c W in the right tail: e^-42 is 6e-19
_RESOLVED = 9.5  # standard deviations of N_G within the line
_FIRST = 8  # nodes of a line's first block; each further block doubles them
_NODES = 2048  # of JAX's programs
_MOST, _WORK = 1 << 17, 1 << 26  # nodes of a line, and products, by NumPy


class Line(NamedTuple):
    """N along Re z = c: log N at the nodes, its relative error, and what bounds the rest.

    logs: log N(c), and upper bounds of log N at c times `_TILTS`; log_end: of |N| beyond the last
    node; log_fall: log of the integral of that bound over y from there.
    """

    c: Any
    step: Any
    z: Any
    log_n: Any
    error: Any
    log_c: Any
    logs: Any
    log_end: Any
    log_fall: Any
    last: Any
    spread: Any


class Integrals(NamedTuple):
    """At one K = 1 + k, in units of a scale. k < 0: E (K - M)_+ and P(M < K), else E (M - K)_+ and
    P(M > K) and the scale is 1; and their errors.
    """

    log_scale: Any
    gain: Any
    mass: Any
    gain_error: Any
    mass_error: Any


_TILTS = np.array([0.125, 0.25, 0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, 64.0])


def line(own, k):
    """The `Line` for K = 1 + k and what is near it.

    c is the saddle of e^(c k) N(c)/c^2; W = 42/c where Put grows like K, more in its own tail, and
    15 standard deviations of the tilted law.
    """
    frozen = xp.stop_gradient(own)
    k = xp.stop_gradient(k)
    spread = xp.minimum(xp.sqrt(xp.expm1(frozen.a**2) / frozen.t), 2.0)
    least = 0.02 / (xp.abs(k) + spread)
    # where K is small, and N(c) follows e^(c (1 - K)), c/t is of the order of -log K/(a^2 K)
    most = xp.minimum(40 * frozen.t, 100 / spread * (1 + xp.abs(k) / spread))
    grid = xp.linspace(0.0, 1.0, 96, dtype=xp.float64)
    tried = least * xp.exp(grid * xp.log(xp.maximum(most / least, 2.0)))
    upper, _ = log_means(frozen, tried)
    height = tried * k + frozen.t * upper - 2 * xp.log(tried)
    c = xp.max(xp.where(height <= xp.min(height), tried, 0.0))
    if xp.any_jax(own, k):  # whose nodes are few: a digit or two less, of many more
        c = xp.where(k < 0, c, 2.5 * c)
        depth = xp.where(k < 0, 64.0, 30.0)
    else:
        depth = 64.0 if k < 0 else _LEAST
    around = frozen.t * log_means(frozen, c * xp.asarray([0.99, 1.0, 1.01]))[1]
    log_c, curvature = around[1], xp.maximum(around[0] - 2 * around[1] + around[2], 0.0) * 1e4
    period = xp.maximum(depth, 15 * xp.sqrt(curvature)) / c
    step = 2 * math.pi / period
    edges, last, log_end, log_fall = _extent(frozen, c, k, step, log_c, spread)
    y = step * (xp.arange(edges[-1], dtype=xp.float64) + 0.5)
    z = xp.make_complex(c + 0 * y, y)
    if xp.any_jax(own, z):
        mean, error = at_once(own, z)
    else:
        blocks = [block(own, z[start:stop], step) for start, stop in zip(edges, edges[1:])]
        mean, error = (np.concatenate(part) for part in zip(*blocks))
    nearest = c * xp.maximum(xp.cos(2 * frozen.a * frozen.depth), 0.0)
    log_most = (c - nearest) / frozen.t + log_means(frozen, nearest[None])[0][0]
    error = xp.stop_gradient(error + missing(own, xp.abs(z), c, log_most))
    size = xp.abs(mean)
    one = xp.maximum(xp.abs(1 + mean), 1e-300)
    error = error + 16 * ULP * size * (1 + size) / xp.maximum(one, 0.5)  # of `_log1p`
    log_n = own.t * _log1p(mean)
    # |N - fl N| <= (|1 + g| + E)^t - |1 + g|^t
    relative = xp.expm1(xp.minimum(own.t * xp.log1p(error / one), 600.0))
    relative = relative + 8 * ULP * xp.abs(log_n)
    logs = frozen.t * log_means(frozen, c * xp.asarray(_TILTS))[0]
    return Line(
        c, step, z, log_n, xp.stop_gradient(relative), log_c, logs, log_end, log_fall, last, spread
    )


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


def log_bounds(own, c, y):
    """log of a bound of |N(c + i y')|, y' >= y, for all y (k,): the best of a few shifts."""
    turns = xp.asarray(np.geomspace(1e-6, 1.0, 30))
    theta = turns * (math.pi / (2 * own.a))
    s = c * xp.cos(own.a * theta) + y[:, None] * xp.sin(own.a * theta)
    upper, _ = log_means(own, s.reshape(-1))
    bound = own.t * (0.5 * theta**2 + upper.reshape(s.shape)) + c - s
    bound = bound + 64 * ULP * (xp.abs(c) + xp.abs(s) + own.t * theta**2)
    return xp.min(xp.where(xp.isnan(bound), c, bound), 1)


def _extent(own, c, k, step, log_c, spread):
    """(ends of blocks of nodes, the last frequency, log of a bound of |N| beyond,
    log of the integral of that over log y).
    """
    octaves = xp.asarray(2.0 ** np.arange(33))
    if xp.any_jax(own, c, k):
        count = _NODES
    else:
        counts = np.round(_FIRST * 2 ** (np.arange(0, 61) / 4)).astype(int)
        cap = max(_FIRST, min(_MOST, _WORK // own.weight.size))
        counts = counts[counts <= cap]
        goal = log_c - 39.0 - math.log(c) if k < 0 else math.log(spread) - 41.0 - c * k
        low, high = 0, len(counts) - 1
        while low < high:  # the bound falls
            middle = (low + high) // 2
            y = counts[middle] * step
            if log_bounds(own, c, np.array([y]))[0] - math.log(y) <= goal:
                high = middle
            else:
                low = middle + 1
        count = int(counts[low])
    last = count * step
    ends = -xp.running_max(-log_bounds(own, c, last * octaves))
    # beyond them e^-x <= 1/(e x) and E 1/L = e^(a^2): the bound falls as y^-t, t >= 1
    fall = xp.logaddexp(xp.logsumexp(ends) + math.log(math.log(2.0)), ends[-1] + 0.0)
    edges = [0, _FIRST]
    while edges[-1] < count:
        edges.append(min(2 * edges[-1], count))
    return edges, last, ends[0], fall


def integrals(found, k):
    """The `Integrals` at K = 1 + k, near what the line was placed for."""
    c, z, right = found.c, found.z, k >= 0
    log_scale = xp.where(right, 0.0, c * k + found.log_c)
    weight, size, away = found.step / math.pi, xp.exp(found.log_n.real), xp.abs(z)
    width = _RESOLVED / found.last
    normal = 0.5 * (width * z) ** 2
    exponent = z * k - log_scale
    near, other = (_expm1(xp.where(right, value, 0.0)) for value in (found.log_n, normal))
    kernel = xp.exp(xp.where(right, exponent.real, (exponent + found.log_n).real))
    angle = xp.where(right, exponent.imag, (exponent + found.log_n).imag)
    kernel, turn = xp.stop_gradient(kernel), kernel * xp.make_complex(xp.cos(angle), xp.sin(angle))
    body = xp.where(right, near - other, xp.ones_like(near))
    terms = turn * body
    # of exponents, of N, and of the difference
    steps = 20 + 2 * xp.abs(z * k)
    wrong = xp.where(
        right,
        size * found.error
        + 8
        * ULP
        * (
            xp.minimum(xp.abs(found.log_n), 3.0) * xp.maximum(size, 1.0)
            + 2 * xp.minimum(xp.abs(normal), 3.0)
        )
        + ULP * steps * xp.abs(body),
        found.error + ULP * (steps + 2 * xp.abs(found.log_n) + xp.abs(log_scale)),
    )
    gain, mass = (weight * xp.sum((terms / power).real) for power in (z**2, z))
    gain_error, mass_error = (weight * xp.sum(kernel * wrong / power) for power in (away**2, away))
    # beyond the last frequency
    beyond = xp.where(right, c * k, c * k - log_scale)
    fallen = xp.where(right, beyond + 0.5 * width**2 * c**2 - 0.5 * _RESOLVED**2, -xp.inf)
    for_gain = xp.logaddexp(beyond + found.log_end, fallen) - xp.log(found.last)
    for_mass = xp.logaddexp(beyond + found.log_fall, fallen)
    aside = _aliases(found, k, log_scale, width)
    gain_error = gain_error + aside[0] + xp.exp(xp.minimum(for_gain, 600.0)) / math.pi
    mass_error = mass_error + aside[1] + xp.exp(xp.minimum(for_mass, 600.0)) / math.pi
    # of the normal variable; P(M > K) = P(G > K) - the integral
    u = xp.maximum(k, 0.0) / width
    density = xp.exp(-0.5 * u * u - 0.5 * math.log(2 * math.pi))
    above = xp.exp(mills_tails(u)[0])
    known = width * (density - u * above)
    gain = xp.where(right, gain + known, gain)
    mass = xp.where(right, above - mass, mass)
    gain_error = gain_error + xp.where(right, 16 * ULP * width * density * (1 + u * u), 0.0)
    mass_error = mass_error + xp.where(right, 16 * ULP * above * (1 + u * u), 0.0)
    return Integrals(log_scale, gain, mass, *xp.stop_gradient((gain_error, mass_error)))


def _expm1(value):
    """e^value - 1, complex."""
    re, im = value.real, value.imag
    return xp.make_complex(
        xp.expm1(re) * xp.cos(im) - 2 * xp.sin(0.5 * im) ** 2, xp.exp(re) * xp.sin(im)
    )


def _aliases(found, k, log_scale, width):
    """Bounds of sum_(j != 0) e^(-c j W) Put(K + j W), and of P(M < .), in units of the scale; in
    the right tail of what Put, and P, differ by from those of G.
    """
    c, period, right = found.c, 2 * math.pi / found.step, k >= 0
    ratio = xp.exp(-c * period)
    sure = ratio / (1 - ratio)
    tilts = xp.asarray(_TILTS)
    s = c * tilts
    # Chernoff at s, summed: beyond s < c to the right, s > c to the left
    log_rest = -xp.abs(s - c) * period
    rest = log_rest - xp.log1p(-xp.exp(log_rest)) - log_scale + s * k
    of_m, of_g = rest + found.logs, rest + 0.5 * (s * width) ** 2

    def least(value, side, other):
        best = xp.min(xp.where(side & ~xp.isnan(value), value, xp.inf))
        return xp.minimum(xp.exp(xp.minimum(best, 600.0)), other)

    unit = xp.exp(xp.minimum(-log_scale, 600.0))
    none = xp.where(period > (1 + k) * (1 + 1e-9), 0.0, xp.inf)
    under, over = tilts > 1, (tilts < 1) & ~right
    spread = 0.5 * found.spread + xp.where(right, width, 0.0)

    def total(less, plain):
        left = least(of_m - less, under, none)
        left = left + xp.where(right, least(of_g - less, under, xp.inf), 0.0)
        return left + least(of_m - less, over, plain * unit)

    return total(1 + xp.log(s), sure * spread), total(0.0, sure)
