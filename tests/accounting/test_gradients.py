"""Derivatives of composed curves in noise, rate, steps and every single step's noise,
forward and reverse.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case

POINT = np.array([1.1, 0.02, 600.0])
METHODS = {
    "delta": lambda curve: curve.delta(0.9),
    "log_delta reversed": lambda curve: curve.reversed().log_delta(0.5),
    "epsilon": lambda curve: curve.epsilon(1e-4),
    "advantage": lambda curve: curve.advantage(),
    "beta": lambda curve: curve(0.05),
    "mu": lambda curve: curve.gdp_mu(),
}
QUICK = ("delta",)


def value(method, point):
    return METHODS[method](worst_case.subsampled_gaussian(point[0], point[1], point[2]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [m if m in QUICK else pytest.param(m, marks=pytest.mark.slow) for m in METHODS]
)
def test_noise_rate_and_steps(method):
    """Against differences of a curve that is right to 1e-13: forward and reverse mode, to 1e-6."""
    point = jnp.asarray(POINT)
    reverse = np.asarray(jax.grad(lambda p: value(method, p))(point))
    forward = np.asarray(jax.jacfwd(lambda p: value(method, p))(point))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12, atol=1e-300)

    def difference(i):
        """Richardson's: the error is of fourth order in the step."""
        ends = []
        for h in (1e-3, 5e-4):
            up, down = (POINT * (1 + sign * h * (np.arange(3) == i)) for sign in (1, -1))
            ends.append(
                (float(value(method, up)) - float(value(method, down))) / (2 * h * POINT[i])
            )
        return (4 * ends[1] - ends[0]) / 3

    np.testing.assert_allclose(reverse, [difference(i) for i in range(3)], rtol=1e-6, atol=1e-13)


@pytest.mark.slow
def test_a_thousand_noises():
    """The gradient by each step's own noise: equal steps share that of a common noise,
    and one changed step shows.
    """
    steps, noise = 1000, 1.2

    def delta(noises):
        return jaxpriv.compose(worst_case.gaussian(1 / noises).subsample(0.01), axis=-1).delta(0.8)

    gradient = np.asarray(jax.jit(jax.grad(delta))(jnp.full(steps, noise)))
    common = float(
        jax.grad(lambda s: worst_case.subsampled_gaussian(s, 0.01, 1000.0).delta(0.8))(noise)
    )
    np.testing.assert_allclose(gradient, common / steps, rtol=1e-9)
    uneven = np.linspace(0.9, 2.0, steps)
    gradient = np.asarray(jax.jit(jax.grad(delta))(jnp.asarray(uneven)))
    assert np.all(gradient < 0)
    assert np.all(np.diff(gradient) > 0)


@pytest.mark.slow
def test_a_schedule_by_gradient():
    """Gradient steps on log noise under a fixed sum of 1/noise^2 lower delta where rates
    differ between steps.
    """
    rates = jnp.asarray([0.01, 0.05])

    def log_delta(log_noise):
        precision = jnp.exp(-2 * log_noise)
        noise = jnp.sqrt(2 / (precision / jnp.sum(precision))) * 0.8
        return (
            jaxpriv.compose(worst_case.gaussian(1 / noise).subsample(rates), axis=-1)
            .compose(200)
            .log_delta(1.0)
        )

    step = jax.jit(jax.value_and_grad(log_delta))
    at, values = jnp.zeros(2), []
    for _ in range(25):
        now, slope = step(at)
        values.append(float(now))
        at = at - 0.05 * slope
    assert values[-1] < values[0] - 0.05
