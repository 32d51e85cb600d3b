"""Lower-triangular Toeplitz matrices, as power series: the first column has the coefficients.

Products of such matrices are products of series, cut after x^(steps-1), and inverses are inverses:
a T x T matrix is never formed, and all that is here costs O(T log T).
"""

import numpy as np

from jaxpriv import _array as xp

_DIRECT = 64  # up to that many coefficients a product is summed as it stands, without transforms


def padded(column, steps):
    """The first `steps` coefficients, zeros where there are no more."""
    column = column[:steps]
    zeros = xp.zeros(steps - column.shape[0], column.dtype)
    return xp.concatenate([column, xp.like(zeros, column)])


def multiply(one, other, steps):
    """The first `steps` coefficients of a product of two series."""
    one, other = one[:steps], other[:steps]
    if min(one.shape[0], other.shape[0]) <= _DIRECT and steps <= 16 * _DIRECT:
        return padded(xp.convolve(one, other), steps)
    length = one.shape[0] + other.shape[0]
    size = 1 << (length - 1).bit_length()
    product = xp.fft.irfft(xp.fft.rfft(one, size) * xp.fft.rfft(other, size), size)
    return padded(product[:length], steps)


def inverse(column, steps):
    """The first `steps` coefficients of 1/series, whose first coefficient is not zero."""
    return _inverse(column, steps)


def _newton(column, steps):
    """With g c = 1 + x^n e(x) the inverse goes on as g - x^n g e, twice as far.

    What is known already stays as it is, so that a later coefficient's rounding does not reach an
    earlier one.
    """
    found = 1 / column[:1]
    while found.shape[0] < steps:
        known = found.shape[0]
        length = min(2 * known, steps)
        rest = multiply(column, found, length)[known:]
        found = xp.concatenate([found, -multiply(found, rest, length - known)])
    return found


_inverse = xp.custom_jvp(_newton, nondiff_argnums=(1,))


@_inverse.defjvp
def _(steps, primals, tangents):
    """d(1/c) = -(1/c)^2 dc, one product instead of Newton's many."""
    found = _inverse(primals[0], steps)
    return found, -multiply(multiply(found, found, steps), tangents[0], steps)


def square_root(steps):
    """(1 - x)^(-1/2), binom(2j, j)/4^j: the matrix whose square sums up.

    Of all Toeplitz factorisations that of the least maximal error for a record that takes part
    once (Fichtenberger, Henzinger, Upadhyay 2023; Dvijotham et al. 2024).
    """
    index = np.arange(1, steps)
    return np.cumprod(np.concatenate([[1.0], (2 * index - 1) / (2 * index)]))


def inverse_square_root(steps):
    """(1 - x)^(1/2): 1, then all negative, -binom(2j, j)/(4^j (2j - 1))."""
    index = np.arange(1, steps)
    return np.cumprod(np.concatenate([[1.0], (2 * index - 3) / (2 * index)]))
