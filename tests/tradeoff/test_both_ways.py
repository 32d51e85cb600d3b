"""What is asked of both directions of a curve."""

import numpy as np
import pytest

from jaxpriv import worst_case
from jaxpriv.tradeoff.experiment import Experiment
from tests.slips import check_is_red

EPS, ALPHA = np.array([0.0, 0.05, 0.3, 0.9]), np.array([1e-3, 0.1, 0.6])
ASYMMETRIC = {
    "laplace": lambda: worst_case.laplace(1.0).subsample(0.1),
    "gaussian": lambda: worst_case.gaussian(1.0).subsample(0.1),
    "black box": lambda: worst_case.approximate_dp(1.0, 1e-3).subsample(0.2),
}


def check_largest(name):
    """The larger direction counts, which is the one at eps and the other at -eps."""
    curve = ASYMMETRIC[name]().reversed()
    both, other = curve.symmetric(), curve.reversed()
    np.testing.assert_allclose(
        both.log_delta(EPS), np.maximum(curve.log_delta(EPS), other.log_delta(EPS)), rtol=1e-12)
    np.testing.assert_allclose(
        both.epsilon(1e-3), max(curve.epsilon(1e-3), other.epsilon(1e-3)), rtol=1e-12)
    for bound, one, two in zip(*(c.delta_bounds(EPS) for c in (both, curve, other))):
        np.testing.assert_allclose(bound, np.maximum(one, two), rtol=1e-12)
    assert np.all(both(ALPHA) <= np.minimum(curve(ALPHA), other(ALPHA)) + 1e-12)


@pytest.mark.parametrize("name", ASYMMETRIC)
def test_the_larger_direction_counts(name):
    check_largest(name)


def test_one_direction_for_both_is_seen(monkeypatch):
    def once(self, of):
        return of(False), of(False)

    check_is_red(monkeypatch, Experiment, "_both_ways", once, lambda: check_largest("laplace"))


def test_equal_directions_are_computed_once(monkeypatch):
    asked = []
    curve = worst_case.approximate_dp(0.5, 1e-4).group(2)
    of = type(curve.experiment)
    log_delta = of.log_delta
    monkeypatch.setattr(
        of, "log_delta",
        lambda self, eps, reverse: asked.append(reverse) or log_delta(self, eps, reverse))
    curve.symmetric().log_delta(0.3)
    assert len(asked) == 1
