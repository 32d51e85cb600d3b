"""The Gaussian limit: its mu, that it is approached,
and on which side it lies of the certified curve.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import jaxpriv
from jaxpriv import accounting, worst_case

DELTAS = np.array([1e-3, 1e-5, 1e-9])


def mu(curve):
    return accounting.gaussian_limit(curve).gdp_mu()


def test_mu_is_the_chi_square_divergence():
    """mu^2 of a step is the integral of (q - p)^2/p;
    steps add up, whatever their number, noise and rate.
    """
    rate, noise = 0.02, 0.8

    def integrand(z):
        p = scipy.stats.norm.pdf(z)
        q = (1 - rate) * scipy.stats.norm.pdf(z) + rate * scipy.stats.norm.pdf(z - 1 / noise)
        return (q - p) ** 2 / p

    square = scipy.integrate.quad(integrand, -12, 16, epsabs=0, epsrel=1e-12)[0]
    curve = worst_case.subsampled_gaussian(noise, rate, 300)
    np.testing.assert_allclose(mu(curve), math.sqrt(300 * square), rtol=1e-10)
    np.testing.assert_allclose([mu(curve.reversed()), mu(curve.symmetric())], mu(curve), rtol=1e-14)
    together = jaxpriv.compose(
        curve, worst_case.gaussian(0.3).compose(2), worst_case.subsampled_gaussian(2.0, 0.1, 40)
    )
    np.testing.assert_allclose(
        mu(together), math.sqrt(300 * square + 2 * 0.3**2 + 0.4 * math.expm1(0.25)), rtol=1e-10
    )
    noises = np.array([0.8, 2.0])
    along = jaxpriv.compose(
        worst_case.gaussian(1 / noises).subsample(np.array([rate, 0.1])), axis=-1
    )
    np.testing.assert_allclose(mu(along), math.sqrt(square + 0.01 * math.expm1(0.25)), rtol=1e-10)


def test_plain_releases_are_exact():
    """At rate 1 too, and where nothing leaks."""
    for curve in (worst_case.gaussian(0.7).compose(4),
                  worst_case.subsampled_gaussian(1 / 0.7, 1.0, 4)):
        np.testing.assert_allclose(mu(curve), 1.4, rtol=1e-14)
    assert mu(worst_case.subsampled_gaussian(1.0, 0.1, 0)) == 0


def test_the_limit_is_approached():
    """With steps * rate^2 = 1 the relative error of epsilon falls like the rate,
    and misses on the unsafe side.
    """
    rates = np.array([0.01, 0.001, 1e-4])
    curve = worst_case.subsampled_gaussian(1.0, rates, rates**-2)
    short = 1 - accounting.gaussian_limit(curve).epsilon(1e-5) / curve.epsilon(1e-5)
    assert np.all(short > 0)
    np.testing.assert_allclose(short[1:] / short[:-1], 0.1, rtol=0.2)


@pytest.mark.slow
@pytest.mark.long
def test_it_is_on_the_unsafe_side():
    """The numbers in the docstring: how much of the certified epsilon is missing."""
    setting = np.array(
        [(1, 0.01, 1000), (1, 0.001, 1e6), (0.5, 0.001, 1e4), (4, 0.1, 5000), (2, 0.3, 50)]
    ).T[..., None]
    curve = worst_case.subsampled_gaussian(*setting)
    missing = 100 * (
        1
        - accounting.gaussian_limit(curve).epsilon(DELTAS)
        / curve.symmetric().epsilon_bounds(DELTAS)[0]
    )
    stated = [[7.0, 11.5, 20.3], [0.2, 0.3, 0.5], [26, 41, 54], [0.2, 0.4, 0.7], [3.7, 6.7, 10.7]]
    np.testing.assert_allclose(missing, stated, rtol=0.02, atol=0.06)
    excess = accounting.gaussian_limit(curve).delta(0.0) / curve.delta(0.0) - 1
    assert 0.003 < np.min(np.asarray(excess)[[0, 2, 3, 4]]) < np.max(excess) < 0.18


@pytest.mark.slow
def test_derivatives_and_digits():
    """By noise, rate and steps, finite at no leak; NumPy parameters keep float64 digits."""

    def of(point):
        return mu(worst_case.subsampled_gaussian(point[0], point[1], point[2]))

    at = jnp.array([1.1, 0.02, 600.0])
    value, rise = of(at), math.exp(1.1**-2)
    slope = -(0.02**2) * 600 * rise * 1.1**-3 / value
    np.testing.assert_allclose(
        jax.jit(jax.grad(of))(at), [slope, value / 0.02, value / 1200], rtol=1e-10
    )
    assert jax.grad(of)(at.at[2].set(0.0))[0] == 0


def test_errors():
    with pytest.raises(ValueError, match="LaplaceShift"):
        accounting.gaussian_limit(worst_case.laplace(1.0))
    with pytest.raises(ValueError, match="Gaussian limit = inf"):
        accounting.gaussian_limit(worst_case.subsampled_gaussian(0.03, 0.1, 10))
