"""Random allocation by NumPy: lines at fixed places, which all questions share, and what is
searched for along them; against a line of each question's own, sampling, and one question.
"""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import _stored as stored
from jaxpriv.composition.between import Between
from jaxpriv.tradeoff import allocation, lognormal_mean, lognormal_rule
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.many_outcomes import ManyOutcomes
from tests.slips import check_is_red

random_allocation = jaxpriv.worst_case.random_allocation


@np.errstate(all="ignore")
def check_lines_serve():
    """As far as they are used they know hardly less than a line placed there."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        a, t = np.exp(rng.uniform(np.log(0.01), np.log(4.0))), np.exp(rng.uniform(np.log(2), 14.0))
        own = lognormal_rule.columns(np.float64(a), np.floor(t))
        x = np.float64(min(np.sqrt(np.expm1(a * a) / t), 1.0) * rng.uniform(-5, 6))
        shared, alone = (
            lognormal_mean.bounds(line(own, x), x)
            for line in (lognormal_mean.line, lognormal_mean.placed)
        )
        for one, other in zip(shared[:2], alone[:2]):
            assert max(one[0], other[0]) <= min(one[1], other[1]), (a, t, x)
        both = (known.put if x < 0 else known.call for known in (shared, alone))
        (low, high), (least, most) = both
        assert high - low <= 40 * (most - least) + 1e-10, (a, t, x)


def test_lines_serve_what_is_near_them():
    check_lines_serve()


def test_few_lines_serve_the_whole_curve():
    stored.forget()
    low, high = random_allocation(1.0, 1000).symmetric().beta_bounds(np.linspace(0, 1, 101))
    assert np.max(high - low) < 1e-11
    assert len(lognormal_mean._lines.made) < 40


def test_many_answers_are_those_of_one_question():
    curve = random_allocation(0.8, 300)
    eps, alpha = np.linspace(-1.5, 4, 9), np.array([1e-9, 0.01, 0.4, 0.97])
    for one in (curve, curve.reversed(), curve.symmetric()):
        for asked, ask in ((eps, one.delta_bounds), (alpha, one.beta_bounds)):
            alone = np.array([ask(value) for value in asked]).T
            np.testing.assert_allclose(ask(asked), alone, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(one(alpha), [one(level) for level in alpha], rtol=1e-9)


def check_levels_at_little_noise():
    """These were off by up to 0.4: lines had been asked for levels far from where they lie."""
    alpha = np.array([0.1, 0.5, 0.6, 0.9, 0.98])
    for noise, steps in ((0.3, 20), (0.592, 132), (0.397, 19135), (1.3, 3)):
        for curve in (random_allocation(noise, steps), random_allocation(noise, steps).reversed()):
            low, high = curve.beta_bounds(alpha)
            assert np.all(high - low < 1e-8), (noise, steps)
            beta = curve(alpha)
            assert np.all((low - 1e-12 <= beta) & (beta <= high + 1e-12)), (noise, steps)


@pytest.mark.slow
def test_levels_at_little_noise():
    check_levels_at_little_noise()


@pytest.mark.slow
def test_levels_by_sampling():
    """Tests of the exact likelihood ratio, drawn under both hypotheses."""
    noise, steps, count = 0.592, 132, 200_000
    rng = np.random.default_rng(7)
    ratios = []
    for moved in (0.0, 1 / noise):
        z = rng.standard_normal((count, steps))
        z[:, 0] += moved
        ratios.append(np.exp(z / noise - 0.5 / noise**2).mean(1))
    null, alternative = (np.sort(ratio) for ratio in ratios)
    curve = random_allocation(noise, steps)
    for threshold in np.quantile(null, [0.1, 0.5, 0.9, 0.99]):
        alpha = 1 - np.searchsorted(null, threshold) / count
        beta = np.searchsorted(alternative, threshold) / count
        # of both shares, of which the first moves beta by the threshold
        off = 5 * np.sqrt((beta * (1 - beta) + threshold**2 * alpha * (1 - alpha)) / count)
        assert abs(curve(alpha) - beta) < off + 1e-5


def test_extremes():
    for curve in (random_allocation(0.03, 10**6), random_allocation(1e4, 2)):
        for one in (curve, curve.reversed()):
            low, high = one.beta_bounds(np.array([0.0, 1e-300, 0.5, 1 - 1e-16, 1.0]))
            assert np.all((low >= 0) & (low <= high) & (high <= 1))
            assert np.all(np.isfinite(one(np.array([1e-300, 0.5, 1 - 1e-16]))))
            low, high = one.delta_bounds(np.array([-np.inf, -900.0, 0.0, 900.0, np.inf]))
            assert np.all((low >= 0) & (low <= high) & (high <= 1))
    assert np.isnan(random_allocation(1.0, 10).delta(np.nan))
    assert np.isnan(random_allocation(1.0, 10)(np.nan))


@pytest.mark.parametrize("curve", [
    random_allocation(1.0, 10), random_allocation(1.0, 10, epochs=3).symmetric(),
    jaxpriv.worst_case.shuffled_gaussian(1.0, 10, 3),
], ids=["one epoch", "three", "shuffled"])  # fmt: skip
def test_nothing_asked_nothing_told(curve):
    none = np.zeros(0)
    for answer in (curve.delta(none), curve.epsilon(none), curve(none), *curve.delta_bounds(none),
                   *curve.epsilon_bounds(none), *curve.beta_bounds(none)):
        assert answer.shape == (0,)


def check_never_told():
    """No loss of Gaussian noise is infinite: f(0) is 1, and pairs on both sides leave 1e-14."""
    curve = random_allocation(1.0, 100, epochs=3)
    for one in (curve, curve.reversed(), curve.symmetric()):
        low, high = one.beta_bounds(0.0)
        assert 1 - 1e-12 < low <= high == 1


def test_composed_allocations_never_tell_all():
    check_never_told()


def check_between():
    """The lower end of the pair below, the upper one of the pair above, at all eps near one."""
    experiment = random_allocation(1.0, 50, epochs=4).experiment.aligned((), np.float64)
    center = np.asarray(0.7)
    ends = center + np.array([-1e-3, 0.0, 1e-3])
    lower, upper, _ = experiment.brackets_near(center, ends, False)
    least = experiment.lower.brackets_near(center, ends, False)
    most = experiment.upper.brackets_near(center, ends, False)
    assert np.all(lower == least[0])
    assert np.all(upper == most[1])
    assert np.all(lower < upper)
    # either pair alone is known better than what lies between them
    assert np.all(upper - lower > least[1] - least[0])


def test_between_two_pairs():
    check_between()


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    middle, places = lognormal_mean.middle, lognormal_mean._places

    def every_eighth(own):
        ends, found = places(own)
        return ends[::8], found[: 8 * len(ends[::8]) + 1 : 8]

    for where, attribute, wrong, check in (
        (lognormal_mean, "middle", lambda own, x: middle(own, x) + 1.0, check_lines_serve),
        (lognormal_mean, "_APART", 3.0, check_lines_serve),
        (lognormal_mean, "_places", every_eighth, check_lines_serve),
        (allocation, "secant_in_bracket", lambda f, low, high, *_, start, **__: start,
         check_levels_at_little_noise),
        (ManyOutcomes, "log_told", Experiment.log_told, check_never_told),
        (Between, "brackets_near", lambda self, *rest: self.lower.brackets_near(*rest),
         check_between),
    ):  # fmt: skip
        check_is_red(monkeypatch, where, attribute, wrong, check)
