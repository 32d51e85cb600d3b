"""What plots and tables do to numbers: the curve drawn from its profile,
and roundings to the safe side.
"""

import numpy as np
import pytest

import jaxpriv
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.report.profiles import trade_off
from jaxpriv.report.training_rows import _least


@pytest.mark.parametrize(
    ("curve", "largest"),
    [(jaxpriv.worst_case.gaussian(2.0), 8.0), (jaxpriv.worst_case.laplace(1.0), 1.0)],
)
def test_trade_off_curve_from_its_profile(curve, largest):
    """The corners of supporting lines lie below the curve, by less than a line's width,
    and mirror each other.
    """
    epsilons = largest * np.linspace(0, 1, 48) ** 2
    alpha, beta = trade_off(epsilons, np.asarray(curve.delta(epsilons)))
    gap = np.asarray(curve(alpha)) - beta
    assert np.all(gap > -1e-12)
    assert np.all(gap < 2e-3)
    assert np.all(np.diff(alpha) >= 0)
    np.testing.assert_array_equal(alpha, beta[::-1])


def test_no_adversary_is_drawn_below_the_worst_case():
    """An approximate profile that says more than the worst case becomes it; a weaker one stays."""
    worst, weak, strong = ({"profile": {"0": delta, "1": delta / 9}} for delta in (0.2, 0.1, 0.3))
    fixed = {"epsilon": 1.0, "advantage": 0.2}
    worst, weak, strong = ({**fixed, **row} for row in (worst, weak, strong))
    mixed = {**fixed, "profile": {"0": 0.1, "1": 0.3}}
    assert _least(weak, worst)["profile"] == weak["profile"]
    assert _least(strong, worst)["profile"] == worst["profile"]
    assert _least(mixed, worst)["profile"] == {"0": 0.1, "1": 0.2 / 9}


@pytest.mark.parametrize("value", [1.2345678, 0.99999, 1e-7 / 3, 123456.0, 2.0, 0.5, 0.0, np.inf])
def test_roundings(value):
    low, high = float(rounded_down(value)), float(rounded_up(value))
    assert low <= value <= high
    assert low == high == value or high < low * 1.0011
