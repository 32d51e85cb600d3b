"""Local randomisers against all their reports, one by one."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jaxpriv import relaxed, worst_case
from jaxpriv.tradeoff import local
from jaxpriv.tradeoff.response import Response
from tests.slips import check_is_red

EPSILONS = (0.0, 1e-9, 0.3, 1.0, 2.5, 12.0)


def response(epsilon, categories, value):
    """The law of a report of k-ary randomised response."""
    law = np.ones(categories)
    law[value] = np.exp(epsilon)
    return law / (np.exp(epsilon) + categories - 1)


def encoding(keep, flip, categories, value):
    """The law of all reports of unary encoding."""
    found = []
    for bits in itertools.product((0, 1), repeat=categories):
        mass = 1.0
        for place, bit in enumerate(bits):
            one = keep if place == value else flip
            mass *= one if bit else 1 - one
        found.append(mass)
    return np.array(found)


def profile(null, alternative, eps):
    return np.sum(np.maximum(alternative - np.exp(eps) * null, 0.0))


def powers(null, alternative, level):
    """The power of the best test at a level, outcome by outcome."""
    order = np.argsort(-alternative / null)
    up_p = np.concatenate([[0.0], np.cumsum(null[order])])
    up_q = np.concatenate([[0.0], np.cumsum(alternative[order])])
    return np.interp(level, up_p, up_q)


def check_pair(curve, null, alternative):
    for eps in (-1.0, -0.1, 0.0, 0.05, 0.4, 0.9, 2.0):
        truth = profile(null, alternative, eps)
        low, high = curve.delta_bounds(eps)
        assert low - 1e-13 <= truth <= high + 1e-13
        assert high - low < 1e-12
        assert np.isclose(curve.reversed().delta(eps), profile(alternative, null, eps), atol=1e-13)
    for level in (0.01, 0.2, 0.5, 0.8):
        assert np.isclose(curve.power(level), powers(null, alternative, level), rtol=1e-12)
        low, high = curve.beta_bounds(level)
        assert low - 1e-13 <= 1 - powers(null, alternative, level) <= high + 1e-13


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 7])
def test_k_ary(epsilon, categories):
    one, other = (response(epsilon, categories, value) for value in (0, 1))
    check_pair(worst_case.k_ary_randomized_response(epsilon, categories), one, other)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 7])
def test_k_ary_of_no_record(epsilon, categories):
    curve = worst_case.k_ary_randomized_response(epsilon, categories, adjacency="zero_out")
    check_pair(curve, np.full(categories, 1 / categories), response(epsilon, categories, 0))


@pytest.mark.parametrize("epsilon", [1e-9, 0.9, 1.0, 5.0, 20.7, 29.9, 30.0, 300.0])
@pytest.mark.parametrize("k", [3, 1000, 10**9])
def test_among_many_values(epsilon, k):
    """A report of none of a billion values tells next to nothing, and that to all digits."""
    with mpmath.workdps(50):
        odds = mpmath.exp(mpmath.mpf(epsilon))
        one, each = odds / (odds + k - 1), 1 / (odds + k - 1)
        uniform, own = (mpmath.mpf(1) / k, mpmath.mpf(k - 1) / k), (one, (k - 1) * each)
        found = {
            worst_case.k_ary_randomized_response(epsilon, k, adjacency="zero_out"): (uniform, own),
            relaxed.k_ary_randomized_response(epsilon, k): (own, (each, one + (k - 2) * each)),
        }
        for curve, (null, alternative) in found.items():
            ends = [float(mpmath.log(b / a)) for a, b in zip(null, alternative)]
            near = [end * part for end in ends for part in (0.3, 1 - 1e-9)]
            for eps in [0.0, epsilon / 2, *near]:
                truth = sum(max(b - mpmath.exp(eps) * a, 0) for a, b in zip(null, alternative))
                low, high = curve.delta_bounds(eps)
                assert low <= truth <= high
                assert high - low <= 1e-4 * high


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("optimised", [False, True])
def test_unary(epsilon, optimised):
    half = np.exp(epsilon / 2)
    keep, flip = (0.5, 1 / (1 + np.exp(epsilon))) if optimised else (half / (1 + half),
                                                                     1 / (1 + half))  # fmt: skip
    one, other = (encoding(keep, flip, 4, value) for value in (0, 1))
    check_pair(worst_case.unary_encoding(epsilon, optimised), one, other)


@pytest.mark.parametrize("noise", [0.1, 0.5, 0.999999, 1.0])
def test_rappor(noise):
    one, other = (encoding(1 - noise / 2, noise / 2, 3, value) for value in (0, 2))
    check_pair(worst_case.rappor(noise), one, other)


def test_rappor_of_several_hashes():
    """Two values with two bits each: four bits, all enumerated."""
    one, other = (encoding(0.75, 0.25, 2, value) for value in (0, 1))
    both = [np.multiply.outer(law, law).ravel() for law in (one, other)]
    curve = worst_case.rappor(0.5, hashes=2)
    for eps in (0.3, 1.5, 2.9):
        low, high = curve.delta_bounds(eps)
        assert low <= profile(*both, eps) * (1 + 1e-11)
        assert profile(*both, eps) <= high * (1 + 1e-11)
        assert high - low < 5e-5 * high
    assert np.isclose(curve.epsilon(0.0), 4 * np.log(3.0))
    assert worst_case.rappor(1.0).delta(0.0) == 0.0


LAST_LOSSES = {  # computed from parameters; the second number of each is the parameter
    "rappor": (worst_case.rappor, lambda f: 2 * mpmath.log((2 - f) / f)),
    "no record": (
        lambda epsilon: worst_case.k_ary_randomized_response(epsilon, 5, adjacency="zero_out"),
        lambda e: e - mpmath.log((mpmath.exp(e) + 4) / 5),
    ),
    "other value": (lambda epsilon: relaxed.k_ary_randomized_response(epsilon, 5),
                    lambda e: mpmath.log((mpmath.exp(e) + 3) / 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAST_LOSSES)
def test_the_largest_loss_is_rounded_up(name):
    """0.02134...: the first number that the standing adversary found."""
    make, loss = LAST_LOSSES[name]
    for number in (0.021348460991052455, *np.random.default_rng(5).uniform(0.001, 1.0, 20)):
        with mpmath.workdps(40):
            truth = loss(mpmath.mpf(number))
        for delta in (0.0, 1e-30):
            low, high = make(number).epsilon_bounds(delta)
            assert mpmath.mpf(low) <= truth <= mpmath.mpf(high)


@pytest.mark.parametrize("steps", [2, 3])
def test_few_reports(steps):
    one, other = (response(0.8, 4, value) for value in (0, 1))
    laws = [one, other]
    for _ in range(steps - 1):
        laws = [np.multiply.outer(law, own).ravel() for law, own in zip(laws, (one, other))]
    curve = worst_case.k_ary_randomized_response(0.8, 4).compose(steps)
    for eps in (0.1, 0.5, 1.1):
        low, high = curve.delta_bounds(eps)
        truth = profile(*laws, eps)
        assert low <= truth * (1 + 1e-11)
        assert truth <= high * (1 + 1e-11)
        assert high - low < 5e-5 * high


def test_many_reports_are_narrow():
    for curve in (worst_case.k_ary_randomized_response(0.5, 9), worst_case.unary_encoding(0.5),
                  worst_case.unary_encoding(0.5, optimised=True)):  # fmt: skip
        low, high = curve.compose(100).epsilon_bounds(1e-5)
        assert 0 < high - low < 1e-5 * high + 1e-7


def test_many_categories_tell_little():
    pure = worst_case.randomized_response(1.0)
    two = worst_case.k_ary_randomized_response(1.0, 2)
    assert two.delta(0.4) == pytest.approx(pure.delta(0.4), rel=1e-13)
    assert two.epsilon(0.0) == worst_case.k_ary_randomized_response(1.0, 10**9).epsilon(0.0) == 1.0
    assert worst_case.k_ary_randomized_response(1.0, 10**9).advantage() < 2e-9
    assert worst_case.k_ary_randomized_response(1000.0, 5).advantage() == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 7])
def test_who_does_not_know_the_other_value(epsilon, categories):
    """That against a uniform draw of it; its test has the same power for every other value."""
    null = response(epsilon, categories, 0)
    others = [response(epsilon, categories, value) for value in range(1, categories)]
    curve = relaxed.k_ary_randomized_response(epsilon, categories)
    check_pair(curve, null, np.mean(others, 0))
    if epsilon:
        statistic = np.maximum.reduce(others) / null  # the generalised likelihood ratio
        rejects = statistic > 1
        reached = [np.sum(law[rejects]) for law in others]
        assert np.allclose(reached, curve.power(np.sum(null[rejects])), rtol=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("categories", [2, 5])
def test_who_does_not_know_the_other_bit(epsilon, optimised, categories):
    half = np.exp(epsilon / 2)
    keep, flip = (0.5, 1 / (1 + np.exp(epsilon))) if optimised else (half / (1 + half),
                                                                     1 / (1 + half))  # fmt: skip
    laws = [encoding(keep, flip, categories, value) for value in range(categories)]
    curve = relaxed.unary_encoding(epsilon, categories, optimised)
    check_pair(curve, laws[0], np.mean(laws[1:], 0))
    if epsilon:
        generalised = np.maximum.reduce(laws[1:]) / laws[0]
        rejects = generalised > 1 + 1e-9
        level, power = np.sum(laws[0][rejects]), np.sum(laws[1][rejects])
        assert power <= curve.power(min(level, 1.0)) + 1e-12


@pytest.mark.parametrize("wrap", [float, jnp.asarray], ids=["numpy", "jax"])
def test_levels_at_the_end_and_at_corners(wrap):
    """Sums of all masses are 1 to rounding only: a level of 1 lay beyond them, where f was NaN."""
    for epsilon in np.linspace(0.1, 5.0, 9):
        for one in (relaxed.k_ary_randomized_response(epsilon, 5),
                    relaxed.unary_encoding(epsilon, 7), worst_case.approximate_dp(epsilon, 0.1)):
            for curve in (one, one.reversed()):
                assert curve(wrap(1.0)) == 0.0
                assert curve.power(wrap(1.0)) == 1.0
                for corner in curve.experiment.kinks(False):
                    near = np.nextafter(corner, [0.0, 1.0])
                    assert np.all(np.isfinite([curve(wrap(level)) for level in near]))


@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 40.0])
def test_many_other_bits(epsilon):
    curve = relaxed.unary_encoding(epsilon, 64)
    assert curve.epsilon(0.0) == epsilon
    assert curve.delta(0.0) < worst_case.unary_encoding(epsilon).delta(0.0) * (1 + 1e-12)
    low, high = curve.advantage_bounds()
    assert low <= curve.advantage() <= high < low + 1e-11
    known = curve.experiment.aligned((), np.float64)
    assert np.all(np.diff(known.loss) >= 0)
    assert np.isclose(np.exp(known.null).sum(), 1.0, rtol=1e-12)
    assert np.isclose(np.exp(known.alternative).sum(), 1.0, rtol=1e-12)


def test_relaxed_is_above_the_worst_case():
    levels = np.linspace(0.001, 0.999, 99)
    for categories in (2, 3, 50):
        worst = worst_case.k_ary_randomized_response(1.5, categories)
        easier = relaxed.k_ary_randomized_response(1.5, categories).symmetric()
        assert np.all(easier(levels) >= worst(levels) - 1e-12)
        assert easier.epsilon(0.0) == pytest.approx(1.5)
    with pytest.raises(ValueError, match="group"):
        relaxed.k_ary_randomized_response(1.0, 3).group(2)


MAKERS = {
    "k-ary": lambda e: worst_case.k_ary_randomized_response(e, 5),
    "symmetric": worst_case.unary_encoding,
    "optimised": lambda e: worst_case.unary_encoding(e, optimised=True),
    "of no record": lambda e: worst_case.k_ary_randomized_response(e, 5, adjacency="zero_out"),
    "relaxed": lambda e: relaxed.k_ary_randomized_response(e, 5),
    "relaxed unary": lambda e: relaxed.unary_encoding(e, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=() if k == "k-ary" else pytest.mark.long) for k in MAKERS],
)
def test_executors_and_gradients(kind):
    epsilons = np.array([0.2, 0.7, 1.4])
    for look in (lambda c: c.delta(0.05), lambda c: c.epsilon(1e-3), lambda c: c.power(0.03),
                 lambda c: c.auc(), lambda c: c.subsample(0.3).delta(0.01)):  # fmt: skip
        here, there = look(MAKERS[kind](epsilons)), look(MAKERS[kind](jnp.asarray(epsilons)))
        assert np.allclose(here, there, rtol=1e-12)
        slopes = jax.vmap(jax.grad(lambda e, look=look: look(MAKERS[kind](e))))(epsilons)
        ends = [look(MAKERS[kind](epsilons + side)) for side in (-1e-6, 1e-6)]
        assert np.allclose(slopes, (ends[1] - ends[0]) / 2e-6, rtol=1e-6, atol=1e-8)
    low, high = jax.jit(lambda e: MAKERS[kind](e).delta_bounds(0.05))(epsilons)
    assert np.all((low <= MAKERS[kind](epsilons).delta(0.05) + 1e-16) & (low < high))


@pytest.mark.parametrize("categories", [1, 0, 2.0, "3", None, True, 10**9 + 1])
def test_refuses_categories_that_are_none(categories):
    for make in (worst_case.k_ary_randomized_response, relaxed.k_ary_randomized_response):
        with pytest.raises(ValueError, match="categories"):
            make(1.0, categories)


@pytest.mark.parametrize("epsilon", [-1.0, np.inf, "1", None])
def test_refuses_other_epsilons(epsilon):
    for make in MAKERS.values():
        with pytest.raises(ValueError, match="epsilon"):
            make(epsilon)


def test_refuses_other_arguments():
    with pytest.raises(ValueError, match="adjacency = 'add_remove'; accepted: .replace_one.,"):
        worst_case.k_ary_randomized_response(1.0, 3, adjacency="add_remove")
    for noise in (0.0, -0.1, 1.5):
        with pytest.raises(ValueError, match="noise"):
            worst_case.rappor(noise)
    for hashes in (0, 1.5, 1001):
        with pytest.raises(ValueError, match="hashes"):
            worst_case.rappor(0.5, hashes)
    with pytest.raises(TypeError, match="optimised"):
        worst_case.unary_encoding(1.0, optimised="yes")
    with pytest.raises(TypeError, match="optimised"):
        relaxed.unary_encoding(1.0, 3, optimised=1)
    for categories in (1, 65, 2.0):
        with pytest.raises(ValueError, match="categories"):
            relaxed.unary_encoding(1.0, categories)


SLIPS = [
    (local.KaryResponse, "log_masses",
     lambda self, e: (-np.log1p(self.categories * np.exp(-e)), -np.inf + e),
     lambda: test_k_ary(1.0, 3)),
    (local.UnaryEncoding, "log_masses", lambda self, e: (-np.log1p(np.exp(-e)), -np.inf + e),
     lambda: test_unary(1.0, False)),
    (local.OtherBit, "_log_bits", lambda self, e: (-np.log1p(np.exp(-e)),) * 4,
     lambda: test_who_does_not_know_the_other_bit(1.0, False, 5)),
    (local.OtherValue, "full", lambda self: True, test_relaxed_is_above_the_worst_case),
    (local, "_log_mean", lambda e, k: e - np.log(k) + np.log1p((k - 1) * np.exp(-e)),
     lambda: test_among_many_values(1.0, 10**9)),
    (local.UniformReport, "aligned",
     lambda self, *a: local.OtherValue(self.loss, self.categories).aligned(*a),
     lambda: test_k_ary_of_no_record(1.0, 3)),
    (local.PermanentResponse, "exact", lambda self, loss: 0 * loss,
     lambda: test_the_largest_loss_is_rounded_up("rappor")),
    (Response, "reversed", lambda self: local.OtherValue(self.loss, 2),
     lambda: test_k_ary(1.0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip[1])
def test_slip_is_seen(slip, monkeypatch):
    if slip[1] == "full":
        monkeypatch.setattr(*slip[:3])
        with pytest.raises(pytest.fail.Exception):
            slip[3]()
        return
    check_is_red(monkeypatch, *slip)
