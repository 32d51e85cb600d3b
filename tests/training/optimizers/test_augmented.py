"""Gradients of several augmentations: their mean, clipped once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv.training import clipped_sum
from jaxpriv.training.optimizers import augmented, averaged
from tests.slips import check_is_red
from tests.training.test_clipping import SIZE, flat, loss, problem

PARAMETERS, EXAMPLES = problem()
COUNT = 5


def shifted(example, key):
    return {**example, "x": example["x"] + jax.random.normal(key, example["x"].shape)}


def check_mean():
    """By hand: every example's key makes COUNT keys, each of which one for either use."""
    key = jax.random.key(3)
    mean_loss = averaged(loss, shifted, COUNT)
    found = jax.jit(
        lambda key: clipped_sum(mean_loss, PARAMETERS, EXAMPLES, key, clip_norm=0.5)
    )(key)
    gradient_of = jax.jit(lambda one, first, second: jax.grad(loss)(
        PARAMETERS, shifted(one, first), second))
    expected = 0.0
    for i, own in enumerate(jax.random.split(key, SIZE)):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], EXAMPLES)
        gradients = []
        for again in jax.random.split(own, COUNT):
            first, second = jax.random.split(again)
            gradients.append(flat(gradient_of(one, first, second)))
        mean = np.mean(gradients, 0)
        expected = expected + mean * min(1, 0.5 / np.linalg.norm(mean))
    np.testing.assert_allclose(flat(found.total), expected, rtol=3e-5, atol=1e-6)


def test_mean():
    check_mean()


def test_one_record_moves_the_sum_by_the_clipping_norm():
    one = jax.tree.map(lambda leaf: leaf[-1:], EXAMPLES)
    for count in (1, 8):
        mean_loss = averaged(loss, shifted, count)
        found = jax.jit(lambda key, mean_loss=mean_loss: clipped_sum(
            mean_loss, PARAMETERS, one, key, clip_norm=0.01))(jax.random.key(0))
        assert 0.00999 < np.linalg.norm(flat(found.total)) <= 0.01


@pytest.mark.slow
def test_augmentations_differ():
    def seen(_, example, key):
        return jnp.sum(example["x"]) * 0 + jax.random.uniform(key)

    values = [averaged(seen, shifted, count)(None, {"x": jnp.ones(2)}, jax.random.key(1))
              for count in (1, 2, 500)]
    assert len(set(map(float, values))) == 3
    assert abs(values[2] - 0.5) < 0.06


@pytest.mark.parametrize(
    ("call", "match"),
    [(lambda: averaged(loss, shifted, 0), "count = 0"),
     (lambda: averaged(loss, shifted, 2.0), "count = 2.0"),
     (lambda: averaged(loss, shifted, 2)(PARAMETERS, EXAMPLES, None), "key = None")],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.slow
def test_a_sum_in_the_place_of_the_mean_is_seen(monkeypatch):
    class Sums:
        def __getattr__(self, name):
            return getattr(jnp, "sum" if name == "mean" else name)

    check_is_red(monkeypatch, augmented, "jnp", Sums(), check_mean)
