"""The noncentral chi-square law: the squared magnitude of a normal vector in df dimensions whose
mean has length sqrt(nc).
"""

from jaxpriv._checks import NONNEGATIVE, POSITIVE
from jaxpriv.stats._chi_square import kernels, log_density_at_zero
from jaxpriv.stats._family import Example, law

logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="noncentral chi-square law with df degrees of freedom and noncentrality nc",
    kernels=kernels(with_nc=True),
    shapes={"df": POSITIVE, "nc": NONNEGATIVE},
    start=log_density_at_zero,
    source=(
        "contour integral of `jaxpriv.stats._contour`; accurate to 1e-13 for df in "
        "[0.5, 1e7], nc in [0, 1e8]."
    ),
    example=Example(
        2.0, (3.0, 1.5), "-1.865", "0.155", "-1.343", "0.2611", "-0.3025", "0.7389", "1.929",
        "6.186", "0.005076", "30.2",
    ),
)
