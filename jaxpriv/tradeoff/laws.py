"""The laws that a test statistic can follow, as pytrees: what a dominating pair is made of.

Elementwise, on arrays already broadcast to one dtype: `logpdf(t)`, `log_tails(t)` = (log sf, log cdf), `log_mills(t)` =
(log sf/pdf, log cdf/pdf), and the quantiles `isf_exp(logp)`, `ppf_exp(logp)`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.stats import chi2, expon, foldlaplace, laplace, ncx2, norm
from jaxpriv.stats._contour import chi_square
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.stats._mills import log_density, normal
from jaxpriv.tradeoff.solve import newton_in_bracket


def pytree(cls):
    """A frozen dataclass whose fields are all children of a pytree."""
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(cls))


class Law:
    """A law on the real line, from the scipy-style functions of one module of `jaxpriv.stats` and its shape arguments."""

    family = None

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
        return log_density((t - self.mean) / self.std) - jnp.log(self.std)

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
    family = laplace

    def shapes(self):
        return (self.loc,)


@pytree
class Exponential(Law):
    """The magnitude of a Laplace draw."""

    family = expon


@pytree
class FoldedLaplace(Law):
    """The magnitude of a Laplace draw shifted by c."""

    c: jax.Array
    family = foldlaplace

    def shapes(self):
        return (self.c,)


@pytree
class ChiSquare(Law):
    """The squared magnitude of a normal vector in df dimensions, with squared mean nc (None: zero)."""

    df: jax.Array
    nc: jax.Array | None = None

    @property
    def family(self):
        return chi2 if self.nc is None else ncx2

    def shapes(self):
        return (self.df,) if self.nc is None else (self.df, self.nc)

    def at(self, t):
        logpdf, logsf, logcdf, up, down = chi_square(inside_support(t), self.df, self.nc)
        sure, none = jnp.zeros_like(logsf), jnp.full_like(logsf, -jnp.inf)
        logsf = jnp.where(t <= 0, sure, jnp.where(t == jnp.inf, none, logsf))
        logcdf = jnp.where(t <= 0, none, jnp.where(t == jnp.inf, sure, logcdf))
        return logpdf, logsf, logcdf, up, down

    def log_tails(self, t):
        return self.at(t)[1:3]


def inside_support(t):
    """A positive t that the contour kernel takes; a statistic beyond has no digit to lose."""
    low, high = (1e-300, 1e290) if t.dtype == jnp.float64 else (1e-30, 1e30)
    return jnp.clip(t, low, high)


@pytree
class Blend(Law):
    """(1-rate) P + rate Q: the statistic when the record takes part with probability `rate`."""

    absent: Law
    present: Law
    rate: jax.Array

    def _mix(self, absent, present):
        return jnp.logaddexp(jnp.log1p(-self.rate) + absent, jnp.log(self.rate) + present)

    def logpdf(self, t):
        return self._mix(self.absent.logpdf(t), self.present.logpdf(t))

    def log_tails(self, t):
        return tuple(map(self._mix, self.absent.log_tails(t), self.present.log_tails(t)))

    def isf_exp(self, logp):
        return _blend_quantile(self, logp, True)

    def ppf_exp(self, logp):
        return _blend_quantile(self, logp, False)


def _tail_of(law, t, upper):
    return law.log_tails(t)[0 if upper else 1]


def _blend_quantile(law, logp, upper):
    """Between the two laws' quantiles; on the tail that is smaller, by Newton inside that bracket."""
    other = log1mexp(logp)
    use_upper = logp < -np.log(2.0) if upper else logp >= -np.log(2.0)
    log_up, log_down = (logp, other) if upper else (other, logp)
    a = law.absent.isf_exp(logp) if upper else law.absent.ppf_exp(logp)
    b = law.present.isf_exp(logp) if upper else law.present.ppf_exp(logp)
    return _solve_blend(law, log_up, log_down, use_upper, jnp.minimum(a, b), jnp.maximum(a, b))


@jax.custom_jvp
def _solve_blend(law, log_up, log_down, use_upper, low, high):
    def excess(t):
        up, down = law.log_tails(t)
        logpdf = law.logpdf(t)
        value = jnp.where(use_upper, log_up - up, down - log_down)
        return value, jnp.exp(logpdf - jnp.where(use_upper, up, down))

    return newton_in_bracket(excess, low, high)


@_solve_blend.defjvp
def _solve_blend_jvp(primals, tangents):
    law, log_up, log_down, use_upper, low, high = primals
    dlaw, dup, ddown, *_ = tangents
    t = _solve_blend(*primals)

    def excess(law, log_up, log_down, t):
        up, down = law.log_tails(t)
        return jnp.where(use_upper, log_up - up, down - log_down)

    _, change = jax.jvp(lambda *a: excess(*a, t), (law, log_up, log_down), (dlaw, dup, ddown))
    up, down = law.log_tails(t)
    slope = jnp.exp(law.logpdf(t) - jnp.where(use_upper, up, down))
    return t, jnp.where(slope > 0, -change / jnp.where(slope > 0, slope, 1.0), 0.0)
