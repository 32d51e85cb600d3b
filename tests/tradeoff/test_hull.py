"""Straight pieces of the worst of several curves: found in a few looks, where two profiles meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.tradeoff import hull, supporting
from tests.slips import check_is_red

EPSILON, DELTA = 1.0, 1e-3
# two on the piece of slope < -1, two on that of slope > -1, the others on curves
LEVELS = np.array([1e-12, 1e-5, 1e-3, 0.01, 0.3, 0.5, 0.8])
ON_PIECES = np.array([True, True, False, False, True, True, False])


def worst():
    return jaxpriv.worst_of(worst_case.approximate_dp(EPSILON, DELTA), worst_case.gaussian(1.0))


def of_noise(eps):
    return norm.cdf(0.5 - eps) - np.exp(eps) * norm.cdf(-0.5 - eps)


def of_box(eps):
    return DELTA + (1 - DELTA) * max(np.exp(EPSILON) - np.exp(eps), 0.0) / (1 + np.exp(EPSILON))


def meet(low, high):
    return brentq(lambda eps: of_noise(eps) - of_box(eps), low, high, xtol=1e-15)


def truth(slope):
    """(slopes, type II errors) on the pieces."""
    steep, flat = meet(2.0, 4.0), meet(0.1, 0.9)
    middle = np.array([steep, steep, -flat, -flat])
    alpha, size = LEVELS[ON_PIECES], np.abs(middle)
    delta = np.array([of_box(eps) for eps in size])
    # right of the middle by symmetry: the line of slope -e^-eps, beta = (1 - delta - alpha)/e^eps
    left, right = 1 - delta - np.exp(size) * alpha, (1 - delta - alpha) * np.exp(-size)
    return middle if slope else np.where(middle > 0, left, right)


def check_pieces(ask=lambda method, alpha: getattr(worst(), method)(alpha)):
    np.testing.assert_allclose(ask("slope", LEVELS)[ON_PIECES], truth(slope=True), rtol=1e-11)
    np.testing.assert_allclose(ask("__call__", LEVELS)[ON_PIECES], truth(slope=False), rtol=1e-11)


def test_pieces():
    check_pieces()


@pytest.mark.slow
def test_pieces_in_a_program():
    def ask(method, alpha):
        return jax.jit(lambda a: getattr(worst(), method)(a))(jnp.asarray(alpha))

    check_pieces(ask)


def check_few_looks():
    """A chord of both curves' points meets the common tangent as fast as Newton's method."""
    looks = 0
    true = hull.Hull._tried

    def counted(self, eps):
        nonlocal looks
        looks += 1
        return true(self, eps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hull.Hull, "_tried", counted)
        for alpha in LEVELS:
            looks = 0
            worst().slope(alpha)
            assert looks <= 20


def test_few_looks():
    check_few_looks()


def nowhere(eps, *_):
    return np.full_like(eps, np.nan)


SLIPS = {
    "bisections alone": (supporting, "_chord", nowhere, check_few_looks),
    "too few rounds": (supporting, "_ROUNDS", 4, check_pieces),
    "a chord that misses": (supporting, "_chord", lambda eps, *_: eps + 1e-9, check_pieces),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])
