"""Games: their bookkeeping, and Azize and Basu 2025's figures played at full size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import attacks, target
from jaxpriv.attacks import games, reference

D, N, ROUNDS = 5000, 1000, 1000  # Azize and Basu 2025, section 6.1
MISS = 1e-3


def mean_of(key, data):
    del key
    return data.mean(0)


def check_play():
    """Coins are fair, the release sees what the scores are told, and every round is drawn anew."""
    scores, member = games.play(jax.random.key(0),
                                lambda key, member: (member, jax.random.uniform(key)),
                                lambda output: {"told": output[0], "drawn": output[1]}, 4001, 64)
    np.testing.assert_array_equal(scores["told"], member)
    assert abs(np.mean(member) - 0.5) < 0.03
    assert len(set(np.asarray(scores["drawn"]).tolist())) > 3990


def test_play():
    check_play()


def check_crafter():
    """The target replaces one record, each place equally often, and nothing else changes."""
    release = games.crafter(lambda key, data: data,
                            lambda key, count: {"x": jnp.zeros((count, 2)), "y": jnp.arange(count)},
                            5, {"x": jnp.ones(2), "y": 7})
    keys = jax.random.split(jax.random.key(0), 2000)
    data = jax.vmap(release, (0, None))(keys, True)
    places = np.asarray(data["y"] == 7)
    np.testing.assert_array_equal(places.sum(1), 1)
    np.testing.assert_array_equal(np.asarray(data["x"][..., 0] == 1), places)
    assert np.all(np.abs(places.mean(0) - 0.2) < 0.04)
    assert not np.any(jax.vmap(release, (0, None))(keys, False)["y"] == 7)


@pytest.mark.slow
def test_crafter():
    check_crafter()


def check_target_crafter():
    """A member is in the data, another target is not, and both follow the law of the data."""
    release = games.target_crafter(
        lambda key, data: data, lambda key, count: jax.random.uniform(key, (count,)), 4
    )
    keys = jax.random.split(jax.random.key(0), 2000)
    for member in (True, False):
        targets, data = jax.vmap(release, (0, None))(keys, member)
        assert np.all(np.any(data == targets[:, None], 1) == member)
        assert abs(np.mean(targets) - 0.5) < 0.03
        assert len(set(np.asarray(targets).tolist())) > 1990


def test_target_crafter():
    check_target_crafter()


def check_fixed():
    """Scores of a record that is easy to see."""
    def draw(key, count):
        return jax.random.normal(key, (count, 50))

    z = jnp.full(50, 3.0)
    scores, member = games.fixed_target(
        jax.random.key(1), mean_of, draw, 10, z, lambda mean: mean @ z, 500
    )
    assert np.min(scores[member]) > np.max(scores[~member]) - 40
    assert abs(np.mean(scores[member]) - np.mean(scores[~member]) - 45) < 3


@pytest.mark.slow
def test_fixed_target():
    check_fixed()


def check_average():
    """The mean of a typical record's scores is the dimension over n higher inside."""
    scores, member = games.average_target(jax.random.key(1), mean_of,
                                          lambda key, count: jax.random.normal(key, (count, 200)),
                                          10, lambda z, mean: mean @ z, 2000)
    assert abs(np.mean(scores[member]) - 20) < 1
    assert abs(np.mean(scores[~member])) < 1


@pytest.mark.slow
def test_average_target():
    check_average()


def test_rounds():
    with pytest.raises(ValueError, match="rounds = 0"):
        games.play(jax.random.key(0), lambda key, member: 0.0, lambda output: output, 0)


def thresholds():
    """Probabilities on the grid of one random byte, in (1/4, 3/4)."""
    return np.random.default_rng(7).integers(64, 193, D).astype(np.uint8)


def draw_bernoulli(key, count):
    """Exactly Bernoulli(p): a byte below 256 p. Cut from long words: of bytes JAX draws a word for
    each.
    """
    words = jax.random.bits(key, (count, D // 8), jnp.uint64)
    return jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(count, D) < thresholds()


def targets():
    p = thresholds() / 256
    likely = (p > 0.5).astype(float)
    medium = (np.random.default_rng(8).uniform(size=D) < p).astype(float)
    return {"hard": likely, "medium": medium, "easy": 1 - likely}


def check_band(scores, member, curve):
    """Type I errors and power of every threshold inside the Dvoretzky-Kiefer-Wolfowitz
    band around the curve.
    """
    absent, present = (
        np.sort(np.asarray(scores)[np.asarray(chosen)])[::-1] for chosen in (~member, member)
    )
    a, b = (np.sqrt(np.log(4 / MISS) / (2 * len(side))) for side in (absent, present))
    every = np.sort(np.concatenate([absent, present]))
    fpr, power = (np.searchsorted(-side, -every, "left") / len(side) for side in (absent, present))
    low = np.asarray(curve.power(np.clip(fpr - a, 0, 1))) - b
    high = np.asarray(curve.power(np.clip(fpr + a, 0, 1))) + b
    assert np.all((low <= power) & (power <= high))


NOISE, RATE = 0.02, 0.3
REFERENCES = (1000, 50, 10)


@pytest.fixture(scope="module")
def figures():
    """Figures 2, 5 and 6 of Azize and Basu 2025 in one game:
    a record is its own copy for every target and mechanism.

    {name: scores}, member, and the targets' leakage scores.
    """
    p, part = thresholds() / 256, int(RATE * N)
    goals = targets()
    kinds = {**{kind: kind for kind in goals}, "noise": "easy", "sub-sampled": "easy"}
    law = reference.known(p, p * (1 - p))
    drawn = np.asarray(draw_bernoulli(jax.random.key(9), max(REFERENCES)), float)
    estimated = {count: reference.estimate(drawn[:count], "diagonal", 0.1) for count in REFERENCES}

    def draw(key, count):
        return dict.fromkeys(kinds, draw_bernoulli(key, count))

    def mechanism(key, data):
        one, two = jax.random.split(key)
        chosen = jax.random.choice(one, N, (part,), replace=False)
        data["sub-sampled"] = data["sub-sampled"][chosen]
        means = {name: jnp.mean(rows, 0) for name, rows in data.items()}
        return {**means, "noise": means["noise"] + NOISE * jax.random.normal(two, (D,))}

    def score(means):
        z = goals["easy"][None]
        scores = {
            kind: attacks.covariance(means[kind], goals[kind][None], law, N)[0] for kind in goals
        }
        exact = attacks.bernoulli_likelihood_ratio
        scores |= {f"exact {kind}": exact(means[kind], goals[kind][None], p)[0] for kind in goals}
        scores |= {
            f"{count} references": attacks.covariance(means["easy"], z, law, N)[0]
            for count, law in estimated.items()
        }
        return {**scores, "noise": attacks.covariance(means["noise"], z, law, N, NOISE)[0],
                "sub-sampled": attacks.covariance(means["sub-sampled"], z, law, part)[0]}

    target_of = {name: goals[kind] > 0.5 for name, kind in kinds.items()}
    scores, member = games.fixed_target(
        jax.random.key(1), mechanism, draw, N, target_of, score, ROUNDS, batch_size=8
    )
    leakage = {kind: target.leakage_score(z, p, p * (1 - p), N) for kind, z in goals.items()}
    return scores, member, leakage


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
@pytest.mark.optimized
def test_figure_2_targets(figures, kind):
    """The mean of Bernoulli records at full size, by the covariance score and by the exact
    likelihood ratio (Eq. 11).
    """
    scores, member, leakage = figures
    check_band(scores[kind], member, target.empirical_mean(leakage[kind]))
    check_band(scores[f"exact {kind}"], member, target.empirical_mean(leakage[kind]))


@pytest.mark.slow
def test_figure_2_noise(figures):
    scores, member, _ = figures
    p = thresholds() / 256
    check_band(
        scores["noise"], member, target.noisy_mean(targets()["easy"], p, p * (1 - p), N, NOISE)
    )


@pytest.mark.slow
def test_figure_2_subsampling(figures):
    """A random part of the records: the mixture,
    where the printed theorem is refuted by the same scores.
    """
    scores, member, leakage = figures
    check_band(scores["sub-sampled"], member, target.subsampled_mean(leakage["easy"], RATE))
    with pytest.raises(AssertionError):
        check_band(scores["sub-sampled"], member, target.empirical_mean(RATE * leakage["easy"]))


@pytest.mark.slow
def test_figure_6_references(figures):
    """Mean and variances estimated from references:
    a thousand are as good as the truth, ten are not.
    """
    scores, member, leakage = figures
    curve = target.empirical_mean(leakage["easy"])
    check_band(scores["1000 references"], member, curve)
    member = np.asarray(member)

    def power(name):
        found = np.asarray(scores[name])
        return np.mean(found[member] > np.quantile(found[~member], 0.9))

    assert power("50 references") > float(curve.power(0.1)) - 0.15
    assert power("10 references") < power("1000 references") - 0.05
