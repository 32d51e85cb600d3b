"""Detection resilience: does one trade-off curve lie on or above another everywhere?"""

from typing import NamedTuple

from jaxpriv import _array as xp
from jaxpriv._types import Answer
from jaxpriv.curve import Curve
from jaxpriv.stats import norm
from jaxpriv.tradeoff.evaluate import errors

_GRID, _ROUNDS = 1025, 4


class Resilience(NamedTuple):
    """`holds`: no violation beyond rounding; `gap`:
    the smallest f(alpha) - reference(alpha), at level `alpha`.
    """

    holds: Answer
    gap: Answer
    alpha: Answer


def detection_resilience(curve: Curve, reference: Curve) -> Resilience:
    """Is `curve` on or above `reference` at every level, and by how little?

    Levels are searched on a grid of 1025 normal quantiles from 1e-299 to 1 - 1e-14, refined three
    times around the smallest gap; a violation is a type II error, or a power, that is wrong by more
    than 1e-9 of itself.

    Args:
        curve, reference: `Curve`s, single or batches of broadcastable shape.

    Returns: `Resilience(holds, gap, alpha)`, arrays of the batch shape; NaN parameters give
        holds = False and gap = NaN.
    Source: Kaissis et al. 2023 (NeurIPS 36), Definition 3 (f-DR); for the reference of a mechanism
    take `symmetric()` curves on both sides.

        >>> import jaxpriv
        >>> relaxed = jaxpriv.relaxed.gaussian(1.0).symmetric()
        >>> worst = jaxpriv.worst_case.gaussian(1.0)
        >>> (
        ...     bool(detection_resilience(relaxed, worst).holds),
        ...     bool(detection_resilience(worst, relaxed).holds),
        ... )
        (True, False)
        >>> print(f"{detection_resilience(worst, relaxed).gap:.4f}")
        -0.1762
    """
    first = curve.delta(0.0) + reference.delta(0.0)
    shape, dtype = first.shape, first.dtype
    low, high = (-37.0, 7.6) if dtype == xp.float64 else (-12.0, 5.0)

    def compare(z):
        """(gap, is it within rounding?) at levels Phi(z), by the error that is small there."""
        alpha = norm.cdf(z)
        (beta, power), (floor, limit) = (
            errors(curve.experiment, alpha),
            errors(reference.experiment, alpha),
        )
        small = alpha < 0.5
        slack = 1e-9 if dtype == xp.float64 else 1e-4
        fine = xp.where(small, power <= limit * (1 + slack), beta >= floor * (1 - slack))
        return xp.where(small, limit - power, beta - floor), fine

    def look(state, _):
        """A round of the search: the levels best + width * offsets, all rounds of one shape."""
        best, width, holds = state
        z = xp.clip(best + width * offsets, low, high)
        gap, fine = compare(z)
        index = xp.argmin(gap, 0)[None]
        best, smallest = (xp.take_along_axis(values, index, 0) for values in (z, gap))
        return (best, width * 4 / (_GRID - 1), holds & xp.all(fine, 0)), smallest[0]

    offsets = xp.reshape(xp.linspace(-1.0, 1.0, _GRID, dtype=dtype), (-1,) + (1,) * len(shape))
    middle = xp.full((1, *shape), 0.5 * (low + high), dtype)
    state = middle, xp.asarray(0.5 * (high - low), dtype), xp.ones(shape, bool)
    (best, _, holds), gaps = xp.scan(look, state, length=_ROUNDS)
    return Resilience(holds, gaps[-1], norm.cdf(best[0]))
