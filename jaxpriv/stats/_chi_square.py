"""The (noncentral) chi-square law on x > 0, and its quantiles.

`nc` is None for the central law throughout. Near x = 0 the law is a power, cdf ~ x^(df/2), and for
huge x the tail is exponential, log sf ~ -x/2 (both to the last bit where the contour of `_contour`
would leave the range of floats).
"""

import math

from jaxpriv import _array as xp
from jaxpriv.stats._contour import RANGE, chi_square, density_ratios, inside_range
from jaxpriv.stats._logspace import log1mexp, log_plus_reciprocal
from jaxpriv.stats._mills import upper_quantile

_STEPS = {"float64": 4, "float32": 3}


def _interior(x):
    """x moved into the contour's range, log(x/moved) below it, and x - moved above it;
    both are zero inside.
    """
    low, high = RANGE[x.dtype.name]
    is_below, is_above = x < low, x > high
    moved = xp.where(is_below, low, xp.where(is_above, high, x))
    # exactly zero inside: an ulp here would be multiplied by df/2
    below = xp.where(is_below, xp.log(xp.where(is_below, x, low)) - math.log(low), 0.0)
    above = xp.where(is_above, x - high, 0.0)
    return moved, below, above


def law_at(x, df, nc):
    """(log pdf, log sf, log cdf) at 0 < x < inf."""
    moved, below, above = _interior(x)
    logpdf, logsf, logcdf, _, _ = _broadcast_chi_square(moved, df, nc)
    logpdf = logpdf + (df / 2 - 1) * below - above / 2
    logcdf = logcdf + df / 2 * below
    is_below = x < RANGE[x.dtype.name][0]
    logsf = xp.where(
        is_below, xp.log1p(-xp.exp(xp.where(is_below, logcdf, -1.0))), logsf - above / 2
    )
    return logpdf, logsf, logcdf


def log_density_at_zero(df, nc):
    shift = 0.0 if nc is None else nc / 2
    return xp.where(df < 2, xp.inf, xp.where(df == 2, -math.log(2.0) - shift, -xp.inf))


def _broadcast_chi_square(x, df, nc):
    shape = xp.broadcast_shapes(x.shape, df.shape, () if nc is None else nc.shape)
    return chi_square(xp.broadcast_to(x, shape), xp.broadcast_to(df, shape),
                      None if nc is None else xp.broadcast_to(nc, shape))


def _start(signed, df, nc):
    """log x where Lugannani and Rice's r* is about `signed`, the normal quantile of the lower tail.

    In q = 1/z the saddle's x is df q + nc q^2 and its exponent r^2 = df(q - 1 - log q) + nc(q-1)^2,
    convex in q. One solves r(q) = s by Newton from the side where the iterates are monotone, twice:
    first s = signed, then s less the correction log(w/r)/r, w = ((q-1)/2) sqrt(2 df + 4 nc q),
    whose limit at r = 0 is finite.
    """
    deep = math.log(RANGE[signed.dtype.name][0])

    def solve(s):
        s2 = s * s
        up = s > 0
        a = s2 / df
        above_root = xp.minimum(a + xp.sqrt(a * a + 2 * a), xp.sqrt(s2 / xp.maximum(nc, 1e-30)))
        # Three lower bounds of q < 1: without nc; with log q >= (q-1) - (q-1)^2/2; and, for 2 nc
        # q <= df, nc(q-1)^2 >= nc - df.
        below_root = xp.maximum(1 - xp.sqrt(s2 / (df / 2 + nc)), xp.maximum(
            xp.exp(-1 - a), xp.minimum(xp.exp(-2 - (s2 - nc) / df), df / (2 * nc + df))))
        q = xp.where(up, 1 + above_root, xp.maximum(below_root, math.exp(deep)))
        w = xp.where(up, above_root, q - 1)

        def newton(state):
            w, q = state
            excess = df * log_plus_reciprocal(1 / q, -w / q) + nc * w * w - s2
            slope = df * w / q + 2 * nc * w
            step = -excess / xp.where(slope == 0, 1.0, slope)
            step = xp.where(up, xp.maximum(step, -0.9 * w), xp.clip(step, -0.5 * q, -0.9 * w))
            return w + step, q + step

        w, q = xp.refined(newton, (w, q), 6, 1e-9)
        return w, q, xp.minimum(-1 + (nc - s2) / df, 0.0) * ~up

    def improve(i, state):
        """First the correction at `signed` (held away from 0), then the solution with it."""
        log_x, s, correction = state
        s = xp.where(i == 0, xp.where(xp.abs(signed) < 0.3, 0.3, signed), signed - correction)
        w, q, log_q = solve(s)
        correction = xp.log(w / 2 * xp.sqrt(2 * df + 4 * nc * q) / s) / s
        correction = xp.where((log_q < deep) | ~xp.isfinite(correction), 0.0, correction)
        return (
            xp.log(df) + xp.where(log_q < deep, log_q, xp.log(q) + xp.log1p(nc / df * q)),
            s,
            correction,
        )

    zero = xp.zeros_like(signed)
    return xp.fori_loop(0, 2, improve, (zero, zero, zero))[0]


@xp.custom_jvp
def _solution(upper, log_small, df, nc):
    """x with log sf(x) = log_small where `upper`, log cdf(x) = log_small elsewhere; log_small
    finite, <= about log 1/2.

    Newton's step on the log tail in y = log x with Halley's correction; the start is good to a few
    digits and every step about triples them. The second derivative needs d log pdf/dy only roughly:
    Amos' bound on the density's Bessel ratio.
    """
    lam = xp.zeros_like(df) if nc is None else nc
    y = _start(
        xp.where(upper, 1.0, -1.0) * upper_quantile(xp.minimum(log_small, -math.log(2.0))), df, lam
    )
    low, high = RANGE[y.dtype.name]
    x = xp.exp(y)
    sign = xp.where(upper, -1.0, 1.0)

    def step(state):
        x, y = state
        moved = inside_range(x)
        _, logsf, logcdf, mills_up, mills_down = chi_square(moved, df, nc)
        below = xp.minimum(y - math.log(low), 0.0)
        excess = xp.where(upper, logsf, logcdf + df / 2 * below) - log_small
        hazard = moved * xp.exp(-xp.where(upper, mills_up, mills_down))
        bessel = lam * moved / (df + xp.sqrt(df * df + 4 * lam * moved))
        curvature = df / 2 - moved / 2 + bessel - sign * hazard
        change = -sign * excess / hazard
        change = change / xp.clip(1 + 0.5 * change * curvature, 0.5, 2.0)
        y = y + change
        return xp.where((x > low) & (x < high), x * xp.exp(change), xp.exp(y)), y

    return xp.refined(step, (x, y), _STEPS[y.dtype.name], 1e-7)[0]


_solve = xp.jit(_solution)


@_solution.defjvp
def _solve_jvp(primals, tangents):
    """sf(x) = p moves x by (d sf/d df) ddf + (d sf/d nc) dnc - dp, all over pdf;
    the cdf by the same shape terms.
    """
    upper, log_small, df, nc = primals
    _, dlog_small, ddf, dnc = tangents
    x = _solve(upper, log_small, df, nc)
    inside = (x >= RANGE[x.dtype.name][0]) & (x <= RANGE[x.dtype.name][1])
    x_safe = xp.where(inside, x, df)
    _, _, _, mills_up, mills_down = chi_square(x_safe, df, nc)
    rate_nc, rate_df = density_ratios(x_safe, df, nc)
    dx = xp.where(upper, -xp.exp(mills_up), xp.exp(mills_down)) * dlog_small + rate_df * ddf
    if nc is not None:
        dx = dx + rate_nc * dnc
    return x, xp.where(inside, dx, 0.0)


def quantile(log_upper, log_lower, df, nc):
    """The x with log sf(x) = log_upper and log cdf(x) = log_lower: solved for the
    smaller of the two.
    """
    shape = xp.broadcast_shapes(log_upper.shape, df.shape, () if nc is None else nc.shape)
    log_upper, log_lower, df = (xp.broadcast_to(a, shape) for a in (log_upper, log_lower, df))
    nc = None if nc is None else xp.broadcast_to(nc, shape)
    upper = log_upper < log_lower
    log_small = xp.where(upper, log_upper, log_lower)
    finite = log_small > -xp.inf  # log(1-p) of a tiny p may round to -inf or 0
    x = _solve(upper, xp.where(finite, log_small, -1.0), df, nc)
    return xp.where(finite, x, xp.where(upper, xp.inf, 0.0))


def kernels(with_nc):
    """The five kernels that `_family.law` takes, of (x, df, nc) or of (x, df)."""

    def bind(f):
        return (lambda x, df, nc: f(x, df, nc)) if with_nc else (lambda x, df: f(x, df, None))

    return {
        "logpdf": bind(lambda x, df, nc: law_at(x, df, nc)[0]),
        "logsf": bind(lambda x, df, nc: law_at(x, df, nc)[1]),
        "logcdf": bind(lambda x, df, nc: law_at(x, df, nc)[2]),
        "ppf_exp": bind(lambda logp, df, nc: quantile(log1mexp(logp), logp, df, nc)),
        "isf_exp": bind(lambda logp, df, nc: quantile(logp, log1mexp(logp), df, nc)),
    }
