"""Mixtures of normal shifts: one step in closed form, compositions by their transform,
users who own several records.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import sampled
from tests.slips import check_is_red

THREE = [0.0, 1.0, 2.0], [0.9, 0.08, 0.02]


def settings(count, seed=7):
    """(shifts, weights) of two to five components, from gentle to rare and large."""
    random = np.random.default_rng(seed)
    for index in range(count):
        size = random.integers(2, 6)
        shifts = np.exp(random.uniform(np.log(1e-6 if index % 3 == 0 else 0.05),
                                       np.log(300 if index % 5 == 0 else 6), size))
        shifts[0] *= random.random() < 0.4
        weights = np.exp(random.uniform(-np.log(10) * (60 if index % 4 == 0 else 5), 0, size))
        yield shifts, weights / weights.sum()


def exact(shifts, weights, eps, reverse):
    """log delta of one step to many digits: the threshold by Newton's method, then normal tails."""
    with mp.workdps(160):
        shifts, weights = [mpf(float(s)) for s in shifts], [mpf(float(w)) for w in weights]
        weights = [w / mp.fsum(weights) for w in weights]
        eps = mpf(float(eps))
        goal = mp.exp(-eps if reverse else eps)
        if goal <= mp.fsum(w for s, w in zip(shifts, weights) if s == 0):
            return -mp.inf if reverse or eps >= 0 else mp.log(1 - goal)

        def newton(z):
            """The step of Newton's method to where the ratio is the goal; convex, from the right it
            never goes too far."""
            parts = [w * mp.exp(s * (z - s / 2)) for s, w in zip(shifts, weights)]
            total = mp.fsum(parts)
            return mp.log(total / goal) * total / mp.fdot(shifts, parts)

        low = mpf(1)
        while newton(low) < 0:
            low *= 2
        while abs(step := newton(low)) > mpf(10) ** -140 * (1 + abs(low)):
            low -= step
        above = [mp.erfc((low - s) / mp.sqrt(2)) / 2 for s in (0, *shifts)]
        below = [mp.erfc((s - low) / mp.sqrt(2)) / 2 for s in (0, *shifts)]
        if reverse:
            return mp.log(
                below[0] - mp.exp(eps) * mp.fsum(w * p for w, p in zip(weights, below[1:]))
            )
        return mp.log(mp.fsum(w * p for w, p in zip(weights, above[1:])) - mp.exp(eps) * above[0])


@pytest.mark.slow
def test_one_step_is_exact():
    """100 random settings, both directions and signs of epsilon:
    the bracket holds and is narrow.
    """
    random = np.random.default_rng(3)
    for index, (shifts, weights) in enumerate(settings(100)):
        reverse = bool(index % 2)
        curve = worst_case.gaussian_mixture(shifts, weights)
        curve = curve.reversed() if reverse else curve
        for eps in (np.exp(random.uniform(-8, 0)) * shifts.max() * 3,
                    -np.exp(random.uniform(-8, 1))):
            truth = exact(shifts, weights, eps, reverse)
            low, high = curve.log_delta_bounds(eps)
            assert low <= truth <= high, (shifts, weights, eps, reverse)
            if truth > -mp.inf:
                assert high - low < 1e-8 * (1 + abs(truth))
                assert abs(curve.log_delta(eps) - truth) < 1e-9 * (1 + abs(truth))


@pytest.mark.parametrize(
    ("mu", "rate", "steps"), [(1.0, 0.01, 1000), (2.0, 0.3, 10), (0.2, 0.1, 100), (3.0, 0.9, 3)]
)
def test_poisson_sampling_is_a_mixture_of_two(mu, rate, steps):
    here = worst_case.gaussian_mixture([0.0, mu], [1 - rate, rate])
    there = worst_case.gaussian(mu).subsample(rate)
    for a, b in ((here, there), (here.reversed(), there.reversed())):
        np.testing.assert_allclose(
            a.delta([-1.0, 0.0, 0.01]), b.delta([-1.0, 0.0, 0.01]), rtol=1e-12
        )
        np.testing.assert_allclose(
            [a.power(0.01), a.slope(0.3), a.inverse(0.2), a.auc(), a.epsilon(1e-3 * rate)],
            [b.power(0.01), b.slope(0.3), b.inverse(0.2), b.auc(), b.epsilon(1e-3 * rate)],
            rtol=1e-11,
        )
        a, b = a.compose(steps), b.compose(steps)
        np.testing.assert_allclose(a.epsilon([1e-8, 1e-3]), b.epsilon([1e-8, 1e-3]), rtol=1e-12)
        (low, high), (other_low, other_high) = a.epsilon_bounds(1e-5), b.epsilon_bounds(1e-5)
        assert low <= other_high
        assert other_low <= high
        assert high - low < 10 * (other_high - other_low) + 1e-10


def test_two_steps_by_quadrature():
    """The profile of two steps is that of one, averaged over the other's loss:
    panels of Gauss-Legendre.
    """
    nodes, weight = np.polynomial.legendre.leggauss(30)
    for shifts, weights in [
        THREE,
        ([0.0, 0.366, 1.696], [0.721, 0.032, 0.247]),
        ([0.3, 0.8, 1.5], [0.5, 0.3, 0.2]),
    ]:
        s, w = np.array(shifts), np.array(weights) / np.sum(weights)
        edges = np.linspace(-14, s.max() + 14, 1001)
        half = np.diff(edges)[:, None] / 2
        z, width = (edges[:-1, None] + half + half * nodes).ravel(), (half * weight).ravel()
        one = worst_case.gaussian_mixture(shifts, weights)
        loss = np.log((w * np.exp(s * z[:, None] - s * s / 2)).sum(1))
        density = width * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        for eps in (0.2, 1.0):
            both = one.compose(2)
            forward = np.sum(density * np.exp(loss) * one.delta(eps - loss))
            backward = np.sum(density * one.reversed().delta(eps + loss))
            for curve, truth in ((both, forward), (both.reversed(), backward)):
                low, high = curve.delta_bounds(eps)
                assert low <= truth * (1 + 1e-11)
                assert truth <= high * (1 + 1e-11)
                if truth > 0:
                    assert high - low < 1e-3 * truth
                    np.testing.assert_allclose(curve.delta(eps), truth, rtol=1e-5)


def theirs(noise, shifts, weights, steps, eps):
    """delta of dp-accounting's event, from below and from above."""
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="pip install --no-deps dp-accounting"
    )
    return [
        pld.from_mixture_gaussian_mechanism(noise, shifts, weights,
                                            pessimistic_estimate=pessimistic,
                                            value_discretization_interval=5e-3)
        .self_compose(steps)
        .get_delta_for_epsilon(eps)
        for pessimistic in (False, True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "shifts", "weights", "steps"), [
    (1.0, [0.0, 1.0, 2.0], [0.9, 0.08, 0.02], 50),
    (2.0, [0.0, 1.0, 2.0, 3.0, 4.0], [0.6, 0.2, 0.1, 0.06, 0.04], 10),
    (0.8, [0.0, 1.0, 1.5], [0.99, 0.005, 0.005], 500),
    (1.5, [0.5, 1.0], [0.5, 0.5], 5),
])
def test_brackets_overlap_with_dp_accounting(noise, shifts, weights, steps):
    curve = (
        worst_case.gaussian_mixture(np.array(shifts) / noise, weights).compose(steps).symmetric()
    )
    eps = float(curve.epsilon(1e-4))
    low, high = curve.delta_bounds(eps)
    optimistic, pessimistic = theirs(noise, shifts, weights, steps, eps)
    assert low <= pessimistic * (1 + 1e-9)
    assert optimistic <= high * (1 + 1e-9)
    assert high - low < 1e-8 * high


@pytest.mark.slow
def test_users():
    """One record is DP-SGD as ever; several are their binomial;
    more records, a larger rate or more steps never cost less.
    """
    one = worst_case.user_level(1.0, 0.01, 1000, 1)
    plain = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
    assert one.epsilon(1e-5) == plain.epsilon(1e-5)
    same = worst_case.gaussian_mixture(
        [0, 1, 2, 3], [0.9**3, 3 * 0.81 * 0.1, 3 * 0.9 * 0.01, 0.001]
    )
    np.testing.assert_allclose(worst_case.user_level(1.0, 0.1, [1, 20], 3).delta(1.0),
                               [same.delta(1.0), same.compose(20).delta(1.0)], rtol=1e-12)
    found = [
        worst_case.user_level(2.0, 0.01, 300, k).symmetric().epsilon_bounds(1e-5)
        for k in (1, 2, 4, 8)
    ]
    assert all(before[1] < after[0] for before, after in zip(found, found[1:]))
    found = [
        worst_case.user_level(2.0, rate, 300, 3).symmetric().epsilon_bounds(1e-5)
        for rate in (1e-3, 0.01, 0.1)
    ]
    assert all(before[1] < after[0] for before, after in zip(found, found[1:]))
    np.testing.assert_allclose(worst_case.user_level(2.0, 1.0, 4, 3).delta(1.0),
                               worst_case.gaussian(3.0).delta(1.0), rtol=1e-11)
    # a user of many records at a small rate: probabilities of all of them that are no numbers
    low, high = worst_case.user_level(20.0, 1e-4, 1e5, 100).epsilon_bounds(1e-6)
    assert 0 < low <= high
    assert high < low + 1e-8


@pytest.mark.slow
def test_gradients():
    """In every shift, weight, noise, rate and number of steps, against differences by NumPy."""
    shifts, weights = np.array([0.5, 1.0, 2.0]), np.array([0.9, 0.08, 0.02])

    def slopes(function, x, step=1e-5):
        steps = step * np.maximum(np.abs(x), 0.1) * np.eye(len(x))
        return np.array([(function(x + d) - function(x - d)) / (2 * d.sum()) for d in steps])

    def of(s, w):
        return worst_case.gaussian_mixture(s, w).compose(50)

    by_shift, by_weight = jax.grad(lambda s, w: of(s, w).delta(3.0), argnums=(0, 1))(
        jnp.array(shifts), jnp.array(weights)
    )
    np.testing.assert_allclose(
        by_shift, slopes(lambda s: of(s, weights).delta(3.0), shifts), rtol=1e-6
    )
    # weights are divided by their sum: differences along what leaves it 1
    turn = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    by_turn = [
        (of(shifts, weights + 1e-6 * t).delta(3.0) - of(shifts, weights - 1e-6 * t).delta(3.0))
        / 2e-6
        for t in turn
    ]
    np.testing.assert_allclose(turn @ by_weight, by_turn, rtol=1e-6)
    np.testing.assert_allclose(by_weight @ weights, 0.0, atol=1e-12)

    def user(a):
        return worst_case.user_level(a[0], a[1], a[2], 3).delta(1.0)

    at = np.array([2.0, 0.05, 50.0])
    np.testing.assert_allclose(jax.grad(user)(jnp.array(at)), slopes(user, at), rtol=1e-6)


@pytest.mark.slow
def test_both_executors():
    mine = worst_case.gaussian_mixture(*THREE)
    theirs = worst_case.gaussian_mixture(*map(jnp.array, THREE))
    for function in (lambda c: c.delta(0.7), lambda c: c.reversed().delta(0.01),
                     lambda c: c.power(0.01), lambda c: c.compose(100).delta(3.0)):
        np.testing.assert_allclose(function(theirs), function(mine), rtol=1e-12)


def test_curves_like_any_other():
    """Batches, compositions with other mechanisms, calibration, GDP."""
    shifts = np.array([[0.0, 1.0], [0.0, 2.0]])
    batch = worst_case.gaussian_mixture(shifts, [0.9, 0.1])
    single = [worst_case.gaussian_mixture(row, [0.9, 0.1]) for row in shifts]
    np.testing.assert_allclose(
        batch.compose(20).delta(1.0), [one.compose(20).delta(1.0) for one in single], rtol=1e-12
    )
    assert batch.compose(20).epsilon_bounds(1e-5)[0].shape == (2,)
    together = jaxpriv.compose(*(one.compose(5) for one in single), worst_case.gaussian(0.5))
    low, high = together.delta_bounds(2.0)
    assert low <= together.delta(2.0) <= high
    assert high - low < 1e-8
    assert jaxpriv.compose(batch, axis=-1).delta(1.0) == pytest.approx(
        jaxpriv.compose(*single).delta(1.0), rel=1e-10
    )
    mixed = jaxpriv.compose(single[0], worst_case.laplace(0.2))
    low, high = mixed.delta_bounds(0.5)
    assert low <= mixed.delta(0.5) <= high
    assert batch.gdp_mu()[1] == pytest.approx(2.0)
    noise = jaxpriv.calibrate(
        lambda std: worst_case.user_level(std, 0.01, 100, 4).symmetric(), epsilon=1.0, delta=1e-5
    )
    assert (
        1 - 1e-6
        < worst_case.user_level(noise, 0.01, 100, 4).symmetric().epsilon_bounds(1e-5)[1]
        <= 1.0
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shifts", "weights"),
    [([0.0, 1.0, 40.0], [0.9, 0.1, 1e-30]), ([0.0, 1e-7], [0.5, 0.5]),
     ([0.0, 300.0], [1 - 1e-9, 1e-9]), ([0.0, 1.0], [1e-20, 1.0]), ([2.0, 2.0], [0.5, 0.5]),
     ([0.0, 0.0], [0.5, 0.5]), ([0.0, 5.0, 1.0], [0.5, 0.0, 0.5])],
)
def test_extremes_hold(shifts, weights):
    """Tiny weights, huge shifts, none at all: bounds in order, with the estimate inside,
    for one step and for several.
    """
    for steps in (1, 3, 100):
        for curve in (worst_case.gaussian_mixture(shifts, weights).compose(steps),
                      worst_case.gaussian_mixture(shifts, weights).compose(steps).reversed()):
            low, high = curve.delta_bounds(np.array([0.0, 0.3, 3.0]))
            assert np.all((low >= 0) & (low <= high) & (high <= 1))
            value = curve.delta(np.array([0.0, 0.3, 3.0]))
            # where no line's nodes resolve a shift of 300 the estimates are rough, and more so at 0
            slack = 1e-5 if max(shifts) > 100 else 1e-6
            held = (low <= value * (1 + slack)) & (value <= high * (1 + slack))
            assert np.all(held[1:])
            assert held[0] or max(shifts) > 100


@pytest.mark.parametrize(
    ("shifts", "weights", "says"),
    [([0.0, 1.0], [0.5, 0.4], "weights sum to"), ([0.0, 1.0], [1.5, -0.5], "weights = -0.5"),
     ([0.0, 1.0, 2.0], [0.5, 0.5], "components"), ([-1.0, 1.0], [0.5, 0.5], "shifts = -1.0"),
     ([np.nan, 1.0], [0.5, 0.5], "shifts = nan"),
     ([0.0, 1.0], [np.nan, 0.5], "weights sum to nan"),
     ([0.0, np.inf], [0.5, 0.5], "shifts = inf"), ([], [], "weights sum to"),
     (1.0, 1.0, "components"), (["a"], [1.0], "shifts"),
     (np.ones((2, 2)), np.full((3, 2), 0.5), "shape")],
)
def test_bad_mixtures(shifts, weights, says):
    with pytest.raises(ValueError, match=says):
        worst_case.gaussian_mixture(shifts, weights)


@pytest.mark.parametrize("records", [0, -1, 1.5, True, "2", np.nan, 101, None])
def test_bad_numbers_of_records(records):
    with pytest.raises(ValueError, match="records_per_user"):
        worst_case.user_level(1.0, 0.1, 10, records)


MAKERS = {
    "mixture": lambda shift, rate, n: worst_case.gaussian_mixture(
        [shift, 0.0], [rate, 1 - rate]).compose(n),
    "user": lambda shift, rate, n: worst_case.user_level(1 / shift, rate, n, 1),
    "Poisson": lambda shift, rate, n: worst_case.subsampled_gaussian(1 / shift, rate, n),
}  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("shift", [25.0, 33.0, 60.0])
@pytest.mark.parametrize(("rate", "n"), [(0.5, 2), (0.1, 10)])
def test_shifts_that_are_seen_for_sure(make, shift, rate, n):
    """Who takes part is told, with an error of e^-70: with r = (1-q)^n delta = 1 - r, and
    (r < e^-eps) in reverse 1 - r e^eps.
    """
    curve, rest = MAKERS[make](shift, rate, n), (1 - rate) ** n
    eps = -0.7 * np.log(rest)
    for own, truth in ((curve, 1 - rest), (curve.reversed(), 1 - rest * np.exp(eps))):
        low, high = own.delta_bounds(eps)
        assert low <= truth <= high
        assert high - low < 1e-3 * truth


def test_slip_is_seen(monkeypatch):
    """As if the losses that are too large for a number had no weight."""
    check_is_red(monkeypatch, sampled, "_LARGE", 1e9,
                 lambda: test_shifts_that_are_seen_for_sure("mixture", 33.0, 0.5, 2))  # fmt: skip
