"""Renyi divergences of Gaussian and sub-sampled Gaussian steps, at any real order,
and the epsilon that they give.

With K = log M the transform of the privacy loss of a direction, D_a(Q||P) = K(a-1)/(a-1), and
divergences of steps add up.
"""

import math
from dataclasses import replace

from jaxpriv import _array as xp
from jaxpriv._checks import UNIT, Domain
from jaxpriv._types import Answer, Numbers
from jaxpriv.composition.line import cumulants, loss_bound, over_steps
from jaxpriv.composition.steps import directions
from jaxpriv.composition.transforms import TiltedGaussian
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.evaluate import elementwise
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket

_ORDER = Domain(1.0, math.inf, "[1, inf)", 2.0, open_high=True)
_SERIES = 16
# spacing at which the trapezoidal rule is still exact for a normal density:
# 2 e^(-2 pi^2/0.36) = 3e-24
_WIDEST = 0.6


def renyi_divergence(curve: Curve, order: Numbers) -> Answer:
    """D_a(Q||P) of a curve's direction, Q with the record and P without;
    of a symmetric curve the larger direction's.

    Args:
        curve: from Gaussian noise, sub-sampled or not, and compositions of it;
            `reversed()` and `symmetric()` of them.
        order: a, `Float[Array, "..."]` in [1, inf), any real number;
            1 is the Kullback-Leibler divergence.

    Returns: `Float[Array, "..."]` in [0, inf), an estimate correct to rounding, differentiable in
        every parameter, count and order. NaN where order * mu > 210 (mu of a sub-sampled step) and
        neither the rule nor the closed form of the limit of large orders is exact.
    Raises: ValueError for an order outside its range and for curves whose divergence is not known.
    Source: Mironov, Talwar, Zhang 2019 (integer orders);
        the integral of every order is derived in this module.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000)
        >>> print(f"{jaxpriv.accounting.renyi_divergence(curve, 8.5):.3f}")
        1.089
    """
    return _divergence(curve.experiment, order)


def renyi_epsilon(curve: Curve, delta: Numbers) -> Answer:
    """The best epsilon that Renyi divergences give: the minimum over all real orders of their
    conversion at delta.

    Args:
        curve: as in `renyi_divergence`.
        delta: `Float[Array, "..."]` in [0, 1].

    Returns: `Float[Array, "..."]` in [0, inf], differentiable in everything (twice).
    Guarantee: never below the exact epsilon, up to rounding: an upper bound, 6 to 26% above the
        exact one for DP-SGD of 300 and more steps and several times it for one step at a small
        rate. Quote `epsilon_bounds`, which is certified; this is for comparison with
        Renyi accountants.
    Raises: ValueError for a delta outside its range and for curves whose divergence is not known.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12; Balle et al. 2020.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000)
        >>> print(f"{jaxpriv.accounting.renyi_epsilon(curve, 1e-5):.3f} {curve.epsilon(1e-5):.3f}")
        2.101 1.828
    """
    return _epsilon(curve.experiment, delta)


@elementwise(_ORDER, "order")
def _divergence(experiment, order):
    return _largest(
        [over_steps(terms, _of_steps(terms, order - 1)) for terms in directions(experiment)]
    )


@elementwise(UNIT, "delta")
def _epsilon(experiment, delta):
    return _largest([_converted(terms, delta) for terms in directions(experiment)])


def _largest(values):
    """The largest over the directions; where they tie, as those of Gaussian noise do,
    the first with its derivative.
    """
    result = values[0]
    for value in values[1:]:
        result = xp.where(value > result, value, result)
    return result


def _of_steps(terms, c):
    """The divergence of order 1 + c of every term's members, once each."""
    c = c[..., None]
    return [_of_step(term.transform, c) for term in terms]


def _of_step(transform, c):
    """K(c)/c of one transform: from X = (M(c) - 1)/c where that is small,
    for K is lost in rounding there.
    """
    silent = transform.mu == 0
    transform = replace(transform, mu=xp.where(silent, 1.0, transform.mu))
    tilt = transform.tilted(c)
    if isinstance(tilt, TiltedGaussian):
        return xp.where(silent, 0.0, tilt.half * (1 + c))
    small = xp.stop_gradient(tilt.value) < 0.05
    x = _excess(tilt, c, small)
    y = c * x
    curved = xp.stop_gradient(y) > 1e-6
    ratio = xp.where(curved, xp.log1p(y) / xp.where(curved, y, 1.0), 1 - y / 2 + y * y / 3)
    value = xp.where(small, x * ratio, tilt.value / xp.where(small, 1.0, c))
    far, closed = _far_order(transform, tilt, c)
    value = xp.where(far, closed, xp.where(tilt.step < _WIDEST, value, xp.nan))
    return xp.where(silent, 0.0, value)


def _excess(tilt, c, small):
    """X = E_P[((1+u)^s - 1 - s u)/c] >= 0, for E_P[u] = 0, by the rule of the transform;
    0 where not `small`.

    With L = log(1+u) and s = 1 + c forwards, s = -c in reverse, s (s-1) = c (1+c) in both,
    and the summand is

        e^b (e^(+-cL) - 1)/c -+ (e^L - 1),      e^b = 1+u forwards, 1 in reverse,
        (1+c) sum_{k>=2} L^k/k! (1 + s + ... + s^(k-2))

    of which the second loses nothing for small L, and neither does for small c.
    """
    log_weight = -0.5 * tilt.x**2 + xp.log(tilt.step) - 0.5 * math.log(2 * math.pi)
    loss = xp.where(small, tilt.loss, 0.0)
    s, sign = tilt.s, tilt.sign
    near = xp.stop_gradient(xp.maximum(xp.abs(s), 1.0) * xp.abs(loss)) < 0.5

    at = xp.where(near, loss, 0.0)
    part, power, total, factorial = xp.ones_like(at), xp.ones_like(at), xp.zeros_like(at), 1.0
    for k in range(2, _SERIES + 2):
        factorial *= k
        total = total + part / factorial
        power = power * s * at
        part = part * at + power
    close = xp.exp(log_weight) * (1 + c) * at * at * total

    at = xp.where(near, 0.0, loss)
    base = log_weight + xp.where(sign > 0, at, 0.0)
    turn = sign * c * at
    high = xp.stop_gradient(turn) > 1.0
    flat = xp.stop_gradient(xp.abs(turn)) < 1e-5
    divisor = xp.where(c == 0, 1.0, c)
    slow = xp.where(flat, sign * at * (1 + turn / 2 + turn * turn / 6),
                    xp.expm1(xp.where(high, 0.0, turn)) / divisor)
    steep = (xp.exp(xp.where(high, base + turn, 0.0)) - xp.exp(base)) / divisor
    away = xp.where(high, steep, xp.exp(base) * slow)
    away = away - sign * (xp.exp(log_weight + at) - xp.exp(log_weight))
    return xp.sum(xp.where(small, xp.where(near, close, away), 0.0), 0)


def _far_order(transform, tilt, c):
    """(does it hold?, K(c)/c) as if the record took part always: M ~ rate^s e^(mu^2 s (s-1)/2),
    forwards, at large orders.

    What is left out: (1 + (1-q) e^(-a)/q)^s, a = mu z - mu^2/2, whose logarithm has a mean of at
    most s (1-q)/q e^(-mu^2 (s-1)) at z around s mu; and the part of the integral near
    z = 0, (1-q)^s at most.
    """
    mu, rate, s = transform.mu, transform.rate, tilt.s
    closed = (s * xp.log(rate) + mu * mu * s * (s - 1) / 2) / xp.where(c > 0, c, 1.0)
    rest = xp.log(xp.maximum(s, 1.0)) + xp.log1p(-rate) - xp.log(rate) - mu * mu * (s - 1)
    exact = (tilt.sign > 0) & (rest < -40.0) & (closed * c > 40.0)
    return (tilt.step >= _WIDEST) & exact, closed


def _converted(terms, delta):
    """min over c = a - 1 > 0 of D_a + log(1 - 1/a) - log(a delta)/(a-1).

    With K the transform of all steps that is (K(c) + c log c - (1+c) log(1+c) - log delta)/c, and
    its slope in c has the sign of f(c) = c K'(c) - K(c) + log(1+c) + log delta,
    f' = c K'' + 1/(1+c) > 0: one minimum, where f = 0.
    """
    inside = (delta > 0) & (delta < 1)
    log_delta = safe_log(xp.where(inside, delta, 0.5))

    def slope(c):
        total, mean, variance = cumulants(terms, c)
        return c * mean - total + xp.log1p(c) + log_delta, c * variance + 1 / (1 + c)

    def along(x):
        value, rise = slope(xp.exp(x))
        return value, rise * xp.exp(x)

    low = xp.full_like(log_delta, -20.0)
    c = xp.stop_gradient(xp.exp(newton_in_bracket(along, low, low + 45.0, iterations=50)))
    # The value's first derivatives need no derivative of c. The second ones do: one step of
    # Newton's that goes nowhere.
    value, rise = slope(c)
    step = xp.where(xp.abs(value) < 1e-4, -value / xp.stop_gradient(rise), 0.0)
    c = c + step - xp.stop_gradient(step)
    divergence = over_steps(terms, _of_steps(terms, c))
    epsilon = divergence + xp.log(c) - xp.log1p(c) - (log_delta + xp.log1p(c)) / c
    limit = loss_bound(terms)  # what delta = 0 needs
    epsilon = xp.where(inside & (epsilon < limit), epsilon, limit)
    return xp.where(delta < 1, xp.maximum(epsilon, 0.0), 0.0)
