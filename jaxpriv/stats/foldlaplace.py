"""The folded Laplace law: |c + Y| for a standard Laplace Y (what a shifted release looks like
by its magnitude).

density   e^-c cosh x  (x < c),    e^-x cosh c      (x >= c)
cdf       e^-c sinh x  (x < c),    1 - e^-x cosh c  (x >= c)
"""

import math

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE
from jaxpriv.stats._family import Example, law
from jaxpriv.stats._logspace import log1mexp, log_cosh


def _log_cosh_above(c, x):
    """log cosh c - x for x >= c, keeping the digits of x - c when both are large."""
    near = c < 1.0
    return xp.where(near, log_cosh(xp.where(near, c, 0.0)) - x,
                    (c - x) + xp.log1p(xp.exp(-2 * c)) - math.log(2.0))


def _log_sinh_below(x, c):
    """log sinh x - c for 0 < x < c."""
    return (x - c) + xp.log(-xp.expm1(-2 * x)) - math.log(2.0)


def _logpdf(x, c):
    before = (xp.minimum(x, c) - c) + xp.log1p(xp.exp(-2 * x)) - math.log(2.0)
    return xp.where(x < c, before, _log_cosh_above(c, xp.maximum(x, c)))


def _both_logs(x, c):
    """(log sf, log cdf): the one of the two in closed form, the other as log(1 - it)."""
    beyond = x >= c
    upper = _log_cosh_above(c, xp.where(beyond, x, c + 1.0))
    lower = _log_sinh_below(xp.where(beyond, 1.0, x), xp.where(beyond, 2.0, c))
    return xp.where(beyond, upper, log1mexp(lower)), xp.where(beyond, log1mexp(upper), lower)


def _from_tails(log_upper, log_lower, c):
    """The quantile, given both its tails:
    by the upper one beyond x = c, by the lower one before it.
    """
    log_cosh_c = log_cosh(c)
    beyond = log_upper <= log_cosh_c - c
    t = xp.where(beyond, 0.0, log_lower + c)
    positive = xp.maximum(t, 0.0)
    # asinh(e^t), without overflow
    before = xp.where(t > 0, positive + xp.log1p(xp.sqrt(1 + xp.exp(-2 * positive))),
                       xp.arcsinh(xp.exp(xp.minimum(t, 0.0))))
    return xp.where(beyond, log_cosh_c - log_upper, before)


logpdf, pdf, logcdf, cdf, logsf, sf, ppf, isf, ppf_exp, isf_exp = law(
    __name__,
    title="folded Laplace law of |c + Y|, Y standard Laplace",
    kernels={
        "logpdf": _logpdf,
        "logcdf": lambda x, c: _both_logs(x, c)[1],
        "logsf": lambda x, c: _both_logs(x, c)[0],
        "ppf_exp": lambda logp, c: _from_tails(log1mexp(logp), logp, c),
        "isf_exp": lambda logp, c: _from_tails(logp, log1mexp(logp), c),
    },
    shapes={"c": NONNEGATIVE},
    start=lambda c: -c,
    source="closed form (Kaissis et al. 2023, Theorem 1).",
    example=Example(
        2.0, (1.0,), "-1.566", "0.2088", "-0.2342", "0.7912", "-1.566", "0.2088", "0.6358", "1.82",
        "0.0001234", "10.43",
    ),
)
