"""A certified lower bound of the power at a level, from brackets of the profile: by chords."""

import numpy as np

from jaxpriv import _array as xp

_FROM_NEAR_TO_FAR = 4, 5, 3, 2, 1  # minus powers of ten of how far apart points are
_LITTLE = 1e-9  # of delta


def least_power(base, level, center, reach):
    """A lower bound of g(level) = min over x = e^eps of G(x) = delta(x) + x level, from brackets of
    delta around `center`, where G is nearly smallest: the best of points near and far, for a curve
    bends where it is smooth, and far from each other their rounding does not look like a slope.
    NumPy looks at no more of them as soon as what is lost is little.
    """
    center = xp.clip(center, -700.0, 700.0)
    reach = xp.minimum(3 * reach, 1 + xp.abs(center))
    best = xp.zeros_like(level)
    for power in _FROM_NEAR_TO_FAR:
        bound, lost = _by_chords(base, level, center, 10.0**-power * reach)
        best = xp.maximum(best, bound)
        if not xp.any_jax(lost) and np.all(lost <= _LITTLE):
            break
    return xp.clip(best, level, 1.0)


def _by_chords(base, level, center, step):
    """(the bound, what it may be too low by, over delta and beside what delta's bracket is wide)
    from five points x_a < x_b < x_0 < x_c < x_d so far apart.

    delta is convex in x: it lies above the chord of any two points, continued beyond them, with the
    upper bound at the far point and the lower one at the near. Between x_b and x_0 that is so of
    (x_a, x_b) from the left and of (x_0, x_c) from the right, and G is least at an end or where
    both lines meet; between x_0 and x_c alike. Further left it is so of (x_b, x_0), down to x = 0;
    further right of (x_0, x_c), up to G/level, beyond which x level alone is more.
    """
    info = xp.finfo(level.dtype)
    aside = xp.asarray([-2.0, -1.0, 0.0, 1.0, 2.0], level.dtype)
    eps = center + step * aside.reshape((5,) + (1,) * level.ndim)
    lower, upper, _ = base.brackets_near(center, eps, False)
    x = xp.exp(eps)
    slack = 16 * info.eps * (1 + xp.abs(eps))
    add = x * level
    low = (xp.exp(lower) * (1 - slack) + add) * (1 - slack)
    high = (xp.exp(upper) * (1 + slack) + add) * (1 + slack)

    def slope(near, far):
        """Of the chord of G from the lower bound at one point to the upper one at another."""
        return (high[far] - low[near]) / (x[far] - x[near])

    ends = []
    for left in (1, 2):
        width, rise, fall = x[left + 1] - x[left], slope(left, left - 1), slope(left + 1, left + 2)
        # lines low[left] + rise t and low[left + 1] - fall (width - t), 0 <= t <= width
        meet = (low[left + 1] - fall * width - low[left]) / xp.where(rise == fall, 1.0, rise - fall)
        meet = xp.where(rise == fall, 0.0, xp.clip(meet, 0.0, width))
        for t in (xp.zeros_like(width), meet, width):
            ends.append(xp.maximum(low[left] + rise * t, low[left + 1] - fall * (width - t)))
    ends.append(low[1] - xp.maximum(slope(1, 2), 0.0) * x[1])
    farthest = xp.maximum(high[2] / xp.maximum(level, info.tiny) - x[3], 0.0)
    beyond = low[3] - xp.maximum(-slope(3, 2), 0.0) * farthest
    # delta never falls below what is told for sure
    beyond = xp.fmax(beyond, xp.exp(base.log_told(False)[0]) * (1 - 64 * info.eps) + add[3])
    ends.append(beyond)
    bound = xp.min(xp.stack(ends), 0)
    bound = xp.where(xp.isnan(bound), level, bound * (1 - 64 * info.eps))
    lost = (high[2] - bound) * xp.exp(-upper[2]) - 4 * (upper[2] - lower[2])
    return bound, lost
