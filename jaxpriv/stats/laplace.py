"""The Laplace (double exponential) law."""

import math

from jaxpriv import _array as xp
from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp

_LOG2 = math.log(2.0)


def _logsf(x):
    size = xp.abs(x)
    return xp.where(x >= 0, -size - _LOG2, xp.log1p(-0.5 * xp.exp(-size)))


def _isf_exp(logp):
    upper = logp < -_LOG2
    other = log1mexp(xp.where(upper, -_LOG2, logp))
    return xp.where(upper, -logp - _LOG2, other + _LOG2)


logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="Laplace law",
    kernels={
        "logpdf": lambda x: -xp.abs(x) - _LOG2, "logcdf": lambda x: _logsf(-x), "logsf": _logsf,
        "ppf_exp": lambda logp: -_isf_exp(logp), "isf_exp": _isf_exp,
    },
    shapes={},
    source="closed form.",
    example=Example(
        2.0, (), "-2.693", "0.06767", "-0.07007", "0.9323", "-2.693", "0.06767", "-0.6931",
        "0.6931", "-9.307", "9.307",
    ),
)
