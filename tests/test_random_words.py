"""Threefry-4x32 against its authors' known answers, and keys made of keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import random, random_words
from tests.slips import check_is_red

# counter, key, words: kat_vectors of Random123, threefry4x32 of 20 rounds
KNOWN = [
    ("00000000 " * 4, "00000000 " * 4, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
    ("ffffffff " * 4, "ffffffff " * 4, "2a881696 57012287 f6c7446e a16a6732"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0 082efa98 ec4e6c89",
     "59cd1dbb b8879579 86b5d00c ac8b6d84"),
]  # fmt: skip


def check_known():
    for texts in KNOWN:
        counter, key, want = (
            jnp.array([int(word, 16) for word in text.split()], jnp.uint32) for text in texts
        )
        np.testing.assert_array_equal(jnp.stack(random_words.threefry(key, *counter)), want)


def test_known():
    check_known()


@pytest.mark.parametrize("place", range(8))
def test_a_wrong_rotation_is_seen(place, monkeypatch):
    wrong = [list(pair) for pair in random_words._ROTATIONS]
    wrong[place][place % 2] ^= 1
    check_is_red(monkeypatch, random_words, "_ROTATIONS", wrong, check_known)


def check_keys_differ():
    key = jnp.arange(4, dtype=jnp.uint32)
    numbers = [(i,) for i in range(50)] + [(i, j) for i in range(8) for j in range(1, 8)]
    made = [np.asarray(random.fold_words(key, *given)) for given in numbers]
    other = [np.asarray(random.fold_words(key + np.uint32(1), *given)) for given in numbers]
    found = np.array(made + other + [np.asarray(key)])
    assert all(len(np.unique(column)) == len(found) for column in found.T)


def test_keys_differ():
    check_keys_differ()


def test_a_forgotten_number_is_seen(monkeypatch):
    true = random.fold_words
    check_is_red(monkeypatch, random, "fold_words", lambda key, *numbers: true(key, numbers[0]),
                 check_keys_differ)


def test_keys_are_not_draws():
    """What a key is made of is used for no number."""
    key = jnp.arange(4, dtype=jnp.uint32)
    uses = [random_words.threefry(key, 5, 0, 0, purpose) for purpose in range(3)]
    assert len(np.unique(np.array(uses))) == 12
    assert random_words.KEY not in (random_words.DRAW, random_words.AGAIN)
    np.testing.assert_array_equal(jax.jit(random.fold_words)(key, 5), jnp.stack(uses[2]))


def check_secret():
    found = np.array([random.secret_words() for _ in range(32)])
    assert found.dtype == np.uint32
    assert all(len(np.unique(column)) == 32 for column in found.T)


def test_secret():
    check_secret()
    with pytest.raises(ValueError, match="constant"):
        jax.jit(lambda x: x + random.secret_words())(0)


def test_half_a_secret_is_seen(monkeypatch):
    true = random.secret_words
    check_is_red(monkeypatch, random, "secret_words", lambda: true().at[2:].set(0), check_secret)


@pytest.mark.parametrize(
    ("key", "numbers", "match"),
    [(jax.random.key(0), (1,), "words is key"), (np.zeros(4), (1,), r"words is float64\[4\]"),
     (np.zeros(2, np.uint32), (1,), r"words is uint32\[2\]"), (None, (1,), "words is NoneType"),
     (np.zeros(4, np.uint32), (), "numbers are 0"), (np.zeros(4, np.uint32), (-1,), "-1"),
     (np.zeros(4, np.uint32), (2**32,), "4294967296"), (np.zeros(4, np.uint32), (1.5,), "1.5"),
     (np.zeros(4, np.uint32), (np.arange(2),), "0 1"),
     (np.zeros(4, np.uint32), (1, 2, 3, 4), "numbers are 4")],
)  # fmt: skip
def test_errors(key, numbers, match):
    with pytest.raises(ValueError, match=match):
        random.fold_words(key, *numbers)
