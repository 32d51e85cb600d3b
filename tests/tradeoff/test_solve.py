"""Roots between two ends: by slopes, by secants, by halves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv.tradeoff import solve
from jaxpriv.tradeoff.solve import newton_in_bracket, secant_in_bracket
from tests.slips import check_is_red

LOW, HIGH = np.array([-5.0, -2.0, 0.1]), np.array([4.0, 8.0, 6.0])
SMOOTH = {  # increasing, and the only roots
    "cubic": (lambda x: (x - 0.3) * (1 + x * x), 0.3),
    "exponential": (lambda x: jnp.exp(x) - 2 if isinstance(x, jax.Array) else np.exp(x) - 2,
                    np.log(2)),
    "bend": (lambda x: (x - 1) * (1 + 4 * (x > 1)), 1.0),
}


class Counted:
    """A function that tells how often it was asked."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


@pytest.mark.parametrize("name", SMOOTH)
def test_secants_need_few_tries(name):
    function, root = SMOOTH[name]
    asked = Counted(function)
    found = secant_in_bracket(asked, LOW, HIGH, iterations=60)
    np.testing.assert_allclose(found, root, rtol=4e-16)
    assert asked.calls <= 25


def check_leaps():
    """Where a function leaps over zero there is nothing but halves."""
    found = secant_in_bracket(lambda x: np.where(x > 0.123, 1 + x, x - 1), LOW, HIGH, iterations=60)
    np.testing.assert_allclose(found, 0.123, rtol=1e-15)


def test_leaps():
    check_leaps()


def check_flat():
    """Where nothing changes, or nothing is known, the slope tells nothing."""

    def function(x):
        with np.errstate(all="ignore"):
            return np.where(x > 0.2, np.log(x - 0.2) + 1, -np.inf)

    found = secant_in_bracket(function, LOW, HIGH, iterations=60)
    np.testing.assert_allclose(found, 0.2 + np.exp(-1), rtol=1e-15)


def test_flat():
    check_flat()


def test_programs_find_the_same():
    function, _ = SMOOTH["cubic"]
    found = jax.jit(lambda a, b: secant_in_bracket(function, a, b))(LOW, HIGH)
    np.testing.assert_allclose(found, secant_in_bracket(function, LOW, HIGH), rtol=4e-16)


def test_slopes_need_fewer():
    asked = Counted(lambda x: ((x - 0.3) * (1 + x * x), 1 + 3 * x * x - 0.6 * x))
    np.testing.assert_allclose(newton_in_bracket(asked, LOW, HIGH), 0.3, rtol=4e-16)
    assert asked.calls <= 15


def test_slip_no_halves(monkeypatch):
    """Without them a secant would creep along a leap."""
    check_is_red(monkeypatch, solve, "_NOTHING", np.inf, check_leaps)
