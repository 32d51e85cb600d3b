"""The smallest mu of polygons with losses far beyond what a type I error can be as a number."""

import jax
import mpmath
import numpy as np
import pytest

import jaxpriv
from jaxpriv.composition import by_laws
from jaxpriv.composition.by_laws import laws_of
from jaxpriv.composition.composed import Composed
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.pieces import as_steps
from jaxpriv.tradeoff import gaussian_mu
from jaxpriv.tradeoff.averaged import Mixture
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


def height(alpha, power):
    """Phi^-1(power) - Phi^-1(alpha) of a test, both small."""
    return float(quantile(power) - quantile(alpha))


def tail(z):
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2


def check_noise_beside_a_response():
    """A sub-sampled Gaussian step and a randomised response, rejected above some loss."""
    mu, rate, eps = mpmath.mpf("1.3"), mpmath.mpf("0.2"), mpmath.mpf("0.7")
    curve = jaxpriv.compose(jaxpriv.worst_case.gaussian(1.3).subsample(0.2), RESPONSE(0.7))
    low, high = curve.gdp_mu_bounds()
    heights = []
    with mpmath.workdps(40):
        for far in (2, 5, 30, 1000, 10_000):
            least = mpmath.log1p(rate * mpmath.expm1(mu * far - mu**2 / 2))  # the loss there
            alpha = power = 0
            odds = mpmath.exp(eps)
            for loss, without, with_record in ((eps, 1, odds), (-eps, odds, 1)):
                ratio = mpmath.expm1(least - loss) / rate + 1
                z = mpmath.log(ratio) / mu + mu / 2
                alpha += without * tail(z) / (1 + odds)
                power += with_record * ((1 - rate) * tail(z) + rate * tail(z - mu)) / (1 + odds)
            heights.append(height(alpha, power))
    assert low <= max(heights) * (1 + 1e-3)
    assert high >= max(heights) * (1 - 1e-12)
    assert low >= 1.3 * (1 - 1e-12)


def test_noise_beside_a_response():
    check_noise_beside_a_response()


def check_replaced():
    """Two steps, by the sum of what is seen: a record that is replaced."""
    sigma, rate = mpmath.mpf("0.7"), mpmath.mpf("0.3")
    low, _ = jaxpriv.worst_case.subsampled_gaussian(
        0.7, 0.3, 2, adjacency="replace_one").gdp_mu_bounds()
    shares = (1 - rate) ** 2, 2 * rate * (1 - rate), rate**2
    with mpmath.workdps(40):
        apart = 1 / (sigma * mpmath.sqrt(2))
        found = [height(*(sum(share * tail(z - sign * k * apart) for k, share in enumerate(shares))
                          for sign in (-1, 1))) for z in (1000, 10_000)]
    assert low <= found[1] * (1 + 1e-3)
    assert low >= found[0] * (1 - 1e-12)


def test_replaced():
    check_replaced()


STEPS = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.1, 2)
OWNED = jaxpriv.worst_case.user_level(1.0, 0.1, 2, 3)
STEP = jaxpriv.worst_case.gaussian(1.0).subsample(0.1)
TWO_WAYS = {  # what tells most of one record added, beside what does of one removed; the mu of both
    "transforms": (jaxpriv.compose(STEPS, STEPS.reversed()), 2**0.5),
    "records of a user": (jaxpriv.compose(OWNED, OWNED.reversed()), 18**0.5),
    "a lattice": (jaxpriv.compose(STEP, STEP.reversed(), jaxpriv.worst_case.laplace(0.1)), 1.0),
    "a mixture": (jaxpriv.mixture([jaxpriv.compose(STEPS, STEPS.reversed()),
                                   jaxpriv.worst_case.gaussian(1.0)], [0.5, 0.5]), 2**0.5),
}


def check_two_ways(name):
    """Small levels see one of them only, for the other one's losses have an end there."""
    curve, mu = TWO_WAYS[name]
    low, high = curve.gdp_mu_bounds()
    assert mu * (1 - 1e-12) <= low <= mu * (1 + 1e-12) <= high * (1 + 2e-12)


@pytest.mark.parametrize("name", TWO_WAYS)
def test_two_ways(name):
    check_two_ways(name)


def check_laws_of_both_ways():
    """Where transforms do not serve, of members of both directions."""
    for name in ("transforms", "records of a user"):
        curve, _ = TWO_WAYS[name]
        terms = curve.experiment.aligned((), np.float64).terms
        law = laws_of(terms).aligned((), np.float64)
        (lower,), (upper,), _ = law.brackets_near(np.asarray(0.5), np.asarray([0.5]), False)
        low, high = curve.log_delta_bounds(0.5)
        assert max(lower, low) <= min(upper, high)
        assert upper - lower < 1e-3


def test_both_ways_have_laws():
    check_laws_of_both_ways()


def test_one_way_for_both_is_noticed(monkeypatch):
    check_is_red(monkeypatch, by_laws, "as_steps", lambda term: as_steps(term)[:1],
                 check_laws_of_both_ways)


@pytest.mark.parametrize(("kind", "check"), [
    (Gridded, check_noise_beside_a_response), (Composed, check_replaced),
    (Composed, lambda: check_two_ways("transforms")),
    (Gridded, lambda: check_two_ways("a lattice")),
    (Composed, lambda: check_two_ways("a mixture"))])
def test_a_least_mu_that_is_the_largest_is_noticed(monkeypatch, kind, check):
    check_is_red(monkeypatch, kind, "least_gaussian_mu", kind.gaussian_mu, check)


def check_told():
    """No curve of noise is 1 less something at level 0."""
    told = jaxpriv.worst_case.approximate_dp(0.1, 1e-6)
    noise = jaxpriv.worst_case.gaussian(1.0)
    for curve in (jaxpriv.mixture([noise, told], [0.5, 0.5]), jaxpriv.compose(noise, told),
                  jaxpriv.worst_of(noise, told), told.subsample(0.1)):
        assert curve.gdp_mu_bounds() == (np.inf, np.inf)


def test_no_mu_where_anything_is_told():
    check_told()


def test_told_for_sure_is_noticed(monkeypatch):
    check_is_red(monkeypatch, Mixture, "log_told", lambda *_: (np.float64(-np.inf),) * 2,
                 check_told)
