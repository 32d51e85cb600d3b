"""The law of a statistic when the record takes part with some probability."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxpriv._pytree import pytree
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.laws import Law
from jaxpriv.tradeoff.solve import newton_in_bracket


@pytree
class Blend(Law):
    """(1-rate) P + rate Q for the laws of a pair."""

    pair: Any
    rate: jax.Array

    def mix(self, absent, present):
        """log((1-rate) e^absent + rate e^present), with a finite gradient at rate = 1."""
        top = jnp.maximum(absent, present)
        top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
        total = (1 - self.rate) * jnp.exp(absent - top) + self.rate * jnp.exp(present - top)
        positive = total > 0
        return jnp.where(positive, top + jnp.log(jnp.where(positive, total, 1.0)), jnp.where(jnp.isnan(total), jnp.nan, -jnp.inf))

    def at(self, t):
        null, alternative = self.pair.both_at(t)
        logpdf, logsf, logcdf = (self.mix(*pair) for pair in zip(null[:3], alternative[:3]))
        return logpdf, logsf, logcdf, logsf - logpdf, logcdf - logpdf

    def logpdf(self, t):
        return self.at(t)[0]

    def log_tails(self, t):
        return self.at(t)[1:3]

    def isf_exp(self, logp):
        return _quantile(self, logp, log1mexp(logp))

    def ppf_exp(self, logp):
        return _quantile(self, log1mexp(logp), logp)


def _quantile(law, log_up, log_down):
    """Between the two laws' quantiles; on the tail that is smaller, by Newton inside that bracket."""
    upper = log_up < log_down
    null, alternative = law.pair.null, law.pair.alternative
    # the smaller tail keeps its digits: take each end of the bracket from it
    a = jnp.where(upper, null.isf_exp(jnp.where(upper, log_up, -1.0)), null.ppf_exp(jnp.where(upper, -1.0, log_down)))
    b = jnp.where(upper, alternative.isf_exp(jnp.where(upper, log_up, -1.0)),
                  alternative.ppf_exp(jnp.where(upper, -1.0, log_down)))
    return _solve(law, jnp.where(upper, log_up, log_down), upper, jnp.minimum(a, b), jnp.maximum(a, b))


@jax.custom_jvp
def _solve(law, log_small, upper, low, high):
    def excess(t):
        logpdf, up, down, _, _ = law.at(t)
        small = jnp.where(upper, up, down)
        return jnp.where(upper, log_small - up, down - log_small), jnp.exp(logpdf - small)

    return newton_in_bracket(excess, low, high)


@_solve.defjvp
def _solve_jvp(primals, tangents):
    law, log_small, upper, low, high = primals
    t = _solve(*primals)
    sign = jnp.where(upper, -1.0, 1.0)

    def log_tail(law):
        logpdf, up, down, _, _ = law.at(t)
        return jnp.where(upper, up, down), logpdf

    (value, logpdf), (explicit, _) = jax.jvp(log_tail, (law,), (tangents[0],))
    slope = jnp.exp(logpdf - value)
    moves = (slope > 0) & jnp.isfinite(t)
    return t, jnp.where(moves, sign * (tangents[1] - explicit) / jnp.where(moves, slope, 1.0), 0.0)
