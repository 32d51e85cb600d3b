"""A release with noise beside outcomes that are counted, against integrals over the noise."""

import functools

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

import jaxpriv
from jaxpriv import worst_case as W
from jaxpriv.composition import beside_one, enumerated
from jaxpriv.composition.beside_one import BesideOne
from jaxpriv.composition.enumerated import enumerated_of
from tests.slips import check_is_red

EPSILONS = np.array([-0.6, 0.0, 0.3, 0.55, 1.1, 1.9])
LEVELS = np.array([1e-9, 1e-3, 0.05, 0.3, 0.7, 0.998])
HIGH = 1 / (1 + np.exp(-0.5))
# (the null's, the alternative's masses) of two responses of ratio 0.5, by how many are right
REPORTS = (np.array([HIGH**2, 2 * HIGH * (1 - HIGH), (1 - HIGH) ** 2]),
           np.array([(1 - HIGH) ** 2, 2 * HIGH * (1 - HIGH), HIGH**2]))  # fmt: skip


def laplace(x):
    return 0.5 * np.exp(-np.abs(x))


CASES = {
    # noise of scale 1 that a record moves by 0.8, and what tells everything with probability 1e-3
    "laplace": (jaxpriv.compose(W.laplace(0.8), W.randomized_response(0.5).compose(2),
                                W.approximate_dp(0.0, 1e-3)), laplace, 0.8, 1e-3),
    "gaussian": (jaxpriv.compose(W.randomized_response(0.5).compose(2), W.gaussian(1.3)),
                 norm.pdf, 1.3, 0.0),
    "sampled": (jaxpriv.compose(W.gaussian(1.3).subsample(0.25),
                                W.randomized_response(0.5).compose(2)), norm.pdf, 1.3, 0.0),
}  # fmt: skip
RATE = {"sampled": 0.25}


@functools.cache
def grid(name):
    """Ends of cells of x, of Gauss's rule in each; both laws' weights there, (reports, nodes)."""
    _, density, shift, told = CASES[name]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    edges = np.union1d(np.linspace(-45.0, 45.0, 90001), [0.0, shift])
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes
    one = density(x - shift) * half * weights
    null = density(x) * half * weights
    rate = RATE.get(name, 1.0)
    one = (1 - rate) * null + rate * one
    return [(1 - told) * np.multiply.outer(r, law.ravel()) for r, law in zip(REPORTS, (null, one))]


def profile(name, reverse, eps):
    """To 1e-10: a cell in which the integrand has a corner is 1e-3 wide."""
    null, one = grid(name)
    if reverse:
        null, one = one, null
    return float(np.sum(np.maximum(one - np.exp(eps) * null, 0.0))) + CASES[name][3]


def curve_of(name, reverse):
    return CASES[name][0].reversed() if reverse else CASES[name][0]


def check_profile(name, reverse):
    curve = curve_of(name, reverse)
    low, high = curve.delta_bounds(EPSILONS)
    truth = np.array([profile(name, reverse, eps) for eps in EPSILONS])
    assert np.all((low <= truth + 1e-9) & (truth <= high + 1e-9))
    assert np.all(high - low < 1e-10)
    found = curve.delta(EPSILONS)
    assert np.all((low <= found * (1 + 1e-14)) & (found <= high * (1 + 1e-14)))


def check_levels(name, reverse):
    """f(alpha) = max over eps of 1 - delta(eps) - e^eps alpha."""
    curve = curve_of(name, reverse)
    low, high = curve.beta_bounds(LEVELS)
    assert np.all(high - low < 1e-9)
    found = curve(LEVELS)
    assert np.all((low - 1e-11 <= found) & (found <= high + 1e-11))
    np.testing.assert_allclose(found + curve.power(LEVELS), 1.0, rtol=0, atol=1e-13)
    for level, beta, slope in zip(LEVELS, found, curve.slope(LEVELS)):
        if np.isfinite(slope):
            lines = [1 - profile(name, reverse, eps) - np.exp(eps) * level
                     for eps in (slope - 1e-3, slope, slope + 1e-3)]
            assert max(lines) <= beta + 1e-8
            assert lines[1] == pytest.approx(beta, abs=1e-7)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reverse", [False, True])
def test_profile(name, reverse):
    check_profile(name, reverse)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reverse", [False, True])
def test_levels(name, reverse):
    check_levels(name, reverse)


def entry_of(curve):
    return next(iter(curve.experiment.curves()))[0]


@pytest.mark.parametrize("name", CASES)
def test_epsilons(name):
    curve = curve_of(name, False)
    assert isinstance(enumerated_of(entry_of(curve)), BesideOne)
    delta = np.array([0.2, 0.03, 4e-3])
    low, high = curve.epsilon_bounds(delta)
    assert np.all(high - low < 1e-8)
    found = curve.epsilon(delta)
    assert np.all((low <= found + 1e-10) & (found <= high + 1e-10))
    np.testing.assert_allclose(curve.delta(found), delta, rtol=1e-10)


def test_one_answer_in_forty_digits():
    """Laplace noise of ratio 0.8 beside one report of ratio 0.5 at eps = 0.9: the likelier report
    leaves delta(0.4) of the noise, which is 1 - e^((0.4 - 0.8)/2), the other one none.
    """
    mpmath.mp.dps = 40
    high = 1 / (1 + mpmath.exp(mpmath.mpf(-0.5)))
    truth = high * (1 - mpmath.exp((mpmath.mpf(0.9) - mpmath.mpf(0.5) - mpmath.mpf(0.8)) / 2))
    curve = jaxpriv.compose(W.laplace(0.8), W.randomized_response(0.5))
    low, high = curve.delta_bounds(0.9)
    assert low <= truth <= high
    assert abs(curve.delta(0.9) / truth - 1) < 1e-13


def test_where_there_is_nothing_to_count():
    """Two such steps, one taken twice, more outcomes than serve."""
    response = W.randomized_response(1.0)
    for curve in (jaxpriv.compose(W.laplace(1.0), W.laplace(0.5), response),
                  jaxpriv.compose(W.laplace(1.0).compose(2), response),
                  jaxpriv.compose(W.laplace(1.0), response.compose(600))):
        assert enumerated_of(entry_of(curve)) is None


def test_what_is_told_for_sure_is_no_epsilon():
    curve = curve_of("laplace", False)
    assert curve.epsilon(5e-4) == np.inf
    assert curve.epsilon_bounds(5e-4) == (np.inf, np.inf)


def test_many_levels_at_once(monkeypatch):
    curve = curve_of("laplace", False)
    levels = np.linspace(0.0, 1.0, 101)
    together = curve(levels)
    monkeypatch.setattr(beside_one, "_AT_ONCE", 40)
    jaxpriv._stored.forget()
    np.testing.assert_allclose(curve(levels), together, rtol=0, atol=1e-12)


def other_side(law, step, reverse, eps, sign):
    return SUMMED(law, step, reverse, eps, -sign)


def without_losses(law, step, reverse, eps, sign):
    return SUMMED(law._replace(loss=0 * law.loss), step, reverse, eps, sign)


def as_if_forward(self, counted, step, reverse):
    MADE(self, counted, step, False)


SUMMED, MADE = beside_one.summed_over, BesideOne.__init__
SLIPS = {
    "rounded to the other side": (
        beside_one, "summed_over", other_side, lambda: check_profile("gaussian", False)),
    "no losses": (
        beside_one, "summed_over", without_losses, lambda: check_profile("gaussian", False)),
    "one direction": (
        BesideOne, "__init__", as_if_forward, lambda: check_profile("sampled", True)),
    "lattices serve": (enumerated, "_BESIDE", 1, lambda: check_levels("laplace", False)),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_slip_is_seen(slip, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[slip])
