"""What a composition tells where a single step decides, and the frequencies of its transform do not
end: that step's own result, beside the small losses of the others.
"""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.line import Kind, over_steps
from jaxpriv.composition.sampled import TiltedSampled
from jaxpriv.composition.transforms import UNKNOWN

_WIDTHS = 4.0  # standard deviations of the others' losses: these are less than half of eps
_MOST = 1.0  # of the second order's part, beyond which it is none


def beside_small_losses(terms, tilts, c, eps, kind):
    """(log of an integral's result where a single step decides, its slope), differentiable but for
    the slope and the line, which hardly matters.

    The others' sum S is added to the loss of that step: with g the log of what it alone gives,
    s = -g' and t the distance from the pole, log E e^g(eps - S) is about

        g(eps - m) + K - t m + (s - t)^2 K''/2,        m = K',

    K that of small losses: S is normal once it is tilted by t, and g straight over its width. Where
    that is less than without the others, or the last part is large, t is not the tilt that counts.
    """
    total, mean, variance = of_small_losses(terms, tilts, c, eps)
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
    most = xp.stop_gradient(xp.max(value, -1, keepdims=True) == value)
    return xp.logsumexp(value, -1), xp.max(xp.where(most, slope, -xp.inf), -1)


def of_small_losses(terms, tilts, c, eps):
    """(K, K', K'') at c of all but one step of each member, (..., members), less the losses that
    are most of eps; nothing where they add up to so much that no single step decides.
    """
    most = xp.stop_gradient(0.5 * eps[..., None])
    found = [
        tilt.small(most)
        if isinstance(tilt, TiltedSampled)
        else term.transform.cumulants(c[..., None])
        for term, tilt in zip(terms, tilts)
    ]
    own = [xp.concatenate(xp.broadcast_arrays(*column), -1) for column in zip(*found)]
    whole = [over_steps(terms, column)[..., None] for column in zip(*found)]
    rest = [every - one for every, one in zip(whole, own)]
    _, mean, variance = xp.stop_gradient(rest)
    decides = xp.abs(mean) + _WIDTHS * xp.sqrt(xp.maximum(variance, 0.0)) < most
    return [xp.where(decides, value, 0.0) for value in rest]


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
