"""The smallest mu with a slack, and what reporting a mu gives away: against brute force over
profiles written out by hand, and mpmath's Gaussian profile.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import relaxed, worst_case
from jaxpriv.tradeoff import cells, slack
from tests.slips import check_is_red
from tests.tradeoff.profiles import (
    brute_mu,
    brute_regret,
    fast_gaussian,
    gaussian_profile,
    laplace_profile,
    response_profile,
)

RATE = 0.1
CASES = {
    "gaussian": (worst_case.gaussian(1.3), lambda e: fast_gaussian(1.3, e), 8.0),
    "laplace": (worst_case.laplace(0.8), lambda e: laplace_profile(0.8, e), 0.8),
    "response": (worst_case.randomized_response(1.2), lambda e: response_profile(1.2, e), 1.2),
    # of one record removed: delta(eps) = q D(log(1 + (e^eps - 1)/q)), 1 - e^eps where that is none
    "sampled": (
        worst_case.gaussian(2.0).subsample(RATE),
        lambda e: sampled(lambda x: fast_gaussian(2.0, x), e),
        9.0,
    ),
}
SLACKS = (1e-2, 1e-4, 1e-6)


def sampled(profile, eps):
    inside = 1 + np.expm1(eps) / RATE
    some = inside > 1e-12
    return np.where(some, RATE * profile(np.log(np.where(some, inside, 1.0))), -np.expm1(eps))


@pytest.mark.parametrize("kappa", SLACKS)
@pytest.mark.parametrize("name", CASES)
def test_mu_is_what_brute_force_finds(name, kappa):
    """At real eps, negative ones too: one direction counts its own levels."""
    curve, profile, last = CASES[name]
    want = brute_mu(profile, kappa, last)
    low, high = curve.gdp_mu_bounds(slack=kappa)
    assert low <= high <= low + 1e-6
    assert low - 1e-7 <= want <= high + 1e-9  # the grid may miss the top, and no more
    assert abs(curve.gdp_mu(slack=kappa) - want) < 1e-6
    # what the bound says, in 40 digits: f >= G_mu - slack
    eps = np.linspace(-last, last, 41)
    assert np.all(profile(eps) <= gaussian_profile(high, eps) + kappa + 1e-15)


def test_dp_sgd():
    """Both directions at once; far below sqrt(steps)/noise, and at 1e-9 where no eps is told."""
    curve = worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric()
    low, high = curve.gdp_mu_bounds(slack=1e-5)
    eps = np.linspace(0, float(curve.epsilon(1e-5)), 60)
    delta = curve.delta(eps)
    assert low <= high < low + 1e-6
    assert np.all(delta <= fast_gaussian(high, eps) + 1e-5 + 1e-14)
    assert np.max(delta - fast_gaussian(low * (1 - 3e-4), eps)) > 1e-5
    assert low - 1e-7 < curve.gdp_mu(slack=1e-5) < high + 1e-7
    assert high < 0.5 < 31 < curve.gdp_mu()


def check_narrow(noise, rate, steps, kappa, width=1e-6):
    curve = worst_case.subsampled_gaussian(noise, rate, steps).symmetric()
    low, high = curve.gdp_mu_bounds(slack=kappa)
    assert low <= high <= low * (1 + width)
    assert low * (1 - 1e-6) < curve.gdp_mu(slack=kappa) < high * (1 + 1e-6)
    eps = np.linspace(0, float(curve.epsilon(kappa)), 40)
    assert np.all(curve.delta(eps) <= fast_gaussian(high, eps) + kappa + 1e-14)


@pytest.mark.parametrize("setting", [
    (0.7, 0.1, 30, 1e-3), (0.58, 0.0005, 2258, 7e-8),
    # nearly Gaussian: every eps asks for nearly as much
    (3.5, 0.737, 784, 1.2e-3), (1.83, 0.159, 6929, 1.44e-9), (0.69, 0.358, 3445, 8.9e-9),
])  # fmt: skip
def test_brackets_of_sampled_steps_are_narrow(setting):
    """At eps far from the middle of a row its one line may say nothing; what that asks for is no
    level that would make all other cells look enough."""
    check_narrow(*setting)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "width"), [
    ((0.78, 0.001, 4, 8.7e-4), 2e-6), ((0.5, 1e-4, 20, 1e-5), 5e-6),
])  # fmt: skip
def test_few_rare_steps(setting, width):
    """Where no line says anything laws do, one for a row of eps."""
    check_narrow(*setting, width=width)


def wavy(x):
    return 1 + 0.3 * np.sin(2 * x) - 0.1 * (x - 2.2) ** 2


def looks(doubt, certified, rows_seen):
    """At values known to this doubt, by their second derivative of 1.4 at most."""

    def look(rows, level):
        rows_seen.append(len(rows))
        values, width = wavy(rows), np.diff(rows, axis=1)
        bounds = np.maximum(values[:, :-1], values[:, 1:]) + 0.18 * width**2 + doubt
        level = max(level, np.max(values) - (doubt if certified else 0.0))
        return bounds, np.max(values) - doubt, level

    return look


def test_rough_looks_find_where_fine_ones_are_asked():
    top = np.max(wavy(np.linspace(0, 5, 2_000_001)))
    alone, few, rough = [], [], []
    least, most = cells.supremum(looks(1e-9, False, alone), np.float64(5.0))
    low, high = cells.supremum(looks(1e-9, False, few), np.float64(5.0),
                               first=looks(1e-4, True, rough))  # fmt: skip
    for lower, upper in ((least, most), (low, high)):
        assert lower <= top <= upper + 1e-12
        assert upper - lower < 1e-6
    assert sum(few) < 0.7 * sum(alone)


def check_roughly_first(monkeypatch):
    """What lattices with few points leave open is what those with many are asked."""
    curve = worst_case.laplace(1.0).subsample(0.05).compose(50).symmetric()
    low, high = curve.gdp_mu_bounds(slack=1e-4)
    with monkeypatch.context() as patched:
        patched.setattr(slack, "roughly", lambda *_: None)
        least, most = curve.gdp_mu_bounds(slack=1e-4)
    assert max(low, least) <= min(high, most)
    assert high - low <= 2 * (most - least) + 1e-7 * most


@pytest.mark.slow
def test_rough_brackets_first(monkeypatch):
    check_roughly_first(monkeypatch)


def test_gaussian_curves_are_known_in_closed_form():
    """delta falls by at most 1/sqrt(2 pi) for a unit of mu: no eps asks for more than mu less
    slack sqrt(2 pi), and that at eps = mu^2/2 does but for the slack's square.
    """
    mu = np.array([0.3, 1.0, 10.0])
    low, high = worst_case.gaussian(mu).gdp_mu_bounds(slack=1e-5)
    np.testing.assert_allclose(high, mu - np.sqrt(2 * np.pi) * 1e-5, rtol=1e-9)
    assert np.all((high - low >= 0) & (high - low < 2e-6 * high))


def test_ends():
    """No slack is the mu of mu-GDP; all slack asks for nothing; what is told for sure for all."""
    curve = worst_case.laplace(0.7)
    assert curve.gdp_mu(slack=0.0) == curve.gdp_mu()
    assert curve.gdp_mu_bounds(0.0) == curve.gdp_mu_bounds()
    assert curve.gdp_mu(slack=1.0) == 0
    assert curve.gdp_mu_bounds(slack=1.0) == (0, 0)
    box = worst_case.approximate_dp(0.5, 1e-3)
    assert box.gdp_mu(slack=0.9e-3) == np.inf
    assert box.gdp_mu_bounds(slack=0.9e-3) == (np.inf, np.inf)
    low, high = box.gdp_mu_bounds(slack=1e-3)
    assert 0 < low <= high < low + 1e-6
    mixed = curve.gdp_mu(slack=np.array([0.0, 1e-3, np.nan]))
    assert mixed[0] == curve.gdp_mu()
    assert abs(mixed[1] - curve.gdp_mu(slack=1e-3)) < 1e-14
    assert np.isnan(mixed[2])
    low, high = worst_case.gaussian(0.0).gdp_mu_bounds(slack=1e-3)
    assert low == high == 0
    low, high = curve.gdp_mu_bounds(slack=5e-324)
    assert low <= curve.gdp_mu() <= high * (1 + 1e-9)


def test_batches_and_directions():
    """Broadcast; the symmetric curve asks for the larger of both directions."""
    curves = worst_case.gaussian(np.array([[0.5], [2.0]])).subsample(0.2)
    kappa = np.array([1e-2, 1e-4])
    found = curves.gdp_mu(slack=kappa)
    low, high = curves.symmetric().gdp_mu_bounds(slack=kappa)
    assert found.shape == low.shape == (2, 2)
    for index in np.ndindex(2, 2):
        one = worst_case.gaussian([0.5, 2.0][index[0]]).subsample(0.2)
        assert abs(one.gdp_mu(slack=kappa[index[1]]) - found[index]) < 1e-12
        both = max(one.gdp_mu(kappa[index[1]]), one.reversed().gdp_mu(kappa[index[1]]))
        assert low[index] - 1e-6 <= both <= high[index]


@pytest.mark.parametrize("bad", [-1e-9, 1.5, np.inf, "some", None, True, 1j])
def test_bad_slack_and_mu(bad):
    curve = worst_case.laplace(1.0)
    for method in (curve.gdp_mu, curve.gdp_mu_bounds):
        with pytest.raises(ValueError, match=r"slack = .*\[0, 1\]"):
            method(slack=bad)
    if bad == 1.5:
        return
    for method in (curve.gdp_regret, curve.gdp_regret_bounds):
        with pytest.raises(ValueError, match=r"mu = .*\[0, inf\)"):
            method(bad)


REGRETS = {
    "laplace": (worst_case.laplace(1.0), (1.05, 2.0)),
    "gaussian": (worst_case.gaussian(1.0), (1.5,)),
    "response": (worst_case.randomized_response(1.0), (1.3,)),
    "sampled": (worst_case.gaussian(1.0).subsample(0.1), (0.3, 1.0)),
    "relaxed": (relaxed.laplace(1.0).symmetric(), (0.5,)),
}


@pytest.mark.parametrize("name", REGRETS)
def test_regret_is_what_brute_force_finds(name):
    curve, mus = REGRETS[name]
    for mu in mus:
        want = brute_regret(curve, curve.inverse, mu)
        low, high = curve.gdp_regret_bounds(mu)
        assert low <= high <= low + 1e-6
        assert low - 1e-6 <= want <= high + 1e-9  # the grid may miss the top
        assert low - 2e-8 <= curve.gdp_regret(mu) <= high + 2e-8


def check_narrow_regret(noise, rate, steps, mu):
    one_way = worst_case.subsampled_gaussian(noise, rate, steps)
    for curve in (one_way, one_way.symmetric()):
        low, high = curve.gdp_regret_bounds(mu)
        assert low <= high <= low * (1 + 1e-6)
        assert low * (1 - 1e-6) < curve.gdp_regret(mu) < high * (1 + 1e-6)


@pytest.mark.parametrize("setting", [
    (0.96, 0.0605, 281, 2.67), (2.12, 0.143, 4, 0.336), (1.34, 0.00304, 840, 0.152),
])  # fmt: skip
def test_regret_of_sampled_steps_is_narrow(setting):
    check_narrow_regret(*setting)


def test_regret_of_gaussian_curves():
    """At eps = 0: Phi(mu/2) - Phi(mu'/2), and nothing of a mu that is too small."""
    curve, own = worst_case.gaussian(1.0), 0.6914624612740131
    for mu, want in ((2.0, 0.8413447460685429 - own), (0.5, 0.0), (0.0, 0.0), (1e6, 1 - own)):
        low, high = curve.gdp_regret_bounds(mu)
        assert low - 1e-15 <= want <= high + 1e-15
        assert high - low < 2e-7
        assert abs(curve.gdp_regret(mu) - want) < 1e-14
    low, high = curve.gdp_regret_bounds(1.0)
    assert low <= 1e-15 <= high < 1e-4
    sgd = worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric()
    low, high = sgd.gdp_regret_bounds(sgd.gdp_mu())
    assert 0.4 < low <= high < low + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mu", "regret", "mu of kinks", "regret of kinks"])
def test_executors_and_derivatives(name):
    """The same digits from JAX, in float64, and slopes as differences have them."""
    make = worst_case.laplace if "kinks" in name else worst_case.gaussian
    if "mu" in name:
        point = np.array([1.2, 1e-3])

        def function(m, k):
            return make(m).symmetric().gdp_mu(slack=k)
    else:
        point = np.array([1.2, 1.7])

        def function(m, k):
            return make(m).symmetric().gdp_regret(k)

    value, slopes = jax.jit(jax.value_and_grad(function, (0, 1)))(*map(jnp.float64, point))
    assert abs(value - function(*point)) < 1e-10
    for axis, slope in enumerate(slopes):
        step = np.zeros(2)
        step[axis] = 1e-3 * point[axis]
        difference = (function(*(point + step)) - function(*(point - step))) / (2 * step[axis])
        np.testing.assert_allclose(slope, difference, rtol=1e-4)


@pytest.mark.slow
def test_float32():
    found = jax.jit(lambda m: worst_case.gaussian(m).symmetric().gdp_mu(slack=1e-3))(
        jnp.float32(1.0)
    )
    assert found.dtype == jnp.float32
    assert abs(found - 0.9974934) < 1e-4


@pytest.mark.parametrize("method", ["gdp_mu_bounds", "gdp_regret_bounds"])
def test_compositions_are_traced(method):
    """Their other means are NumPy's alone."""
    def bounds(noise):
        curve = worst_case.subsampled_gaussian(noise, 0.01, 1000.0).symmetric()
        return getattr(curve, method)(1e-5)

    low, high = jax.eval_shape(bounds, jnp.float64(1.0))
    assert low.shape == high.shape == ()


@pytest.mark.slow
def test_bounds_inside_jit():
    """Of the same truth as NumPy's, rounded outward in float32."""
    for dtype in (jnp.float32, jnp.float64):
        curve = worst_case.gaussian(np.asarray(dtype(1.2))).subsample(0.1).symmetric()
        found = jax.jit(
            lambda m: worst_case.gaussian(m).subsample(0.1).symmetric().gdp_mu_bounds(slack=1e-5)
        )(dtype(1.2))
        want = curve.gdp_mu_bounds(slack=1e-5)
        assert found[0] <= want[1]
        assert want[0] <= found[1]
        assert found[1] - found[0] < 1e-6
        found = jax.jit(
            lambda m: worst_case.gaussian(m).subsample(0.1).symmetric().gdp_regret_bounds(1.0)
        )(dtype(1.2))
        want = curve.gdp_regret_bounds(1.0)
        assert found[0] <= want[1]
        assert want[0] <= found[1]
        assert found[1] - found[0] < 1e-6


@pytest.mark.slow
def test_on_a_lattice():
    """Steps of Laplace noise; the same mu from its profile on a grid."""
    curve = jaxpriv.compose(worst_case.laplace(0.3).compose(5))
    low, high = curve.gdp_mu_bounds(slack=1e-4)
    eps = np.linspace(0, float(curve.epsilon(1e-4)), 12)
    assert low <= high < low + 1e-5
    assert np.all(curve.delta(eps) <= fast_gaussian(high, eps) + 1e-4 + 1e-9)


class TestMutations:
    """Each of these slips is seen by a test above."""

    def red(self, test, *arguments):
        with pytest.raises(AssertionError):
            test(*arguments)

    def test_tangents_too_high(self, monkeypatch):
        """Upper ends below the truth: the cells' bound at one end only."""
        true = slack._is_enough
        monkeypatch.setattr(
            slack,
            "_is_enough",
            lambda cells, allowed, mu: true((cells[1], cells[1], cells[3], cells[3]), allowed, mu),
        )
        self.red(test_mu_is_what_brute_force_finds, "sampled", 1e-2)

    def test_one_direction_at_positive_eps(self, monkeypatch):
        monkeypatch.setattr(slack, "directions", lambda experiment: (True,))
        self.red(test_mu_is_what_brute_force_finds, "sampled", 1e-2)

    def test_nothing_beyond_the_last_cell(self, monkeypatch):
        true = cells.supremum
        monkeypatch.setattr(
            slack, "supremum", lambda look, stop, **rest: true(look, stop / 4, **rest)
        )
        self.red(test_mu_is_what_brute_force_finds, "sampled", 1e-4)

    def test_levels_of_what_is_not_known(self, monkeypatch):
        """Of rows that nothing else narrows, as in a program."""
        monkeypatch.setattr(slack, "_FINE", np.inf)
        check_narrow(0.69, 0.358, 3445, 8.9e-9)
        monkeypatch.setattr(slack, "_NARROW", np.inf)
        self.red(check_narrow, 0.69, 0.358, 3445, 8.9e-9)

    def test_cells_left_for_good(self, monkeypatch):
        monkeypatch.setattr(cells, "_PATIENT", 0)
        self.red(check_narrow, 3.5, 0.737, 784, 1.2e-3)
        self.red(check_narrow_regret, 0.96, 0.0605, 281, 2.67)

    @pytest.mark.slow
    def test_lines_for_whole_rows_alone(self, monkeypatch):
        monkeypatch.setattr(slack, "_FINE", np.inf)
        self.red(test_few_rare_steps, (0.78, 0.001, 4, 8.7e-4), 2e-6)
        self.red(check_narrow_regret, 0.96, 0.0605, 281, 2.67)

    @pytest.mark.slow
    def test_rough_brackets_of_another_curve(self, monkeypatch):
        other = worst_case.laplace(0.3).compose(50).symmetric().experiment
        monkeypatch.setattr(slack, "roughly", lambda experiment: other)
        self.red(check_roughly_first, monkeypatch)

    def test_mu_without_the_slack(self, monkeypatch):
        monkeypatch.setattr(
            jaxpriv.Curve, "gdp_mu", lambda self, slack=0.0: slack * 0 + self.gdp_mu_bounds()[1]
        )
        self.red(test_dp_sgd)

    @pytest.mark.slow
    def test_regret_of_one_direction(self, monkeypatch):
        from jaxpriv.tradeoff import regret

        monkeypatch.setattr(regret, "directions", lambda experiment: (False,))
        self.red(test_regret_is_what_brute_force_finds, "sampled")

    def test_bounds_of_half_the_regret(self, monkeypatch):
        true = jaxpriv.Curve.gdp_regret_bounds
        monkeypatch.setattr(
            jaxpriv.Curve, "gdp_regret_bounds",
            lambda self, mu: tuple(bound / 2 for bound in true(self, mu)),
        )
        self.red(test_regret_of_gaussian_curves)


CORNERED = {
    "counts": worst_case.discrete_gaussian(0.9),
    "several counts": worst_case.discrete_gaussian(0.9).compose(3),
    "mixture": jaxpriv.mixture([worst_case.laplace(0.3), worst_case.laplace(2.0)], [0.3, 0.7]),
    "reports": worst_case.randomized_response(1.0).subsample(0.2).compose(3),
}


def check_corners(name):
    """Each corner of the profile is a summit of its own: of seventeen points none was near the
    highest one, and the regret of counts 0 instead of 1.1e-3.
    """
    curve = CORNERED[name]
    for mu in (0.4, 1.0):
        low, high = curve.gdp_regret_bounds(mu)
        assert low - 1e-9 <= curve.gdp_regret(mu) <= high + 1e-9
        low, high = curve.gdp_mu_bounds(slack=1e-3 * mu)
        assert low - 1e-6 <= curve.gdp_mu(slack=1e-3 * mu) <= high + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", CORNERED)
def test_corners(name):
    check_corners(name)


@pytest.mark.slow
def test_slip_at_corners(monkeypatch):
    check_is_red(monkeypatch, cells, "_CORNERS", 9, lambda: check_corners("counts"))


def test_lattices_in_a_program():
    """Whether a traced loss has a density is not asked: a program looks for one summit."""
    for ask in (lambda c: c.gdp_regret(0.5), lambda c: c.gdp_mu(slack=1e-3)):
        found = jax.eval_shape(lambda r, ask=ask: ask(worst_case.laplace(r).compose(2)), 0.5)
        assert found.shape == ()
