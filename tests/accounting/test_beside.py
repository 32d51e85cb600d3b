"""Few steps beside many that a line serves, against closed forms, quadrature and lattices."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

import jaxpriv
from jaxpriv import _stored as stored
from jaxpriv import relaxed, worst_case
from jaxpriv.bridges import points
from jaxpriv.composition import beside, enclosure, enumerated, gridded, ladder
from jaxpriv.tradeoff import stepping
from tests.slips import check_is_red

SGD = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
RARE = worst_case.subsampled_gaussian(0.7, 1e-4, 2000)
PIPELINES = {
    "laplace": (SGD, worst_case.laplace(0.2)),
    "wide laplace": (SGD, worst_case.laplace(3.0)),
    "three": (SGD, worst_case.laplace(0.2), worst_case.laplace(0.1),
              worst_case.randomized_response(0.1)),
    "sampled laplace": (SGD, worst_case.laplace(1.0).subsample(0.1).compose(3)),
    "box": (SGD, worst_case.approximate_dp(0.3, 1e-6)),
    "whole numbers": (SGD, worst_case.discrete_gaussian(2.0).compose(3)),
    "relaxed laplace": (SGD, relaxed.laplace(1.0)),
    "users": (worst_case.user_level(2.0, 0.01, 500, 3), worst_case.laplace(0.2)),
}


@pytest.fixture(autouse=True)
def _no_step_alone(monkeypatch):
    """One step beside counted outcomes would be summed over these."""
    monkeypatch.setattr(enumerated, "_BESIDE", 0)
    stored.forget()
    yield
    stored.forget()


def by_lattices(curve, method, at):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gridded, "beside_of", lambda _: None)
        stored.forget()
        return getattr(curve, method)(at)


def overlap(one, other):
    return one[0] <= other[1] and other[0] <= one[1]


def check_inside(bounds, truth, doubt, width):
    """The truth is known up to `doubt` of itself; the bracket is narrow."""
    low, high = bounds
    assert low <= truth * (1 + doubt)
    assert truth * (1 - doubt) <= high
    assert high <= low * (1 + width)


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("way", ["forward", "reversed"])
def test_overlaps_with_lattices_and_is_narrow(name, way):
    curve = jaxpriv.compose(*PIPELINES[name])
    curve = curve if way == "forward" else curve.reversed()
    for delta in (1e-5, 1e-2):
        found = curve.epsilon_bounds(delta)
        assert overlap(found, by_lattices(curve, "epsilon_bounds", delta))
        assert found[1] - found[0] <= 1e-5 * found[1] + 1e-7
    for epsilon in (0.0, 0.7, -0.4):
        found = curve.delta_bounds(epsilon)
        assert overlap(found, by_lattices(curve, "delta_bounds", epsilon))
        assert found[1] / found[0] - 1 < 2e-5


def check_response():
    """Beside noise of mu = 0.8: two normal profiles, to rounding."""
    noise, p = worst_case.gaussian(0.8), 1 / (1 + math.exp(-0.5))
    for sgd, width in ((noise, 1e-10), (SGD, 1e-8)):
        curve = jaxpriv.compose(sgd, worst_case.randomized_response(0.5))
        for epsilon in (-0.2, 0.3, 2.0):
            truth = p * sgd.delta(epsilon - 0.5) + (1 - p) * sgd.delta(epsilon + 0.5)
            check_inside(curve.delta_bounds(epsilon), truth, 1e-9, width)


def test_response():
    check_response()


def check_whole_numbers():
    """Its losses are (k - 1/2)/sigma^2, k of the law with the record."""
    curve = jaxpriv.compose(SGD, worst_case.discrete_gaussian(2.0))
    k = np.arange(-80, 82)
    mass = np.exp(-((k - 1) ** 2) / 8)
    mass /= mass.sum()
    for epsilon in (-0.3, 0.5, 3.0):
        truth = mass @ SGD.delta(epsilon - (k - 0.5) / 4)
        check_inside(curve.delta_bounds(epsilon), truth, 1e-9, 1e-7)
        low, high = curve.epsilon_bounds(truth)
        assert low <= max(epsilon, 0.0) * (1 + 1e-9) + 1e-9
        assert max(epsilon, 0.0) * (1 - 1e-9) <= high
        assert high - low <= 1e-7 * high


@pytest.mark.slow
def test_whole_numbers():
    check_whole_numbers()


@pytest.mark.slow
def test_slip_slope_of_the_other_direction(monkeypatch):
    """Newton's steps with it would not get to epsilon."""

    def not_turned(eps, found):
        lower, upper, _ = turned(eps, found)
        return lower, upper, found[2]

    turned = beside.from_other_direction
    check_is_red(monkeypatch, beside, "from_other_direction", not_turned, check_whole_numbers)


def check_laplace():
    """Its loss is 0.4 with probability 1/2, -0.4 with e^-0.4/2, and has a density between."""
    noise = worst_case.gaussian(0.8)
    curve = jaxpriv.compose(noise, worst_case.laplace(0.4))
    for epsilon in (0.1, 1.0, 3.0):
        truth = 0.5 * noise.delta(epsilon - 0.4) + 0.5 * math.exp(-0.4) * noise.delta(epsilon + 0.4)
        truth += quad(
            lambda loss, eps=epsilon: 0.25 * math.exp((loss - 0.4) / 2) * noise.delta(eps - loss),
            -0.4, 0.4, epsabs=0, epsrel=1e-11)[0]
        check_inside(curve.delta_bounds(epsilon), truth, 1e-10, 1e-6)
        check_inside(curve.epsilon_bounds(truth), epsilon, 1e-10, 1e-6)


def test_laplace():
    check_laplace()


def check_box():
    """With probability 1e-4 all is told."""
    noise = worst_case.gaussian(0.8)
    curve = jaxpriv.compose(noise, worst_case.approximate_dp(0.0, 1e-4))
    check_inside(curve.delta_bounds(1.0), 1e-4 + (1 - 1e-4) * noise.delta(1.0), 1e-12, 1e-9)


def test_box():
    check_box()


@pytest.mark.slow
def test_where_lines_are_no_good():
    """Rare heavy steps go to laws and lattices, at once."""
    curve = jaxpriv.compose(worst_case.subsampled_gaussian(0.5, 1e-5, 10), worst_case.laplace(0.1))
    assert overlap(curve.epsilon_bounds(1e-6), by_lattices(curve, "epsilon_bounds", 1e-6))


def check_rare_beside_noise():
    """Small losses of many steps lie closer together than lines of few frequencies show, and the
    other direction's end; near the largest loss of the noise that matters.
    """
    curve = jaxpriv.compose(RARE, worst_case.laplace(0.3))
    levels = np.linspace(0.0, 1.0, 9)
    for way in (curve, curve.reversed()):
        low, high = way.beta_bounds(levels)
        assert np.all(high - low < 5e-6)


@pytest.mark.slow
def test_rare_beside_noise():
    check_rare_beside_noise()


def check_kink():
    """Between both directions, where the slope of neither is the tangent's."""
    curve = jaxpriv.compose(RARE, worst_case.laplace(0.3))
    low, high = curve.symmetric().beta_bounds(0.1875)
    assert 0.744627 < low < high < 0.744630


@pytest.mark.slow
def test_a_kink_is_found_by_brackets(monkeypatch):
    check_kink()
    check_is_red(monkeypatch, stepping, "_as_shown", lambda curve, alpha, eps: eps, check_kink)


@pytest.mark.slow
def test_patience_and_what_falls_matter(monkeypatch):
    check_is_red(monkeypatch, enclosure, "_PATIENCE", 64, check_rare_beside_noise)
    check_is_red(monkeypatch, beside, "_fallen", lambda size, lower, upper: (
        np.where(np.isnan(lower), -np.inf, lower), np.fmin(upper, 0.0)), check_rare_beside_noise)


SLIPS = {
    "one law for both": lambda law: law._replace(upper=law.lower),
    "no infinite loss": lambda law: law._replace(
        upper=law.upper._replace(endless=0.0), lower=law.lower._replace(endless=0.0)),
    "mass": lambda law: law._replace(upper=law.upper._replace(mass=law.upper.mass * (1 - 1e-6))),
    "losses": lambda law: law._replace(upper=law.upper._replace(loss=law.upper.loss - 1e-6)),
}


def _slipped(known, slip):
    return None if known is None else known._replace(few=slip(known.few))


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    real = beside.Beside.law

    def check():
        check_response()
        check_laplace()
        check_box()

    check_is_red(monkeypatch, beside.Beside, "law",
                 lambda self, *at, **more: _slipped(real(self, *at, **more), SLIPS[name]), check)


def test_exchanged_hypotheses_are_seen(monkeypatch):
    """Of the few in the wrong direction."""
    real = beside.powers

    def wrong(steps, known, reverse, *more):
        return real(steps, [None if one is None else beside.tails(step, not reverse)
                            for (step, _), one in zip(steps, known)], not reverse, *more)

    check_is_red(monkeypatch, beside, "powers", wrong, lambda: (
        test_overlaps_with_lattices_and_is_narrow("sampled laplace", "forward")))


@pytest.mark.slow
def test_lines_are_placed_once():
    """What two questions to one composition have in common, near or far, is answered alike."""
    entry = jaxpriv.compose(SGD, worst_case.laplace(0.2)).experiment.aligned((), np.float64)
    once, again = beside.beside_of(entry), beside.beside_of(entry)
    near, far = np.linspace(1.5, 1.6, 5), np.linspace(2.5, 2.6, 5)
    law = once.law(1.5)
    first = once.brackets(law, near)
    ladders = [ladder.ladder_of(many.terms, None) for many in law.many]
    placed = [len(each) for each in ladders]
    assert sum(placed) > 0
    np.testing.assert_array_equal(np.stack(first), np.stack(once.brackets(law, near)))
    assert placed == [len(each) for each in ladders]
    for ends, width in ((near, 1e-7), (far, 1e-3)):
        low, high, _ = once.brackets(law, ends)
        lower, upper, _ = again.brackets(again.law(float(ends[0])), ends)
        assert np.all(low <= upper)
        assert np.all(lower <= high)
        assert np.all(high - low < width)


def test_a_list_of_outcomes():
    """Points of a profile beside users: told by `spelled`."""
    curve = jaxpriv.compose(points.curve([0.1, 1.1], [0.09, 1e-5]),
                            worst_case.gaussian_mixture([0.0, 0.14, 0.43], [0.3, 0.5, 0.2]))
    for way in (curve, curve.reversed()):
        assert overlap(way.delta_bounds(-0.4), by_lattices(way, "delta_bounds", -0.4))
        assert overlap(way.epsilon_bounds(0.01), by_lattices(way, "epsilon_bounds", 0.01))
