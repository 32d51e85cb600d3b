"""Renyi divergences against 30-digit integrals, binomial sums and closed forms; their epsilon
against a search by SciPy.
"""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.optimize

import jaxpriv
from jaxpriv import accounting, worst_case

POINT = np.array([1.1, 0.02, 600.0, 1e-5])


def integral(noise, rate, order, reverse):
    """D_order of one step, by the trapezoidal rule with 30 digits,
    which is exact for such an integrand.
    """
    with mpmath.workdps(30):
        mu, rate, order, h = (
            1 / mpmath.mpf(noise),
            mpmath.mpf(rate),
            mpmath.mpf(order),
            mpmath.mpf(1) / 16,
        )

        def integrand(z):
            loss = mpmath.log1p(rate * mpmath.expm1(mu * z - mu * mu / 2))
            if order == 1:
                return mpmath.npdf(z) * (-loss if reverse else mpmath.exp(loss) * loss)
            return mpmath.npdf(z) * mpmath.exp((1 - order if reverse else order) * loss)

        shift = float(order * mu)
        low, high = -14 - shift * reverse, 14 + shift + float(mu)
        total = h * mpmath.fsum(integrand(low + k * h) for k in range(int((high - low) * 16)))
        return float(total if order == 1 else mpmath.log(total) / (order - 1))


def step(noise, rate, reverse=False):
    curve = worst_case.gaussian(1 / noise).subsample(rate)
    return curve.reversed() if reverse else curve


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("noise", "rate"), [(0.2, 0.1), (1.0, 1e-6), (1.0, 0.01), (3.0, 0.9), (50.0, 1e-3)]
)
def test_divergence_is_the_integral(noise, rate, reverse):
    """Real orders from 1 on, where M - 1 is 1e-19 too."""
    orders = np.array([1.0, 1.0001, 1.5, 2.0, 7.3, 30.5])
    got = accounting.renyi_divergence(step(noise, rate, reverse), orders)
    np.testing.assert_allclose(got, [integral(noise, rate, a, reverse) for a in orders], rtol=2e-14)


@pytest.mark.parametrize(("noise", "rate"), [(0.5, 1e-4), (1.0, 0.01), (5.0, 0.1)])
def test_divergence_of_integer_orders(noise, rate):
    """M(a-1) = sum_k C(a, k) (1-q)^(a-k) q^k e^(k(k-1)/(2 sigma^2)),
    up to orders where the far peak alone is left.
    """
    for order in (2, 16, 200, 2000):
        k = np.arange(order + 1.0)
        lgamma = np.array([math.lgamma(j + 1) for j in k])
        log_terms = (
            lgamma[-1] - lgamma - lgamma[::-1] + (order - k) * np.log1p(-rate) + k * np.log(rate)
        )
        expected = np.logaddexp.reduce(log_terms + k * (k - 1) / (2 * noise**2)) / (order - 1)
        got = accounting.renyi_divergence(step(noise, rate), float(order))
        np.testing.assert_allclose(got, expected, rtol=1e-9 if expected < 1e-3 else 1e-12)


def test_unresolved_orders_are_nan():
    """Noise 50, order 5e4: the far peak is neither alone nor resolved."""
    assert math.isnan(accounting.renyi_divergence(step(50.0, 0.1), 5e4))


def test_two_peaks():
    """By quadrature of 40 digits: the far peak is most of it."""
    found = accounting.renyi_divergence(step(50.0, 0.1), 2e4)
    np.testing.assert_allclose(found, 1.700352921103939242, rtol=1e-14)


def test_divergences_add_up():
    """Plain Gaussian releases a mu^2/2; compositions the sum; symmetric curves the larger
    direction; nothing leaks nothing.
    """
    plain = worst_case.gaussian(0.5).compose(3)
    np.testing.assert_allclose(
        accounting.renyi_divergence(plain, [1.0, 4.5]), [0.375, 4.5 * 0.375], rtol=1e-15
    )
    parts = (
        plain,
        worst_case.subsampled_gaussian(1.0, 0.01, 100),
        worst_case.subsampled_gaussian(2.0, 0.1, 10),
    )
    together = jaxpriv.compose(*parts)
    apart = sum(accounting.renyi_divergence(part, 3.2) for part in parts)
    np.testing.assert_allclose(accounting.renyi_divergence(together, 3.2), apart, rtol=1e-14)
    both = [accounting.renyi_divergence(curve, 3.2) for curve in (together, together.reversed())]
    assert both[1] < both[0] == accounting.renyi_divergence(together.symmetric(), 3.2)
    silent = worst_case.gaussian(np.array([0.0, 1.0])).subsample(0.1)
    np.testing.assert_allclose(
        accounting.renyi_divergence(silent, 2.0), [0.0, integral(1.0, 0.1, 2, False)], rtol=1e-14
    )
    assert accounting.renyi_divergence(worst_case.subsampled_gaussian(1.0, 0.1, 0), 2.0) == 0


CASES = [(0.5, 1e-4, 1e5, 1e-10), (4.0, 0.1, 5000, 1e-6), (20.0, 1.0, 1, 1e-5), (1.0, 0.5, 3, 0.3)]


@pytest.mark.parametrize(("noise", "rate", "steps", "delta"), CASES)
def test_epsilon_is_the_minimum(noise, rate, steps, delta):
    """Over all real orders, by SciPy's search; delta holds there."""
    curve = worst_case.subsampled_gaussian(noise, rate, steps)

    def converted(log_c):
        order = 1 + math.exp(log_c)
        divergence = float(accounting.renyi_divergence(curve, order))
        return divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    grid = np.linspace(-6, 6, 49)
    best = grid[np.nanargmin([converted(x) for x in grid])]
    expected = scipy.optimize.minimize_scalar(
        converted, bounds=(best - 0.25, best + 0.25), method="bounded"
    ).fun
    got = float(accounting.renyi_epsilon(curve, delta))
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert got <= expected * (1 + 1e-13)
    assert curve.log_delta(got) <= math.log(delta)


def test_epsilon_at_the_ends():
    """delta = 0 needs the largest loss, delta = 1 nothing; the bounded direction never needs more
    than its largest loss.
    """
    forward, backward = step(1.0, 0.1), step(1.0, 0.1, reverse=True)
    assert accounting.renyi_epsilon(forward, 0.0) == math.inf
    np.testing.assert_allclose(
        accounting.renyi_epsilon(backward, [0.0, 1e-300]), -math.log1p(-0.1), rtol=1e-14
    )
    np.testing.assert_array_equal(accounting.renyi_epsilon(forward, [0.999, 1.0]), 0.0)
    np.testing.assert_array_equal(
        accounting.renyi_epsilon(worst_case.gaussian(0.0), [0.0, 1e-5]), 0.0
    )


def epsilon(point):
    return accounting.renyi_epsilon(
        worst_case.subsampled_gaussian(point[0], point[1], point[2]), point[3]
    )


@pytest.mark.slow
@pytest.mark.long
def test_derivatives_of_epsilon():
    """By noise, rate, steps and delta: first and second, against differences."""
    at, h = jnp.asarray(POINT), 1e-4
    slope = jax.jit(jax.grad(epsilon))
    ends = [(at.at[i].mul(1 + h), at.at[i].mul(1 - h), 2 * h * at[i]) for i in range(4)]
    np.testing.assert_allclose(
        slope(at), [(epsilon(up) - epsilon(down)) / w for up, down, w in ends], rtol=1e-6
    )
    np.testing.assert_allclose(
        jax.hessian(epsilon)(at), [(slope(up) - slope(down)) / w for up, down, w in ends], rtol=1e-6
    )


def test_derivatives_of_the_divergence():
    """By the order, also at 1."""
    curve = worst_case.subsampled_gaussian(1.0, 0.05, 20)
    slope = jax.grad(lambda a: accounting.renyi_divergence(curve, a))
    ends = [float(accounting.renyi_divergence(curve, 3.0 + h)) for h in (1e-4, -1e-4)]
    np.testing.assert_allclose(slope(3.0), (ends[0] - ends[1]) / 2e-4, rtol=1e-7)
    values = [float(accounting.renyi_divergence(curve, 1 + h)) for h in (0.0, 1e-4, 2e-4)]
    np.testing.assert_allclose(
        slope(1.0), (4 * values[1] - 3 * values[0] - values[2]) / 2e-4, rtol=1e-5
    )


def test_batches_and_precision():
    """A batch is the loop over it, under jit and vmap too;
    float32 stays float32 and is right to 1e-5.
    """
    noise = np.array([0.7, 1.0, 2.0])
    batch = accounting.renyi_epsilon(worst_case.subsampled_gaussian(noise, 0.02, 500), 1e-5)
    single = jax.jit(
        jax.vmap(
            lambda s: accounting.renyi_epsilon(worst_case.subsampled_gaussian(s, 0.02, 500), 1e-5)
        )
    )
    np.testing.assert_allclose(single(jnp.asarray(noise)), batch, rtol=1e-13)
    small = accounting.renyi_epsilon(
        worst_case.subsampled_gaussian(*jnp.float32([1.0, 0.02, 500.0])), jnp.float32(1e-5)
    )
    assert small.dtype == jnp.float32
    np.testing.assert_allclose(small, batch[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: accounting.renyi_divergence(worst_case.gaussian(1.0), 0.9), "order = 0.9"),
        (lambda: accounting.renyi_epsilon(worst_case.gaussian(1.0), 1.1), "delta = 1.1"),
        (lambda: accounting.renyi_divergence(worst_case.laplace(1.0), 2.0), "LaplaceShift"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
