"""Several mechanisms seen together by one adversary:
the curve of the sum of their privacy losses.
"""

from jaxpriv.composition.steps import together
from jaxpriv.curve import Curve, experiments_of


def compose(*curves: Curve, axis: int | None = None) -> Curve:
    """The curve of several mechanisms seen together, each with fresh noise,
    the same record present in all or in none.

    Gaussian noise, sub-sampled or not, is composed by its privacy-loss transform, at a cost that
    does not depend on the number of equal steps; as soon as another mechanism takes part, all are
    composed on a lattice of losses. Relaxed Gaussian releases (not sub-sampled, of one dim) go to
    the adversary of Kaissis et al. 2022, Theorem 2, who adds them up; all other relaxed steps to
    one who sees each step's magnitude.

    The mechanisms may see what came out before, but the curves are fixed beforehand: those that are
    chosen by what came out, of parameters or of the number of steps, do not compose as curves do
    (Tran et al. 2026, arXiv:2602.06756). `jaxpriv.filters` has what holds for these.

    Args:
        curves: of any mechanisms and of compositions; all symmetric, or all of one direction.
        axis: -1 if the parameters of each curve carry its steps along their last axis.

    Returns: a `Curve`, symmetric if a member is.
    Guarantee: `delta_bounds` and `epsilon_bounds` are certified. Everything else is an estimate:
        correct to rounding where the transform decays (many steps) and less so for few steps at a
        tiny rate, where the bounds say by how much; on the lattice to about 1e-7 of itself, but
        next to a loss that has a probability of its own, such as the epsilon of a black box, to
        that probability, which a lattice spreads over its next points, and of steps at a tiny rate
        beside others to about 1e-5; past what these others tell at most delta and epsilon, by
        numbers, are cut to their certified brackets, for a lattice is far off there.
    Raises: ValueError without curves, for symmetric curves among directed ones or of several
        mechanisms each, for steps of both adjacencies, and for relaxed Gaussian
        releases of different dim.
    Source: the privacy profile as an inverse Laplace transform, derived in
        `jaxpriv.composition.inversion`; the lattice in `jaxpriv.composition.lattice`
        and `jaxpriv.composition.grid`.

        >>> import jaxpriv
        >>> steps = [jaxpriv.worst_case.gaussian(1 / noise).subsample(0.1).compose(50)
        ...          for noise in (1.0, 2.0, 3.0)]
        >>> print(f"{jaxpriv.compose(*steps).delta(1.0):.4f}")
        0.1218
    """
    return Curve(together(experiments_of("compose", curves), axis))
