"""Random words under keys of 128 bits: Threefry-4x32 with 20 rounds, a function of key and counter.

A key is a plain array of four words, not a JAX key: JAX's have 64 bits. Four counters make four
words that nobody tells from random ones without the key, as far as is known; that is assumed.
"""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import is_traced

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
# the last counter says what words are for, so that none are used twice
DRAW, AGAIN, KEY = 0, 1, 2


def secret_words() -> jax.Array:
    """A key of 128 bits of the operating system's entropy, another one at each call.

    Whoever knows the key takes the noise off: it is as secret as the data.

    Returns: `UInt32[Array, "4"]`, for `rounded_normal` and `fold_words`.
    Raises: ValueError inside `jit` and the like: there it would be drawn once, and be the same at
    each call of the program.

        >>> secret_words().shape
        (4,)
    """
    words = jnp.asarray(np.frombuffer(os.urandom(16), np.uint32))
    if is_traced(words):
        raise ValueError("secret_words() inside a program is a constant of it: hand the key over")
    return words


def fold_words(words: jax.Array, *numbers: Any) -> jax.Array:
    """The key of a step, of a leaf: another one for every other key and every other numbers.

    Args:
        words: `UInt32[Array, "4"]`, a key. It may have other keys made of it, and no other use.
        numbers: one to three of 0 ... 2^32-1; may be traced.

    Returns: `UInt32[Array, "4"]`: the words of Threefry at (numbers, 2), so keys with different
        numbers, if there are equally many, share nothing that can be seen.
    Raises: ValueError for other keys and other counts of numbers, or numbers outside their range.

        >>> import jax.numpy as jnp
        >>> print(fold_words(jnp.zeros(4, jnp.uint32), 7))
        [2247429064 2342738111 1616189639 3322376584]
    """
    check_words("words", words)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"numbers are {len(numbers)}; accepted: 1, 2 or 3")
    for number in numbers:
        whole = jnp.issubdtype(jnp.result_type(number), jnp.integer) and np.shape(number) == ()
        if not whole or not is_traced(number) and not 0 <= int(number) < 2**32:
            raise ValueError(f"numbers: {number} is outside its range 0, 1, ... 2^32-1")
    counters = [jnp.asarray(number, jnp.uint32) for number in numbers]
    counters += [jnp.zeros((), jnp.uint32)] * (3 - len(counters))
    return jnp.stack(threefry(words, *counters, KEY))


def check_words(name, words):
    """Raise ValueError for anything but four words."""
    if getattr(words, "dtype", None) != jnp.uint32 or words.shape != (4,):
        kind = f"{getattr(words, 'dtype', type(words).__name__)}{list(np.shape(words))}"
        raise ValueError(f"{name} is {kind}; accepted: uint32[4], from jaxpriv.random.secret_words")


def threefry(key, *counter):
    """The four words of Threefry-4x32-20 under four words of key at four counters.

    Source: Salmon et al. 2011, section 3.3; known answers in tests/test_random_words.py.
    """
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(0x1BD11BDA)]
    a, b, c, d = (word + np.uint32(count) if isinstance(count, int) else word + count
                  for word, count in zip(keys, counter))
    for turn in range(20):
        left, right = _ROTATIONS[turn % 8]
        a, c = a + b, c + d
        # the second words of both pairs change places
        b, d = _rotated(d, right) ^ c, _rotated(b, left) ^ a
        if turn % 4 == 3:
            turns = turn // 4 + 1
            a, b, c, d = (word + keys[(turns + i) % 5] for i, word in enumerate((a, b, c, d)))
            d = d + np.uint32(turns)
    return a, b, c, d


def _rotated(word, distance):
    return (word << distance) | (word >> (32 - distance))

