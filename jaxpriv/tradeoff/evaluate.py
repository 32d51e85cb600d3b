"""The methods of a curve as compiled functions of (experiment, arrays):
values, integrals and bounds.
"""

import math
from functools import wraps

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import UNIT, Domain, check_domain
from jaxpriv.tradeoff.area import area
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.gaussian_mu import certified_mu
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.stepping import (
    beyond_zero,
    followed,
    outward,
    power_near_slope,
    profile_bounds,
)
from jaxpriv.tradeoff.subsampled import Reversed

REAL = Domain(-np.inf, np.inf, "[-inf, inf]")
LOG = Domain(-np.inf, 0.0, "[-inf, 0]", -1.0)
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(14)


def elementwise(domain, *names):
    """Make a function of (experiment, *arrays) broadcast, jitted, of one dtype, checked,
    and NaN where an input is.

    The result is called with an experiment and with the arguments `names` by position or by name.
    """

    domains = domain if isinstance(domain, list) else [domain] * max(len(names), 1)
    of_name = dict(zip(names, domains))

    def decorate(function):
        def evaluate(experiment, *values):
            shape = xp.broadcast_shapes(experiment.batch_shape(), *(v.shape for v in values))
            valid, safe = xp.broadcast_to(experiment.defined(), shape), []
            for value, own in zip(values, domains):
                wide = xp.broadcast_to(value, shape)
                inside = own.contains(wide)
                valid = valid & inside
                safe.append(xp.where(inside, wide, own.inside))
            result = function(experiment.aligned(shape, values[0].dtype), *safe)
            return jax.tree.map(lambda r: xp.where(valid, r, xp.nan), result)

        compiled = jax.jit(evaluate)

        @wraps(function)
        def public(experiment, *args, **kwargs):
            given = dict(zip(names, args), **kwargs)
            if len(args) > len(names) or set(given) != set(names):
                raise TypeError(
                    f"{function.__name__}() takes the arguments {', '.join(names) or 'none'}"
                )
            for name in names:
                check_domain(name, given[name], of_name[name])
            values = [_number_or_array(given[name]) for name in names] or [0.0]
            if not xp.any_jax(experiment, values):
                found = xp.evaluate(
                    evaluate, experiment, *(np.asarray(v, np.float64) for v in values)
                )
                return jax.tree.map(lambda r: r[()], found)
            dtype = xp.result_type(*jax.tree.leaves(experiment), *values)
            compute = dtype if xp.finfo(dtype).bits >= 32 else xp.float32
            result = xp.evaluate(compiled, experiment, *(xp.asarray(v, compute) for v in values))
            return jax.tree.map(lambda r: r.astype(dtype), result)

        return public

    return decorate


def _number_or_array(value):
    """Lists become arrays; a Python number stays one, so that it does not widen the result."""
    if hasattr(value, "dtype"):
        return value if np.issubdtype(value.dtype, np.floating) else value * 1.0
    return np.asarray(value, float) if np.ndim(value) else float(value)


def _errors(experiment, alpha, reverse):
    log_beta, log_power = experiment.errors(alpha, reverse)
    return xp.exp(log_beta), xp.exp(log_power)


@elementwise(UNIT, "alpha")
def errors(experiment, alpha):
    return _errors(experiment, alpha, False)


@elementwise(UNIT, "alpha")
def beta(experiment, alpha):
    return _errors(experiment, alpha, False)[0]


@elementwise(UNIT, "alpha")
def power(experiment, alpha):
    return _errors(experiment, alpha, False)[1]


@elementwise(UNIT, "beta")
def inverse(experiment, beta):
    return _errors(experiment, beta, True)[0]


@elementwise(UNIT, "alpha")
def slope(experiment, alpha):
    return experiment.slope(alpha, False)


def _profile(experiment, epsilon):
    """At infinity what is left far away: the probability of an infinite loss."""
    value = experiment.log_delta(followed(epsilon), False)
    return xp.where(epsilon == -xp.inf, 0.0, value)


@elementwise(REAL, "epsilon")
def log_delta(experiment, epsilon):
    return _profile(experiment, epsilon)


@elementwise(REAL, "epsilon")
def steepness(experiment, epsilon):
    return experiment.steepness(epsilon, False)


@elementwise(UNIT, "delta")
def epsilon(experiment, delta):
    return experiment.epsilon(safe_log(delta), False)


@elementwise(REAL)
def advantage(experiment, zero):
    return xp.exp(experiment.log_delta(zero, False))


@elementwise(REAL)
def known_mu(experiment, zero):
    return experiment.gaussian_mu() * (1 + 12 * xp.finfo(zero.dtype).eps)


@elementwise(REAL)
def searched_mu(experiment, zero):
    return search_mu(experiment, zero)


def search_mu(experiment, zero):
    """An upper bound of the smallest mu for bounded losses,
    for all entries in the shape of `zero`.
    """

    def one(experiment):
        def direction(reverse):
            def errors_and_slope(alpha):
                spread = experiment.aligned(alpha.shape, alpha.dtype)
                return spread.errors_and_slope(alpha, reverse)

            largest = xp.maximum(experiment.loss_bound(False), experiment.loss_bound(True))
            return certified_mu(errors_and_slope, largest, zero.dtype)

        return xp.maximum(direction(False), direction(True))

    flat = jax.tree.map(
        lambda leaf: leaf.reshape((zero.size,) + leaf.shape[zero.ndim :]), experiment
    )
    return xp.each(one, flat).reshape(zero.shape)


def _levels_of(dtype):
    """Panel ends for integrals over alpha, graded towards 0 and 1."""
    depth = 26 if dtype == xp.float64 else 11
    small = 0.5 * 4.0 ** -np.arange(depth)[::-1]
    return np.concatenate([[0.0], small, 1 - small[::-1][1:], [1.0]])


@elementwise(REAL)
def auc(experiment, zero):
    closed = experiment.auc()
    if closed is not None:
        return closed
    # with the hypotheses exchanged it is the same
    either = experiment.base if isinstance(experiment, Reversed) else experiment
    curved = isinstance(either, Envelope) and not either.polygon()
    if curved and not xp.any_jax(either, zero):
        found = area(either, zero.shape)
        if found is not None:
            return found
    ends = xp.broadcast_to(
        xp.asarray(_levels_of(zero.dtype), zero.dtype), zero.shape + (len(_levels_of(zero.dtype)),)
    )
    kinks = [xp.broadcast_to(k, zero.shape)[..., None] for k in experiment.kinks(False)]
    ends = xp.sort(xp.concatenate([ends, *kinks], -1), -1)
    spread = jax.tree.map(lambda leaf: leaf[None], experiment)

    def panel(left, right):
        nodes = xp.asarray(0.5 * (1 + _GAUSS_NODES), zero.dtype).reshape((-1,) + (1,) * left.ndim)
        alpha = left + (right - left) * nodes
        wide = spread.aligned(alpha.shape, zero.dtype)
        mean = xp.tensordot(
            xp.asarray(0.5 * _GAUSS_WEIGHTS, zero.dtype), xp.exp(wide.errors(alpha, False)[1]), 1
        )
        return (right - left) * mean

    return xp.sum_of(panel, (xp.moveaxis(ends[..., :-1], -1, 0), xp.moveaxis(ends[..., 1:], -1, 0)))


@elementwise(REAL, "epsilon")
def bounds_of_log_delta(experiment, epsilon):
    return profile_bounds(experiment, False, epsilon)[:2]


@elementwise(REAL, "epsilon")
def bounds_of_delta(experiment, epsilon):
    return outward(*profile_bounds(experiment, False, epsilon)[:2])


@elementwise([LOG, LOG, UNIT], "lowest", "log_delta", "delta")
def bounds_of_epsilon(experiment, lowest, log_delta, delta):
    """For log delta between `lowest` and `log_delta`,
    which differ where delta is not known better.
    """
    low, high = experiment.epsilon_bracket(lowest, log_delta, False)
    low = xp.where(experiment.log_told(False)[0] > log_delta, xp.inf, low)
    # an exact probability of telling everything, compared as it was given
    last = experiment.last_loss()
    if last is not None:
        told = (last[1] <= delta) & ((last[1] == 0) | (delta > xp.finfo(delta.dtype).tiny))
        high = xp.where(told, xp.minimum(high, last[0]), high)
        low = xp.where(last[1] > delta, xp.inf, low)
    return xp.minimum(low, high), xp.maximum(high, low)


@elementwise(REAL, "alpha")
def bounds_of_beta(experiment, alpha):
    """Between the ends from lines; f(0) is 1 less what is told for sure, of which brackets at
    finite eps say nothing.
    """
    known = experiment.beta_bracket(alpha)
    if known is not None:
        return known
    most_told, told = experiment.log_told(False)[::-1]
    ulp, first = xp.finfo(alpha.dtype).eps, alpha <= 0
    low = xp.where(first, _rest(most_told, 1 - 2 * ulp), 0.0)
    high = xp.where(first, _rest(told, 1 + 2 * ulp), 0.0)
    inside = (alpha > 0) & (alpha < 1)
    if xp.known_false(inside):
        return low, high
    lowest, highest = _beta_by_lines(experiment, xp.where(inside, alpha, 0.5), inside)
    return xp.where(inside, lowest, low), xp.where(inside, highest, high)


def _rest(log_told, rounding):
    """1 less a probability, rounded; 1 itself where that is 0."""
    rest = xp.where(log_told < 0, -xp.expm1(log_told), 0.0)
    return xp.where(log_told > -xp.inf, xp.minimum(rest * rounding, 1.0), 1.0)


def _beta_by_lines(experiment, level, inside):
    """One less the power, which lines bracket; where nearly all is told nothing is beyond doubt,
    and what eps = 0 says serves.
    """
    ulp = xp.finfo(level.dtype).eps
    least, most = power_near_slope(experiment, level, 32 * ulp)
    high = (1 - least) * (1 + 2 * ulp)
    high = xp.minimum(high, beyond_zero(experiment, level, inside & (least <= level)))
    # f ends where the null's outcomes that tell everything begin, of which no line tells
    told = xp.exp(experiment.log_told(True)[0]) * (1 - 16 * ulp)
    high = xp.where(1 - level <= told, 0.0, high)
    return xp.maximum((1 - most) * (1 - 2 * ulp), 0.0), xp.minimum(high, 1.0)


@elementwise(REAL)
def least_mu(experiment, zero):
    """A lower bound of the smallest mu: that of G_mu whose profile is what is certain of this
    one's, at a few eps.

    The last one is for a largest loss that is far from all others: G_mu touches where the type I
    error is e^-loss, about, at a slope of loss - log sqrt(4 pi loss).
    """
    largest = experiment.loss_bound(False)
    loss = xp.where(xp.isfinite(largest), largest, 10.0)
    last = xp.maximum(loss - xp.log1p(xp.sqrt(4 * math.pi * loss)), 0.0)
    eps = xp.stack([*(xp.full_like(zero, e) for e in (0.0, 0.3, 1.0, 3.0)),
                    xp.broadcast_to(last, zero.shape)])  # fmt: skip
    spread = jax.tree.map(lambda leaf: leaf[None], experiment).aligned(eps.shape, zero.dtype)
    target = profile_bounds(spread, False, eps)[0]
    goal = xp.where(xp.isfinite(target), target, -1.0)

    def shortfall(log_mu):
        mu = xp.exp(log_mu)
        return NormalShift(mu).log_delta_at(eps, None, False) - goal, xp.zeros_like(mu)

    low = xp.full_like(eps, -25.0)
    mu = xp.exp(newton_in_bracket(shortfall, low, low + 36.0, iterations=60))
    # what lies below the searched range bounds nothing
    useful = xp.isfinite(target) & (mu > 2e-11)
    return xp.max(xp.where(useful, mu, 0.0), 0) * (1 - 1e-9)
