"""Normal tails through Mills' ratio m(x) = sf(x)/pdf(x) = sqrt(pi/2) erfcx(x/sqrt 2).

For y > 0, erfcx(y) = (y/pi) int exp(-v^2)/(y^2+v^2) dv. The midpoint rule with step h on this
integral is exact but for the pole at v = iy, whose share is known: erfcx(y) = (2hy/pi) sum_k
exp(-v_k^2)/(y^2+v_k^2) + 2 exp(y^2)/(1+exp(2 pi y/h)), v_k = (k+1/2) h, with an error of
exp(-pi^2/h^2) (Goodwin 1949; Matta and Reichel 1971). h = 1/2 leaves 7e-18.
"""

import math

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import exprel

_H = 0.5
_SQUARES = ((np.arange(13) + 0.5) * _H) ** 2
_NODES = _SQUARES, 2 * _H / math.pi * np.exp(-_SQUARES)  # v^2, weight
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def log_density(x):
    return -0.5 * x * x - _HALF_LOG_TWO_PI


def _erfcx(y):
    """exp(y^2) erfc(y) for y >= 0."""
    square = y * y
    far = y > 1.0
    # y/(y^2+v^2) as 1/(y + v^2/y) for large y, where y^2 may overflow.
    y_far = xp.where(far, y, 1.0)
    y_near = xp.where(far, 0.0, y)

    def term(v2, weight):
        return xp.where(
            far, weight / (y_far + v2 / y_far), weight * y_near / (y_near * y_near + v2)
        )

    pole_seen = y < math.pi / _H
    growth = xp.where(pole_seen, square - 2 * math.pi / _H * y, -xp.inf)
    return xp.summed(term, _NODES, y) + 2 * xp.exp(growth) / (1 + xp.exp(-2 * math.pi / _H * y))


@xp.custom_jvp
def _normal(x):
    """(log sf, log cdf, log sf/pdf, log cdf/pdf) of the standard normal law at any real x."""
    size = xp.minimum(xp.abs(x), 0.1 * xp.finfo(x.dtype).max)  # so that 1/x is a normal float
    mills = math.sqrt(math.pi / 2) * _erfcx(size * math.sqrt(0.5))
    logpdf = log_density(x)
    log_mills = xp.log(mills)
    small = logpdf + log_mills
    large = xp.log1p(-xp.exp(small))
    upper = x >= 0
    far = large - logpdf
    return (xp.where(upper, small, large), xp.where(upper, large, small),
            xp.where(upper, log_mills, far), xp.where(upper, far, log_mills))


normal = xp.jit(_normal)  # traced and lowered once for all callers of a shape


@_normal.defjvp
def _normal_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    values = normal(x)
    finite = xp.isfinite(x)
    safe = xp.where(finite, x, 0.0)
    _, _, upper, lower = normal(safe)
    dlogsf = xp.where(finite, -xp.exp(-upper), 0.0) * dx
    dlogcdf = xp.where(finite, xp.exp(-lower), 0.0) * dx
    return values, (dlogsf, dlogcdf, dlogsf + safe * dx, dlogcdf + safe * dx)


def _mills_drop(low, high, width):
    """(m(low) - m(high))/width for 0 <= low <= high = low + width, relative to itself.

    Both parts of `_erfcx` are differenced term by term. The width is given, for high - low would
    lose its digits, and divided out, for it may be as small as any number.
    """
    bound = 1e100 if low.dtype == xp.float64 else 1e15
    y, x = (xp.minimum(v, bound) * math.sqrt(0.5) for v in (low, high))
    width = xp.minimum(width, bound) * math.sqrt(0.5)

    def term(v2, weight):
        # y/(y^2+v^2) - x/(x^2+v^2), each factor divided by x + 1 so that nothing overflows
        top = y * (x / (x + 1)) - v2 / (x + 1)
        return weight * top / ((y * y + v2) * ((x * x + v2) / (x + 1)))

    total = xp.summed(term, _NODES, y)
    # pole term 2/D(y), D(y) = exp(-y^2) + exp(cy - y^2), c = 2 pi/h;
    # it is below rounding for y > c/2
    c = 2 * math.pi / _H
    inside = x < c / 2
    gap = xp.where(inside, width, xp.minimum(x, c / 2) - xp.minimum(y, c / 2))
    share = xp.where(inside, 1.0, gap / xp.where(width > 0, width, 1.0))
    y, x = xp.minimum(y, c / 2), xp.minimum(x, c / 2)

    def d(v):
        return xp.exp(-v * v) + xp.exp(c * v - v * v)

    fall = (x + y) * xp.exp(-y * y) * exprel(-gap * (x + y))
    rise = (c - x - y) * xp.exp(c * y - y * y) * exprel(gap * (c - x - y))
    return math.sqrt(math.pi) / 2 * (total + 2 * share * (rise - fall) / d(x) / d(y))


_SMALL = 1e-3  # of mu: it is divided out, so that what is proportional to it keeps its digits


@xp.jit
def log_mills_gap(eps, mu):
    """log(sf(a) - e^eps sf(b)), a = eps/mu - mu/2,
    b = a + mu: the privacy profile of N(mu, 1), mu > 0.

    Without cancellation anywhere: pdf(a) (m(a) - m(b)), and with m(x) + m(-x) = sqrt(2 pi)
    exp(x^2/2) every case is a sum of positive terms (A = |a|, B = |b|), times pdf(a):
        0 <= a        m(a) - m(b)
        a < 0 <= b    sqrt(2 pi) (exp(a^2/2) - 1) + (m(0) - m(A)) + (m(0) - m(B)),    A + B = mu
        b < 0         sqrt(2 pi) (exp(a^2/2) - exp(b^2/2)) + (m(B) - m(A)),           A - B = mu
    where exp((b^2 - a^2)/2) is e^eps, of which a and b themselves would not keep enough.
    """
    a = eps / mu - mu / 2
    b = a + mu
    size_a, size_b = xp.abs(a), xp.abs(b)
    right, left = a >= 0, b < 0
    middle = ~(right | left)
    zero = xp.zeros_like(a)
    low = xp.where(right, a, xp.where(left, size_b, zero))
    high = xp.where(right, b, size_a)
    first = _mills_drop(low, high, xp.where(middle, size_a, mu))
    second = xp.where(
        middle, _mills_drop(zero, xp.where(middle, b, zero), xp.where(middle, b, zero)), 0.0
    )
    density = xp.exp(log_density(xp.where(right, zero, a)))
    # the exponent of what the negative side adds, -a^2/2 or eps, over mu; and the drops over mu
    turn = xp.where(left, eps, -0.5 * a * a)
    share_a = xp.where(middle, xp.clip(size_a / mu, 0.0, 1.0), 1.0)
    share_b = xp.where(middle, xp.clip(b / mu, 0.0, 1.0), 0.0)
    drops = density * (share_a * first + share_b * second)
    # beyond, or where eps/mu is no number, 1 - e^eps needs no help
    small = (mu < _SMALL) & (xp.abs(eps) < 1) & xp.isfinite(a)
    steep = xp.where(small & ~right, xp.where(left, -eps / mu, 0.5 * size_a * share_a), 0.0)
    scaled = steep * exprel(xp.where(small & ~right, turn, 0.0)) + drops
    whole = -xp.expm1(xp.where(right, 0.0, turn)) + xp.where(small, 0.0, mu) * drops
    log_mu = xp.log(mu)
    negative = xp.where(
        small, log_mu + _log_of(xp.where(small, scaled, 1.0)), _log_of(xp.where(small, 1.0, whole))
    )
    positive = log_density(a) + log_mu + _log_of(xp.where(right, first, 1.0))
    return xp.where(right, positive, negative)


def _log_of(value):
    return xp.log(xp.maximum(value, 0.0))


@xp.custom_jvp
def _upper_quantile(logp):
    """x >= 0 with log sf(x) = logp <= log 1/2: Abramowitz and Stegun 26.2.23,
    then Halley on the (concave) log tail.
    """
    t = xp.sqrt(-2 * logp)
    x = t - (2.515517 + t * (0.802853 + 0.010328 * t)) / (
        1 + t * (1.432788 + t * (0.189269 + 0.001308 * t))
    )
    x = xp.maximum(x, 0.0)

    def halley(x):
        logsf, _, log_mills, _ = normal(x)
        mills = xp.exp(log_mills)
        step = (logsf - logp) * mills  # -f/f', f' = -1/m
        return xp.maximum(x + step / (1 + 0.5 * step * (1 / mills - x)), 0.0)

    return xp.refined(halley, x, 4, 1e-6)


upper_quantile = xp.jit(_upper_quantile)


@_upper_quantile.defjvp
def _upper_quantile_jvp(primals, tangents):
    (logp,), (dlogp,) = primals, tangents
    x = upper_quantile(logp)
    return x, -xp.exp(normal(x)[2]) * dlogp
