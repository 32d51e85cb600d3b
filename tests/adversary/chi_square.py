"""Tails of the chi-square and the noncentral chi-square law,
and the threshold of their likelihood ratio.

chi2_d(nc) is chi2 of d + 2j degrees of freedom with j Poisson(nc/2), so that upper = sum_j pois(j)
Q(d/2 + j, t/2) and lower = sum_j pois(j) P(d/2 + j, t/2) with the regularised incomplete gamma
functions; Q(a+1, x) = Q(a, x) + x^a e^-x/Gamma(a+1) is used upwards and P(a, x) = P(a+1, x) + the
same downwards, where all terms are positive. The Poisson tail beyond the last j is enclosed by its
first term times the geometric bound. For d = 1: T = z^2 with z normal, in closed form.
`Unavailable` where the series would be too long.
"""

from math import sqrt

from flint import arb, ctx

from tests.adversary.balls import tail, zero

LONGEST = 60_000


class Unavailable(Exception):
    """The oracle has no method for this setting within its budget."""


def is_one(d):
    return (d - 1).is_zero()


def upper_tail(t, nc, d):
    """P(T > t)."""
    if is_one(d):
        z, m = t.sqrt(), nc.sqrt()
        return tail(z - m) + tail(z + m)
    if nc.is_zero():
        return gamma_above(d / 2, t / 2)
    return mixed(t, nc, d)[1]


def lower_tail(t, nc, d):
    """P(T < t)."""
    if t.is_zero():
        return zero()
    if is_one(d):
        z, m = t.sqrt(), nc.sqrt()
        return tail(m - z) - tail(m + z)
    if nc.is_zero():
        return gamma_below(d / 2, t / 2)
    return mixed(t, nc, d)[0]


def gamma_below(a, x):
    """P(a, x) = x^a e^-x/Gamma(a+1) sum_k x^k/((a+1)..(a+k)) (DLMF 8.7.1 with 8.5.1),
    rest by the geometric series.
    """
    if x > 3 * a + 50:
        return 1 - gamma_above(a, x)
    term, total, k, small = arb(1), arb(1), 0, arb(2) ** -(ctx.prec + 10)
    while True:
        k += 1
        term = term * x / (a + k)
        total += term
        if term < small * total and x < (a + k) / 2:
            total += arb(1, 1) * term
            return (a * x.log() - x - (a + 1).lgamma()).exp() * total


def gamma_above(a, x):
    """Q(a, x) = Q(b, x) + sum_(b <= c < a) x^c e^-x/Gamma(c+1), b in (0, 1],
    where it is small; else 1 - P.
    """
    if not x > a:
        return 1 - gamma_below(a, x)
    count = int(float(a.ceil().mid())) - 1
    b = a - count
    if (2 * b - 1).is_zero():
        q = 2 * tail((2 * x).sqrt())
    else:
        q = (-x).exp() if (b - 1).is_zero() else x.gamma_upper(b, regularized=1)
    term = (b * x.log() - x - (b + 1).lgamma()).exp()
    for k in range(count):
        q += term
        term = term * x / (b + k + 1)
    return q


KEPT = {}


def mixed(t, nc, d):
    key = (ctx.prec, t.str(50, radius=False), nc.str(50, radius=False), d.str(50, radius=False))
    if key not in KEPT:
        if len(KEPT) > 2000:
            KEPT.clear()
        KEPT[key] = poisson_mixture(t, nc, d)
    return KEPT[key]


def poisson_mixture(t, nc, d):
    """(lower, upper) of chi2_d(nc) by the series in the docstring above."""
    bits = ctx.prec
    lam, x, a = nc / 2, t / 2, d / 2
    mean = float(lam)
    # terms matter around the Poisson mean and, for the upper tail,
    # up to where the ratio lam x/(j (j+a)) is below 1
    reach = max(mean, sqrt(mean * max(float(x), 0.0)))
    last = int(reach + 12 * sqrt((reach + 1) * bits * 0.07) + bits * 0.8 + 20)
    if last > LONGEST:
        raise Unavailable(f"noncentral chi-square with a series of {last} terms")
    pois, step = [(-lam).exp()], []
    density = x**a * (-x).exp() / (a + 1).gamma()
    q = [gamma_above(a, x)]
    for j in range(last):
        pois.append(pois[-1] * lam / (j + 1))
        step.append(density)
        q.append(q[-1] + density)
        density = density * x / (a + j + 1)
    rest = (
        pois[-1] * lam / (last + 1) / (1 - lam / (last + 2))
    )  # sum of the Poisson weights beyond `last`
    upper = sum((w * v for w, v in zip(pois, q)), zero()) + arb(0.5, 0.5) * rest
    p = gamma_below(a + last, x)
    # beyond `last`, P(a+j, x) <= P(a+last, x)
    lower = pois[-1] * p + arb(0.5, 0.5) * rest * p
    for j in range(last - 1, -1, -1):
        p = p + step[j]
        lower += pois[j] * p
    return lower, upper


def log_ratio(t, nc, d):
    """(L(t), L'(t)) with L = -nc/2 + log 0F1(; d/2; nc t/4)."""
    if is_one(d):
        s = (nc * t).sqrt()
        value = s + (-2 * s).exp().log1p() - arb(2).log()
        return value - nc / 2, s.tanh() * nc / s / 2
    z = nc * t / 4
    f = z.hypgeom_0f1(d / 2)
    return f.log() - nc / 2, nc / 4 * z.hypgeom_0f1(d / 2 + 1) / (d / 2) / f


def ratio_threshold(nc, d, eps):
    """t with L(t) = eps > -nc/2, by Newton in log t to the context's precision.

    A threshold test of another t is still a test, and delta is stationary in t: an error of r in t
    changes delta by O(r^2), so the midpoint is used; its width is kept below
    2^(-precision/2 - 20) relative.
    """
    target = eps.mid() + nc / 2
    if is_one(d):
        # cosh(s) = e^target, s = mu sqrt t
        s = (
            target + (1 + (-expm1_(-2 * target)).sqrt()).log()
            if target > 0.01
            else acosh_near(target)
        )
        return (s * s / nc).mid()
    goal = ctx.prec
    try:
        ctx.prec = 128
        t = searched(nc, d, eps.mid())
        ctx.prec = goal + goal // 4 + 128
        for _ in range(40):
            value, slope = log_ratio(t, nc, d)
            move = (value - eps.mid()) / slope
            t = (t - move).mid()
            if abs(move) < t * arb(2) ** (-goal // 2 - 20):
                return t
            if not move.is_finite() or move.rad() > abs(move.mid()):
                ctx.prec *= 2
            if ctx.prec > 100_000 or not t > 0:
                break
        raise Unavailable("no threshold")
    finally:
        ctx.prec = goal


def searched(nc, d, eps):
    """t to about 1e-6 relative, by bisection in log t safeguarding Newton."""
    low = (eps + nc / 2).mid() * 2 * d / nc  # log 0F1(; a; z) <= z/a
    low = (low * arb("0.999")).mid()
    high = (2 * low).mid()
    while not value_of(high, nc, d)[0] > eps:
        low, high = high, (2 * high).mid()
        if high > arb(2) ** 40_000:
            raise Unavailable("no threshold")
    t = (low * high).sqrt().mid()
    for _ in range(300):
        value, slope = value_of(t, nc, d)
        low, high = (t, high) if value < eps else (low, t)
        move = (t - (value - eps) / slope).mid()
        if not (low < move < high):
            move = ((low + high) / 2).mid()
        if abs(move / t - 1) < arb(2) ** -30 or high / low - 1 < arb(2) ** -30:
            return move
        t = move
    raise Unavailable("no threshold")


def value_of(t, nc, d):
    """log_ratio at a precision at which it is known."""
    before = ctx.prec
    try:
        while ctx.prec < 100_000:
            value, slope = log_ratio(t, nc, d)
            if slope.is_finite() and slope.rel_accuracy_bits() > 40 and value.is_finite():
                return value.mid(), slope.mid()
            ctx.prec *= 2
        raise Unavailable("0F1")
    finally:
        ctx.prec = before


def expm1_(x):
    return x.expm1()


def acosh_near(target):
    """acosh(e^x) = 2 asinh(sqrt((e^x - 1)/2))."""
    return 2 * (target.expm1() / 2).sqrt().asinh()
