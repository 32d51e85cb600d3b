"""Both tails of the binomial law, in logarithms, by the probability of success.

P(Bin(n, p) >= k) = P(X <= p) for X of the Beta(a, b) law, a = k, b = n-k+1. By log odds its density
is p^a (1-p)^b/B(a, b); t below those of p it is e^h(t) times that at p,

    h(t) = -(a - (n+1) p) t - (n+1) g(t),    g(t) = log(1 - p + p e^-t) + p t >= 0,

which for a > (n+1) p falls from 0 on, and is concave: the tail is an integral of what is positive
and smooth. For a < (n+1) p it is the other tail, with a and b, p and 1-p exchanged, that is small.
"""

import math

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log1mexp

_LEFT_OUT = 50.0  # minus the logarithm of the density, relative to that at p, where the rule ends
_PANELS = 8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_SERIES = 0.1  # below which differences are summed up as series
_LARGE = 16.0  # from which on Stirling's series has all its digits


def log_tails(p, successes, trials):
    """(log P(Bin(trials, p) >= successes), log P(Bin(trials, p) < successes), by how many ulp both
    probabilities may be off, relative to themselves).

    p: in (0, 1). successes, trials: whole numbers, 0 < successes <= trials. Arrays of one shape.
    """
    a, b, n = successes, trials - successes + 1, trials + 1
    lean = a - n * p
    low = lean >= 0
    share, rest = xp.where(low, p, 1 - p), xp.where(low, 1 - p, p)
    fall = xp.abs(lean)
    end = xp.stop_gradient(_end(fall, n, share, rest))
    panel = np.arange(_PANELS)[:, None]
    points = ((panel + 0.5 * (1 + _NODES)) / _PANELS).ravel()
    weights = np.tile(0.5 * _WEIGHTS / _PANELS, _PANELS)
    shape = (-1,) + (1,) * xp.ndim(p)
    t = xp.asarray(points, p.dtype).reshape(shape) * end
    height = -fall * t - n * _bend(share, rest, t)
    integral = xp.sum(xp.asarray(weights, p.dtype).reshape(shape) * xp.exp(height), 0) * end
    small = log_density(p, 1 - p, a, b) + xp.log(integral)
    small = xp.minimum(small, -xp.finfo(p.dtype).tiny)
    large = log1mexp(small)
    # every rounding of n p, of the deviances, of h: p itself is exact
    doubt = 1024 + 32 * xp.abs(small) + 8 * (fall + n * p * end)
    return xp.where(low, small, large), xp.where(low, large, small), xp.stop_gradient(doubt)


def _end(fall, n, share, rest):
    """The t at which h(t) is about -50: Newton on a convex function, after its first step from the
    right.
    """
    t = xp.minimum(_LEFT_OUT / xp.maximum(fall, 1e-3),
                   xp.sqrt(2 * _LEFT_OUT / (n * share * rest)))
    for _ in range(10):
        slope = fall + n * share * rest * -xp.expm1(-t) / (rest + share * xp.exp(-t))
        t = t - (fall * t + n * _bend(share, rest, t) - _LEFT_OUT) / slope
    return t


def _bend(p, q, t):
    """g(t), q = 1 - p, as log(1 + v) less the part of v that is linear in t; v is p (e^-t - 1), or
    q (e^t - 1) once e^-t is taken out. Where v is small no terms of first order are formed.
    """
    low = p < 0.5
    share, x = xp.where(low, p, q), xp.minimum(xp.where(low, -t, t), 600.0)
    v = share * xp.expm1(x)
    near = xp.abs(v) < _SERIES
    w = xp.where(near, v, 0.0)
    series = xp.zeros_like(w)
    for k in range(17, 1, -1):
        series = (-1.0) ** (k + 1) / k + w * series
    far = xp.log1p(xp.where(near, 0.0, v)) - share * x
    return xp.where(near, w * w * series + share * _expm1_less(x), far)


def _expm1_less(t):
    """e^t - 1 - t."""
    near = xp.abs(t) < _SERIES
    w = xp.where(near, t, 0.0)
    series = xp.zeros_like(w)
    for k in range(12, 1, -1):
        series = 1 / math.factorial(k) + w * series
    return xp.where(near, w * w * series, xp.expm1(xp.where(near, 0.0, t)) - t)


def log_density(x, y, a, b):
    """log x^a y^b/B(a, b), y = 1 - x: of the Beta(a, b) law by log odds; its large terms are taken
    together.
    """
    return at_mean(a, b) - deviances(x, y, a, b)


def at_mean(a, b):
    """`log_density` where a = n x, n = a + b: with Stirling's remainder
    r(z) = log Gamma(z) - (z - 1/2) log z + z - log(2 pi)/2 it is
    log(a b/(2 pi n))/2 + r(n) - r(a) - r(b).
    """
    n = a + b
    rest = _stirling(n) - _stirling(a) - _stirling(b)
    return 0.5 * xp.log(a * (b / (2 * math.pi * n))) + rest


def deviances(x, y, a, b):
    """How far `log_density` is below: of a from n x and of b from n y."""
    return deviance(a, (a + b) * x) + deviance(b, (a + b) * y)


def deviance(k, m):
    """k log(k/m) + m - k, without cancellation where k is near m (Loader 2000)."""
    v = (k - m) / (k + m)
    near = xp.abs(v) < 0.1
    w = xp.where(near, v, 0.0)
    # log(k/m) = 2 artanh(v) = 2 (v + v series)
    series = xp.zeros_like(w)
    for j in range(8, 0, -1):
        series = w * w * (1 / (2 * j + 1) + series)
    return xp.where(near, (k - m) * w + 2 * k * (w * series), k * xp.log(k / m) + m - k)


def _stirling(z):
    """Stirling's remainder of log Gamma: carried down from large z by r(z) = r(z+1) + (z + 1/2)
    log(1 + 1/z) - 1.
    """
    below = z + np.arange(_LARGE, dtype=xp.result_type(z)).reshape((-1,) + (1,) * xp.ndim(z))
    small = below < _LARGE
    steps = xp.where(small, (below + 0.5) * xp.log1p(1 / below) - 1, 0.0)
    carried, z = xp.sum(steps, 0), z + xp.sum(small, 0)
    w = 1 / (z * z)
    return carried + (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w / 1680))) / z
