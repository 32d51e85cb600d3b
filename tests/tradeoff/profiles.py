"""Privacy profiles by mpmath and by hand, and what is searched on them by brute force."""

import mpmath
import numpy as np
import scipy.stats

NORM = scipy.stats.norm


def gaussian_profile(mu, eps):
    """Dong, Roth, Su 2022, Corollary 2.13, in 40 digits; elementwise."""

    def one(mu, eps):
        with mpmath.workdps(40):
            mu, eps = mpmath.mpf(float(mu)), mpmath.mpf(float(eps))
            return float(
                mpmath.ncdf(mu / 2 - eps / mu) - mpmath.e**eps * mpmath.ncdf(-mu / 2 - eps / mu)
            )

    return np.vectorize(one, otypes=[float])(mu, eps)


def laplace_profile(ratio, eps):
    """1 - e^((eps - ratio)/2) for |eps| <= ratio."""
    inside = np.clip(eps, -ratio, ratio)
    return np.where(eps >= ratio, 0.0,
                    np.where(eps <= -ratio, -np.expm1(eps), -np.expm1((inside - ratio) / 2)))


def response_profile(epsilon, eps):
    """(e^epsilon - e^eps)/(1 + e^epsilon)."""
    inside = np.maximum(np.exp(epsilon) - np.exp(eps), 0.0) / (1 + np.exp(epsilon))
    return np.maximum(inside, -np.expm1(eps))


def fast_gaussian(mu, eps):
    """The same in SciPy's double precision: good to 1e-15, absolutely."""
    return NORM.cdf(mu / 2 - eps / mu) - np.exp(eps + NORM.logcdf(-mu / 2 - eps / mu))


def brute_mu(profile, slack, last, count=10_001):
    """The largest mu that any eps of a grid of real numbers asks for, and of one around the best,
    by bisection.
    """

    def asked(eps):
        target = profile(eps) - slack
        low, high = np.full_like(eps, 1e-9), np.full_like(eps, 100.0)
        for _ in range(55):
            middle = 0.5 * (low + high)
            enough = fast_gaussian(middle, eps) >= target
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    eps = np.linspace(-last, last, count)
    best, step = eps[np.argmax(asked(eps))], eps[1] - eps[0]
    return asked(np.linspace(best - step, best + step, count)).max()


def brute_regret(beta, inverse, mu):
    """The least kappa with f(alpha + kappa) - kappa <= G_mu(alpha) and the same of f^-1,
    by bisection over a grid of levels.
    """
    alpha = np.concatenate([np.geomspace(1e-10, 1e-3, 300), np.linspace(1e-3, 1, 4_001)])
    bound = NORM.sf(NORM.ppf(alpha) + mu)

    def holds(kappa):
        shifted = np.minimum(alpha + kappa, 1.0)
        return all(np.all(f(shifted) - kappa <= bound + 1e-15) for f in (beta, inverse))

    low, high = 0.0, 1.0
    for _ in range(32):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
