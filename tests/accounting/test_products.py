"""A line's sums at thousands of eps by products of matrices, against sums in more digits."""

import numpy as np
import pytest

from jaxpriv.composition import enclosure, products
from jaxpriv.composition.frequencies import kernel
from tests.slips import check_is_red

ULP = np.finfo(np.float64).eps
CENTER = 3.0
EPS = CENTER + np.linspace(-0.5, 0.7, 401)
# name: (how far the frequencies are apart, log of their moduli)
LINES = {
    "normal": (0.04, -0.25 * (0.04 * np.arange(300)) ** 2),
    "slow": (0.1, -2 * np.log1p(0.1 * np.arange(1000))),
    "level": (0.5, np.zeros(64)),
    "long": (0.3, -1e-4 * np.arange(13_000)),
    "one": (4.0, np.zeros(1)),
}
KINDS = [(enclosure.DELTA, 0.7), (enclosure.DELTA, -0.3), (enclosure.POWER, 2.0)]


def check(name, kind=enclosure.DELTA, a=0.7):
    spacing, log_size = LINES[name]
    y = spacing * (np.arange(log_size.size) + 0.5)
    angle = 3.0 * y - np.sqrt(y)
    own = products.Products(kind, a, CENTER, y, log_size, angle, np.full(y.shape, 16.0))
    found = own.sums(EPS)
    wide = y.astype(np.longdouble)
    turned = angle.astype(np.longdouble) - EPS.astype(np.longdouble)[:, None] * wide
    re, im = kernel(kind, np.longdouble(a), wide)
    parts = np.exp(log_size) * np.exp(1j * turned) * (re + 1j * im)
    value, slope = np.sum(parts.real, -1), np.sum(((a + 1j * wide) * parts).real, -1)
    modulus = np.abs(parts)
    assert (np.abs(found.value - value) <= ULP * found.size).all()
    assert (np.abs(found.slope - slope) <= 10 * ULP * found.size * (a + y[-1])).all()
    # and not by much more than what frequency by frequency they would be
    ulps = 16 + 2 * np.abs(turned) + 2 * np.abs(EPS)[:, None] * y
    assert (found.size <= 5 * np.sum(modulus * ulps, -1)).all()


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(("kind", "a"), KINDS)
def test_errors_are_within_what_is_said(name, kind, a):
    check(name, kind, a)


def test_slip_is_seen(monkeypatch):
    real = products.Products._summed
    check_is_red(monkeypatch, products.Products, "_summed",
                 lambda own, away: real(own, away * (1 + 1e-10)), lambda: check("normal"))
    check_is_red(monkeypatch, products, "kernel", lambda kind, a, y: (1.0, 0.0),
                 lambda: check("normal"))
