"""The likelihood ratio of the chi-square laws at complex arguments, by the contour of
`jaxpriv.stats._contour`.
"""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log_plus_reciprocal
from jaxpriv.stats._nodes import LEVELS, RULES, TABLES, ladder, level_of

_FEW = 1024  # numbers at a time, whose terms at all nodes fit into a cache


def complex_log_likelihood_ratio(x, df, nc):
    """log of the noncentral over the central density at complex x off the negative
    axis, or at real x > 0.

    The parabola through the saddle of a complex x is as good a contour: with b = d' g the exponent
    along it is A + iB, A even and B odd in u, both complex now, and a pair of nodes adds up to
    2 e^A (cos B - u sin B). For the central law b = 0, so its sum depends on df alone.
    """
    if not xp.any_jax(x, df, nc) and np.all(df == 1):
        return _of_one_degree(x, nc)
    shifted = df + RULES[df.dtype.name].shift
    r = nc * (x / shifted) / shifted
    g = 2 * r / (1 + xp.sqrt(1 + 4 * r))
    phi = (
        (df / 2) * log_plus_reciprocal(1 / (1 + g), -g / (1 + g)) + (shifted - df / 2) * g - nc / 2
    )
    grown = complex_log1p(g) if xp.iscomplexobj(g) else xp.log1p(g)
    return phi + grown + xp.log(_complex_sum(df, shifted * g) / _complex_sum(df, xp.zeros_like(df)))


def _of_one_degree(x, nc):
    """log e^(-nc/2) cosh z, z = (nc x)^1/2: cosh z = e^z (1 + e^-2z)/2 = 1 + 2 sinh(z/2)^2, the
    first without a leap of its angle for Re z > 0, the second with the digits of a small z.
    """
    z = np.sqrt(nc * x)
    small = np.abs(z) < 0.5
    log1p = complex_log1p if np.iscomplexobj(z) else np.log1p
    near = log1p(2 * np.sinh(0.5 * np.where(small, z, 0.0)) ** 2)
    return np.where(small, near, z + log1p(np.exp(-2 * z)) - np.log(2.0)) - nc / 2


def complex_log1p(z):
    """log(1 + z), with the digits of a small z."""
    x, y = z.real, z.imag
    return xp.make_complex(0.5 * xp.log1p(x * (2 + x) + y * y), xp.arctan2(y, 1 + x))


def _complex_sum(df, b):
    """`_node_sum` of the density, over z0, for complex b."""
    rule = RULES[df.dtype.name]
    columns = [xp.like(c, b) for c in TABLES[df.dtype.name][2]]
    s = df + rule.shift + 2 * xp.abs(b)
    level = level_of(s)
    squeeze = xp.minimum(1.0, rule.shift * ladder(LEVELS - 1) / s)
    scaled = df * squeeze, b * squeeze, rule.shift * squeeze
    if not xp.any_jax(scaled):
        return _by_levels(level, *np.broadcast_arrays(*scaled)) * np.sqrt(squeeze)

    def add(k, total):
        return total + _terms([xp.gathered(c, level + k * LEVELS) for c in columns], *scaled)

    return xp.fori_loop(0, rule.nodes, add, xp.zeros_like(scaled[1] + 0 * scaled[0])) * xp.sqrt(
        squeeze
    )


def _by_levels(level, df, b, shift):
    """The sum by NumPy: the numbers of one level share their nodes' constants,
    which no table has to be searched for.
    """
    columns = [column.reshape((-1, LEVELS)) for column in TABLES["float64"][2]]
    level = np.broadcast_to(level, b.shape)
    found = np.empty(b.shape, b.dtype)
    for one in np.unique(level):
        here = level == one
        own = df[here], b[here], shift[here]
        constants = [column[:, one, None] for column in columns]
        parts = [
            [part[start : start + _FEW] for part in own] for start in range(0, len(own[0]), _FEW)
        ]
        found[here] = np.concatenate([np.sum(_terms(constants, *part), 0) for part in parts])
    return found


def _terms(constants, df, b, shift):
    """What pairs of nodes add to the sum."""
    log_part, bent, angle_part, turned, u, weight = constants
    even = df * log_part + b * bent - (shift / 2) * (u * u)
    odd = df * angle_part + b * turned + shift * u
    return weight * _pair(even, odd, u)


def _pair(even, odd, u):
    """e^even (cos odd - u sin odd); of complex numbers by two exponentials in the place of
    three such functions.
    """
    if not xp.iscomplexobj(odd):
        return xp.exp(even) * (xp.cos(odd) - u * xp.sin(odd))
    turn = 1j * odd
    return 0.5 * ((1 + 1j * u) * xp.exp(even + turn) + (1 - 1j * u) * xp.exp(even - turn))
