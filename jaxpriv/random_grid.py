"""Normal numbers rounded to a grid, by integers alone: noise whose last digits tell nothing.

For whole numbers S and normal N, S + floor(2^b N) = floor(S + 2^b N): whoever sees whole numbers
with this noise sees the Gaussian mechanism's release, rounded. So each of its curves holds, sampled
and composed as it may be. There is no float whose last digits could tell (Mironov 2012; Haney et
al. 2022), and sums of whole numbers do not depend on their order (Casacuberta et al. 2022).

How |N| is drawn. [0, 12) is cut into cells of width 1/32. Below the density in a cell lies a line
of whole numbers a, b (`_grid_tables.lines`): a part of mass a 2^-32 that is even in the cell, and
one of mass b 2^-32 that falls to 0 in it. One word of 32 bits chooses the part, exactly; the place
in the cell is a uniform number, or the smaller of two, of which the first digits are as many random
bits: so far no number is rounded. A mass r, 2^-14.1 < r < 2^-14, is left to what lies above the
lines. For it a cell is drawn in proportion to a hat above that remainder, a whole number of 128
bits, and a place f in it; with probability (density - line)/hat it counts, else all of this is
drawn anew from the words of the next counter. That is decided in whole numbers of 128 bits.

How far from ideal. Products of 128 bits are too small by less than 5 2^-128. With those of
Horner's scheme, the first term that it leaves out, and the tables' digits, what is compared is off
by less than 2^-122 of the density where the cell begins, hence by 2^-121 of the density; that f is
the middle of 2^-64 counts less. With g the density of |N|, rho = g - line, rho' what is computed
for it, and p the density of what is drawn,

    |rho' - rho| <= 2^-121 g  below 12,   p = line + r rho'/integral rho',
    |r - integral rho'| <= P(|N| >= 12) + 2^-121 < 2^-107.7,

    |p/g - 1| <= 2^-121 (1 + 2^-93) + 2^-107.7/(r - 2^-107.7) < 2^-93    (`RELATIVE`)

for |N| < 12 = `EDGE`, and p = 0 beyond, where the normal law has the mass 2^-107.8 (`BEYOND`); if
Threefry's words under a random key are random. The sign is a bit.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import _grid_tables as tables
from jaxpriv._checks import check_whole
from jaxpriv.random_words import AGAIN, DRAW, check_words, threefry

EDGE = 12.0
BEYOND = math.erfc(EDGE / math.sqrt(2)) * (1 + 1e-12)  # probability that |N| >= EDGE
RELATIVE = 2.0**-93  # what is drawn below EDGE has its probability up to this share
BITS = 24  # the finest grid
_PLACE = BITS - 5  # of them in a cell
_OPEN = np.int32(-(2**31))  # not drawn yet
_ROW = 256
_TERMS = 28
# a GPU takes as long to begin a round as to draw many
_AT_ONCE = 8  # candidates, of which every other one counts
_TERMS_AT_ONCE = 4
_LOW = np.uint64(2**32 - 1)


def rounded_normal(
    words: jax.Array, shape: int | tuple[int, ...] = (), bits: int = BITS
) -> jax.Array:
    """Independent whole numbers floor(2^bits N), N normal of mean 0 and variance 1.

    The same numbers on any number of devices and of any kind; the first do not depend on how many
    there are, and those of fewer bits are those of more, rounded down.

    Args:
        words: `UInt32[Array, "4"]`, a key from `secret_words` or `fold_words`, used for nothing
            else.
        shape: a tuple, of fewer than 2^32 entries in all. bits: in 0, 1, ... 24.

    Returns: `Int32[Array, "*shape"]`, in [-12 2^bits, 12 2^bits). Their mean is -1/2.
    Guarantee: |N| < 12 has its law to a factor of 1 +- `RELATIVE`, and |N| >= 12, of probability
        `BEYOND`, does not occur; if the key's bits are random.
    Raises: ValueError for other keys, bits outside their range, and shapes that are too large.
    Source: Walker 1977 for the table; Threefry: Salmon et al. 2011.

        >>> import jax.numpy as jnp
        >>> print(rounded_normal(jnp.zeros(4, jnp.uint32), (4,), bits=10))
        [ -761   373 -1159   135]
    """
    check_words("words", words)
    check_whole("bits", bits, 0, BITS)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if math.prod(shape) >= 2**32:
        raise ValueError(f"shape = {shape} has {math.prod(shape):,} entries; accepted: below 2^32")
    return _drawn(words, shape, bits)


@partial(jax.jit, static_argnums=(1, 2))
def _drawn(words, shape, bits):
    """Most entries come from one word and two places; one in 2^14 is filled in afterwards."""
    size = math.prod(shape)
    rows = max(-(-size // _ROW), 1)
    index = jax.lax.iota(jnp.uint32, rows * _ROW)
    found = from_words(*threefry(words, index, 0, 0, DRAW)).reshape(rows, _ROW)
    some = min(rows, rows * _ROW // 2**13 + 16)  # of the rows in which one is open, at a time

    def fill(state):
        found, is_open = state
        (row,) = jnp.nonzero(is_open, size=some, fill_value=rows)
        missing = jnp.take(found, row, 0, mode="fill", fill_value=0) == _OPEN
        column = jnp.argmax(missing, 1)
        entry = (row * _ROW + column).astype(jnp.uint32)
        drawn = _again(words, entry, row < rows)
        return (found.at[row, column].set(drawn, mode="drop"),
                is_open.at[row].set(jnp.sum(missing, 1) > 1, mode="drop"))

    state = found, jnp.any(found == _OPEN, 1)
    found = jax.lax.while_loop(lambda state: jnp.any(state[1]), fill, state)[0].reshape(-1)
    return (found[:size] >> (BITS - bits)).reshape(shape)


def from_words(a, b, c, _=None):
    """floor(2^24 N) of three random words; -2^31 if these leave it open.

    Args:
        a: `UInt32[Array, "..."]`, which chooses the cell, and whether density falls in it.
        b: `UInt32[Array, "..."]`: a bit of sign, then the place. c: the other place.

    Returns: `Int32[Array, "..."]`.

        >>> import jax.numpy as jnp
        >>> zero = jnp.zeros((), jnp.uint32)
        >>> int(from_words(zero, zero, zero)), int(from_words(zero, ~zero, zero))
        (0, -524288)
    """
    slot = a >> 22
    entry = jnp.asarray(tables.first())[slot.astype(jnp.int32)]
    outcome = jnp.where((a & (2**22 - 1)) < (entry >> 10), slot, entry & 1023)
    one, other = (b << 1) >> (32 - _PLACE), (c << 1) >> (32 - _PLACE)
    place = jnp.where(outcome & 1 == 1, jnp.minimum(one, other), one)
    drawn = _signed((outcome >> 1 << _PLACE) | place, b)
    return jnp.where(outcome >= tables.LEFT, _OPEN, drawn)


def _signed(whole, word):
    """floor of x or of -x, as the first bit says, for x in (whole, whole + 1)."""
    return jnp.where(word >> 31 == 1, ~whole, whole).astype(jnp.int32)


def _again(words, entry, wanted):
    """The entries that were left open, as far as they are wanted: the first candidate that counts,
    of some at a time.
    """
    def more(state):
        attempt, found = state
        attempts = attempt + jnp.arange(_AT_ONCE, dtype=jnp.uint32)[:, None]
        blocks = [threefry(words, entry, attempts, block, AGAIN) for block in range(3)]
        drawn, counts = candidate(*(word for block in blocks for word in block))
        for i in range(_AT_ONCE):
            found = jnp.where((found == _OPEN) & counts[i], drawn[i], found)
        return attempt + np.uint32(_AT_ONCE), found

    start = jnp.zeros((), jnp.uint32), jnp.where(jnp.broadcast_to(wanted, entry.shape), _OPEN, 0)
    return jax.lax.while_loop(lambda state: jnp.any(state[1] == _OPEN), more, start)[1]


def candidate(*given):
    """(floor(2^24 N), whether it counts) of twelve random words, for N of the remainder's law.

    Words 0 to 3 choose the cell, 4 and 5 the place, 6 to 9 whether it counts, 10 the sign. With h
    the hat in units of the density G where the cell begins, and u in [0, 1), it counts where
    u h + a/G + 2 b (1 - f)/G < exp(-y) = 1 - z,  y = (j f + f^2/2)/32^2: where the sum with z does
    not reach 1.
    """
    with jax.enable_x64(True):
        wide = [word.astype(jnp.uint64) for word in given]
        kept = tables.rest()
        high, low = (wide[0] << 32 | wide[1])[..., None], (wide[2] << 32 | wide[3])[..., None]
        passed = (kept.high < high) | ((kept.high == high) & (kept.low <= low))
        cell = jnp.sum(passed, -1, dtype=jnp.uint32)
        zero, half = jnp.zeros_like(wide[0]), jnp.full_like(wide[0], 2**31)
        f, rest_of_f = [*wide[4:6], half, zero], [wide[4] ^ _LOW, wide[5] ^ _LOW, half, zero]
        # f/2^11 + j/2^10
        slope = _carried([(f[0] >> 11) + (cell.astype(jnp.uint64) << 22),
                          *(((before & 0x7FF) << 21) + (word >> 11)
                            for before, word in zip(f, f[1:]))])[1]
        z = _one_minus_exp(_times(f, slope))
        hat, flat, steep = (
            [jnp.asarray(table)[cell.astype(jnp.int32), i] for i in range(4)] for table in kept[2:]
        )
        halves = zip(_times(wide[6:10], hat), flat, _times(rest_of_f, steep), z)
        reached, _ = _carried([2 * (p + q + s) + last for p, q, s, last in halves])
        counts = (reached == 0) & (cell < tables.CELLS)
        drawn = _signed(cell << _PLACE | given[4] >> (32 - _PLACE), given[10])
    return drawn, counts


def _one_minus_exp(y):
    """1 - exp(-y) = y (1 - y/2 (1 - y/3 (1 - ...))), for y < 0.38."""
    shares = np.array([tables.words(2**128 // n if n > 1 else 2**128 - 1)
                       for n in range(_TERMS, 0, -1)], np.uint64)

    def term(z, share):
        part = _times(y, [share[i] for i in range(4)])
        return tuple(_times(part, [word ^ _LOW for word in z])), None

    start = (jnp.zeros_like(y[0]),) * 4
    return jax.lax.scan(term, start, jnp.asarray(shares), unroll=_TERMS_AT_ONCE)[0]


def _times(x, y):
    """The product of two numbers in [0, 1) of four words, too small by less than 5 2^-128."""
    columns = [jnp.zeros_like(x[0] + y[0])] * 5
    for i in range(4):
        for j in range(4 - i):
            product = x[i] * y[j]
            columns[i + j] += product >> 32
            columns[i + j + 1] += product & _LOW
    return _carried(columns)[1][:4]


def _carried(columns):
    """(what passes the highest, words of 32 bits) of a sum by columns, the highest first."""
    found, carry = [], 0
    for column in columns[::-1]:
        column = column + carry
        found.append(column & _LOW)
        carry = column >> 32
    return carry, found[::-1]
