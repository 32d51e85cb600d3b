"""Normal tails through Mills' ratio m(x) = sf(x)/pdf(x) = sqrt(pi/2) erfcx(x/sqrt 2).

For y > 0, erfcx(y) = (y/pi) int exp(-v^2)/(y^2+v^2) dv. The midpoint rule with step h on this integral is exact but for
the pole at v = iy, whose share is known: erfcx(y) = (2hy/pi) sum_k exp(-v_k^2)/(y^2+v_k^2) + 2 exp(y^2)/(1+exp(2 pi y/h)),
v_k = (k+1/2) h, with an error of exp(-pi^2/h^2) (Goodwin 1949; Matta and Reichel 1971). h = 1/2 leaves 7e-18.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.stats._logspace import exprel

_H = 0.5
_SQUARES = ((np.arange(13) + 0.5) * _H) ** 2
_WEIGHTS = (2 * _H / math.pi * np.exp(-_SQUARES)).tolist()
_V2 = _SQUARES.tolist()
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def log_density(x):
    return -0.5 * x * x - _HALF_LOG_TWO_PI


def _erfcx(y):
    """exp(y^2) erfc(y) for y >= 0."""
    square = y * y
    far = y > 1.0
    # y/(y^2+v^2) as 1/(y + v^2/y) for large y, where y^2 may overflow.
    y_far = jnp.where(far, y, 1.0)
    y_near = jnp.where(far, 0.0, y)
    total = jnp.zeros_like(y)
    for v2, weight in zip(_V2, _WEIGHTS):
        total = total + jnp.where(far, weight / (y_far + v2 / y_far), weight * y_near / (y_near * y_near + v2))
    pole_seen = y < math.pi / _H
    growth = jnp.where(pole_seen, square - 2 * math.pi / _H * y, -jnp.inf)
    return total + 2 * jnp.exp(growth) / (1 + jnp.exp(-2 * math.pi / _H * y))


@jax.custom_jvp
def _normal(x):
    """(log sf, log cdf, log sf/pdf, log cdf/pdf) of the standard normal law at any real x."""
    size = jnp.minimum(jnp.abs(x), 0.1 * jnp.finfo(x.dtype).max)  # so that 1/x is a normal float
    mills = math.sqrt(math.pi / 2) * _erfcx(size * math.sqrt(0.5))
    logpdf = log_density(x)
    log_mills = jnp.log(mills)
    small = logpdf + log_mills
    large = jnp.log1p(-jnp.exp(small))
    upper = x >= 0
    far = large - logpdf
    return (jnp.where(upper, small, large), jnp.where(upper, large, small),
            jnp.where(upper, log_mills, far), jnp.where(upper, far, log_mills))


normal = jax.jit(_normal)  # traced and lowered once for all callers of a shape


@_normal.defjvp
def _normal_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    values = normal(x)
    finite = jnp.isfinite(x)
    safe = jnp.where(finite, x, 0.0)
    _, _, upper, lower = normal(safe)
    dlogsf = jnp.where(finite, -jnp.exp(-upper), 0.0) * dx
    dlogcdf = jnp.where(finite, jnp.exp(-lower), 0.0) * dx
    return values, (dlogsf, dlogcdf, dlogsf + safe * dx, dlogcdf + safe * dx)


def _mills_drop(low, high, width):
    """(m(low) - m(high))/width for 0 <= low <= high = low + width, relative to itself.

    Both parts of `_erfcx` are differenced term by term. The width is given, for high - low would
    lose its digits, and divided out, for it may be as small as any number.
    """
    bound = 1e100 if low.dtype == jnp.float64 else 1e15
    y, x = (jnp.minimum(v, bound) * math.sqrt(0.5) for v in (low, high))
    width = jnp.minimum(width, bound) * math.sqrt(0.5)
    total = jnp.zeros_like(y)
    for v2, weight in zip(_V2, _WEIGHTS):
        # y/(y^2+v^2) - x/(x^2+v^2), each factor divided by x + 1 so that nothing overflows
        top = y * (x / (x + 1)) - v2 / (x + 1)
        total = total + weight * top / ((y * y + v2) * ((x * x + v2) / (x + 1)))
    # pole term 2/D(y), D(y) = exp(-y^2) + exp(cy - y^2), c = 2 pi/h; it is below rounding for y > c/2
    c = 2 * math.pi / _H
    inside = x < c / 2
    gap = jnp.where(inside, width, jnp.minimum(x, c / 2) - jnp.minimum(y, c / 2))
    share = jnp.where(inside, 1.0, gap / jnp.where(width > 0, width, 1.0))
    y, x = jnp.minimum(y, c / 2), jnp.minimum(x, c / 2)

    def d(v):
        return jnp.exp(-v * v) + jnp.exp(c * v - v * v)

    fall = (x + y) * jnp.exp(-y * y) * exprel(-gap * (x + y))
    rise = (c - x - y) * jnp.exp(c * y - y * y) * exprel(gap * (c - x - y))
    return math.sqrt(math.pi) / 2 * (total + 2 * share * (rise - fall) / d(x) / d(y))


_SMALL = 1e-3  # of mu: it is divided out, so that what is proportional to it keeps its digits


@jax.jit
def log_mills_gap(eps, mu):
    """log(sf(a) - e^eps sf(b)), a = eps/mu - mu/2, b = a + mu: the privacy profile of N(mu, 1), mu > 0.

    Without cancellation anywhere: pdf(a) (m(a) - m(b)), and with m(x) + m(-x) = sqrt(2 pi) exp(x^2/2)
    every case is a sum of positive terms (A = |a|, B = |b|), times pdf(a):
        0 <= a        m(a) - m(b)
        a < 0 <= b    sqrt(2 pi) (exp(a^2/2) - 1) + (m(0) - m(A)) + (m(0) - m(B)),    A + B = mu
        b < 0         sqrt(2 pi) (exp(a^2/2) - exp(b^2/2)) + (m(B) - m(A)),           A - B = mu
    where exp((b^2 - a^2)/2) is e^eps, of which a and b themselves would not keep enough.
    """
    a = eps / mu - mu / 2
    b = a + mu
    size_a, size_b = jnp.abs(a), jnp.abs(b)
    right, left = a >= 0, b < 0
    middle = ~(right | left)
    zero = jnp.zeros_like(a)
    low = jnp.where(right, a, jnp.where(left, size_b, zero))
    high = jnp.where(right, b, size_a)
    first = _mills_drop(low, high, jnp.where(middle, size_a, mu))
    second = jnp.where(middle, _mills_drop(zero, jnp.where(middle, b, zero), jnp.where(middle, b, zero)), 0.0)
    density = jnp.exp(log_density(jnp.where(right, zero, a)))
    # the exponent of what the negative side adds, -a^2/2 or eps, over mu; and the drops over mu
    turn = jnp.where(left, eps, -0.5 * a * a)
    share_a = jnp.where(middle, jnp.clip(size_a / mu, 0.0, 1.0), 1.0)
    share_b = jnp.where(middle, jnp.clip(b / mu, 0.0, 1.0), 0.0)
    drops = density * (share_a * first + share_b * second)
    small = mu < _SMALL
    steep = jnp.where(small & ~right, jnp.where(left, -eps / mu, 0.5 * size_a * share_a), 0.0)
    scaled = steep * exprel(jnp.where(small & ~right, turn, 0.0)) + drops
    whole = -jnp.expm1(jnp.where(right, 0.0, turn)) + jnp.where(small, 0.0, mu) * drops
    log_mu = jnp.log(mu)
    negative = jnp.where(small, log_mu + _log_of(jnp.where(small, scaled, 1.0)), _log_of(jnp.where(small, 1.0, whole)))
    positive = log_density(a) + log_mu + _log_of(jnp.where(right, first, 1.0))
    return jnp.where(right, positive, negative)


def _log_of(value):
    return jnp.log(jnp.maximum(value, 0.0))


@jax.custom_jvp
def _upper_quantile(logp):
    """x >= 0 with log sf(x) = logp <= log 1/2: Abramowitz and Stegun 26.2.23, then Halley on the (concave) log tail."""
    t = jnp.sqrt(-2 * logp)
    x = t - (2.515517 + t * (0.802853 + 0.010328 * t)) / (1 + t * (1.432788 + t * (0.189269 + 0.001308 * t)))
    x = jnp.maximum(x, 0.0)

    def halley(_, x):
        logsf, _, log_mills, _ = normal(x)
        mills = jnp.exp(log_mills)
        step = (logsf - logp) * mills  # -f/f', f' = -1/m
        return jnp.maximum(x + step / (1 + 0.5 * step * (1 / mills - x)), 0.0)

    return jax.lax.fori_loop(0, 4, halley, x)


upper_quantile = jax.jit(_upper_quantile)


@_upper_quantile.defjvp
def _upper_quantile_jvp(primals, tangents):
    (logp,), (dlogp,) = primals, tangents
    x = upper_quantile(logp)
    return x, -jnp.exp(normal(x)[2]) * dlogp
