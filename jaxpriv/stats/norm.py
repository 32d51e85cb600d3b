"""The normal law."""

import math

from jaxpriv import _array as xp
from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.stats._mills import log_density, normal, upper_quantile


def _isf_exp(logp):
    """By the tail that is smaller."""
    upper = logp < -math.log(2.0)
    x = upper_quantile(xp.where(upper, logp, log1mexp(logp)))
    return xp.where(upper, x, -x)


logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="normal law",
    kernels={
        "logpdf": log_density, "logcdf": lambda x: normal(x)[1], "logsf": lambda x: normal(x)[0],
        "ppf_exp": lambda logp: -_isf_exp(logp), "isf_exp": _isf_exp,
    },
    shapes={},
    source="Matta and Reichel (1971), Math. Comp. 25, 339-344.",
    example=Example(
        2.0, (), "-2.919", "0.05399", "-0.02301", "0.9772", "-3.783", "0.02275", "-0.6745",
        "0.6745", "-3.914", "3.914",
    ),
)
