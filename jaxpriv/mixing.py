"""Mixtures of curves: one of several experiments, drawn with known weights."""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import Domain, as_parameter, is_traced
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.averaged import Mixture


def mixture(curves, weights):
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
    groups: dict = {}
    for index, curve in enumerate(curves):
        leaves, structure = jax.tree.flatten(curve.experiment)
        # NumPy's numbers keep digits that JAX would round
        groups.setdefault(
            (structure, tuple(isinstance(leaf, jax.Array) for leaf in leaves)), []
        ).append(index)
    members = [_stacked([curves[i].experiment for i in group]) for group in groups.values()]
    return Curve(
        Mixture(tuple(members), tuple(weights[..., np.asarray(group)] for group in groups.values()))
    )


def as_weights(weights):
    """Checked probabilities along the last axis; of a traced array what is negative becomes NaN."""
    weights = as_parameter("weights", weights, Domain(0.0, np.inf, "[0, inf), summing to 1"))
    if not is_traced(weights):
        total = np.sum(np.asarray(weights, np.float64), -1)
        if not np.all(np.abs(total - 1) <= 1e-6):
            raise ValueError(f"weights sum to {total} along the last axis; accepted: 1")
    return weights


def _stacked(experiments):
    """One experiment whose parameters carry the given ones along a last axis."""

    def stack(*leaves):
        if all(not isinstance(leaf, jax.Array) for leaf in leaves):
            return np.stack(
                np.broadcast_arrays(*(np.asarray(leaf, np.float64) for leaf in leaves)), -1
            )
        return xp.stack(xp.broadcast_arrays(*(xp.asarray(leaf) for leaf in leaves)), -1)

    return jax.tree.map(stack, *experiments)
