"""Estimates where a record seldom takes part, and little of the loss there may be is likely."""

import jax
import numpy as np
import pytest
from scipy.special import ndtr

from jaxpriv import compose, relaxed, worst_case
from jaxpriv.composition import estimates
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from tests.slips import check_is_red

ONE, Q = 1.0, 1e-6  # mu and the rate of the steps whose profiles are integrated here


def _profile(eps):
    """delta of a single step at any eps, without cancellation."""
    ratio = 1 + np.expm1(eps) / Q  # the likelihood ratio of a step with the record
    some = ratio > 0
    z = np.log(np.where(some, ratio, 1.0)) / ONE + ONE / 2
    told = Q * (ndtr(ONE - z) - ratio * ndtr(-z))
    return np.where(some, told, -np.expm1(eps))


def _laplace_profile(eps):
    """The same of Laplace noise of scale 1."""
    ratio = 1 + np.expm1(eps) / Q
    some = ratio > 0
    log_ratio = np.log(np.where(some, ratio, 1.0))
    inside = -np.expm1((np.minimum(log_ratio, 1.0) - 1) / 2)
    return np.where(some, Q * np.where(log_ratio > -1, inside, 1 - ratio), -np.expm1(eps))


def _of_two(eps, last=_profile):
    """delta of a step before the last: the mean of what is left to tell once its loss is known."""
    z = np.linspace(-12, 14, 400_001)
    loss = np.log1p(Q * np.expm1(ONE * z - ONE**2 / 2))
    mass = (1 - Q) * np.exp(-z * z / 2) + Q * np.exp(-((z - ONE) ** 2) / 2)
    return np.sum(mass * last(eps - loss)) * (z[1] - z[0]) / np.sqrt(2 * np.pi)


def check_two_steps():
    curve = worst_case.subsampled_gaussian(1.0, Q, 2)
    for eps in (1e-8, 1e-6, 3e-6, 1e-5):
        delta = _of_two(eps)
        np.testing.assert_allclose(curve.delta(eps), delta, rtol=1e-4)
        np.testing.assert_allclose(curve.epsilon(delta), eps, rtol=3e-3)
        # the line of that slope is a bound of the power everywhere, and the power where it touches
        step = 1e-3 * eps
        alpha = (_of_two(eps - step) - _of_two(eps + step)) / (2 * step) * np.exp(-eps)
        power = delta + np.exp(eps) * alpha
        np.testing.assert_allclose(curve.power(alpha) - alpha, power - alpha, rtol=1e-3)
        # and the other direction's exchanges the errors
        other = curve.reversed().power(1 - power)
        np.testing.assert_allclose(other - (1 - power), power - alpha, rtol=1e-3)


@pytest.mark.slow
def test_two_steps_are_one_integral():
    check_two_steps()


@pytest.mark.slow
def test_beside_losses_that_end():
    """Brackets were vacuous where rare steps of noise with atoms stand beside others."""
    curve = compose(worst_case.laplace(1.0).subsample(Q), worst_case.subsampled_gaussian(1.0, Q, 1))
    for eps in (3e-7, 1e-6, 3e-6):
        delta = _of_two(eps, _laplace_profile)
        low, high = curve.delta_bounds(eps)
        assert low <= delta * (1 + 1e-9)
        assert delta * (1 - 1e-9) <= high <= low * 1.01
        low, high = curve.epsilon_bounds(delta)
        assert low * (1 - 1e-9) <= eps <= high * (1 + 1e-9)
        assert curve.epsilon(delta) == pytest.approx(eps, rel=0.02)


def check_past_the_end_of_others():
    """A lattice has no points for the rare step's losses, of which alone delta is left there."""
    curve = compose(worst_case.subsampled_gaussian(1.0, Q, 1), worst_case.laplace(0.3))

    def laplace(eps):
        inside = -np.expm1((np.minimum(eps, 0.3) - 0.3) / 2)
        return np.where(eps > -0.3, inside, -np.expm1(eps))

    for eps in (0.2999, 0.3, 0.301, 0.31):
        delta = _of_two(eps, laplace)
        assert curve.delta(eps) == pytest.approx(delta, rel=3e-3)
        assert curve.epsilon(delta) == pytest.approx(eps, abs=1e-5)


@pytest.mark.slow
def test_past_the_end_of_others():
    check_past_the_end_of_others()


@pytest.mark.slow
def test_slip_lattice_past_the_end(monkeypatch):
    check_is_red(monkeypatch, estimates, "_BLUR", np.inf, check_past_the_end_of_others)


KINDS = {
    "records of a user": lambda n: worst_case.user_level(1.0, Q, n, 3),
    "batches cut": lambda n: worst_case.truncated_gaussian(1.0, Q, n, **CUT),
    "one replaced": lambda n: worst_case.subsampled_gaussian(1.0, Q, n, adjacency="replace_one"),
    "put to zero": lambda n: worst_case.truncated_gaussian(1.0, Q, n, **CUT, adjacency="zero_out"),
    "relaxed": lambda n: relaxed.subsampled_gaussian(1.0, Q, n, 3),
    "whole numbers": lambda n: worst_case.discrete_gaussian(1.0).subsample(Q).compose(n),
    "Laplace": lambda n: worst_case.laplace(1.0).subsample(Q).compose(n),
    "responses": lambda n: worst_case.randomized_response(1.0).subsample(Q).compose(n),
}
CUT = {"dataset_size": 10**7, "largest_batch": 100}
AROUND_0 = np.linspace(-3e-5, 3e-5, 60_001)
BEYOND = np.geomspace(3e-5, 20.0, 20_001)[1:]
LOSSES = np.concatenate([-BEYOND[::-1], AROUND_0, BEYOND])


def two_of(profile, eps):
    """delta of two steps, from that of one: what is convex in e^eps bends by the probabilities
    that outcomes have without the record, and those with it are e^loss as large. Between the
    losses, which lie close, the second step's profile is a chord in e^eps as well.
    """
    told = profile(LOSSES)
    slope = np.diff(told) / np.diff(np.expm1(LOSSES))
    mass = np.exp(LOSSES) * np.diff(slope, prepend=-1.0, append=0.0)
    left = np.interp(np.expm1(eps[:, None] - LOSSES), np.expm1(LOSSES), told)
    return np.sum(mass * left, -1)


def check_of_any_kind(name):
    """Brackets hold what a sum over one step's losses says, and estimates lie close to it."""
    one, two = (KINDS[name](n) for n in (1, 2))
    eps = np.array([2e-7, 1e-6, 2e-6])
    delta = two_of(one.delta, eps)
    low, high = two.delta_bounds(eps)
    assert np.all(low * (1 - 1e-5) <= delta)
    assert np.all(delta <= high * (1 + 1e-5))
    assert np.all(high - low < 1e-4 * high)
    np.testing.assert_allclose(two.delta(eps), delta, rtol=1e-4)
    low, high = two.epsilon_bounds(delta)
    found = two.epsilon(delta)
    assert np.all(high - low < 3e-3 * high)
    assert np.all((low <= found) & (found <= high))
    np.testing.assert_allclose(found, eps, rtol=3e-3)
    alpha = np.array([0.3, 0.9])
    low, high = two.beta_bounds(alpha)
    told = 1 - alpha - low
    assert np.all(high - low < 0.03 * told)
    np.testing.assert_allclose(1 - alpha - two(alpha), told, rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_of_any_kind(name):
    check_of_any_kind(name)


@pytest.mark.slow
def test_slip_who_takes_part(monkeypatch):
    """Of steps that are thought to be seen always estimates would come from a lattice."""
    one = ReplacedGaussian.participation
    check_is_red(monkeypatch, ReplacedGaussian, "participation", lambda self: 0 * one(self) + 1,
                 lambda: check_of_any_kind("one replaced"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whole numbers", "Laplace"])
def test_kinks(name):
    """Where a single step's profile has kinks, a bracket still lies around the epsilon it is of."""
    curve = KINDS[name](16)
    low, high = curve.epsilon_bounds(0.9 * curve.advantage())
    assert 0 < high - low < 6e-3 * high


CURVES = {
    "two": worst_case.subsampled_gaussian(0.5, 1e-8, 2),
    "sixteen": worst_case.subsampled_gaussian(1.0, 1e-6, 16),
    "many": worst_case.subsampled_gaussian(1.0, 1e-6, 2000),
    "noisy": worst_case.subsampled_gaussian(3.0, 1e-6, 16).symmetric(),
    "laplace": worst_case.laplace(1.0).subsample(1e-6).compose(5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_estimates_lie_in_their_brackets(name):
    curve = CURVES[name]
    delta = 0.5 * curve.advantage_bounds()[0]
    low, high = curve.epsilon_bounds(delta)
    room = 1e-2 * high  # the middle of one bracket, and another one around it
    assert 0 < low - room <= curve.epsilon(delta) <= high + room


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.9])
def test_power_lies_in_its_bracket(alpha):
    curve = CURVES["two"]
    low, high = curve.beta_bounds(alpha)
    room = 1e-2 * (1 - alpha - low)
    assert low - room <= 1 - curve.power(alpha) <= high + room


@pytest.mark.slow
def test_a_program_does_not_say_that_nothing_is_told():
    epsilon = jax.jit(
        lambda rate, steps, delta: worst_case.subsampled_gaussian(1.0, rate, steps).epsilon(delta)
    )
    one, sixteen = worst_case.subsampled_gaussian(1.0, 1e-6, 1), CURVES["sixteen"]
    for delta in (3e-7, 1e-7, 1e-9):
        # one step is known in closed form, several by what single ones tell
        assert epsilon(1e-6, 1.0, delta) == pytest.approx(one.epsilon(delta), rel=1e-7)
        assert epsilon(1e-6, 16.0, delta) == pytest.approx(sixteen.epsilon(delta), rel=0.5)


@pytest.mark.slow
def test_slip_lattices_only(monkeypatch):
    monkeypatch.setattr(estimates, "doubled_of", lambda entry: None)
    check_is_red(monkeypatch, estimates, "rare", lambda entry: None, check_two_steps)
