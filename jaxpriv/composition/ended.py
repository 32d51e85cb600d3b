"""Transforms of sampled steps without their large losses: integrals that end at some z, by NumPy.

Their rule ends at an edge of its cells. By Cauchy its sum up to h differs from the integral there,
but for what is bounded along the strip's edges, by the integral of |f(h + iv)| 2/(e^(2 pi v/step) +
1), less than step sup |f|; and the path's integral from that along the axis by the integral of
|f(h + iv)| up to its height.
"""

from dataclasses import fields
from typing import Any, cast

import numpy as np

from jaxpriv._pytree import pytree
from jaxpriv.composition.sampled import REACH
from jaxpriv.composition.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.composition.sampled_mixture import GaussianMixtureTransform
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.sampled_told import CutGaussianTransform
from jaxpriv.tradeoff.solve import newton_in_bracket

_NEAR = 1e-3  # of the z that is looked for
_MOST = -1.0  # log of what may be missing of one way to draw a batch
_ROUNDING = 1e-9  # of logarithms of tails


class Ended:
    """What is left of a mechanism at z <= last, which is infinite where that is all.

    A mechanism that may end gives `beyond`(z), log of how much there is beyond z of the measure
    whose expectation M is, and a bound of log E[|u|; beyond z]; and `lifts`(z, theta, s), log of a
    bound of |f(z + iv)/f(z)| for 0 <= v <= theta, f the integrand of M at a power s >= 0.
    """

    last: Any

    def ends(self, s):
        low, high = cast(Any, super()).ends(s)
        return low, np.where(self.last < np.inf, self.last, high)

    def end_error(self, tilt):
        """`tilted` counts on all of the measure and on E u = 0 where little is told: what is
        missing of both is told by `beyond`, and of what is integrated then, (1+u)^s - 1 - s u, the
        modulus at h + iv is at most 2 (1+s) times that of f, s >= 1.
        """
        own, ends = cast(Any, self), self.last < np.inf
        last = np.where(ends, self.last, REACH)
        power = np.maximum(tilt.s, 1.0)
        height = own.log_weight(last) + power * own.loss(last)[0]
        height = height + own.lifts(last, 2 * tilt.height, power) - tilt.value
        absent, moved = (part - tilt.value for part in own.beyond(last))
        size = (np.exp(height) * 2 * (1 + power) * (4 * tilt.height + tilt.step)
                + np.exp(absent) + power * np.exp(moved))
        return np.where(ends, size * (1 + _ROUNDING), 0.0)


@pytree
class EndedGaussian(Ended, SubsampledGaussianTransform):
    last: np.ndarray


@pytree
class EndedMixture(Ended, GaussianMixtureTransform):
    last: np.ndarray


@pytree
class EndedReplaced(Ended, ReplacedGaussianTransform):
    last: np.ndarray


@pytree
class EndedChiSquare(Ended, SubsampledChiSquareTransform):
    last: np.ndarray


@pytree
class EndedTold(CutGaussianTransform):
    """Batches that are whole or cut, each ended."""

    last: tuple

    @property
    def ways(self):
        return [_ended(way, last) for way, last in zip(super().ways, self.last)]


_ENDED: dict[type, Any] = {
    SubsampledGaussianTransform: EndedGaussian,
    GaussianMixtureTransform: EndedMixture,
    ReplacedGaussianTransform: EndedReplaced,
    SubsampledChiSquareTransform: EndedChiSquare,
    CutGaussianTransform: EndedTold,
}


def may_end(transform):
    return type(transform) in _ENDED


def seldom_large(term):
    """Has a term large losses that are rare? None in reverse, or if the record is always there."""
    rate, reverse = term.transform.rate, term.transform.reverse
    return (term.count > 0) & (rate > 0) & (rate < 1) & ~np.asarray(reverse)


def cut_off(transform, log_share, where):
    """(the transform without the large losses of what is about the share, `where` it has such;
    log of what is missing then, with the record).
    """
    if isinstance(transform, CutGaussianTransform):
        # of what is done seldom more may be missing
        shares = [np.minimum(log_share - weight, _MOST) for weight in transform.log_weight]
        ways, less = zip(*(cut_off(way, share, where)
                           for way, share in zip(transform.ways, shares)))
        missing = np.logaddexp.reduce(transform.log_weight + np.stack(less))
        return _ended(transform, tuple(way.last for way in ways)), missing
    # nothing is further off than the last of these: normal laws fall as e^(-z^2/2)
    high = transform.ends(np.ones_like(log_share))[1] + np.sqrt(2 * np.maximum(-log_share, 0.0))

    def too_little(z):
        return log_share - np.logaddexp(*transform.beyond(z)), np.zeros_like(z)

    last = newton_in_bracket(too_little, np.zeros_like(high), high, tolerance=_NEAR)
    last = np.where(where & np.isfinite(log_share), last, np.inf)
    at = np.where(last < np.inf, last, REACH)
    missing = np.where(last < np.inf, np.logaddexp(*transform.beyond(at)), -np.inf)
    return _ended(transform, last), missing * (1 - _ROUNDING) + _ROUNDING


def _ended(transform, last):
    own = [getattr(transform, field.name) for field in fields(transform)]
    return _ENDED[type(transform)](*own, last)
