"""The chi-square law: the squared magnitude of a standard normal vector in df dimensions."""

from jaxpriv._checks import POSITIVE
from jaxpriv.stats._chi_square import kernels, log_density_at_zero
from jaxpriv.stats._family import Example, law

logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="chi-square law with df degrees of freedom",
    kernels=kernels(with_nc=False),
    shapes={"df": POSITIVE},
    start=lambda df: log_density_at_zero(df, None),
    source="contour integral of `jaxpriv.stats._contour`; accurate to 1e-14 for df in [0.5, 1e7].",
    example=Example(
        2.0, (3.0,), "-1.572", "0.2076", "-0.8496", "0.4276", "-0.5579", "0.5724", "1.213", "4.108",
        "0.003079", "22.76",
    ),
)
