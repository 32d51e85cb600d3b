"""Binomial tails against sums of probabilities to 50 digits, within the errors that they state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

from jaxpriv.stats._binomial import log_tails


def exact(p, successes, trials):
    """Both tails, term by term from the count next to `successes`."""
    with mp.workdps(50):
        p = mpf(float(p))
        totals = []
        for start, step in ((successes, 1), (successes - 1, -1)):
            term = mp.binomial(trials, start) * p**start * (1 - p) ** (trials - start)
            total, k = mpf(0), start
            while 0 <= k <= trials and term > total * mpf(10) ** -45:
                total += term
                up = mpf(trials - k) / (k + 1) * p / (1 - p)
                term *= up if step > 0 else mpf(k) / (trials - k + 1) * (1 - p) / p
                k += step
            totals.append(mp.log(total))
        return totals


def settings(count):
    random = np.random.default_rng(5)
    for index in range(count):
        trials = int(10 ** random.uniform(0, 4.5))
        successes = int(random.integers(1, trials + 1))
        middle = successes + 3 * random.normal() * np.sqrt(successes)
        p = random.random() if index % 3 == 0 else np.clip(middle / trials, 1e-8, 1 - 1e-9)
        yield p, successes, trials


def test_tails():
    """30 settings: within the doubt, which is small; both tails add up to 1."""
    for p, successes, trials in settings(30):
        *tails, doubt = log_tails(np.float64(p), float(successes), float(trials))
        for found, truth in zip(tails, exact(p, successes, trials)):
            assert abs(found - truth) <= doubt * 2.2e-16, (p, successes, trials)
        assert doubt * 2.2e-16 < 1e-12 * (1 - min(tails)) + 1e-13 * np.sqrt(trials)
        np.testing.assert_allclose(np.exp(tails).sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("p", "successes", "trials", "up", "down"), [
    (0.3, 1, 1, np.log(0.3), np.log(0.7)), (0.5, 1, 1, np.log(0.5), np.log(0.5)),
    (0.5, 2, 3, np.log(0.5), np.log(0.5)), (1e-300, 2, 2, -600 * np.log(10), 0.0),
    (1e-9, 1, 10**9, np.log(-np.expm1(-1.0000000005)), -1.0000000005),
    (0.5, 10**9, 10**9, -(10**9) * np.log(2.0), 0.0),
    (1 - 1e-12, 1, 2, 0.0, 2 * np.log1p(-(1 - 1e-12))),
])
def test_ends(p, successes, trials, up, down):
    found = log_tails(np.float64(p), float(successes), float(trials))
    np.testing.assert_allclose(found[:2], [up, down], rtol=1e-12, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "successes"), [(0.01, 120), (0.02, 120)])
def test_derivatives_and_executors(p, successes):
    """The derivative is a term of the binomial law; both executors agree."""
    trials = 10_000.0

    def tail(q):
        return log_tails(q, float(successes), trials)[0]

    np.testing.assert_allclose(jax.jit(tail)(jnp.float64(p)), tail(np.float64(p)), rtol=1e-11)
    with mp.workdps(30):
        term = successes * mp.binomial(10_000, successes) * mpf(p) ** (successes - 1)
        slope = term * (1 - mpf(p)) ** (10_000 - successes) / mp.exp(exact(p, successes, 10_000)[0])
    np.testing.assert_allclose(jax.grad(tail)(p), float(slope), rtol=1e-9, atol=1e-300)
