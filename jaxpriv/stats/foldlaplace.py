"""The folded Laplace law: |c + Y| for a standard Laplace Y (what a shifted release looks like by its magnitude).

density   e^-c cosh x  (x < c),    e^-x cosh c      (x >= c)
cdf       e^-c sinh x  (x < c),    1 - e^-x cosh c  (x >= c)
"""

import math

import jax.numpy as jnp

from jaxpriv._checks import NONNEGATIVE
from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp, log_cosh


def _log_cosh_above(c, x):
    """log cosh c - x for x >= c, keeping the digits of x - c when both are large."""
    near = c < 1.0
    return jnp.where(near, log_cosh(jnp.where(near, c, 0.0)) - x, (c - x) + jnp.log1p(jnp.exp(-2 * c)) - math.log(2.0))


def _log_sinh_below(x, c):
    """log sinh x - c for 0 < x < c."""
    return (x - c) + jnp.log(-jnp.expm1(-2 * x)) - math.log(2.0)


def _logpdf(x, c):
    before = (jnp.minimum(x, c) - c) + jnp.log1p(jnp.exp(-2 * x)) - math.log(2.0)
    return jnp.where(x < c, before, _log_cosh_above(c, jnp.maximum(x, c)))


def _both_logs(x, c):
    """(log sf, log cdf): the one of the two in closed form, the other as log(1 - it)."""
    beyond = x >= c
    upper = _log_cosh_above(c, jnp.where(beyond, x, c + 1.0))
    lower = _log_sinh_below(jnp.where(beyond, 1.0, x), jnp.where(beyond, 2.0, c))
    return jnp.where(beyond, upper, log1mexp(lower)), jnp.where(beyond, log1mexp(upper), lower)


def _from_tails(log_upper, log_lower, c):
    """The quantile, given both its tails: by the upper one beyond x = c, by the lower one before it."""
    log_cosh_c = log_cosh(c)
    beyond = log_upper <= log_cosh_c - c
    t = jnp.where(beyond, 0.0, log_lower + c)
    positive = jnp.maximum(t, 0.0)
    # asinh(e^t), without overflow
    before = jnp.where(t > 0, positive + jnp.log1p(jnp.sqrt(1 + jnp.exp(-2 * positive))),
                       jnp.arcsinh(jnp.exp(jnp.minimum(t, 0.0))))
    return jnp.where(beyond, log_cosh_c - log_upper, before)


logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="folded Laplace law of |c + Y|, Y standard Laplace",
    kernels={
        "logpdf": _logpdf,
        "logcdf": lambda x, c: _both_logs(x, c)[1],
        "logsf": lambda x, c: _both_logs(x, c)[0],
        "ppf_exp": lambda logp, c: _from_tails(log1mexp(logp), logp, c),
        "isf_exp": lambda logp, c: _from_tails(logp, log1mexp(logp), c),
    },
    shapes={"c": NONNEGATIVE},
    start=lambda c: -c,
    source="closed form (Kaissis et al. 2023, Theorem 1).",
    example=Example(2.0, (1.0,), "-1.566", "0.2088", "-0.2342", "0.7912", "-1.566", "0.2088", "0.6358",
                    "1.82", "0.0001234", "10.43"),
)
