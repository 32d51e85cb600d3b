"""Compositions whose outcomes are counted, against all tuples of outcomes with forty digits."""

import functools
import itertools

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case as W
from jaxpriv.composition import enumerated
from jaxpriv.composition.enumerated import enumerated_of
from jaxpriv.tradeoff import whole_noise
from tests.slips import check_is_red

EPSILONS = np.array([-0.7, 0.0, 0.2, 0.9, 1.7, 2.9])
LEVELS = np.array([1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9])


def response(epsilon, told=0.0):
    """(the null's, the alternative's masses) of an (epsilon, told)-DP report."""
    told, kept = mpmath.mpf(told), 1 - mpmath.mpf(told)
    high = kept / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    return (told, kept - high, high, mpmath.mpf(0)), (mpmath.mpf(0), high, kept - high, told)


def sampled(pair, rate):
    null, alternative = pair
    rate = mpmath.mpf(rate)
    return null, tuple((1 - rate) * q + rate * p for q, p in zip(null, alternative))


def whole(log_mass, sensitivity, last):
    """Noise of whole numbers, of which all beyond `last` are left out."""
    weights = {x: mpmath.exp(log_mass(x)) for x in range(-last - sensitivity, last + 1)}
    total = mpmath.fsum(mpmath.exp(log_mass(x)) for x in range(-4 * last, 4 * last + 1))
    at = range(-last, last + 1)
    return ([weights[x] / total for x in at], [weights[x - sensitivity] / total for x in at])


@functools.cache
def cases():
    """(the curve, its steps' masses)."""
    mpmath.mp.dps = 40
    gaussian = whole(lambda x: -mpmath.mpf(x) ** 2 / 2 / mpmath.mpf("0.81"), 1, 14)
    return {
        "told": (jaxpriv.compose(W.randomized_response(0.5),
                                 W.approximate_dp(1.2, 1e-3).compose(2)),
                 [response(0.5), response(1.2, 1e-3), response(1.2, 1e-3)]),
        "sampled": (jaxpriv.compose(W.approximate_dp(2.0, 0.0).subsample(0.25).compose(3),
                                    W.randomized_response(0.3)),
                    [sampled(response(2.0), 0.25)] * 3 + [response(0.3)]),
        "noise": (W.discrete_gaussian(0.9).compose(2), [gaussian] * 2),
        "sampled noise": (jaxpriv.compose(W.discrete_gaussian(0.9).subsample(0.125),
                                          W.approximate_dp(0.4, 1e-6)),
                          [sampled(gaussian, 0.125), response(0.4, 1e-6)]),
    }  # fmt: skip


NAMES = ["told", "sampled", "noise", "sampled noise"]


@functools.cache
def outcomes(name, reverse):
    """All tuples' (null's, alternative's) masses."""
    parts = [list(zip(*pair)) for pair in cases()[name][1]]
    tuples = [(mpmath.fprod(q for q, _ in each), mpmath.fprod(p for _, p in each))
              for each in itertools.product(*parts)]  # fmt: skip
    return [(p, q) for q, p in tuples] if reverse else tuples


@functools.cache
def profile(name, reverse, eps):
    lift = mpmath.exp(mpmath.mpf(eps))
    return mpmath.fsum(p - lift * q for q, p in outcomes(name, reverse) if p > lift * q)


@functools.cache
def errors(name, reverse):
    """(type I errors, powers) at the corners of the curve."""
    ratios = sorted(outcomes(name, reverse), key=lambda o: -(o[1] / o[0]) if o[0] else -mpmath.inf)
    q, p = zip(*ratios)
    return [0, *itertools.accumulate(q)], [0, *itertools.accumulate(p)]


def beta(name, reverse, alpha):
    levels, powers = errors(name, reverse)
    k = next(k for k, level in enumerate(levels) if level >= alpha)
    if levels[k] == alpha:
        k += 1
    share = (alpha - levels[k - 1]) / (levels[k] - levels[k - 1])
    return 1 - powers[k - 1] - share * (powers[k] - powers[k - 1])


def curve_of(name, reverse):
    curve = cases()[name][0]
    return curve.reversed() if reverse else curve


def entry_of(curve):
    return next(iter(getattr(curve.experiment, "base", curve.experiment).curves()))[0]


def check_profile(name, reverse):
    curve = curve_of(name, reverse)
    low, high = curve.delta_bounds(EPSILONS)
    found, logs = curve.delta(EPSILONS), curve.log_delta(EPSILONS)
    for k, eps in enumerate(EPSILONS):
        truth = profile(name, reverse, float(eps))
        assert low[k] <= truth <= high[k]
        assert high[k] - low[k] <= 1e-10 * high[k] + 1e-290
        assert abs(found[k] - truth) <= 1e-11 * truth + mpmath.mpf("1e-290")
        assert truth == 0 or abs(logs[k] - mpmath.log(truth)) < 1e-10


def check_levels(name, reverse):
    curve = curve_of(name, reverse)
    low, high = curve.beta_bounds(LEVELS)
    found, power = curve(LEVELS), curve.power(LEVELS)
    for k, alpha in enumerate(LEVELS):
        truth = beta(name, reverse, float(alpha))
        assert low[k] <= truth + mpmath.mpf("1e-16")
        assert truth <= high[k] + mpmath.mpf("1e-16")
        assert high[k] - low[k] < 1e-9
        assert abs(found[k] - truth) < 1e-12
        assert abs(power[k] - (1 - truth)) < 1e-12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reverse", [False, True])
def test_profile(name, reverse):
    check_profile(name, reverse)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reverse", [False, True])
def test_levels(name, reverse):
    check_levels(name, reverse)


@pytest.mark.parametrize("name", NAMES)
def test_epsilons(name):
    curve = curve_of(name, False)
    delta = np.array([0.2, 0.05, 3e-3])
    low, high = curve.epsilon_bounds(delta)
    for at, one in zip(delta, curve.epsilon(delta)):
        if one > 0:
            assert abs(profile(name, False, float(one)) / at - 1) < 1e-9
    assert np.all(high - low < 1e-9)
    assert np.all((low <= curve.epsilon(delta)) & (curve.epsilon(delta) <= high))


def test_a_report_beside_noise_was_off():
    """The estimate from a lattice said 1 - 8e-6, its power 1.5e-7, and the bracket was right."""
    curve = jaxpriv.compose(
        W.unary_encoding(0.5), W.discrete_laplace(2.0, 2).subsample(0.001).compose(2),
        W.approximate_dp(6.196089725268007, 0.0).subsample(0.9).compose(5)).reversed()
    levels = np.array([1e-12, 1e-10, 1e-8, 0.3])
    low, high = curve.beta_bounds(levels)
    assert np.all((low <= curve(levels) + 1e-15) & (curve(levels) <= high + 1e-15))
    np.testing.assert_allclose(curve(levels) + curve.power(levels), 1.0, rtol=0, atol=1e-14)


def test_hundreds_of_reports():
    """Losses that are the same are one: (0.1, 0)-DP 300 times, beside one that tells everything."""
    told = W.approximate_dp(0.0, 1e-4)
    curve = jaxpriv.compose(W.randomized_response(0.1).compose(300), told)
    alone = W.randomized_response(0.1).compose(300)
    for eps in (0.0, 2.0, 8.0):
        whole = 1e-4 + (1 - 1e-4) * alone.delta(eps)
        assert curve.delta(eps) == pytest.approx(whole, rel=1e-11)
    assert entry_of(curve).steps  # a lattice's composition, not a closed form
    assert enumerated_of(entry_of(curve)).polygon.loss.size == 303


def test_levels_where_the_null_is_told():
    """f is 0 from 1 less that on, where the bracket ended at 1 - alpha."""
    curve = jaxpriv.compose(W.laplace(1.0), W.approximate_dp(0.5, 1e-3))
    low, high = curve.beta_bounds(np.array([0.998, 0.99901, 0.9999]))
    assert low[0] > 0
    assert np.all(high[1:] == 0.0)


def test_others_are_not_counted():
    """Where a loss is not discrete, there are too many, or a step is taken half, lattices serve."""
    for curve in (jaxpriv.compose(W.laplace(1.0), W.laplace(0.5)),
                  W.discrete_gaussian(1.3).subsample(0.3).compose(5),
                  jaxpriv.compose(W.discrete_gaussian(2000.0), W.randomized_response(1.0))):
        entry = entry_of(curve)
        assert enumerated_of(entry) is None
    assert enumerated_of(entry_of(W.discrete_gaussian(1.3).compose(jnp.asarray(2.0)))) is None


def test_many_levels_at_once():
    curve = curve_of("told", False)
    levels = np.linspace(0.0, 1.0, 4001)
    one_by_one = [curve(float(level)) for level in levels[::400]]
    np.testing.assert_array_equal(curve(levels)[::400], one_by_one)


def other_side(law, eps, sign):
    return BOUND(law, eps, -sign)


def without_reversing(self, reverse):
    return LISTED(self, False)


BOUND, LISTED = enumerated._bound, whole_noise.SampledWhole.listed
SLIPS = {
    "rounded to the other side": (
        enumerated, "_bound", other_side, lambda: check_profile("told", False)),
    "no direction": (whole_noise.SampledWhole, "listed", without_reversing,
                     lambda: check_levels("sampled noise", True)),
    "losses end too soon": (
        whole_noise, "_DEEP", -3.0, lambda: check_profile("noise", False)),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_slip_is_seen(slip, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[slip])
