"""Normal random numbers whose tails go as far as privacy needs: beyond 10 standard deviations.

`jax.random.normal` inverts the law at 23 random bits in float32 and ends at 5.4 standard deviations
(at 8.2 in float64): noise of multiplier 0.6 then proves a record's presence once in 5,000 releases.
Here Box and Muller's transform makes two numbers of four words of W = 32 (float64: 64) random bits,

    u = (k + 1/2) 2^-3W from three words, theta from one,
    (x, y) = sqrt(-2 log u) (cos theta, sin theta).

After the leading zeros of u there are as many bits as a float holds, and likewise near u = 1 after
those of 1 - u: the radius is right to rounding from 2^-36 to 10.5. It ends at 11.6 (float64: 16.3).

How far from ideal. Let U and Theta be uniform real numbers with the words as their leading bits:
X = sqrt(-2 log U) cos Theta is exactly normal, and what is drawn is X but for two errors. U and
Theta are put into the middle of their cells of width 2^-96 and 2 pi 2^-32. Where U >= 2^-80 that
moves the radius R by less than 2^-97/(U R^2) <= 2^-23 of itself (or, below 2^-36, by less than
2^-47), and the direction by less than pi 2^-32. And logarithm, root, cosine and their product are
rounded: to within 2^-21.5 (`tests/test_random.py`). So, unless U < 2^-80, where R > 10.53,

    |drawn - X| <= 2^-21 |X| + 2^-26                                   (float64 is closer),

and a pair is such an exception with the probability `BEYOND`. This bounds what is missing of the
tail. It does not turn floats into real numbers: which of them occur, after they are added to a sum,
may still tell something (Mironov 2012). That gap `rounded_normal` closes (`random_grid.py`).
"""

import math
import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import check_key, is_traced
from jaxpriv._types import Numbers
from jaxpriv.random_grid import rounded_normal
from jaxpriv.random_words import fold_words, secret_words

__all__ = ["fold_words", "from_words", "key_of", "normal", "rounded_normal", "secret_key",
           "secret_words"]

BEYOND = 2.0**-80  # probability that a pair is from where the grid of u is felt
EDGE = math.sqrt(160 * math.log(2.0))  # its radius is then above this
_MOST = 2**32  # entries: one counter for each
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def secret_key() -> jax.Array:
    """A key of 64 bits of the operating system's entropy, another one at each call: for noise that
    is released.

    `jax.random.key(seed)` keeps no more than 32 bits of a seed in JAX's default mode, of which all
    can be tried. Whoever knows the key takes the noise off: it is as secret as the data, and a run
    with it cannot be repeated.

    Returns: a scalar `Key[Array, ""]` (Threefry), for `jax.random.split` and `fold_in`.
    Raises: ValueError inside `jit` and the like: there it would be drawn once, and be the same at
    each call of the program.

        >>> import jax, jaxpriv
        >>> key = jaxpriv.random.secret_key()
        >>> jaxpriv.random.normal(jax.random.fold_in(key, 0), (3,)).shape
        (3,)
    """
    key = key_of(np.frombuffer(os.urandom(8), np.uint32))
    if is_traced(key):
        raise ValueError("secret_key() inside a program is a constant of it: hand the key over")
    return key


def key_of(words: Numbers) -> jax.Array:
    """A JAX key from its two numbers of 32 bits."""
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl="threefry2x32")


def normal(key: jax.Array, shape: tuple[int, ...] = (), dtype: Any = None) -> jax.Array:
    """Independent normal numbers of mean 0 and variance 1, for noise that has to keep a secret.

    The same numbers on any number of devices; the first do not depend on how many there are.

    Args:
        key: a JAX key of any kind, used for nothing else.
        shape: a tuple, of fewer than 2^32 entries in all.
        dtype: a real floating-point type, JAX's default unless given; narrow ones are rounded from
            float32.

    Returns: `Float[Array, "*shape"]`.
    Guarantee: within 2^-21 |x| + 2^-26 of exactly normal x, but for a probability of `BEYOND` per
        entry; if the key's bits are random.
    Raises: ValueError for old-style keys, other types, and shapes that are too large.
    Source: Box and Muller 1958; Threefry: Salmon et al. 2011, under a threefry key, or under 64
        bits drawn from another.

        >>> import jax
        >>> x = normal(jax.random.key(0), (1000, 100))
        >>> print(x.dtype, f"{x.mean():.2f} {x.std():.2f} {abs(x).max() > 4}")
        float32 0.00 1.00 True
    """
    check_key("key", key)
    dtype = jnp.result_type(float if dtype is None else dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"dtype = {dtype} is outside its range: real floating-point types")
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if math.prod(shape) >= _MOST:
        raise ValueError(f"shape = {shape} has {math.prod(shape):,} entries; accepted: below 2^32")
    return _drawn(key, shape, jnp.promote_types(dtype, jnp.float32)).astype(dtype)


@partial(jax.jit, static_argnums=(1, 2))
def _drawn(key, shape, dtype):
    """Entries 2p and 2p+1 are the pair of counter p, of which each entry computes its own.

    The bits of a pair are thus computed twice, which costs less than to keep them in memory.
    """
    threefry = jax.random.key_impl(key) == "threefry2x32"
    secret = jax.random.key_data(key) if threefry else jax.random.bits(key, (2,), jnp.uint32)
    index = jax.lax.iota(jnp.uint32, math.prod(shape))
    blocks = 2 if dtype == jnp.float32 else 4
    words = [word for block in range(blocks) for word in _threefry(secret, block, index >> 1)]
    if blocks == 4:
        wide = [word.astype(jnp.uint64) for word in words]
        words = [(high << 32) | low for high, low in zip(wide[::2], wide[1::2])]
    first, second = from_words(*words)
    return jnp.where((index & 1) == 0, first, second).reshape(shape)


def _threefry(key, high, low):
    """The two words of Threefry-2x32-20 at the counter (high, low).

    As in JAX, but rounds are not rolled up into a loop: on CPUs JAX's goes through memory five
    times.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = keys[0] + np.uint32(high), low + keys[1]
    for turn in range(5):
        for distance in _ROTATIONS[turn % 2]:
            x = x + y
            y = x ^ ((y << distance) | (y >> (32 - distance)))
        x, y = x + keys[(turn + 1) % 3], y + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return x, y


def from_words(
    a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The two normal numbers of four random words, uint32 for float32, uint64 for float64.

    Args:
        a, b, c: `UInt[Array, "..."]`, of which u = (a 2^2W + b 2^W + c + 1/2) 2^-3W is made.
        d: `UInt[Array, "..."]`, of which the angle is made.

    Returns: (x, y): `Float[Array, "..."]`, sqrt(-2 log u) times the angle's cosine and sine.
    Source: Box and Muller 1958.

        >>> import jax.numpy as jnp
        >>> print(*from_words(*jnp.zeros((4, 1), jnp.uint32)))
        [11.596144] [8.482105e-09]
    """
    radius = jnp.sqrt(2 * _minus_log(a, b, c))
    cos, sin = _direction(d)
    return radius * cos, radius * sin


def _minus_log(a, b, c):
    """-log u, to rounding at both ends.

    1 - u is u of the words' complements, so let t be u or, from u = sqrt(1/2) up, 1 - u: as a sum
    of three floats it keeps all its digits. With u = 2^e (1+z), 1+z in [sqrt(1/2), sqrt 2), and
    s = z/(2+z):  log u = e log 2 + 2 artanh s.
    """
    unsigned = a.dtype
    width = unsigned.itemsize * 8
    floating, signed, terms = (
        (jnp.float32, jnp.int32, 6) if width == 32 else (jnp.float64, jnp.int64, 12))
    near_one = a >= np.array(math.isqrt(2 ** (2 * width - 1)), unsigned)
    high, middle, low = (jnp.where(near_one, ~word, word).astype(floating) for word in (a, b, c))
    unit = 2.0**-width
    t = high * unit + (middle * unit**2 + (low + 0.5) * unit**3)
    # the exponent of t as an integer, and its digits as a float
    digits = jnp.finfo(floating).nmant
    bits = jax.lax.bitcast_convert_type(t, signed)
    e = (bits - np.array(math.sqrt(0.5), floating).view(signed)) >> digits
    z = jax.lax.bitcast_convert_type(bits - (e << digits), floating) - 1
    e, z = jnp.where(near_one, 0, e), jnp.where(near_one, -t, z)
    s = z / (2 + z)
    artanh = s * _series(s * s, [1 / (2 * k + 1) for k in range(terms)])
    return -math.log(2.0) * e.astype(floating) - 2 * artanh


def _direction(word):
    """(cos, sin) of a random angle: three bits choose the octant, the others an angle in it.

    That is phi = (j + 1/2) 2^-(W-3) pi/4, j the other bits, at which Taylor's series are short.
    """
    width = word.dtype.itemsize * 8
    floating, terms = (jnp.float32, 6) if width == 32 else (jnp.float64, 10)
    sign_cos, sign_sin, swapped = ((word >> (width - k)) & 1 == 1 for k in (1, 2, 3))
    phi = (((word << 3) >> 2) | 1).astype(floating) * (math.pi / 4 * 2.0 ** (2 - width))
    square = phi * phi
    sines = [(-1) ** k / math.factorial(2 * k + 1) for k in range(terms)]
    cosines = [(-1) ** k / math.factorial(2 * k) for k in range(terms + 1)]
    sin, cos = phi * _series(square, sines), _series(square, cosines)
    cos, sin = jnp.where(swapped, sin, cos), jnp.where(swapped, cos, sin)
    return jnp.where(sign_cos, -cos, cos), jnp.where(sign_sin, -sin, sin)


def _series(x, coefficients):
    """Horner's scheme."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total
