"""Certified errors, advantage and mu: the exact value is inside, at kinks and ends too,
and the width is small.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import relaxed, worst_case
from jaxpriv.composition.gridded import Gridded
from jaxpriv.tradeoff import certified, envelope, evaluate, stepping
from jaxpriv.tradeoff.discrete import Discrete
from jaxpriv.tradeoff.hull import Hull
from tests.slips import check_is_red

NORM = scipy.stats.norm
ALPHA = np.array([0.0, 1e-12, 1e-3, 0.05, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0])


def laplace_beta(alpha, ratio):
    """Dong, Roth, Su 2022, Lemma A.6."""
    edge = np.exp(-ratio) / 2
    middle = np.exp(-ratio) / (4 * np.clip(alpha, edge, 0.5))
    return np.where(alpha < edge, 1 - np.exp(ratio) * alpha,
                    np.where(alpha <= 0.5, middle, np.exp(-ratio) * (1 - alpha)))


CASES = {
    "gaussian": (worst_case.gaussian(0.8), NORM.cdf(NORM.isf(ALPHA) - 0.8), 1e-9),
    "laplace": (worst_case.laplace(1.3), laplace_beta(ALPHA, 1.3), 1e-5),
    "sub-sampled": (worst_case.gaussian(0.8).subsample(0.25),
                    0.25 * NORM.cdf(NORM.isf(ALPHA) - 0.8) + 0.75 * (1 - ALPHA), 1e-9),
}


@pytest.mark.parametrize("name", CASES)
def test_beta(name):
    curve, truth, width = CASES[name]
    low, high = curve.beta_bounds(ALPHA)
    assert np.all(low <= truth + 1e-15)
    assert np.all(truth <= high + 1e-15)
    inside = (ALPHA > 1e-6) & (ALPHA < 1 - 1e-6)
    assert np.all((high - low)[inside] <= width)
    assert np.all((low >= 0) & (high <= 1 - ALPHA + 1e-15))


NEAR_ONE = np.array([0.94, 0.9945, 0.9998])


@pytest.mark.slow
@pytest.mark.parametrize("curve", [
    worst_case.subsampled_gaussian(1.0, 0.01, 100).symmetric(),
    relaxed.subsampled_gaussian(1.0, 0.01, 100, dim=1).symmetric()], ids=["worst", "relaxed"])
def test_beta_near_the_end(curve):
    """A symmetric curve is its own inverse: f(high) <= alpha <= f(low), where brackets of the other
    end, whose betas are near 1, say so.
    """
    low, high = curve.beta_bounds(NEAR_ONE)
    assert np.all(high - low <= 1e-6 * low)
    assert np.all(curve.beta_bounds(high)[0] <= NEAR_ONE)
    assert np.all(curve.beta_bounds(low)[1] >= NEAR_ONE)


def test_beta_of_rare_errors():
    """Gaussian noise at a type I error that is lost beside 1."""
    low, high = worst_case.gaussian(1.0).beta_bounds(1e-8)
    truth = NORM.cdf(NORM.isf(1e-8) - 1.0)
    assert low <= truth + 1e-16
    assert truth <= high + 1e-16
    assert high - low < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    lambda: jaxpriv.compose(worst_case.subsampled_gaussian(2.0, 0.2, 1),
                            worst_case.randomized_response(30.0)),
    lambda: jaxpriv.compose(worst_case.laplace(1.0), worst_case.randomized_response(30.0)),
])  # fmt: skip
def test_who_tells_nearly_all(make):
    """No more than the response alone at both ends, and no less than what delta(0) leaves."""
    curve = make()
    rest = 1 - curve.advantage_bounds()[0]
    assert rest < 1e-11
    for alpha in (1e-11, 1e-6, 1e-3, 0.5, 1 - 1e-3):
        low, high = curve.beta_bounds(alpha)
        assert low <= np.exp(-30.0)  # of the response alone, at any level above it
        assert 0 < high <= rest + 1e-14
        assert 1 - curve.reconstruction_success_bounds(alpha)[0] <= rest + 1e-14
    low, high = curve.attribute_inference_success_bounds(0.1)
    assert 1 - 10 * rest < low <= high < 1


def test_nothing_is_beyond_the_contact_before_it():
    """A level below the contact's has a type II error above 1 - delta(0)."""
    curve = worst_case.gaussian(1.0).symmetric()
    alpha, eps = np.array([0.05, 0.3, 0.7]), np.zeros(3)
    lower = np.full(3, curve.delta_bounds(0.0)[0])
    found = stepping.beyond_contact(eps, lower, alpha)
    np.testing.assert_array_equal(found[:2], 1.0)
    assert curve.beta_bounds(0.7)[0] <= found[2] < 1
    # as if it were beyond
    assert 1 - lower[0] < curve.beta_bounds(0.05)[0]


def test_mu():
    """Exact for Gaussian noise; for Laplace noise the curves meet at
    alpha = beta = e^(-ratio/2)/2.
    """
    low, high = worst_case.gaussian(np.array([0.0, 0.7, 3.0])).gdp_mu_bounds()
    np.testing.assert_allclose(low, [0.0, 0.7, 3.0], rtol=1e-12)
    np.testing.assert_allclose(high, [0.0, 0.7, 3.0], rtol=1e-12)
    truth = 2 * NORM.isf(np.exp(-1.3 / 2) / 2)
    low, high = worst_case.laplace(1.3).gdp_mu_bounds()
    assert 0.9 * truth < low <= truth <= high < truth * (1 + 1e-8)
    low, high = relaxed.laplace(1.3).symmetric().gdp_mu_bounds()
    assert 0.5 * high < low <= high


def test_advantage():
    low, high = worst_case.gaussian(1.0).advantage_bounds()
    truth = 2 * NORM.cdf(0.5) - 1
    assert low <= truth <= high <= low + 1e-12


@pytest.mark.parametrize("epsilon", [-30.0, -1.0, 0.0, 1.0, 100.0, 1e5])
def test_log_delta(epsilon):
    """Where delta is no number any more, too."""
    with mpmath.workdps(60):
        a = mpmath.mpf(epsilon) - mpmath.mpf(1) / 2
        tails = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (a, a + 1)]
        truth = mpmath.log(tails[0] - mpmath.exp(epsilon) * tails[1])
        low, high = worst_case.gaussian(1.0).log_delta_bounds(epsilon)
        assert float(low) <= truth <= float(high)
    assert high - low <= 1e-12 * (1 + abs(high))
    assert worst_case.laplace(2.0).log_delta_bounds(2.0) == (-np.inf, -np.inf)


@pytest.mark.slow
@pytest.mark.long
def test_of_compositions():
    """The estimate lies inside, and the certified power is an upper bound."""
    curve = worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric()
    alpha = np.array([1e-3, 0.1])
    low, high = curve.beta_bounds(alpha)
    assert np.all(low <= curve(alpha))
    assert np.all(curve(alpha) <= high)
    assert np.all(high - low < 1e-8)
    laplace = worst_case.laplace(0.3).compose(20)
    low, high = laplace.gdp_mu_bounds()
    one = float(worst_case.laplace(0.3).gdp_mu())
    assert low <= high <= 20**0.5 * one * (1 + 1e-12)
    assert low > 0.75 * high


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_range(alpha):
    with pytest.raises(ValueError, match="alpha"):
        worst_case.gaussian(1.0).beta_bounds(alpha)


def test_epsilon_of_no_delta():
    """The largest loss, at once: among others too, of which some have no largest one."""
    curve = worst_case.gaussian(np.array([0.0, 1e-6, 1.0])).subsample(0.3)
    low, high = curve.epsilon_bounds(0.0)
    assert np.array_equal(low, [0.0, np.inf, np.inf])
    assert np.array_equal(high, low)
    low, high = worst_case.laplace(2.0).subsample(0.3).epsilon_bounds(np.array([0.0, 1e-3]))
    largest = np.log1p(0.3 * np.expm1(2.0))
    assert np.all(low <= high)
    assert low[0] <= largest <= high[0] <= largest * (1 + 1e-12)


TOLD = worst_case.approximate_dp(1.0, 1e-3)
AT_INFINITY = {
    "told": (TOLD, 1e-3),
    "told in five steps": (TOLD.compose(5), 1 - 0.999**5),
    "told now and then": (TOLD.subsample(0.1), 1e-4),
    "told beside noise": (jaxpriv.compose(worst_case.gaussian(1.0), TOLD), 1e-3),
    "noise or told": (jaxpriv.worst_of(worst_case.gaussian(1.0), TOLD), 1e-3),
    "noise, or it is told": (jaxpriv.mixture([worst_case.gaussian(1.0), TOLD], [0.9, 0.1]), 1e-4),
    "told of steps beside noise": (
        jaxpriv.compose(worst_case.laplace(1.0), TOLD.subsample(0.5).compose(7)).symmetric(),
        1 - 0.9995**7),
    "noise": (worst_case.gaussian(1.0), 0.0),
    "much noise in few steps": (worst_case.subsampled_gaussian(0.01, 0.1, 10).symmetric(), 0.0),
    "losses that end": (worst_case.laplace(1.0).compose(5), 0.0),
}


def check_at_infinity(name):
    """delta is the probability of an infinite loss there, and f(0) is not beyond the rest."""
    curve, mass = AT_INFINITY[name]
    low, high = curve.delta_bounds(np.inf)
    assert mass * (1 - 1e-11) <= low <= mass * (1 + 1e-15)
    assert mass * (1 - 1e-15) <= high <= mass * (1 + 1e-11)
    assert curve.delta(np.inf) == pytest.approx(mass, rel=1e-12)
    assert curve(0.0) == pytest.approx(1 - mass, rel=1e-14)
    low, high = curve.beta_bounds(0.0)
    assert (1 - mass) * (1 - 1e-12) <= low <= (1 - mass) * (1 + 1e-15)
    assert (1 - mass) * (1 - 1e-15) <= high <= (1 - mass) * (1 + 1e-12)
    assert mass == 0 or curve.epsilon_bounds(0.9 * mass) == (np.inf, np.inf)


@pytest.mark.parametrize("name", AT_INFINITY)
def test_at_infinity(name):
    check_at_infinity(name)


def check_masses():
    """A logarithm has fewer digits of what is tiny."""
    mass = np.concatenate([[0.0, 1.0], np.geomspace(1e-300, 0.9, 300)])
    low, high = worst_case.approximate_dp(1.0, mass).delta_bounds(np.inf)
    assert np.all((low <= mass) & (mass <= high))
    assert np.all(high - low <= 1e-11 * mass)


def test_masses_of_any_size_are_inside():
    check_masses()


def test_digits_that_a_logarithm_loses_are_noticed(monkeypatch):
    check_is_red(monkeypatch, certified, "probabilities",
                 lambda lower, upper: (np.exp(0.5 * (lower + upper)),) * 2, check_masses)


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_INFINITY)
def test_at_infinity_inside_programs(name):
    curve, mass = AT_INFINITY[name]
    (low, high), value = jax.jit(lambda eps: (curve.delta_bounds(eps), curve.delta(eps)))(
        jnp.asarray(np.inf))
    assert low <= mass * (1 + 1e-14)
    assert high >= mass * (1 - 1e-14)
    assert value == pytest.approx(mass, rel=1e-9)


@pytest.mark.slow
def test_derivatives_at_infinity_are_numbers():
    at = jnp.asarray([0.5, np.inf])
    for curve in (relaxed.gaussian, lambda mu, _: worst_case.gaussian(mu)):
        slope = jax.jacrev(lambda mu, curve=curve: curve(mu, 10.0).delta(at))(jnp.asarray(1.0))
        assert slope[0] > 0
        assert slope[1] == 0


@pytest.mark.parametrize(("kind", "name"), [
    (Discrete, "told now and then"), (Hull, "noise or told"), (Gridded, "told beside noise")])
def test_what_is_told_for_sure_is_not_left_out(monkeypatch, kind, name):
    check_is_red(monkeypatch, kind, "log_told", lambda *_: (np.full((), -np.inf),) * 2,
                 lambda: check_at_infinity(name))


def test_a_profile_that_is_not_followed_is_noticed(monkeypatch):
    check_is_red(monkeypatch, evaluate, "followed",
                 lambda eps: np.where(np.isfinite(eps), eps, 0.0),
                 lambda: check_at_infinity("told beside noise"))


def test_told_as_often_as_is_allowed():
    """The largest loss beside it counts, one of which nothing is told."""
    curve = jaxpriv.worst_of(worst_case.laplace(1.0), worst_case.approximate_dp(0.5, 1e-6))
    low, high = curve.epsilon_bounds(1e-6)
    assert low <= 1 - 2e-6 + 1e-11
    assert 1 - 2e-6 - 1e-11 <= high <= 1.0


def test_endless_epsilons_need_no_lattice(monkeypatch):
    monkeypatch.setattr(Gridded, "_composed", None)
    curve, mass = AT_INFINITY["told beside noise"]
    assert curve.symmetric().epsilon_bounds(0.999 * mass) == (np.inf, np.inf)


def check_tiny_masses():
    """Of subnormal probabilities a product has few digits."""
    mass = np.array([0.0, 5e-324, 1e-310, 3e-308, 1e-300])
    low, high = jaxpriv.compose(worst_case.gaussian(1.0).subsample(0.5),
                                worst_case.approximate_dp(1.0, mass)).delta_bounds(np.inf)
    assert np.all((low <= mass) & (mass <= high))
    assert np.all(high <= mass * (1 + 1e-12) + 1e-307)


def test_tiny_masses():
    check_tiny_masses()


ENDS = np.array([0.0, 1e-12, 0.3, 1 - 1e-9, 1.0])


def check_slopes_at_the_ends():
    """They support the curve there, and are no flatter, or steeper, than those inside."""
    for curve in [TOLD.group(2), *(curve for curve, _ in AT_INFINITY.values())]:
        first, *inside, last = curve.slope(ENDS)
        assert first >= max(inside) * (1 - 1e-12)
        assert last <= min(inside)
        if np.isfinite(first):
            assert np.all(curve(ENDS) >= curve(0.0) - np.exp(first) * ENDS - 1e-12)


@pytest.mark.slow
def test_slopes_at_the_ends():
    check_slopes_at_the_ends()


@pytest.mark.slow
def test_derivatives_inside_do_not_see_the_ends():
    """The largest loss of the other direction is infinite at a rate of 1, and moves infinitely."""
    def slope(rate):
        return worst_case.subsampled_gaussian(1.0, rate, 10).slope(0.1)

    rate = jnp.asarray(1.0)
    backward = float(jax.grad(slope)(rate))
    forward = float(jax.jvp(slope, (rate,), (jnp.ones(()),))[1])
    assert np.isfinite(backward)
    assert backward == pytest.approx(forward, rel=1e-12)


def test_the_slope_of_the_middle_at_both_ends_is_noticed(monkeypatch):
    true = envelope.Envelope.slope
    check_is_red(monkeypatch, envelope.Envelope, "slope",
                 lambda self, alpha, reverse: true(
                     self, np.where((alpha > 0) & (alpha < 1), alpha, 0.5), reverse),
                 check_slopes_at_the_ends)


@pytest.mark.parametrize(
    ("curve", "question", "truth"),
    [(worst_case.approximate_dp(1e-12, 0.0).subsample(1e-300), ("epsilon_bounds", 0.0), 1e-312),
     (worst_case.approximate_dp(1e-200, 0.0).subsample(1e-200), ("epsilon_bounds", 0.0), 0.0),
     (worst_case.randomized_response(700.0), ("beta_bounds", 1 - 2.0**-53), 1.09464e-320),
     (worst_case.approximate_dp(700.0, 1 - 1e-16), ("beta_bounds", 1e-100), 1.09464e-320)],
)
def test_answers_below_normal_numbers(curve, question, truth):
    """Lower ends were the least normal number, or a step of subnormal ones too high."""
    name, at = question
    low, high = getattr(curve, name)(at)
    assert low == 0 <= truth
    assert 2.2e-308 < high < 2.3e-308


@pytest.mark.parametrize("alpha", [5e-324, 1e-310, 2e-308])
def test_levels_below_normal_numbers(alpha):
    """Power at the least normal level, and brackets around it: none is refused."""
    steep = worst_case.gaussian(40.0).subsample(0.5).symmetric()
    low, high = steep.reconstruction_success_bounds(alpha)
    assert low <= steep.power(alpha) <= high
    assert steep(alpha) + steep.power(alpha) == pytest.approx(1.0)
    for curve in (steep, worst_case.gaussian(1.0), worst_case.randomized_response(0.0)):
        for ask in (curve.precision_bounds, curve.posterior_bounds):
            low, high = ask(alpha, 0.01)
            assert 0 <= low <= high <= 1


def test_a_subnormal_delta_is_asked_once(monkeypatch):
    """Its logarithm is exact; how much is told is compared on the safe side."""
    asked, true = [], evaluate.bounds_of_epsilon
    monkeypatch.setattr(
        evaluate, "bounds_of_epsilon", lambda *args: asked.append(args) or true(*args)
    )
    low, high = worst_case.gaussian(1.0).epsilon_bounds(1e-310)
    assert len(asked) == 1
    assert 0 < high - low < 1e-9
    for told in (1e-310, 3e-310):
        assert worst_case.approximate_dp(1.0, told).epsilon_bounds(2e-310)[1] == np.inf
