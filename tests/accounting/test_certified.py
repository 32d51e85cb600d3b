"""Certified numbers from bounds of delta alone are those of the curve's own bounds,
never on the wrong side.
"""

import numpy as np
import pytest

from jaxpriv import relaxed, worst_case
from jaxpriv.training.profile import CertifiedProfile

CURVES = {"gaussian": worst_case.gaussian(1.0), "weak": worst_case.gaussian(0.01),
          "strong": worst_case.gaussian(6.0), "laplace": worst_case.laplace(1.0),
          "response": worst_case.randomized_response(2.0),
          "box": worst_case.approximate_dp(1.0, 1e-6), "relaxed": relaxed.gaussian(2.0, 10),
          "nothing": worst_case.gaussian(0.0)}


def check_profile(curve):
    profile = CertifiedProfile(curve)
    for delta in (1e-2, 1e-5, 1e-9):
        low, high = profile.epsilon(delta)
        below, above = (float(bound) for bound in curve.epsilon_bounds(delta))
        assert low <= above * (1 + 1e-10)
        assert high >= below * (1 - 1e-10)
        if np.isfinite(above):
            assert high == pytest.approx(above, rel=1e-10, abs=1e-12)
            assert low == pytest.approx(below, rel=1e-10, abs=1e-12)
    assert profile.advantage() == float(curve.delta_bounds(0.0)[1])
    for fpr in (0.0, 1e-6, 1e-3, 0.1, 0.5, 0.97, 1.0):
        low, high = (1 - float(beta) for beta in curve.beta_bounds(fpr)[::-1])
        assert low * (1 - 1e-9) <= profile.tpr(fpr) <= high + 1e-7 * max(high, 1e-3)


@pytest.mark.parametrize("name", CURVES)
def test_profile(name):
    check_profile(CURVES[name].symmetric())


@pytest.mark.slow
def test_composition():
    check_profile(worst_case.subsampled_gaussian(1.2, 0.05, 500.0).symmetric())


def test_no_epsilon():
    """Where even epsilon = 512 is not enough."""
    low, high = CertifiedProfile(worst_case.approximate_dp(1.0, 1e-3).symmetric()).epsilon(1e-5)
    assert high == np.inf
    assert low >= 256


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("epsilon", 0.0, "delta = 0"), ("epsilon", np.nan, "delta = nan"),
     ("tpr", -0.1, "fpr = -0.1"), ("tpr", np.nan, "fpr = nan")],
)
def test_errors(name, value, words):
    with pytest.raises(ValueError, match=words):
        getattr(CertifiedProfile(CURVES["gaussian"].symmetric()), name)(value)


def test_nan_is_an_error():
    with pytest.raises(ArithmeticError, match="came out as NaN"):
        CertifiedProfile(worst_case.gaussian(np.float64(np.nan)).symmetric()).advantage()


def test_power_after_a_far_epsilon():
    """A line of slope e^800 is no number, and tells nothing."""
    profile = CertifiedProfile(CURVES["gaussian"].symmetric())
    want = profile.tpr(0.1)
    profile.delta(800.0)
    assert profile.tpr(0.1) == want
