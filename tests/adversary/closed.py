"""Privacy profiles of single experiments in ball arithmetic, from their definitions.

Null P = record absent, alternative Q = present, L = log dQ/dP. For every real eps

    forward  delta(eps) = sup_S Q(S) - e^eps P(S) = E_Q[(1 - e^(eps - L))_+]
    reverse  delta(eps) = sup_S P(S) - e^eps Q(S)

and 1 - delta, its complement, is E_Q[min(1, e^(eps - L))], a sum of positive terms: it is computed
on its own, so that a delta of 1 - e^-500 can be told from 1. The two directions are tied by

    reverse(eps) = 1 - e^eps (1 - forward(-eps)),

for sup_S P(S) - e^eps Q(S) = 1 - e^eps inf_S' ... with S' the complement set;
it is used as a check only.

A mechanism is a tuple (name, parameters...). `profile` returns (delta, complement) at the precision
of flint's context; an exact 0 or 1 comes back as an exact ball.
"""

from flint import arb

from tests.adversary.balls import choose, exact, expm1, one, tail, zero
from tests.adversary.chi_square import lower_tail, ratio_threshold, upper_tail


def profile(mechanism, eps, forward):
    name, *parameters = mechanism
    return PROFILES[name](*parameters, eps, forward)


def everything(eps):
    """S = all outcomes: delta = 1 - e^eps."""
    return -expm1(eps), eps.exp()


def perfect(eps):
    """P = Q."""
    return choose(eps, lambda: everything(eps), lambda: (zero(), one()))


def normal_shift(mu, eps):
    """N(0,1) against N(mu,1): L = mu x - mu^2/2, threshold x = eps/mu + mu/2.
    Balle and Wang 2018, Theorem 8.
    """
    a, b = eps / mu - mu / 2, eps / mu + mu / 2
    return tail(a) - eps.exp() * tail(b), tail(-a) + eps.exp() * tail(b)


def gaussian(mu, eps, forward):
    mu = exact(mu)
    return perfect(eps) if mu.is_zero() else normal_shift(mu, eps)


def laplace(ratio, eps, forward):
    """Laplace(0,1) against Laplace(r,1): L = |x| - |x - r| in [-r, r]; S = {x > (eps + r)/2} in
    between gives 1 - e^((eps-r)/2). Dong, Roth, Su, Lemma A.6.
    """
    r = exact(ratio)

    def inside():
        half = (eps - r) / 2
        return -expm1(half), half.exp()

    return choose(
        eps - r, lambda: choose(-eps - r, inside, lambda: everything(eps)), lambda: (zero(), one())
    )


def approximate_dp(epsilon, delta, eps, forward):
    """Outcomes (P, Q) = (D, 0), (p e^E, p), (p, p e^E), (0, D), p = (1-D)/(1+e^E).
    Kairouz, Oh, Viswanath 2015.
    """
    e, d = exact(epsilon), exact(delta)
    p = (1 - d) / (1 + e.exp())

    def inside():
        return d + p * (e.exp() - eps.exp()), p * (1 + eps.exp())

    def below():
        return 1 - eps.exp() * (1 - d), eps.exp() * (1 - d)

    return choose(eps - e, lambda: choose(-eps - e, inside, below), lambda: (d, 1 - d))


def randomized_response(epsilon, eps, forward):
    return approximate_dp(epsilon, 0.0, eps, forward)


def relaxed_gaussian(mu, dim, eps, forward):
    """chi2_d against noncentral chi2_d(mu^2):
    dQ/dP(t) = e^(-nc/2) 0F1(;d/2; nc t/4), increasing in t.

    Forward: S = {T > t} with L(t) = eps, everything where eps <= -nc/2 = L(0). Reverse: S = {T < t}
    with L(t) = -eps, nothing where eps >= nc/2. Kaissis et al. 2022, Theorem 1.
    """
    nc, d = exact(mu) ** 2, exact(dim)
    if nc.is_zero():
        return perfect(eps)

    def forward_inside():
        t = ratio_threshold(nc, d, eps)
        q, p = upper_tail(t, nc, d), upper_tail(t, zero(), d)
        return q - eps.exp() * p, lower_tail(t, nc, d) + eps.exp() * p

    def reverse_inside():
        t = ratio_threshold(nc, d, -eps)
        p, q = lower_tail(t, zero(), d), lower_tail(t, nc, d)
        return p - eps.exp() * q, upper_tail(t, zero(), d) + eps.exp() * q

    if forward:
        return choose(-eps - nc / 2, forward_inside, lambda: everything(eps))
    return choose(eps - nc / 2, reverse_inside, lambda: (zero(), one()))


def relaxed_laplace(ratio, eps, forward):
    """Exponential(1) against |Laplace(r,1)|: dQ/dP(t) = e^(t-r) cosh t up to r, then cosh r.
    Kaissis et al. 2023, Theorem 1.

    Forward inside: the threshold has e^(2t) = 2 e^(eps+r) - 1,
    1 - delta = e^-r sinh t + e^(eps-t) = e^(t-r). Reverse inside, at L(t) = -eps:
    delta = P(T<t) - e^eps Q(T<t) = 1 - e^-t - e^(eps-r) sinh t,
    1 - delta = e^-t (cosh t + sinh t)/cosh t = 1/cosh t;
    and delta = 1 - 1/cosh t = 2 sinh(t/2)^2/cosh t.
    """
    r = exact(ratio)
    if r.is_zero():
        return perfect(eps)
    log_cosh = r + (-2 * r).exp().log1p() - arb(2).log()

    def threshold(level):
        s = level + r + arb(2).log()
        if s > 1:
            return (s + (-((-s).exp())).log1p()) / 2
        return (2 * expm1(level + r)).log1p() / 2

    def forward_inside():
        x = threshold(eps) - r
        return -expm1(x), x.exp()

    def reverse_inside():
        t = threshold(-eps)
        cosh = t.cosh()
        return 2 * (t / 2).sinh() ** 2 / cosh, 1 / cosh

    if forward:
        return choose(
            eps - log_cosh,
            lambda: choose(-eps - r, forward_inside, lambda: everything(eps)),
            lambda: (zero(), one()),
        )
    return choose(
        eps - r,
        lambda: choose(-eps - log_cosh, reverse_inside, lambda: everything(eps)),
        lambda: (zero(), one()),
    )


def subsample(rate, base, eps, forward):
    """P against (1-p) P + p Q of the base pair (the record takes part with probability p).

    Forward: (1-p) P + p Q - e^eps P = p (Q - e^(eps') P), e^(eps') = 1 + (e^eps - 1)/p, everything
    where that is <= 0. Reverse: P - e^eps ((1-p) P + p Q) = A (P - e^(eps'') Q),
    A = 1 - e^eps (1-p), e^(eps'') = p e^eps/A, nothing where A <= 0.
    Balle, Barthe, Gaboardi 2018, Theorem 2.
    """
    p = exact(rate)
    if (p - 1).is_zero():
        return profile(base, eps, forward)
    if forward:
        x = expm1(eps) / p

        def inside():
            delta, complement = profile(base, x.log1p(), True)
            return p * delta, (1 - p) + p * complement

        def beyond():
            return everything(eps)

        def inside_of_large():  # log(1 + x) = log x + log1p(1/x), in case e^eps is astronomic
            delta, complement = profile(base, x.log1p(), True)
            return p * delta, (1 - p) + p * complement

        return choose(x + 1, beyond, inside_of_large if eps > 1 else inside)
    a = p - expm1(eps) * (1 - p)

    def reverse_inside():
        inner = eps + p.log() - a.log()
        if eps.is_zero():
            inner = zero()
        delta, complement = profile(base, inner, False)
        return a * delta, eps.exp() * (1 - p) + a * complement

    return choose(-a, reverse_inside, lambda: (zero(), one()))


def membership(dim, batch_size, susceptibility, eps, forward):
    """T = n |m - g|^2: chi2_d(nK) without the record; (n-1)/n times chi2_d((n-1)K) with it. Leemann
    et al. 2023, Theorem 5.1.

    The 0F1 factors of the two densities at t have the same argument nK t/4 and cancel:
    dQ/dP(t) = (n/(n-1))^(d/2) e^(K/2 - t/(2(n-1))), decreasing in t, so that a small T
    speaks for the record.
    """
    d, n, k = exact(dim), exact(batch_size), exact(susceptibility)
    largest = d / 2 * (n / (n - 1)).log() + k / 2

    def forward_inside():
        t = 2 * (n - 1) * (largest - eps)
        u = n * t / (n - 1)
        q, p = lower_tail(u, (n - 1) * k, d), lower_tail(t, n * k, d)
        return q - eps.exp() * p, upper_tail(u, (n - 1) * k, d) + eps.exp() * p

    def reverse_inside():
        t = 2 * (n - 1) * (largest + eps)
        u = n * t / (n - 1)
        p, q = upper_tail(t, n * k, d), upper_tail(u, (n - 1) * k, d)
        return p - eps.exp() * q, lower_tail(t, n * k, d) + eps.exp() * q

    if forward:
        return choose(eps - largest, forward_inside, lambda: (zero(), one()))
    return choose(-eps - largest, reverse_inside, lambda: everything(eps))


def mixture(curves, weights, eps, forward):
    """One of several experiments, drawn with known weights: E[delta_x(eps)].

    Leemann et al. 2023, Definition 4.1, by its conjugate.
    """
    deltas = [profile(curve, eps, forward)[0] for curve in curves]
    total = sum((exact(w) * d for w, d in zip(weights, deltas)), zero())
    return total, 1 - total


PROFILES = {
    "gaussian": gaussian,
    "laplace": laplace,
    "randomized_response": randomized_response,
    "approximate_dp": approximate_dp,
    "relaxed_gaussian": relaxed_gaussian,
    "relaxed_laplace": relaxed_laplace,
    "subsample": subsample,
    "membership": membership,
    "mixture": mixture,
}
