"""Noise on whole numbers against sums over its outcomes, term by term with 40 digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.stats import _theta
from jaxpriv.tradeoff import discrete_noise, whole_noise
from tests.slips import check_is_red

MAKERS = {"gaussian": worst_case.discrete_gaussian, "laplace": worst_case.discrete_laplace}
CASES = [
    ("gaussian", 0.1, 1), ("gaussian", 0.5, 3), ("gaussian", 1.0, 1), ("gaussian", 3.9, 2),
    ("gaussian", 4.1, 1), ("gaussian", 4.1, 50), ("gaussian", 25.0, 3),
    ("laplace", 0.01, 2), ("laplace", 1.0, 1), ("laplace", 3.7, 7), ("laplace", 40.0, 3),
]  # fmt: skip
NEAR = [case for case in CASES if case[1] < 5 and case[2] < 10 and case[1] >= 0.5]


def masses(kind, spread, sensitivity):
    """(P, Q, losses) of all outcomes that happen with probability e^-60 and more, ascending; with
    more of them for narrow noise.
    """
    with mp.workdps(60):
        spread = mpf(spread)
        reach = int(12 * spread if kind == "gaussian" else 60 * spread) + 30
        outcomes = range(-reach, sensitivity + reach + 1)

        def weight(x):
            if kind == "gaussian":
                return mp.exp(-(mpf(x) ** 2) / (2 * spread**2))
            return mp.exp(-abs(x) / spread)

        total = mp.fsum(weight(x) for x in outcomes)
        if kind == "laplace":
            total = 1 / mp.tanh(1 / (2 * spread))
        null = [weight(x) / total for x in outcomes]
        alternative = [weight(x - sensitivity) / total for x in outcomes]
        return null, alternative, [mp.log(q / p) for p, q in zip(null, alternative)]


def log_profile(pair, eps):
    """log of sum (q - e^eps p)_+ over outcomes."""
    null, alternative, losses = pair
    with mp.workdps(60):
        parts = [q * -mp.expm1(mpf(eps) - loss)
                 for q, loss in zip(alternative, losses) if loss > eps]  # fmt: skip
        return mp.log(mp.fsum(parts)) if parts else -mp.inf


def blended(pair, rate, reverse):
    null, alternative, _ = pair
    with mp.workdps(60):
        rate = mpf(rate)
        mixed = [(1 - rate) * p + rate * q for p, q in zip(null, alternative)]
        first, second = (mixed, null) if reverse else (null, mixed)
        order = range(len(null))[::-1] if reverse else range(len(null))
        first, second = ([law[i] for i in order] for law in (first, second))
        return first, second, [mp.log(q / p) for p, q in zip(first, second)]


def questions(kind, spread, sensitivity):
    largest = sensitivity**2 / (2 * spread**2) if kind == "gaussian" else sensitivity / spread
    shares = (0.0, 0.3, 0.99, 1.7, 3.0) if kind == "gaussian" else (0.0, 0.3, 0.77, 0.99)
    aside = 1e-3 * min(largest, 1.0)
    return [sign * share * largest + aside * share for share in shares for sign in (1, -0.5)]


@pytest.mark.parametrize("case", CASES)
def test_profile_is_the_sum(case):
    kind, spread, sensitivity = case
    curve, pair = MAKERS[kind](spread, sensitivity), masses(*case)
    for eps in questions(*case):
        truth = log_profile(pair, eps)
        low, high = curve.log_delta_bounds(eps)
        assert low <= truth <= high, (eps, low, high, truth)
        size = 1 + abs(float(truth)) + abs(eps) + sensitivity**2 / spread**2
        assert high - low < 1e-11 * size
        assert abs(curve.log_delta(eps) - float(truth)) < 1e-12 * size
        assert curve.reversed().log_delta(eps) == curve.log_delta(eps)


def far_tail(sigma, sensitivity, eps):
    """log delta of wide noise by the boundary terms of Euler and Maclaurin's sum, four of which
    leave nothing (sigma^-8).
    """
    with mp.workdps(60):
        sigma, eps = mpf(sigma), mpf(eps)
        crossing = sigma**2 * eps / sensitivity + mpf(sensitivity) / 2
        k = int(mp.floor(crossing)) + 1
        scale = sigma * mp.sqrt(2 * mp.pi)

        def tail(x):
            return mp.erfc(x / (sigma * mp.sqrt(2))) / 2

        def density(x):
            y = x / sigma
            value = mp.exp(-y * y / 2) / scale
            first, third = -y / sigma, (3 * y - y**3) / sigma**3
            fifth = (-(y**5) + 10 * y**3 - 15 * y) / sigma**5
            return value * (mpf(1) / 2 - first / 12 + third / 720 - fifth / 30240)

        at = mpf(k)
        with_record = tail(at - sensitivity) + density(at - sensitivity)
        return mp.log(with_record - mp.exp(eps) * (tail(at) + density(at)))


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "shares"),
    [(1e6, 1, (0.0, 1.0, 5.0, 30.0)), (1e6, 10**6, (0.0, 0.5, 2.0, 8.0)), (300.0, 7, (0.0, 3.0))],
)
def test_wide_noise(sigma, sensitivity, shares):
    curve = worst_case.discrete_gaussian(sigma, sensitivity)
    for share in shares:  # the threshold, in standard deviations
        eps = share * sensitivity / sigma
        truth = far_tail(sigma, sensitivity, eps)
        low, high = curve.log_delta_bounds(eps)
        assert low <= truth <= high
        assert high - low < 1e-9
        assert abs(curve.log_delta(eps) - float(truth)) < 1e-11 * (1 + share)
    assert np.isclose(curve.delta(0.0), worst_case.gaussian(sensitivity / sigma).delta(0.0))


def test_narrow_noise_tells_all():
    """At sigma = 1e-3 the mass beside 0 is e^-5e5: alpha is 1 - beta but for that."""
    curve = worst_case.discrete_gaussian(1e-3)
    low, high = curve.delta_bounds(0.0)
    assert low > 1 - 1e-12
    assert high == 1.0
    log_low, log_high = curve.log_delta_bounds(1.4e6)  # between the losses 5e5 and 1.5e6
    truth = -5e5 + np.log1p(-np.exp(1.4e6 - 1.5e6))
    assert log_low <= truth <= log_high
    assert log_high - log_low < 1e-6 * abs(truth)
    assert curve(0.0) == 1.0
    assert curve(1e-9) < 1e-300
    assert 1.9e3 < curve.gdp_mu_bounds()[0] < 2.0e3 + 1


@pytest.mark.parametrize("eps", [0.0, 1e-8, 1.0, 50.0, -3.0, 1e4, -1e4, 1e9, 1e300, -1e300])
@pytest.mark.parametrize("spread", [1e-3, 0.3, 7.0, 1e6])
@pytest.mark.parametrize("sensitivity", [1, 10**6])
def test_brackets_are_never_lost(spread, sensitivity, eps):
    """Nor are they empty, all over the documented domain."""
    for make in MAKERS.values():
        low, high = make(spread, sensitivity).log_delta_bounds(eps)
        assert low <= high <= 0
        assert not np.isnan(low)
        value = make(spread, sensitivity).log_delta(eps)
        assert low <= value <= high or high - value > -1e-12 * abs(value)


def polygon(pair, levels):
    """beta at levels, between the tests that reject from some outcome on."""
    mp.dps = 60
    null, alternative, _ = pair
    up_p, up_q = [mpf(0)], [mpf(0)]
    for p, q in zip(null[::-1], alternative[::-1]):
        up_p.append(up_p[-1] + p)
        up_q.append(up_q[-1] + q)
    found = []
    for level in levels:
        at = next(i for i, total in enumerate(up_p) if total > level)
        share = (mpf(level) - up_p[at - 1]) / (up_p[at] - up_p[at - 1])
        found.append(1 - up_q[at - 1] - share * (up_q[at] - up_q[at - 1]))
    return found


LEVELS = (1e-9, 1e-3, 0.05, 0.3, 0.5, 0.9, 1 - 1e-9)


@pytest.mark.parametrize("case", NEAR)
def test_curve_is_the_polygon(case):
    kind, spread, sensitivity = case
    curve, pair = MAKERS[kind](spread, sensitivity), masses(*case)
    for level, truth in zip(LEVELS, polygon(pair, LEVELS)):
        low, high = curve.beta_bounds(level)
        assert low <= truth <= high
        assert high - low < 1e-11
        assert np.isclose(curve(level), float(truth), rtol=1e-11, atol=1e-300)
        assert np.isclose(curve.power(level), float(1 - truth), rtol=1e-11)
        assert np.isclose(curve.inverse(level), curve(level))
        eps = curve.slope(level)
        gap = curve(level) + np.exp(eps) * level - (1 - curve.delta(eps))
        assert abs(gap) < 1e-11 * (1 + np.exp(eps) * level)
    area = mp.fsum(
        q * (mp.fsum(pair[0][:i]) + pair[0][i] / 2) for i, q in enumerate(pair[1])
    )  # fmt: skip
    assert abs(curve.auc() - area) < 1e-13
    assert list(curve(np.array([0.0, 1.0]))) == [1.0, 0.0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", [CASES[2], CASES[3], CASES[9]])
def test_sampled(case, reverse):
    kind, spread, sensitivity = case
    curve, pair = MAKERS[kind](spread, sensitivity).subsample(0.3), masses(*case)
    if reverse:
        curve = curve.reversed()
    own = blended(pair, 0.3, reverse)
    for eps in (0.0, 0.1, 0.3, -0.2, 1.0):
        truth = log_profile(own, eps)
        low, high = curve.log_delta_bounds(eps)
        assert low <= truth <= high
        assert high == -np.inf or high - low < 1e-9
    for level, truth in zip(LEVELS, polygon(own, LEVELS)):
        low, high = curve.beta_bounds(level)
        assert low <= truth <= high
        assert np.isclose(curve(level), float(truth), rtol=1e-9)
        assert np.isclose(curve.inverse(curve(level)), level, rtol=1e-6)


def composed(pair, steps):
    """The law of the sum of losses, outcome by outcome."""
    null, alternative = (np.array([float(x) for x in law]) for law in pair[:2])
    losses = np.array([float(x) for x in pair[2]])
    keep = alternative > 1e-40
    null, alternative, losses = null[keep], alternative[keep], losses[keep]
    total = losses, alternative
    for _ in range(steps - 1):
        total = (
            (total[0][:, None] + losses).ravel(),
            (total[1][:, None] * alternative).ravel(),
        )
    return total


@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize("case", [("gaussian", 1.0, 1), ("laplace", 1.5, 4)])
def test_few_steps(case, rate, steps):
    kind, spread, sensitivity = case
    pair = masses(*case)
    if kind == "laplace":  # outcomes beyond either end tell what the ends tell
        middle = slice(len(pair[0]) // 2 - 70, len(pair[0]) // 2 + 70)
        pair = tuple(law[middle] for law in pair)
    curve = MAKERS[kind](spread, sensitivity)
    if rate < 1:
        curve, pair = curve.subsample(rate), blended(pair, rate, False)
    losses, weights = composed(pair, steps)
    for eps in (0.1, 0.7, 1.9):
        gap = losses - eps
        truth = np.sum(np.where(gap > 1e-9, weights * -np.expm1(-np.maximum(gap, 0)), 0.0))
        low, high = curve.compose(steps).delta_bounds(eps)
        assert low <= truth * (1 + 1e-11)
        assert truth <= high * (1 + 1e-11)
        assert high - low < 1e-5 * high
        assert np.isclose(curve.compose(steps).delta(eps), truth, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "steps"),
    [(("gaussian", 1.0, 1), 10), (("gaussian", 5.0, 2), 30), (("laplace", 2.0, 1), 25),
     (("laplace", 5.0, 3), 20)],
)  # fmt: skip
def test_dp_accounting_agrees(case, steps):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    kind, spread, sensitivity = case
    make, value = {
        "gaussian": (pld.from_discrete_gaussian_mechanism, spread),
        "laplace": (pld.from_discrete_laplace_mechanism, 1 / spread),
    }[kind]
    curve = MAKERS[kind](spread, sensitivity).compose(steps)
    low, high = curve.epsilon_bounds(1e-5)
    ends = [
        make(value, sensitivity, value_discretization_interval=1e-3, pessimistic_estimate=side)
        .self_compose(steps).get_epsilon_for_delta(1e-5) for side in (False, True)
    ]  # fmt: skip
    assert low <= ends[1] * (1 + 1e-9)
    assert ends[0] <= high * (1 + 1e-9)
    assert high - low < 1e-5 * high + 1e-7


def test_limits_and_special_cases():
    one = worst_case.discrete_laplace(0.7)
    pure = worst_case.randomized_response(1 / 0.7)
    for eps in (0.0, 0.4, 1.3, -0.5):
        assert np.isclose(one.delta(eps), pure.delta(eps), rtol=1e-13)
    assert one.epsilon(0.0) == 1 / 0.7
    assert np.isclose(one.gdp_mu(), pure.gdp_mu())
    wide = worst_case.discrete_laplace(1e6, 10**6)
    assert np.isclose(wide.delta(0.3), worst_case.laplace(1.0).delta(0.3), rtol=1e-9)
    far = worst_case.discrete_gaussian(1e5, 10**5)
    assert np.isclose(far.epsilon(1e-6), worst_case.gaussian(1.0).epsilon(1e-6), rtol=1e-8)


def test_groups_shift_further():
    for make in MAKERS.values():
        assert make(2.0).group(3).delta(0.4) == make(2.0, 3).delta(0.4)
        assert make(2.0, 2).group(2).epsilon(1e-4) == make(2.0, 4).epsilon(1e-4)


@pytest.mark.parametrize("kind", [pytest.param("gaussian", marks=pytest.mark.slow), "laplace"])
def test_larger_shifts_dominate(kind):
    curves = [MAKERS[kind](2.0, shift) for shift in (1, 2, 3, 4)]
    for eps in (-1.0, 0.0, 0.2, 0.8, 3.0):
        deltas = [curve.delta(eps) for curve in curves]
        assert np.all(np.diff(deltas) >= -1e-15)
    joint = jaxpriv.compose(curves[0], curves[1])
    assert joint.delta(0.5) <= curves[0].delta(0.5) + curves[1].delta(0.5) + 0.3
    assert joint.epsilon(1e-4) > curves[1].epsilon(1e-4)


@pytest.mark.slow
def test_symmetric_steps_compose_with_these():
    sgd = worst_case.subsampled_gaussian(1.0, 0.05, 20).symmetric()
    whole = worst_case.discrete_laplace(2.0)
    low, high = jaxpriv.compose(sgd, whole).epsilon_bounds(1e-4)
    assert sgd.epsilon(1e-4) < low <= high < sgd.epsilon(1e-4) + 0.5 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("gaussian", marks=pytest.mark.slow), "laplace"])
def test_executors_agree(kind):
    spreads = np.array([0.4, 1.0, 3.9, 4.1, 60.0])

    def make(spread):
        return MAKERS[kind](spread, 2)

    for method, argument in (("delta", 0.3), ("delta", -0.3), ("epsilon", 1e-4), ("power", 0.02),
                             ("inverse", 0.4), ("slope", 0.1), ("auc", None)):  # fmt: skip
        args = () if argument is None else (argument,)
        here = getattr(make(spreads), method)(*args)
        there = getattr(make(jnp.asarray(spreads)), method)(*args)
        assert np.allclose(here, there, rtol=1e-11), method
    low, high = jax.jit(lambda s: make(s).delta_bounds(0.3))(spreads)
    assert np.all((low <= make(spreads).delta(0.3)) & (make(spreads).delta(0.3) <= high))

    def sampled(s):
        return make(s).subsample(0.2).reversed()(0.1)

    assert np.allclose(sampled(spreads), jax.jit(sampled)(jnp.asarray(spreads)), rtol=1e-11)
    mapped = jax.vmap(lambda s: make(s).delta(0.3))(jnp.asarray(spreads))
    assert np.allclose(mapped, make(spreads).delta(0.3))


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.6, 2.3, 4.2, 35.0])
def test_gradient_of_a_profile(spread):
    def value(s):
        return worst_case.discrete_gaussian(s, 2).log_delta(0.2 / spread)

    step = 1e-6 * spread
    difference = (value(spread + step) - value(spread - step)) / (2 * step)
    assert np.isclose(jax.grad(value)(spread), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("gaussian", marks=pytest.mark.long), "laplace"])
@pytest.mark.parametrize("spread", [0.6, 2.3, 4.2, 35.0])
def test_gradients(kind, spread):
    eps = 0.2 / spread
    for look in (lambda c: c.log_delta(eps), lambda c: c.epsilon(1e-3), lambda c: c(0.13),
                 lambda c: c.auc(), lambda c: c.subsample(0.3).delta(eps / 5),
                 lambda c: c.subsample(0.3).reversed()(0.13)):  # fmt: skip

        def value(s, look=look):
            return look(MAKERS[kind](s, 2))

        step = 1e-6 * spread
        difference = (value(spread + step) - value(spread - step)) / (2 * step)
        slope = jax.grad(value)(spread)
        assert np.isclose(slope, difference, rtol=1e-6, atol=1e-8)
    curve = MAKERS[kind](spread, 2)
    by_eps = jax.grad(curve.log_delta)(eps)
    difference = (curve.log_delta(eps + 1e-6) - curve.log_delta(eps - 1e-6)) / 2e-6
    assert np.isclose(by_eps, difference, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.long
def test_gradient_of_a_composition():
    def value(s):
        return worst_case.discrete_gaussian(s).compose(8).epsilon(1e-4)

    step = 1e-4
    difference = (value(2.0 + step) - value(2.0 - step)) / (2 * step)
    assert np.isclose(jax.grad(value)(2.0), difference, rtol=1e-4)


@pytest.mark.parametrize(
    "make", [worst_case.laplace, lambda s: worst_case.discrete_laplace(1.5, s)]
)
@pytest.mark.parametrize("moved", [(1, 1), (1, 4), (2, 2, 3)])
def test_one_coordinate_is_the_worst(make, moved):
    """Of those that a record moves by as much together."""
    several = jaxpriv.compose(*[make(by) for by in moved])
    one = make(sum(moved))
    eps = one.epsilon(0.0) * np.linspace(-0.9, 0.99, 9)
    assert np.all(several.delta_bounds(eps)[1] < one.delta_bounds(eps)[0])
    # and no smaller one is: less of the first move leaves other deltas above
    less = make(sum(moved) - 1)
    assert np.any(several.delta_bounds(eps)[0] > less.delta_bounds(eps)[1])


def test_mu():
    """The vertex in the middle is what decides, of bounded losses; of others a slack."""
    curve = worst_case.discrete_laplace(2.0, 5)
    low, high = curve.gdp_mu_bounds()
    assert high - low < 1e-9
    reached = worst_case.gaussian(high)
    levels = np.linspace(1e-6, 1 - 1e-6, 2001)
    assert np.all(curve(levels) >= reached(levels) - 1e-12)
    assert np.min(curve(levels) - worst_case.gaussian(0.999 * high)(levels)) < 0
    sampled = curve.subsample(0.3)
    assert sampled.gdp_mu() < high
    wide = worst_case.discrete_gaussian(3.0)
    assert wide.gdp_mu() == np.inf
    assert wide.gdp_mu_bounds()[0] > 1 / 3
    low, high = wide.gdp_mu_bounds(slack=1e-5)
    assert 1 / 3 - 1e-2 < low <= high < 0.35
    assert wide.subsample(0.5).gdp_mu() == np.inf


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("spread", [0.0, -1.0, 1e-4, 1e7, np.inf, "1", None, True, 1j])
def test_refuses_other_spreads(kind, spread):
    name = "sigma" if kind == "gaussian" else "scale"
    with pytest.raises(ValueError, match=name):
        MAKERS[kind](spread)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("sensitivity", [0, -1, 1.0, 0.5, 2**0.5, "1", None, True, 10**6 + 1])
def test_refuses_sensitivities_that_are_not_whole(kind, sensitivity):
    with pytest.raises(ValueError, match="sensitivity"):
        MAKERS[kind](1.0, sensitivity)


def test_nan_and_traced_values_outside():
    assert np.isnan(worst_case.discrete_gaussian(np.nan).delta(0.1))
    assert np.isnan(jax.jit(lambda s: worst_case.discrete_gaussian(s).delta(0.1))(-1.0))
    assert np.isnan(worst_case.discrete_laplace(2.0).delta(np.nan))
    assert np.isnan(worst_case.discrete_laplace(2.0)(np.nan))


SLIPS = [
    (_theta, "SMOOTH", 1.0, lambda: test_profile_is_the_sum(CASES[2])),
    (_theta, "_POLYNOMIALS", _theta._POLYNOMIALS * (1 + 1e-6),
     lambda: test_profile_is_the_sum(CASES[4])),
    (_theta, "_AT_ZERO", _theta._AT_ZERO * (1 + 1e-6), lambda: test_sampled(CASES[6], False)),
    (_theta, "TERMS", 6, lambda: test_profile_is_the_sum(CASES[3])),
    (whole_noise.WholeNoise, "threshold", lambda self, eps: self._crossing(eps) // 1 + 2,
     lambda: test_profile_is_the_sum(CASES[2])),
    (whole_noise, "sampled_loss", lambda loss, rate: rate * loss,
     lambda: test_sampled(CASES[3], False)),
    (discrete_noise.DiscreteLaplace, "loss_at", lambda self, k: (k - 3) / self.scale,
     lambda: test_curve_is_the_polygon(CASES[9])),
    (discrete_noise.DiscreteGaussian, "grouped", lambda self, size: self,
     test_groups_shift_further),
    (discrete_noise.DiscreteGaussian, "auc", lambda self: 0.5 + 0 * self.sigma,
     lambda: test_curve_is_the_polygon(CASES[2])),
]  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip[1])
def test_slip_is_seen(slip, monkeypatch):
    check_is_red(monkeypatch, *slip)
