"""Slow, independent reference values: 50-digit closed forms, and a Poisson mixture for the
noncentral chi-square law.

Every law is a function of (x, *shapes) that returns (pdf, cdf, sf) as mpmath numbers. mpmath's
exponents are unbounded, so nothing underflows; the smaller tail is always computed on its own and
the larger one is its complement.

From `hypotheses` on, trade-off curves from their definitions in SciPy's float64:
integrals, grids of thresholds, hulls.
"""

import math
from collections import namedtuple

import numpy as np
import scipy.optimize
import scipy.stats
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
    return Tails(
        mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi), mp.erfc(-x / root) / 2, mp.erfc(x / root) / 2
    )


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
    """|c + Y| for a standard normal Y; the difference in the cdf gets the digits
    it is about to lose.
    """
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
    """P(Gamma(a) > y): Legendre's continued fraction by Lentz's recurrence,
    or the complement where it is not small.
    """
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
    """Noncentral chi-square law: sum over j of Poisson(j; nc/2)
    times the central law with df + 2j degrees.

    Up the terms for the upper tail (Q grows with j), down them for the lower tail
    (P grows as j falls), so that every recurrence adds positive numbers. The weights peak at the
    Poisson rate tilted to x, nc/(2z) with z the saddle point.
    """
    x, df, nc = mpf(x), mpf(df), mpf(nc)
    if x < 0:
        return Tails(mpf(0), mpf(0), mpf(1))
    a, y, rate = df / 2, x / 2, nc / 2
    if x == 0:
        return Tails(mp.inf if df < 2 else mp.exp(-rate) / 2 if df == 2 else mpf(0), mpf(0), mpf(1))
    z = (df + mp.sqrt(df * df + 4 * nc * x)) / (2 * x)
    peak = rate / z
    # drops less than 10^-dps
    reach = math.sqrt(2 * math.log(10) * (mp.dps + 5) * peak) + 1.6 * mp.dps + 10
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


Hypotheses = namedtuple("Hypotheses", "null alternative low high")


def hypotheses(name, *parameters):
    """SciPy's laws (pdf, cdf, sf, isf) of a test statistic without and with the record,
    and the ends of its bulk.
    """
    first = parameters[0]
    if name == "gaussian":
        return Hypotheses(scipy.stats.norm(), scipy.stats.norm(first), -12.0, 12.0 + first)
    if name == "laplace":
        return Hypotheses(scipy.stats.laplace(), scipy.stats.laplace(first), -60.0, 60.0 + first)
    if name == "relaxed_laplace":
        return Hypotheses(scipy.stats.expon(), FoldedLaplace(first), 0.0, 60.0 + first)
    if name == "relaxed_gaussian":
        nc, dim = first * first, parameters[1]
        high = scipy.stats.ncx2.isf(1e-16, dim, nc)
        return Hypotheses(scipy.stats.chi2(dim), scipy.stats.ncx2(dim, nc), 0.0, high)
    if name == "gaussian_limit":
        shift = first**2 / (2 * parameters[1]) ** 0.5
        std = (1 + 2 * first**2 / parameters[1]) ** 0.5
        return Hypotheses(
            scipy.stats.norm(), scipy.stats.norm(shift, std), -12.0 * std, 12 * std + shift
        )
    raise ValueError(name)


class FoldedLaplace:
    """|c + Y| for a standard Laplace Y, from SciPy's law on both sides of zero."""

    def __init__(self, c):
        self.right, self.left = scipy.stats.laplace(c), scipy.stats.laplace(-c)

    def pdf(self, x):
        return self.right.pdf(x) + self.left.pdf(x)

    def cdf(self, x):
        return self.right.cdf(x) - self.left.sf(x)

    def sf(self, x):
        return self.right.sf(x) + self.left.sf(x)


def blend(pair, rate):
    """The pair whose alternative is (1 - rate) null + rate alternative."""

    def mixed(name):
        return lambda x: (
            (1 - rate) * getattr(pair.null, name)(x) + rate * getattr(pair.alternative, name)(x)
        )

    law = namedtuple("Blend", "pdf cdf sf")(*map(mixed, ("pdf", "cdf", "sf")))
    return pair._replace(alternative=law)


def integrate(function, low, high, breaks=(), panels=400):
    """Gauss-Legendre on equal panels between sorted break points,
    graded to the ends for densities with a pole there.
    """
    ends = np.unique(np.clip([low, high, *breaks], low, high))
    u, w = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for a, b in zip(ends[:-1], ends[1:], strict=True):
        s = np.linspace(0, 1, panels + 1)
        for _ in range(3):  # graded
            s = s * s * (3 - 2 * s)
        nodes = a + (b - a) * (s[:-1, None] + np.diff(s)[:, None] * 0.5 * (1 + u))
        total += np.sum(function(nodes) * (b - a) * np.diff(s)[:, None] * 0.5 * w)
    return total


def profile(pair, eps, breaks=()):
    """(forward, reverse) delta at eps as the integrals of (q - e^eps p)+ and (p - e^eps q)+,
    cut at their sign changes.
    """
    p, q = pair.null.pdf, pair.alternative.pdf
    found = []
    for sign, start, stop in ((1, p, q), (-1, q, p)):
        x = np.linspace(pair.low, pair.high, 4001)[1:-1]
        gap = stop(x) - np.exp(eps) * start(x)
        at = np.nonzero(np.sign(gap[1:]) != np.sign(gap[:-1]))[0]

        def root(i, x=x, start=start, stop=stop):
            return scipy.optimize.brentq(
                lambda t: stop(t) - np.exp(eps) * start(t), x[i], x[i + 1], xtol=1e-15
            )

        cuts = [root(i) for i in at if gap[i] * gap[i + 1] < 0]

        def positive(t, start=start, stop=stop):
            return np.maximum(stop(t) - np.exp(eps) * start(t), 0.0)

        found.append((sign, integrate(positive, pair.low, pair.high, [*cuts, *breaks])))
    return found[0][1], found[1][1]


def thresholds(pair, count=50001):
    """(alpha, beta) of rejecting beyond a threshold, for thresholds that follow both laws' mass;
    the ends included.
    """
    grid = np.linspace(pair.low, pair.high, 4 * count)
    mass = pair.null.cdf(grid) + pair.alternative.cdf(grid) + 0.05 * np.linspace(0, 1, grid.size)
    t = np.interp(np.linspace(mass[0], mass[-1], count), mass, grid)
    alpha = np.concatenate([[1.0], pair.null.sf(t), [0.0]])
    beta = np.concatenate([[0.0], pair.alternative.cdf(t), [1.0]])
    return alpha, beta


def conjugate(alpha, beta, eps):
    """sup over the points of 1 - beta - e^eps alpha."""
    return np.array([np.max(1 - beta - np.exp(e) * alpha) for e in np.atleast_1d(eps)])


def hull(alpha, beta):
    """The lower convex hull of the points, as a function."""
    order = np.lexsort((beta, alpha))
    points = []
    for x, y in zip(alpha[order], beta[order], strict=True):
        while len(points) > 1 and turn(points[-2], points[-1], (x, y)) <= 0:
            points.pop()
        points.append((x, y))
    x, y = np.array(points).T
    return lambda level: np.interp(level, x, y)


def turn(a, b, c):
    """Positive where a, b, c turn to the left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def symmetrised(alpha, beta):
    """The convexified minimum of a curve and its inverse."""
    return hull(np.concatenate([alpha, beta]), np.concatenate([beta, alpha]))


def supported(eps, delta, alpha):
    """The curve with the profile delta(eps), its largest supporting line at each level."""
    lines = 1 - delta[:, None] - np.exp(eps)[:, None] * np.atleast_1d(alpha)
    return np.maximum(lines.max(0), 0.0)


def largest_mu(alpha, beta):
    """The smallest mu of a Gaussian curve below the points and their mirror images; ends that
    rounding blurs left out.
    """
    inside = (np.minimum(alpha, beta) > 1e-8) & (np.maximum(alpha, beta) < 1 - 1e-8)
    return np.max(scipy.stats.norm.isf(alpha[inside]) - scipy.stats.norm.ppf(beta[inside]))
