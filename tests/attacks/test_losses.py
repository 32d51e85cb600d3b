"""Scores from a model's answers, by hand and by simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxpriv import attacks


def check_confidence():
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(6, 4)), np.array([0, 1, 2, 3, 0, 1])
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    p = p[np.arange(6), labels]
    np.testing.assert_allclose(
        attacks.confidence(logits, labels), np.log(p) - np.log1p(-p), rtol=1e-12
    )
    np.testing.assert_allclose(attacks.confidence([[800.0, 0.0, -50.0]], [0]), [800.0], rtol=1e-12)


def test_confidence():
    check_confidence()


def check_loss():
    np.testing.assert_array_equal(attacks.loss_threshold(np.array([1.0, 2.0])), [-1.0, -2.0])


def test_loss_threshold():
    check_loss()


def shadows(models=40, queries=5, seed=0):
    random = np.random.default_rng(seed)
    member = random.uniform(size=(models, queries)) < 0.5
    spread = np.linspace(0.5, 2, queries)
    return (
        random.normal(size=(models, queries)) * spread + 3 * member,
        member,
        random.normal(size=queries) * spread,
    )


def check_offline():
    values, _, seen = shadows()
    want = -scipy.stats.norm.logsf(seen, values.mean(0), values.std(0, ddof=1))
    np.testing.assert_allclose(attacks.offline_lira(seen, values), want, rtol=1e-12)
    pooled = np.sqrt(np.mean(values.var(0, ddof=1)))
    want = -scipy.stats.norm.logsf(seen, values.mean(0), pooled)
    np.testing.assert_allclose(
        attacks.offline_lira(seen, values, same_spread=True), want, rtol=1e-12
    )


def test_offline_lira():
    check_offline()


def check_online():
    values, member, seen = shadows()
    law = scipy.stats.norm.logpdf
    want = [law(s, v[m].mean(), v[m].std(ddof=1)) - law(s, v[~m].mean(), v[~m].std(ddof=1))
            for s, v, m in zip(seen, values.T, member.T)]
    np.testing.assert_allclose(attacks.online_lira(seen, values, member), want, rtol=1e-11)


def test_online_lira():
    check_online()
    values, member, seen = shadows()
    pooled = attacks.online_lira(seen, values, member, same_spread=True)
    assert pooled.shape == (5,)
    assert not np.allclose(pooled, attacks.online_lira(seen, values, member))


def test_the_same_answer_of_all_models():
    """Is known to rounding: what is above is sure, and nothing is NaN."""
    same, seen = np.full((130, 3), 5.0), np.array([5.0, 5.1, 4.9])
    for same_spread in (False, True):
        usual, above, below = attacks.offline_lira(seen, same, same_spread)
        assert usual == pytest.approx(np.log(2.0))
        assert 1e6 < above < np.inf
        assert below == 0
        member = np.arange(130)[:, None] % 2 == np.zeros(3)
        assert np.isfinite(attacks.online_lira(seen, same, member, same_spread)).all()


def test_labels_of_no_class():
    traced = jax.jit(lambda label: attacks.confidence(jnp.zeros((2, 3)), label))(jnp.array([7, 1]))
    np.testing.assert_allclose(traced, [np.nan, -np.log(2.0)], rtol=1e-6)


def test_under_vmap():
    values, member, seen = shadows()
    got = jax.vmap(attacks.online_lira)(
        np.stack([seen, seen + 1]), np.stack([values] * 2), np.stack([member] * 2)
    )
    np.testing.assert_allclose(got[1], attacks.online_lira(seen + 1, values, member), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: attacks.confidence(np.zeros((3, 1)), np.zeros(3, int)), "1 classes"),
        (lambda: attacks.confidence(np.zeros((1, 3)), np.array([7])), r"range \[0, 3\)"),
        (lambda: attacks.confidence(np.zeros((1, 3)), np.array([-1])), r"range \[0, 3\)"),
        (lambda: attacks.offline_lira(np.zeros(3), np.zeros((1, 3))), "1 models"),
        (lambda: attacks.offline_lira(np.zeros(3), np.zeros((4, 2))), "out has shape"),
        (lambda: attacks.online_lira(np.zeros(1), np.zeros((4, 1)), np.ones((4, 1), bool)),
         "0 models"),
        (lambda: attacks.online_lira(np.zeros(1), np.zeros((4, 1)), np.ones((3, 1), bool)),
         "shadow has shape"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
