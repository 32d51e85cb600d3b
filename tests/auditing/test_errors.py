"""Statements from scores: never more than there is, close to it with many scores, and false at most
as often as they may be.
"""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxpriv import auditing, worst_case
from tests.stats.checks import compilations

NULL_LAWS = {
    "normal": lambda random, n: random.normal(size=n),
    "ties": lambda random, n: random.integers(0, 3, n).astype(float),
    "heavy": lambda random, n: random.standard_cauchy(n),  # of which only ranks tell: as normal
    "infinite": lambda random, n: np.where(
        random.uniform(size=n) < 0.2, -np.inf, random.normal(size=n)
    ),
}


def gaussian_scores(mu, n, seed=0):
    random = np.random.default_rng(seed)
    member = random.uniform(size=n) < 0.5
    return random.normal(size=n) + mu * member, member


def check_mu():
    for mu in (0.5, 1.0, 3.0):
        found = auditing.audit(*gaussian_scores(mu, 100_000)).mu()
        assert 0.9 * mu < found < mu


def test_mu():
    check_mu()


def check_epsilon():
    """Below the truth, and near it where epsilon is one that counts can show."""
    scores, member = gaussian_scores(1.0, 400_000)
    found = auditing.audit(scores, member)
    for delta, share in ((0.1, 0.75), (0.01, 0.55), (1e-5, 0.4)):
        truth = float(worst_case.gaussian(1.0).epsilon(delta))
        assert share * truth < found.epsilon(delta) < truth
        assert found.epsilon(delta) < found.gaussian_epsilon(delta) < truth


def test_epsilon():
    check_epsilon()


def check_pure():
    """Randomised response: epsilon at delta = 0 is what both errors show, from either side."""
    random = np.random.default_rng(0)
    member = random.uniform(size=100_000) < 0.5
    told = np.where(random.uniform(size=100_000) < 1 / (1 + np.exp(-2.0)), member, ~member)
    found = auditing.audit(told.astype(float), member)
    assert 1.85 < found.epsilon(0.0) < 2.0
    assert not found.violation(worst_case.randomized_response(2.0)).violated
    assert found.violation(worst_case.randomized_response(1.8)).violated


def test_epsilon_of_randomised_response():
    check_pure()


def test_reverse_direction_counts():
    """Members that are found with certainty, though most are not: only the test with "absent" as
    null shows it; and mirrored.
    """
    random = np.random.default_rng(0)
    member = np.arange(40_000) % 2 == 1
    shown = member & (random.uniform(size=40_000) < 0.2)
    forward = auditing.audit(np.where(shown, 1.0, 0.0), member)
    mirrored = auditing.audit(-np.where(shown, 1.0, 0.0), ~member)
    assert forward.epsilon(0.0) > 4
    assert mirrored.epsilon(0.0) == pytest.approx(forward.epsilon(0.0), rel=1e-12)
    claim = worst_case.approximate_dp(1.0, 0.1)
    assert forward.violation(claim).violated
    assert mirrored.violation(claim).violated
    # a curve of one direction: sub-sampling moves nothing but the record's side
    one_sided = worst_case.gaussian(6.0).subsample(0.25)
    assert not forward.violation(one_sided).violated
    assert mirrored.violation(one_sided).violated


def check_violation():
    scores, member = gaussian_scores(2.0, 20_000)
    found = auditing.audit(scores, member)
    assert not found.violation(worst_case.gaussian(2.0)).violated
    told = found.violation(worst_case.gaussian(1.7))
    assert told.violated
    allowed = float(worst_case.gaussian(1.7).power(told.alpha))
    assert told.power > told.allowed == pytest.approx(allowed)


def test_violation():
    check_violation()


def check_band():
    """Contains the true ROC curve, closes in on it, and lies inside [0, 1]."""
    alpha = np.concatenate([[0.0, 1.0], np.geomspace(1e-4, 0.999, 60)])
    truth = np.asarray(worst_case.gaussian(1.5).power(alpha))
    for seed in range(20):
        low, high = auditing.audit(*gaussian_scores(1.5, 4000, seed), thresholds=64).band(alpha)
        assert np.all((low <= truth) & (truth <= high))
        assert np.all((low >= 0) & (high <= 1))
        assert np.mean(high - low) < 0.25
    many = auditing.audit(*gaussian_scores(1.5, 400_000), thresholds=64)
    assert np.mean(np.subtract(*many.band(alpha)[::-1])) < 0.06


@pytest.mark.optimized  # runs for longer than it compiles
def test_band():
    check_band()


def false_alarms(statement, law, audits=1000, n=400, seed=0):
    """The share of audits of scores without information that claim something."""
    random = np.random.default_rng(seed)
    return np.mean([statement(NULL_LAWS[law](random, n), random.permutation(n) % 2 == 0)
                    for _ in range(audits)])


def says_anything(scores, member):
    found = auditing.audit(scores, member)
    return found.epsilon(0.0) > 0 or found.epsilon(1e-5) > 0 or found.mu() > 0


STATEMENTS = {
    "audit": says_anything,
    "one run": lambda scores, member: (
        max(auditing.one_run(scores, member, delta).epsilon for delta in (0.0, 1e-5)) > 0
    ),
    "rate": lambda scores, member: auditing.tpr_at_fpr(scores, member, 0.1).lower > 0.1,
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("law", NULL_LAWS)
@pytest.mark.slow
def test_false_alarms(statement, law):
    """At most 5% of 1000, for every method, with ties and infinities; of 200 with heavy tails,
    whose ranks are as any other's.
    """
    audits = 200 if law == "heavy" else 1000
    assert false_alarms(STATEMENTS[statement], law, audits) <= 0.05


@pytest.mark.slow
def test_false_alarms_of_violations():
    """A claim that is exactly true is called false at most as often as it may be."""
    claim = worst_case.gaussian(1.0)
    assert np.mean([auditing.audit(*gaussian_scores(1.0, 1000, seed)).violation(claim).violated
                    for seed in range(300)]) <= 0.05


def test_sorted_files_with_ties_tell_nothing():
    """All scores equal, members last: no order of the rows may leak into a statement."""
    scores, member = np.zeros(400), np.arange(400) >= 200
    found = auditing.audit(scores, member)
    assert found.epsilon(0.0) == found.mu() == 0
    assert auditing.one_run(scores, member).epsilon == 0
    assert auditing.tpr_at_fpr(scores, member, 0.1).lower == 0


def check_rate():
    """Covers the truth in at least 95% of 200 draws, and is no wider than it need be."""
    truth = scipy.stats.norm.sf(scipy.stats.norm.isf(0.02) - 1.5)
    rates = [auditing.tpr_at_fpr(*gaussian_scores(1.5, 4000, seed), 0.02) for seed in range(200)]
    assert np.mean([rate.lower <= truth <= rate.upper for rate in rates]) >= 0.95
    assert all(rate.resolved and rate.lower <= rate.estimate <= rate.upper for rate in rates)
    assert np.mean([rate.upper - rate.lower for rate in rates]) < 0.22
    np.testing.assert_allclose(np.mean([rate.estimate for rate in rates]), truth, atol=0.01)


@pytest.mark.slow
def test_tpr_at_fpr():
    check_rate()


def test_too_few_scores_for_a_rate():
    rate = auditing.tpr_at_fpr(*gaussian_scores(1.5, 1000), 1e-3)
    assert not rate.resolved
    assert rate.lower == 0
    assert auditing.tpr_at_fpr(*gaussian_scores(4.0, 20_000), 1e-3).resolved


def check_auc():
    random = np.random.default_rng(0)
    scores, member = random.integers(0, 9, 300).astype(float), random.uniform(size=300) < 0.3
    want = scipy.stats.mannwhitneyu(scores[member], scores[~member]).statistic / (
        member.sum() * (~member).sum()
    )
    assert auditing.auc(scores, member) == pytest.approx(want, rel=1e-12)


def test_auc():
    check_auc()


def check_roc():
    """By counting, threshold by threshold."""
    random = np.random.default_rng(0)
    scores, member = random.integers(0, 9, 300).astype(float), random.uniform(size=300) < 0.3
    fpr, tpr = auditing.roc(scores, member)
    for threshold, a, b in zip(np.arange(9, -1, -1) - 0.5, fpr, tpr):
        assert a == np.mean(scores[~member] > threshold)
        assert b == np.mean(scores[member] > threshold)
    assert fpr[-1] == tpr[-1] == 1
    assert auditing.advantage(scores, member) == np.max(tpr - fpr)


def test_roc():
    check_roc()


@pytest.mark.parametrize(("call", "match"), [
    (lambda: auditing.audit([1.0, np.nan, 2, 3], [0, 0, 1, 1]), "NaN at 1"),
    (lambda: auditing.audit([1.0, 2, 3, 4], [0, 0, 1, 2]), "value 2"),
    (lambda: auditing.audit([1.0, 2, 3], [0, 0, 1]), "1 members"),
    (lambda: auditing.audit([1.0, 2, 3], [1, 1, 0]), "1 non-members"),
    (lambda: auditing.audit([1.0, 2, 3], [1, 1]), "shape"),
    (lambda: auditing.audit(np.ones((2, 2)), np.ones((2, 2))), "shape"),
    (lambda: auditing.audit(np.ones(4), [0, 0, 1, 1], confidence=1.0), "confidence = 1"),
    (lambda: auditing.audit(np.ones(4), [0, 0, 1, 1], thresholds=1), "thresholds = 1"),
    (lambda: auditing.audit(np.ones(4), [0, 0, 1, 1]).epsilon(1.0), "delta = 1"),
    (lambda: auditing.audit(np.ones(4), [0, 0, 1, 1]).gaussian_epsilon(0.0), "delta = 0"),
    (lambda: auditing.audit(np.ones(4), [0, 0, 1, 1]).band(1.5), "alpha = 1.5"),
    (lambda: auditing.audit(np.ones(4), [0, 0, 1, 1]).violation(worst_case.gaussian(np.nan)),
     "claims nothing"),
    (lambda: auditing.tpr_at_fpr(np.ones(4), [0, 0, 1, 1], 0.0), "fpr = 0"),
    (lambda: auditing.tpr_at_fpr(np.ones(4), [0, 0, 1, 1], confidence=0), "confidence = 0"),
])
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_hardly_ever_wrong():
    """Limits that hold with all but 1e-14 enclose those that hold with less."""
    scores, member = gaussian_scores(1.0, 400)
    for sure, less in zip(*(
        (found.forward, found.reverse)
        for found in (auditing.audit(scores, member, confidence=c) for c in (1 - 1e-14, 0.95))
    )):
        assert np.all(sure.alpha_upper >= less.alpha_upper)
        assert np.all(sure.alpha_lower <= less.alpha_lower)
        assert np.all(sure.power_lower <= less.power_lower)
        assert np.all(sure.power_upper >= less.power_upper)
        assert np.all(np.diff(sure.alpha_upper) >= 0)


def test_jax_arrays():
    scores, member = gaussian_scores(2.0, 4000)
    assert (
        auditing.audit(jnp.asarray(scores), jnp.asarray(member)).mu()
        == auditing.audit(scores, member).mu()
    )


def test_nothing_is_compiled():
    """Scores are audited once: nobody should wait for a compiler."""
    random = np.random.default_rng(3)
    member = random.uniform(size=500) < 0.5
    scores = random.normal(size=500) + member
    with compilations() as found:
        result = auditing.audit(scores, member)
        assert str(result)
        result.violation(worst_case.gaussian(1.0))
        result.band(0.1)
        auditing.one_run(scores, member, 1e-5)
        auditing.auc(scores, member)
        auditing.tpr_at_fpr(scores, member, 0.1)
        auditing.advantage(scores, member)
        auditing.roc(scores, member)
    assert found == []
