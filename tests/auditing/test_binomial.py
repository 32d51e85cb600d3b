"""Exact limits against SciPy."""

import numpy as np
import pytest
import scipy.stats

from jaxpriv import auditing
from jaxpriv.auditing.binomial import beta_cdf, beta_quantile, clopper_pearson


def check_limits():
    for n in (2, 10, 500, 20000):
        k = np.unique(np.linspace(0, n, 9).astype(int))
        for miss in (1e-6, 0.01, 0.3):
            low, high = auditing.clopper_pearson(k, n, miss)
            np.testing.assert_allclose(
                low,
                np.where(k > 0, scipy.stats.beta.ppf(miss, np.maximum(k, 1e-9), n - k + 1), 0),
                rtol=1e-7,
                atol=1e-13,
            )
            np.testing.assert_allclose(
                high,
                np.where(k < n, scipy.stats.beta.ppf(1 - miss, k + 1, np.maximum(n - k, 1e-9)), 1),
                rtol=1e-7,
                atol=1e-13,
            )


def test_limits():
    check_limits()


@pytest.mark.parametrize("n", [1, 10**5, 10**8])
def test_nothing_and_all(n):
    """(1 - p)^n = miss."""
    limit = -np.expm1(np.log(0.05) / n)
    np.testing.assert_allclose(clopper_pearson(0, n, 0.05), [0.0, limit], rtol=1e-15)
    low, high = clopper_pearson(n, n, 0.05)
    np.testing.assert_allclose([1 - low, high], [limit, 1.0], rtol=1e-7)


@pytest.mark.parametrize(("given", "match"), [
    ((np.nan, 100, 0.05), "successes = nan"), ((-3, 100, 0.05), "successes = -3"),
    ((5, 3, 0.05), "successes = 5 of fewer"), ((0, 0, 0.05), "trials = 0"),
    ((0, 5, np.nan), "miss = nan"), ((0, 5, 0.0), "miss = 0"),
])  # fmt: skip
def test_outside_ranges(given, match):
    with pytest.raises(ValueError, match=match):
        clopper_pearson(*given)


def test_quantile_inverts():
    p = np.array([1e-8, 0.2, 0.999])
    np.testing.assert_allclose(beta_cdf(beta_quantile(p, 3, 70), 3, 70), p, rtol=1e-6)
    np.testing.assert_allclose(beta_cdf(0.03, 3, 70), scipy.stats.beta.cdf(0.03, 3, 70), rtol=1e-10)


@pytest.mark.parametrize("p", [0.0, 0.003, 0.4])
def test_coverage(p):
    """Each limit misses at most as often as it may, counted over all outcomes."""
    n, miss = 300, 0.05
    k = np.arange(n + 1)
    chance = scipy.stats.binom.pmf(k, n, p)
    low, high = auditing.clopper_pearson(k, n, miss)
    assert chance[low > p].sum() <= miss
    assert chance[high < p].sum() <= miss


@pytest.mark.parametrize("n", [3, 100, 12345, 10**6])
@pytest.mark.parametrize("miss", [1e-5, 3e-12, 1.7e-16, 1e-30, 1e-300])
def test_hardly_ever_wrong(n, miss):
    """Where one less the miss has few digits, or none: no success in closed form."""
    low, high = auditing.clopper_pearson([0, n], n, miss)
    np.testing.assert_allclose(high[0], -np.expm1(np.log(miss) / n), rtol=1e-11)
    np.testing.assert_allclose(low[1], np.exp(np.log(miss) / n), rtol=1e-11)
    assert (low[0], high[1]) == (0, 1)
