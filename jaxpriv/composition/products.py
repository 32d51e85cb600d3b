"""By NumPy: what a line's frequencies add up to at thousands of eps, by products of matrices.

They are equally far apart, y_k = (k + 1/2) s, so that with k = n i + j for n to a row

    sum_k w_k e^(-i y_k t) = sum_i e^(-i n s i t) sum_j w_(n i + j) e^(-i (j + 1/2) s t),

which for every t turns a number to a row and another to a column, not all. t is counted from the
line's own eps.

With u an ulp, twice a rounding, and S = sum_k |w_k|, a product's sums of 2 n real numbers, in any
order, are off by n u S, and NumPy's own, in pairs of partial sums of 16, by less than 16 u S; the
turns of w_k by 4 u |y_k t|, and w_k itself by what is known of it.
"""

import numpy as np

from jaxpriv.composition.frequencies import Sums, kernel

_AT_ONCE = 4096  # eps
_COLUMNS = 16  # fewer leave more turns, more lose digits
_ROUNDED = _COLUMNS + 16.0 + 8.0  # ulps of S, with those of turns and of their products


class Products:
    """The frequencies of one line, for eps near `center`."""

    def __init__(self, kind, a, center, y, log_size, angle, ulps):
        self._center, self._spacing = center, 2 * y[0]
        rows = -(-y.size // _COLUMNS)
        re, im = kernel(kind, a, y)
        size, left = np.exp(log_size), angle - center * y
        weights = size * np.exp(1j * left) * (re + 1j * im)
        both = np.zeros((2, rows * _COLUMNS), complex)
        both[:, : y.size] = weights, (a + 1j * y) * weights
        self._weights = both.reshape((2, rows, _COLUMNS)).transpose((0, 2, 1))
        modulus = np.abs(weights)
        ulps = ulps + _ROUNDED + 2 * np.abs(left) + 2 * np.abs(center * y)
        self._size, self._turns = np.sum(modulus * ulps), 4 * np.sum(modulus * y)
        self._rest, self._alive, self._reach = modulus[-1], size[-1], y[-1]

    def sums(self, eps):
        """The `Sums` at eps (k,)."""
        value, slope = np.empty((2, eps.size))
        for first in range(0, eps.size, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            value[part], slope[part] = self._summed(eps[part] - self._center)
        size = self._size + np.abs(eps - self._center) * self._turns
        return Sums(value, slope, size, self._rest, self._alive, self._reach)

    def _summed(self, away):
        rows = self._weights.shape[-1]
        by_row = _COLUMNS * self._spacing * np.arange(rows)
        within = self._spacing * (np.arange(_COLUMNS) + 0.5)
        turns = _turns(away, within) @ self._weights
        return np.sum((_turns(away, by_row) * turns).real, -1)


def _turns(away, y):
    """e^(-i y t) for t (k,) and y (n,): NumPy's own exponential takes twice as long."""
    angle = away[:, None] * y
    found = np.empty(angle.shape, complex)
    np.cos(angle, out=found.real)
    np.sin(-angle, out=found.imag)
    return found
