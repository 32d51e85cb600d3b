"""How well an attribute is inferred: against linear programs over all mechanisms, mpmath, formulas
by hand, and an attack that is played.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats
from scipy.optimize import linprog

import jaxpriv
from jaxpriv import worst_case

NORM = scipy.stats.norm
BASELINES = np.array([1e-200, 1e-12, 1e-3, 0.1, 0.3, 0.45, 0.5, 0.6, 1 - 1e-9])


def best_guess(epsilons, deltas, prior):
    """The largest success of all mechanisms whose output is a guess, with delta(epsilon) <= delta
    at these epsilon between every two values.
    """
    k = len(prior)
    pairs = [(a, c) for a in range(k) for c in range(k) if a != c]
    size = k * k + len(pairs) * len(epsilons) * k
    rows, bounds = [], []
    for j, (epsilon, delta) in enumerate(zip(epsilons, deltas)):
        for i, (a, c) in enumerate(pairs):
            at = k * k + (j * len(pairs) + i) * k
            for guess in range(k):
                row = np.zeros(size)
                row[a * k + guess], row[c * k + guess], row[at + guess] = 1, -np.exp(epsilon), -1
                rows.append(row)
                bounds.append(0.0)
            row = np.zeros(size)
            row[at : at + k] = 1
            rows.append(row)
            bounds.append(delta)
    sums = np.zeros((k, size))
    for a in range(k):
        sums[a, a * k : (a + 1) * k] = 1
    worth = np.zeros(size)
    worth[[a * k + a for a in range(k)]] = -np.asarray(prior)
    return -linprog(worth, np.array(rows), bounds, sums, np.ones(k), method="highs").fun


def polygons():
    """(curve, epsilons, deltas) of curves whose profile has corners there and nowhere else."""
    yield worst_case.approximate_dp(1.3, 0.04), [0.0, 1.3], [
        0.04 + 0.96 * np.tanh(1.3 / 2), 0.04]
    # randomised response of which a record takes part with probability 0.4: two outcomes, tested
    # either way; where one way overtakes the other there is a corner, too
    told, lied = 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(2.0))
    more, less = 0.4 * told + 0.6 * lied, 0.4 * lied + 0.6 * told
    corners = [0.0, np.log((told - more) / (less - lied)), np.log(more / lied), np.log(told / less)]
    corners = [epsilon for epsilon in corners if epsilon >= 0]
    yield worst_case.randomized_response(2.0).subsample(0.4), corners, [
        max(more - np.exp(epsilon) * lied, told - np.exp(epsilon) * less, 0.0)
        for epsilon in corners]


def check_best_guess():
    """Attained for equally likely values and between two; never exceeded."""
    random = np.random.default_rng(0)
    for curve, epsilons, deltas in polygons():
        np.testing.assert_allclose(curve.symmetric().delta(epsilons), deltas, atol=1e-12)
        for k in (2, 3, 5):
            best = best_guess(epsilons, deltas, np.full(k, 1 / k))
            assert curve.attribute_inference_success(1 / k) == pytest.approx(best, rel=1e-8)
        for baseline in (0.55, 0.7, 0.95):
            best = best_guess(epsilons, deltas, [baseline, 1 - baseline])
            assert curve.attribute_inference_success(baseline) == pytest.approx(best, rel=1e-8)
        for k in (2, 3, 4, 6):
            for _ in range(6):
                prior = random.dirichlet(np.full(k, random.choice([0.5, 2.0, 20.0])))
                best = best_guess(epsilons, deltas, prior)
                assert best <= curve.attribute_inference_success(np.max(prior)) + 1e-9


def test_best_guess():
    check_best_guess()


def gaussian_success(mu, baseline):
    """By mpmath."""
    with mpmath.workdps(40):
        b, mu = mpmath.mpf(float(baseline)), mpmath.mpf(mu)
        if b >= 0.5:
            level = mpmath.log(b / (1 - b))
            above, below = (mpmath.ncdf(-level / mu + sign * mu / 2) for sign in (1, -1))
            return b + (1 - b) * (above - b / (1 - b) * below)

        low, high = mpmath.mpf(-50), mpmath.mpf(50)
        for _ in range(100):  # the level is Phi(z)
            z = (low + high) / 2
            more = 1 - (1 - b) / b * mpmath.ncdf(z) > mpmath.ncdf(z + mu)
            low, high = (z, high) if more else (low, z)
        return mpmath.ncdf(z + mu)


def check_gaussian():
    for mu in (0.5, 1.4):
        curve = worst_case.gaussian(mu)
        found = curve.attribute_inference_success(BASELINES)
        low, high = curve.attribute_inference_success_bounds(BASELINES)
        for index, baseline in enumerate(BASELINES):
            want = gaussian_success(mu, baseline)
            assert abs(found[index] - want) <= 1e-10 * want
            assert mpmath.mpf(float(low[index])) <= want <= mpmath.mpf(float(high[index]))
            assert high[index] - low[index] <= 1e-6 * want


def test_gaussian():
    check_gaussian()


def test_pure_epsilon():
    """e^epsilon/(e^epsilon + k - 1), and the larger of b and 1/(1 + e^-epsilon) between two."""
    for epsilon in (0.0, 0.7, 3.0):
        curve = worst_case.randomized_response(epsilon)
        for baseline in (1e-3, 0.1, 0.25, 0.5):
            odds = np.exp(epsilon) * baseline / (1 - baseline)
            low, high = curve.attribute_inference_success_bounds(baseline)
            assert low <= odds / (1 + odds) * (1 + 1e-12) <= high * (1 + 2e-12)
            assert curve.attribute_inference_success(baseline) == pytest.approx(odds / (1 + odds))
        for baseline in (0.6, 0.99):
            want = max(baseline, 1 / (1 + np.exp(-epsilon)))
            assert curve.attribute_inference_success(baseline) == pytest.approx(want, rel=1e-12)


def test_ends():
    for curve in (worst_case.gaussian(1.0), worst_case.laplace(1.0), worst_case.gaussian(0.0)):
        for level in (0.0, 1.0):
            low, high = curve.attribute_inference_success_bounds(level)
            assert low <= level <= high <= level + 1e-200
            assert curve.attribute_inference_success(level) == level
    told = worst_case.approximate_dp(0.5, 0.1)  # in the clear, for one in ten
    assert told.attribute_inference_success(0.0) == pytest.approx(0.1, rel=1e-12)
    assert told.attribute_inference_success_bounds(0.0)[1] == pytest.approx(0.1, rel=1e-12)
    nothing = worst_case.gaussian(0.0).attribute_inference_success(BASELINES)
    np.testing.assert_allclose(nothing, BASELINES, rtol=1e-12)
    assert worst_case.gaussian(60.0).attribute_inference_success(0.01) == pytest.approx(1.0)
    around = worst_case.gaussian(1.0).attribute_inference_success([0.5 - 1e-9, 0.5])
    assert around[1] - around[0] == pytest.approx(0.0, abs=1e-8)


def test_order():
    """Between the baseline and the power at it; rising in the baseline, and in what leaks."""
    grid = np.linspace(0.0, 1.0, 41)
    rising = []
    for mu in (0.3, 1.0, 3.0):
        curve = worst_case.gaussian(mu).subsample(0.3)
        found = curve.attribute_inference_success(grid)
        assert np.all(np.diff(found) >= -1e-12)
        assert np.all(found >= grid - 1e-15)
        assert np.all(found <= curve.symmetric().reconstruction_success(grid) + 1e-12)
        assert np.all(found == curve.reversed().attribute_inference_success(grid))
        rising.append(found)
    assert np.all(np.diff(rising, axis=0) >= -1e-12)


def test_nobody_infers_more():
    """One of k values moves a release to a corner of its own: the nearest one is guessed, as often
    as the curve of two corners' distance lets it be for two values, and less often for more.
    """
    random = np.random.default_rng(1)
    games, signal = 200_000, 0.9
    for count in (2, 3, 8):
        mine = random.integers(count, size=games)
        release = signal * np.eye(count)[mine] + random.standard_normal((games, count))
        success = np.mean(np.argmax(release, 1) == mine)
        bound = worst_case.gaussian(signal * np.sqrt(2)).attribute_inference_success(1 / count)
        assert success <= bound + 4 / np.sqrt(games)
        assert count > 2 or success >= bound - 4 / np.sqrt(games)


@pytest.mark.slow
@pytest.mark.parametrize("baseline", [pytest.param(0.03, marks=pytest.mark.slow), 0.7])
def test_executors_and_derivatives(baseline):
    def function(mu, baseline):
        return worst_case.gaussian(mu).subsample(0.3).attribute_inference_success(baseline)

    point = np.array([1.2, baseline])
    value, slopes = jax.jit(jax.value_and_grad(function, (0, 1)))(*map(jnp.float64, point))
    assert abs(value - function(*point)) < 1e-12
    for axis, slope in enumerate(slopes):
        step = 1e-5 * np.eye(2)[axis] * point[axis]
        difference = (function(*(point + step)) - function(*(point - step))) / (2 * step[axis])
        np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.slow
def test_derivative_at_a_corner():
    """Pure epsilon, where the curve has a kink at the level that decides."""
    slope = jax.grad(lambda eps: worst_case.randomized_response(eps).attribute_inference_success(
        0.1))(jnp.float64(1.0))
    share = np.e / (np.e + 9)
    np.testing.assert_allclose(slope, share * (1 - share), rtol=1e-6)


def test_bad_arguments():
    curve = worst_case.laplace(1.0)
    for bad in (-0.1, 1.1, np.inf, "some", None):
        for method in (curve.attribute_inference_success, curve.attribute_inference_success_bounds):
            with pytest.raises(ValueError, match=r"baseline = .*\[0, 1\]"):
                method(bad)
    assert np.isnan(curve.attribute_inference_success(np.nan))


@pytest.mark.slow
def test_bounds_inside_jit():
    def bounds(mu, baseline):
        return worst_case.gaussian(mu).subsample(0.3).attribute_inference_success_bounds(baseline)

    program = jax.jit(bounds)
    for dtype in (jnp.float32, jnp.float64):
        for baseline in (0.03, 0.7):
            own = [np.asarray(dtype(value)) for value in (1.2, baseline)]
            low, high = program(*map(jnp.asarray, own))
            want = bounds(*own)
            assert low <= want[1]
            assert want[0] <= high
            assert high - low < 3e-6


SLIPS = {
    "the power at the baseline": (
        "attribute_inference_success",
        lambda true, curve, b: curve.symmetric().reconstruction_success(b), check_best_guess),
    "delta at half the odds": ("attribute_inference_success",
                               lambda true, curve, b: true(curve, b / (2 - b)), check_gaussian),
    "upper end for both": ("attribute_inference_success_bounds",
                           lambda true, curve, b: (true(curve, b)[1],) * 2, check_gaussian),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    method, wrong, check = SLIPS[name]
    true = getattr(jaxpriv.Curve, method)
    monkeypatch.setattr(jaxpriv.Curve, method, lambda self, b: wrong(true, self, b))
    with pytest.raises(AssertionError):
        check()
