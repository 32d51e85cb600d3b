"""One composed law at many eps: against the sums at one eps after the other."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import _stored as stored
from jaxpriv.composition import grid, labels, laid, summed
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.pieces import behind
from jaxpriv.composition.tables import Step
from tests.slips import check_is_red

W = jaxpriv.worst_case
LAWS = {
    "outer": (jaxpriv.compose(W.subsampled_gaussian(1.0, 0.01, 1000), W.laplace(0.2)), 1.9),
    "inner": (jaxpriv.compose(W.gaussian(2.0), W.laplace(0.001)), -1.0),
    "steep": (jaxpriv.compose(W.gaussian(2.0), W.laplace(0.001)), 40.0),
    "told": (jaxpriv.compose(W.laplace(0.5).compose(9), W.approximate_dp(0.1, 1e-6)), 1.5),
    "tiny": (jaxpriv.compose(W.gaussian(1e-4), W.laplace(1e-5)), 3e-4),
}


def entry_of(curve):
    return curve.experiment.aligned((), np.float64)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("size", [1 << 12, 1 << 15])
def test_running_sums_are_the_sums_of_each_eps(name, size):
    curve, eps = LAWS[name]
    entry = entry_of(curve)
    with np.errstate(all="ignore"):
        law = entry.law(np.asarray(eps), entry.tables(), size)
        ends = eps * (1 + np.array([-0.3, -0.01, 0.0, 1e-9, 0.01, 0.3]))
        lower, upper, rate = summed.brackets(law, ends)
        each = [(*grid.bracket(law, end), grid.steepness(law, end)) for end in ends]
    one_lower, one_upper, one_rate = np.array(each).T
    known = np.isfinite(one_lower)
    assert known[2:4].all()
    np.testing.assert_array_equal(np.isfinite(lower), known)
    near = 1e-3 * (one_upper - one_lower)[known] + 1e-12
    np.testing.assert_array_less(np.abs(lower - one_lower)[known], near)
    np.testing.assert_array_less(np.abs(upper - one_upper)[known], near)
    np.testing.assert_allclose(rate, one_rate, rtol=1e-9, atol=1e-30)  # where nothing is left


def test_what_is_lost_bounds_nothing():
    entry = entry_of(LAWS["told"][0])
    law = entry.law(np.asarray(1.5), entry.tables(), 1 << 12)
    lower, upper, _ = summed.brackets(law._replace(nu=law.nu * np.nan), np.array([1.4, 1.5]))
    assert (lower == -np.inf).all()
    assert (upper == 0.0).all()


@pytest.mark.parametrize("far", [5.0, 20.0, 60.0])
def test_far_from_the_middle_a_law_still_bounds(far):
    """A closed form: a Gaussian of mu = 2 and next to nothing else."""
    curve, _ = LAWS["steep"]
    entry = entry_of(curve)
    law = entry.law(np.asarray(3.0), entry.tables(), 1 << 13)
    ends = np.array([3.0, far])
    lower, upper, _ = summed.brackets(law, ends)
    low, high = W.gaussian(2.0).log_delta_bounds(ends), W.gaussian(2.002).log_delta_bounds(ends)
    assert (lower <= high[1]).all()
    assert (upper >= low[0]).all()


def test_labels_laid_once_bound_neighbours():
    """Finitely many outcomes: the truth by the binomial law."""
    from math import comb, exp, expm1, log

    steps, ratio = 20, 0.5
    step = Step(behind(W.randomized_response(ratio).experiment), np.full(1, float(steps)))
    entry = Gridded((step,), np.zeros((), bool)).aligned((), np.float64)
    bounds = labels.around(entry.steps, entry.tables(), False, np.asarray(2.0), 1 << 12)
    ends = np.array([1.2, 1.9, 2.0, 2.4, 3.3])
    p = 1 / (1 + exp(-ratio))
    truth = []
    for eps in ends:
        losses = [(2 * k - steps) * ratio for k in range(steps + 1)]
        masses = [comb(steps, k) * p**k * (1 - p) ** (steps - k) for k in range(steps + 1)]
        truth.append(log(sum(-m * expm1(eps - x) for m, x in zip(masses, losses) if x > eps)))
    found = bounds(ends)
    assert (found <= np.array(truth) + 1e-12).all()
    np.testing.assert_allclose(found, truth, atol=2e-2)


def test_an_answer_does_not_depend_on_what_was_asked_before():
    curve = LAWS["told"][0]
    ends = np.linspace(0.5, 2.5, 7)
    first = curve.delta_bounds(1.0)
    for eps in ends:
        curve.delta_bounds(eps)
    stored.forget()
    assert curve.delta_bounds(1.0) == first
    assert len(laid._laws.made) <= laid._laws.most


def check_chains_are_kept():
    """What few rare steps say does not depend on what was asked of them before."""
    stored.forget()
    curve = W.subsampled_gaussian(1.675, 2.534e-4, 9)
    found = [curve.delta_bounds(eps) for eps in (0.0847, 0.3, 0.0847)]
    assert found[0] == found[2]
    stored.forget()
    assert curve.delta_bounds(0.3) == found[1]


@pytest.mark.slow
def test_chains_are_kept():
    check_chains_are_kept()


@pytest.mark.slow
def test_laws_aimed_elsewhere_are_noticed(monkeypatch):
    true = stored.Store.get
    check_is_red(monkeypatch, stored.Store, "get",
                 lambda store, key, make: true(store, key if isinstance(key, tuple) else 0.0, make),
                 check_chains_are_kept)
