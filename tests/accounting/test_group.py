"""Groups of records: closed forms, polygons iterated by hand, powers iterated level by level."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import Curve, relaxed, worst_case
from jaxpriv.tradeoff import group as of_group
from jaxpriv.tradeoff import outline
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.group import Group
from jaxpriv.tradeoff.hull import symmetrised
from tests.slips import check_is_red


def general(curve, size):
    """By the general path, also where there is a closed form."""
    return Curve(Group(symmetrised(curve.experiment), size))


def polygon(told, epsilon, size):
    """(levels, powers) of f_size of a black box at all its vertices: told + e^eps a up to the
    vertex, then 1 - e^-eps (1 - told - a)."""

    def power(a):
        return min(told + np.exp(epsilon) * a, 1 - np.exp(-epsilon) * (1 - told - a), 1.0)

    corner = (1 - told) / (1 + np.exp(epsilon))
    wanted, levels = [corner, 1 - told], {0.0, 1.0, corner}
    for _ in range(size - 1):  # the levels that some power maps to a vertex
        before = []
        for goal in wanted:
            low, high = 0.0, 1.0
            for _ in range(200):
                middle = (low + high) / 2
                low, high = (middle, high) if power(middle) < goal else (low, middle)
            before.append(high)
        levels |= set(before)
        wanted = [*wanted, *before]
    levels = np.array(sorted(levels))
    powers = levels
    for _ in range(size):
        powers = np.array([power(a) for a in powers])
    return levels, powers


@pytest.mark.parametrize(("mu", "size"), [(0.5, 3), (1e-4, 5)])
def test_gaussian_noise_shifts_further(mu, size):
    truth, found = worst_case.gaussian(mu * size), general(worst_case.gaussian(mu), size)
    scale = mu * size
    for epsilon in (0.0, 0.3 * scale, scale, 3 * scale, -scale):
        exact = truth.log_delta(epsilon)
        assert abs(found.log_delta(epsilon) - exact) < 1e-11
        low, high = found.log_delta_bounds(epsilon)
        assert exact - 1e-7 < low <= exact <= high < exact + 1e-11
    for delta in (0.05 * min(scale, 1.0), 1e-5 * scale):
        exact = truth.epsilon(delta)
        assert abs(found.epsilon(delta) - exact) <= 1e-11 * exact
        low, high = found.epsilon_bounds(delta)
        assert low <= exact <= high
        assert high - low < 1e-6 * exact
    assert np.isclose(found(0.1), truth(0.1), rtol=1e-12)
    assert found.gdp_mu() >= scale * (1 - 1e-15)
    group = worst_case.gaussian(mu).group(size)
    assert group.experiment.mu == scale


@pytest.mark.parametrize(("ratio", "size"), [(0.3, 3), (2.0, 2)])
def test_laplace_noise_shifts_further(ratio, size):
    truth, found = worst_case.laplace(ratio * size), general(worst_case.laplace(ratio), size)
    for epsilon in (0.0, 0.5 * ratio, ratio * size * 0.9, -ratio):
        assert np.isclose(found.delta(epsilon), truth.delta(epsilon), rtol=1e-9)
        low, high = found.delta_bounds(epsilon)
        assert low <= truth.delta(epsilon) * (1 + 1e-12)
        assert truth.delta(epsilon) <= high * (1 + 1e-12)
        assert high - low < 1e-7 * high + 1e-12
    assert worst_case.laplace(ratio).group(size).epsilon(0.0) == ratio * size


@pytest.mark.slow
@pytest.mark.parametrize("told", [0.0, 1e-3])
@pytest.mark.parametrize(("epsilon", "size"), [(0.5, 3), (1.2, 2), (0.01, 4)])
def test_black_boxes_by_their_polygons(epsilon, told, size):
    curve = worst_case.approximate_dp(epsilon, told).group(size)
    levels, powers = polygon(told, epsilon, size)
    for at in (0.0, 0.5 * epsilon, epsilon, (size - 0.4) * epsilon, 1.1 * size * epsilon):
        exact = np.max(powers - np.exp(at) * levels)
        assert np.isclose(curve.delta(at), exact, rtol=1e-9, atol=1e-13)
        low, high = curve.delta_bounds(at)
        assert low <= exact + 1e-13
        assert exact <= high + 1e-13
        assert high - low < 1e-5 * high + 1e-12
    endless = powers[0]
    largest = np.inf if told else size * epsilon
    assert np.isclose(curve.epsilon(endless * 0.9), largest, rtol=1e-12)
    assert np.isclose(curve.epsilon_bounds(endless * 0.5)[1], largest, rtol=1e-12)


def test_pure_privacy_adds_up():
    assert np.isclose(worst_case.randomized_response(0.7).group(4).epsilon(0.0), 2.8, rtol=1e-13)


def test_pure_privacy_among_other_deltas():
    """Found by the standing adversary: a delta of 0 beside others had a lower end above 3 eps."""
    epsilons = np.array([0.0002618702617270447, 0.3, 1.0, 7.0])
    curve = worst_case.k_ary_randomized_response(epsilons, 1000).group(3)
    low, high = curve.epsilon_bounds(np.array([0.0, 1e-5, 1e-9, 0.0]))
    for k in (0, 3):
        exact = 3 * Fraction(float(epsilons[k]))
        assert Fraction(float(low[k])) <= exact <= Fraction(float(high[k]))
        assert low[k] > 2.99 * epsilons[k]


def test_one_record_is_the_curve():
    for curve in (worst_case.gaussian(1.0), worst_case.randomized_response(1.0)):
        assert curve.group(1).epsilon(1e-3) == curve.epsilon(1e-3)
    curve = worst_case.randomized_response(0.3)
    twice = curve.group(2).group(3)
    assert np.isclose(twice.delta(0.7), curve.group(6).delta(0.7), rtol=1e-12)


def test_relaxed_shifts_add_up_and_other_relaxed_curves_are_refused():
    assert relaxed.gaussian(0.5, dim=7).group(3).epsilon(1e-5) == relaxed.gaussian(
        1.5, dim=7
    ).epsilon(1e-5)
    assert relaxed.laplace(0.5).group(2).epsilon(1e-3) == relaxed.laplace(1.0).epsilon(1e-3)
    step = relaxed.gaussian(0.5).subsample(0.1)
    for curve in (
        step,
        step.symmetric(),
        relaxed.subsampled_gaussian(1.0, 0.01, 10, 3),
        jaxpriv.membership.sgd_step(10.0, 5.0, 2.0),
        relaxed.gaussian_limit(0.5, 30),
    ):
        with pytest.raises(ValueError, match="full adversary"):
            curve.group(2)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2", np.nan])
def test_wrong_sizes_are_refused(size):
    with pytest.raises(ValueError, match="size = "):
        worst_case.gaussian(1.0).group(size)


def test_sampling_after_grouping_is_refused():
    with pytest.raises(ValueError, match="group"):
        worst_case.randomized_response(1.0).group(2).subsample(0.1)


def test_nan_gives_nan():
    curve = worst_case.randomized_response(0.5).group(3)
    assert np.isnan(curve.delta(np.nan))
    assert np.isnan(curve.epsilon(np.nan))
    assert np.isnan(curve(np.nan))
    assert np.isnan(curve.delta_bounds(np.nan)).all()


def iterated(curve, size, epsilon):
    """delta by powers, one link after the other, over a fine choice of levels."""
    levels = np.exp(np.linspace(-12.0, -0.05, 300))
    powers = levels
    for _ in range(size):
        powers = curve.power(np.minimum(powers, 1.0))
    return np.max(powers - np.exp(epsilon) * levels)


@pytest.mark.slow
def test_training_by_iterated_powers():
    curve = worst_case.subsampled_gaussian(1.0, 0.01, 300)
    group = curve.group(3)
    for epsilon in (1.0,):
        brute = iterated(curve, 3, epsilon)
        low, high = group.delta_bounds(epsilon)
        assert low * (1 - 1e-6) <= group.delta(epsilon) <= high * (1 + 1e-6)
        # a choice of levels is below the best of all, by what bends between them
        assert brute <= high * (1 + 1e-9)
        assert brute > high * (1 - 1e-2)
    # drawn one by one they are seldom drawn together
    users = worst_case.user_level(1.0, 0.01, 300, 3)
    assert users.epsilon(1e-5) < group.epsilon_bounds(1e-5)[1]


@pytest.mark.slow
def test_gradients_and_programs():
    """In jit the same numbers; by its parameters as by differences."""

    def of(epsilon, at):
        return worst_case.randomized_response(epsilon).group(3).log_delta(at)

    def power(epsilon, at):
        return worst_case.randomized_response(epsilon).group(3).power(at)

    def noisy(mu, at):
        return general(worst_case.gaussian(mu), 2).log_delta(at)

    for function, parameter, at in ((of, 0.5, 0.7), (power, 0.5, 0.1), (noisy, 0.8, 1.0)):
        with jax.enable_x64(True):
            exact = function(parameter, at)
            p, x = jnp.asarray(parameter), jnp.asarray(at)
            value, found = jax.jit(jax.value_and_grad(function, (0, 1)))(p, x)
            assert np.isclose(value, exact, rtol=1e-11)
        h = 1e-5
        for which, gradient in enumerate(found):
            up, down = ([parameter, at] for _ in range(2))
            up[which] += h
            down[which] -= h
            difference = (function(*up) - function(*down)) / (2 * h)
            assert np.isclose(gradient, difference, rtol=1e-6)


def check_gaussian_chain():
    """Slopes mu x - mu^2/2 at x, x - mu, ..."""
    mu, size, total = 0.7, 4, 3.0
    answer = outline.followed(NormalShift(np.array([mu])), size, np.array([total]),
                              lambda wanted, slopes, _: np.sum(slopes) - wanted)
    assert answer is not None
    found, chosen = answer
    first = total / (size * mu) + mu * size / 2
    assert np.allclose(found, first, rtol=1e-9)
    slopes = mu * (first - mu * np.arange(size)) - mu**2 / 2
    assert np.allclose(chosen[:, 0], slopes, rtol=1e-9)
    return size


def test_a_gaussian_chain_by_an_outline(monkeypatch):
    """A few places for each link are all that is asked for."""
    asked, contact = [], NormalShift.contact
    monkeypatch.setattr(NormalShift, "contact", lambda self, eps, reverse: (
        asked.extend(eps), contact(self, eps, reverse))[1])
    size = check_gaussian_chain()
    assert 0 < len(asked) <= 4 + 5 * size


@pytest.mark.slow
@pytest.mark.parametrize("training", [(1.0, 0.05, 26, 2), (2.0, 0.01, 1000, 5), (7, 1e-3, 121, 3)])
def test_brackets_by_outlines(training):
    *steps, size = training
    curve = worst_case.subsampled_gaussian(*steps).group(size)
    for delta in (1e-3, 1e-9):
        epsilon = curve.epsilon(delta)
        low, high = curve.epsilon_bounds(delta)
        assert low <= epsilon <= high <= low + 1e-7 * (1 + high)
        least, most = curve.log_delta_bounds(epsilon)
        assert least <= curve.log_delta(epsilon) <= most <= least + 1e-6
        assert abs(np.log(delta) - most) < 1e-6 or epsilon == 0


@pytest.mark.slow
def test_pieces_between_two_trainings():
    """The worst of both is straight where one takes over from the other."""
    steps = (1.0, 0.01, 1000), (0.5, 0.01, 20)
    curves = [worst_case.subsampled_gaussian(*each) for each in steps]
    group = jaxpriv.worst_of(*curves).group(2)
    epsilon = group.epsilon(0.05)
    low, high = group.epsilon_bounds(0.05)
    assert low <= epsilon <= high < low + 1e-7
    assert high >= max(curve.group(2).epsilon_bounds(0.05)[0] for curve in curves)


TRAINING = worst_case.subsampled_gaussian(1.0, 0.05, 26).group(2)


def check_outline():
    epsilon = TRAINING.epsilon(1e-5)
    assert abs(epsilon - 5.067387134932) < 1e-9
    low, high = TRAINING.epsilon_bounds(1e-5)
    assert high - low < 1e-7


@pytest.mark.slow
def test_outlines_lead_where_searches_do(monkeypatch):
    check_outline()
    value = TRAINING.log_delta(2.0)
    monkeypatch.setattr(Group, "_outlined", lambda *_: None)
    assert np.isclose(value, TRAINING.log_delta(2.0), rtol=1e-10)
    check_outline()


def test_levels_that_are_no_numbers():
    """Of five records epsilon was less than of four, where the first level is below e^-745."""
    steps = 1.0784, 0.366, 377
    found = [worst_case.subsampled_gaussian(*steps).group(k).epsilon(1.1e-9) for k in (3, 4, 5)]
    assert np.all(np.diff(found) > 200)
    # the same with noise alone says no less
    assert found[-1] < worst_case.gaussian(5 * np.sqrt(377) / 1.0784).epsilon(1.1e-9)
    # and its level is followed down to where a number ends
    assert abs(found[0] - 470.1) < 0.1


def check_lower_end():
    exact = worst_case.gaussian(1.5).epsilon(1e-5)
    low, high = general(worst_case.gaussian(0.5), 3).epsilon_bounds(1e-5)
    assert low <= exact <= high
    exact = worst_case.gaussian(1.5).log_delta(2.0)
    low, high = general(worst_case.gaussian(0.5), 3).log_delta_bounds(2.0)
    assert low <= exact <= high < low + 1e-6


def _off(true):
    def followed(*args):
        found, chosen = true(*args)
        return found, chosen + 0.02

    return followed


SLIPS = {
    "other slopes": (of_group, "followed", _off(of_group.followed), check_outline),
    "other quantiles": (outline, "_quantile", lambda *logs, true=outline._quantile: (
        true(*logs) + 0.01), check_gaussian_chain),
    "more power": (
        of_group, "least_power", lambda *args, true=of_group.least_power: true(*args) * 1.001,
        check_lower_end),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])
