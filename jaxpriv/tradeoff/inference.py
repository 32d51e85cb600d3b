"""Bounds of the power and the slope at a level, to a share of themselves where they are tiny,
and what Bayes' rule makes of them.
"""

from jaxpriv import _array as xp
from jaxpriv._checks import OPEN_UNIT, RATE, UNIT
from jaxpriv.tradeoff.evaluate import elementwise
from jaxpriv.tradeoff.stepping import beyond_zero, outward, power_near_slope, profile_near

_LEAST = 2e-38  # a probability that a program may have taken for a normal number
_FARTHEST = 700.0
_REACHES, _FIRST = 13, 1e-7


@elementwise(UNIT, "alpha")
def bounds_of_power(experiment, alpha):
    return power_bracket(experiment, alpha)


def power_bracket(experiment, alpha):
    """By lines; where nearly all is told nothing is beyond doubt, and what eps = 0 says serves."""
    ulp = xp.finfo(alpha.dtype).eps
    low, high = power_near_slope(experiment, alpha, 32 * ulp * alpha)
    low = xp.maximum(low, 1 - beyond_zero(experiment, alpha, low <= alpha) * (1 + ulp))
    known = experiment.beta_bracket(alpha)
    if known is not None:
        low = xp.maximum(low, (1 - known[1]) * (1 - 2 * ulp))
        high = xp.minimum(high, (1 - known[0]) * (1 + 2 * ulp))
    if xp.any_jax(alpha):
        low = xp.where(alpha > _LEAST, low, 0.0)
    return low, xp.maximum(high, alpha)


@elementwise([RATE, UNIT], "alpha", "base_rate")
def precision(experiment, alpha, base_rate):
    """base_rate power/(base_rate power + (1 - base_rate) alpha)."""
    return _precision(xp.exp(experiment.errors(alpha, False)[1]), alpha, base_rate)


def _precision(power, alpha, base_rate):
    found = base_rate * power
    return found / (found + (1 - base_rate) * alpha)


@elementwise([RATE, UNIT], "alpha", "base_rate")
def bounds_of_precision(experiment, alpha, base_rate):
    """It grows with the power."""
    off = 8 * xp.finfo(alpha.dtype).eps
    low, high = (_precision(power, alpha, base_rate) for power in power_bracket(experiment, alpha))
    low, high = low * (1 - off), xp.minimum(high * (1 + off), 1.0)
    if xp.any_jax(alpha):
        low = xp.where((alpha > _LEAST) & (base_rate > _LEAST), low, 0.0)
        high = xp.where(alpha > _LEAST, high, 1.0)
    return xp.where(base_rate == 0, 0.0, low), xp.where(base_rate == 0, 0.0, high)


@elementwise([OPEN_UNIT, UNIT], "alpha", "base_rate")
def posterior(experiment, alpha, base_rate):
    """Odds times e^loss, at the loss of the outcome at the edge of the region of rejection."""
    return _posterior(experiment.slope(alpha, False), base_rate)


def _posterior(loss, base_rate):
    inside = (base_rate > 0) & (base_rate < 1)
    rate = xp.where(inside, base_rate, 0.5)
    return xp.where(inside, xp.sigmoid(loss + xp.log(rate) - xp.log1p(-rate)), base_rate)


@elementwise([OPEN_UNIT, UNIT], "alpha", "base_rate")
def bounds_of_posterior(experiment, alpha, base_rate):
    """Secants of the profile in x = e^eps have slopes between those at their ends, -alpha(eps) of
    the test that rejects losses above eps: where one from y to z > y falls by less than alpha,
    z is above the loss asked for, and where it falls by more, y is below. The nearest of a ladder
    of such secants on both sides of the estimate that are seen to do so.
    """
    ulp = xp.finfo(alpha.dtype).eps
    eps = experiment.slope(alpha, False)
    eps = xp.clip(xp.where(xp.isnan(eps), 0.0, eps), -_FARTHEST, _FARTHEST)
    reaches = _FIRST * 4.0 ** xp.arange(0.0, _REACHES, dtype=alpha.dtype)
    reaches = reaches.reshape((-1,) + (1,) * alpha.ndim) * (1 + xp.abs(eps))
    ends = xp.concatenate([eps - 2 * reaches, eps - reaches, eps + reaches, eps + 2 * reaches])
    lower, upper, _ = profile_near(experiment, False, eps, ends)
    lower, upper = outward(lower, upper)
    below, under, above, over = (slice(k * _REACHES, (k + 1) * _REACHES) for k in range(4))

    def width(first, second):
        return xp.exp(ends[first]) * xp.expm1(ends[second] - ends[first])

    margin = 64 * ulp * (1 + xp.abs(ends[above]))
    at_least = (lower[below] - upper[under]) / width(below, under) * (1 - margin)
    at_most = (upper[above] - lower[over]) / width(above, over) * (1 + margin)
    loss_low = xp.max(xp.where(at_least >= alpha, ends[below], -xp.inf), 0)
    loss_high = xp.min(xp.where(at_most <= alpha, ends[over], xp.inf), 0)
    loss_high = xp.minimum(loss_high, experiment.loss_bound(False) * (1 + 64 * ulp))
    off = 1e-14 * (1 + xp.abs(xp.where(xp.isfinite(eps), eps, 0.0)))
    low, high = _posterior(loss_low - off, base_rate), _posterior(loss_high + off, base_rate)
    low, high = low * (1 - 1e-14), xp.minimum(high * (1 + 1e-14), 1.0)
    if xp.any_jax(alpha):
        low = xp.where((alpha > _LEAST) & (base_rate > _LEAST), low, 0.0)
        high = xp.where(alpha > _LEAST, high, 1.0)
    return low, high
