"""The Fourier transform of the law of a sum of independent losses on one lattice, in logarithms:
those of the steps add up. With it goes what rounding may have done to it.

By NumPy it ends where nothing is left: of many steps a few frequencies in a thousand matter.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp

_SILENT = -45.0  # log of a modulus
_NO_NUMBER = 1e-290  # of a modulus squared


class Spectrum(NamedTuple):
    """Of several laws (laws, frequencies): log and angle of the transform; log_most and unrest of a
    bound of its modulus and of its relative error. (laws,): log_silent, of the sum of the moduli
    that were left out.
    """

    log_size: jax.Array
    angle: jax.Array
    log_most: jax.Array
    unrest: jax.Array
    log_silent: jax.Array


def flat(laws, size, dtype):
    """Of no loss at all, for a lattice of so many points."""
    zeros = xp.zeros((laws, size // 2 + 1), dtype)
    return Spectrum(zeros, zeros, zeros, zeros, xp.full(laws, -xp.inf, dtype))


def of_step(masses, first, size, total, entry):
    """Of one step's masses (laws, points), which begin `first` points after the origin of a lattice
    of `size`, as far as the total's goes.

    entry: relative error of the masses; an output of the transform is a sum in log2 N levels.
    """
    ulp, frozen = xp.finfo(masses.dtype).eps, xp.stop_gradient
    sizes = frozen(xp.sum(xp.abs(masses), 1))
    phi = xp.fft.rfft(_placed(masses, first, size), axis=1)[:, : total.angle.shape[1]]
    square = phi.real**2 + phi.imag**2
    alive = square > _NO_NUMBER
    log_size = xp.where(alive, 0.5 * xp.log(xp.where(alive, square, 1.0)), -333.0)
    angle = xp.arctan2(xp.where(alive, phi.imag, 0.0), xp.where(alive, phi.real, 1.0))
    error = xp.max(sizes) * (entry + ulp * 4 * math.log2(size))
    modulus = frozen(xp.exp(log_size))
    unrest = error / (modulus + error) + ulp * frozen(xp.abs(log_size) + xp.abs(angle))
    return Spectrum(log_size, angle, xp.log(modulus + error), unrest, xp.log(sizes + error))


def _placed(masses, first, size):
    """On the whole lattice, around its end if need be."""
    count = masses.shape[1]
    if xp.any_jax(masses, first):
        padded = xp.pad(masses, ((0, 0), (0, size - count)))
        return xp.roll(padded, first.astype(xp.int32), 1)
    placed = np.zeros((len(masses), size))
    start = int(first) if np.isfinite(first) else 0  # of no steps at all nothing is known
    placed[:, (start + np.arange(count)) % size] = masses
    return placed


def audible(total):
    """By NumPy without the high frequencies that the steps so far leave nothing of. What was there
    at most is kept: a further step's transform is no larger than the sum of its masses' sizes.
    """
    if xp.any_jax(total.log_most):
        return total
    heard = np.flatnonzero(np.max(total.log_most, 0) > _SILENT)
    count = 1 + int(max(heard, default=0))
    if count == total.log_most.shape[1]:
        return total
    silent = np.logaddexp(total.log_silent, np.logaddexp.reduce(total.log_most[:, count:], 1))
    size, angle, most, unrest = (part[:, :count] for part in total[:4])
    return Spectrum(size, angle, most, unrest, silent)


def back(total, size):
    """(laws (laws, size), the noise (laws,) of each of their entries)."""
    modulus = xp.exp(total.log_size)
    turned = xp.make_complex(modulus * xp.cos(total.angle), modulus * xp.sin(total.angle))
    rounding = total.unrest + xp.finfo(modulus.dtype).eps * (8 + 4 * math.log2(size))
    noise = xp.sum(xp.exp(total.log_most) * rounding, 1) + xp.exp(total.log_silent)
    return xp.fft.irfft(turned, size, axis=1), 2 * noise / size
