"""The area under ROC curves: from the profile's slopes, from levels, and counted."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.tradeoff import area, evaluate
from tests.slips import check_is_red

CURVES = {
    "dp-sgd": lambda: worst_case.subsampled_gaussian(1.0, 0.01, 1000),
    "few steps": lambda: worst_case.subsampled_gaussian(1.0, 0.1, 10),
    "little noise": lambda: worst_case.subsampled_gaussian(0.5, 0.1, 100),
    "two kinds": lambda: jaxpriv.compose(worst_case.subsampled_gaussian(1.0, 0.01, 1000),
                                         worst_case.gaussian(0.5)),
    "replaced": lambda: worst_case.subsampled_gaussian(1.0, 0.01, 100, adjacency="replace_one"),
    "batch": lambda: worst_case.subsampled_gaussian(np.array([[0.8], [1.2]]), 0.02,
                                                    np.array([100.0])),
}


def by_levels(curve):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "area", lambda *_: None)
        return curve.auc()


def check(name, symmetric):
    curve = CURVES[name]()
    curve = curve.symmetric() if symmetric else curve
    shape = curve.experiment.batch_shape()
    with np.errstate(all="ignore"):
        assert area.area(curve.experiment.aligned(shape, np.float64), shape) is not None
    np.testing.assert_allclose(curve.auc(), by_levels(curve), rtol=3e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-sgd", "few steps", "two kinds"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_by_slopes_and_by_levels(name, symmetric):
    check(name, symmetric)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["little noise", "replaced", "batch"])
def test_more_by_slopes_and_by_levels(name):
    check(name, True)


def test_gaussian_steps_are_the_closed_form():
    """Ten steps at rate 1 - 1e-12 are Gaussian noise of mu = sqrt(10)/noise."""
    curve = worst_case.subsampled_gaussian(4.0, 1 - 1e-12, 10)
    assert curve.auc() == pytest.approx(worst_case.gaussian(np.sqrt(10) / 4).auc(), abs=1e-11)


def check_with_a_response():
    """Noise of mu = 1 and randomised response of ratio 1: the difference of both losses is one of
    three normal ones.
    """
    p = 1 / (1 + math.exp(-1.0))
    truth = sum(share * norm.cdf((1 + gap) / math.sqrt(2)) for share, gap in (
        (p**2, 2.0), (2 * p * (1 - p), 0.0), ((1 - p) ** 2, -2.0)))
    curve = jaxpriv.compose(worst_case.gaussian(1.0), worst_case.randomized_response(1.0))
    assert curve.auc() == pytest.approx(truth, abs=1e-9)
    assert curve.symmetric().auc() == pytest.approx(truth, abs=1e-9)


def test_a_lattice_with_a_density():
    check_with_a_response()


@pytest.mark.slow
def test_a_pipeline_in_a_second():
    """By levels this took a minute, and said 0.6264878160."""
    curve = jaxpriv.compose(worst_case.subsampled_gaussian(1.0, 0.01, 1000),
                            worst_case.laplace(0.2)).symmetric()
    assert curve.auc() == pytest.approx(0.62648781602, abs=1e-9)


@pytest.mark.slow
def test_where_one_curve_takes_over_from_another():
    both = jaxpriv.worst_of(worst_case.subsampled_gaussian(1.0, 0.1, 10),
                             worst_case.subsampled_gaussian(2.0, 0.4, 10))
    assert both.auc() == pytest.approx(by_levels(both), rel=1e-9)


def check_counted():
    """Two counts with discrete Laplace noise of scale 2 that a record moves by 3, and what tells
    everything with probability 1e-2: all pairs of outcomes.
    """
    x = np.arange(-200, 204)
    null, alternative = (np.exp(-np.abs(x - moved) / 2) for moved in (0, 3))
    loss = np.abs(x) - np.abs(x - 3)
    null, alternative = (
        np.convolve(once, once)
        for once in (np.bincount(loss + 3, mass / mass.sum()) for mass in (null, alternative))
    )
    below = np.cumsum(null) - 0.5 * null
    counted = np.sum(alternative * below)
    curve = worst_case.discrete_laplace(2.0, 3).compose(2)
    # alpha leaps within a lattice's cell, of which a part of the leap's square is missed
    assert curve.auc() == pytest.approx(counted, abs=1e-6)
    assert curve.symmetric().auc() == pytest.approx(counted, abs=1e-6)
    told = jaxpriv.compose(curve, worst_case.approximate_dp(0.0, 1e-2))
    # told once, of either hypothesis, the test is right; else as before
    assert told.auc() == pytest.approx(1 - 0.99**2 * (1 - counted), abs=1e-6)


def test_corners():
    """By levels this was 3.5e-5 off."""
    check_counted()


def test_two_laplace_releases():
    """Of fine lattices (P on one, Q on the other), extrapolated; by levels 3.6e-6 off."""
    curve = worst_case.laplace(1.0).compose(2)
    assert curve.auc() == pytest.approx(0.808275015416, abs=1e-9)
    assert curve.symmetric().auc() == pytest.approx(0.808275015416, abs=1e-9)


def test_of_exchanged_hypotheses():
    """It took minutes by levels, each of which was searched for in the other direction."""
    curve = worst_case.random_allocation(1.0, 100)
    assert curve.reversed().auc() == pytest.approx(curve.auc(), rel=1e-12)


@pytest.mark.slow
def test_inside_a_program():
    """The same number from a program, by levels."""
    found = jax.jit(lambda noise: worst_case.subsampled_gaussian(noise, 0.01, 100.0).auc())(
        jnp.asarray(1.0)
    )
    assert float(found) == pytest.approx(
        worst_case.subsampled_gaussian(1.0, 0.01, 100).auc(), rel=1e-11
    )


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    squares = area._squares
    check_is_red(monkeypatch, area, "_squares", lambda *a: squares(*a) * (1 + 1e-9),
                 lambda: check("dp-sgd", True))
    check_is_red(monkeypatch, area, "_squares", lambda *a: squares(*a) * (1 + 1e-7),
                 check_with_a_response)
    check_is_red(monkeypatch, area, "_DEEP", -4.0, lambda: check("dp-sgd", False))
    check_is_red(monkeypatch, area, "_HALVED", 3, check_counted)
