"""Quantile regression: finds a known law, is calibrated on average, and beats one threshold."""

import jax
import numpy as np
import pytest
import scipy.stats

from jaxpriv import attacks, auditing

KEY = jax.random.key(0)


def drawn(count, seed=0):
    """(features, their conditional mean and standard deviation, a draw)."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (count, 3))
    mean, std = 10 + 4 * np.sin(3 * x[:, 0]), np.exp(x[:, 1] - 1)
    return x, mean, std, mean + std * random.normal(size=count)


def check_law():
    """The fitted scores are those of the true law, nearly."""
    features, _, _, seen = drawn(3000)
    new, mean, std, asked = drawn(500, seed=1)
    score = attacks.quantile_regression(KEY, asked, new, seen, features)
    true = -scipy.stats.norm.logsf((asked - mean) / std)
    assert np.mean(np.abs(score - true)) < 0.25
    one_law = -scipy.stats.norm.logsf((asked - seen.mean()) / seen.std())
    assert np.mean(np.abs(one_law - true)) > 0.6


@pytest.mark.slow
def test_law():
    check_law()


def test_p_values_are_uniform_on_average():
    features, _, _, seen = drawn(3000)
    new, _, _, asked = drawn(3000, seed=2)
    score = attacks.quantile_regression(KEY, asked, new, seen, features)
    assert scipy.stats.kstest(np.exp(-score), "uniform").statistic < 0.06


def test_finds_members_where_one_threshold_does_not():
    """Members two standard deviations of their own surer, between records far further apart."""
    features, _, _, seen = drawn(3000)
    new, _, std, asked = drawn(2000, seed=3)
    member = np.random.default_rng(4).uniform(size=2000) < 0.5
    asked = asked + 2 * std * member
    score = attacks.quantile_regression(KEY, asked, new, seen, features)
    assert auditing.auc(asked, member) < 0.65
    assert 0.87 < auditing.auc(score, member) < scipy.stats.norm.cdf(2**0.5) + 0.01


def test_features_that_say_nothing():
    """What is left is one normal law for all."""
    seen = np.random.default_rng(0).normal(3.0, 2.0, size=2000)
    asked, alike = np.array([1.0, 3.0, 9.0]), np.ones((2000, 2))
    score = attacks.quantile_regression(KEY, asked, alike[:3], seen, alike)
    want = -scipy.stats.norm.logsf((asked - seen.mean()) / seen.std())
    np.testing.assert_allclose(score, want, rtol=0.1)


@pytest.mark.slow
def test_the_same_key_the_same_scores_and_vmap():
    features, _, _, seen = drawn(200)
    keys = jax.random.split(KEY, 2)
    alone = attacks.quantile_regression(keys[1], seen[:5], features[:5], seen, features, steps=40)
    both = jax.vmap(
        lambda key: attacks.quantile_regression(
            key, seen[:5], features[:5], seen, features, steps=40
        )
    )(keys)
    np.testing.assert_allclose(both[1], alone, rtol=1e-6)
    assert not np.allclose(both[0], both[1])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"key": 0}, "key = 0 is not a JAX key"),
        ({"out": np.full(30, np.nan)}, "out has entries that are not finite"),
        ({"features": np.full((4, 2), np.inf)}, "features has entries that are not finite"),
        ({"features": np.zeros((5, 2))}, "confidences has shape"),
        ({"out_features": np.zeros(30)}, "out has shape"),
        ({"features": np.zeros((4, 3))}, "features has 3 columns, out_features 2"),
        ({"out": np.zeros(9), "out_features": np.zeros((9, 2))}, "out has 9 records"),
        ({"width": 0}, "width = 0"),
        ({"steps": 0.5}, "steps = 0.5"),
    ],
)
def test_errors(change, match):
    given = {"key": KEY, "confidences": np.zeros(4), "features": np.zeros((4, 2)),
             "out": np.zeros(30), "out_features": np.zeros((30, 2))}  # fmt: skip
    with pytest.raises(ValueError, match=match):
        attacks.quantile_regression(**{**given, **change})
