"""Elementary functions that keep their last digits, and gradients without NaN,
where the textbook form cancels.
"""

import math

from jaxpriv import _array as xp


def log1mexp(x):
    """log(1 - exp(x)) for x <= 0, exact at both ends (Maechler's switch at
    -log 2); NaN for x > 0.
    """
    near = x > -math.log(2.0)
    near_zero = xp.where(near, x, -1.0)
    far = xp.where(near, -1.0, x)
    return xp.where(near, xp.log(-xp.expm1(near_zero)), xp.log1p(-xp.exp(far)))


def exprel(x):
    """(e^x - 1)/x, 1 at 0: what is left of expm1 when a factor is taken out
    before it can underflow.
    """
    some = xp.abs(x) > 1e-290 if x.dtype == xp.float64 else xp.abs(x) > 1e-30
    safe = xp.where(some, x, 1.0)
    return xp.where(some, xp.expm1(safe) / safe, 1.0)


def log_plus_reciprocal(z, e):
    """log z + 1/z - 1 for z > 0, given e = z - 1 without cancellation: about e^2/2 near z = 1.

    With y = e/(2+e): log z = 2 artanh y and 1 - 1/z = 2y/(1+y), so it is
    2 (y^2/(1+y) + y^3/3 + y^5/5 + ...).
    """
    near = xp.abs(e) < 0.5
    e_near = xp.where(near, e, 0.0)
    y = e_near / (2 + e_near)
    square = y * y
    series = xp.zeros_like(square)
    for k in range(27, 1, -2):
        series = series * square + 1.0 / k
    z_far = xp.where(near, 2.0, z)
    return xp.where(near, 2 * square * (1 / (1 + y) + y * series), xp.log(z_far) + (1 / z_far - 1))


def two_sum(a, b):
    """a + b as (rounded sum, exact error): Knuth's six operations."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def sum_with_log(factor, z, large, small):
    """factor log z + large + small for z > 0, where `large` may nearly cancel the logarithm.

    With z = 2^k m, l = 0.6875 and f the first digits of the factor, f k l is exact, so a two-sum
    finds what is lost when `large` is added (whether or not a compiler fuses products into sums):
    log z = k l + (k (log 2 - l) + log m).
    """
    m, k = xp.frexp(z)
    k = k.astype(z.dtype)
    first = xp.round(factor * 2048) / 2048
    total, lost = two_sum(first * (k * 0.6875), large)
    rest = k * (math.log(2.0) - 0.6875) + xp.log(m)
    return total + (lost + (factor - first) * (k * 0.6875) + factor * rest + small)


def log_cosh(x):
    """log cosh x for x >= 0, about x^2/2 near 0."""
    near = x < 1.0
    half = xp.sinh(xp.where(near, x, 0.0) / 2)
    return xp.where(near, xp.log1p(2 * half * half), x + xp.log1p(xp.exp(-2 * x)) - math.log(2.0))
