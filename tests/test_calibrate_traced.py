"""Calibration inside `jit` and `vmap`: the NumPy answer, its guarantee, and its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import calibrate, relaxed, worst_case

MAKERS = {
    "gaussian, noise": lambda std: worst_case.gaussian(1 / std),
    "gaussian, signal": worst_case.gaussian,
    "laplace, scale": lambda scale: worst_case.laplace(1 / scale),
}
TARGETS = {
    "epsilon": {"epsilon": 0.7, "delta": 1e-3},
    "advantage": {"advantage": 0.2},
    "mu": {"mu": 0.6},
    "power": {"fpr": 0.05, "tpr": 0.21},
}


def noise_for(epsilon, delta=1e-5, sensitivity=1.0):
    """The noise of a Gaussian release."""
    return calibrate(lambda s: worst_case.gaussian(sensitivity / s), epsilon=epsilon, delta=delta)


def exceeded(curve, target):
    """Which of these targets does a curve exceed by its bounds? As NumPy computes them."""
    curve = curve.symmetric()
    if "epsilon" in target:
        return curve.delta_bounds(target["epsilon"])[1] > target["delta"]
    if "advantage" in target:
        return curve.advantage_bounds()[1] > target["advantage"]
    if "mu" in target:
        return curve.gdp_mu() > target["mu"]
    return 1 - curve.beta_bounds(target["fpr"])[0] > target["tpr"]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("maker", MAKERS)
def test_agrees_with_numpy(maker, target):
    """The same number as outside `jit`, and in float32 the same but for rounding, never beyond."""
    make, given = MAKERS[maker], TARGETS[target]
    want = calibrate(make, **given)
    with jax.enable_x64(True):
        found = jax.jit(lambda target: calibrate(make, **target))(given)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, want, rtol=1e-9)
    narrow = jax.jit(lambda target: calibrate(make, **target))
    with jax.enable_x64(False):
        found = narrow(jax.tree.map(np.float32, given))
        assert found.dtype == np.float32
        # float32 has few digits of the smallest mu, and rounds it upwards
        np.testing.assert_allclose(found, want, rtol=2e-4 if "mu" in given else 3e-6)
        curve = make(found).symmetric()  # as its user computes it, in float32
    given = {name: float(np.float32(value)) for name, value in given.items()}
    assert not exceeded(make(float(found)), given)
    assert not exceeded(curve, given)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [True, False])
def test_a_thousand_targets_in_one_call(wide):
    """Every answer meets its target by NumPy's bound, tightly, and so it is in float32."""
    random = np.random.default_rng(3)
    epsilon, exponent = random.uniform(0.01, 8.0, 1500), random.uniform(-12, -2, 1500)
    with jax.enable_x64(wide):
        given = jnp.asarray(epsilon), 10.0 ** jnp.asarray(exponent)
        found = jax.jit(jax.vmap(noise_for))(*given)
        inverted = 1 / found
        again = jax.vmap(jax.jit(noise_for))(*(value[:3] for value in given))
    epsilon, delta = (np.asarray(value, np.float64) for value in given)
    noise = np.asarray(found, np.float64)
    np.testing.assert_allclose(again, found[:3], rtol=1e-6)
    upper = worst_case.gaussian(1 / noise).delta_bounds(epsilon)[1]
    assert np.all(upper <= delta)
    # also for the signal that float32 makes of the noise
    assert not np.any(exceeded(worst_case.gaussian(inverted), {"epsilon": epsilon, "delta": delta}))
    close = 1e-9 if wide else 4e-7
    assert np.all(worst_case.gaussian(1 / noise * (1 + close)).delta_bounds(epsilon)[1] > delta)
    some = slice(None, None, 100)
    want = [noise_for(e, d) for e, d in zip(epsilon[some].tolist(), delta[some].tolist())]
    np.testing.assert_allclose(noise[some], want, rtol=1e-9 if wide else 4e-7)


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "epsilon"])
@pytest.mark.parametrize("maker", ["gaussian, noise", "laplace, scale"])
def test_many_of_each_target(maker, target):
    """Random targets of the other kinds, against NumPy's bounds of all answers at once."""
    random = np.random.default_rng(4)
    factor = random.uniform(0.5, 1.0, 400)
    given = dict(TARGETS[target])
    last = list(given)[-1]
    given[last] = np.maximum(given[last] * factor, 1.05 * given.get("fpr", 0.0))
    with jax.enable_x64(True):
        varied = jnp.asarray(given[last])
        own = TARGETS[target]
        each = jax.vmap(lambda value: calibrate(MAKERS[maker], **{**own, last: value}))
        found = np.asarray(jax.jit(each)(varied))
    assert not np.any(exceeded(MAKERS[maker](found), given))
    assert np.all(exceeded(MAKERS[maker](found * (1 - 1e-9)), given))


@pytest.mark.parametrize("delta", np.random.default_rng(5).uniform(1e-6, 1e-5, 4).tolist())
def test_known_numbers_keep_their_digits(delta):
    """A Python number is not rounded to float32 because a tracer is about."""
    with jax.enable_x64(False):
        found = jax.jit(lambda epsilon: noise_for(epsilon, delta))(1.0)
    assert worst_case.gaussian(1 / float(found)).delta_bounds(1.0)[1] <= delta


@pytest.mark.slow
def test_by_what_it_takes_from_around():
    """Numbers, whole numbers and targets may all be traced, and mapped over."""

    def noise(sensitivity, steps, epsilon):
        def make(std):
            return worst_case.gaussian(sensitivity / std).compose(steps)

        return calibrate(make, epsilon=epsilon, delta=1e-5)

    want = noise(0.7, 4, 1.0)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(noise)(0.7, 4, 1.0), want, rtol=1e-9)
        over_steps = jax.vmap(jax.jit(noise), (None, 0, None))(0.7, jnp.arange(1, 5), 1.0)
        np.testing.assert_allclose(over_steps, want * np.sqrt([0.25, 0.5, 0.75, 1.0]), rtol=1e-9)
        for slopes in (jax.grad(jax.jit(noise), (0, 2)), jax.jit(jax.grad(noise, (0, 2)))):
            by_sensitivity, by_epsilon = slopes(0.7, 4, 1.0)
            np.testing.assert_allclose(by_sensitivity, want / 0.7, rtol=1e-9)
            difference = (noise(0.7, 4, 1.0001) - noise(0.7, 4, 0.9999)) / 2e-4
            np.testing.assert_allclose(by_epsilon, difference, rtol=1e-6)


@pytest.mark.slow
def test_derivatives():
    """grad of jit, jit of grad, vmap of grad, and twice, against differences."""

    def slope(epsilon, step=3e-4):
        """By differences of the fourth order."""
        at = [noise_for(epsilon * (1 + k * step)) for k in (-2, -1, 1, 2)]
        return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step * epsilon)

    epsilons = [0.3, 1.0, 4.0]
    want = [slope(epsilon) for epsilon in epsilons]
    with jax.enable_x64(True):
        found = jax.vmap(jax.grad(jax.jit(noise_for)))(jnp.asarray(epsilons))
        np.testing.assert_allclose(found, want, rtol=1e-6)
        found = jax.jit(jax.grad(lambda e: jax.vmap(noise_for)(e).sum()))(jnp.asarray(epsilons))
        np.testing.assert_allclose(found, want, rtol=1e-6)
        _, change = jax.jvp(jax.jit(noise_for), (1.0,), (2.0,))
        np.testing.assert_allclose(change, 2 * want[1], rtol=1e-6)
        change = (slope(1.001) - slope(0.999)) / 2e-3
        np.testing.assert_allclose(jax.jit(jax.grad(jax.grad(noise_for)))(1.0), change, rtol=1e-4)
    with jax.enable_x64(False):
        for derivative in (jax.grad(jax.jit(noise_for)), jax.jit(jax.grad(noise_for))):
            np.testing.assert_allclose(derivative(np.float32(1.0)), want[1], rtol=1e-6)


@pytest.mark.parametrize("target", ["advantage", "mu", "power"])
def test_derivatives_of_the_other_targets(target):
    given = dict(TARGETS[target])
    last, value = given.popitem()

    def scale(value):
        return calibrate(MAKERS["gaussian, noise"], **given, **{last: value})

    want = (scale(value * (1 + 1e-4)) - scale(value * (1 - 1e-4))) / (2e-4 * value)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(jax.jit(scale))(value), want, rtol=1e-6)


@pytest.mark.slow
def test_value_next_to_a_derivative_in_float32():
    """Outside `jit` NumPy finds it; as float32 it is on the private side, too."""
    with jax.enable_x64(False):
        for epsilon in np.random.default_rng(6).uniform(0.1, 5.0, 10).astype(np.float32):
            found, _ = jax.value_and_grad(noise_for)(epsilon)
            np.testing.assert_allclose(found, noise_for(float(epsilon)), rtol=3e-7)
            assert worst_case.gaussian(1 / float(found)).delta_bounds(float(epsilon))[1] <= 1e-5
            assert worst_case.gaussian(1 / found).delta_bounds(float(epsilon))[1] <= 1e-5


@pytest.mark.slow
def test_whole_numbers():
    """The last number of steps, or the first noise, that is private enough: as outside `jit`."""

    def steps(epsilon):
        def make(n):
            return worst_case.gaussian(0.1).compose(n)

        return calibrate(make, epsilon=epsilon, delta=1e-5, integer=True, bracket=(1, 1000))

    def noise(mu):
        return calibrate(MAKERS["gaussian, noise"], mu=mu, integer=True, bracket=(1, 100))

    epsilons, mus = [0.5, 0.8, 1.0, 2.0, 4.0], [0.3, 0.21, 0.011]
    for wide in (True, False):
        with jax.enable_x64(wide):
            found = jax.jit(jax.vmap(steps))(jnp.asarray(epsilons))
            np.testing.assert_array_equal(found, [steps(epsilon) for epsilon in epsilons])
            found = jax.jit(jax.vmap(noise))(jnp.asarray(mus))
            np.testing.assert_array_equal(found, [noise(mu) for mu in mus])


@pytest.mark.slow
def test_nan_where_there_is_no_answer():
    """Brackets at both ends of which the target holds or fails, and numbers that are no targets."""
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(noise_for))(
            jnp.asarray([1e-9, 1.0, 1.0, 1.0, -1.0, np.nan, np.inf, 1.0]),
            jnp.asarray([1e-300, 0.0, 1.0, 1.1, 1e-5, 1e-5, 1e-5, 1e-5]),
        )
    np.testing.assert_array_equal(np.isnan(found), [True] * 7 + [False])
    for ends in ((0.1, 0.5), (2.0, 5.0)):
        outside = jax.jit(lambda mu, e=ends: calibrate(worst_case.gaussian, mu=mu, bracket=e))
        assert np.isnan(outside(1.0))
    broken = jax.jit(lambda mu: calibrate(lambda s: worst_case.gaussian(s * jnp.nan), mu=mu))
    assert np.isnan(broken(1.0))
    with pytest.raises(ValueError, match="bracket"):
        jax.jit(lambda mu: calibrate(worst_case.gaussian, mu=mu, bracket=(2.0, 1.0)))(1.0)
    with pytest.raises(ValueError, match="delta"):
        jax.jit(lambda epsilon: noise_for(epsilon, 2.0))(1.0)
    with pytest.raises(ValueError, match="two whole numbers"):
        calibrate(worst_case.gaussian, mu=1.0, bracket=(1.2, 1.8), integer=True)


def test_the_strictest_decides():
    """Of several targets, and of several curves."""
    with jax.enable_x64(True):
        both = jax.jit(noise_for)(1.0, jnp.asarray([1e-5, 1e-6]))
        np.testing.assert_allclose(both, noise_for(1.0, 1e-6), rtol=1e-9)
        signals = np.array([1.0, 2.0])
        many = jax.jit(lambda mu: calibrate(lambda s: worst_case.gaussian(signals / s), mu=mu))
        np.testing.assert_allclose(many(0.5), 4.0, rtol=1e-9)


def test_a_kink_and_a_jump():
    """Where the bound is no smooth function of the parameter, and says 0 beyond."""
    with jax.enable_x64(True):

        def scale(delta):
            return calibrate(lambda b: worst_case.laplace(2 / b), epsilon=0.5, delta=delta)

        np.testing.assert_allclose(jax.jit(scale)(1e-300), 4.0, rtol=1e-9)
        # halved all the way down to the jump, where the last that holds is on its left
        jump = jax.jit(lambda mu: calibrate(lambda x: worst_case.gaussian(jnp.floor(x)), mu=mu))
        np.testing.assert_allclose(jump(4.5), 5.0, rtol=1e-10)
        assert jump(4.5) < 5.0


@pytest.mark.slow
def test_relaxed_adversary():
    """A law whose tails are contour integrals."""

    def noise(epsilon):
        return calibrate(
            lambda s: relaxed.gaussian(1 / s, 30.0), epsilon=epsilon, delta=1e-3, bracket=(0.2, 5.0)
        )

    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(noise)(1.0), noise(1.0), rtol=1e-9)


@pytest.mark.slow
def test_dp_sgd():
    """Compiled once, for noises and their derivatives by epsilon and by the rate."""

    def noise(epsilon, rate):
        return calibrate(
            lambda n: worst_case.subsampled_gaussian(n, rate, 1000).symmetric(),
            epsilon=epsilon,
            delta=1e-5,
            bracket=(0.3, 30.0),
        )

    with jax.enable_x64(True):
        epsilons = jnp.asarray([0.5, 1.0, 2.0])
        found = jax.jit(jax.vmap(noise, (0, None)))(epsilons, 0.01)
        np.testing.assert_allclose(found, [noise(e, 0.01) for e in (0.5, 1.0, 2.0)], rtol=1e-9)
        slopes = jax.jit(jax.grad(noise, (0, 1)))(1.0, 0.01)
    by_epsilon = (noise(1.0002, 0.01) - noise(0.9998, 0.01)) / 4e-4
    by_rate = (noise(1.0, 0.010002) - noise(1.0, 0.009998)) / 4e-6
    np.testing.assert_allclose(slopes, [by_epsilon, by_rate], rtol=1e-6)
