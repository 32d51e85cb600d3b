"""The laws that a test statistic can follow, as pytrees: what a dominating pair is made of.

Elementwise, on arrays already broadcast to one dtype: `logpdf(t)`, `log_tails(t)` = (log sf,
log cdf), `log_mills(t)` = (log sf/pdf, log cdf/pdf), and the quantiles
`isf_exp(logp)`, `ppf_exp(logp)`.
"""

from typing import Any, ClassVar

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats import chi2, expon, foldlaplace, laplace, ncx2, norm
from jaxpriv.stats._contour import chi_square, inside_range
from jaxpriv.stats._mills import log_density, normal


class Law:
    """A law on the real line, from the scipy-style functions of one module of `jaxpriv.stats` and
    its shape arguments.
    """

    family: ClassVar[Any]

    def shapes(self):
        return ()

    def logpdf(self, t):
        return self.family.logpdf(t, *self.shapes())

    def log_tails(self, t):
        return self.family.logsf(t, *self.shapes()), self.family.logcdf(t, *self.shapes())

    def at(self, t):
        """(log pdf, log sf, log cdf, log sf/pdf, log cdf/pdf) inside the support."""
        logpdf = self.logpdf(t)
        logsf, logcdf = self.log_tails(t)
        return logpdf, logsf, logcdf, logsf - logpdf, logcdf - logpdf

    def isf_exp(self, logp):
        return self.family.isf_exp(logp, *self.shapes())

    def ppf_exp(self, logp):
        return self.family.ppf_exp(logp, *self.shapes())


@pytree
class Normal(Law):
    """The normal law; standard deviation 1 unless given."""

    mean: jax.Array
    std: jax.Array | float = 1.0

    def logpdf(self, t):
        return log_density((t - self.mean) / self.std) - xp.log(self.std)

    def log_tails(self, t):
        return normal((t - self.mean) / self.std)[:2]

    def isf_exp(self, logp):
        return self.mean + self.std * norm.isf_exp(logp)

    def ppf_exp(self, logp):
        return self.mean + self.std * norm.ppf_exp(logp)


@pytree
class Laplace(Law):
    """The Laplace law with scale 1."""

    loc: jax.Array
    family: ClassVar[Any] = laplace

    def shapes(self):
        return (self.loc,)


@pytree
class Exponential(Law):
    """The magnitude of a Laplace draw."""

    family: ClassVar[Any] = expon


@pytree
class FoldedLaplace(Law):
    """The magnitude of a Laplace draw shifted by c."""

    c: jax.Array
    family: ClassVar[Any] = foldlaplace

    def shapes(self):
        return (self.c,)


@pytree
class ChiSquare(Law):
    """The squared magnitude of a normal vector in df dimensions,
    with squared mean nc (None: zero).
    """

    df: jax.Array
    nc: jax.Array | None = None

    def isf_exp(self, logp):
        if self.nc is None:
            return chi2.isf_exp(logp, self.df)
        return ncx2.isf_exp(logp, self.df, self.nc)

    def ppf_exp(self, logp):
        if self.nc is None:
            return chi2.ppf_exp(logp, self.df)
        return ncx2.ppf_exp(logp, self.df, self.nc)

    def logpdf(self, t):
        return self.at(t)[0]

    def at(self, t):
        logpdf, logsf, logcdf, up, down = chi_square(inside_range(t), self.df, self.nc)
        sure, none = xp.zeros_like(logsf), xp.full_like(logsf, -xp.inf)
        logsf = xp.where(t <= 0, sure, xp.where(t == xp.inf, none, logsf))
        logcdf = xp.where(t <= 0, none, xp.where(t == xp.inf, sure, logcdf))
        return logpdf, logsf, logcdf, up, down

    def log_tails(self, t):
        return self.at(t)[1:3]


@pytree
class Scaled(Law):
    """The law of a positive multiple of a statistic."""

    law: Law
    scale: jax.Array

    def logpdf(self, t):
        return self.law.logpdf(t / self.scale) - xp.log(self.scale)

    def log_tails(self, t):
        return self.law.log_tails(t / self.scale)

    def at(self, t):
        logpdf, logsf, logcdf, up, down = self.law.at(t / self.scale)
        shift = xp.log(self.scale)
        return logpdf - shift, logsf, logcdf, up + shift, down + shift

    def isf_exp(self, logp):
        return self.scale * self.law.isf_exp(logp)

    def ppf_exp(self, logp):
        return self.scale * self.law.ppf_exp(logp)
