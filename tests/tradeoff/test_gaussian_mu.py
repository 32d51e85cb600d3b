"""The smallest mu of polygons with losses far beyond what a type I error can be as a number."""

import jax
import mpmath
import numpy as np
import pytest

import jaxpriv
from jaxpriv.tradeoff import gaussian_mu
from tests.slips import check_is_red

RESPONSE = jaxpriv.worst_case.randomized_response


def quantile(p):
    """Phi^-1 of p < 1/2, however small: Newton's steps from the leading term."""
    z = -mpmath.sqrt(-2 * mpmath.log(p))
    for _ in range(25):
        z -= (mpmath.log(mpmath.ncdf(z)) - mpmath.log(p)) * mpmath.ncdf(z) / mpmath.npdf(z)
    return z


def largest_height(losses, share):
    """Over the vertices of a mixture of randomised responses: reject one loss after the other."""
    with mpmath.workdps(int(losses[0] / 2.3) + 30):
        weights = share, 1 - mpmath.mpf(share)
        found, alpha, power = mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
        for loss, weight in sorted(zip(losses, weights), reverse=True):
            e = mpmath.exp(loss)
            alpha, power = alpha + weight / (1 + e), power + weight * e / (1 + e)
            y = quantile(power) if power < 0.5 else -quantile(1 - power)
            found = max(found, y - quantile(alpha))
        return float(found)


@pytest.mark.slow
@pytest.mark.parametrize(("losses", "share"), [
    ((1000.0, 0.1), 0.36), ((1000.0, 0.1), 1e-9), ((300.0, 0.1), 1e-9), ((30.0, 2.0), 0.36),
    ((800.0, 700.0), 0.36),
])  # fmt: skip
def test_far_losses(losses, share):
    curve = jaxpriv.mixture(list(map(RESPONSE, losses)), [share, 1 - share])
    low, high = curve.gdp_mu_bounds()
    truth = largest_height(losses, share)
    assert low <= truth <= high
    if losses[0] > 2 * losses[1]:
        assert low >= 0.9 * truth
        assert high <= truth * (1 + 1e-5)


def test_what_tells_everything_has_no_mu():
    curve = jaxpriv.mixture([jaxpriv.worst_case.approximate_dp(1.0, 0.1), RESPONSE(0.1)],
                            [0.5, 0.5])  # fmt: skip
    assert curve.gdp_mu_bounds()[1] == float("inf")


@pytest.mark.slow
@pytest.mark.parametrize("scale", [10.0, 1.0, 0.0437, 0.01, 0.002, 0.001])
def test_search_reaches_the_closed_form(scale):
    """Sampled at rate 1 the curve is the same, and what is searched for is known: at losses of 500
    and 1000 beyond the type I errors that are numbers.
    """
    curve = jaxpriv.worst_case.discrete_laplace(scale)
    low, high = map(float, curve.gdp_mu_bounds())
    for searched in (curve.subsample(1.0), curve.subsample(np.asarray(1.0))):
        assert low <= searched.gdp_mu() <= high * (1 + 1e-8)
    with jax.enable_x64(True):
        found = float(jax.jit(lambda s: jaxpriv.worst_case.discrete_laplace(s).subsample(1.0)
                              .gdp_mu())(scale))  # fmt: skip
    assert low <= found <= high * (1 + 1e-8)


@pytest.mark.slow
def test_slip_is_seen(monkeypatch):
    """As if no type I error below 1e-300 mattered."""
    certified = gaussian_mu.certified_mu
    check_is_red(monkeypatch, jaxpriv.tradeoff.evaluate, "certified_mu",
                 lambda errors, loss, dtype: certified(errors, 0.0 * loss, dtype),
                 lambda: test_far_losses((1000.0, 0.1), 0.36))  # fmt: skip
