"""Slow, independent reference values: 50-digit closed forms, and a Poisson mixture for the noncentral chi-square law.

Every law is a function of (x, *shapes) that returns (pdf, cdf, sf) as mpmath numbers. mpmath's exponents are unbounded,
so nothing underflows; the smaller tail is always computed on its own and the larger one is its complement.
"""

import math
from collections import namedtuple

from mpmath import mp, mpf

mp.dps = 50
Tails = namedtuple("Tails", "pdf cdf sf")


def log_of(tails):
    """(log pdf, log cdf, log sf), each to full relative precision, -inf for a zero."""
    pdf, cdf, sf = tails
    log_cdf = mp.log1p(-sf) if sf < cdf else (mp.log(cdf) if cdf > 0 else -mp.inf)
    log_sf = mp.log1p(-cdf) if cdf < sf else (mp.log(sf) if sf > 0 else -mp.inf)
    return Tails(mp.log(pdf) if pdf > 0 else -mp.inf, log_cdf, log_sf)


def norm(x):
    """Standard normal law."""
    x = mpf(x)
    root = mp.sqrt(2)
    return Tails(mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi), mp.erfc(-x / root) / 2, mp.erfc(x / root) / 2)


def laplace(x):
    """Standard Laplace law."""
    x = mpf(x)
    small = mp.exp(-abs(x)) / 2
    return Tails(small, 1 - small if x > 0 else small, small if x > 0 else 1 - small)


def expon(x):
    """Standard exponential law."""
    x = mpf(x)
    if x < 0:
        return Tails(mpf(0), mpf(0), mpf(1))
    return Tails(mp.exp(-x), -mp.expm1(-x), mp.exp(-x))


def foldnorm(x, c):
    """|c + Y| for a standard normal Y; the difference in the cdf gets the digits it is about to lose."""
    x, c = mpf(x), mpf(c)
    if x < 0:
        return Tails(mpf(0), mpf(0), mpf(1))
    with mp.workdps(mp.dps + 10 + max(0, -int(mp.floor(mp.log10(x)))) if x > 0 else mp.dps):
        pdf, below, above = norm(x - c)
        pdf_mirror, below_mirror, _ = norm(-x - c)
        return Tails(pdf + pdf_mirror, below - below_mirror, above + below_mirror)


def foldlaplace(x, c):
    """|c + Y| for a standard Laplace Y."""
    x, c = mpf(x), mpf(c)
    if x < 0:
        return Tails(mpf(0), mpf(0), mpf(1))
    with mp.workdps(mp.dps + 10 + max(0, -int(mp.floor(mp.log10(x)))) if x > 0 else mp.dps):
        if x < c:
            cdf = mp.exp(-c) * mp.sinh(x)
            return Tails(mp.exp(-c) * mp.cosh(x), cdf, 1 - cdf)
        sf = mp.exp(-x) * mp.cosh(c)
        return Tails(sf, 1 - sf, sf)


def gamma_mass(a, y):
    """y^a e^-y / Gamma(a + 1), with digits to spare for large a."""
    with mp.workdps(mp.dps + 15):
        return mp.exp(a * mp.log(y) - y - mp.loggamma(a + 1))


def gamma_lower(a, y):
    """P(Gamma(a) <= y) from the series of positive terms."""
    term = total = mpf(1)
    k = 0
    while term > total * mp.eps or y > a + k:
        k += 1
        term *= y / (a + k)
        total += term
    return gamma_mass(a, y) * total


def gamma_upper(a, y):
    """P(Gamma(a) > y): Legendre's continued fraction by Lentz's recurrence, or the complement where it is not small."""
    if y < a + 1:
        return 1 - gamma_lower(a, y)
    b = y + 1 - a
    c, d = mp.inf, 1 / b
    value = d
    for i in range(1, 10**7):
        numerator = -i * (i - a)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        value *= c * d
        if abs(c * d - 1) < mp.eps:
            return gamma_mass(a, y) * a * value
    raise ArithmeticError("continued fraction did not converge")


def chi2(x, df):
    """Central chi-square law."""
    return ncx2(x, df, 0)


def ncx2(x, df, nc):
    """Noncentral chi-square law: sum over j of Poisson(j; nc/2) times the central law with df + 2j degrees.

    Up the terms for the upper tail (Q grows with j), down them for the lower tail (P grows as j falls), so that every
    recurrence adds positive numbers. The weights peak at the Poisson rate tilted to x, nc/(2z) with z the saddle point.
    """
    x, df, nc = mpf(x), mpf(df), mpf(nc)
    if x < 0:
        return Tails(mpf(0), mpf(0), mpf(1))
    a, y, rate = df / 2, x / 2, nc / 2
    if x == 0:
        return Tails(mp.inf if df < 2 else mp.exp(-rate) / 2 if df == 2 else mpf(0), mpf(0), mpf(1))
    z = (df + mp.sqrt(df * df + 4 * nc * x)) / (2 * x)
    peak = rate / z
    reach = math.sqrt(2 * math.log(10) * (mp.dps + 5) * peak) + 1.6 * mp.dps + 10  # drops less than 10^-dps
    low = max(0, int(mp.floor(peak - reach)))
    high = int(mp.ceil(peak + reach)) if nc > 0 else 0
    upper = x > df + nc
    start = low if upper else high
    with mp.workdps(mp.dps + 15):
        weight = mp.exp(start * mp.log(rate) - rate - mp.loggamma(start + 1)) if nc > 0 else mpf(1)
    mass = gamma_mass(a + start, y)
    tail = gamma_upper(a + start, y) if upper else gamma_lower(a + start, y)
    total = weight * tail
    density = weight * mass * (a + start)
    for j in range(low, high) if upper else range(high - 1, low - 1, -1):
        if upper:  # from j to j + 1
            tail += mass
            mass *= y / (a + j + 1)
            weight *= rate / (j + 1)
            density += weight * mass * (a + j + 1)
        else:  # from j + 1 to j
            mass *= (a + j + 1) / y
            weight *= (j + 1) / rate
            tail += mass
            density += weight * mass * (a + j)
        total += weight * tail
    pdf = density / x
    return Tails(pdf, 1 - total, total) if upper else Tails(pdf, total, 1 - total)
