"""Filters and odometers: sums against exact fractions, in both executors and precisions; what is
refused; conversions in mpmath; and adaptive adversaries played many times.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import jaxpriv
from jaxpriv import filters, worst_case
from jaxpriv.filters import total

MAKE = {
    "gaussian": lambda budget: filters.gaussian(budget),
    "renyi": lambda budget: filters.renyi(8.0, budget),
    "odometer": lambda budget: filters.odometer([budget / 2, budget]),
    "renyi odometer": lambda budget: filters.renyi_odometer(8.0, [budget / 2, budget]),
}
POWER = {"gaussian": 2, "renyi": 1, "odometer": 2, "renyi odometer": 1}
KINDS = pytest.mark.parametrize("kind", MAKE)


def exact(state):
    return Fraction(float(state.high)) + Fraction(float(state.low))


@KINDS
@pytest.mark.parametrize("dtype", [float, jnp.float32, jnp.float64])
def test_never_counts_too_little(kind, dtype):
    """Random spends of all sizes: accepted ones are in the sum, which is at least the exact one,
    at most the budget, and within 1e-6 of the exact one; a refused one leaves no trace.
    """
    filter, power = MAKE[kind](1.0), POWER[kind]
    rng = np.random.default_rng(3)
    spend = filter.spend if dtype is float else jax.jit(filter.spend)
    state, truth, refused = filter.init(), Fraction(0), 0
    for size in np.exp(rng.uniform(-18, 0.5, 300)):
        given = dtype(size)
        before = state
        state, accepted = spend(state, given)
        if accepted:
            truth += Fraction(float(given)) ** power
        else:
            refused += 1
            assert exact(state) == exact(before)
        assert truth <= exact(state) <= 1
    assert refused > 10
    assert exact(state) - truth < 1e-6


@KINDS
@pytest.mark.parametrize("dtype", [float, jnp.float32, jnp.float64])
def test_one_spend(kind, dtype):
    """Counted with what its square loses to rounding, in the precision that it has."""
    filter, power = MAKE[kind](1e3), POWER[kind]
    for size in np.exp(np.random.default_rng(4).uniform(-30, 5, 200)):
        given = dtype(size)
        state, accepted = filter.spend(filter.init(), given)
        truth = max(Fraction(float(given)) ** power, Fraction(total.LEAST) / 2)
        assert accepted
        assert truth <= exact(state)
        assert exact(state) <= truth * (1 + Fraction(1, 10**6)) + Fraction(total.LEAST) * 2


@KINDS
def test_budgets_are_met_exactly(kind):
    """Four parts of exact numbers, and then nothing that can be told from it."""
    power = POWER[kind]
    filter = MAKE[kind](2.0)
    for executor in (lambda x: x, jnp.float32, jnp.float64):
        state = filter.init()
        for _ in range(4):
            state, accepted = filter.spend(state, executor(1.0 if power == 2 else 0.5))
            assert accepted
        for more in (1e-30, 1e-5, 1.0):
            state, accepted = filter.spend(state, executor(more))
            assert not accepted
        assert exact(state) == 2**power
        assert filter.spent(state) == pytest.approx(2.0, rel=1e-6)
        assert filter.spent(state) >= 2.0
        assert filter.spend(state, executor(0.0))[1]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_million_tiny_spends(dtype):
    """Of which a float32 sum would lose most: the exact sum is not under-counted, and hardly over.
    """
    mu, count = dtype(1e-4), 10**6
    filter = filters.gaussian(1.0)

    def step(state, _):
        return filter.spend(state, mu)

    # most is spent already: the rest is a billionth of it each
    start, accepted = filter.spend(filter.init(), 0.99)
    assert accepted
    state, accepted = jax.jit(
        lambda start: jax.lax.scan(step, jax.tree.map(jnp.asarray, start), length=count)
    )(start)
    assert jnp.all(accepted)
    truth = Fraction(0.99) ** 2 + count * Fraction(float(mu)) ** 2
    assert truth <= exact(state) <= truth * (1 + Fraction(1, 10**8))


def test_states_pass_between_executors():
    """What NumPy summed is what a program of float32 goes on with."""
    filter = filters.gaussian(3.0)
    state, _ = filter.spend(filter.init(), 0.1)
    moved = jax.jit(lambda state: filter.spend(state, jnp.float32(0.0))[0])(state)
    assert exact(moved) == exact(state)
    assert {leaf.dtype for leaf in jax.tree.leaves(moved)} == {np.dtype(np.float32)}
    with jax.enable_x64(False):
        moved = jax.jit(lambda state: filter.spend(state, jnp.float32(0.0))[0])(state)
        assert exact(moved) == exact(state)


def test_mapped():
    """One filter for each record; a batch of interactions."""
    filter = filters.gaussian(np.array([1.0, 2.0]))
    state, accepted = filter.spend(filter.init(), np.array([1.5, 1.5]))
    assert accepted.tolist() == [False, True]
    assert filter.spent(state) == pytest.approx([0.0, 1.5])
    one = filters.gaussian(1.0)
    state, accepted = jax.vmap(one.spend, (None, 0))(one.init(), jnp.array([0.5, 1.5, jnp.nan]))
    assert accepted.tolist() == [True, False, False]


@KINDS
def test_what_is_no_spend(kind):
    filter = MAKE[kind](1.0)
    state, _ = filter.spend(filter.init(), 0.25)
    for bad in (np.nan, -0.1, np.inf, "some", None, True, [0.1, -1.0]):
        with pytest.raises(ValueError, match=rf"{filter.name} = .*\[0, inf\)"):
            filter.spend(state, bad)
    for curve in (worst_case.gaussian(0.1), worst_case.laplace(0.1)):
        with pytest.raises(ValueError, match="adaptively do not compose as curves do"):
            filter.spend(state, curve)
    spend = jax.jit(filter.spend)
    for bad in (np.nan, -0.1, np.inf, -np.inf, 1e30):
        after, accepted = spend(state, bad)
        assert not accepted
        assert exact(after) == exact(state)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, 1e-10, "some"])
def test_bad_budgets(bad):
    for make in (filters.gaussian, lambda b: filters.renyi(2.0, b), lambda b: filters.odometer([b]),
                 lambda b: filters.renyi_odometer(2.0, [b])):
        with pytest.raises(ValueError, match="1e-9, 1e15"):
            make(bad)


def test_bad_orders_and_rungs():
    for make in (lambda o: filters.renyi(o, 1.0), lambda o: filters.renyi_odometer(o, [1.0])):
        for order in (1.0, 0.5, np.inf, "some"):
            with pytest.raises(ValueError, match=r"order = .*\(1, inf\)"):
                make(order)
    for rungs in ([2.0, 1.0], [1.0, 1.0], [], 1.0, [[1.0]]):
        with pytest.raises(ValueError, match="rungs"):
            filters.odometer(rungs)
    meter = filters.odometer([1.0])
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match=r"delta = .*\(0, 1\)"):
            meter.epsilon(meter.init(), delta)
    with pytest.raises(ValueError, match=r"delta = .*\(0, 1\]"):
        filters.renyi(2.0, 1.0).epsilon(0.0)


def test_curve_of_a_filter():
    curve = filters.gaussian(1.5).curve()
    assert curve.gdp_mu() == pytest.approx(1.5)
    assert curve.epsilon(1e-5) == worst_case.gaussian(1.5).epsilon(1e-5)


@pytest.mark.parametrize("order", [1.001, 2.0, 64.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.9])
def test_conversion(order, delta):
    """In 40 digits, from above; above the exact epsilon of Gaussian noise of that divergence."""
    with mpmath.workdps(40):
        a, d, budget = mpmath.mpf(order), mpmath.mpf(delta), mpmath.mpf(0.7)
        want = max(budget + mpmath.log(1 - 1 / a) - mpmath.log(a * d) / (a - 1), 0)
        found = filters.renyi(order, 0.7).epsilon(delta)
        assert want <= mpmath.mpf(float(found)) <= want * (1 + mpmath.mpf(10) ** -9)
    noise = worst_case.gaussian(np.sqrt(2 * 0.7 / order))
    assert noise.epsilon(delta) <= found
    jitted = jax.jit(lambda d: filters.renyi(order, 0.7).epsilon(d))(delta)
    assert abs(jitted - found) <= 1e-9 * found


def test_odometer_s_bound():
    """By the definition, in 40 digits: P(L > eps) = p, of a test whose errors mu allows, needs
    p <= 1 - G_mu(e^-eps p), which holds up to p = delta/rungs and no further.
    """
    rungs, delta = [0.25, 1.0, 4.0], 1e-6
    meter = filters.odometer(rungs)
    for spent, rung in ((0.2, 0.25), (0.25, 0.25), (0.26, 1.0), (4.0, 4.0)):
        state, accepted = meter.spend(meter.init(), spent)
        assert accepted
        eps = float(meter.epsilon(state, delta))
        with mpmath.workdps(40):
            p = mpmath.mpf(delta) / 3
            quantile = mpmath.findroot(lambda z, p=p: mpmath.ncdf(z) - p, -5.1)
            want = mpmath.log(p / mpmath.ncdf(quantile - rung))
            assert want <= eps <= want * (1 + mpmath.mpf(10) ** -9)
        in_jax = jax.jit(lambda state: meter.epsilon(state, delta))(state)
        assert abs(in_jax - eps) <= 1e-12 * eps
        # no better than the same mu, fixed beforehand, and not far from it
        assert worst_case.gaussian(rung).epsilon(delta / 3) <= eps
        assert eps <= 1.2 * worst_case.gaussian(rung).epsilon(delta / 3)
    assert meter.epsilon(meter.init(), delta) == 0


def test_renyi_odometer_s_bound():
    meter = filters.renyi_odometer(8.0, [0.1, 0.5])
    for spent, rung in ((0.05, 0.1), (0.5, 0.5)):
        state, _ = meter.spend(meter.init(), spent)
        want = rung + np.log(2 / 1e-5) / 7
        assert want <= meter.epsilon(state, 1e-5) <= want * (1 + 1e-12)


def played(rng, choose, rungs, games, rounds):
    """Largest L_t - eps(state_t) over t of `games` interactions with Gaussian steps: with the
    record the loss of a step is N(mu^2/2, mu^2). choose: (loss, spent squares) -> mu.
    """
    meter, delta = filters.odometer(rungs), 0.1
    state = jax.tree.map(lambda leaf: np.zeros(games, leaf.dtype), meter.init())
    loss, worst = np.zeros(games), np.full(games, -np.inf)
    for _ in range(rounds):
        mu = choose(loss, state.value())
        state, accepted = meter.spend(state, mu)
        step = mu**2 / 2 + mu * rng.standard_normal(games)
        loss = loss + np.where(accepted, step, 0.0)
        worst = np.maximum(worst, loss - meter.epsilon(state, delta))
    return np.mean(worst > 0)


@pytest.mark.slow
def test_adaptive_adversaries_do_not_beat_the_odometer():
    """Who stops when ahead, and who bets more when behind: the bound fails at any time at all
    in less than delta of the games, and not in none.
    """
    rng = np.random.default_rng(5)
    rungs = [0.5, 1.0]

    def steady(loss, spent):
        return np.full_like(loss, 0.1)

    def stops(loss, spent):
        return np.where(loss > 0.5, 0.0, 0.1)

    def bets(loss, spent):
        return np.sqrt(np.clip(1.0 - spent, 0, None)) * np.where(loss < 0, 0.7, 0.1)

    failed = [played(rng, choose, rungs, 20_000, 120) for choose in (steady, stops, bets)]
    assert max(failed) < 0.1
    assert max(failed) > 0.01


def test_filter_holds_whoever_chooses():
    """mu-GDP of the whole: delta(eps) = E[(1 - e^(eps - L))+] of adaptive games is at most G's."""
    rng = np.random.default_rng(7)
    games, filter = 100_000, filters.gaussian(1.0)
    state = jax.tree.map(lambda leaf: np.zeros(games, leaf.dtype), filter.init())
    loss = np.zeros(games)
    for _ in range(12):
        mu = np.where(loss < 0, 0.6, 0.25)
        state, accepted = filter.spend(state, mu)
        loss += np.where(accepted, mu**2 / 2 + mu * rng.standard_normal(games), 0.0)
    for eps in (0.0, 0.5, 1.0):
        gains = np.maximum(-np.expm1(eps - loss), 0.0)
        spread = gains.std() / np.sqrt(games)
        assert gains.mean() - 4 * spread <= worst_case.gaussian(1.0).delta(eps)
    assert gains.mean() > 0.5 * worst_case.gaussian(1.0).delta(eps)


class TestMutations:
    """Each of these slips is seen by a test above."""

    def red(self, test, *arguments):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            test(*arguments)

    def test_plain_squares(self, monkeypatch):
        monkeypatch.setattr(jaxpriv.filters.filter, "square", lambda value, up=True: value * value)
        self.red(test_one_spend, "gaussian", jnp.float32)

    def test_plain_sums(self, monkeypatch):
        monkeypatch.setattr(total, "_added_up", lambda a, b: a + b)
        self.red(test_never_counts_too_little, "gaussian", float)

    def test_one_word(self, monkeypatch):
        monkeypatch.setattr(
            total, "_two_sum", lambda a, b: (a + b, np.float32(0.0) * (a + b))
        )
        self.red(test_a_million_tiny_spends, jnp.float32)

    def test_spent_though_refused(self, monkeypatch):
        monkeypatch.setattr(
            jaxpriv.filters.filter, "_where", lambda accepted, after, before: after
        )
        self.red(test_never_counts_too_little, "renyi", float)

    def test_budget_of_the_first_rung(self, monkeypatch):
        monkeypatch.setattr(filters.GaussianOdometer, "_bound", lambda self: self._at(0))
        self.red(test_budgets_are_met_exactly, "odometer")

    def test_no_union_over_rungs(self, monkeypatch):
        true = filters.GaussianOdometer._epsilons
        monkeypatch.setattr(
            filters.GaussianOdometer, "_epsilons",
            lambda self, log_share: true(self, log_share + np.log(3)),
        )
        self.red(test_odometer_s_bound)

    def test_delta_twice(self, monkeypatch):
        true = filters.RenyiFilter.epsilon
        monkeypatch.setattr(filters.RenyiFilter, "epsilon", lambda self, d: true(self, 2 * d / 2.1))
        self.red(test_conversion, 2.0, 1e-5)

    def test_half_the_budget_s_curve(self, monkeypatch):
        monkeypatch.setattr(
            filters.GaussianFilter, "curve", lambda self: worst_case.gaussian(self.mu / 2)
        )
        self.red(test_curve_of_a_filter)
