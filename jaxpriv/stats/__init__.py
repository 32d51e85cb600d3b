"""Probability laws in log space: SciPy's names and argument order, exact far into both tails,
differentiable throughout.
"""

from jaxpriv.stats import chi2, expon, foldlaplace, foldnorm, laplace, ncx2, norm

__all__ = ["chi2", "expon", "foldlaplace", "foldnorm", "laplace", "ncx2", "norm"]
