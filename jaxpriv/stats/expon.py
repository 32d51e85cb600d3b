"""The exponential law: the magnitude of a Laplace draw."""

from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp

logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="exponential law",
    kernels={
        "logpdf": lambda x: -x, "logcdf": lambda x: log1mexp(-x), "logsf": lambda x: -x,
        "ppf_exp": lambda logp: -log1mexp(logp), "isf_exp": lambda logp: -logp,
    },
    shapes={},
    start=lambda: 0.0,
    source="closed form.",
    example=Example(
        2.0, (), "-2", "0.1353", "-0.1454", "0.8647", "-2", "0.1353", "0.2877", "1.386", "4.54e-05",
        "10",
    ),
)
