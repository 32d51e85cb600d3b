"""Laws at unevenly spaced losses against integrals of 30 digits, enumerations, and transforms."""

import math

import mpmath
import numpy as np
import pytest

from jaxpriv import worst_case
from jaxpriv.composition import chain as chains
from jaxpriv.composition import uneven
from jaxpriv.composition.chain import Chain
from jaxpriv.composition.directed import Directed
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.uneven import Law, Sides, together
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.response import BlackBox
from jaxpriv.tradeoff.subsampled import Subsampled
from tests.slips import check_is_red


def step(noise, rate):
    return Subsampled(NormalShift(np.float64(1 / noise)), np.float64(rate))


def pair_of_steps(noise, rate, eps, reverse):
    """delta of two equal steps: one step's profile over the other's law."""
    with mpmath.workdps(30):
        mu, rate, eps = 1 / mpmath.mpf(noise), mpmath.mpf(rate), mpmath.mpf(eps)

        def profile(e):
            share = mpmath.expm1(e) / rate
            if share <= -1:
                return -mpmath.expm1(e)
            base = mpmath.log1p(share)
            tails = [mpmath.ncdf(-base / mu + sign * mu / 2) for sign in (1, -1)]
            return rate * (tails[0] - mpmath.exp(base) * tails[1])

        def integrand(z):
            loss = mpmath.log1p(rate * mpmath.expm1(mu * z - mu * mu / 2))
            if reverse:  # delta_r(e) = 1 - e^e (1 - delta(-e))
                rest = eps + loss
                return mpmath.npdf(z) * (1 - mpmath.exp(rest) * (1 - profile(-rest)))
            mass = (1 - rate) * mpmath.npdf(z) + rate * mpmath.npdf(z, mu)
            return mass * profile(eps - loss)

        # where the other step's loss is all of eps, its profile bends within a part of the rate
        ends = {mpmath.mpf(k) / 2 for k in range(-24, 46)}
        share = mpmath.expm1(-eps if reverse else eps) / rate
        if share > -1:
            bend = (mpmath.log1p(share) + mu * mu / 2) / mu
            ends |= {bend + sign * mpmath.mpf(2) ** -k for k in range(16) for sign in (-1, 1)}
        return mpmath.quad(integrand, sorted(ends))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "rate", "eps", "reverse"),
    [
        (1.0, 1e-6, 1e-3, False),
        (1.0, 1e-6, 1.2e-6, True),
        (0.7, 1e-4, 0.5, False),
        (2.0, 0.01, 0.01, False),
        (0.5, 0.02, 0.024, True),
    ],
)
def test_two_steps(noise, rate, eps, reverse):
    truth = pair_of_steps(noise, rate, eps, reverse)
    chain = Chain([(step(noise, rate), 2)], reverse)
    lower, upper, _ = chain.bracket(chains.law_at(chain, eps), np.asarray(eps))
    assert mpmath.exp(float(lower)) <= truth <= mpmath.exp(float(upper))
    assert upper - lower < 1e-4


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "eps"), [(3.0, 0.02, 200, 0.2), (1.0, 1e-6, 2**20, 1e-3)]
)
def test_many_steps_as_by_their_transforms(noise, rate, steps, eps):
    for reverse in (False, True):
        curve = worst_case.subsampled_gaussian(noise, rate, steps)
        low, high = (curve.reversed() if reverse else curve).log_delta_bounds(eps)
        assert high - low < 1e-7
        chain = Chain([(step(noise, rate), steps)], reverse)
        law = chain.composed(None, 200, 1e-300)
        law = chain.composed(uneven.aimed(law.upper, eps), 300, 1e-20)
        lower, upper, _ = chain.bracket(law, np.asarray(eps))
        assert lower <= low
        assert high <= upper
        assert upper - lower < 0.1


@pytest.mark.parametrize(
    ("epsilon", "told", "steps"), [(0.1, 0.0, 50), (1.0, 1e-3, 7), (3.0, 0.2, 3)]
)
def test_black_boxes(epsilon, told, steps):
    """Sums of losses are told apart, and nothing else is added to rounding."""
    chain = Chain([(BlackBox(np.float64(epsilon), np.float64(told)), steps)], False)
    law = chain.composed(None, 256, 1e-300)
    assert law.plain
    assert law.upper.loss.size == steps
    eps = np.linspace(-1.1, 0.97, 23) * epsilon * steps
    lower, upper, _ = chain.bracket(law, eps)
    heads = np.arange(steps + 1)
    each = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(steps, k) * each**k * (1 - each) ** (steps - k) for k in heads]
    loss = epsilon * (2 * heads - steps)
    gain = np.array([np.sum(mass * -np.expm1(np.minimum(e - loss, 0.0))) for e in eps])
    truth = -math.expm1(steps * math.log1p(-told)) + (1 - told) ** steps * gain
    assert np.all((np.exp(lower) <= truth * (1 + 1e-13)) & (truth <= np.exp(upper) * (1 + 1e-13)))
    assert np.all(np.exp(upper) - np.exp(lower) < 1e-10 * truth + 1e-299)


def test_moved_outcomes_bound_the_profile():
    """Whatever the points: above every profile of the pairs, and below it."""
    random = np.random.default_rng(5)

    def law(count):
        mass = random.dirichlet(np.ones(count))
        return Law(np.sort(random.normal(size=count)), mass, 0.0)

    def profile(law, eps):
        gain = -np.expm1(np.minimum(eps[:, None] - law.loss, 0.0))
        return law.endless + np.sum(law.mass * gain, -1)

    eps = np.linspace(-6.0, 6.0, 101)
    for size in (8, 30, 100):
        one, other = law(40), law(60)
        loss, mass = uneven._pairs(one, other, 0)
        truth = profile(Law(loss, mass, 0.0), eps)
        found = together(Sides(one, one, False), Sides(other, other, False), None, size, 1e-300)
        assert np.all(profile(found.upper, eps) >= truth)
        assert np.all(profile(found.lower, eps) <= truth)
        assert np.max(profile(found.upper, eps) - profile(found.lower, eps)) < 20.0 / size**2 + 1e-9


def test_all_is_told():
    """Nothing is left to compose."""
    box = BlackBox(np.float64(1.0), np.float64(1.0))
    for steps in ([(box, 3)], [(step(1.0, 1e-3), 2), (box, 2)]):
        chain = Chain(steps, False)
        lower, upper, _ = chain.bracket(chains.law_at(chain, 0.1), np.asarray(0.1))
        assert lower > -1e-9
        assert upper <= 0.0


def test_each_pair_of_a_law_and_itself_counts_for_both_orders():
    own = step(1.0, 0.1)
    law = uneven.one_step(own, False, uneven.tails(own, False), None, 64, 1e-12).upper
    once, both = (uneven.gathered(law, other, 1) for other in (law, uneven.Law(*law)))
    eps = np.linspace(-0.2, 2.0, 9)
    found = [np.sum(one.mass * -np.expm1(np.minimum(eps[:, None] - one.loss, 0.0)), -1)
             for one in (once, both)]
    np.testing.assert_allclose(*found, rtol=1e-12)
    np.testing.assert_allclose(np.sum(once.mass), np.sum(both.mass), rtol=1e-12)


@pytest.mark.slow
def test_rows_of_rare_steps_come_from_laws():
    """Of one for what lies close together, of others for what lies further off."""
    curve = worst_case.subsampled_gaussian(0.78, 0.001, 4).experiment
    wide, lattice = curve.aligned((), np.float64), next(curve.means()).aligned((), np.float64)
    assert isinstance(lattice, Gridded)
    eps = np.array([0.019, 0.02, 0.021, 0.3, 3.0])
    for reverse in (False, True):
        low, high, _ = lattice.brackets_near(np.asarray(0.02), eps, reverse)
        assert np.all((high - low < 1e-3) | (high < -690))
        for k, e in enumerate(eps):
            lower, upper, _ = wide.bracket(np.asarray(e), np.asarray(e), reverse)
            assert low[k] <= upper
            assert lower <= high[k]


@pytest.mark.slow
def test_few_steps_at_a_small_rate():
    """Where neither transforms nor an even lattice tell anything."""
    curve = worst_case.subsampled_gaussian(1.0, 1e-6, 10)
    low, high = curve.delta_bounds(1e-3)
    assert 9.519e-17 < low < high < 9.5194e-17
    assert high - low < 1e-5 * high
    low, high = curve.symmetric().epsilon_bounds(1e-12)
    assert high - low < 1e-5 * high
    assert curve.delta_bounds(high)[1] <= 1e-12 <= curve.delta_bounds(low)[1]


@pytest.mark.slow
def test_laws_are_asked_where_transforms_do_not_end(monkeypatch):
    """Without a search by transforms, of either direction and of both."""
    def search(*_):
        raise AssertionError("searched")

    monkeypatch.setattr(Directed, "epsilon_bracket", search)
    curve = worst_case.subsampled_gaussian(1.0, 1e-4, 3)
    low, high = curve.epsilon_bounds(1e-12)
    assert curve.delta_bounds(low)[1] >= 1e-12 >= curve.delta_bounds(high)[0]
    assert high - low < 1e-5 * high
    both = curve.symmetric().epsilon_bounds(1e-12)
    assert both[0] <= high
    assert low <= both[1]
    assert both[1] - both[0] < 1e-5 * both[1]


def check_below_the_advantage():
    """Epsilon is above 0 for every delta below the advantage, at both ends."""
    for rate in (0.3, 1e-6):
        curve = worst_case.subsampled_gaussian(1.0, rate, 2, adjacency="replace_one")
        for share in (0.99, 0.7):
            delta = share * curve.advantage_bounds()[0]
            low, high = curve.epsilon_bounds(delta)
            assert 0 < low <= curve.epsilon(delta) * (1 + 1e-6)
            assert curve.epsilon(delta) * (1 - 1e-6) <= high
            assert curve.delta_bounds(high)[1] <= delta * (1 + 1e-4)


@pytest.mark.slow
def test_epsilon_below_the_advantage():
    """The bound of the advantage counts how far apart what is exchanged is."""
    check_below_the_advantage()


@pytest.mark.slow
def test_slip_how_far_apart(monkeypatch):
    check_is_red(monkeypatch, ReplacedGaussianTransform, "apart", property(lambda self: self.mu),
                 check_below_the_advantage)


@pytest.mark.slow
def test_more_delta_than_the_advantage_asks_for_no_finer_law(monkeypatch):
    curve = worst_case.subsampled_gaussian(0.43, 1.1e-6, 16)
    advantage = curve.advantage()
    assert curve.epsilon_bounds(0.999 * advantage)[0] > 0

    def refuse(*_):
        raise AssertionError("for an epsilon of 0")

    monkeypatch.setattr(chains, "aimed_at", refuse)
    assert curve.epsilon_bounds(1.5 * advantage) == (0.0, 0.0)
    assert curve.symmetric().epsilon_bounds(1e-3) == (0.0, 0.0)
