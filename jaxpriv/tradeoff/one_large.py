"""Bounds of C = E (M - K)_+, M the mean of t lognormals, that hold however small it is: far out one
of them is large, and the others are as they always are.

Of the J lognormals above a level B, with p = P(L > B), p_1 = E[L; L > B], q = (1 - p)^(t-1), and S
the sum of t - 1 others, all at most B, of mean m:

    J = 1   E h(S) q, h(s) = E[(L + s - t K)_+; L > B] convex: at least q h(m) (Jensen), at most
            that and q/2 sup h'' Var S; h'' is a density of L above B, largest at B beyond the mode,
            and Var S <= (t-1) E[L^2; L <= B]/(1 - p)
    J > 1   at most E[M; J > 1] <= p_1 (t-1) p + ((t-1) p)^2/2
    J = 0   at most e^(-s K) E[e^(s L/t); L <= B]^t/(e s) for every s > 0 (Chernoff), of which
            E[e^u - 1 - u; L <= B], u = s L/t, is bounded cell by cell, and E[L; L <= B] <= 1.

Every B and s gives bounds, of which the best are taken. h is the profile of the Gaussian mechanism.
"""

import math

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._mills import log_density, log_mills_gap, normal
from jaxpriv.tradeoff.pair import safe_log

_LEVELS = np.geomspace(0.01, 0.98, 16)  # of B, over t K
_TILTS = np.geomspace(0.3, 400.0, 24)  # of s B/t
_CELLS = 250
_LEAST = -9.5  # standard deviations
_BELOW = 1.2e-21  # P(x < -9.5), rounded up
_ULP = 2.0**-52


def log_bounds(a, t, x):
    """(lower, upper) of log C at K = e^x >= 1 for scalar a, t >= 2 and x."""
    log_total = xp.log(t) + x
    log_level = log_total + xp.asarray(np.log(_LEVELS))
    at = log_level / a + a / 2  # L > B where the normal variable lies above
    log_p, log_rest, *_ = normal(at)
    log_p1, log_rest1, *_ = normal(at - a)
    squares = a * a + normal(at - 2 * a)[1]
    log_q = (t - 1) * xp.log1p(-xp.exp(xp.minimum(log_p, -1e-17)))
    level, total = xp.exp(log_level), xp.exp(log_total)
    mean = (t - 1) * xp.exp(log_rest1 - log_rest)
    strike = total - mean
    # the strike is a difference, known to an ulp of both
    doubt = 16 * _ULP * (total + mean)
    lower, middle = (_single(a, strike + side * doubt, level, log_p, log_p1) for side in (1, -1))
    log_density_at = log_density(at) - xp.log(a) - log_level
    spread = math.log(0.5) + log_density_at + xp.log(t - 1) + squares - log_rest
    single = log_q + xp.logaddexp(middle, spread)
    single = xp.where(log_level > -1.5 * a * a, single, xp.inf)
    log_other = xp.log(t - 1) + log_p
    several = xp.logaddexp(log_p1 + log_other, 2 * log_other + math.log(0.5))
    none = xp.min(_none(a, t, x, at, log_level), 0)
    upper = xp.logaddexp(xp.logaddexp(single, several), none)
    lower = log_q + lower
    lower, upper = (
        xp.where(xp.isnan(end), worst, end) for end, worst in ((lower, -xp.inf), (upper, xp.inf))
    )
    lower, upper = xp.max(lower), xp.min(upper)

    def margin(value):
        size = xp.where(xp.isfinite(value), xp.abs(value), 0.0)
        return 1024 * _ULP * (1 + size + t * _ULP + xp.abs(x) + a * a)

    return lower - margin(lower), xp.minimum(upper + margin(upper), 0.0)


def _single(a, strike, level, log_p, log_p1):
    """log E[(L - strike)_+; L > B]."""
    beyond = strike > level
    far = log_mills_gap(xp.log(xp.where(beyond, strike, level)), xp.broadcast_to(a, level.shape))
    near = safe_log(xp.maximum(xp.exp(log_p1) - xp.minimum(strike, level) * xp.exp(log_p), 0.0))
    # a strike below B: p_1 - strike p, which is at least what it is at B
    return xp.where(beyond, far, xp.maximum(near, far))


def _none(a, t, x, at, log_level):
    """log of what J = 0 has at most, (tilts, levels)."""
    share = xp.linspace(0.0, 1.0, _CELLS + 1, dtype=xp.float64)
    ends = _LEAST + (at[:, None] - _LEAST) * share
    low, high = ends[:, :-1], ends[:, 1:]
    peak = xp.where((low < 0) & (high > 0), 0.0, xp.minimum(xp.abs(low), xp.abs(high)))
    mass = xp.exp(log_density(peak)) * (high - low)
    tilts = xp.asarray(_TILTS)[:, None, None]
    top = tilts * xp.exp(xp.minimum(a * (high - at[:, None]), 0.0))
    convex = xp.where(top < 1e-4, 0.5 * top**2 * (1 + top), xp.expm1(top) - top)
    found = xp.sum(mass * convex, 2) + _BELOW * convex[:, :, 0]
    tilts = tilts[:, :, 0]
    slope = tilts * xp.exp(-log_level)  # s/t
    # -s K + t log(1 + s/t + E g), in which s and t s/t go apart
    above = xp.log1p(slope + found * (1 + 1e-12)) - slope
    size = t * slope
    bound = -size * xp.expm1(x) + t * above - 1 - xp.log(size)
    bound = bound + 64 * _ULP * (1 + size * (1 + xp.exp(x)) + t * xp.abs(above))
    return xp.where((at > _LEAST + 1) & ~xp.isnan(bound), bound, xp.inf)


@xp.custom_jvp
def middle(a, t, x):
    """log C half way between both, and -d/dx of it."""
    step = 1e-4 * (1 + xp.abs(x))

    def at(x):
        return 0.5 * sum(log_bounds(a, t, x))

    low, value, high = xp.each(at, xp.stack([x - step, x, x + step]))
    return value, (low - high) / (2 * step)


@middle.defjvp
def _middle_jvp(primals, tangents):
    """By differences: both bounds are smooth but for the levels and tilts that are best."""
    steps = [1e-4 * (1e-3 + xp.abs(value)) for value in primals]
    moved = [
        [value + side * step * (i == j) for j, (value, step) in enumerate(zip(primals, steps))]
        for i in range(3)
        for side in (-1, 1)
    ]
    found = xp.each(lambda one: xp.stack(middle(*one)), tuple(map(xp.stack, zip(*moved))))
    slopes = [(found[2 * i + 1] - found[2 * i]) / (2 * steps[i]) for i in range(3)]
    change = sum(slope * tangent for slope, tangent in zip(slopes, tangents))
    return middle(*primals), (change[0], change[1])
