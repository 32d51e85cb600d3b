"""The privacy-loss transform of steps that are sub-sampled in one of several ways, and tell in
which: M = sum_i p_i M_i.

A loss and the way it came about have one law: all ways' nodes are nodes of one sum, with weights
p_i w. So everything that is known of each way is averaged with the shares omega_i = p_i M_i(c)/M(c)
of the tilted law.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import derived
from jaxpriv._pytree import pytree
from jaxpriv.composition.sampled import UNSEEN, line_through
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.composition.sampled_line import product
from jaxpriv.composition.slopes import SampledSlopes, by_each
from jaxpriv.composition.stepped import Stepped
from jaxpriv.composition.transforms import UNKNOWN
from jaxpriv.tradeoff.shifts import behind


@pytree
class CutGaussianTransform(Stepped):
    """Batches that are whole or cut, with the parameters of `CutGaussian`."""

    unit: jax.Array
    drawn: jax.Array
    kept: jax.Array
    log_whole: jax.Array
    log_cut: jax.Array
    doubts: jax.Array
    reverse: jax.Array | np.ndarray  # bool

    @property
    def ways(self):
        """The transforms of a step in each of the ways."""
        return [SubsampledGaussianTransform(self.unit, self.drawn, self.reverse),
                SubsampledGaussianTransform(2 * self.unit, self.kept, self.reverse)]

    @property
    def log_weight(self):
        return xp.stack(xp.broadcast_arrays(self.log_whole, self.log_cut))

    @property
    def mu(self):
        """The largest shift."""
        return 2 * self.unit

    @property
    def rate(self):
        """How often the record moves the sum."""
        return derived(_moves, self.drawn, self.kept, self.log_whole, self.log_cut)

    def audible(self):
        silent = self.unit == 0
        return silent, replace(cast(Any, self), unit=xp.where(silent, 1.0, self.unit))

    def whole(self, count, up):
        return derived(xp.ceil if up else xp.floor, count)

    def _mixed(self, values):
        """log sum p_i e^(v_i) of small v_i to their own rounding, and of any; the shares."""
        log_weight = self.log_weight
        there = log_weight > -xp.inf
        values = xp.where(there, values, 0.0)
        each = xp.where(there, log_weight + values, -xp.inf)
        far = xp.logsumexp(each, axis=0)
        rise = xp.where(values < 1, xp.exp(log_weight) * xp.expm1(xp.minimum(values, 1.0)),
                        xp.exp(xp.minimum(each, 80.0)) - xp.exp(log_weight))
        near = xp.sum(rise, 0)
        small = xp.stop_gradient((near > -0.3) & (near < 0.5))
        total = xp.where(small, xp.log1p(xp.where(small, near, 0.0)), far)
        return total, xp.exp(each - total)

    def cumulants(self, c):
        value, mean, variance = (xp.stack(part) for part in
                                 zip(*(way.cumulants(c) for way in self.ways)))
        total, share = self._mixed(value)
        first = xp.sum(share * mean, 0)
        return total, first, xp.sum(share * (variance + (mean - first) ** 2), 0)

    def tilted(self, c):
        tilts = tuple(way.tilted(c) for way in self.ways)
        value, share = self._mixed(xp.stack([tilt.value for tilt in tilts]))
        return TiltedTold(self, tilts, value, share)

    def once(self, eps, kind):
        each = xp.stack([way.once(eps, kind) for way in self.ways])
        known = xp.all(each > 0.5 * UNKNOWN, 0)
        log_weight = behind(self.log_weight, each)
        each = xp.where(known & (log_weight > -xp.inf), log_weight + each, -xp.inf)
        return xp.where(known, xp.logsumexp(xp.where(known, each, 0.0), axis=0), UNKNOWN)

    def loss_bound(self):
        there = self.log_weight > -xp.inf
        each = xp.stack([way.loss_bound() for way in self.ways])
        return xp.max(xp.where(there, each, 0.0), 0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return replace(cast(Any, self), reverse=self.reverse ^ when)


def _moves(drawn, kept, log_whole, log_cut):
    return xp.exp(log_whole) * drawn + xp.exp(log_cut) * kept


@pytree
class TiltedTold:
    """All ways at a real c, with their shares in the tilted law."""

    transform: Any
    tilts: tuple
    value: jax.Array
    share: jax.Array

    def _averaged(self, function):
        parts = xp.stack([function(tilt) for tilt in self.tilts])
        return xp.sum(xp.where(self.share > 0, self.share * parts, 0.0), 0)

    @cached_property
    def _paths(self):
        """(log modulus, angle) of all ways' weights, and of losses, nodes in a row."""
        parts = [tilt.on_path(tilt.sign * tilt.height) for tilt in self.tilts]
        log_share = xp.log(xp.where(self.share > 0, self.share, 1e-300))
        parts = [(size + own, *rest) for (size, *rest), own in zip(parts, log_share)]
        return tuple(xp.concatenate(column) for column in zip(*parts))

    def line(self, spacing):
        log_weight, phase, log_size, angle = self._paths
        size = xp.exp(log_weight)
        weight = (size * xp.cos(phase))[None], (size * xp.sin(phase))[None]
        return line_through(self.tilts[0].sign, spacing, weight, log_size, angle)

    def slopes(self, spacing, at_zero):
        """`line`, and what moves it, as of each way: see `SampledSlopes`."""
        s, sign = self.tilts[0].s, self.tilts[0].sign
        thetas = [tilt.sign * tilt.height for tilt in self.tilts]

        def moving(transform):
            parts = []
            for way, tilt, theta, own in zip(transform.ways, self.tilts, thetas,
                                             transform.log_weight):
                log_size, angle, grows, turns = way.log_ratio(way.lifted(tilt.x, theta))
                law = xp.where(own > -xp.inf, own, 0.0) + way.log_weight(tilt.x) + grows
                parts.append((law, turns + xp.zeros_like(law), log_size, angle))
            return tuple(xp.concatenate(column) for column in zip(*parts))

        log_law, turned, log_ratio, angles = by_each(moving, self.transform)
        log_weight, phase, log_size, angle = self._paths
        size = xp.exp(log_weight)
        w = size * xp.cos(phase), size * xp.sin(phase)
        still = product(w, (log_law + s * log_ratio, turned + s * angles))
        moved = product(w, (log_ratio, angles))
        rows = tuple(xp.concatenate([one[None], a, b]) for one, a, b in zip(w, still, moved))
        mean = tuple(xp.sum(part, 1) for part in moved)
        line = line_through(sign, spacing, rows, log_size, angle)
        return SampledSlopes(line, at_zero, mean, sign, spacing)

    def line_error(self):
        """The rules' errors; what the probabilities are off by, of which one's is the other's less;
        the rounding of each K_i, of which K has no more than its share.
        """
        log_weight, ulp = self.transform.log_weight, xp.finfo(self.value.dtype).eps
        each = xp.where(log_weight > -xp.inf, xp.min(log_weight, 0) - log_weight, -xp.inf)
        weights = self.transform.doubts * xp.sum(xp.exp(each) * self.share, 0)
        rounding = 16 * self._averaged(lambda tilt: xp.sqrt(2 * xp.abs(tilt.value)))
        errors = xp.stack([tilt.line_error() for tilt in self.tilts])
        # of what is not known the share is not known either
        error = xp.where(xp.max(errors, 0) < UNSEEN, xp.sum(self.share * errors, 0), UNSEEN)
        return error + ulp * (weights + rounding)

    def doubt(self):
        """In ulp, of the losses L of batches that are cut: d u/(1+u) = d (1 - e^-L) for a relative
        error d of their rate, and no more than one of its complement.
        """
        cut, share = self.tilts[1], self.share[1]
        moved = xp.sum(cut.probability * xp.minimum(xp.abs(xp.expm1(-cut.loss)), 1.0), 0)
        return xp.stop_gradient(share * self.transform.doubts * moved)

    def decay(self, paths):
        return self.share, tuple(tilt.decay(paths) for tilt in self.tilts)

    @property
    def log_decay(self):
        """(decay, y) -> log of a bound of |M(c+iy')/M(c)| for y' >= y."""
        bounds = [tilt.log_decay for tilt in self.tilts]

        def bound(decay, y):
            share, each = decay
            found = xp.stack([own(part, y) for own, part in zip(bounds, each)])
            return xp.minimum(xp.log(xp.sum(share * xp.exp(found), 0)), 0.0)

        return bound
