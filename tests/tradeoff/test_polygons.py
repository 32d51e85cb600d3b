"""Bounds of mechanisms with finitely many outcomes: polygons, in closed form."""

import mpmath
import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case


def beta(epsilon, delta, alpha):
    with mpmath.workdps(60):
        e, d, a = map(mpmath.mpf, (epsilon, delta, alpha))
        return max(mpmath.mpf(0), 1 - d - mpmath.exp(e) * a, mpmath.exp(-e) * (1 - d - a))


@pytest.mark.parametrize("symmetric", [False, True])
def test_beta_of_a_black_box(symmetric):
    """At corners, beyond them, and where nothing is left of 1 - delta - e^eps alpha."""
    epsilon = [6.9, 6.9, 0.0, 1e-16, 45.0, 700.0, 1e5, 1.0, 1.0, 1.0, 3.0, 1e5]
    delta = [1e-4, 0.0, 0.0, 0.3, 2e-8, 0.0, 1e-3, 1.0, 0.5, 0.0, 1e-5, 1e-300]
    corner = np.exp(-6.9) / (1 + np.exp(-6.9))
    alpha = [0.001, corner, 0.3, 0.6, 1e-4, 1e-300, 1e-5, 0.2, 0.4, 1e-310, 0.0, 0.0]
    curve = worst_case.approximate_dp(np.array(epsilon), np.array(delta))
    low, high = (curve.symmetric() if symmetric else curve).beta_bounds(np.array(alpha))
    for row in zip(epsilon, delta, alpha, low, high):
        truth = beta(*row[:3])
        assert mpmath.mpf(float(row[3])) <= truth <= mpmath.mpf(float(row[4])), row
        assert row[4] - row[3] <= 1e-7 * row[4] + 1e-307, row


def test_beta_of_a_sampled_black_box():
    """Against the maximum over slopes, which are those of its sides."""
    curve = worst_case.approximate_dp(2.0, 1e-3).subsample(0.2)
    eps = np.log1p(0.2 * np.expm1([-np.inf, -2.0, 2.0]))
    for alpha in (1e-6, 0.05, 0.3, 0.9, 1 - 1e-9):
        low, high = curve.beta_bounds(alpha)
        truth = np.max(1 - curve.delta(eps) - np.exp(eps) * alpha)
        assert low - 1e-14 <= truth <= high + 1e-14
        assert high - low < 1e-9 * high


def test_what_is_told_has_no_epsilon_and_no_mu():
    curve = worst_case.approximate_dp(1.0, np.array([1e-5, 1e-5, 0.0]))
    low, high = curve.epsilon_bounds(np.array([1e-6, 1e-5, 1e-5]))
    assert low[0] == high[0] == np.inf
    assert high[1] == 1.0
    assert high[2] - low[2] < 1e-12
    low, high = curve.gdp_mu_bounds()
    assert low[0] == high[0] == np.inf
    assert high[2] - low[2] < 1e-12


def test_mu_of_a_response():
    """G_mu passes its corner: mu = 2 Phi^-1(1/(1 + e^-eps))."""
    for epsilon in (1e-4, 1.0, 30.0):
        low, high = worst_case.randomized_response(epsilon).gdp_mu_bounds()
        with mpmath.workdps(40):
            mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(mpmath.mpf(epsilon) / 2))
        assert low <= mu <= high
        assert high - low < 1e-12 * max(high, 1.0)


@pytest.mark.parametrize("alpha", [0.01, 0.1411, 0.3, 0.6, 0.95])
def test_mixed_polygons_between_two_of_their_corners(alpha):
    """Where no slope's test has the level it is that of the corner, whichever member bends."""
    boxes = [worst_case.randomized_response(0.4), worst_case.randomized_response(2.5)]
    curve = jaxpriv.mixture(boxes, [0.7, 0.3])
    losses = np.concatenate([np.linspace(-3, 3, 6001), [-2.5, -0.4, 0.4, 2.5]])
    exact = np.min(curve.delta(losses) + np.exp(losses) * alpha)
    for one in (curve, curve.symmetric()):
        assert np.isclose(one.power(alpha), exact, rtol=1e-9)
        low, high = one.beta_bounds(alpha)
        assert low <= 1 - exact <= high
        assert high - low < 1e-5


def test_what_is_told_for_sure_needs_no_false_alarm():
    box = worst_case.approximate_dp(1.0, 0.1)
    for curve in (box, box.symmetric()):
        assert np.isclose(curve.power(0.0), 0.1, rtol=1e-14)
        assert np.isclose(curve(0.0), 0.9, rtol=1e-14)
