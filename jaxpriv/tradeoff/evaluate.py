"""The methods of a curve as compiled functions of (experiment, arrays): values, integrals and bounds."""

from functools import wraps

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import UNIT, Domain, check_domain
from jaxpriv.tradeoff.gaussian_mu import certified_mu
from jaxpriv.tradeoff.pair import safe_log

REAL = Domain(-np.inf, np.inf, "[-inf, inf]")
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(14)


def elementwise(domain, *names):
    """Make a function of (experiment, *arrays) broadcast, jitted, of one dtype, checked, and NaN where an input is.

    The result is called with a curve, in place of its experiment, and with the arguments `names` by position or by name.
    """

    def decorate(function):
        @jax.jit
        def evaluate(experiment, *values):
            shape = jnp.broadcast_shapes(experiment.batch_shape(), *(v.shape for v in values))
            valid, safe = jnp.broadcast_to(experiment.defined(), shape), []
            for value in values:
                wide = jnp.broadcast_to(value, shape)
                inside = domain.contains(wide)
                valid = valid & inside
                safe.append(jnp.where(inside, wide, domain.inside))
            result = function(experiment.aligned(shape, values[0].dtype), *safe)
            return jax.tree.map(lambda r: jnp.where(valid, r, jnp.nan), result)

        @wraps(function)
        def public(curve, *args, **kwargs):
            given = dict(zip(names, args), **kwargs)
            if len(args) > len(names) or set(given) != set(names):
                raise TypeError(f"{function.__name__}() takes the arguments {', '.join(names) or 'none'}")
            for name in names:
                check_domain(name, given[name], domain)
            values = [_number_or_array(given[name]) for name in names] or [0.0]
            dtype = jnp.result_type(*jax.tree.leaves(curve.experiment), *values)
            compute = dtype if jnp.finfo(dtype).bits >= 32 else jnp.float32
            result = evaluate(curve.experiment, *(jnp.asarray(v, compute) for v in values))
            return jax.tree.map(lambda r: r.astype(dtype), result)

        return public

    return decorate


def _number_or_array(value):
    """Lists become arrays; a Python number stays one, so that it does not widen the result."""
    if hasattr(value, "dtype"):
        return value if jnp.issubdtype(value.dtype, jnp.floating) else value * 1.0
    return np.asarray(value, float) if np.ndim(value) else float(value)


def _errors(experiment, alpha, reverse):
    log_beta, log_power = experiment.errors(alpha, reverse)
    return jnp.exp(log_beta), jnp.exp(log_power)


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
    finite = jnp.isfinite(epsilon)
    value = experiment.log_delta(jnp.where(finite, epsilon, 0.0), False)
    return jnp.where(finite, value, jnp.where(epsilon > 0, -jnp.inf, 0.0))


@elementwise(REAL, "epsilon")
def log_delta(experiment, epsilon):
    return _profile(experiment, epsilon)


@elementwise(UNIT, "delta")
def epsilon(experiment, delta):
    return experiment.epsilon(safe_log(delta), False)


@elementwise(REAL)
def advantage(experiment, zero):
    return jnp.exp(experiment.log_delta(zero, False))


@elementwise(REAL)
def known_mu(experiment, zero):
    return experiment.gaussian_mu() * (1 + 4 * jnp.finfo(zero.dtype).eps)


@elementwise(REAL)
def searched_mu(experiment, zero):
    def one(experiment):
        def direction(reverse):
            def errors_and_slope(alpha):
                spread = experiment.aligned(alpha.shape, alpha.dtype)
                return spread.errors(alpha, reverse), spread.slope(alpha, reverse)

            largest = jnp.maximum(experiment.loss_bound(False), experiment.loss_bound(True))
            return certified_mu(errors_and_slope, largest, zero.dtype)

        return jnp.maximum(direction(False), direction(True))

    flat = jax.tree.map(lambda leaf: leaf.reshape((zero.size,) + leaf.shape[zero.ndim:]), experiment)
    return jax.lax.map(one, flat).reshape(zero.shape)


def _levels_of(dtype):
    """Panel ends for integrals over alpha, graded towards 0 and 1."""
    depth = 26 if dtype == jnp.float64 else 11
    small = 0.5 * 4.0 ** -np.arange(depth)[::-1]
    return np.concatenate([[0.0], small, 1 - small[::-1][1:], [1.0]])


@elementwise(REAL)
def auc(experiment, zero):
    closed = experiment.auc()
    if closed is not None:
        return closed
    ends = jnp.broadcast_to(jnp.asarray(_levels_of(zero.dtype), zero.dtype), zero.shape + (len(_levels_of(zero.dtype)),))
    kinks = [jnp.broadcast_to(k, zero.shape)[..., None] for k in experiment.kinks(False)]
    ends = jnp.sort(jnp.concatenate([ends, *kinks], -1), -1)
    spread = jax.tree.map(lambda leaf: leaf[None], experiment)

    def panel(total, side):
        left, right = side
        alpha = left + (right - left) * jnp.asarray(0.5 * (1 + _GAUSS_NODES), zero.dtype).reshape((-1,) + (1,) * zero.ndim)
        wide = spread.aligned(alpha.shape, zero.dtype)
        mean = jnp.tensordot(jnp.asarray(0.5 * _GAUSS_WEIGHTS, zero.dtype), jnp.exp(wide.errors(alpha, False)[1]), 1)
        return total + (right - left) * mean, None

    sides = jnp.moveaxis(ends[..., :-1], -1, 0), jnp.moveaxis(ends[..., 1:], -1, 0)
    return jax.lax.scan(panel, zero, sides)[0]


def _profile_bounds(experiment, epsilon):
    """(lower, upper, -d log delta/d epsilon), at infinite epsilon too."""
    finite = jnp.isfinite(epsilon)
    lower, upper, rate = experiment.bracket(jnp.where(finite, epsilon, 0.0), False)
    limit = jnp.where(epsilon > 0, 0.0, 1.0)
    return jnp.where(finite, lower, limit), jnp.where(finite, upper, limit), rate


@elementwise(REAL, "epsilon")
def bounds_of_delta(experiment, epsilon):
    return _profile_bounds(experiment, epsilon)[:2]


@elementwise(UNIT, "delta")
def bounds_of_epsilon(experiment, delta):
    """The width of delta's bracket over its slope, around the estimate; both ends are stepped out until they verify."""
    estimate = experiment.epsilon(safe_log(delta), False)
    finite = jnp.isfinite(estimate) & (delta > 0)
    at = jnp.where(finite, estimate, 0.0)
    both = jax.tree.map(lambda leaf: leaf[None], experiment).aligned((2, *at.shape), at.dtype)
    outward = jnp.asarray([-1.0, 1.0], at.dtype).reshape((2,) + (1,) * at.ndim)
    rounding = 16 * jnp.finfo(at.dtype).eps * (1 + at)

    def verify(state):
        step, ends, width, _ = state
        lower, upper, rate = _profile_bounds(both, ends)
        first = 2 * jnp.maximum(safe_log(upper) - safe_log(delta), safe_log(delta) - safe_log(lower)) / rate + rounding
        first = jnp.where(jnp.isfinite(first), jnp.clip(first, rounding, 1e-6 * (1 + at)), 1e-9)
        width = jnp.where(step == 0, first, width)
        holds = jnp.stack([(lower[0] >= delta) | (ends[0] == 0), upper[1] <= delta])
        moves = ~holds | ((step == 0) & (at > 0))
        ends = jnp.where(moves, jnp.maximum(ends + outward * width, 0.0), ends)
        return step + 1, ends, jnp.where(~holds & (step > 0), 4 * width, width), ~moves

    def unverified(state):
        step, *_, verified = state
        return (step < 24) & ~jnp.all(verified | ~finite)

    start = jnp.stack([at, at])
    state = (0, start, jnp.zeros_like(start), jnp.zeros_like(start, bool))
    _, ends, _, verified = jax.lax.while_loop(unverified, verify, state)
    low, high = jnp.where(verified, ends, jnp.stack([jnp.zeros_like(at), jnp.full_like(at, jnp.inf)]))
    return jnp.where(finite, low, estimate), jnp.where(finite, high, estimate)
