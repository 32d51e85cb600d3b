"""Spectra of sums against convolutions in long double, with and without their silent ends."""

import numpy as np
import pytest

from jaxpriv.composition import spectrum
from tests.slips import check_is_red

SIZE = 1 << 12
ENTRY = 1e-15


def law(seed, points, smooth):
    """Masses of two laws, which add up to 1 and to a little less."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, points)
    mass = np.exp(-0.5 * (3 * x) ** 2) if smooth else rng.random(points)
    mass = mass / mass.sum()
    return np.stack([mass, 0.9 * mass])


def convolved(steps):
    """(masses (laws, points), place of the first) of the sum, in long double."""
    total, first = np.ones((2, 1), np.longdouble), 0
    for masses, start, count in steps:
        for _ in range(count):
            total = np.stack([np.convolve(a, b.astype(np.longdouble))
                              for a, b in zip(total, masses)])
            first += start
    return total, first


STEPS = [(law(0, 200, True), -100, 12), (law(1, 40, False), -7, 3), (law(2, 2, False), 3, 1)]


def total_of(steps):
    total = spectrum.flat(2, SIZE, np.float64)
    for masses, first, count in steps:
        one = spectrum.of_step(masses, np.float64(first), SIZE, total, ENTRY)
        total = spectrum.audible(spectrum.Spectrum(
            *(sums + count * part for sums, part in zip(total, one))))
    return total


def errors(total, steps=STEPS):
    """(how far the law that comes back is off, the noise that is told) of each law."""
    found, noise = spectrum.back(total, SIZE)
    masses, first = convolved(steps)
    truth = np.zeros((2, SIZE))
    truth[:, (first + np.arange(masses.shape[1])) % SIZE] = masses.astype(float)
    return np.max(np.abs(found - truth), 1), noise


def check_noise(steps=STEPS):
    """The law comes back up to the noise that is told, which is small."""
    total = total_of(steps)
    off, noise = errors(total, steps)
    assert np.all(off <= noise), (off, noise)
    assert np.all(noise < 1e-12)
    return total


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_convolution(order):
    total = check_noise([STEPS[k] for k in order])
    assert total.angle.shape[1] < SIZE // 16


def test_nothing_is_silent_of_two_outcomes():
    total = check_noise(STEPS[2:])
    assert total.angle.shape[1] == SIZE // 2 + 1
    assert np.all(total.log_silent == -np.inf)


def test_cut_early_the_noise_says_so(monkeypatch):
    """Whatever is left out is counted."""
    monkeypatch.setattr(spectrum, "_SILENT", -8.0)
    off, noise = errors(total_of(STEPS))
    assert np.all((off > 1e-9) & (off < noise)), (off, noise)


def test_silence_that_is_not_counted_is_seen(monkeypatch):
    monkeypatch.setattr(spectrum, "_SILENT", -8.0)
    real = spectrum.audible

    def wrong(total):
        return real(total)._replace(log_silent=total.log_silent)

    check_is_red(monkeypatch, spectrum, "audible", wrong, check_noise)


def test_rounding_that_is_not_counted_is_seen(monkeypatch):
    real = spectrum.of_step

    def wrong(*arguments):
        return real(*arguments)._replace(unrest=0.0, log_most=-60.0 + 0 * real(*arguments).log_most)

    check_is_red(monkeypatch, spectrum, "of_step", wrong, check_noise)
