"""The integrals behind random allocation, at any number of steps and any noise, against one
integral for two steps and a grid of sums for a few; what the bounds promise.
"""

import mpmath as mp
import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import log_ndtr, ndtr

import jaxpriv
from jaxpriv.tradeoff import lognormal_mean, lognormal_path, lognormal_rule
from tests.slips import check_is_red

random_allocation = jaxpriv.worst_case.random_allocation


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def single(a, strike, put):
    """log of E (strike - L)_+ or E (L - strike)_+ of one lognormal, strike > 0."""
    d = (np.log(strike) + 0.5 * a * a) / a
    if put:
        one, two = np.log(strike) + log_ndtr(d), log_ndtr(d - a)
    else:
        one, two = log_ndtr(a - d), np.log(strike) + log_ndtr(-d)
    return one + np.log(-np.expm1(np.minimum(two - one, -1e-17)))


def of_two(a, x, put):
    """log of the put or call of the mean of two at K = e^x, by Gauss and Legendre in pieces."""
    strike = 2 * np.exp(x)
    edge = (np.log(strike) + 0.5 * a * a) / a  # the other one alone reaches K
    top = min(edge, 14 + a)
    near = np.concatenate([np.linspace(-14, top, 150), edge - np.geomspace(10.0, 1e-12, 200)])
    near = np.unique(np.clip(near, min(-14, edge - 1e-9), top))
    points, weights = leggauss(20)

    def over(ends, function):
        half = 0.5 * np.diff(ends)[:, None]
        y = 0.5 * (ends[1:] + ends[:-1])[:, None] + half * points
        log_density = -0.5 * y * y - 0.5 * np.log(2 * np.pi)
        return np.sum(half * weights * np.exp(log_density + function(y)))

    def left(y):
        return single(a, np.maximum(strike - np.exp(a * y - 0.5 * a * a), 1e-300), put)

    total = over(near, left)
    if not put:  # E (L + l - 2 K) = 1 + l - 2 K beyond the edge, in closed form
        total += ndtr(-edge) * (1 - strike) + ndtr(a - edge)
    return np.log(total / 2)


def settings(count):
    rng = np.random.default_rng(8)
    for _ in range(count):
        a = float(np.exp(rng.uniform(np.log(0.002), np.log(6.0))))
        spread = min(np.sqrt(np.expm1(a * a) / 2), a)
        yield a, np.float64(spread * rng.uniform(-6, 6))


def check_two_steps():
    for a, x in settings(40):
        put = x < 0
        truth = of_two(a, x, put)
        own = lognormal_rule.columns(a, 2.0)
        found = lognormal_mean.bounds(lognormal_mean.line(own, x), x)
        low, high = found.put if put else found.call
        # of the oracle: a difference of two numbers of the size of a sigma
        doubt = 1e-11 + 1e-14 * np.exp(-truth) * min(a, 1.0)
        assert low - doubt <= truth <= high + doubt, (a, x, truth, low, high)
        assert high - low < 1e-10 + 1e-13 * np.exp(-truth) * min(a, 1.0), (a, x)


def test_two_steps_at_any_noise():
    check_two_steps()


def test_the_oracle():
    """It agrees with mpmath where that was tried."""
    with mp.workdps(30):
        a, strike = mp.mpf("1.3"), 2 * mp.e ** mp.mpf("-1.7")
        edge = (mp.log(strike) + a * a / 2) / a

        def price(y):
            left = strike - mp.e ** (a * y - a * a / 2)
            d = (mp.log(left) + a * a / 2) / a if left > 0 else -mp.inf
            return mp.npdf(y) * (left * mp.ncdf(d) - mp.ncdf(d - a)) if left > 0 else mp.mpf(0)

        ends = [-14, -8, -5, -4, *(edge - away for away in (1, 0.3, 0.1, 0.01)), edge]
        truth = mp.log(mp.quad(price, ends) / 2)
    np.testing.assert_allclose(of_two(1.3, -1.7, True), float(truth), rtol=1e-11)


@pytest.mark.parametrize(("noise", "steps"), [(0.25, 5), (0.5, 3), (0.9, 10), (3.0, 6)])
def test_few_steps_by_convolution(noise, steps):
    """The law of the sum of all but one on a fine grid of its logarithm, the last one in closed
    form: good to the square of the grid.
    """
    a, size = 1 / noise, 1200
    x = np.linspace(-8.5, 8.5 + a, size)
    weight = (x[1] - x[0]) * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    large = np.exp(a * x - 0.5 * a * a)
    levels, mass = large, weight
    for _ in range(steps - 2):
        values = np.log(levels[:, None] + large).ravel()
        masses = (mass[:, None] * weight).ravel()
        ends = np.linspace(values.min(), values.max(), size + 1)
        place = np.clip(np.digitize(values, ends) - 1, 0, size - 1)
        mass = np.bincount(place, masses, size)
        means = np.bincount(place, masses * np.exp(values), size)
        levels, mass = means[mass > 0] / mass[mass > 0], mass[mass > 0]
    for eps in (-0.7 * a, 0.5 * a):
        strike = steps * np.exp(eps) - levels
        price = np.where(
            strike > 0,
            np.exp(single(a, np.maximum(strike, 1e-300), eps < 0)),
            0.0 if eps < 0 else 1 - strike,
        )
        truth = mass @ price / steps
        curve = random_allocation(noise, steps)
        found = curve.delta(eps) + (np.expm1(eps) if eps < 0 else 0.0)
        np.testing.assert_allclose(found, truth, rtol=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.2, 0.3, 0.5, 1.0, 2.0, 30.0, 1000.0])
@pytest.mark.parametrize("steps", [2, 3, 10, 100, 10**4])
def test_brackets_are_narrow_everywhere(noise, steps):
    """Few steps and little noise were vacuous, or took a minute."""
    for curve in (random_allocation(noise, steps), random_allocation(noise, steps).reversed()):
        mu = min(np.sqrt(np.expm1(noise**-2) / steps), 1.0)
        for delta in (1e-5 * mu, 1e-8 * mu):
            low, high = curve.epsilon_bounds(delta)
            assert low <= curve.epsilon(delta) <= high
            assert high - low <= 1e-6 * high


def test_kept_seeds():
    # the upper bound was 0, where rounding had taken all of what two lines told
    curve = random_allocation(158.25141923698422, 250.0).reversed()
    low, high = curve.log_delta_bounds(0.004404396666577823)
    assert -74.3 < low <= curve.log_delta(0.004404396666577823) <= high < -74.2
    # deep in the right tail rounding is no estimate
    curve = random_allocation(8.614325344784822, 111.0)
    low, high = curve.log_delta_bounds(0.12264347736048481)
    assert low <= curve.log_delta(0.12264347736048481) <= high


@pytest.mark.slow
def test_larger_deltas_than_at_zero_have_no_epsilon():
    for noise, steps in ((36.1, 6612), (1.5, 1357), (0.6, 796), (3.2, 43)):
        for curve in (random_allocation(noise, steps), random_allocation(noise, steps).reversed()):
            top = curve.delta(0.0)
            assert curve.epsilon(1.1 * top) == 0
            assert curve.epsilon_bounds(1.1 * top)[1] < 1e-6
            assert curve.epsilon(0.9 * top) > 0
            np.testing.assert_allclose(curve.delta(curve.epsilon(0.1 * top)), 0.1 * top, rtol=1e-8)


@pytest.mark.slow
def test_both_executors_agree():
    import jax.numpy as jnp

    for noise, steps, eps in ((0.4, 3.0, 8.0), (1.0, 1000.0, 0.2), (20.0, 50.0, 0.02)):
        for reverse in (False, True):
            curve = random_allocation(noise, steps)
            traced = random_allocation(jnp.asarray(noise), jnp.asarray(steps))
            if reverse:
                curve, traced = curve.reversed(), traced.reversed()
            np.testing.assert_allclose(
                traced.log_delta(jnp.asarray(eps)), curve.log_delta(eps), rtol=1e-9
            )


def test_slips_are_seen(monkeypatch):
    along, size = lognormal_rule._along, lognormal_path.Cells.log_size

    def wrong_way(own, theta, unit):
        return along(own, -theta, unit)

    def nothing_beside(self, asked):
        """Then few nodes seem to do."""
        return size(self, asked) - 30

    for where, attribute, wrong in (
        (lognormal_rule, "_along", wrong_way),
        (lognormal_mean, "_expm1", lambda value: value),
        (lognormal_path.Cells, "log_size", nothing_beside),
    ):
        with monkeypatch.context() as patched:
            check_is_red(patched, where, attribute, wrong, check_two_steps)
