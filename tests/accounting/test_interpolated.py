"""A line's sums at thousands of eps by a polynomial, against sums in more digits."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from jaxpriv._stored import forget
from jaxpriv.composition import enclosure, interpolated
from jaxpriv.composition.frequencies import Sums
from tests.slips import check_is_red

ULP = np.finfo(np.float64).eps
EPS = 3.0 + np.linspace(-0.5, 0.7, 4001)
# name: (frequencies, moduli)
LINES = {
    "normal": (y := np.linspace(0.01, 12, 300), np.exp(-0.25 * y**2)),
    "slow": (y := np.linspace(0.1, 100, 1000), 1 / (1 + y) ** 2),
    "level": (y := np.linspace(0.1, 30, 64), np.ones(64)),
    "one": (np.array([2.0]), np.array([1.0])),
}


def sums_of(y, modulus, number=np.float64):
    """eps -> their `Sums` with some angles at eps = 0, in numbers of a kind."""
    y, modulus = y.astype(number), modulus.astype(number)
    angle = np.sqrt(y)

    def sums(eps):
        turned = angle - np.asarray(eps, number)[..., None] * y
        parts, ulps = modulus * np.cos(turned), 16 + 2 * np.abs(turned) + 2 * y * np.abs(eps)[
            ..., None]
        slope = np.sum(parts - y * modulus * np.sin(turned), -1)
        return Sums(np.sum(parts, -1), slope, np.sum(modulus * ulps, -1), 0.0, 0.0, y[-1])

    return sums


def check(name):
    y, modulus = LINES[name]
    sums = sums_of(y, modulus)
    found = interpolated.between(sums, y, modulus, EPS, sums)
    truth = sums_of(y, modulus, np.longdouble)(EPS)
    assert (np.abs(found.value - truth.value) <= ULP * found.size).all()
    assert np.abs(found.slope - truth.slope).max() <= 1e-11 * np.sum((1 + y) * modulus)
    return found, sums_of(y, modulus)(EPS)


@pytest.mark.parametrize("name", LINES)
def test_errors_are_within_what_is_said(name):
    found, directly = check(name)
    assert np.max(found.size) <= 1000 * np.max(directly.size)


def test_few_polynomials_are_no_better():
    """Where frequencies turn too fast, or there are few eps, these are asked for themselves."""
    y, modulus = np.linspace(1, 2000, 1000), np.ones(1000)
    sums = sums_of(y, modulus)
    assert np.array_equal(interpolated.between(sums, y, modulus, EPS, sums).value, sums(EPS).value)
    y, modulus = LINES["normal"]
    some, sums = EPS[::100], sums_of(y, modulus)
    found = interpolated.between(sums, y, modulus, some, sums)
    assert np.array_equal(found.value, sums(some).value)


def test_one_place():
    y, modulus = LINES["normal"]
    sums = sums_of(y, modulus)
    for eps in (0.0, 3.0):
        at = np.full(1000, eps)
        found = interpolated.between(sums, y, modulus, at, sums)
        assert np.allclose(found.value, sums(at).value, rtol=1e-13)


@pytest.mark.parametrize("wrong", [
    {"_missed": lambda turns, modulus: np.zeros(len(interpolated._POINTS))},
    {"_POINTS": np.array([8])},
], ids=lambda wrong: next(iter(wrong)))
def test_slip_is_seen(monkeypatch, wrong):
    ((name, wrong),) = wrong.items()
    if name == "_POINTS":
        monkeypatch.setattr(interpolated, "_LEFT", np.inf)
        monkeypatch.setattr(interpolated, "_missed", lambda *_: np.zeros(1))
    check_is_red(monkeypatch, interpolated, name, wrong, lambda: check("level"))


def test_brackets_contain_those_of_one():
    """And are hardly wider."""
    curve = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
    terms = curve.experiment.aligned((), np.float64)._directed(np.asarray(False))
    spectrum = enclosure.Spectrum(terms, np.asarray(1.0), enclosure.DELTA, None)
    eps = 1.0 + 0.5 * spectrum.spread * np.linspace(-1, 1, 2000)
    (low, high, rate), (lower, upper, rates) = spectrum.bracket(eps), spectrum.brackets(eps)
    assert ((lower <= low) & (high <= upper)).all()
    assert np.max(upper - lower) <= 1e-9
    assert np.allclose(rate, rates, rtol=1e-9)


@pytest.mark.slow
def test_levels_of_a_pipeline():
    """Sixty levels at once are those of one at a time."""
    curve = jaxpriv.compose(worst_case.subsampled_gaussian(1.0, 0.01, 1000),
                            worst_case.laplace(0.2))
    levels = np.linspace(0.01, 0.99, 60)
    lower, upper = curve.beta_bounds(levels)
    assert (upper - lower <= 1e-6 * upper).all()
    for k in (0, 20, 59):
        forget()
        low, high = curve.beta_bounds(levels[k])
        assert low <= upper[k]
        assert lower[k] <= high
