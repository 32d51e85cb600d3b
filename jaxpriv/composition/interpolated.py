"""By NumPy: what a line's frequencies add up to at thousands of eps, by a polynomial through few.

A sum over frequencies is, between two eps, as smooth as these are low:

    g(eps) = Re sum_k w_k e^(-i y_k eps),          |g^(n)| <= sum_k |w_k| y_k^n,

and the polynomial through n Chebyshev points of an interval of half-width r is off by at most
max |g^(n)| r^n/(2^(n-1) n!). With u an ulp and S = sum_k |w_k|, what rounding adds is below

    12 E           E at the points and as much for where they lie, both times Lebesgue's constant,
                   which is less than 1 + (2/pi) log n < 5, and for where what is asked for lies
    8 n^2 u S      the coefficients, each a mean of n products with cosines of angles up to pi n
    u sum_j (j + 3)^3 |c_j|          Clenshaw's rule: a rounding where b_k = sum_j>=k c_j U_(j-k) is
                   formed is seen in the sum U_k <= k + 1 times, and |U_(j-k)| <= j - k + 1.
"""

import math

import numpy as np
from numpy.polynomial import chebyshev

_POINTS = np.array([16, 24, 32, 48, 64])  # with more of them rounding shows
_GROWN = 2 * 5.0 + 2.0  # E counts twice what an ulp of eps y, the angle there, may do
_WORTH = 8  # times as many eps as points, or they had better be asked for themselves
_LEFT = 1e-16  # of S, which the polynomial may miss
_ULP = float(np.finfo(np.float64).eps)


def between(sums, y, modulus, eps, each):
    """`sums` (eps -> `Sums` of frequencies y, whose moduli are given) at many eps, of any shape; by
    `each`, which says the same, where a polynomial would not be any quicker.
    """
    middle, half = 0.5 * (eps.max() + eps.min()), 0.5 * (eps.max() - eps.min())
    half += 4 * _ULP * (abs(middle) + half) + np.finfo(np.float64).tiny
    total = np.sum(modulus)
    missed = _missed(y * half, modulus)
    serves = np.flatnonzero((missed <= _LEFT * total) & (eps.size >= _WORTH * _POINTS))
    if not serves.size:
        return each(eps)
    points = int(_POINTS[serves[0]])

    orders, angles = np.arange(points), math.pi * (np.arange(points) + 0.5) / points
    found = sums(middle + half * np.cos(angles))
    means = np.cos(orders[:, None] * angles) @ np.stack([found.value, found.slope], -1) / points
    coefficients = means * np.where(orders == 0, 1.0, 2.0)[:, None]
    place = np.clip((eps - middle) / half, -1.0, 1.0)
    value, slope = chebyshev.chebval(place, coefficients)

    # |eps| and angles, with which sums are rounded, are the largest at an end
    ends = sums(middle + half * np.array([-1.0, 1.0]))
    size = _GROWN * np.max(ends.size) + 8 * points**2 * total
    size += np.sum((orders + 3) ** 3 * np.abs(coefficients[:, 0])) + missed[serves[0]] / _ULP
    return ends._replace(value=value, slope=slope, size=np.full(eps.shape, size))


def _missed(turns, modulus):
    """What a polynomial through so many points may be off by, for the frequencies' turns y r."""
    factor = np.array([(1 - n) * math.log(2) - math.lgamma(n + 1) for n in _POINTS.tolist()])
    return np.exp(_POINTS[:, None] * np.log(turns) + factor[:, None]) @ modulus
