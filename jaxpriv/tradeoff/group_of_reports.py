"""Groups where the trade-off function is a polygon that exchanging the hypotheses does not change:
which vertex a line touches is counted, not searched.

Where g has a vertex (a, p) at link i the levels before it are its preimages and those after it its
images. Exchanging the hypotheses takes g to its inverse, so the preimage of a level is one less the
image of one less it, and every level of every vertex of f_k lies on the forward orbit

    p_v, g(p_v), g(g(p_v)), ...

of some vertex v of g, or is one less such a number. All are known by their logarithms and those of
one less them, and so is on which side of g they lie: the slopes e_j of the links, whose sum is the
slope of f_k there.
"""

from typing import Any

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import ROUNDING, Experiment
from jaxpriv.tradeoff.group import NEAR, Group
from jaxpriv.tradeoff.pair import safe_log


@pytree
class GroupOfReports(Group):
    """f_k of a `Symmetric` of one experiment that its parameters spell as a `Mirrored` polygon."""

    base: Any

    def _orbits(self, shape, dtype):
        """(log level, log of one less it, loss of the link from there) after m links from the power
        of vertex v: (links, ..., vertices); and the polygon's losses, from the largest.
        """
        polygon = self.base.members[0].aligned(shape, dtype)
        vertices = polygon.vertices()
        losses = xp.flip(polygon.loss, -1)
        # where the power is 1 already slopes are 0, of which the logarithm shall be a number
        least = -4 * (self.size * polygon.atoms(False)[1][..., None] + 1000)

        def link(level, _):
            after, loss = _image(vertices, losses, *level)
            return after, (*level, xp.maximum(loss, least))

        _, _, log_beta, log_power = vertices
        _, found = xp.scan(link, (log_power, log_beta), length=self.size)
        return found, losses

    def _vertices_of_group(self, shape, dtype):
        """For link i and vertex v (links, ..., vertices): (log a_0, log of one less it, log power
        at the end, the slopes of f_k after and before the vertex), and the losses of the orbits.
        """
        (log_level, log_rest, loss), losses = self._orbits(shape, dtype)
        before = xp.concatenate([xp.zeros_like(loss[:1]), xp.cumsum(loss[:-1], 0)])
        others = xp.flip(before, 0) - xp.flip(before, -1)
        end = xp.full_like(losses[..., :1], xp.inf)
        sides = xp.concatenate([losses, -end], -1), xp.concatenate([end, losses], -1)
        shallow, steep = (xp.where(xp.isinf(side), side, others + side) for side in sides)
        log_alpha, log_one_less = (xp.flip(part, -1) for part in (log_rest, log_level))
        return (log_alpha, log_one_less, xp.flip(log_level, 0), shallow, steep), loss

    def _split(self, eps):
        return self._at(eps, *self._vertices_of_group(eps.shape, eps.dtype))[:3]

    def bracket(self, low, high, reverse):
        """By the slopes at a vertex: that of the link which stands there is free."""
        del low, reverse
        size = xp.abs(high)
        slopes, level, _, own = self._at(size, *self._vertices_of_group(size.shape, size.dtype))
        return self.bracket_by(high, slopes, level, own)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        return Experiment.epsilon_bracket(self, lowest, log_delta, reverse)

    def _at(self, eps, vertices, loss):
        """`Group._split` from what is known of all vertices, and which link stands at its own."""
        log_alpha, log_one_less, _, shallow, steep = vertices
        apart = xp.maximum(xp.maximum(shallow - eps[..., None], eps[..., None] - steep), 0.0)
        apart = xp.where(xp.isnan(apart) | xp.isnan(shallow), xp.inf, apart)
        count = loss.shape[-1]
        flat = xp.moveaxis(apart, 0, -2).reshape((*eps.shape, self.size * count))
        least = flat == xp.min(flat, -1, keepdims=True)
        index = xp.arange(self.size * count)
        # (argmin does not compile in float64 inside a float32 program)
        best = xp.min(xp.where(least, index, self.size * count - 1), -1)
        at, vertex = best // count, best % count

        def chosen(table, row, column):
            """table[row, ..., column] of (links, ..., vertices)."""
            wide = xp.moveaxis(table, 0, -2).reshape((*eps.shape, self.size * count))
            return xp.take_along_axis(wide, (row * count + column)[..., None], -1)[..., 0]

        links = xp.arange(self.size).reshape((-1,) + (1,) * eps.ndim)
        after = [chosen(loss, xp.maximum(j - at - 1, 0), vertex) for j in range(self.size)]
        ahead = [-chosen(loss, xp.maximum(at - j - 1, 0), count - 1 - vertex)
                 for j in range(self.size)]
        slopes = xp.where(links > at, xp.stack(after), xp.where(links < at, xp.stack(ahead), 0.0))
        # on the steepest side delta is 0, of a slope that is not below it for sure
        top = self.base.members[0].atoms(False)[1]
        surely = top * (1 + 64 * xp.finfo(eps.dtype).eps)
        slopes = xp.where(slopes >= top * (1 - 1e-14), surely, slopes)
        own = links == at
        slopes = xp.where(own, 0.0, slopes)
        slopes = xp.where(own, eps - xp.sum(slopes, 0), slopes)
        level, rest = (chosen(part, at, vertex) for part in (log_alpha, log_one_less))
        small = level < rest
        quantile = norm.isf_exp(xp.minimum(xp.where(small, level, rest), -1e-300))
        z = xp.clip(xp.where(small, quantile, -quantile), -8.0, 37.0)
        near = NEAR * (1 + xp.abs(z))
        return xp.stop_gradient((slopes, xp.exp(level), (z - near, z + near), own))

    def least_power(self, level, slopes):
        """Link by link from the polygon itself. g is concave, so that e^loss x <= g(x): what
        rounding does to the loss and to the vertex before x it does to g(x) at most, and to the
        power at that vertex once more.
        """
        del slopes
        polygon = self.base.members[0].aligned(level.shape, level.dtype)
        vertices, losses = polygon.vertices(), xp.flip(polygon.loss, -1)
        ulp, log_level = xp.finfo(level.dtype).eps, safe_log(level)[..., None]
        for _ in range(self.size):
            inside = log_level < 0
            rest = xp.where(inside, log1mexp(xp.where(inside, log_level, -1.0)), -xp.inf)
            (log_power, _), loss = _image(vertices, losses, log_level, rest)
            size = 1 + xp.abs(xp.where(xp.isfinite(loss), loss, 0.0))
            size = size + xp.abs(xp.where(xp.isfinite(log_level), log_level, 0.0))
            log_level = log_power - 4 * ROUNDING * ulp * size
        return xp.exp(log_level[..., 0])

    def _solved(self, log_delta, reverse):
        """Of all vertices (a_0, power): the largest log((power - delta)/a_0)."""
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        vertices, loss = self._vertices_of_group(target.shape, target.dtype)
        log_alpha, _, log_power, *_ = vertices
        over = log_power > target[..., None]
        rest = log1mexp(xp.where(over, target[..., None] - log_power, -1.0))
        eps = xp.where(over, log_power + rest - log_alpha, -xp.inf)
        eps = xp.max(xp.where(xp.isnan(eps), -xp.inf, eps), (0, -1))
        finite = xp.where(xp.isfinite(eps), eps, 0.0)
        slopes, level, *_ = self._at(xp.maximum(finite, 0.0), vertices, loss)
        limit = xp.where(log_delta < 0, self.loss_bound(reverse), 0.0)
        limit = limit + xp.where(xp.isnan(log_delta), xp.nan, 0.0)
        return xp.where(reachable, eps, limit), slopes, level, True


def _image(vertices, losses, log_level, log_rest):
    """((log power, log beta) of g at levels (..., levels), the loss of the side there)."""
    log_alpha, log_specificity, log_beta, log_power = (part[..., None, :] for part in vertices)
    level, rest = log_level[..., None], log_rest[..., None]
    small = level < rest
    before = xp.where(small, log_alpha <= level, log_specificity >= rest)
    side = xp.clip(xp.sum(before[..., 1:], -1), 0, losses.shape[-1] - 1)

    def at(table, shift):
        wide = xp.broadcast_to(table[..., 0, :], (*side.shape[:-1], table.shape[-1]))
        return xp.take_along_axis(wide, side + shift, -1)

    loss = xp.take_along_axis(losses, side, -1)
    small = small[..., 0]
    risen = xp.where(small, _less(log_level, at(log_alpha, 0)),
                     _less(at(log_specificity, 0), log_rest))
    left = xp.where(small, _less(at(log_alpha, 1), log_level),
                    _less(log_rest, at(log_specificity, 1)))
    power = xp.logaddexp(at(log_power, 0), _scaled(loss, risen))
    beta = xp.logaddexp(at(log_beta, 1), _scaled(loss, left))
    return (xp.minimum(power, 0.0), xp.minimum(beta, 0.0)), loss


def _less(one, other):
    """log(e^one - e^other), -inf where that is not positive."""
    some = one > other
    gap = xp.where(some, xp.where(some, other, 0.0) - xp.where(some, one, 0.0), -1.0)
    return xp.where(some, one + log1mexp(gap), -xp.inf)


def _scaled(loss, log_gap):
    return xp.where(log_gap > -xp.inf, loss + log_gap, -xp.inf)
