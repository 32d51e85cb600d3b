"""What plots and tables do to numbers: the curve drawn from its profile, and roundings to the safe side."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv.report.plots import _trade_off
from jaxpriv.report.table import rounded_down, rounded_up


@pytest.mark.parametrize(("curve", "largest"), [(jaxpriv.worst_case.gaussian(2.0), 8.0), (jaxpriv.worst_case.laplace(1.0), 1.0)])
def test_trade_off_curve_from_its_profile(curve, largest):
    """The corners of supporting lines lie below the curve, by less than a line's width, and mirror each other."""
    epsilons = largest * np.linspace(0, 1, 48) ** 2
    alpha, beta = _trade_off(epsilons, np.asarray(curve.delta(epsilons)))
    gap = np.asarray(curve(alpha)) - beta
    assert np.all(gap > -1e-12)
    assert np.all(gap < 2e-3)
    assert np.all(np.diff(alpha) >= 0)
    np.testing.assert_array_equal(alpha, beta[::-1])


@pytest.mark.parametrize("value", [1.2345678, 0.99999, 1e-7 / 3, 123456.0, 2.0, 0.5, 0.0, np.inf])
def test_roundings(value):
    low, high = float(rounded_down(value)), float(rounded_up(value))
    assert low <= value <= high
    assert low == high == value or high < low * 1.0011
