"""Normal tails through Mills' ratio m(x) = sf(x)/pdf(x) = sqrt(pi/2) erfcx(x/sqrt 2).

For y > 0, erfcx(y) = (y/pi) int exp(-v^2)/(y^2+v^2) dv. The midpoint rule with step h on this integral is exact but for
the pole at v = iy, whose share is known: erfcx(y) = (2hy/pi) sum_k exp(-v_k^2)/(y^2+v_k^2) + 2 exp(y^2)/(1+exp(2 pi y/h)),
v_k = (k+1/2) h, with an error of exp(-pi^2/h^2) (Goodwin 1949; Matta and Reichel 1971). h = 1/2 leaves 7e-18.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

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


def _mills_drop(low, high):
    """m(low) - m(high) for 0 <= low <= high, relative to itself: both parts of `_erfcx` are differenced term by term."""
    bound = 1e100 if low.dtype == jnp.float64 else 1e15
    y, x = (jnp.minimum(v, bound) * math.sqrt(0.5) for v in (low, high))
    width = (jnp.minimum(high, bound) - jnp.minimum(low, bound)) * math.sqrt(0.5)
    total = jnp.zeros_like(y)
    for v2, weight in zip(_V2, _WEIGHTS):
        # y/(y^2+v^2) - x/(x^2+v^2), each factor divided by x + 1 so that nothing overflows
        total = total + weight * (y * (x / (x + 1)) - v2 / (x + 1)) / ((y * y + v2) * ((x * x + v2) / (x + 1)))
    # pole term 2/D(y), D(y) = exp(-y^2) + exp(cy - y^2), c = 2 pi/h; it is below rounding for y > c/2
    c = 2 * math.pi / _H
    gap = jnp.minimum(x, c / 2) - jnp.minimum(y, c / 2)
    gap = jnp.where(x < c / 2, width, gap)
    y, x = jnp.minimum(y, c / 2), jnp.minimum(x, c / 2)

    def d(v):
        return jnp.exp(-v * v) + jnp.exp(c * v - v * v)

    rise = jnp.exp(-y * y) * jnp.expm1(-gap * (x + y)) + jnp.exp(c * y - y * y) * jnp.expm1(gap * (c - x - y))
    return math.sqrt(math.pi / 2) * (total * width + 2 * rise / d(x) / d(y))


@jax.jit
def log_mills_gap(a, b):
    """log of pdf(a) (m(a) - m(b)) = sf(a) - exp((b^2-a^2)/2) sf(b) for a <= b, without cancellation anywhere.

    With m(x) + m(-x) = sqrt(2 pi) exp(x^2/2) every case is a sum of positive terms (A = |a|, B = |b|), times pdf(a):
        0 <= a        m(a) - m(b)
        a < 0 <= b    sqrt(2 pi) (exp(a^2/2) - 1) + (m(0) - m(A)) + (m(0) - m(B))
        b < 0         sqrt(2 pi) (exp(a^2/2) - exp(b^2/2)) + (m(B) - m(A))
    """
    size_a, size_b = jnp.abs(a), jnp.abs(b)
    right, left = a >= 0, b < 0
    zero = jnp.zeros_like(a)
    first = _mills_drop(jnp.where(right, a, jnp.where(left, size_b, zero)), jnp.where(right, b, size_a))
    second = jnp.where(right | left, zero, _mills_drop(zero, jnp.where(right | left, zero, b)))
    low_end = jnp.where(left, b, zero)
    lift = -jnp.expm1(0.5 * (low_end - a) * (low_end + a))
    negative = jnp.where(right, 1.0, lift + jnp.exp(log_density(jnp.where(right, zero, a))) * (first + second))
    return jnp.where(right, log_density(a) + jnp.log(jnp.where(right, first, 1.0)), jnp.log(negative))


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
