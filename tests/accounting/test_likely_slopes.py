"""Bounds at a level: from lines next to a slope that is guessed, and from the envelope's own where
that does not serve.
"""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import relaxed, worst_case
from jaxpriv.composition import by_integrals, enclosure
from jaxpriv.composition.composed import Composed
from jaxpriv.tradeoff import hull, stepping
from tests.slips import check_is_red

LEVELS = np.array([1e-6, 1e-3, 0.1, 0.5, 0.93])
CURVES = {
    "dp-sgd": lambda: worst_case.subsampled_gaussian(1.0, 0.01, 1000),
    "one step": lambda: worst_case.gaussian(2.0).subsample(0.2),
    "few steps": lambda: worst_case.subsampled_gaussian(1.0, 0.1, 3),
    "users": lambda: worst_case.user_level(1.0, 0.01, 100, 3),
    "relaxed": lambda: relaxed.subsampled_gaussian(1.0, 0.01, 1000, 10),
    "laplace": lambda: worst_case.laplace(0.3).subsample(0.1).compose(10),
}


def refuse(*_):
    raise AssertionError("was searched for")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CURVES if name != "laplace"])
def test_no_search_where_the_guess_serves(monkeypatch, name):
    curve = CURVES[name]().symmetric()
    monkeypatch.setattr(hull.Hull, "_searched", refuse)
    low, high = curve.beta_bounds(LEVELS)
    assert np.all(high - low <= 1e-7 * high)
    low, high = curve.precision_bounds(LEVELS, 0.3)
    assert np.all(high - low <= 1e-6 * high)


def check_wrong_guesses(name="dp-sgd"):
    """The other direction's slope at every level: another bracket of the same width."""
    curve = CURVES[name]()
    low, high = curve.symmetric().beta_bounds(LEVELS)
    other_low, other_high = curve.reversed().symmetric().beta_bounds(LEVELS)
    assert np.all(np.maximum(low, other_low) <= np.minimum(high, other_high))
    assert np.all(other_high - other_low <= 4 * (high - low) + 1e-11)
    assert curve.reversed().symmetric().beta_bounds(1e-3)[1] < 0.999


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_wrong_guesses_serve_as_well(name):
    check_wrong_guesses(name)


@pytest.mark.parametrize("guess", [0.0, 5.0, -700.0, np.nan])
def test_any_guess_is_put_right(monkeypatch, guess):
    curve = CURVES["one step"]().symmetric()
    want = curve.beta_bounds(LEVELS)
    monkeypatch.setattr(hull.Hull, "likely_slope", lambda self, alpha: np.full_like(alpha, guess))
    np.testing.assert_allclose(curve.beta_bounds(LEVELS), want, rtol=1e-9)


def test_a_bracket_that_is_narrow_for_another_reason_is_no_answer():
    """The line of a wrong guess touched further left; there it was known to 7e-5, of 8e-7."""
    curve = worst_case.subsampled_gaussian(0.9700940420168035, 0.05591134603096633, 2341)
    low, high = curve.reversed().symmetric().beta_bounds(0.8886900283223533)
    assert 0 <= high - low < 1e-10
    want_low, want_high = curve.symmetric().beta_bounds(0.8886900283223533)
    assert max(low, want_low) <= min(high, want_high)


@pytest.mark.parametrize("mu", [1e-2, 1e-5, 1e-8, 1e-10])
def test_what_a_guess_leaves_open_is_searched_for(monkeypatch, mu):
    """However little there is to gain."""
    curve = worst_case.gaussian(mu).subsample(0.1).reversed().symmetric()
    low, high = curve.beta_bounds(LEVELS)
    monkeypatch.setattr(hull.Hull, "likely_slope", lambda self, alpha: None)
    own_low, own_high = curve.beta_bounds(LEVELS)
    # but for the rounding of 1 - delta - e^eps alpha
    assert np.all(high - low <= 1.01 * (own_high - own_low) + 1e-14)
    assert np.all(high - low < 1e-12)


def all_seen(*arguments, true=stepping._by_lines_next_to):
    low, high, seen, times = true(*arguments)
    return low, high, np.ones_like(seen), np.zeros_like(times)


@pytest.mark.slow
def test_a_guess_that_is_never_put_right_is_noticed(monkeypatch):
    check_is_red(monkeypatch, stepping, "_by_lines_next_to", all_seen, check_wrong_guesses)


def test_several_curves_have_no_guess():
    several = jaxpriv.worst_of(worst_case.gaussian(1.0), worst_case.laplace(1.0))
    assert several.symmetric().experiment.likely_slope(LEVELS) is None
    low, high = several.beta_bounds(LEVELS)
    assert np.all(high - low < 1e-9)


@pytest.mark.slow
def test_a_kink_is_seen_through_wide_brackets():
    """The one of the middle piece, of whose profile 1e-8 is known along endless frequencies."""
    low, high = relaxed.subsampled_gaussian(1.0, 0.3, 4, 1).symmetric().beta_bounds(0.5)
    assert 0 <= high - low < 2e-7


@pytest.mark.slow
def test_slopes_next_to_the_largest_loss_are_found_along_lines(monkeypatch):
    """Newton's steps from below would pass it, where an integral is rounding."""
    experiment = relaxed.subsampled_gaussian(1.0, 0.3, 4, 1).experiment
    spread = experiment.aligned((), np.float64)
    want = spread.find_slope(np.asarray(1e-3), True)
    monkeypatch.setattr(by_integrals, "slope", refuse)
    found = spread.find_slope(np.asarray(1e-3), True)
    assert found == want
    level = np.exp(spread.touch(found, True).log_alpha)
    assert level == pytest.approx(1e-3, rel=1e-8)


def test_nothing_is_computed_beyond_the_largest_loss(monkeypatch):
    asked = []
    true = enclosure._bracket

    def counted(terms, eps, kind):
        asked.append(eps)
        return true(terms, eps, kind)

    monkeypatch.setattr(enclosure, "_bracket", counted)
    curve = relaxed.subsampled_gaussian(1.0, 0.15, 7, 1).reversed()
    low, high = curve.log_delta_bounds(np.array([0.1, 1.0, 2.0]))
    assert [len(eps) for eps in asked] == [1]
    assert np.all(high[1:] == -np.inf)
    assert low[0] <= high[0] < 0


@pytest.mark.slow
def test_either_sign_next_to_zero():
    """Lines for eps > 0 of one direction serve those below of the other one."""
    own = CURVES["few steps"]().experiment.aligned((), np.float64)
    assert isinstance(own, Composed)
    ends = np.array([-0.1, -1e-4, 0.0, 1e-4, 0.1])
    for center in (0.0, -1e-5, 1e-5):
        for reverse in (False, True):
            low, high, _ = own.brackets_near(np.asarray(center), ends, reverse)
            for eps, lower, upper in zip(ends, low, high):
                at = np.asarray(eps)
                own_low, own_high, _ = own.bracket(at, at, reverse)
                assert max(lower, own_low) <= min(upper, own_high)
                assert upper - lower < 1e-8
