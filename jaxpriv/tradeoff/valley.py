"""The power at a level from what is known of the profile at a few eps.

    1 - f(alpha) = min_x D(x) + x alpha,        x = e^eps,

D the profile: a convex function of x, which brackets of D bracket at any eps.
"""

from jaxpriv import _array as xp

_NOTHING = 1e30  # a slope that bounds nothing, in float32 too
_ROUNDED = 16.0  # ulps of a fall


def power_by_lines(alpha, ends, lower, upper):
    """(low, high, is the least value between the outer eps beyond doubt?) of 1 - f(alpha) from
    brackets of D at rising eps (k, ...).

    From above by any of them. From below between neighbours: beyond two points a convex function
    lies above their chord; D falls and x alpha grows, which says more at a kink, where chords are
    steep. And where some value in between is below both outer ones beyond doubt, the least one lies
    between these.
    """
    ulp = xp.finfo(alpha.dtype).eps
    line, off = xp.exp(ends) * alpha, 16 * ulp * (1 + xp.abs(ends))
    least, most = (lower + line * (1 - off)) * (1 - 4 * ulp), upper + line * (1 + off)
    least = xp.where(xp.isnan(least), 0.0, least)
    most = xp.where(xp.isnan(most), 1.0, most)
    last = len(ends) - 1
    away = ends - ends[last // 2]
    x = xp.expm1(away)
    blur = 8 * ulp * (1 + xp.abs(away)) * xp.abs(x)

    def falls(at, others):
        """Away from the others, by how much it falls at most."""
        slopes = []
        for k in others:
            gap = xp.abs(x[at] - x[k]) - blur[at] - blur[k]
            slope = (most[k] - least[at]) / xp.where(gap > 0, gap, 1.0)
            slopes.append(xp.where((gap > 0) & ~xp.isnan(slope), slope, _NOTHING))
        steepest = slopes[0]
        for slope in slopes[1:]:
            steepest = xp.minimum(steepest, slope)
        return xp.clip(steepest, 0.0, _NOTHING)

    low = xp.full_like(alpha, xp.inf)
    for k in range(last):
        width = (x[k + 1] - x[k] + blur[k] + blur[k + 1]) * (1 + _ROUNDED * ulp)
        between = lower[k + 1] + line[k] * (1 - off[k])
        if k > 0:
            between = xp.maximum(between, least[k] - falls(k, range(k)) * width)
        if k + 1 < last:
            further = falls(k + 1, range(k + 2, last + 1))
            between = xp.maximum(between, least[k + 1] - further * width)
        low = xp.minimum(low, between)
    inner, high = xp.min(most[1:last], 0), xp.min(most, 0)
    seen = (inner <= least[0]) & (inner <= least[last])
    low = xp.where(seen & (low > alpha), low * (1 - 4 * ulp), alpha)
    return low, xp.minimum(high * (1 + 4 * ulp), 1.0), seen
