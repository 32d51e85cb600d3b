"""Exact confidence limits of a probability from a count (Clopper-Pearson), and the Beta law behind
them, by NumPy.
"""

import numpy as np

from jaxpriv._checks import AT_LEAST_ONE, NONNEGATIVE, OPEN_UNIT, check_number
from jaxpriv._types import Numbers
from jaxpriv.stats import norm
from jaxpriv.stats._binomial import at_mean, deviances
from jaxpriv.tradeoff.solve import newton_in_bracket

_FAR = 700.0  # of log odds: nearer to 0 or 1 there is no float64
_NEAR = 1e-7  # a Newton step of log odds, after which the next would be its square


def beta_quantile(p, a, b, above=False):
    """The p-quantile of the Beta(a, b) law, or where `above` the one with a probability of p beyond
    it, for p next to 1 has few digits of 1 - p; 0 for a = 0, 1 for b = 0.

    Args:
        p: `Float[Array, "..."]` in (0, 1). a, b: `Float[Array, "..."]`, whole numbers in [0, inf),
            not both 0. above: `Bool[Array, "..."]`.

    Returns: `Float[numpy.ndarray, "..."]`, to about 1e-13 of itself.

        >>> print(f"{beta_quantile(0.5, 1, 1):.3f}")
        0.500
    """
    p, above = np.asarray(p, np.float64), np.asarray(above)
    quantile = np.where(above, -1, 1) * norm.ppf(p)
    # the logarithm of the smaller tail, and is it on the left?
    tail, left = np.where(p < 0.5, np.log(p), np.log1p(-p)), (p < 0.5) != above
    a, b = (np.asarray(value, np.float64) for value in (a, b))
    a, b, tail, left = np.broadcast_arrays(a, b, tail, left)
    inside = (a > 0) & (b > 0)
    a_in, b_in = np.where(inside, a, 1.0), np.where(inside, b, 1.0)
    level = at_mean(a_in, b_in)

    def excess(log_odds):
        """Of the logarithm of the smaller tail, and its slope."""
        x, y = 1 / (1 + np.exp(-log_odds)), 1 / (1 + np.exp(log_odds))
        below, beyond, log_density = _tails(x, y, a_in, b_in, level)
        over = np.where(left, np.log(below) - tail, tail - np.log(beyond))
        return over, np.exp(log_density) / np.where(left, below, beyond)

    with np.errstate(all="ignore"):
        end = np.full(a.shape, _FAR)
        # log odds are nearly normal, with this mean and variance
        start = np.log(a_in / b_in) + quantile * np.sqrt(1 / a_in + 1 / b_in)
        found = newton_in_bracket(excess, -end, end, iterations=80, start=start, tolerance=_NEAR)
        x = 1 / (1 + np.exp(-found))
        # P(X > x) = (1 - x)^b for a = 1, P(X <= x) = x^a for b = 1
        beyond, below = (np.where(side, np.log(p), np.log1p(-p)) for side in (above, ~above))
        x = np.where(a == 1, -np.expm1(beyond / b_in), np.where(b == 1, np.exp(below / a_in), x))
    return np.where(inside, x, np.where(a > 0, 1.0, 0.0))


def beta_cdf(x, a, b):
    """The distribution function of the Beta(a, b) law, for whole numbers a, b > 0: P(X <= x).

        >>> print(f"{beta_cdf(0.25, 1, 1):.3f}")
        0.250
    """
    x, a, b = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (x, a, b)))
    with np.errstate(all="ignore"):
        inside = (x > 0) & (x < 1)
        x_in = np.where(inside, x, 0.5)
        below, _, _ = _tails(x_in, 1 - x_in, a, b, at_mean(a, b))
    return np.where(inside, below, np.where(x > 0, 1.0, 0.0))


def _tails(x, y, a, b, level):
    """(P(X <= x), P(X > x), log of the density by log odds) of the Beta(a, b) law, y = 1 - x.

    The density by log odds is x^a y^b/B(a, b), of logarithm level less the deviances of a from
    n x and of b from n y, n = a + b: large terms are taken together. With it
    P(X <= x) = density/(a (1 + d_1/(1 + d_2/...))), a continued fraction (DLMF 8.17.22) that ends
    soon below the middle; above it the law of 1 - X is asked.
    """
    log_density = level - deviances(x, y, a, b)
    low = x * (a + b + 2) <= a + 1
    one, other = np.where(low, a, b), np.where(low, b, a)
    small = np.exp(log_density) / (one * _fraction(np.where(low, x, y), one, other))
    return np.where(low, small, 1 - small), np.where(low, 1 - small, small), log_density


def _fraction(x, a, b):
    """1 + d_1/(1 + d_2/(1 + ...)), d_2m = m (b-m) x/((a+2m-1)(a+2m)) and d_(2m+1) =
    -(a+m)(a+b+m) x/((a+2m)(a+2m+1)), from the last pair of levels upwards.
    """
    # by trial nothing but rounding changes from there on, for whole numbers
    pairs = int(12 + 9.5 * np.max(np.minimum(a, b), initial=1.0) ** (1 / 3))
    m = np.arange(pairs - 1.0, -1.0, -1.0).reshape((-1,) + (1,) * np.ndim(x))
    at = a + 2 * m
    odd = -(a + m) * (a + b + m) * x / (at * (at + 1))
    even = (m + 1) * (b - m - 1) * x / ((at + 1) * (at + 2))
    value = np.ones_like(x)
    for first, second in zip(odd, even):
        value = 1 + first / (1 + second / value)
    return value


def clopper_pearson(
    successes: Numbers, trials: Numbers, miss: Numbers
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper): one-sided limits of a success probability,
    each wrong with probability at most `miss`.

    Args:
        successes: `Int[Array, "..."]` in [0, trials]. trials: in [1, inf). miss: in (0, 1).

    Raises: ValueError for values outside their range, NaN among them.
    Source: Clopper, Pearson 1934.

        >>> low, high = clopper_pearson(0, 100, 0.05)
        >>> print(f"{low:.4f} {high:.4f}")
        0.0000 0.0295
    """
    check_number("successes", successes, NONNEGATIVE)
    check_number("trials", trials, AT_LEAST_ONE)
    check_number("miss", miss, OPEN_UNIT)
    k, n, miss = np.broadcast_arrays(*(np.asarray(v, float) for v in (successes, trials, miss)))
    if np.any(k > n):
        raise ValueError(f"successes = {np.max(k):g} of fewer trials; accepted: up to all of them")
    lower, upper = beta_quantile(miss, np.stack([k, k + 1]), np.stack([n - k + 1, n - k]),
                                 np.array([False, True]).reshape((2,) + (1,) * k.ndim))
    return lower, upper
