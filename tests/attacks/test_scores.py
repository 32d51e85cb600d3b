"""Scores against NumPy and SciPy, their laws under the null, and their power against the theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxpriv import attacks, auditing, membership, relaxed, target
from jaxpriv.attacks import games, reference, scores
from jaxpriv.attacks.scores import in_chunks
from tests.attacks import oracles
from tests.attacks.test_reference import gradients

ALPHA = np.array([0.01, 0.05, 0.1, 0.3, 0.6])


def setting(d=30, n=6, queries=20, seed=0):
    random = np.random.default_rng(seed)
    data = gradients(200, d, seed)
    mean, matrix = data.mean(0), np.cov(data.T)
    batch = data[:n]
    return (
        batch.mean(0) + 0.05 * random.normal(size=d),
        np.concatenate([batch, data[-queries + n :]]),
        mean,
        matrix,
        n,
    )


def check_oracle():
    """Equal to 1e-9 where SciPy is right: far tails, where it gives -inf or a few digits, are left
    to the reference tables.
    """
    for noise in (0.0, 0.05):
        release, queries, mean, matrix, n = setting()
        law = reference.known(mean, matrix)
        want = oracles.glir(release, queries, mean, matrix, n, noise)
        right = want < 30
        assert right.sum() > 10
        np.testing.assert_allclose(
            attacks.glir(release, queries, law, n, noise)[right], want[right], rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(attacks.covariance(release, queries, law, n, noise),
                                   oracles.covariance(release, queries, mean, matrix, n, noise),
                                   rtol=1e-9, atol=1e-9)


def test_oracle():
    check_oracle()


LAWS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "uniform": lambda random, shape: random.uniform(-1, 1, shape) * np.sqrt(3),
    "laplace": lambda random, shape: random.laplace(size=shape) / np.sqrt(2),
    "coin": lambda random, shape: random.choice([-1.0, 1.0], shape),
}


def p_values(law, d, n, rounds, noise=0.0, seed=0):
    """Of one query that takes no part, over fresh batches,
    through correlated gradients of known law.
    """
    random = np.random.default_rng(seed)
    spread = np.geomspace(0.5, 2, d)
    query = LAWS[law](random, (1, d)) * spread + 0.3
    known = reference.known(np.full(d, 0.3), spread**2)
    score = jax.jit(lambda release: attacks.glir(release, query, known, n, noise)[0])

    def release():
        batch = LAWS[law](random, (n, d)) * spread + 0.3
        return batch.mean(0) + noise * random.normal(size=d)

    return np.array([np.exp(-score(release())) for _ in range(rounds)])


@pytest.mark.parametrize(
    ("law", "d", "n", "noise"),
    [("normal", 2, 5, 0.0), ("normal", 40, 5, 0.4), ("uniform", 2, 500, 0.0),
     ("coin", 200, 50, 0.0), ("laplace", 40, 500, 0.02), ("laplace", 2000, 5, 0.0),
     ("coin", 2000, 50, 0.1), ("normal", 650, 32, 0.0), ("uniform", 650, 500, 0.0)],
)
def test_p_values_are_uniform(law, d, n, noise):
    """Kolmogorov-Smirnov, with the factor n (with the printed n-1 a third of 650-dimensional
    ones lies below 0.01).
    """
    assert scipy.stats.kstest(p_values(law, d, n, 600, noise), "uniform").pvalue > 1e-3


def check_power(rounds=4000):
    """A typical record in normal gradients: Theorem 5.1's power, inside the binomial interval."""
    d, n, noise = 40, 12, 0.15
    query = jnp.asarray(np.random.default_rng(1).normal(size=d))
    law = reference.known(jnp.zeros(d), jnp.ones(d))

    def mechanism(key, data):
        return data.mean(0) + noise * jax.random.normal(key, (d,))

    def draw(key, count):
        return jax.random.normal(key, (count, d))

    scores, member = games.fixed_target(
        jax.random.key(3),
        mechanism,
        draw,
        n,
        query,
        lambda release: attacks.glir(release, query[None], law, n, noise)[0],
        rounds,
    )
    curve = membership.sgd_step(d, n, float(query @ query), noise, 1.0)
    absent, present = np.asarray(scores[~member]), np.asarray(scores[member])
    for alpha in ALPHA:
        count = np.sum(absent > -np.log(alpha))
        assert scipy.stats.binomtest(int(count), len(absent), alpha).pvalue > 1e-3
        count = np.sum(present > -np.log(alpha))
        found = scipy.stats.binomtest(int(count), len(present), float(curve.power(alpha)))
        assert found.pvalue > 1e-3


@pytest.mark.slow
def test_power_meets_the_theorem():
    check_power()


def check_covariance_power(rounds=4000):
    """Its scores are normal with mean +-m*/2 and variance m* (Azize and Basu 2025, Theorem 3.1)."""
    d, n = 300, 60
    random = np.random.default_rng(0)
    spread = np.geomspace(0.3, 3, d)
    query = random.normal(size=d) * spread
    law = reference.known(np.zeros(d), spread**2)
    scores, member = games.fixed_target(
        jax.random.key(0),
        lambda key, data: data.mean(0),
        lambda key, count: jax.random.normal(key, (count, d)) * spread,
        n,
        jnp.asarray(query),
        lambda release: attacks.covariance(release, query[None], law, n)[0],
        rounds,
    )
    m = float(target.leakage_score(query, np.zeros(d), spread**2, n))
    for side, sign in ((scores[member], 1), (scores[~member], -1)):
        assert (
            scipy.stats.kstest((np.asarray(side) - sign * m / 2) / np.sqrt(m), "norm").pvalue > 1e-4
        )
    found = auditing.audit(scores, member)
    assert not found.violation(target.empirical_mean(m)).violated
    assert found.violation(target.empirical_mean(0.3 * m)).violated


@pytest.mark.slow
@pytest.mark.optimized  # runs for longer than it compiles
def test_covariance_score_is_the_log_likelihood_ratio():
    check_covariance_power()


def check_scalar():
    release, queries, mean, *_ = setting()
    np.testing.assert_allclose(attacks.scalar_product(release, queries), queries @ release)
    np.testing.assert_allclose(
        attacks.scalar_product(release, queries, reference.known(mean, np.ones(30))),
        (queries - mean) @ release,
        atol=1e-12,
    )


def test_scalar_product():
    check_scalar()


def check_bernoulli():
    """The ratio of the two binomial laws, column by column."""
    p, n = np.array([0.2, 0.5, 0.9]), 7
    ones = np.array([3, 7, 6])
    for z in ([0, 1, 1], [1, 1, 0]):
        without = scipy.stats.binom.pmf(ones, n, p)
        present = scipy.stats.binom.pmf(ones - z, n - 1, p)
        want = np.sum(np.log(present / without))
        np.testing.assert_allclose(
            attacks.bernoulli_likelihood_ratio(ones / n, [z], p), [want], rtol=1e-12
        )
    assert attacks.bernoulli_likelihood_ratio(np.array([0.0]), [[1]], [0.5]) == -np.inf


def test_bernoulli_likelihood_ratio():
    check_bernoulli()


def check_folded():
    """Kaissis et al. 2022's games: the relaxed adversary reaches its curve in one dimension and in
    fifty (Figures 8 and 10).
    """
    for d, releases, std in ((1, 70, 6.0), (50, 50, 3.5)):
        shift = jnp.zeros(d).at[0].set(1.0)

        def release(key, member, d=d, releases=releases, std=std, shift=shift):
            return jnp.mean(
                jnp.where(member, shift, 0.0) + std * jax.random.normal(key, (releases, d)), 0
            )

        scores, member = games.play(
            jax.random.key(5),
            release,
            lambda mean, n=releases, std=std: attacks.folded(mean, std / n**0.5),
            4000,
        )
        curve = relaxed.gaussian(releases**0.5 / std, dim=d)
        absent = np.asarray(scores[~member])
        assert scipy.stats.kstest(absent, scipy.stats.chi2(d).cdf).pvalue > 1e-4
        for alpha in ALPHA:
            count = np.sum(np.asarray(scores[member]) > scipy.stats.chi2.isf(alpha, d))
            power = float(curve.power(alpha))
            assert scipy.stats.binomtest(int(count), int(member.sum()), power).pvalue > 1e-3


@pytest.mark.slow
def test_folded():
    check_folded()


def check_fisher():
    """Uniform p-values stay uniform."""
    random = np.random.default_rng(0)
    combined = np.exp(-np.asarray(attacks.fisher(-np.log(random.uniform(size=(7, 3000))))))
    assert scipy.stats.kstest(combined, "uniform").pvalue > 1e-3


def test_fisher():
    check_fisher()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 256, 300])
def test_chunks(monkeypatch, count):
    monkeypatch.setattr(scores, "_ENTRIES", 256)
    rows = np.arange(count * 2.0).reshape(count, 2)
    np.testing.assert_array_equal(
        in_chunks(jnp.asarray(rows), lambda some: some.sum(1)), rows.sum(1)
    )


def check_range():
    """Hundreds of nats apart, where a floor at -250 would tie them."""
    d, n = 500, 4
    random = np.random.default_rng(0)
    batch = random.normal(size=(n, d)) * np.array([[1], [3], [5], [8]])
    scores = np.asarray(
        attacks.glir(batch.mean(0), batch, reference.known(np.zeros(d), np.ones(d)), n)
    )
    assert len(set(scores)) == n
    assert np.all(np.isfinite(scores))
    assert scores.max() > 250


def test_scores_are_never_cut_off():
    check_range()


def test_under_transformations():
    release, queries, mean, matrix, n = setting()
    law = reference.known(mean, matrix)
    steps = np.stack([release, 2 * release])
    many = jax.vmap(lambda step: attacks.glir(step, queries, law, n, 0.1))(steps)
    np.testing.assert_allclose(many[1], attacks.glir(steps[1], queries, law, n, 0.1), rtol=1e-10)
    slope = jax.grad(lambda m: attacks.glir(m, queries, law, n, 0.1).sum())(jnp.asarray(release))
    assert np.all(np.isfinite(slope))


def test_float32_with_nearly_equal_release():
    """A batch of one: the distance is zero up to rounding,
    and the score stays finite or inf, never NaN.
    """
    query = np.random.default_rng(0).normal(size=(1, 50)).astype(np.float32)
    score = attacks.glir(
        query[0], query, reference.known(np.zeros(50, np.float32), np.ones(50, np.float32)), 1
    )
    assert score > 60


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: attacks.glir(
                np.zeros(3), np.zeros((2, 4)), reference.known(np.zeros(3), np.ones(3)), 2
            ),
            "queries has shape",
        ),
        (
            lambda: attacks.glir(
                np.zeros(4), np.zeros((2, 3)), reference.known(np.zeros(3), np.ones(3)), 2
            ),
            "release has shape",
        ),
        (
            lambda: attacks.covariance(
                np.zeros(3), np.zeros(3), reference.known(np.zeros(3), np.ones(3)), 2
            ),
            "queries has shape",
        ),
        (
            lambda: attacks.glir(
                np.zeros(3), np.zeros((2, 3)), reference.known(np.zeros(3), np.ones(3)), -2
            ),
            "batch_size = -2",
        ),
        (lambda: attacks.folded(np.zeros(3), 0.0), "noise_std = 0"),
        (lambda: attacks.fisher(np.array([-1.0])), "scores = -1"),
        (lambda: attacks.fisher(np.zeros((0, 3))), "at least one step"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
