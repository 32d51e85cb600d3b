"""The folded normal law: |c + Y| for a standard normal Y (the square root of ncx2 with df = 1, nc = c^2)."""

import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import NONNEGATIVE
from jaxpriv.stats._chi_square import quantile
from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp, log_cosh
from jaxpriv.stats._mills import log_density, normal

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _logpdf(x, c):
    """log(pdf(x-c) + pdf(x+c)) = log pdf(x-c) + log(1 + exp(-2xc))."""
    return jnp.where(x >= 0, log_density(x - c) + jnp.log1p(jnp.exp(-2 * jnp.maximum(x, 0.0) * c)), -jnp.inf)


def _logsf(x, c):
    x = jnp.maximum(x, 0.0)
    finite = x < jnp.inf
    x = jnp.where(finite, x, 1.0)
    near, far = normal(x - c)[0], normal(x + c)[0]
    return jnp.where(finite, near + jnp.log1p(jnp.exp(far - near)), -jnp.inf)


def _logcdf(x, c):
    """Where cdf(x-c) - cdf(-x-c) would cancel, the integral 2 exp(-c^2/2) int_0^x pdf(u) cosh(cu) du by Gauss-Legendre."""
    inside = x > 0
    x = jnp.where(inside, x, 1.0)
    close = x * jnp.maximum(c, 1.0) < 1.0
    x_close = jnp.where(close, x, 0.0)
    u = x_close[..., None] * (0.5 * (1 + _NODES)).astype(x.dtype)
    cu = jnp.where(close, c, 0.0)[..., None] * u
    mean = jnp.sum(_WEIGHTS.astype(x.dtype) * jnp.exp(-0.5 * u * u + log_cosh(cu)), -1)  # 2 times the mean over [0, x]
    near = jnp.log(jnp.where(close, x, 1.0)) + log_density(c) + jnp.log(mean)
    x_apart = jnp.where(close, 1.0 / jnp.maximum(c, 1.0), x)
    larger = normal(x_apart - c)[1]
    apart = larger + log1mexp(normal(-x_apart - c)[1] - larger)
    return jnp.where(inside, jnp.where(close, near, apart), -jnp.inf)


def _quantile(log_upper, log_lower, c):
    return jnp.sqrt(quantile(log_upper, log_lower, jnp.ones_like(c), c * c))


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
    support="x >= 0",
    source="closed form; quantiles from ncx2.",
    example=Example(2.0, (1.0,), "-1.401", "0.2464", "-0.1744", "0.84", "-1.833", "0.16", "0.5172", "1.686", "9.381e-05", "4.914"),
)
