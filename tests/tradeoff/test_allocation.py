"""Random allocation against mpmath, enumeration of nodes, sampling and what its limits are."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import jaxpriv
from jaxpriv.tradeoff import lognormal_mean, lognormal_rule, one_large

random_allocation = jaxpriv.worst_case.random_allocation


def of_two(noise, eps, reverse=False):
    """delta for t = 2: a Black-Scholes price over one normal variable, by mpmath."""
    with mp.workdps(30):
        mu, k = 1 / mp.mpf(noise), 2 * mp.e ** mp.mpf(-eps if reverse else eps)

        def price(strike):
            if strike <= 0:
                return mp.mpf(0) if reverse else 1 - strike
            d = (-mp.log(strike) - mu**2 / 2) / mu
            if reverse:
                return strike * mp.ncdf(-d) - mp.ncdf(-d - mu)
            return mp.ncdf(d + mu) - strike * mp.ncdf(d)

        def f(z):
            return mp.npdf(z) * price(k - mp.e ** (z * mu - mu**2 / 2))

        edge = (mp.log(k) + mu**2 / 2) / mu
        ends = [edge + away for away in (-1, -0.1, -0.01, 0, 0.01, 0.1, 1, 4, 12)]
        ends = sorted([*ends, -13, -7, -3, 0, 3, 7, 12, 18])
        if reverse:
            ends = [end for end in ends if end <= edge]
        value = mp.quad(f, ends) / 2
        return float(value * mp.e**eps if reverse else value)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("noise", "eps"), [(1.0, 0.5), (2.0, 1.5), (0.7, 2.0), (1.0, -0.4), (5.0, 0.3)]
)
def test_two_steps(noise, eps, reverse):
    curve = random_allocation(noise, 2)
    curve = curve.reversed() if reverse else curve
    truth = of_two(noise, eps, reverse)
    low, high = curve.delta_bounds(eps)
    assert low <= truth * (1 + 1e-14)
    assert truth * (1 - 1e-14) <= high
    assert high - low <= 1e-6 * truth
    np.testing.assert_allclose(curve.delta(eps), truth, rtol=1e-9)


def test_three_steps_by_sums():
    """E over a grid of three normal variables; the rule is exact to 1e-12 for a smooth
    function, and the call at log M is averaged over the last one in closed form."""
    noise, eps = 1.2, 0.8
    x = np.arange(-9, 11, 0.02)
    weight = 0.02 * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    large = np.exp(x / noise - 0.5 / noise**2)
    from scipy.stats import norm

    strike = 3 * np.exp(eps) - large[:, None] - large
    safe = np.maximum(strike, 1e-12)
    d = (-np.log(safe) - 0.5 / noise**2) * noise
    price = np.where(strike > 0, norm.cdf(d + 1 / noise) - strike * norm.cdf(d), 1 - strike)
    truth = weight @ price @ weight / 3
    low, high = random_allocation(noise, 3).delta_bounds(eps)
    assert low <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= high
    np.testing.assert_allclose(random_allocation(noise, 3).delta(eps), truth, rtol=1e-9)


@pytest.mark.parametrize(("noise", "steps", "eps"), [(0.6, 300, 0.5), (1.0, 1000, 0.05)])
def test_sampling(noise, steps, eps):
    rng, count = np.random.default_rng(5), 20000
    large = np.concatenate(
        [
            np.exp(rng.standard_normal((500, steps)) / noise - 0.5 / noise**2).mean(1)
            for _ in range(count // 500)
        ]
    )
    curve = random_allocation(noise, steps)
    touch = curve.experiment.aligned((), np.float64).touch(np.float64(eps), False)
    for payoff, value in (
        (np.maximum(large - np.exp(eps), 0), curve.delta(eps)),
        (np.maximum(1 - np.exp(eps) * large, 0), curve.reversed().delta(eps)),
        (large > np.exp(eps), np.exp(touch.log_alpha)),
    ):
        assert abs(payoff.mean() - value) < 5 * payoff.std() / np.sqrt(count)


def test_known_brackets_and_limits():
    """A peer's bracket; one step is the Gaussian mechanism; many steps a normal mean."""
    low, high = random_allocation(1.0, 1000).epsilon_bounds(1e-5)
    assert 0.1364 <= low <= high <= 0.1422
    assert random_allocation(1.7, 1).epsilon(1e-5) == jaxpriv.worst_case.gaussian(1 / 1.7).epsilon(
        1e-5
    )
    spread = np.sqrt(np.expm1(1.0) / 1e8)
    normal = jaxpriv.worst_case.gaussian(spread).epsilon(1e-7)
    np.testing.assert_allclose(random_allocation(1.0, 1e8).epsilon(1e-7), normal, rtol=1e-3)
    assert random_allocation(1.0, 1e8).epsilon(1e-3) == 0


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1000), (2.0, 1e4), (1.0, 1e6)])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_brackets_are_narrow(noise, steps, delta):
    curve = random_allocation(noise, steps)
    for one in (curve, curve.reversed()):
        low, high = one.epsilon_bounds(delta)
        assert low <= one.epsilon(delta) <= high
        assert high - low <= 1e-6 * high
        assert one.delta_bounds(low)[1] >= delta >= one.delta_bounds(high)[0]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_brackets_are_narrow_where_tails_are_heavy(delta):
    low, high = random_allocation(0.5, 100).epsilon_bounds(delta)
    assert high - low <= 1e-6 * high


def test_both_means_agree_in_the_right_tail():
    """The line, and one large lognormal, where both say something."""
    for noise, steps, eps in ((0.5, 100, 4.0), (0.7, 30, 4.5), (1.0, 1000, 0.7), (1.0, 20, 2.0)):
        a, t, x = np.float64(1 / noise), np.float64(steps), np.float64(eps)
        own = lognormal_rule.columns(a, t)
        found = lognormal_mean.integrals(lognormal_mean.line(own, x), x)
        low, high = np.exp(one_large.log_bounds(a, t, x))
        assert found.gain + found.gain_error >= low
        assert found.gain - found.gain_error <= high
        assert high / low < 3
        # mass is minus the slope of gain
        step = 1e-4
        sides = [
            lognormal_mean.integrals(lognormal_mean.line(own, near), near).gain
            for near in np.log1p(np.expm1(x) * (1 + np.array([-step, step])))
        ]
        slope = (sides[0] - sides[1]) / (2 * step * np.expm1(x))
        np.testing.assert_allclose(slope, found.mass, rtol=2e-3)


def test_deep_tails_are_bracketed():
    """Where the line knows nothing: delta of 1e-14 and below, beside its limit of one jump."""
    curve = random_allocation(0.5, 100)
    low, high = curve.log_delta_bounds(12.0)
    assert low <= curve.log_delta(12.0) <= high < -30
    assert high - low < 1e-6
    gauss = jaxpriv.worst_case.gaussian(2.0)
    jump = gauss.log_delta(np.log(100 * np.exp(12.0) - 99))
    np.testing.assert_allclose(high, jump, atol=1e-6)
    low, high = random_allocation(1.0, 1000).reversed().log_delta_bounds(1.0)
    assert -400 < low <= high < -300
    assert high - low < 1e-6


@pytest.mark.slow
def test_properties():
    noises, steps = np.array([0.8, 1.0, 1.5]), np.array([10.0, 100.0, 1000.0])
    eps = random_allocation(noises[:, None], steps).epsilon(1e-5)
    assert np.all(np.diff(eps, axis=0) < 0)
    assert np.all(np.diff(eps, axis=1) < 0)
    back = random_allocation(noises[:, None], steps).reversed().epsilon(1e-5)
    assert np.all(back < eps)
    both = random_allocation(1.0, 100).symmetric()
    np.testing.assert_allclose(both.epsilon(1e-5), eps[1, 1], rtol=1e-12)
    poisson = jaxpriv.worst_case.subsampled_gaussian(1.0, 1e-3, 1000).epsilon(1e-5)
    assert abs(eps[1, 2] / poisson - 1) < 0.25


def test_curve_and_its_inverse():
    curve = random_allocation(1.0, 100)
    alpha = np.array([1e-4, 0.05, 0.5, 0.9])
    np.testing.assert_allclose(curve.inverse(curve(alpha)), alpha, rtol=1e-7)
    low, high = curve.beta_bounds(0.05)
    assert low <= curve(0.05) <= high
    assert high - low < 1e-7
    np.testing.assert_allclose(curve.advantage(), curve.delta(0.0))
    assert curve.gdp_mu() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
def test_traced():
    """One program gives NumPy's numbers, and derivatives are those of differences."""

    def of(noise, steps, eps):
        return random_allocation(noise, steps).log_delta(eps)

    with jax.enable_x64(True):
        at = 1.0, 1000.0, 0.14
        value, slopes = jax.jit(jax.value_and_grad(of, (0, 1, 2)))(*at)
        np.testing.assert_allclose(value, of(*at), rtol=1e-11)
        for index, slope in enumerate(slopes):
            step = 1e-5 * at[index] * np.eye(3)[index]
            change = of(*(at + step)[:1], 1000.0, 0.14) if index == 0 else None
            if change is None:
                continue
            difference = (change - of(*(at - step)[:1], 1000.0, 0.14)) / (2e-5 * at[index])
            np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.slow
def test_epochs():
    """One epoch between its pairs, several beside Poisson, and one of each block."""
    curve = random_allocation(2.0, 50)
    many = curve.compose(5)
    low, high = many.epsilon_bounds(1e-5)
    assert low <= many.epsilon(1e-5) <= high
    assert high - low < 2e-3 * high
    again = random_allocation(2.0, 250, selected=5).epsilon_bounds(1e-5)
    np.testing.assert_allclose(again, (low, high), rtol=1e-9)
    poisson = jaxpriv.worst_case.subsampled_gaussian(2.0, 0.02, 250).epsilon(1e-5)
    assert 0.7 < low / poisson < 1.2
    every = random_allocation(2.0, 4, selected=4).epsilon(1e-5)
    np.testing.assert_allclose(every, jaxpriv.worst_case.gaussian(1.0).epsilon(1e-5), rtol=1e-12)


def test_the_pairs_lie_above_and_below():
    from jaxpriv.tradeoff import allocation_pairs

    curve = random_allocation(2.0, 50)
    (loss, upper), (low_loss, lower) = allocation_pairs.between(0.5, 50.0)
    for eps in (-0.2, -0.01, 0.0, 0.05, 0.2, 0.4):
        low, high = curve.delta_bounds(eps)
        at, below = np.searchsorted(loss, eps, "right"), np.searchsorted(low_loss, eps, "right")
        above = np.exp(upper.log_power[at]) - np.exp(eps + upper.log_alpha[at])
        under = np.exp(lower.log_power[below]) - np.exp(eps + lower.log_alpha[below])
        assert under <= high
        assert low <= above + 1e-15
        assert above - under < 3e-3 * high
    # beyond the last outcome what is left is an infinite loss
    assert np.exp(upper.log_power[-1]) >= curve.delta_bounds(loss[-1])[0] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, 10),
        (-1.0, 10),
        (1.0, 0.5),
        (1.0, 2.5),
        (1.0, 2e9),
        (1.0, 10, 0),
        (1.0, 10, 11),
        (1.0, 10, 1.5),
        (1.0, 10, 1, 0),
        (1.0, "ten"),
    ],
)
def test_hostile(arguments):
    with pytest.raises(ValueError, match=r"range|whole|number"):
        random_allocation(*arguments)


@pytest.mark.slow
def test_extremes():
    for noise, steps in ((0.01, 10), (1e-3, 1e9), (1e3, 7), (1e12, 1e9)):
        curve = random_allocation(noise, steps)
        low, high = curve.delta_bounds(0.1)
        assert 0 <= low <= high <= 1
    low, high = random_allocation(1.0, 10).delta_bounds(np.array([-600.0, 600.0]))
    assert high[0] == 1
    assert low[0] > 1 - 1e-10
    assert low[1] == 0
    assert high[1] < 1e-200
    assert np.isnan(random_allocation(1.0, 10).delta(np.nan))
    assert random_allocation(1.0, 10).epsilon(0.0) == np.inf


@pytest.mark.slow
@pytest.mark.optimized
def test_epochs_of_single_precision_are_of_that_very_number():
    noise = np.float32(0.7)
    found, wanted = (
        jaxpriv.worst_case.random_allocation(value, 50).compose(2).delta_bounds(2.0)
        for value in (jnp.asarray(noise), float(noise))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
