"""The exponential law: the magnitude of a Laplace draw."""

import jax.numpy as jnp

from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp


def _logcdf(x):
    inside = x > 0
    return jnp.where(inside, log1mexp(-jnp.where(inside, x, 1.0)), -jnp.inf)


def _isf_exp(logp):
    return -logp


logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="exponential law",
    kernels={
        "logpdf": lambda x: jnp.where(x >= 0, -x, -jnp.inf),
        "logcdf": _logcdf,
        "logsf": lambda x: -jnp.maximum(x, 0.0),
        "ppf_exp": lambda logp: -log1mexp(logp),
        "isf_exp": _isf_exp,
    },
    shapes={},
    support="x >= 0",
    source="closed form.",
    example=Example(2.0, (), "-2", "0.1353", "-0.1454", "0.8647", "-2", "0.1353", "0.2877", "1.386", "4.54e-05", "10"),
)
