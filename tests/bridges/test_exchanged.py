"""Curves from what papers and tools exchange: points, Renyi divergences, saved privacy losses."""

import math

import jax
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.bridges import points, privacy_loss, renyi
from jaxpriv.tradeoff import listed
from tests.slips import check_is_red

KNOWN = [0.5, 1.0, 3.0], [1e-2, 1e-3, 1e-6]


def lines(alpha, epsilon, delta):
    """The largest power at alpha of a mechanism with these points, by their inequalities."""
    alpha, epsilon, delta = np.asarray(alpha)[..., None], np.array(epsilon), np.array(delta)
    one = delta + np.exp(epsilon) * alpha
    other = 1 - np.exp(-epsilon) * (1 - delta - alpha)
    return np.clip(np.min(np.minimum(one, other), -1), 0.0, 1.0)


def check_points():
    """The trade-off function is the polygon of the inequalities, which the points alone give."""
    alpha = np.linspace(0.0, 1.0, 201)
    rng = np.random.default_rng(1)
    given = [KNOWN, ([0.0], [0.3]), ([2.0, 0.0], [0.0, 0.4]), ([1.0, 1.0], [0.2, 0.1])]
    given += [(rng.uniform(0, 4, n), rng.uniform(0, 1, n) ** 4) for n in (1, 2, 5, 20)]
    for known in given:
        low, high = points.curve(*known).beta_bounds(alpha)
        want = 1 - lines(alpha, *known)
        assert np.all(low <= want + 1e-13)
        assert np.all(want <= high + 1e-13)
        assert np.all(high - low < 1e-11)


def test_points_against_their_inequalities():
    check_points()


def test_a_side_taken_for_its_neighbour_is_noticed(monkeypatch):
    right = points._sides

    def wrong(epsilon, delta):
        sides, told = right(epsilon, delta)
        return sides[:1], told

    check_is_red(monkeypatch, points, "_sides", wrong, check_points)


@pytest.mark.parametrize("count", [1, 7])
def test_one_point_is_the_black_box(count):
    found, want = (
        make(1.2, 1e-5).compose(count) for make in (points.curve, worst_case.approximate_dp)
    )
    for ask, value in [("epsilon_bounds", 1e-4), ("delta_bounds", 0.3), ("beta_bounds", 0.05),
                       ("epsilon_bounds", 1e-9), ("delta_bounds", 0.0)]:  # fmt: skip
        (low, high), (least, most) = getattr(found, ask)(value), getattr(want, ask)(value)
        assert low <= most
        assert least <= high
        assert high == most or high - most < 1e-6 * max(most, 1e-3)


def test_points_of_gaussian_noise_lie_above_it():
    noise = worst_case.gaussian(1.0)
    known = points.of(noise, np.linspace(0.0, 8.0, 200))
    found = points.curve(*zip(*known))
    for delta in (1e-3, 1e-9):
        for count in (1, 50):
            want = noise.compose(count).epsilon(delta)
            low, high = found.compose(count).epsilon_bounds(delta)
            assert want < high < 1.001 * want
            assert high - low < 1e-6


def test_points_come_back():
    for epsilon, delta in points.of(points.curve(*KNOWN), KNOWN[0]):
        assert delta == pytest.approx(dict(zip(*KNOWN))[epsilon], rel=1e-11)


def test_points_that_tell_nothing_more_change_nothing():
    """Above a line of two others, and weaker ones."""
    more = points.curve([0.5, 1.0, 3.0, 2.0, 1.0], [1e-2, 1e-3, 1e-6, 0.5, 0.1])
    alpha = np.linspace(0.01, 0.99, 23)
    assert np.array_equal(more.power(alpha), points.curve(*KNOWN).power(alpha))


def test_ends_of_points():
    nothing, all_told = points.curve(0.0, 0.0), points.curve(3.0, 1.0)
    assert nothing.epsilon(1e-9) == 0
    assert nothing.delta(0.0) == 0
    assert all_told.delta(50.0) == 1
    assert all_told.epsilon(0.5) == math.inf
    low, high = points.curve(700.0, 1e-5).delta_bounds(690.0)
    assert low <= 1e-5 + (1 - 1e-5) * -math.expm1(-10) / (1 + math.exp(-700)) <= high
    assert high - low < 1e-10
    assert points.curve([0.0, 2.0], [0.3, 0.0]).epsilon(0.0) == 2.0


def test_points_inside_programs():
    found = points.curve(*KNOWN)
    with jax.enable_x64(True):
        assert jax.jit(found.delta)(2.0) == pytest.approx(found.delta(2.0), rel=1e-13)
        each = jax.vmap(found.epsilon)(np.array([1e-3, 1e-4]))
        assert np.allclose(each, [found.epsilon(1e-3), found.epsilon(1e-4)], rtol=1e-12)
        assert jax.grad(found.delta)(2.0) == pytest.approx(
            (found.delta(2.0 + 1e-6) - found.delta(2.0 - 1e-6)) / 2e-6, rel=1e-6
        )


def test_points_under_sampling():
    found, want = (
        make(1.2, 1e-5).subsample(0.1) for make in (points.curve, worst_case.approximate_dp)
    )
    assert np.allclose(found.delta_bounds(0.05), want.delta_bounds(0.05), rtol=1e-12)
    assert np.allclose(found.compose(5).epsilon_bounds(1e-4), want.compose(5).epsilon_bounds(1e-4))


def by_definition(order, divergence, delta):
    """Canonne, Kamath, Steinke, Proposition 12, at the order that tells most, by bisection."""
    order, divergence = np.array(order, float), np.array(divergence, float)
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        c = order - 1
        logs = c * (divergence - middle + np.log1p(-1 / order)) - np.log(order)
        enough = np.min(logs) <= math.log(delta)
        low, high = (low, middle) if enough else (middle, high)
    return high


def check_renyi():
    orders = np.arange(2, 64)
    for noise, delta in [(1.0, 1e-5), (0.7, 1e-9), (3.0, 1e-3)]:
        divergence = orders / (2 * noise**2)
        found = renyi.curve(orders, divergence).epsilon_bounds(delta)[1]
        want = by_definition(orders, divergence, delta)
        assert want < found < want * 1.002 + 2e-3
        assert found > worst_case.gaussian(1 / noise).epsilon(delta)


def test_renyi_against_its_conversion():
    check_renyi()


def test_a_conversion_that_forgets_a_term_is_noticed(monkeypatch):
    right = points.curve
    check_is_red(monkeypatch, points, "curve", lambda e, d: right(e, d / 40), check_renyi)


def test_divergences_beyond_all_epsilons():
    """Nothing is known below the delta at epsilon 1000: no error, and nothing claimed."""
    found = renyi.curve([2.0, 3.0], [2e4, 3e4])
    assert found.delta_bounds(5.0)[1] == 1
    assert found.epsilon(0.5) == math.inf


@pytest.mark.slow
def test_zcdp():
    orders = 1 + np.geomspace(0.01, 1000, 4000)
    for rho, delta in [(0.5, 1e-5), (0.01, 1e-6), (30.0, 1e-10)]:
        found = renyi.zcdp(rho).epsilon_bounds(delta)[1]
        want = by_definition(orders, rho * orders, delta)
        assert want * (1 - 1e-4) - 1e-3 < found < want * 1.002 + 2e-3
        assert found > worst_case.gaussian(math.sqrt(2 * rho)).epsilon(delta)
    assert renyi.zcdp(0.0).epsilon_bounds(1e-5)[1] < 1e-3
    assert renyi.zcdp(0.5).epsilon(1e-31) == math.inf


def saved(pmf):
    """(losses, probabilities) of one direction of dp-accounting's distributions."""
    dense = pmf.to_dense_pmf()
    return (np.arange(dense.size) + dense._lower_loss) * dense._discretization, dense._probs


def check_against_theirs():
    """A saved distribution, pessimistic: its composition lies above the truth, by its lattice."""
    make = privacy_loss_distribution.from_laplace_mechanism
    theirs = make(2.0, value_discretization_interval=1e-3)
    found = privacy_loss.curve(*saved(theirs._pmf_remove))
    for count in (1, 20):
        own, want = found.compose(count), theirs.self_compose(count)
        for delta in (1e-2, 1e-6):
            low, high = own.epsilon_bounds(delta)
            truth = worst_case.laplace(0.5).compose(count).epsilon(delta)
            assert truth <= high < truth * 1.002 + count * 1e-3
            assert low < want.get_epsilon_for_delta(delta) * (1 + 1e-6)
            assert high - low < 1e-5


def test_saved_losses_against_their_own_composition():
    check_against_theirs()


def test_losses_taken_by_half_are_noticed(monkeypatch):
    right = listed.Listing

    def wrong(loss, null, alternative):
        return right(np.asarray(loss) * 0.5, null, alternative)

    wrong.of = lambda outcomes: wrong(*zip(*outcomes))
    check_is_red(monkeypatch, privacy_loss, "Listing", wrong, check_against_theirs)


@pytest.mark.slow
def test_two_hundred_thousand_outcomes():
    theirs = privacy_loss_distribution.from_gaussian_mechanism(1.0)
    losses, probability = saved(theirs._pmf_remove)
    assert losses.size > 100_000
    found = privacy_loss.curve(losses, probability)
    low, high = found.compose(30).epsilon_bounds(1e-5)
    want = worst_case.gaussian(1.0).compose(30).epsilon(1e-5)
    assert want < high < want + 2e-5
    assert high - low < 1e-5


def test_randomised_response_by_its_losses():
    top = 1 / (1 + math.exp(-1.0))
    found = privacy_loss.curve([-1.0, 1.0], [1 - top, top])
    want = worst_case.randomized_response(1.0)
    for count in (1, 10):
        # a lattice finds the slope at a level to its spacing
        for ask, value, near in [("epsilon", 1e-5, 1e-9), ("delta", 0.5, 1e-9),
                                 ("power", 0.1, 1e-6)]:
            assert getattr(found.compose(count), ask)(value) == pytest.approx(
                getattr(want.compose(count), ask)(value), rel=near
            )


def test_order_and_missing_mass():
    """Of 0.1 that is missing the loss is infinite; and the order of a list tells nothing."""
    found = privacy_loss.curve([0.5, -0.5, 0.0], [0.3, 0.1, 0.5])
    sorted_ = privacy_loss.curve([-0.5, 0.0, 0.5, math.inf], [0.1, 0.5, 0.3, 0.1])
    for curve in (found, sorted_):
        low, high = curve.delta_bounds(1.0)
        assert low <= 0.1 <= high
        assert high - low < 1e-12
        low, high = curve.delta_bounds(0.2)
        assert low <= 0.1 + 0.3 * -math.expm1(-0.3) <= high
        assert high - low < 1e-12
        assert curve.epsilon(0.05) == math.inf
        low, high = curve.compose(2).delta_bounds(3.0)
        assert low <= 0.19 <= high
        assert high - low < 1e-9
    # without the record what is left over tells for sure that there is none
    absent = 1 - (0.1 * math.exp(0.5) + 0.5 + 0.3 * math.exp(-0.5))
    low, high = found.reversed().delta_bounds(5.0)
    assert low <= absent <= high
    assert high - low < 1e-12


def test_little_that_is_missing_keeps_its_digits():
    """Sums in floating point said 1.00019e-12 for the last (a find of the standing adversary)."""
    share = [0.25, 0.25, 0.5 - 2.0**-40]
    low, high = privacy_loss.curve([-0.1, 0.0, 0.1], share).delta_bounds(30.0)
    assert low <= 2.0**-40 <= high
    assert high - low < 1e-11 * high
    # all of the sample, and the least more without the record: 1 - sum of q e^-loss
    loss = 2.0**-36
    low, high = privacy_loss.curve([loss], [1.0]).reversed().delta_bounds(30.0)
    assert low <= -math.expm1(-loss) <= high
    assert high - low < 1e-11 * high


def test_points_with_nearly_one_slope():
    """Found by the standing adversary: differences of slopes were 0."""
    found = points.curve([0.0, 1e-300], [0.2, 0.1])
    low, high = found.delta_bounds(0.0)
    assert low <= 0.1 <= high
    assert high - low < 1e-13
    assert points.curve([1e-300], [0.0]).advantage() == pytest.approx(5e-301, rel=1e-12)


def test_a_list_that_is_rounded_down_is_refused():
    """Without the record its probabilities are more than 1: it is the law of nothing."""
    theirs = privacy_loss_distribution.from_laplace_mechanism(
        2.0, value_discretization_interval=1e-3, pessimistic_estimate=False, use_connect_dots=False
    )
    with pytest.raises(ValueError, match=r"e\^-loss sums to 1\.000"):
        privacy_loss.curve(*saved(theirs._pmf_remove))


def test_two_directions_of_one_mechanism():
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        1.5, sampling_prob=0.1, value_discretization_interval=1e-3
    )
    both = jaxpriv.worst_of(*(privacy_loss.curve(*saved(pmf))
                              for pmf in (theirs._pmf_remove, theirs._pmf_add)))  # fmt: skip
    for eps in (0.1, 0.5):
        low, high = both.delta_bounds(eps)
        assert low <= theirs.get_delta_for_epsilon(eps) * (1 + 1e-9) <= high * (1 + 1e-8)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: points.curve([-1.0], [0.1]), r"epsilon = -1.0 is outside its range \[0, 1000\]"),
        (lambda: points.curve([5e6], [0.1]), "epsilon = 5000000.0 is outside its range"),
        (lambda: points.curve([1.0, 2.0], [0.1]), r"shapes are epsilon \(2,\), delta \(1,\)"),
        (lambda: points.curve([], []), "not empty"),
        (lambda: points.curve([1.0], [1.5]), r"delta = 1.5 is outside its range \[0, 1\]"),
        (lambda: points.curve([math.nan], [0.1]), "epsilon = nan"),
        (lambda: jax.jit(lambda e: points.curve(e, 0.1).delta(1.0))(1.0), "not values of a jit"),
        (lambda: renyi.curve(1.0, 0.5), r"order = 1.0 is outside its range \(1, inf\)"),
        (lambda: renyi.curve(2.0, -0.5), "divergence = -0.5"),
        (lambda: renyi.zcdp([1.0, 2.0]), r"rho has shape \(2,\)"),
        (lambda: privacy_loss.curve([0.0, 1.0], [0.5, 0.6]), "probability sums to 1.1"),
        (lambda: privacy_loss.curve([-5.0, 1.0], [0.5, 0.5]), r"e\^-loss sums to 74.39"),
        (lambda: privacy_loss.curve([-math.inf, 1.0], [0.5, 0.5]), "loss = -inf"),
    ],
)
def test_refused(ask, told):
    with pytest.raises(ValueError, match=told):
        ask()
