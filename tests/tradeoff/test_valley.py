"""The least value of a convex function between a few of its values, known only roughly."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case as w
from jaxpriv.tradeoff import valley
from tests.slips import check_is_red


def pair(key):
    """(profile, trade-off function) of two laws on a few outcomes, from their definitions."""
    q, p = key.dirichlet(np.full(key.integers(2, 7), 0.5), 2)

    def profile(eps):
        return np.sum(np.maximum(p - np.exp(eps)[..., None] * q, 0.0), -1)

    order = np.argsort(-p / np.maximum(q, 1e-300))
    first, second = (np.append(0.0, np.cumsum(law[order])) for law in (q, p))

    def tradeoff(alpha):
        return 1 - np.interp(alpha, first, second)

    # a slope at a level is a ratio of the law's
    return profile, tradeoff, (first, np.log(np.maximum(p / np.maximum(q, 1e-300), 1e-300))[order])


def check_holds():
    """Whatever the places, and however rough the brackets are."""
    key, narrow = np.random.default_rng(5), 0
    for _ in range(3000):
        profile, tradeoff, (first, losses) = pair(key)
        alpha = key.uniform()
        at = np.clip(losses[min(np.searchsorted(first, alpha) - 1, losses.size - 1)], -30, 30)
        at = at + key.normal() * 10.0 ** key.uniform(-12, 0)
        steps = 10.0 ** np.sort(key.uniform(-9, 0, 2))
        eps = at + np.concatenate([-steps[::-1], [0.0], steps])
        rough = 10.0 ** key.uniform(-14, -2)
        value = profile(eps)
        lower, upper = value - rough * key.uniform(size=5), value + rough * key.uniform(size=5)
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
        low, high, seen = valley.power_by_lines(np.asarray(alpha), eps, lower, upper)
        power = 1 - tradeoff(alpha)
        assert low <= power * (1 + 1e-13) + 1e-15
        assert power <= high * (1 + 1e-13) + 1e-15
        assert alpha <= low or not seen
        narrow += high - low < 10 * rough
    assert narrow > 500


def test_holds():
    check_holds()


@pytest.mark.parametrize(("name", "wrong"), [("_ROUNDED", -1e15), ("_NOTHING", 0.0)])
def test_slips_are_seen(name, wrong, monkeypatch):
    check_is_red(monkeypatch, valley, name, wrong, check_holds)


def test_levels_within_the_largest_loss():
    """Three Laplace releases lose 1.5 at most, with probability 1/8: up to there f is a line. The
    profile is told on one side only of where it bends.
    """
    curve = jaxpriv.compose(w.laplace(1.0), w.laplace(0.1), w.laplace(0.4))
    for alpha in (1e-7, 1e-6, 1e-3, 0.02):
        low, high = curve.beta_bounds(alpha)
        truth = 1 - np.exp(1.5) * alpha
        assert low <= truth * (1 + 1e-12)
        assert truth <= high
        assert high - low <= 0.3 * (1 - truth)
        # the record took part, if it is accused
        low, high = curve.precision_bounds(alpha, 0.5)
        accused = (1 - truth) / (1 - truth + alpha)
        assert low <= accused * (1 + 1e-9)
        assert accused * (1 - 1e-9) <= high <= 1.1 * low


@pytest.mark.slow
def test_levels_between_outcomes():
    """Of releases of several kinds of discrete noise nothing is vacuous."""
    curve = jaxpriv.compose(w.discrete_gaussian(1.3), w.laplace(0.3), w.discrete_laplace(0.8))
    levels = np.array([1e-6, 1e-3, 0.03, 0.1, 0.4, 0.9])
    for way in (curve, curve.reversed(), curve.symmetric()):
        low, high = way.beta_bounds(levels)
        assert np.all(low <= high)
        assert np.all(high - low <= 1e-2 * (1 - low))
