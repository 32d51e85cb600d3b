"""Bounded range against the two-point laws that it is the supremum of, and mechanisms against it;
the worst of several curves.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.tradeoff import logistic_pair
from tests.slips import check_is_red

RANGES = (1e-9, 1e-3, 0.3, 1.0, 4.0, 30.0, 800.0)


def closed(reach, eps):
    """log of the largest of (e^reach - e^t)(1 - e^(eps - t))/(e^reach - 1) over t, by search."""
    with mp.workdps(60):
        reach, eps = mpf(reach), mpf(eps)

        def value(t):
            return (mp.exp(reach) - mp.exp(t)) * -mp.expm1(eps - t) / mp.expm1(reach)

        low, high = max(eps, mpf(0)), reach
        for _ in range(220):  # it has one summit
            first, second = low + (high - low) / 3, high - (high - low) / 3
            low, high = (first, high) if value(first) < value(second) else (low, second)
        return mp.log(value(low))


@pytest.mark.parametrize("reach", RANGES)
def test_profile_is_the_supremum(reach):
    curve = worst_case.exponential_mechanism(reach)
    for share in (0.0, 0.2, 0.7, 0.999):
        eps = share * reach
        truth = closed(reach, eps)
        low, high = curve.log_delta_bounds(eps)
        assert low <= truth <= high
        assert high - low < 1e-10 * (1 + reach)
        if curve.delta(eps) < 1 - 1e-6:
            assert np.isclose(curve.epsilon(curve.delta(eps)), eps, rtol=1e-6, atol=1e-15)
    assert curve.delta(reach) == 0.0
    assert curve.delta_bounds(1.1 * reach)[1] == 0.0
    assert curve.epsilon(0.0) == reach
    assert np.isclose(curve.delta(-2 * reach), -np.expm1(-2 * reach))


@pytest.mark.parametrize("reach", RANGES)
def test_odds_are_multiplied(reach):
    curve = worst_case.exponential_mechanism(reach)
    for level in (1e-12, 0.01, 0.5, 0.99):
        with mp.workdps(60):
            odds = mp.exp(mpf(reach)) * mpf(level) / (1 - mpf(level))
            beta, power = 1 / (1 + odds), odds / (1 + odds)
        assert np.isclose(curve(level), float(beta), rtol=1e-11)
        assert np.isclose(curve.power(level), float(power), rtol=1e-11)
        low, high = curve.beta_bounds(level)
        assert low <= beta <= high
        eps = curve.slope(level)
        assert np.isclose(1 - curve.delta(eps) - np.exp(eps) * level, float(beta), atol=1e-9) or (
            np.exp(eps) * level > 1e3
        )


@pytest.mark.slow
def test_exponential_mechanisms_are_covered():
    """Random scores, their neighbours, every candidate: all profiles lie below."""
    rng = np.random.default_rng(5)
    for monotone in (False, True):
        curve = worst_case.exponential_mechanism(1.2, monotone=monotone)
        for _ in range(200):
            scores = rng.normal(0, 3, rng.integers(2, 6))
            moved = scores + (rng.integers(0, 2, len(scores)) if monotone else
                              rng.integers(0, 2, len(scores)) * 2 - 1)  # fmt: skip
            laws = [np.exp(0.6 * s - np.logaddexp.reduce(0.6 * s)) for s in (scores, moved)]
            for one, other in (laws, laws[::-1]):
                for eps in (-0.4, 0.0, 0.2, 0.5, 1.0):
                    delta = np.sum(np.maximum(other - np.exp(eps) * one, 0))
                    assert delta <= curve.delta(eps) + 1e-14


def test_two_points_attain_it():
    """At each eps some mechanism does: candidates with scores moved by both ends."""
    curve, eps = worst_case.exponential_mechanism(1.0), 0.2
    t = (1.0 + eps) / 2
    share = (np.e - np.exp(t)) / (np.e - 1)
    one = np.array([share * np.exp(-t), (1 - share) * np.exp(1 - t)])
    assert np.isclose(one.sum(), 1)
    other = np.array([share, 1 - share])
    assert np.isclose(np.sum(np.maximum(other - np.exp(eps) * one, 0)), curve.delta(eps))


def test_compositions():
    """Of the pair: logistic noise twice, by quadrature; and of mechanisms: below."""
    curve = worst_case.exponential_mechanism(1.0)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    alpha = (np.arange(500)[:, None] + (1 + nodes) / 2) / 500
    total = weights / 1000
    for eps in (0.1, 0.8, 1.6):
        # given the first loss, at its level alpha under the null, with mass e^loss
        loss = 1 - 2 * np.log1p((np.e - 1) * alpha)
        truth = np.sum(total * np.exp(loss) * curve.delta(eps - loss))
        low, high = curve.compose(2).delta_bounds(eps)
        assert low * (1 - 1e-7) <= truth <= high * (1 + 1e-7)
        assert high - low < 1e-5 * high
    thirty = curve.compose(30).epsilon_bounds(1e-5)
    assert thirty[1] - thirty[0] < 1e-5 * thirty[1] + 1e-7
    assert thirty[1] < worst_case.randomized_response(1.0).compose(30).epsilon(1e-5)


def test_groups_have_more_range():
    curve = worst_case.exponential_mechanism(1.0)
    assert curve.group(3).delta(0.5) == worst_case.exponential_mechanism(3.0).delta(0.5)


def test_sampled():
    """The laws of the pair on a fine grid of levels."""
    curve = worst_case.exponential_mechanism(1.5).subsample(0.2)
    base = worst_case.exponential_mechanism(1.5)
    for level in (0.01, 0.3, 0.9):
        assert np.isclose(curve(level), 0.8 * (1 - level) + 0.2 * base(level), rtol=1e-12)
        assert np.isclose(curve(curve.inverse(level)), level, rtol=1e-9)
    low, high = curve.symmetric().epsilon_bounds(1e-3)
    assert high - low < 1e-9


def test_noisy_max():
    gumbel = worst_case.report_noisy_max(1.0)
    assert gumbel.delta(0.3) == worst_case.exponential_mechanism(1.0).delta(0.3)
    for noise in ("exponential", "laplace"):
        for monotone, reach in ((False, 1.0), (True, 0.5)):
            curve = worst_case.report_noisy_max(1.0, noise, monotone)
            assert curve.delta(0.3) == worst_case.randomized_response(reach).delta(0.3)


def test_noisy_max_by_hand():
    """Exponential noise, two candidates: P(first wins) from the difference of both noises, a
    Laplace draw. The scores' difference moves by two sensitivities, of one sign by one.
    """
    for moved, monotone in ((2.0, False), (1.0, True)):
        curve = worst_case.report_noisy_max(1.0, "exponential", monotone)
        for gap in np.linspace(-4, 4, 41):
            ends = [0.5 * np.exp(-abs(x) / 2) if x < 0 else 1 - 0.5 * np.exp(-abs(x) / 2)
                    for x in (gap, gap + moved)]  # fmt: skip
            laws = [np.array([p, 1 - p]) for p in ends]
            for eps in (0.0, 0.3):
                delta = np.sum(np.maximum(laws[0] - np.exp(eps) * laws[1], 0))
                assert delta <= curve.delta(eps) + 1e-14


@pytest.mark.slow
def test_executors_and_gradients():
    reaches = np.array([0.2, 1.0, 5.0])
    make = worst_case.exponential_mechanism
    for look in (lambda c: c.delta(0.05), lambda c: c.epsilon(1e-3), lambda c: c.power(0.03),
                 lambda c: c.auc(), lambda c: c.subsample(0.3).reversed()(0.1)):  # fmt: skip
        assert np.allclose(look(make(reaches)), look(make(jnp.asarray(reaches))), rtol=1e-11)
        slopes = jax.vmap(jax.grad(lambda e, look=look: look(make(e))))(reaches)
        ends = [look(make(reaches + side)) for side in (-1e-6, 1e-6)]
        assert np.allclose(slopes, (ends[1] - ends[0]) / 2e-6, rtol=1e-6, atol=1e-8)
    low, high = jax.jit(lambda e: make(e).delta_bounds(0.05))(reaches)
    assert np.all((low <= make(reaches).delta(0.05)) & (make(reaches).delta(0.05) <= high))


def test_mu_of_bounded_range():
    """By the symmetric test, 2 Phi^-1 of e^(range/2)/(1 + e^(range/2))."""
    low, high = worst_case.exponential_mechanism(1.0).gdp_mu_bounds()
    with mp.workdps(30):
        truth = 2 * mp.sqrt(2) * mp.erfinv(2 / (1 + mp.exp(-mpf(1) / 2)) - 1)
    assert low <= truth <= high
    assert high - low < 1e-6


def test_no_range_is_no_leak():
    curve = worst_case.exponential_mechanism(0.0)
    assert curve.delta(0.0) == 0.0
    assert curve.epsilon(1e-3) == 0.0
    assert np.isclose(curve(0.3), 0.7)


@pytest.mark.parametrize("epsilon", [-1.0, np.inf, "1", None])
def test_refuses_other_epsilons(epsilon):
    for make in (worst_case.exponential_mechanism, worst_case.report_noisy_max):
        with pytest.raises(ValueError, match="epsilon"):
            make(epsilon)


def test_refuses_other_arguments():
    with pytest.raises(ValueError, match="noise"):
        worst_case.report_noisy_max(1.0, "gaussian")
    for make in (worst_case.exponential_mechanism, worst_case.report_noisy_max):
        with pytest.raises(TypeError, match="monotone"):
            make(1.0, monotone=1)
    with pytest.raises(ValueError, match="at least one"):
        jaxpriv.worst_of()


MEMBERS = (worst_case.gaussian(1.0), worst_case.laplace(1.5), worst_case.discrete_gaussian(1.1))


def check_worst():
    both = jaxpriv.worst_of(*MEMBERS)
    for eps in (-1.0, 0.0, 0.5, 1.0, 1.45, 4.0):
        ends = [curve.delta_bounds(eps) for curve in MEMBERS]
        low, high = both.delta_bounds(eps)
        assert low == max(end[0] for end in ends)
        assert high == max(end[1] for end in ends)
    for level in (0.001, 0.05, 0.4):
        assert both(level) <= min(curve(level) for curve in MEMBERS) + 1e-12
    assert np.isclose(both.inverse(both(0.05)), 0.05, rtol=1e-6)
    assert both.reversed() is both or both.reversed().delta(0.3) == both.delta(0.3)


def test_worst_of_several():
    check_worst()


@pytest.mark.slow
def test_worst_of_several_composes():
    pair = jaxpriv.worst_of(*MEMBERS[:2])
    low, high = pair.compose(2).epsilon_bounds(1e-4)
    assert high >= max(curve.compose(2).epsilon(1e-4) for curve in MEMBERS[:2])
    assert high >= jaxpriv.compose(*MEMBERS[:2]).epsilon(1e-4)
    assert high - low < 1e-4 * high
    sgd = worst_case.subsampled_gaussian(1.0, 0.1, 10).symmetric()
    assert jaxpriv.compose(pair, sgd).epsilon(1e-3) > pair.epsilon(1e-3)
    with pytest.raises(ValueError, match="subsample"):
        pair.subsample(0.1)


def test_interval_of_sensitivities_is_its_end():
    """Whichever sensitivity it is: the profile of the largest."""
    for make in (worst_case.gaussian, worst_case.laplace, worst_case.exponential_mechanism):
        curves = [make(s) for s in (0.3, 0.7, 1.2)]
        worst = jaxpriv.worst_of(*curves)
        for eps in (0.0, 0.4, 1.0):
            assert worst.delta(eps) == curves[-1].delta(eps)


SLIPS = [
    (logistic_pair, "_log_expm1", lambda x: x + np.log1p(-np.exp(-x) * (1 - 1e-6)),
     lambda: test_profile_is_the_supremum(1.0)),
    (logistic_pair.LogisticShift, "_odds", lambda self, alpha: self.reach * alpha,
     lambda: test_odds_are_multiplied(1.0)),
    (logistic_pair.LogisticShift, "grouped", lambda self, size: self, test_groups_have_more_range),
]  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip[1])
def test_slip_is_seen(slip, monkeypatch):
    check_is_red(monkeypatch, *slip)


def test_slip_in_the_worst_is_seen(monkeypatch):
    monkeypatch.setattr(jaxpriv, "worst_of", lambda *curves: curves[0].symmetric())
    with pytest.raises(AssertionError):
        check_worst()
