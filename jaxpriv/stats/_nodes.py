"""The quadrature rule of `_contour`: one step for each rung of a ladder in s, its nodes' constants,
and sine and cosine.

The rule depends on the law only through s = d' + 2b. Steps are rounded down to a ladder of levels,
sqrt(2) apart in s, so that everything that depends on a node alone is a table of constants.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np

from jaxpriv import _array as xp

LEVELS = 108  # up to s = a 2^54: from there on the sums are Gaussian to the last bit


class _Rule(NamedTuple):
    """The rule of a dtype: `shift` is a above, the step is h = (c_large - c_small/s)/sqrt(s)."""

    nodes: int
    shift: float
    c_large: float
    c_small: float


RULES = {"float64": _Rule(20, 5.0, 0.35, 0.45), "float32": _Rule(12, 2.0, 0.50, 0.20)}


def ladder(level):
    """s/shift at the foot of a level: 1, 1.5, 2, 3, 4, 6, ...
    (the binary exponent and the first bit after the point).
    """
    return 2.0 ** (level // 2) * (1 + 0.5 * (level % 2))


def level_of(s):
    """The rung of the ladder that s stands on, read off the bits of s/shift."""
    bits, drop, bias = (xp.int64, 51, 1023) if s.dtype == xp.float64 else (xp.int32, 22, 127)
    level = (xp.bits_of(s / RULES[s.dtype.name].shift, bits) >> drop) - 2 * bias
    return xp.clip(level, 0, LEVELS - 1).astype(xp.int32)


def _node_table(dtype):
    """Node constants, shape (nodes * levels, 6): flat, because one gather from a flat constant is
    what XLA vectorises.
    """
    rule = RULES[dtype]
    s = rule.shift * ladder(np.arange(LEVELS))
    h = (rule.c_large - rule.c_small / s) / np.sqrt(s)
    rho = 1.2 - 0.5 * rule.shift / s
    v = (np.arange(rule.nodes)[:, None] + 0.5) * h
    u = np.sinh(rho * v) / rho
    w = u * u
    q = 1 + w
    small = np.minimum(w, 0.1)
    series = u * w * sum((-small) ** k / (2 * k + 3) for k in range(16))
    u_minus_arctan = np.where(w < 0.1, series, u - np.arctan(u))
    columns = (
        -0.5 * (np.log1p(w) + w),
        -0.5 * w * (4 + 3 * w + w * w) / q**2,
        u_minus_arctan,
        u * w * (2 + w) / q**2,
        u,
        2 * np.cosh(rho * v) * h / np.pi,
    )
    return h, rho, [c.astype(dtype).ravel() for c in columns]


TABLES = {dtype: _node_table(dtype) for dtype in RULES}


def _horner(z, *coefficients):
    return reduce(lambda total, c: total * z + c, coefficients)


def sincos(x):
    """sin and cos of |x| < 1e5 with one Cody-Waite reduction and the fdlibm/Cephes polynomials
    (XLA's are scalar calls); by NumPy its own.
    """
    if not xp.any_jax(x):
        return np.sin(x), np.cos(x)
    k = xp.round(x * (2 / np.pi))
    if x.dtype == xp.float64:
        r = ((x - k * 1.5707963267341256) - k * 6.077100506303966e-11) - k * 2.0222662487959506e-21
        z = r * r
        sin_series = _horner(z, 1.58962301576546568060e-10, -2.50507477628578072866e-8,
                             2.75573136213857245213e-6, -1.98412698295895385996e-4,
                             8.33333333332211858878e-3, -1.66666666666666307295e-1)
        cos_series = _horner(z, -1.13585365213876817300e-11, 2.08757008419747316778e-9,
                             -2.75573141792967388112e-7, 2.48015872888517045348e-5,
                             -1.38888888888730564116e-3, 4.16666666666665929218e-2)
    else:
        r = ((x - k * 1.5703125) - k * 4.837512969970703e-4) - k * 7.549789954891882e-8
        z = r * r
        sin_series = _horner(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
        cos_series = _horner(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    sin = r + r * z * sin_series
    cos = 1 - 0.5 * z + z * z * cos_series
    quadrant = k.astype(xp.int32) & 3
    odd = (quadrant & 1) == 1
    s, c = xp.where(odd, cos, sin), xp.where(odd, sin, cos)
    return xp.where(quadrant >= 2, -s, s), xp.where((quadrant == 1) | (quadrant == 2), -c, c)
