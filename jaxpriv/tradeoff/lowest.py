"""The smallest Gaussian curve below a trade-off function at every level: estimate and bounds."""

import jax

from jaxpriv import _array as xp
from jaxpriv.tradeoff import evaluate
from jaxpriv.tradeoff.hull import Hull


def smallest_mu(experiment):
    """An upper bound of the smallest mu with G_mu below f and f^-1."""
    if isinstance(experiment, Hull):
        # G_mu is symmetric and convex: it lies below the envelope if it lies below every member
        return xp.max(xp.stack(xp.broadcast_arrays(*map(smallest_mu, experiment.members))), 0)
    dtype = xp.result_type(*jax.tree.leaves(experiment))
    known = xp.evaluate(experiment.aligned(experiment.batch_shape(), dtype).gaussian_mu) is not None
    return (evaluate.known_mu if known else evaluate.searched_mu)(experiment)


def bounds_of_mu(experiment):
    """(lower, upper) of it in float64; none is large enough where anything is told for sure."""
    experiment = experiment.aligned(experiment.batch_shape(), xp.float64)
    endless = xp.maximum(*(experiment.log_told(reverse)[0] for reverse in (False, True))) > -xp.inf
    if xp.known_false(~endless):
        return xp.full_like(endless, xp.inf, float), xp.full_like(endless, xp.inf, float)
    upper = smallest_mu(experiment)
    ulp, tail = xp.finfo(xp.float64).eps, experiment.least_tail_mu()
    lower = evaluate.least_mu(experiment) if tail is None else tail * (1 - 256 * ulp)
    known = experiment.least_gaussian_mu()
    lower = lower if known is None else xp.maximum(lower, known * (1 - 12 * ulp))
    lower, upper = (xp.where(endless, xp.inf, end) for end in (lower, upper))
    return xp.minimum(lower, upper), upper
