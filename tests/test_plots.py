"""What plots and tables do to numbers: the curve drawn from its profile,
and roundings to the safe side.
"""

import numpy as np
import pytest
from matplotlib.figure import Figure

import jaxpriv
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.report import plots
from jaxpriv.report.plots import _trade_off
from jaxpriv.training.profile import CertifiedProfile


@pytest.mark.parametrize(
    ("curve", "largest"),
    [(jaxpriv.worst_case.gaussian(2.0), 8.0), (jaxpriv.worst_case.laplace(1.0), 1.0)],
)
def test_trade_off_curve_from_its_profile(curve, largest):
    """The corners of supporting lines lie below the curve, by less than a line's width,
    and mirror each other.
    """
    epsilons = largest * np.linspace(0, 1, 48) ** 2
    alpha, beta = _trade_off(epsilons, np.asarray(curve.delta(epsilons)))
    gap = np.asarray(curve(alpha)) - beta
    assert np.all(gap > -1e-12)
    assert np.all(gap < 2e-3)
    assert np.all(np.diff(alpha) >= 0)
    np.testing.assert_array_equal(alpha, beta[::-1])


def test_no_adversary_is_drawn_below_the_worst_case(monkeypatch, tmp_path):
    """An approximate curve that says more than the worst case is drawn on it;
    a weaker one as it is.
    """
    profiles = [(name, CertifiedProfile(jaxpriv.worst_case.gaussian(mu).symmetric()))
                for name, mu in (("worst case", 1.0), ("relaxed", 0.3), ("membership", 1.5))]
    for _, profile in profiles:
        profile.epsilon(1e-5)
    drawn = []
    monkeypatch.setattr(
        plots, "Figure", lambda **settings: drawn.append(Figure(**settings)) or drawn[-1]
    )
    plots.draw_training(profiles, [{"step": 1, "epsilon": 1.0}], 1e-5, None, tmp_path / "page.png")
    left, middle, _ = drawn[0].axes
    for axes, edge in ((left, -1), (middle, 1)):
        (x, least), (weak_x, weak), (strong_x, strong) = (
            line.get_data() for line in axes.lines[:3]
        )
        np.testing.assert_allclose(strong, np.interp(strong_x, x, least), rtol=2e-2, atol=1e-5)
        inside = (weak_x > 0.1) & (weak_x < 0.9)
        assert np.all(edge * (np.interp(weak_x, x, least) - weak)[inside] > 1e-3)


@pytest.mark.parametrize("value", [1.2345678, 0.99999, 1e-7 / 3, 123456.0, 2.0, 0.5, 0.0, np.inf])
def test_roundings(value):
    low, high = float(rounded_down(value)), float(rounded_up(value))
    assert low <= value <= high
    assert low == high == value or high < low * 1.0011
