"""Profiles of one composition at many eps, whose lattices are shared."""

from unittest import mock

import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import chain, gridded, grown
from tests.slips import check_is_red

CURVES = {
    "black boxes": lambda: jaxpriv.compose(
        worst_case.laplace(0.5), worst_case.approximate_dp(0.3, 1e-4), worst_case.gaussian(0.7)
    ),
    "bounded losses": lambda: jaxpriv.compose(worst_case.laplace(1.0), worst_case.laplace(4.0)),
    "no loss": lambda: jaxpriv.compose(worst_case.laplace(0.0), worst_case.laplace(0.0)),
}


def check(name):
    curve = CURVES[name]().symmetric()
    most = min(float(curve.epsilon(0.0)), 8.0)
    eps = np.array([-np.inf, -1.0, 0.0, 0.1, 0.9, 0.99, 1.0, 1.01, np.inf]) * max(most, 1.0)
    low, high = curve.delta_bounds(eps)
    alone = np.array([curve.delta_bounds(float(each)) for each in eps]).T
    truth = np.maximum(low, alone[0])
    assert np.all((truth <= high) & (truth <= alone[1]))
    # no wider than each alone, to the shared middles' price
    assert np.all(high - low <= 2 * (alone[1] - alone[0]) + 1e-3 * high + 1e-300)


@pytest.mark.parametrize("name", CURVES)
def test_no_wider_than_alone(name):
    check(name)


def test_batches_of_several_curves():
    """Where parameters differ nothing is shared."""
    ratios, eps = np.array([0.1, 0.5, 1.0, 2.0, 3.0]), np.linspace(0.0, 2.0, 5)
    curve = jaxpriv.compose(worst_case.laplace(ratios), worst_case.laplace(0.5))
    low, high = curve.delta_bounds(eps)
    for each, ratio in enumerate(ratios):
        one = jaxpriv.compose(worst_case.laplace(float(ratio)), worst_case.laplace(0.5))
        least, most = one.delta_bounds(float(eps[each]))
        assert max(low[each], least) <= min(high[each], most)


@pytest.mark.slow
def test_an_eps_without_its_own_lattice_is_seen(monkeypatch):
    """Laws at uneven losses, which would serve in its place, are left out."""

    def on_lattices():
        with mock.patch.object(chain, "chain_of", return_value=None):
            check("bounded losses")

    on_lattices()
    check_is_red(monkeypatch, gridded, "_LITTLE", np.inf, on_lattices)


def test_neighbours_share_and_loners_do_not(monkeypatch):
    """Lattices are laid for two groups of neighbours, and around an eps that has none itself."""
    asked = []

    def laid(entry, center, ends, few):
        asked.append((float(center), len(ends)))
        return brackets(entry, center, ends, few)

    brackets = grown.brackets
    monkeypatch.setattr(grown, "brackets", laid)
    curve = jaxpriv.compose(worst_case.laplace(0.5), worst_case.gaussian(0.7))
    curve.delta_bounds(np.array([0.01, 0.02, 0.03, 4.1, 4.11, 8.7]))
    assert sorted(len_ for _, len_ in asked) == [1, 2, 3]
    assert (8.7, 1) in asked
