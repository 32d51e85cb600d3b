"""One-run auditing: the formula against the authors' loop,
its guarantee against worst-case mechanisms, its power.
"""

import numpy as np
import pytest
import scipy.stats

from jaxpriv import auditing
from tests.auditing.mechanisms import over_laws


def by_loop(epsilon, delta, correct, guesses, canaries):
    """The p-value as the paper's appendix D computes it."""
    q = 1 / (1 + np.exp(-epsilon))
    beta = scipy.stats.binom.sf(correct - 1, guesses, q)
    alpha, total = 0.0, 0.0
    for i in range(1, correct + 1):
        total += scipy.stats.binom.pmf(correct - i, guesses, q)
        alpha = max(alpha, total / i)
    return min(beta + alpha * delta * 2 * canaries, 1.0)


def check_p_value():
    """For delta = 0 that of the source; else between the binomial and the source's, and as much
    nearer to the first as the best law of all is.
    """
    for epsilon in (0.0, 0.3, 2.0, 6.0):
        for delta in (0.0, 1e-5, 1e-2):
            for correct, guesses, canaries in ((0, 10, 10), (7, 10, 50), (90, 100, 1000),
                                               (1000, 1000, 5000)):
                published = by_loop(epsilon, delta, correct, guesses, canaries)
                least = by_loop(epsilon, 0.0, correct, guesses, canaries)
                got = auditing.one_run_p_value(epsilon, delta, correct, guesses, canaries)
                assert least * (1 - 1e-7) <= got <= published * (1 + 1e-7) + 1e-300
                if delta == 0:
                    np.testing.assert_allclose(got, least, rtol=2e-7, atol=1e-300)
    for epsilon, delta, game in ((0.5, 1e-3, (24, 30, 60)), (2.0, 1e-4, (38, 40, 400))):
        best = over_laws([epsilon], [delta], *game)
        np.testing.assert_allclose(auditing.one_run_p_value(epsilon, delta, *game), best, rtol=1e-6)


@pytest.mark.slow
def test_p_value():
    check_p_value()


def respond(epsilon, delta, m, random):
    """Randomised response on every canary, with probability delta per canary in the clear:
    what attains (eps, delta).
    """
    member = random.uniform(size=m) < 0.5
    told = np.where(random.uniform(size=m) < 1 / (1 + np.exp(-epsilon)), member, ~member)
    sure = random.uniform(size=m) < delta
    size = np.where(sure, 2.0, 1.0) + random.uniform(size=m)
    return np.where(np.where(sure, member, told), size, -size), member


def check_guarantee():
    """The bound exceeds epsilon in at most 5% of runs of mechanisms that just attain it,
    and comes near it.
    """
    for epsilon, delta in ((0.5, 0.0), (2.0, 0.0), (2.0, 1e-3)):
        random = np.random.default_rng(0)
        runs = (
            auditing.one_run(*respond(epsilon, delta, 1000, random), delta, guesses=1000)
            for _ in range(400)
        )
        found = np.array([run.epsilon for run in runs])
        assert np.mean(found > epsilon) <= 0.07
        assert np.median(found) > 0.6 * epsilon if delta else np.median(found) > 0.7 * epsilon


@pytest.mark.slow
def test_guarantee():
    check_guarantee()


def test_abstention_is_reported():
    random = np.random.default_rng(0)
    result = auditing.one_run(*respond(2.0, 0.0, 500, random), guesses=50)
    assert (result.guesses, result.canaries, result.abstained) == (50, 500, 0.9)
    assert result.correct <= 50


def test_certain_guesses():
    member = np.arange(200) % 2 == 0
    assert auditing.one_run(member.astype(float), member, guesses=200).epsilon > 4
    assert auditing.one_run(-member.astype(float), member, guesses=200).epsilon == 0


@pytest.mark.parametrize(("call", "match"), [
    (lambda: auditing.one_run(np.ones(4), [0, 0, 1, 1], guesses=3), "guesses = 3"),
    (lambda: auditing.one_run(np.ones(4), [0, 0, 1, 1], guesses=6), "guesses = 6"),
    (lambda: auditing.one_run(np.ones(4), [0, 0, 1, 1], delta=1.0), "delta = 1"),
    (lambda: auditing.one_run(np.ones(4), [0, 0, 1, 1], confidence=2), "confidence = 2"),
])
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_no_probability_is_nothing():
    assert auditing.one_run_p_value(1.0, 0.0, 10**5, 10**5, 10**6) == 5e-324
