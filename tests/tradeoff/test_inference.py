"""What an adversary who guesses gains: success of reconstruction, precision, posterior; against
mpmath, formulas by hand, and an attack that is played.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.tradeoff import inference

NORM = scipy.stats.norm
LEVELS = np.array([1e-200, 1e-12, 1e-3, 0.2, 0.7, 1 - 1e-9])
MU, RATIO, RATE = 1.4, 0.9, 0.2


def gaussian_power(alpha):
    with mpmath.workdps(60):
        z = mpmath.mpf(NORM.ppf(alpha))
        z = mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - mpmath.log(mpmath.mpf(alpha)), z)
        return mpmath.ncdf(z + MU)


def laplace_power(alpha):
    edge = mpmath.e ** (-mpmath.mpf(RATIO)) / 2
    if alpha <= edge:
        return mpmath.e ** mpmath.mpf(RATIO) * alpha
    if alpha <= 0.5:
        return 1 - mpmath.e ** (-mpmath.mpf(RATIO)) / (4 * mpmath.mpf(alpha))
    return 1 - mpmath.e ** (-mpmath.mpf(RATIO)) * (1 - mpmath.mpf(alpha))


def sampled_power(alpha):
    return mpmath.mpf(RATE) * gaussian_power(alpha) + (1 - mpmath.mpf(RATE)) * mpmath.mpf(alpha)


# a curve, its power, and its likelihood ratio at a level, where there is one
CASES = {
    "gaussian": (worst_case.gaussian(MU), gaussian_power,
                 lambda a: np.exp(-MU * (NORM.ppf(a) + MU / 2))),
    "laplace": (worst_case.laplace(RATIO), laplace_power,
                lambda a: np.exp(np.clip(-RATIO - 2 * np.log(2 * a), -RATIO, RATIO))),
    "sampled": (worst_case.gaussian(MU).subsample(RATE), sampled_power,
                lambda a: 1 - RATE + RATE * np.exp(-MU * (NORM.ppf(a) + MU / 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_reconstruction(name):
    """Bounds to a share of themselves however small the baseline is."""
    curve, power, _ = CASES[name]
    low, high = curve.reconstruction_success_bounds(LEVELS)
    found = curve.reconstruction_success(LEVELS)
    for index, level in enumerate(LEVELS):
        want = power(float(level))
        assert mpmath.mpf(float(low[index])) <= want <= mpmath.mpf(float(high[index]))
        assert high[index] - low[index] <= 2e-6 * want
        assert abs(found[index] - want) <= 1e-11 * want
    for level, want in ((0.0, 0.0), (1.0, 1.0)):
        low, high = curve.reconstruction_success_bounds(level)
        assert low <= want <= high <= want + 1e-200
        assert curve.reconstruction_success(level) == want


def test_reconstruction_of_dp_sgd():
    curve = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
    low, high = curve.reconstruction_success_bounds(LEVELS)
    found = curve.reconstruction_success(LEVELS)
    assert np.all((low <= found * (1 + 1e-11)) & (found <= high * (1 + 1e-11)))
    assert np.all(high - low < 1e-5 * found)


def test_nobody_reconstructs_more():
    """One of m records is in the release record + noise, and who sees it names the nearest: with
    two the best guess is the test itself at 1/2, with more it stays below the bound.
    """
    rng = np.random.default_rng(2)
    games = 200_000
    for count in (2, 5):
        records = 0.8 * np.eye(count)
        mine = rng.integers(count, size=games)
        release = records[mine] + rng.standard_normal((games, count))
        success = np.mean(np.argmax(release, 1) == mine)
        # without the record the release is noise around the others' mean, the same for all
        curve = worst_case.gaussian(0.8)
        assert success <= curve.reconstruction_success(1 / count) + 4 / np.sqrt(games)
    # told exactly where a test is: a record that moves a release by mu, a secret bit alone
    secret = rng.random(games) < 0.5
    release = np.where(secret, 0.8, 0.0) + rng.standard_normal(games)
    success = np.mean((release > 0.4) == secret)
    assert abs(success - NORM.cdf(0.4)) < 4 / np.sqrt(games)
    assert success <= worst_case.gaussian(0.8).reconstruction_success(0.5) + 4 / np.sqrt(games)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("base_rate", [0.0, 1e-9, 0.01, 0.5, 1.0])
def test_precision_and_posterior(name, base_rate):
    curve, power, ratio = CASES[name]
    low, high = curve.precision_bounds(LEVELS, base_rate)
    below, above = curve.posterior_bounds(LEVELS, base_rate)
    for index, level in enumerate(LEVELS):
        share = mpmath.mpf(base_rate) * power(float(level))
        want = share / (share + (1 - mpmath.mpf(base_rate)) * mpmath.mpf(float(level)))
        assert mpmath.mpf(float(low[index])) <= want <= mpmath.mpf(float(high[index]))
        assert high[index] - low[index] <= 2e-6 * want
        assert abs(curve.precision(level, base_rate) - want) <= 1e-11 * want
        odds = float(ratio(level)) * base_rate
        want = odds / (odds + 1 - base_rate)
        assert below[index] <= want * (1 + 1e-12)
        assert want <= above[index] * (1 + 1e-12)
        # next to 1 the levels' complements would decide
        assert above[index] - below[index] <= 1e-4 * want or level > 0.99
        assert abs(curve.posterior(level, base_rate) - want) <= 1e-9 * want


def test_posterior_of_responses():
    """Odds times e^epsilon, or over it; around a kink one of both."""
    curve, odds = worst_case.randomized_response(1.0), 0.25
    for level, times in ((0.1, np.e), (0.9, 1 / np.e)):
        want = odds * times / (1 + odds * times)
        low, high = curve.posterior_bounds(level, 0.2)
        assert low <= want <= high * (1 + 1e-15)
        assert high - low < 1e-6
        assert abs(curve.posterior(level, 0.2) - want) < 1e-14
    low, high = curve.posterior_bounds(1 / (1 + np.e), 0.2)
    assert low <= curve.posterior(1 / (1 + np.e), 0.2) <= high <= 0.4046096 + 1e-6


@pytest.mark.parametrize("method", ["reconstruction_success", "precision", "posterior"])
def test_executors_and_derivatives(method):
    """The same digits, slopes as differences have them, and bounds inside a program."""
    values = (0.03,) if method == "reconstruction_success" else (0.03, 0.2)

    def function(mu, *arguments):
        return getattr(worst_case.gaussian(mu).subsample(0.3), method)(*arguments)

    point = (1.2, *values)
    given = [jnp.float64(v) for v in point]
    value, slopes = jax.value_and_grad(function, tuple(range(len(point))))(*given)
    assert abs(value - function(*point)) < 1e-12
    for axis, slope in enumerate(slopes):
        step = 1e-5 * np.eye(len(point))[axis] * point[axis]
        difference = (function(*(point + step)) - function(*(point - step))) / (2 * step[axis])
        np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["reconstruction_success", "precision", "posterior"])
def test_bounds_inside_jit(method):
    values = (0.03,) if method == "reconstruction_success" else (0.03, 0.2)
    for dtype in (jnp.float32, jnp.float64):
        own = np.asarray(dtype(1.2)), *(np.asarray(dtype(v)) for v in values)

        def bounds(mu, *arguments):
            return getattr(worst_case.gaussian(mu).subsample(0.3), method + "_bounds")(*arguments)

        low, high = jax.jit(bounds)(*map(dtype, (1.2, *values)))
        want = bounds(*own)
        assert low <= want[1]
        assert want[0] <= high
        assert high - low < 3e-6


def test_bad_arguments():
    curve = worst_case.laplace(1.0)
    for bad in (-0.1, 1.1, np.inf, "some", None):
        for method in (curve.reconstruction_success, curve.reconstruction_success_bounds):
            with pytest.raises(ValueError, match=r"baseline = .*\[0, 1\]"):
                method(bad)
        for method in (curve.precision, curve.precision_bounds, curve.posterior,
                       curve.posterior_bounds):
            with pytest.raises(ValueError, match=r"alpha = .*\(0, 1"):
                method(bad, 0.5)
            with pytest.raises(ValueError, match=r"base_rate = .*\[0, 1\]"):
                method(0.5, bad)
    for method in (curve.precision, curve.precision_bounds, curve.posterior):
        with pytest.raises(ValueError, match="alpha"):
            method(0.0, 0.5)
        assert np.all(np.isnan(method(np.nan, 0.5)))
        assert np.all(np.isnan(method(0.5, np.nan)))


class TestMutations:
    """Each of these slips is seen by a test above."""

    def red(self, test, *arguments):
        with pytest.raises(AssertionError):
            test(*arguments)

    def slip(self, monkeypatch, name, change):
        true = getattr(jaxpriv.Curve, name)
        monkeypatch.setattr(jaxpriv.Curve, name, lambda self, *a: change(true, self, *a))

    def test_success_of_the_exchanged_hypotheses(self, monkeypatch):
        self.slip(monkeypatch, "reconstruction_success", lambda true, c, p: 1 - c.inverse(p))
        self.red(test_reconstruction, "sampled")

    def test_success_bounds_at_one_side(self, monkeypatch):
        self.slip(monkeypatch, "reconstruction_success_bounds",
                  lambda true, c, p: (true(c, p)[0],) * 2)
        self.red(test_reconstruction, "gaussian")

    def test_precision_without_the_base_rate(self, monkeypatch):
        self.slip(monkeypatch, "precision", lambda true, c, a, b: true(c, a, 0.5))
        self.red(test_precision_and_posterior, "gaussian", 0.01)

    def test_precision_bounds_of_half_the_level(self, monkeypatch):
        self.slip(monkeypatch, "precision_bounds", lambda true, c, a, b: true(c, a / 2, b))
        self.red(test_precision_and_posterior, "gaussian", 0.01)

    def test_posterior_of_the_region(self, monkeypatch):
        self.slip(monkeypatch, "posterior", lambda true, c, a, b: c.precision(a, b))
        self.red(test_precision_and_posterior, "gaussian", 0.01)

    def test_secants_the_other_way_round(self, monkeypatch):
        monkeypatch.setattr(inference, "_FIRST", -1e-7)
        self.red(test_precision_and_posterior, "gaussian", 0.01)
