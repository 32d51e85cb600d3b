"""The tables of `jaxpriv.random_grid`: whole numbers, made by exact arithmetic of 80 digits."""

from decimal import Context, Decimal, localcontext
from functools import cache, wraps
from typing import NamedTuple

import numpy as np

CELLS, WIDTH = 384, 32  # cells of width 1/32, from 0 to 12
SLOTS, LEFT = 1024, 2 * CELLS  # of the alias table; the outcome that is left over
UNIT = 2**32
_DIGITS = 80
_SURE = Decimal(10) ** -60  # more than 80 digits are off by
# sqrt(2/pi), twice the normal density at 0
PEAK = Decimal("0.79788456080286535587989211986876373695171726232986931533185165934131585179860367")


def exactly(made):
    """With 80 digits, whatever the caller computes with."""
    @wraps(made)
    def table():
        with localcontext(Context(prec=_DIGITS)):
            return made()

    return table


def density(x):
    """Of |N|, per cell."""
    return PEAK / WIDTH * (-Decimal(x) * Decimal(x) / 2).exp()


@exactly
def lines():
    """[(a, b)] for each cell: the density per cell is nowhere below (a + 2 b (1 - f)) 2^-32.

    f in [0, 1] is the place in the cell. Up to x = 1 the density is concave, above its chord; from
    there on convex, above the tangent in the middle, whose slope is -x/32 of the density. A line
    that is lower at both ends is lower in between.
    """
    found = []
    for j in range(CELLS):
        if j < WIDTH:
            left, right = density(Decimal(j) / WIDTH), density(Decimal(j + 1) / WIDTH)
        else:
            x = (Decimal(j) + Decimal("0.5")) / WIDTH
            middle, half = density(x), x / (2 * WIDTH)
            left, right = middle * (1 + half), middle * (1 - half)
        a = int((right - _SURE) * UNIT)
        found.append((a, max(int((left - _SURE) * UNIT) - a, 0) // 2))
    return found


def alias(masses):
    """(thresholds, others) of Walker's method, exactly, for masses of sum 2^32 in `SLOTS` slots.

    A number below 2^32 is slot s and r below 2^22: the outcome is s where r < thresholds[s], else
    others[s]. A slot that has only its own outcome is its own other.
    """
    each = UNIT // SLOTS
    left = list(masses)
    thresholds, others = [0] * SLOTS, list(range(SLOTS))
    small = [s for s in range(SLOTS) if left[s] < each]
    large = [s for s in range(SLOTS) if left[s] >= each]
    while small:
        s, rich = small.pop(), large[-1]
        thresholds[s], others[s] = left[s], rich
        left[rich] -= each - left[s]
        if left[rich] < each:
            small.append(large.pop())
    return thresholds, others


class Rest(NamedTuple):
    """What is needed for the part above the lines. Numbers have 128 bits, in words of 32.

    high, low: 64 bits each of the sums of hats up to each cell. hat, flat, steep: halves of the
    hat, of the line's a and of its 2b, in units of the density where the cell begins.
    """

    high: np.ndarray
    low: np.ndarray
    hat: np.ndarray
    flat: np.ndarray
    steep: np.ndarray


@cache
def first():
    """The alias table, `UInt32["1024"]`: threshold 2^10 + other. Outcomes are 2j for what is
    even in cell j, 2j + 1 for what falls in it, and `LEFT`.
    """
    masses = [mass for line in lines() for mass in line]
    masses += [UNIT - sum(masses)] + [0] * (SLOTS - LEFT - 1)
    return np.array([t * SLOTS + other for t, other in zip(*alias(masses))], np.uint32)


@exactly
def hats():
    """(whole numbers h, scale): density less line <= h/scale in each cell, sum h just below 2^128.

    A chord is off by at most 1/8 of the second derivative's largest value, and so is the tangent
    in the middle; rounding took 3 2^-32 at most. The derivative is (x^2 - 1)/32^2 of the density,
    which falls. Nowhere is more left than all of the density.
    """
    found = []
    for j in range(CELLS):
        top, ends = density(Decimal(j) / WIDTH), (Decimal(j) / WIDTH, Decimal(j + 1) / WIDTH)
        bend = top * max(abs(x * x - 1) for x in ends) / (8 * WIDTH**2)
        found.append(min(top, bend + Decimal(3) / UNIT))
    scale = int((2**128 - 2 * CELLS) / sum(found))
    return [int(hat * scale) + 1 for hat in found], scale


@cache
@exactly
def rest():
    """The `Rest`."""
    each, scale = hats()
    sums = np.cumsum(np.array(each, object))
    tops = [density(Decimal(j) / WIDTH) for j in range(CELLS)]
    halves = [[Decimal(hat) / (2 * scale), Decimal(a) / 2**33, Decimal(b) / UNIT]
              for hat, (a, b) in zip(each, lines())]
    numbers = [[int(part / top * 2**128) for part in parts] for parts, top in zip(halves, tops)]
    numbers.append([0, 0, 0])  # one more cell follows: what is drawn there is thrown away
    split = [np.array([words(part) for part in column], np.uint64) for column in zip(*numbers)]
    return Rest(np.array([int(s) >> 64 for s in sums], np.uint64),
                np.array([int(s) % 2**64 for s in sums], np.uint64), *split)


def words(number):
    """Four words of 32 bits, the highest first."""
    return [number >> shift & (UNIT - 1) for shift in (96, 64, 32, 0)]
