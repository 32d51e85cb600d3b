"""The law of a statistic when the record takes part with some probability."""

from typing import Any

import jax

from jaxpriv import _array as xp
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
        """log((1-rate) e^absent + rate e^present), with a finite gradient at rate = 1, where what
        is present counts alone, however little.
        """
        top = xp.where(self.rate < 1, xp.maximum(absent, present), present)
        top = xp.stop_gradient(xp.where(xp.isfinite(top), top, 0.0))
        large = 700.0 if top.dtype == xp.float64 else 80.0
        total = (1 - self.rate) * xp.exp(xp.minimum(absent - top, large))
        total = total + self.rate * xp.exp(present - top)
        positive = total > 0
        return xp.where(positive, top + xp.log(xp.where(positive, total, 1.0)),
                        xp.where(xp.isnan(total), xp.nan, -xp.inf))

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
    """Between the two laws' quantiles;
    on the tail that is smaller, by Newton inside that bracket.
    """
    upper = log_up < log_down
    null, alternative = law.pair.null, law.pair.alternative
    # the smaller tail keeps its digits: take each end of the bracket from it
    a = xp.where(upper, null.isf_exp(xp.where(upper, log_up, -1.0)),
                 null.ppf_exp(xp.where(upper, -1.0, log_down)))
    b = xp.where(upper, alternative.isf_exp(xp.where(upper, log_up, -1.0)),
                  alternative.ppf_exp(xp.where(upper, -1.0, log_down)))
    return solve_tail(
        law, xp.where(upper, log_up, log_down), upper, xp.minimum(a, b), xp.maximum(a, b)
    )


@xp.custom_jvp
def solve_tail(law, log_small, upper, low, high):
    """The t in [low, high] at which the upper tail, or the lower one, is e^log_small."""
    def excess(t):
        logpdf, up, down, _, _ = law.at(t)
        small = xp.where(upper, up, down)
        return xp.where(upper, log_small - up, down - log_small), xp.exp(logpdf - small)

    return newton_in_bracket(excess, low, high)


@solve_tail.defjvp
def _solve_tail_jvp(primals, tangents):
    law, log_small, upper, low, high = primals
    t = solve_tail(*primals)
    sign = xp.where(upper, -1.0, 1.0)

    def log_tail(law):
        logpdf, up, down, _, _ = law.at(t)
        return xp.where(upper, up, down), logpdf

    (value, logpdf), (explicit, _) = jax.jvp(log_tail, (law,), (tangents[0],))
    slope = xp.exp(logpdf - value)
    moves = (slope > 0) & xp.isfinite(t)
    return t, xp.where(moves, sign * (tangents[1] - explicit) / xp.where(moves, slope, 1.0), 0.0)
