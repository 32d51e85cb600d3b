"""One of several experiments: drawn with known weights, or the worst of them."""

from collections.abc import Sequence

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import Domain, as_parameter, is_traced
from jaxpriv._types import Numbers
from jaxpriv.curve import Curve, experiments_of
from jaxpriv.tradeoff.averaged import Mixture
from jaxpriv.tradeoff.hull import Worst


def mixture(curves: Curve | Sequence[Curve], weights: Numbers) -> Curve:
    """The curve of one of several experiments drawn with known weights:
    the privacy profiles are averaged.

    Args:
        curves: a sequence of curves, or one curve whose parameters carry the members
            along their last axis.
        weights: `Float[Array, "... members"]`, >= 0, summing to 1 along the last axis (to 1e-6).

    Raises: ValueError for weights that are negative or do not sum to one,
        or an empty or unequal sequence.
    Source: Leemann et al. 2023 (arXiv:2306.07273), Definition 4.1 and its convex conjugate
    (docs/references.md): delta(eps) = E[delta_x(eps)].

        >>> import jaxpriv
        >>> pair = [jaxpriv.worst_case.gaussian(1.0), jaxpriv.worst_case.gaussian(2.0)]
        >>> print(f"{jaxpriv.mixture(pair, [0.5, 0.5]).advantage():.4f}")
        0.5328
    """
    weights = as_weights(weights)
    if isinstance(curves, Curve):
        return Curve(Mixture((curves.experiment,), (weights,)))
    curves = list(curves)
    count = weights.shape[-1] if np.ndim(weights) else 0
    if not curves or len(curves) != count:
        raise ValueError(f"curves has {len(curves)} members, weights {count}; they must agree")
    experiments = experiments_of("mixture", curves)
    groups: dict = {}
    for index, experiment in enumerate(experiments):
        groups.setdefault(_kind(experiment), []).append(index)
    members = [_stacked([experiments[i] for i in group]) for group in groups.values()]
    return Curve(
        Mixture(tuple(members), tuple(weights[..., np.asarray(group)] for group in groups.values()))
    )


def worst_of(*curves: Curve) -> Curve:
    """The curve that holds whichever of several mechanisms it is that runs: the lower convex
    envelope of the curves, in both directions; its profile is the largest of theirs.

    For what is not known of a mechanism: its noise, its kind, or a number that grows or falls with
    privacy loss and of which an interval is known. There the interval's worse end is the curve: of
    additive noise whose density (or masses) is log-concave the best test rejects from some point
    on, P(X >= t - s) grows with the sensitivity s, and so does every profile:
    `worst_case.gaussian(high/std)` covers each sensitivity in [low, high], and so it is with
    `laplace`, `discrete_gaussian`, `discrete_laplace` and the relaxed adversary's magnitudes. That
    adversary's test is the same for all of them, so it loses nothing by not knowing which.

    Args:
        curves: one or more `Curve`s, of broadcastable batches; several directions of one are both
            covered.

    Returns: a `Curve`, its own reverse. `compose(n)` and `jaxpriv.compose` take it for the bound of
        each step, any of which may be any of the mechanisms; where one and the same runs in all
        steps `worst_of` of the compositions is smaller.
    Guarantee: all bounds bracket the envelope, which dominates each of the mechanisms.
    Raises: ValueError without curves. Source: Zhu, Dong and Wang 2022, for dominating pairs from
        profiles and their composition.

        >>> import jaxpriv
        >>> one, other = jaxpriv.worst_case.gaussian(1.0), jaxpriv.worst_case.laplace(1.5)
        >>> both = jaxpriv.worst_of(one, other)
        >>> print(f"{both.delta(0.0):.4f} {both.delta(1.4):.4f} {one.delta(1.4):.4f}")
        0.5276 0.0676 0.0676
    """
    return Curve(Worst(tuple(experiments_of("worst_of", curves))))


def as_weights(weights):
    """Checked probabilities along the last axis; of a traced array what is negative becomes NaN."""
    weights = as_parameter("weights", weights, Domain(0.0, np.inf, "[0, inf), summing to 1"))
    if not is_traced(weights):
        total = np.sum(np.asarray(weights, np.float64), -1)
        if not np.all(np.abs(total - 1) <= 1e-6):
            raise ValueError(f"weights sum to {total} along the last axis; accepted: 1")
    return weights


def _kind(experiment):
    """What experiments share that can stand along one axis."""
    leaves, structure = jax.tree.flatten(experiment)
    wide = map(xp.of_axes, leaves, axes := jax.tree.leaves(experiment.own_axes()))
    own = tuple(leaf.shape[leaf.ndim - count :] for leaf, count in zip(wide, axes))
    # NumPy's numbers keep digits that JAX would round
    return structure, own, tuple(isinstance(leaf, jax.Array) for leaf in leaves)


def _stacked(experiments):
    """One experiment whose parameters carry the given ones along a last axis of the batch."""

    def stack(axes, *leaves):
        if any(isinstance(leaf, jax.Array) for leaf in leaves):
            parts = [xp.asarray(leaf) for leaf in leaves]
        else:
            kind = bool if xp.is_bool(leaves[0]) else np.float64
            parts = [np.asarray(leaf, kind) for leaf in leaves]
        return xp.stack(xp.broadcast_arrays(*(xp.of_axes(p, axes) for p in parts)), -1 - axes)

    return jax.tree.map(stack, experiments[0].own_axes(), *experiments)
