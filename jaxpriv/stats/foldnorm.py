"""The folded normal law: |c + Y| for a standard normal Y (the square root of ncx2 with
df = 1, nc = c^2).
"""

import math

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE
from jaxpriv.stats._chi_square import quantile
from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp, log_cosh
from jaxpriv.stats._mills import log_density, normal

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _logpdf(x, c):
    """log(pdf(x-c) + pdf(x+c)), by 2 pdf(x) exp(-c^2/2) cosh(cx) where that is smooth in c and by
    the larger term elsewhere.
    """
    smooth = c * x < 1
    even = log_density(x) - 0.5 * c * c + math.log(2.0) + log_cosh(xp.where(smooth, c * x, 0.0))
    return xp.where(smooth, even, log_density(x - c) + xp.log1p(xp.exp(-2 * c * x)))


def _upper(x, c):
    """(log sf, log pdf(x-c)/sf); the tail by the smaller of the two,
    for relative accuracy near 1.
    """
    near, _, mills_near, _ = normal(x - c)
    # log sf(x+c)/sf(x-c), without the squares that the two tails share
    share = xp.log1p(xp.exp(normal(x + c)[2] - mills_near - 2 * c * x))
    log_sf = near + share
    log_cdf = _logcdf(x, c)
    log_sf = xp.where(log_cdf < -math.log(2.0), xp.log1p(-xp.exp(log_cdf)), log_sf)
    return log_sf, -mills_near - share


@xp.custom_jvp
def _logsf(x, c):
    return _upper(x, c)[0]


@xp.custom_jvp
def _logcdf(x, c):
    """Where cdf(x-c) - cdf(-x-c) would cancel, the integral 2 exp(-c^2/2) int_0^x pdf(u) cosh(cu)
    du by Gauss-Legendre.
    """
    close = x * xp.maximum(c, 1.0) < 1.0
    x_close = xp.where(close, x, 0.0)
    u = x_close[..., None] * (0.5 * (1 + _NODES)).astype(x.dtype)
    cu = xp.where(close, c, 0.0)[..., None] * u
    # 2 times the mean over [0, x]
    mean = xp.sum(_WEIGHTS.astype(x.dtype) * xp.exp(-0.5 * u * u + log_cosh(cu)), -1)
    near = xp.log(xp.where(close, x, 1.0)) + log_density(c) + xp.log(mean)
    x_apart = xp.where(close, 1.0 / xp.maximum(c, 1.0), x)
    larger = normal(x_apart - c)[1]
    apart = larger + log1mexp(normal(-x_apart - c)[1] - larger)
    return xp.where(close, near, apart)


def _tail_jvp(log_density_share, sign):
    """d cdf/dx = pdf and d cdf/dc = pdf(x+c) - pdf(x-c) = pdf(x-c) (exp(-2cx) - 1), which as a
    difference would cancel.
    """

    def jvp(primals, tangents):
        (x, c), (dx, dc) = primals, tangents
        value, log_share = log_density_share(x, c)
        return value, sign * xp.exp(log_share) * (
            (1 + xp.exp(-2 * c * x)) * dx + xp.expm1(-2 * c * x) * dc
        )

    return jvp


def _lower(x, c):
    """(log cdf, log pdf(x-c)/cdf)."""
    value = _logcdf(x, c)
    return value, log_density(x - c) - value


_logsf.defjvp(_tail_jvp(_upper, -1))
_logcdf.defjvp(_tail_jvp(_lower, 1))


def _quantile(log_upper, log_lower, c):
    """By ncx2 and, where its x^2 would underflow, by cdf = 2 pdf(c) x."""
    log_x = log_lower - math.log(2.0) - log_density(c)
    linear = log_x + xp.log1p(c) < math.log(1e-9)
    square = quantile(log_upper, xp.where(linear, -1.0, log_lower), xp.ones_like(c), c * c)
    return xp.where(linear, xp.exp(xp.where(linear, log_x, 0.0)), xp.sqrt(square))


logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="folded normal law of |c + Y|, Y standard normal",
    kernels={
        "logpdf": _logpdf,
        "logcdf": _logcdf,
        "logsf": _logsf,
        "ppf_exp": lambda logp, c: _quantile(log1mexp(logp), logp, c),
        "isf_exp": lambda logp, c: _quantile(logp, log1mexp(logp), c),
    },
    shapes={"c": NONNEGATIVE},
    start=lambda c: math.log(2.0) + log_density(c),
    source="closed form; quantiles from ncx2.",
    example=Example(
        2.0, (1.0,), "-1.401", "0.2464", "-0.1744", "0.84", "-1.833", "0.16", "0.5172", "1.686",
        "9.381e-05", "4.914",
    ),
)
