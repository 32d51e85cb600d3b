"""Sums of a Gaussian over whole numbers, from any place on: what is a tail of discrete Gaussian
noise.

With s = 1/sigma^2 and E_r(u) = e^(-ru - su^2/2), a sum that starts at x is e^(-sx^2/2) times that
of E_r(0), E_r(1), ..., r = sx. Where terms fall fast (r > 1, or sigma < 4) a few of them are all;
elsewhere Euler and Maclaurin's formula, theta in [0, 1],

    sum_j E(theta + j) = int_0^inf E du - sum_m B_m(theta)/m! E^(m-1)(0)

gives it from Mills' ratio and derivatives, Hermite polynomials, which follow from
h_(m+1) = -r h_m - m s h_(m-1). What is left out after M = 28 terms is at most
2 zeta(M) (2 pi)^-M int |E^(M)|, and |E^(M)(u)| <= E(u) mean of (r + su + sqrt(s) Z)^M, Z normal:
below 1e-17 of the sum for r <= 1, s <= 1/16.
"""

import math
from fractions import Fraction

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._mills import normal

TERMS = 96  # e^(-96 r) where r > 3/4, and e^(-96^2 s/2) where s > 1/16, are nothing
_ORDER = 28
SMOOTH = 1 / 16  # s up to which, for r up to 1, the formula serves


def _bernoulli(count):
    """B_0, B_1 = -1/2, B_2, ... as fractions."""
    found = [Fraction(1)]
    for m in range(1, count):
        found.append(-sum(math.comb(m + 1, k) * found[k] for k in range(m)) / Fraction(m + 1))
    return found


_NUMBERS = _bernoulli(_ORDER + 1)
# B_m(theta)/m! at theta = 0, and as polynomials in theta - 1/2, lowest coefficient first
_AT_ZERO = np.array([float(number / math.factorial(m)) for m, number in enumerate(_NUMBERS)])
_POLYNOMIALS = np.array(
    [
        [
            float(
                math.comb(m, k)
                * _NUMBERS[m - k]
                * (Fraction(2, 2 ** (m - k)) - 1)
                / math.factorial(m)
            )
            if k <= m
            else 0.0
            for k in range(_ORDER + 1)
        ]
        for m in range(_ORDER + 1)
    ]
)


def is_smooth(r, s):
    """Where the formula serves."""
    return (s <= SMOOTH) & (r <= 1)


def chosen(smooth, series, direct):
    """series() where smooth, else direct(); NumPy computes what is asked for only."""
    if not xp.any_jax(smooth):
        if np.all(smooth):
            return series()
        if not np.any(smooth):
            return direct()
    return xp.where(smooth, series(), direct())


def log_mills(r, s):
    """log of sum_j>=0 e^(-rj - sj^2/2) for r >= 0, s > 0: the tail of discrete Gaussian noise over
    its first term.
    """
    smooth = is_smooth(r, s)

    def series():
        own, spread = xp.where(smooth, r, 0.5), xp.where(smooth, s, SMOOTH)
        root = xp.sqrt(spread)

        def add(state, entry):
            total, before, now = state
            m, share = entry
            before, now = now, -own * now - (m - 1) * spread * before
            return (total - share * now, before, now), None

        half, none, one = xp.full_like(own, 0.5), xp.zeros_like(own), xp.ones_like(own)
        orders = np.arange(1.0, _ORDER, dtype=np.result_type(own.dtype))
        shares = _AT_ZERO[2:].astype(orders.dtype)
        (total, *_), _ = xp.scan(add, (half, none, one), (orders, shares))
        return xp.log(xp.exp(normal(own / root)[2]) / root + total)

    def direct():
        own, spread = xp.where(smooth, 1.0, r), xp.where(smooth, 1.0, s)
        j = _steps(own)
        return xp.log1p(xp.sum(xp.exp(-j * (own + 0.5 * spread * j)), 0))

    return chosen(smooth, series, direct)


def _steps(like, first=1):
    """first, first + 1, ... along a new first axis."""
    steps = np.arange(first, first + TERMS, dtype=np.result_type(like.dtype))
    return steps.reshape((-1,) + (1,) * like.ndim)


def log_gap_direct(r, s, rise, d):
    """log of sum_j>=0 e^(-rj - sj^2/2) (1 - e^(-rise - dj)), term by term, all positive."""
    j = _steps(r, 0)
    terms = xp.exp(-j * (r + 0.5 * s * j)) * -xp.expm1(-rise - d * j)
    return xp.log(xp.sum(terms, 0))


def gap_excess(r, s, theta, d):
    """sum_j>=0 F(theta + j) - int_0^inf F du of F = E_r - E_(r+d), which is 0 at 0, for r + d <= 1
    and s <= 1/16.

    D_m = h_m(r) - h_m(r+d) follows from D_(m+1) = -r D_m + d h_m(r+d) - m s D_(m-1), which loses
    nothing however small d.
    """
    other, none, one = r + d, xp.zeros_like(r), xp.ones_like(r)
    orders = np.arange(0.0, _ORDER - 1, dtype=np.result_type(r.dtype))
    powers = xp.stack([(theta - 0.5) ** k for k in range(_ORDER + 1)])
    shares = xp.tensordot(_POLYNOMIALS[2:].astype(orders.dtype), powers, 1)

    def add(state, entry):
        total, less, gap, before, now = state  # D_(m-1), D_m, and h at r + d
        m, share = entry
        less, gap = gap, -r * gap + d * now - m * s * less
        before, now = now, -other * now - m * s * before
        return (total - share * gap, less, gap, before, now), None

    (total, *_), _ = xp.scan(add, (none, none, none, none, one), (orders, shares))
    return total


def log_total(s, half=False):
    """log of the sum of e^(-s x^2/2) over all whole x, or over all x + 1/2."""
    wide = s < 2 * math.pi
    k = np.arange(1.0, 9.0, dtype=np.result_type(s.dtype)).reshape((-1,) + (1,) * s.ndim)
    flat, steep = xp.where(wide, s, 1.0), xp.where(wide, 10.0, s)
    sign = np.where(k % 2, -1.0, 1.0).astype(k.dtype) if half else 1.0
    # Poisson's summation formula
    waves = 2 * xp.sum(sign * xp.exp(-2 * math.pi**2 * k * k / flat), 0)
    smooth = 0.5 * xp.log(2 * math.pi / flat) + xp.log1p(waves)
    if half:
        at = k - 0.5
        rest = xp.log1p(xp.sum(xp.exp(-0.5 * steep * (at * at - 0.25)), 0) - 1)
        return xp.where(wide, smooth, math.log(2.0) - steep / 8 + rest)
    return xp.where(wide, smooth, xp.log1p(2 * xp.sum(xp.exp(-0.5 * steep * k * k), 0)))
