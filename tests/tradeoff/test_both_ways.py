"""What is asked of both directions of a curve."""

from unittest import mock

import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import grown
from jaxpriv.composition.beside import Beside
from jaxpriv.composition.directed import Directed
from jaxpriv.tradeoff.experiment import ANY, Experiment
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


def several_steps():
    return worst_case.laplace(1.0).subsample(0.1).compose(20)


def check_narrow_where_it_counts():
    curve, eps = several_steps(), np.array([0.4, 2.5])
    low, high = curve.symmetric().delta_bounds(eps)
    ends = np.maximum(curve.delta_bounds(eps), curve.reversed().delta_bounds(eps))
    np.testing.assert_allclose((low, high), ends, rtol=1e-12)
    assert np.all(high - low < 1e-5 * high)
    assert np.ptp(curve.symmetric().beta_bounds(0.1)) < 1e-6


def test_narrow_lattices_for_the_larger_direction(monkeypatch):
    check_narrow_where_it_counts()
    asked, brackets = [], grown.brackets

    def noted(entry, *rest):
        asked.append((bool(entry.flipped), entry.width))
        return brackets(entry, *rest)

    monkeypatch.setattr(grown, "brackets", noted)
    several_steps().symmetric().delta_bounds(2.5)
    narrow = {flipped for flipped, width in asked if width is None}
    assert len(asked) == 3
    assert len(narrow) == 1


@pytest.mark.slow
def test_wide_ones_are_not_as_much_work(monkeypatch):
    """Lines beside others take longer than any lattice: once for each direction at most."""
    asked, near = [], Beside.near
    monkeypatch.setattr(Beside, "near", lambda self, *at: asked.append(at) or near(self, *at))
    steps = worst_case.subsampled_gaussian(0.7, 1e-4, 2000)
    low, high = jaxpriv.compose(steps, worst_case.laplace(0.3)).symmetric().delta_bounds(0.2)
    assert high - low < 1e-5 * high
    assert 1 <= len(asked) <= 2


def test_wide_ones_for_both_are_seen(monkeypatch):
    def wide(self, method, *values):
        return self.as_narrow_as(width=ANY)._both(method, *values)

    check_is_red(monkeypatch, Directed, "_larger", wide, check_narrow_where_it_counts)


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


def sampled(delta, reverse):
    """(both directions' epsilon, the larger one's alone), of steps beside what is told for sure."""
    curve = jaxpriv.compose(worst_case.laplace(1.0).subsample(0.1).compose(5),
                            worst_case.approximate_dp(0.1, 1e-4))
    return (curve.reversed() if reverse else curve).symmetric().epsilon_bounds(delta), max(
        curve.epsilon_bounds(delta), curve.reversed().epsilon_bounds(delta))


def check_smaller_directions():
    """The other direction's epsilon counts where it is larger, at a delta next to all there is."""
    for delta in (0.2, 0.05, 1e-3, 2e-4):
        for reverse in (False, True):
            both, larger = sampled(delta, reverse)
            np.testing.assert_allclose(both, larger, rtol=1e-5)


@pytest.mark.slow
def test_smaller_directions_are_left_out():
    check_smaller_directions()


def test_a_direction_that_is_left_out_is_noticed(monkeypatch):
    check_is_red(monkeypatch, grown, "is_below", lambda *_: True, check_smaller_directions)


def test_nothing_is_searched_in_the_smaller_direction(monkeypatch):
    monkeypatch.setattr(grown, "epsilon_bracket", mock.Mock(wraps=grown.epsilon_bracket))
    curve = jaxpriv.compose(worst_case.laplace(1.0).subsample(0.1).compose(5),
                            worst_case.randomized_response(0.1))
    curve.symmetric().epsilon_bounds(1e-6)
    assert grown.epsilon_bracket.call_count == 1
