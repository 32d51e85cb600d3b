"""Auditing a whole curve in one run: against the best of all mechanisms, exact laws of mechanisms
that have the curve, simulated ones, and what it must not say.
"""

import doctest

import jax
import numpy as np
import pytest
import scipy.stats

from jaxpriv import auditing, mixture, worst_case
from jaxpriv.auditing import one_run_curve
from tests.auditing.mechanisms import over_laws, over_mechanisms
from tests.command import ROOT

SMALL = [(3, 3, 3, 2), (2, 3, 3, 2), (2, 2, 3, 2), (1, 2, 3, 2), (2, 2, 2, 3)]


def coin_told(share, low, high):
    """(curve, epsilons, deltas): a public coin chooses between two randomised responses, whose
    profile has these corners.
    """
    curve = mixture([worst_case.randomized_response(low), worst_case.randomized_response(high)],
                    [1 - share, share])
    epsilons = [0.0, low, high]
    return curve, epsilons, [
        sum(weight * max(1 - np.exp(epsilon - own), 0.0) / (1 + np.exp(-own))
            for weight, own in ((1 - share, low), (share, high))) for epsilon in epsilons]


def check_best_mechanism():
    """No mechanism with the curve does better, and one comes near: linear programs over all."""
    curve, epsilons, deltas = coin_told(0.2, 0.4, 2.0)
    np.testing.assert_allclose(curve.delta(epsilons), deltas, rtol=1e-9, atol=1e-12)
    for game in SMALL:
        best = over_mechanisms(epsilons, deltas, *game)
        found = auditing.one_run_curve_p_value(curve, *game)
        assert best - 1e-9 <= found <= 1.05 * best


def test_best_mechanism():
    check_best_mechanism()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.05), (1.0, 0.0), (1.5, 0.02)])
def test_points_are_attained(epsilon, delta):
    """(epsilon, delta) alone: the bound is what the best of all mechanisms reaches."""
    for game in SMALL:
        best = over_mechanisms([epsilon], [delta], *game)
        curve = worst_case.approximate_dp(epsilon, delta)
        assert auditing.one_run_p_value(epsilon, delta, *game) == pytest.approx(best, rel=1e-8)
        assert best - 1e-9 <= auditing.one_run_curve_p_value(curve, *game) <= 1.01 * best


def check_best_law():
    """Up to 100 guesses: above the linear program, by no more than a fifth. Its delta counts at
    few epsilon, so that it may exceed the bound by what lies in between.
    """
    epsilons = np.linspace(0.0, 7.0, 40)
    for mu in (0.6, 1.0):
        curve = worst_case.gaussian(mu)
        deltas = curve.delta(epsilons)
        for game in ((18, 20, 20), (42, 50, 50), (49, 50, 500), (96, 100, 1000)):
            best = over_laws(epsilons, deltas, *game)
            found = auditing.one_run_curve_p_value(curve, *game)
            assert 0.995 * best < found < 1.25 * best


def test_best_law():
    check_best_law()


def published(curve, correct, guesses, canaries, chance):
    """The recursion of the source: is `chance` refuted?"""
    def inverse(r):
        eps = np.linspace(0.0, 12.0, 2000)
        return max(np.max((r - deltas) * np.exp(-eps)), 0.0)

    deltas = curve.delta(np.linspace(0.0, 12.0, 2000))
    h, r = chance * (guesses - correct) / canaries, chance * correct / canaries
    for i in range(correct - 1, -1, -1):
        below = max(h, inverse(r))
        r, h = r + i / (guesses - i) * (below - h), below
    return r + h > guesses / canaries


def test_published_recursion():
    """The same decisions as in the variables of the source."""
    curve = worst_case.gaussian(0.8)
    for game in ((18, 20, 20), (49, 50, 500), (96, 100, 1000)):
        profile = one_run_curve._Profile.of(curve, 1e-9)
        found = one_run_curve._by_recursion(profile, *game, 2)
        assert published(curve, *game, found * 1.01)
        assert not published(curve, *game, found / 1.03)


def check_exact_laws():
    """A public coin chooses between two randomised responses: the number of correct guesses is a
    mixture of binomials, whose tails stay below the bound for every count.
    """
    for share, low, high in ((0.05, 0.2, 3.0), (0.3, 0.5, 1.5), (0.01, 0.0, 6.0)):
        curve = coin_told(share, low, high)[0]
        for guesses, canaries in ((40, 40), (20, 200)):
            law = sum(weight * scipy.stats.binom.sf(np.arange(guesses + 1) - 1, guesses,
                                                    1 / (1 + np.exp(-epsilon)))
                      for weight, epsilon in ((1 - share, low), (share, high)))
            for correct in range(guesses // 2, guesses + 1, 4):
                found = auditing.one_run_curve_p_value(curve, correct, guesses, canaries)
                assert law[correct] <= found * (1 + 1e-12)


def test_exact_laws():
    check_exact_laws()


def test_recursion_alone_is_valid():
    """Without the help of single (epsilon, delta): where it is near the truth, a rare event that
    tells much.
    """
    share = 0.04
    curve = coin_told(share, 0.0, 4.0)[0]
    truth = share * scipy.stats.binom.sf(94, 100, 1 / (1 + np.exp(-4.0)))
    profile = one_run_curve._Profile.of(curve, 1e-9)
    found = one_run_curve._by_recursion(profile, 95, 100, 100, 2)
    assert truth <= found < 1.3 * truth


def simulate(draw, curve, guesses, canaries, runs=1000):
    """The share of runs with p <= 0.05, and with p <= 0.3."""
    random = np.random.default_rng(0)
    counts = np.array([auditing.one_run_guesses(*draw(random, canaries), guesses).correct
                       for _ in range(runs)])
    profile = one_run_curve._Profile.of(curve, 1e-6)  # once, for it may be costly

    def value(correct):
        game = correct, guesses, canaries, 2
        return min(one_run_curve._by_recursion(profile, *game),
                   one_run_curve._by_points(profile, *game))

    seen, which = np.unique(counts, return_inverse=True)
    values = np.array([value(int(correct)) for correct in seen])
    assert np.all(np.diff(values) <= 1e-12)
    return [np.mean(values[which] <= level) for level in (0.05, 0.3)]


def gaussian_draw(mu):
    def draw(random, canaries):
        member = random.uniform(size=canaries) < 0.5
        return random.normal(size=canaries) + mu * member, member

    return draw


def rare_draw(share, mu):
    """All canaries are seen at once, or none is."""
    def draw(random, canaries):
        member = random.uniform(size=canaries) < 0.5
        seen = random.uniform() < share
        return random.normal(size=canaries) + mu * member * seen, member

    return draw


MECHANISMS = {
    "gaussian": (gaussian_draw(1.0), worst_case.gaussian(1.0)),
    "rare": (rare_draw(0.1, 2.0), mixture([worst_case.gaussian(0.0), worst_case.gaussian(2.0)],
                                          [0.9, 0.1])),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("guesses", "canaries"), [(30, 30), (40, 400), (10, 1000)])
def test_coverage(name, guesses, canaries):
    """Of a mechanism that has the curve, at most as many runs as promised are called refuted."""
    few, many = simulate(*MECHANISMS[name], guesses, canaries)
    assert few <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 1000)
    assert many <= 0.3 + 2 * np.sqrt(0.3 * 0.7 / 1000)


@pytest.mark.slow
def test_dp_sgd():
    """Of the sum of 100 steps in which each member takes part at random; and a quarter of the
    claimed noise is found.
    """
    def draw(noise):
        def scores(random, canaries):
            member = random.uniform(size=canaries) < 0.5
            took = random.binomial(100, 0.1, canaries) * member
            return took + noise * 10 * random.normal(size=canaries), member

        return scores

    claim = worst_case.subsampled_gaussian(2.0, 0.1, 100)
    assert simulate(draw(2.0), claim, 100, 1000)[0] <= 0.07
    assert simulate(draw(0.5), claim, 100, 1000)[0] > 0.9


def check_family():
    """The boundary is where the p-value is 1 - confidence, on the refuted side."""
    for confidence in (0.9, 0.95):
        game = (96, 100, 1000)
        bound = auditing.one_run_family(worst_case.gaussian, 0.0, 10.0, *game,
                                        confidence=confidence)
        at, beyond = (auditing.one_run_curve_p_value(worst_case.gaussian(mu), *game)
                      for mu in (bound.parameter, bound.parameter * 1.01))
        assert 1 - confidence < beyond
        assert at <= (1 - confidence) * 1.002
        assert bound.curve.epsilon(1e-5) == worst_case.gaussian(bound.parameter).epsilon(1e-5)
        assert bound.refuted


def test_family():
    check_family()


def test_family_of_falling_noise():
    """From much noise to little: as from little signal to much."""
    game = (90, 100, 1000)
    rising = auditing.one_run_family(worst_case.gaussian, 0.01, 10.0, *game)
    falling = auditing.one_run_family(lambda noise: worst_case.gaussian(1 / noise), 100.0, 0.1,
                                      *game)
    assert 1 / falling.parameter == pytest.approx(rising.parameter, rel=3e-3)


def test_family_s_ends():
    """Nothing refuted, or all of it."""
    nothing = auditing.one_run_family(worst_case.gaussian, 0.0, 10.0, 50, 100, 1000)
    assert (nothing.parameter, nothing.refuted) == (0.0, False)
    all_of_it = auditing.one_run_family(worst_case.gaussian, 0.0, 0.5, 100, 100, 1000)
    assert (all_of_it.parameter, all_of_it.refuted) == (0.5, True)
    touching = auditing.one_run_family(worst_case.randomized_response, 0.0, 5.0, 5, 5, 5,
                                       confidence=1 - 1.0001 / 32)
    assert touching.refuted
    assert touching.parameter < 1e-3


def test_pure_epsilon_is_binomial():
    """Where every epsilon-DP mechanism is dominated by one: exactly its tail."""
    for choices in (2, 5):
        for epsilon in (0.0, 0.7, 3.0):
            rate = np.exp(epsilon) / (np.exp(epsilon) + choices - 1)
            found = auditing.one_run_curve_p_value(
                worst_case.randomized_response(epsilon), 19, 20, 60, choices
            )
            truth = scipy.stats.binom.sf(18, 20, rate)
            assert truth <= found <= truth * (1 + 1e-4)


def test_directions_count_half_each():
    """A sub-sampled step tells much of a record's presence and little of its absence: refuted with
    fewer correct guesses than where both directions were as bad.
    """
    curve = worst_case.gaussian(4.0).subsample(0.1)
    game = (90, 100, 1000)
    one = auditing.one_run_curve_p_value(curve, *game)
    assert one == auditing.one_run_curve_p_value(curve.reversed(), *game)
    assert one < 0.9 * auditing.one_run_curve_p_value(curve.symmetric(), *game)


def test_extremes():
    curve = worst_case.gaussian(1.0)
    assert auditing.one_run_curve_p_value(curve, 0, 10, 10) == 1
    assert auditing.one_run_curve_p_value(worst_case.gaussian(1e6), 10, 10, 10) == 1
    for guesses in (1, 10):
        nothing = auditing.one_run_curve_p_value(worst_case.gaussian(0.0), guesses, guesses, 10)
        assert 0.5**guesses <= nothing <= 0.5**guesses * 1.01
    told = worst_case.approximate_dp(0.0, 0.5)  # every canary in the clear, half of the time
    assert 0.5 <= auditing.one_run_curve_p_value(told, 50, 50, 50) < 0.51
    assert auditing.one_run_curve_p_value(worst_case.gaussian(1e-9), 5000, 5000, 10**6) < 1e-8


def test_more_leakage_is_refuted_less():
    values = [auditing.one_run_curve_p_value(worst_case.gaussian(mu), 45, 50, 200)
              for mu in (0.0, 0.3, 0.6, 0.9, 1.2, 3.0)]
    assert np.all(np.diff(values) >= 0)
    assert values[0] < 1e-8
    assert values[-1] > 0.9


def test_document():
    """What docs/auditing.md shows."""
    found = doctest.testfile(str(ROOT / "docs" / "auditing.md"), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0


def check_guesses():
    random = np.random.default_rng(0)
    scores, member = random.permutation(100).astype(float), random.uniform(size=100) < 0.5
    ranked = member[np.argsort(-scores)]
    for guesses in (2, 30, 100):
        want = ranked[: guesses // 2].sum() + (~ranked[-(guesses // 2) :]).sum()
        assert auditing.one_run_guesses(scores, member, guesses) == (want, guesses, 100)


def test_guesses():
    check_guesses()
    assert auditing.one_run_guesses(np.zeros(40), np.arange(40) % 2, 40).correct == 0
    assert auditing.one_run_guesses(np.arange(1000.0), np.arange(1000) >= 500).guesses == 100




@pytest.mark.parametrize(("call", "match"), [
    (lambda c: auditing.one_run_curve_p_value(c, 11, 10, 10), "correct = 11"),
    (lambda c: auditing.one_run_curve_p_value(c, -1, 10, 10), "correct = -1"),
    (lambda c: auditing.one_run_curve_p_value(c, 1, 11, 10), "guesses = 11"),
    (lambda c: auditing.one_run_curve_p_value(c, 0, 0, 10), "guesses = 0"),
    (lambda c: auditing.one_run_curve_p_value(c, 1, 1, 10**7), "canaries = 10000000"),
    (lambda c: auditing.one_run_curve_p_value(c, 1.0, 2, 10), "correct = 1.0"),
    (lambda c: auditing.one_run_curve_p_value(c, 1, 2, 10, choices=1), "choices = 1"),
    (lambda c: auditing.one_run_curve_p_value(worst_case.gaussian(np.ones(2)), 1, 2, 10), "shape"),
    (lambda c: auditing.one_run_curve_p_value(worst_case.gaussian(np.nan), 1, 2, 10), "NaN"),
    (lambda c: jax.jit(lambda mu: auditing.one_run_curve_p_value(worst_case.gaussian(mu), 1, 2, 3))(
        1.0), "traced"),
    (lambda c: auditing.one_run_family(worst_case.gaussian, 0.0, np.inf, 1, 2, 10), "leaky = inf"),
    (lambda c: auditing.one_run_family(worst_case.gaussian, np.nan, 1.0, 1, 2, 10), "private"),
    (lambda c: auditing.one_run_family(worst_case.gaussian, 0.0, 1.0, 1, 2, 10, confidence=1.0),
     "confidence = 1"),
    (lambda c: auditing.one_run_guesses(np.ones(4), [0, 0, 1, 1], 3), "guesses = 3"),
    (lambda c: auditing.one_run_guesses([1.0, np.nan, 2, 3], [0, 0, 1, 1]), "NaN at 1"),
])
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call(worst_case.gaussian(1.0))
