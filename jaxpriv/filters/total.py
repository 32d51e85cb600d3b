"""A sum that never counts too little: two float32 words, whatever the mode, rounded upwards.

Their sum has 48 bits, so that a million terms of a billionth each are counted; they pass between
NumPy and programs of either precision without being rounded. Numbers that are exact stay so: four
times 1 is 4. XLA takes numbers below 1e-38 for zero: terms are 0 or at least 1e-20, of which no
rounding error comes near that, and what is smaller is counted as 1e-20.
"""

from typing import Any

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv._types import Answer

LEAST = 1e-20
MOST = 1e31
_SMALL, _STEP = 1e-30, 1e-36  # float32: below the first, upwards is by the second
# bits of which the square of a number has none that is lost, if they are zero
_LOWER_HALF = {32: 0xFFF, 64: 0x7FFFFFF}


@pytree
class Total:
    """high + low: at least the sum of what was spent. float32, low below half an ulp of high."""

    high: Any
    low: Any

    @staticmethod
    def nothing(shape: tuple[int, ...] = ()) -> "Total":
        """Of no terms."""
        return Total(np.zeros(shape, np.float32), np.zeros(shape, np.float32))

    def plus(self, term: "Total") -> "Total":
        """With another term: a `Total`, rounded upwards."""
        high, error = _two_sum(self.high, term.high)
        rest = _added_up(_added_up(self.low, term.low), error)
        return Total(*_two_sum(high, rest))

    def within(self, bound: "Total") -> Answer:
        """Is it at most another number of this kind?"""
        return (self.high < bound.high) | ((self.high == bound.high) & (self.low <= bound.low))

    def value(self) -> Answer:
        """Rounded upwards, in float64 by NumPy."""
        if not xp.any_jax(self.high):
            high, low = np.asarray(self.high, np.float64), np.asarray(self.low, np.float64)
            found = high + low
            lost = low - (found - high)  # exactly, for low is the smaller one
            return np.where(lost > 0, np.nextafter(found, np.inf), found)[()]
        return _added_up(self.high, self.low)


def as_number(value):
    """In float64 by NumPy, in the dtype of JAX's number, at least float32."""
    if not xp.any_jax(value):
        return np.asarray(value, np.float64)
    dtype = xp.result_type(value, xp.float32)
    return value.astype(dtype)


def term(value, up=True):
    """A number in [0, MOST] as a `Total` on one side of it."""
    direction = 1.0 if up else -1.0
    if up:
        value = xp.where((value > 0) & (value < LEAST), LEAST, value)
    if value.dtype == xp.float32:
        return Total(value, xp.zeros_like(value))
    high = xp.in_float32(value)
    rest = value - high
    low = xp.in_float32(rest)
    lost = direction * (rest - low) > 0
    high, low = high.astype(xp.float32), low.astype(xp.float32)
    low = xp.where(lost, xp.nextafter(low, xp.float32(direction * np.inf)), low)
    # of what is next to zero, the least step or nothing
    step = xp.where(direction * rest > 0, xp.float32(direction * _STEP), xp.float32(0.0))
    return Total(high, xp.where(xp.abs(low) < xp.float32(_STEP), step, low))


def square(value, up=True):
    """The square, of which none of the digits is lost on this side."""
    found = value * value
    bits = xp.finfo(value.dtype).bits
    integer = xp.int32 if bits == 32 else xp.int64
    exact = (xp.bits_of(value, integer) & _LOWER_HALF[bits]) == 0
    beyond = xp.asarray(np.inf if up else 0.0, value.dtype)
    return xp.where(exact, found, xp.nextafter(found, beyond))


def _two_sum(a, b):
    """(the rounded sum, what it lost), exactly."""
    found = a + b
    part = found - a
    return found, (a - (found - part)) + (b - part)


def _added_up(a, b):
    """a + b, or a number above it: itself where nothing is lost for sure."""
    found, lost = _two_sum(a, b)
    small = xp.float32(_SMALL)
    clear = (xp.abs(a) >= small) & (xp.abs(b) >= small) & (xp.abs(found) >= small)
    exact = (a == 0) | (b == 0) | (a == -b) | (clear & (lost <= 0))
    more = xp.where(
        xp.abs(found) < small, found + xp.float32(_STEP), xp.nextafter(found, xp.float32(np.inf))
    )
    return xp.where(exact, found, more)
