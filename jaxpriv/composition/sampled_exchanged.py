"""The privacy-loss transforms of batches that are cut, a record replaced or zeroed out: of a batch
that is whole the transform of its pair, of one that is cut that of the hull of both directions.
"""

from dataclasses import field, replace
from functools import cached_property
from typing import Any, cast

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.sampled import line_through
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.composition.sampled_hull import HullTransform, placed
from jaxpriv.composition.sampled_line import product
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.sampled_told import CutGaussianTransform, TiltedTold
from jaxpriv.composition.slopes import SampledSlopes, by_each


@pytree
class CutExchangedTransform(CutGaussianTransform):
    """replaced: by another record, for which both directions are one, or zeroed out?"""

    replaced: bool = field(default=False, metadata={"static": True})

    @property
    def ways(self):
        if self.replaced:
            whole: Any = ReplacedGaussianTransform(self.unit, self.drawn)
        else:
            whole = SubsampledGaussianTransform(self.unit, self.drawn, self.reverse)
        return [whole, HullTransform(2 * self.unit, self.kept)]

    def tilted(self, c):
        told = super().tilted(c)
        return TiltedExchanged(told.transform, told.tilts, told.value, told.share)

    def reversed(self, when):
        return self if self.replaced else replace(cast(Any, self), reverse=self.reverse ^ when)


@pytree
class TiltedExchanged(TiltedTold):
    """Both at a real c. Losses have their sign, for those of the hull have both."""

    @cached_property
    def _paths(self):
        whole, cut = self.tilts
        size, phase, log_size, angle = whole.on_path(whole.sign * whole.height)
        parts = (size, phase, whole.sign * log_size, whole.sign * angle), cut.on_path()
        log_share = xp.log(xp.where(self.share > 0, self.share, 1e-300))
        own = [(part[0] + share, *part[1:]) for part, share in zip(parts, log_share)]
        return tuple(xp.concatenate(column) for column in zip(*own))

    def line(self, spacing):
        log_weight, phase, log_size, angle = self._paths
        size = xp.exp(log_weight)
        weight = (size * xp.cos(phase))[None], (size * xp.sin(phase))[None]
        return line_through(xp.ones_like(self.value), spacing, weight, log_size, angle)

    def slopes(self, spacing, at_zero):
        """`line`, and what moves it: the logarithms of all weights, and the losses."""
        whole, cut = self.tilts
        theta = whole.sign * whole.height

        def moving(transform):
            one, other = transform.ways
            log_size, angle, grows, turns = one.log_ratio(one.lifted(whole.x, theta))
            law = one.log_weight(whole.x) + grows + whole.s * log_size
            parts = ((law, turns + whole.s * angle, whole.sign * log_size, whole.sign * angle),
                     placed(other, cut))
            own = [(part[0] + xp.where(share > -xp.inf, share, 0.0), *part[1:])
                   for part, share in zip(parts, transform.log_weight)]
            return tuple(xp.concatenate(column) for column in zip(*own))

        log_law, turned, log_ratio, angles = by_each(moving, self.transform)
        log_weight, phase, log_size, angle = self._paths
        size = xp.exp(log_weight)
        w = size * xp.cos(phase), size * xp.sin(phase)
        still, moved = product(w, (log_law, turned)), product(w, (log_ratio, angles))
        rows = tuple(xp.concatenate([one[None], a, b]) for one, a, b in zip(w, still, moved))
        mean = tuple(xp.sum(part, 1) for part in moved)
        sign = xp.ones_like(self.value)
        line = line_through(sign, spacing, rows, log_size, angle)
        return SampledSlopes(line, at_zero, mean, sign, spacing)

    def decay(self, paths):
        """Of the hull nothing falls: what does is too little of few steps, which lattices know
        better.
        """
        whole, cut = self.tilts
        return self.share, (whole.decay(paths), (xp.ones_like(cut.value), None))

    def doubt(self):
        """In ulp, as of `TiltedTold`, of the rate of batches that are cut."""
        moved = self.tilts[1].moved_by_rate()
        return xp.stop_gradient(self.share[1] * self.transform.doubts * moved)
