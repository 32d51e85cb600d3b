"""The trade-off curve: what every adversary of this library looks like to its user."""

from dataclasses import dataclass
from functools import partial, wraps

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import Domain, POSITIVE, RATE, UNIT, check_domain
from jaxpriv.tradeoff.envelope import Mixture, Symmetric
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.gaussian_mu import certified_mu
from jaxpriv.tradeoff.pair import safe_log

_REAL = Domain(-np.inf, np.inf, "[-inf, inf]")
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(14)


def _levels_of(dtype):
    """Panel ends for integrals over alpha, graded towards 0 and 1."""
    depth = 26 if dtype == jnp.float64 else 11
    small = 0.5 * 4.0 ** -np.arange(depth)[::-1]
    return np.concatenate([[0.0], small, 1 - small[::-1][1:], [1.0]])


def _elementwise(domain, *names):
    """Make a method of (experiment, array) -> array jitted, broadcast, of one dtype, NaN-preserving and checked."""

    def decorate(method):
        @jax.jit
        def evaluate(experiment, *values):
            shape = jnp.broadcast_shapes(experiment.batch_shape(), *(v.shape for v in values))
            dtype = values[0].dtype
            aligned = experiment.aligned(shape, dtype)
            values = [jnp.broadcast_to(v, shape) for v in values]
            inside = [domain.contains(v) for v in values]
            result = method(aligned, *(jnp.where(i, v, domain.inside) for i, v in zip(inside, values)))
            valid = jnp.ones(shape, bool)
            for i in inside:
                valid = valid & i
            return jax.tree.map(lambda r: jnp.where(valid & _defined(experiment, shape), r, jnp.nan), result)

        @wraps(method)
        def public(self, *args, **kwargs):
            given = dict(zip(names, args), **kwargs)
            if len(args) > len(names) or set(given) != set(names):
                raise TypeError(f"{method.__name__}() takes the arguments {', '.join(names) or 'none'}")
            for name in names:
                check_domain(name, given[name], domain)
            values = [given[name] if hasattr(given[name], "dtype") else np.asarray(given[name], float) if np.ndim(given[name]) else given[name]
                      for name in names]
            dtype = jnp.result_type(*jax.tree.leaves(self.experiment), *values, 0.0)
            compute = dtype if jnp.finfo(dtype).bits >= 32 else jnp.float32
            result = evaluate(self.experiment, *(jnp.asarray(v, compute) for v in values or [0.0]))
            return jax.tree.map(lambda r: r.astype(dtype), result)

        return public

    return decorate


def _defined(experiment, shape):
    """False where a parameter is NaN."""
    ok = jnp.ones(experiment.batch_shape(), bool)
    for leaf in jax.tree.leaves(experiment):
        bad = jnp.isnan(leaf)
        extra = jnp.ndim(leaf) - ok.ndim
        ok = ok & ~(jnp.any(bad, axis=tuple(range(-extra, 0))) if extra > 0 else bad)
    return jnp.broadcast_to(ok, shape)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Curve:
    """A trade-off function f: the smallest type II error beta = f(alpha) of an adversary at type I error alpha.

    Built by the catalogue (`jaxpriv.worst_case`, `jaxpriv.relaxed`, ...) from a dominating pair: null = the record is
    absent, alternative = it is present. A pytree: parameters may be arrays of any broadcastable shape (one curve with
    array leaves is a batch of curves), and every method works under `jit`, `vmap`, `grad`.

    The methods describe this one direction. A mechanism must hold against both: `symmetric()` is the curve to quote for
    it (for Gaussian and Laplace noise against the full adversary the two directions coincide).

    Shared by all methods: arguments are `Float[Array, "..."]` and broadcast against the parameters; NaN in, NaN out; a
    concrete argument outside its range raises ValueError, a traced one gives NaN. Floating-point estimates, correct to
    rounding; the guarantees are `epsilon_bounds`, `delta_bounds`, and the upper bound that `gdp_mu` returns.

        >>> import jaxpriv
        >>> curve = jaxpriv.relaxed.gaussian(1.0)
        >>> print(f"{curve(0.05):.4f} {curve.power(0.05):.4f}")
        0.8299 0.1701
    """

    experiment: Experiment

    def __call__(self, alpha):
        """Type II error beta = f(alpha) of the best test at type I error alpha in [0, 1]; decreasing and convex.

        Source: paper 2, Definition 2; paper 1, Theorem 1 (as ROC curve 1 - f).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0)(0.05):.4f}")
            0.7405
        """
        return _beta(self, alpha)

    def power(self, alpha):
        """Power 1 - f(alpha) (TPR at FPR alpha in [0, 1]), computed on its own, so that it is exact where it is tiny.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).power(1e-3):.4f}")
            0.0183
        """
        return _power(self, alpha)

    def inverse(self, beta):
        """The type I error at which the type II error is beta in [0, 1]: the curve of the exchanged hypotheses at beta.

            >>> import jaxpriv
            >>> curve = jaxpriv.relaxed.gaussian(1.0)
            >>> print(f"{curve.inverse(curve(0.05)):.4f}")
            0.0500
        """
        return _inverse(self, beta)

    def slope(self, alpha):
        """The eps in [-inf, inf] for which a line of slope -e^eps supports f at alpha in [0, 1].

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).slope(0.5):.4f}")
            -0.5000
        """
        return _slope(self, alpha)

    def log_delta(self, epsilon):
        """log of `delta(epsilon)`, exact far below the smallest float; -inf where delta is 0.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).log_delta(50.0):.2f}")
            -1234.60
        """
        return _log_delta(self, epsilon)

    def delta(self, epsilon):
        """Privacy profile: the smallest delta for which f supports (epsilon, delta), at any real epsilon.

        delta = sup_alpha (1 - f(alpha) - e^epsilon alpha), the conjugate of f, from the threshold with likelihood ratio
        e^epsilon and without cancellation. Source: Dong, Roth, Su, Proposition 2.13; paper 1, Section 4.5.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).delta(1.0):.4f}")
            0.1269
        """
        return jnp.exp(_log_delta(self, epsilon))

    def epsilon(self, delta):
        """The smallest epsilon >= 0 with delta(epsilon) <= delta, delta in [0, 1]; inf at delta = 0 for unbounded losses.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.gaussian(0.5).epsilon(1e-4):.4f}")
            1.0279
        """
        return _epsilon(self, delta)

    def advantage(self):
        """max_alpha (power - alpha) in [0, 1]: the membership advantage, the total variation distance, delta(0).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).advantage():.4f}")
            0.3829
        """
        return _advantage(self)

    def auc(self):
        """Area under the ROC curve power(alpha), in [1/2, 1].

        Closed form for the Gaussian pair; elsewhere Gauss-Legendre on panels graded to both ends and cut at the curve's
        kinks, to about 1e-12 (1e-8 where a straight piece ends at a level that is not known in closed form).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).auc():.4f}")
            0.7602
        """
        return _auc(self)

    def gdp_mu(self):
        """The smallest mu >= 0 whose Gaussian curve G_mu lies below f and its inverse, rounded upwards.

        Guarantee: an upper bound (mu-GDP holds). Exact for every curve from Gaussian noise: there it is the limit
        alpha -> 0, where the relaxed adversary catches up with the full one. For losses that are bounded (Laplace) a
        certified search, tight to about 1e-9. Source: Dong, Roth, Su, Definition 2.6.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.gaussian(0.5, dim=30).gdp_mu():.4f}")
            0.5000
        """
        if self.experiment.gaussian_mu() is not None:
            return _known_mu(self)
        if isinstance(self.experiment, Symmetric):
            # G_mu is symmetric and convex: it lies below the envelope if it lies below every member
            return jnp.max(jnp.stack(jnp.broadcast_arrays(*(Curve(m).gdp_mu() for m in self.experiment.members))), 0)
        return _searched_mu(self)

    def reversed(self):
        """The curve f^-1 of the exchanged hypotheses.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.laplace(1.0).reversed().epsilon(0.0):.4f}")
            1.0000
        """
        return Curve(self.experiment.reversed())

    def symmetric(self):
        """The convexified symmetrisation min(f, f^-1)**: what holds whichever hypothesis the adversary calls the null.

        Its profile is the larger of the two directions' profiles, its curve straight (slope -1) around the diagonal.
        Source: Dong, Roth, Su, Appendix E; paper 2, Definition 3.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.laplace(1.0).symmetric().epsilon(0.0):.4f}")
            1.0000
        """
        if isinstance(self.experiment, Symmetric):
            return self
        return Curve(Symmetric((self.experiment,)))

    def subsample(self, rate):
        """The curve when the record takes part with probability `rate` in (0, 1] (Poisson sampling, add/remove).

        f_p = p f + (1-p)(1 - alpha), and `reversed()`/`symmetric()` of it; for a symmetric curve the symmetrisation of
        both. One step only: sub-sampled steps compose in `jaxpriv.accounting`. Source: paper 2, Lemma 9.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).subsample(0.1).advantage():.4f}")
            0.0383
        """
        check_domain("rate", rate, RATE)
        return Curve(self.experiment.subsampled(rate))

    def compose(self, n):
        """The curve of n > 0 equal releases seen together, where it has a closed form (Gaussian noise, not sub-sampled).

        mu becomes sqrt(n) mu, and the relaxed adversary's noncentrality n times its own. Other curves raise ValueError.
        Source: Dong, Roth, Su, Corollary 3.3; paper 1, Theorem 2.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(0.5).compose(4).gdp_mu():.4f}")
            1.0000
        """
        check_domain("n", n, POSITIVE)
        return Curve(self.experiment.compose(n))

    def delta_bounds(self, epsilon):
        """(lower, upper) with the exact delta(epsilon) of these parameters in between, in float64 whatever the mode.

        Guarantee: both sides, up to the rounding model below. The curve is in closed form, so that rounding is the only
        error: delta = A - e^epsilon B is computed to 64 units in the last place of log A, times A/delta where A and B cancel.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).delta_bounds(1.0)
            >>> bool(low < high), bool(high - low < 1e-12)
            (True, True)
        """
        check_domain("epsilon", epsilon, _REAL)
        with jax.enable_x64(True):
            return _delta_bounds(*_as_float64(self, epsilon))

    def epsilon_bounds(self, delta):
        """(lower, upper) with the exact epsilon(delta) of these parameters in between, in float64 whatever the mode.

        Guarantee: both sides; the upper end is verified, delta_bounds(upper)[1] <= delta. Width about 1e-13.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).epsilon_bounds(1e-5)
            >>> bool(low < high), bool(high - low < 1e-10)
            (True, True)
        """
        check_domain("delta", delta, UNIT)
        with jax.enable_x64(True):
            return _epsilon_bounds(*_as_float64(self, delta))


def _as_float64(curve, value):
    """Parameters as they were given: Python and NumPy floats keep the digits that float32 would drop."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (curve, value))


def _method(domain, *names):
    """`_elementwise` for functions of (experiment, ...), called with the curve."""
    return lambda function: _elementwise(domain, *names)(function)


@_method(UNIT, "alpha")
def _beta(experiment, alpha):
    return jnp.exp(experiment.errors(alpha, False)[0])


@_method(UNIT, "alpha")
def _power(experiment, alpha):
    return jnp.exp(experiment.errors(alpha, False)[1])


@_method(UNIT, "beta")
def _inverse(experiment, beta):
    return jnp.exp(experiment.errors(beta, True)[0])


@_method(UNIT, "alpha")
def _slope(experiment, alpha):
    return experiment.slope(alpha, False)


def _profile(experiment, epsilon):
    finite = jnp.isfinite(epsilon)
    value = experiment.log_delta(jnp.where(finite, epsilon, 0.0), False)
    return jnp.where(finite, value, jnp.where(epsilon > 0, -jnp.inf, 0.0))


@_method(_REAL, "epsilon")
def _log_delta(experiment, epsilon):
    return _profile(experiment, epsilon)


@_method(UNIT, "delta")
def _epsilon(experiment, delta):
    return experiment.epsilon(safe_log(delta), False)


@_method(_REAL)
def _advantage(experiment, zero):
    return jnp.exp(experiment.log_delta(zero, False))


@_method(_REAL)
def _known_mu(experiment, zero):
    return experiment.gaussian_mu() * (1 + 4 * jnp.finfo(zero.dtype).eps)


@_method(_REAL)
def _searched_mu(experiment, zero):
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


@_method(_REAL)
def _auc(experiment, zero):
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


def _log_margin(epsilon, log_delta, point):
    """Relative rounding error of delta: 64 ulp of log A, times A/delta = 1 + e^eps alpha/delta."""
    positive = log_delta > -jnp.inf
    ratio = jnp.where(positive, jnp.exp(epsilon + point.log_alpha - log_delta), 0.0)
    magnitude = 1 + jnp.abs(jnp.where(positive, log_delta, 0.0)) + jnp.abs(epsilon)
    return 64 * jnp.finfo(epsilon.dtype).eps * magnitude * (1 + jnp.where(jnp.isfinite(ratio), ratio, 0.0))


def _profile_bounds(experiment, epsilon):
    """(lower, upper, touch) of delta. Where losses are bounded the end of the profile is itself known to rounding only."""
    finite = jnp.isfinite(epsilon)
    at = jnp.where(finite, epsilon, 0.0)
    log_delta, point = experiment.contact(at, False)
    log_delta = jnp.where(finite, log_delta, jnp.where(epsilon > 0, -jnp.inf, 0.0))
    margin = jnp.where(finite, _log_margin(at, log_delta, point), 0.0)
    at_end = finite & (log_delta == -jnp.inf) & (at < experiment.loss_bound(False) * (1 + 1e-14))
    upper = jnp.where(at_end, 1e-13, jnp.minimum(jnp.exp(log_delta + margin), 1.0))
    return jnp.exp(log_delta - margin), upper, point


@_method(_REAL, "epsilon")
def _bounds_of_delta(experiment, epsilon):
    return _profile_bounds(experiment, epsilon)[:2]


@_method(UNIT, "delta")
def _bounds_of_epsilon(experiment, delta):
    """The margin of log delta over its slope w = e^eps alpha/delta; the upper end is stepped out until it verifies."""
    estimate = experiment.epsilon(safe_log(delta), False)
    finite = jnp.isfinite(estimate) & (delta > 0)
    at = jnp.where(finite, estimate, 0.0)
    rounding = 16 * jnp.finfo(at.dtype).eps * (1 + at)

    def verify(step, state):
        high, width = state
        _, upper, point = _profile_bounds(experiment, high)
        margin = 2 * _log_margin(high, safe_log(delta), point)
        first = margin * jnp.exp(-jnp.minimum(high + point.log_alpha - safe_log(delta), 0.0)) + rounding
        first = jnp.where(jnp.isfinite(first), jnp.minimum(first, 1e-6 * (1 + at)), 1e-9)
        width = jnp.where(step == 0, first, width)
        fails = upper > delta
        return jnp.where(fails | ((step == 0) & (at > 0)), high + width, high), jnp.where(fails & (step > 0), 4 * width, width)

    high, width = jax.lax.fori_loop(0, 17, verify, (at, rounding))
    return jnp.where(finite, jnp.maximum(at - width, 0.0), estimate), jnp.where(finite, high, estimate)


def _delta_bounds(curve, epsilon):
    return _bounds_of_delta(curve, epsilon)


def _epsilon_bounds(curve, delta):
    return _bounds_of_epsilon(curve, delta)


def mixture(curves, weights):
    """The curve of one of several experiments drawn with known weights: the privacy profiles are averaged.

    Args:
        curves: a sequence of curves, or one curve whose parameters carry the members along their last axis.
        weights: `Float[Array, "... members"]`, >= 0, summing to 1 along the last axis (to 1e-6).

    Raises: ValueError for weights that are negative or do not sum to one, or an empty or unequal sequence.
    Source: paper 3, Definition 4.1 and its convex conjugate (ERRATA, section 3): delta(eps) = E[delta_x(eps)].

        >>> import jaxpriv
        >>> pair = [jaxpriv.worst_case.gaussian(1.0), jaxpriv.worst_case.gaussian(2.0)]
        >>> print(f"{jaxpriv.tradeoff.mixture(pair, [0.5, 0.5]).advantage():.4f}")
        0.5328
    """
    check_domain("weights", weights, Domain(0.0, np.inf, "[0, inf), summing to 1"))
    if not isinstance(weights, jax.core.Tracer):
        total = np.sum(np.asarray(weights, np.float64), -1)
        if np.any(np.abs(total - 1) > 1e-6):
            raise ValueError(f"weights sum to {total} along the last axis; accepted: 1")
    if isinstance(curves, Curve):
        return Curve(Mixture((curves.experiment,), (weights,)))
    curves = list(curves)
    columns = weights if isinstance(weights, jax.Array) else np.asarray(weights, np.float64)
    if not curves or len(curves) != columns.shape[-1]:
        raise ValueError(f"curves has {len(curves)} members, weights {columns.shape[-1] if columns.ndim else 0}; they must agree")
    groups = {}
    for index, curve in enumerate(curves):
        groups.setdefault(jax.tree.structure(curve.experiment), []).append(index)
    members = [_stacked([curves[i].experiment for i in group]) for group in groups.values()]
    return Curve(Mixture(tuple(members), tuple(columns[..., np.asarray(group)] for group in groups.values())))


def _stacked(experiments):
    """One experiment whose parameters carry the given ones along a last axis."""

    def stack(*leaves):
        if all(not isinstance(leaf, jax.Array) for leaf in leaves):
            return np.stack(np.broadcast_arrays(*(np.asarray(leaf, np.float64) for leaf in leaves)), -1)
        return jnp.stack(jnp.broadcast_arrays(*(jnp.asarray(leaf) for leaf in leaves)), -1)

    return jax.tree.map(stack, *experiments)
