"""Elementary functions that keep their last digits, and gradients without NaN, where the textbook form cancels."""

import math

import jax.numpy as jnp


def log1mexp(x):
    """log(1 - exp(x)) for x <= 0, exact at both ends (Maechler's switch at -log 2); NaN for x > 0."""
    near = x > -math.log(2.0)
    near_zero = jnp.where(near, x, -1.0)
    far = jnp.where(near, -1.0, x)
    return jnp.where(near, jnp.log(-jnp.expm1(near_zero)), jnp.log1p(-jnp.exp(far)))


def exprel(x):
    """(e^x - 1)/x, 1 at 0: what is left of expm1 when a factor is taken out before it can underflow."""
    some = jnp.abs(x) > 1e-290 if x.dtype == jnp.float64 else jnp.abs(x) > 1e-30
    safe = jnp.where(some, x, 1.0)
    return jnp.where(some, jnp.expm1(safe) / safe, 1.0)


def log_plus_reciprocal(z, e):
    """log z + 1/z - 1 for z > 0, given e = z - 1 without cancellation: about e^2/2 near z = 1.

    With y = e/(2+e): log z = 2 artanh y and 1 - 1/z = 2y/(1+y), so it is 2 (y^2/(1+y) + y^3/3 + y^5/5 + ...).
    """
    near = jnp.abs(e) < 0.5
    e_near = jnp.where(near, e, 0.0)
    y = e_near / (2 + e_near)
    square = y * y
    series = jnp.zeros_like(square)
    for k in range(27, 1, -2):
        series = series * square + 1.0 / k
    z_far = jnp.where(near, 2.0, z)
    return jnp.where(near, 2 * square * (1 / (1 + y) + y * series), jnp.log(z_far) + (1 / z_far - 1))


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
    m, k = jnp.frexp(z)
    k = k.astype(z.dtype)
    first = jnp.round(factor * 2048) / 2048
    total, lost = two_sum(first * (k * 0.6875), large)
    rest = k * (math.log(2.0) - 0.6875) + jnp.log(m)
    return total + (lost + (factor - first) * (k * 0.6875) + factor * rest + small)


def log_cosh(x):
    """log cosh x for x >= 0, about x^2/2 near 0."""
    near = x < 1.0
    half = jnp.sinh(jnp.where(near, x, 0.0) / 2)
    return jnp.where(near, jnp.log1p(2 * half * half), x + jnp.log1p(jnp.exp(-2 * x)) - math.log(2.0))
