"""RMIA against the table of ratios of its paper, its order, its law under the null, its range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import attacks


def setting(queries=40, others=60, models=6, seed=0):
    random = np.random.default_rng(seed)
    log_p, reference, population, population_reference = (
        np.log(random.uniform(0.01, 1.0, shape))
        for shape in (queries, (models, queries), others, (models, others))
    )
    member = np.argsort(random.uniform(size=(models, queries)), 0) < 2  # not half of the models
    return log_p, reference, population, population_reference, member


def shares(log_p, reference, population, population_reference, member=None, gamma=1.0, a=0.3):
    """Zarifzadeh et al.'s score, query by query: the share of z with ratio_x/ratio_z >= gamma."""

    def usual(unseen):
        return ((1 + a) * np.mean(np.exp(unseen)) + 1 - a) / 2

    found = []
    for i, x in enumerate(np.exp(log_p)):
        if member is None:
            p_x = usual(reference[:, i])
        else:
            seen = np.exp(reference[member[:, i], i])
            p_x = (np.mean(seen) + np.mean(np.exp(reference[~member[:, i], i]))) / 2
        ratios = [
            (x / p_x) / (np.exp(population[j]) / usual(population_reference[:, j]))
            for j in range(len(population))
        ]
        found.append(np.mean(np.array(ratios) >= gamma))
    return np.array(found)


def check_rmia():
    *arrays, member = setting()
    for side in (None, member):
        for gamma, a in ((1.0, 0.3), (2.0, 0.0), (0.7, 1.0)):
            score = attacks.rmia(*arrays, side, gamma=gamma, a=a)
            z = len(arrays[2])
            want = shares(*arrays, side, gamma, a)
            assert len(np.unique(want)) > 10
            np.testing.assert_array_equal(np.floor(score * (z + 1)), np.round(want * z))


def test_rmia():
    check_rmia()


def test_ties_are_broken_by_the_gain():
    """Above the whole population as well, where the share is 1; and gamma changes no order."""
    log_p, reference, population, population_reference, member = setting()
    gain = log_p - np.log([
        (np.exp(r[m]).mean() + np.exp(r[~m]).mean()) / 2 for r, m in zip(reference.T, member.T)
    ])  # fmt: skip
    for gamma in (0.01, 1.0, 3.0):
        score = attacks.rmia(
            log_p, reference, population, population_reference, member, gamma=gamma
        )
        np.testing.assert_array_equal(np.argsort(score), np.argsort(gain))
        assert len(np.unique(score)) == len(score)
        assert np.all((score > 0) & (score < 1))


def test_far_below_what_a_float_holds():
    """p = e^-5000 is 0; the gain is a ratio of two of them."""
    log_p, reference, *others, member = setting()
    near = attacks.rmia(log_p, reference, *others, member)
    shift = jnp.float32(-5000.0)
    far = attacks.rmia(log_p + shift, reference + shift, *others, member)
    np.testing.assert_allclose(far, near, atol=1e-3)
    assert np.all(np.isfinite(attacks.rmia(log_p + shift, reference + shift, *others)))
    assert np.all(np.isfinite(attacks.rmia(np.zeros(40), np.zeros((6, 40)), *others)))


def test_guarantee_of_a_query_like_the_population():
    """With the probability t + 1/(z + 1) at most the score of an unseen query is 1 - t or more."""
    z, rounds = 19, 20000
    random = np.random.default_rng(1)
    usual = random.uniform(0.1, 0.9, (rounds, z + 1))  # easy and hard records
    drawn = np.log(usual * random.uniform(0.5, 1.0, (rounds, z + 1)))
    score = jax.vmap(
        lambda seen, law: attacks.rmia(seen[:1], law[None, :1], seen[1:], law[None, 1:])
    )(drawn, np.log(usual))[:, 0]
    for t in (0.0, 0.1, 0.4):
        allowed = t + 1 / (z + 1)
        rate = np.mean(score >= 1 - t)
        assert rate <= allowed + 4 * np.sqrt(allowed / rounds)
        assert rate >= allowed - 1 / (z + 1) - 4 * np.sqrt(allowed / rounds)


def test_under_vmap():
    log_p, reference, population, population_reference, member = setting()
    got = jax.jit(jax.vmap(
        lambda seen: attacks.rmia(seen, reference, population, population_reference, member)
    ))(np.stack([log_p, log_p - 1]))  # fmt: skip
    want = attacks.rmia(log_p - 1, reference, population, population_reference, member)
    np.testing.assert_allclose(got[1], want, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"log_p": np.full(40, 0.5)}, r"log_p = 0.5 is outside its range \(-inf, 0\]"),
        ({"log_p": np.full(40, np.nan)}, "log_p = nan"),
        ({"population": np.full(60, -np.inf)}, "population = -inf"),
        ({"reference": np.zeros((6, 39))}, "reference has shape"),
        ({"reference": np.zeros((0, 40))}, "reference has 0 models"),
        ({"population": np.zeros(0), "population_reference": np.zeros((6, 0))}, "at least one"),
        ({"population_reference": np.zeros((6, 59))}, "population_reference has shape"),
        ({"member": np.zeros((6, 40), bool)}, "0 models on one side"),
        ({"member": np.zeros((5, 40), bool)}, "member has shape"),
        ({"gamma": 0.0}, "gamma = 0.0 is outside"),
        ({"gamma": np.nan}, "gamma = nan is outside"),
        ({"a": np.nan}, "a = nan is outside"),
        ({"a": 1.5}, "a = 1.5 is outside"),
        ({"log_p": "often"}, "log_p = 'often' is not a number"),
    ],
)
def test_errors(change, match):
    names = "log_p", "reference", "population", "population_reference", "member"
    given = dict(zip(names, setting()))
    with pytest.raises(ValueError, match=match):
        attacks.rmia(**{**given, **change})
