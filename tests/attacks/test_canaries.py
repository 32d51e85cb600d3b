"""Canaries: what is chosen or crafted is easier to detect than what was there."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import attacks
from jaxpriv.attacks import canaries, reference
from tests.attacks.test_reference import gradients


def loss(w, example):
    return -jax.nn.log_softmax(w @ example["x"])[example["y"]]


def problem(seed=0):
    random = np.random.default_rng(seed)
    examples = {"x": random.normal(size=(60, 4)), "y": random.integers(0, 3, 60)}
    w = jnp.asarray(random.normal(size=(3, 4)))
    return w, examples, attacks.per_example_gradients(loss, w, examples)


def check_mahalanobis():
    data = gradients(40, 6)
    law = reference.estimate(data, shrinkage=0)
    centred = data - data.mean(0)
    want = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(centred.T @ centred / 40), centred)
    np.testing.assert_allclose(canaries.mahalanobis(data, law), want, rtol=1e-9)


@pytest.mark.slow
def test_mahalanobis():
    check_mahalanobis()


def check_order():
    scores = np.array([4.0, 9.0, 1.0, 7.0, 2.0])
    np.testing.assert_array_equal(
        scores[np.asarray(canaries.easy_medium_hard(scores))], [9.0, 4.0, 1.0]
    )


def test_easy_medium_hard():
    check_order()


def check_dirac():
    np.testing.assert_array_equal(canaries.dirac(4, 3.0, 2), [0, 0, 3, 0])
    assert np.linalg.norm(canaries.dirac(7)) == 1


def test_dirac():
    check_dirac()


def check_mislabelled():
    labels = np.arange(3000) % 5
    wrong = np.asarray(canaries.mislabelled(jax.random.key(0), labels, 5))
    assert np.all(wrong != labels)
    assert set(wrong) == set(range(5))
    counts = np.bincount((wrong - labels) % 5, minlength=5)
    assert np.all(np.abs(counts[1:] - 750) < 120)


def test_mislabelled():
    check_mislabelled()


@pytest.mark.parametrize(("dtype", "classes"), [(np.int8, 100), (np.uint8, 200), (np.uint8, 256)])
def test_mislabelled_of_small_integers(dtype, classes):
    """Whose sums overflow."""
    labels = np.arange(40_000) % classes
    wrong = np.asarray(canaries.mislabelled(jax.random.key(0), labels.astype(dtype), classes))
    assert wrong.dtype == dtype
    ahead = (wrong.astype(int) - labels) % classes
    np.testing.assert_array_equal(np.unique(ahead), np.arange(1, classes))


def check_blank():
    empty = canaries.blank({"x": np.ones((2, 2)), "y": np.int32(3)})
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(empty))


def test_blank():
    check_blank()


def check_craft():
    """Both objectives improve, only the inputs move,
    and the returned record has the best value that was seen.
    """
    w, examples, rows = problem()
    law = reference.estimate(rows, shrinkage=0.1)
    start = jax.tree.map(lambda leaf: leaf[0], examples)
    for objective, other in (("mahalanobis", law), ("canife", rows)):
        crafted, seen = canaries.craft(loss, w, start, other, objective=objective, clip_norm=1.0,
                                       steps=150, optimizer=optax.adam(0.1))
        assert crafted["y"] == start["y"]
        gradient = attacks.per_example_gradients(
            loss, w, jax.tree.map(lambda leaf: leaf[None], crafted)
        )
        if objective == "mahalanobis":
            found = float(canaries.mahalanobis(attacks.clip(gradient, 1.0), law)[0])
            np.testing.assert_allclose(found, np.max(seen), rtol=1e-9)
            assert found > 2 * seen[0]
            assert found > np.max(canaries.mahalanobis(attacks.clip(rows, 1.0), law))
        else:
            norm = float(jnp.linalg.norm(gradient))
            found = float(jnp.sum((rows @ gradient[0]) ** 2)) + max(1.0 - norm, 0.0) ** 2
            np.testing.assert_allclose(found, np.min(seen), rtol=1e-9)
            assert found < 0.5 * seen[0]


@pytest.mark.slow
def test_craft():
    check_craft()


def test_craft_moves_what_it_is_told_to():
    w, examples, rows = problem()
    start = {"x": jnp.asarray(examples["x"][0]), "y": 1, "weight": jnp.asarray(2.0)}
    crafted, _ = canaries.craft(lambda w, e: e["weight"] * loss(w, e), w, start,
                                reference.estimate(rows), steps=3,
                                inputs={"x": False, "y": False, "weight": True})
    np.testing.assert_array_equal(crafted["x"], start["x"])
    assert crafted["weight"] > 2


@pytest.mark.parametrize(("call", "match"), [
    (lambda: canaries.dirac(3, index=3), "index = 3"),
    (lambda: canaries.dirac(3, 0.0), "norm = 0"),
    (lambda: canaries.mislabelled(jax.random.key(0), np.zeros(3, int), 1), "classes = 1"),
    (lambda: canaries.mislabelled(jax.random.key(0), np.zeros(3, np.int8), 300), "int8 does not"),
    (lambda: canaries.craft(loss, 0, 0.0, None, objective="best"), "objective = 'best'"),
    (lambda: canaries.craft(loss, 0, 0.0, None, objective="canife"), "clip_norm = None"),
    (lambda: canaries.craft(loss, 0, 0.0, None, steps=0), "steps = 0"),
])
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
