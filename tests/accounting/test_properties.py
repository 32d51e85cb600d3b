"""What holds of every composition, on random ones; and what JAX must be able to do with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from tests.accounting.test_composition import convolved

SEEDS = range(6)
LOOK = np.array([-0.7, 0.0, 0.2, 1.0, 2.5])


def mechanisms(seed, most=50):
    """(mu, rate) of up to 50 sub-sampled Gaussian steps, the others of them silent;
    one shape for all seeds.
    """
    random = np.random.default_rng(seed)
    count = random.integers(2, most + 1)
    mu = np.where(
        np.arange(most) < count, np.exp(random.uniform(np.log(0.1), np.log(2.0), most)), 0.0
    )
    return mu, np.exp(random.uniform(np.log(1e-2), 0.0, most))


def seen_together(mu, rate):
    return jaxpriv.compose(worst_case.gaussian(mu).subsample(rate), axis=-1)


@pytest.mark.parametrize("seed", SEEDS)
def test_fifty_different_steps(seed):
    """Their order does not matter; one more step tells more; the bracket holds the estimate;
    delta falls in epsilon.
    """
    mu, rate = mechanisms(seed)
    order = np.random.default_rng(seed).permutation(mu.size)
    together, again = seen_together(mu, rate), seen_together(mu[order], rate[order])
    delta = np.asarray(together.delta(LOOK))
    np.testing.assert_allclose(again.delta(LOOK), delta, rtol=1e-11)
    fewer = np.where(np.arange(mu.size) == 0, 0.0, mu)
    assert np.all(np.asarray(seen_together(fewer, rate).delta(LOOK)) < delta)
    assert np.all(np.diff(delta) < 0)
    lower, upper = together.delta_bounds(LOOK)
    assert np.all(
        (lower <= delta * (1 + 1e-13)) & (delta <= upper * (1 + 1e-13)) & (lower <= upper)
    )
    assert np.all(upper - lower <= 1e-8 * delta)
    other = np.asarray(together.reversed().delta(-LOOK))
    np.testing.assert_allclose(delta, 1 - np.exp(LOOK) * (1 - other), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_fifty_different_steps_by_convolution(seed):
    mu, rate = mechanisms(seed)
    mu = 0.3 * mu  # within the window of the other computation
    some = mu > 0
    steps = [(m, q, 1) for m, q in zip(mu[some], rate[some])]
    for eps in (0.2, 1.0):
        np.testing.assert_allclose(
            seen_together(mu, rate).delta(eps), convolved(steps, eps), rtol=1e-4
        )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_different_kinds_of_steps(seed):
    """Laplace noise, randomised response, black boxes and Gaussian steps:
    the same properties on the lattice.
    """
    random = np.random.default_rng(seed)
    curves = [worst_case.laplace(random.uniform(0.05, 0.5)),
              worst_case.laplace(random.uniform(0.1, 1.0)).subsample(0.2),
              worst_case.randomized_response(random.uniform(0.05, 0.3)),
              worst_case.approximate_dp(0.1, 1e-6), worst_case.gaussian(random.uniform(0.1, 0.5)),
              worst_case.gaussian(1.0).subsample(0.05)]
    together = jaxpriv.compose(*curves)
    delta = np.asarray(together.delta(LOOK))
    np.testing.assert_allclose(jaxpriv.compose(*curves[::-1]).delta(LOOK), delta, rtol=1e-7)
    lower, upper = together.delta_bounds(LOOK)
    # atoms between the points of the lattice fall to the lower one
    assert np.all(
        (lower <= delta)
        & (delta <= upper)
        & (upper <= delta * (1 + 1e-6))
        & (lower >= delta * (1 - 5e-3))
    )
    assert np.all(np.asarray(jaxpriv.compose(*curves[1:]).delta(LOOK)) < delta)
    assert np.all(np.diff(delta) < 0)


@pytest.mark.slow
def test_monotone_in_every_parameter():
    """delta falls with the noise, rises with rate and steps; and epsilon does."""
    noise, rate = np.linspace(0.6, 4.0, 9), np.geomspace(1e-3, 0.5, 9)
    steps = np.geomspace(100.0, 1e5, 9)
    for curve, sign in ((worst_case.subsampled_gaussian(noise, 0.02, 500), -1),
                        (worst_case.subsampled_gaussian(1.0, rate, 200), 1),
                        (worst_case.subsampled_gaussian(4.0, 0.05, steps), 1)):
        assert np.all(sign * np.diff(curve.symmetric().delta(0.5)) > 0)
        assert np.all(sign * np.diff(curve.symmetric().epsilon(1e-5)) > 0)


@pytest.mark.slow
@pytest.mark.optimized
def test_ten_thousand_in_one_call():
    """As arrays and under vmap, with gradients."""
    random = np.random.default_rng(0)
    noise, rate = (
        np.exp(random.uniform(np.log(0.6), np.log(5.0), 10_000)),
        random.uniform(0.001, 0.1, 10_000),
    )

    def delta(noise, rate):
        return worst_case.subsampled_gaussian(noise, rate, 1000.0).delta(0.5)

    with jax.enable_x64(True):
        noise, rate = jnp.asarray(noise), jnp.asarray(rate)
        at_once = jax.jit(delta)(noise, rate)
        mapped = jax.jit(jax.vmap(delta))(noise, rate)
        slopes = jax.jit(jax.vmap(jax.grad(delta)))(noise[:500], rate[:500])
        likely = at_once > 1e-10  # between the bulk and a rare tail the estimate has fewer digits
        np.testing.assert_allclose(mapped[likely], at_once[likely], rtol=1e-9)
        for i in np.flatnonzero(likely)[[0, 77, 499, 999]]:
            np.testing.assert_allclose(at_once[i], delta(noise[i], rate[i]), rtol=1e-12)
        h = 1e-6
        np.testing.assert_allclose(
            slopes[7],
            (delta(noise[7] + h, rate[7]) - delta(noise[7] - h, rate[7])) / (2 * h),
            rtol=1e-6,
        )


@pytest.mark.slow
@pytest.mark.long
def test_second_derivatives():
    """jax.hessian against differences of the gradient."""

    def log_delta(p):
        return worst_case.subsampled_gaussian(p[0], p[1], p[2]).log_delta(0.8)

    with jax.enable_x64(True):
        at, h = jnp.array([1.0, 0.02, 500.0]), np.array([1e-5, 1e-7, 1e-3])
        gradient = jax.jit(jax.grad(log_delta))
        differences = np.array([(gradient(at + h * unit) - gradient(at - h * unit)) / (2 * h @ unit)
                                for unit in np.eye(3)])
        np.testing.assert_allclose(jax.jit(jax.hessian(log_delta))(at), differences, rtol=1e-5)
