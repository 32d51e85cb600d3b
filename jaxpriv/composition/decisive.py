"""What a composition tells where the frequencies of its transform do not end, for large losses are
seldom: the sum of what a single step gives that decides, beside the small losses of the others, and
of what small losses give where none decides. The transform of all leaps between both.
"""

import math

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.line import Kind, log_factor, over_steps
from jaxpriv.composition.sampled import TiltedSampled
from jaxpriv.composition.transforms import UNKNOWN

_WIDTHS = 4.0  # standard deviations of the others' losses: these are less than half of eps
_MOST = 1.0  # of the second order's part, beyond which it is none
# the saddle of small losses: logarithms of how far from the line's, and bisections
_LESS, _MORE, _HALVED = 2.0, 8.0, 14
_ENOUGH = 4.0  # square of how many standard deviations eps is away: less is not normal


def beside_small_losses(terms, tilts, c, eps, kind):
    """(log of an integral's result, its slope), differentiable but for the slope and where K is
    taken, which hardly matters.

    Where a step decides, the others' sum S is added to its loss: with g the log of what it alone
    gives, s = -g' and t the distance from the pole, log E e^g(eps - S) is about

        g(eps - m) + K - t m + (s - t)^2 K''/2,        m = K',

    K that of small losses: S is normal once it is tilted by t, and g straight over its width. Where
    that is less than without the others, or the last part is large, t is not the tilt that counts.
    """
    far = saddle_of_small(terms, tilts, c, eps, kind)
    small = small_losses(terms, tilts, c, eps, xp.stack([xp.zeros_like(c), kind.pole + far - c]))
    both = [[[part[k] for part in one] for one in small] for k in range(2)]
    total, mean, variance = of_others(terms, both[0], eps)
    none = where_none_decides(terms, both[1], far, eps, kind)
    eps, tilt, kind = eps[..., None], (c - kind.pole)[..., None], to_members(kind)
    at = eps - mean
    # differences are good enough for a slope that steers a search, and less to compile; the saddle
    # knows the scale of the losses
    step = xp.finfo(eps.dtype).eps ** 0.375 * (1 / (1 + xp.abs(c[..., None])) + xp.abs(eps))
    below = xp.where(at >= 0, xp.maximum(at - step, 0.0), at - step)  # and their sign
    ends = xp.stack([at + step, at, below, eps + 0 * at])
    after, moved, before, alone = of_each(terms, ends, kind)
    slope = xp.stop_gradient((after - before) / (at + step - below))
    spread = xp.minimum(0.5 * (slope + tilt) ** 2 * variance, _MOST)
    value = xp.maximum(alone, moved + total - tilt * mean + spread)
    value, slope = (
        xp.concatenate([each, one[..., None]], -1) for each, one in ((value, none), (slope, -far))
    )
    most = xp.stop_gradient(xp.max(value, -1, keepdims=True) == value)
    return xp.logsumexp(value, -1), xp.max(xp.where(most, slope, -xp.inf), -1)


def where_none_decides(terms, small, tilt, eps, kind):
    """log of what small losses alone give, by the saddle-point approximation."""
    total, _, variance = (over_steps(terms, column) for column in zip(*small))
    bend = variance + 1 / tilt**2 + xp.where(kind.double, 1 / (1 + tilt) ** 2, 0.0)
    value = total + log_factor(kind, 1.0, tilt, eps) - 0.5 * xp.log(2 * math.pi * bend)
    enough = xp.stop_gradient((eps > 0) & (tilt * tilt * variance > _ENOUGH))
    return xp.where(enough, value, UNKNOWN)


def saddle_of_small(terms, tilts, c, eps, kind):
    """How far from the pole the saddle of small losses is, found among the nodes that there are."""
    terms, tilts, c, eps = xp.stop_gradient((terms, tilts, c, eps))

    def halved(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        tilt = xp.exp(middle)
        found = small_losses(terms, tilts, c, eps, (kind.pole + tilt - c)[None])
        mean = over_steps(terms, [one[1][0] for one in found])
        short = mean - 1 / tilt - xp.where(kind.double, 1 / (1 + tilt), 0.0) < eps
        return xp.where(short, middle, low), xp.where(short, high, middle)

    start = xp.log(xp.abs(c - kind.pole))  # on its left nobody asks
    low, high = xp.fori_loop(0, _HALVED, halved, (start - _LESS, start + _MORE))
    return xp.exp(0.5 * (low + high))


def of_others(terms, small, eps):
    """(K, K', K'') of the small losses of all but one step of each member, (..., members);
    nothing where they add up to so much that no single step decides.
    """
    own = [xp.concatenate(xp.broadcast_arrays(*column), -1) for column in zip(*small)]
    whole = [over_steps(terms, column)[..., None] for column in zip(*small)]
    rest = [every - one for every, one in zip(whole, own)]
    _, mean, variance = xp.stop_gradient(rest)
    decides = xp.abs(mean) + _WIDTHS * xp.sqrt(xp.maximum(variance, 0.0)) < 0.5 * eps[..., None]
    return [xp.where(decides, value, 0.0) for value in rest]


def small_losses(terms, tilts, c, eps, further):
    """For every term (K, K', K'') of its members at c + further (k, ...), less the losses that are
    most of eps.
    """
    most = xp.stop_gradient(0.5 * eps[..., None])
    return [
        tilt.small(most, further[..., None])
        if isinstance(tilt, TiltedSampled)
        else term.transform.cumulants((c + further)[..., None])
        for term, tilt in zip(terms, tilts)
    ]


def to_members(kind):
    """A `Kind` in front of an axis of members."""
    return Kind(*(value[..., None] if np.ndim(value) else value for value in kind))


def of_each(terms, eps, kind):
    """log of what a single step of each member gives at eps (..., members), times their number."""
    parts, start = [], 0
    for term in terms:
        members = slice(start, start := start + term.count.shape[-1])
        some = term.count > 0
        once = term.transform.once(eps[..., members], kind)
        once = xp.log(xp.where(some, term.count, 1.0)) + once
        parts.append(xp.where(some, once, UNKNOWN))
    return xp.concatenate(parts, -1)


def single_steps(terms, eps, kind):
    """log of the sum over the steps of what one of them alone gives,
    as if no two ever told anything.
    """
    members = sum(term.count.shape[-1] for term in terms)
    each = xp.broadcast_to(eps[..., None], (*eps.shape, members))
    return xp.logsumexp(of_each(terms, each, to_members(kind)), -1)
