"""Few steps, or ones that seldom tell anything, followed panel by panel, against integrals over the
noise, transforms and certified brackets.
"""

import functools

import numpy as np
import pytest
from scipy.stats import norm

import jaxpriv
from jaxpriv import relaxed
from jaxpriv import worst_case as W
from jaxpriv.composition import doubling, squaring
from jaxpriv.composition.by_laws import laws_of
from jaxpriv.composition.doubling import doubled_of
from tests.slips import check_is_red

EPSILONS = np.array([-0.15, -1e-3, 0.0, 1e-3, 0.02, 0.3, 1.0, 4.0])
LEVELS = np.array([1e-15, 1e-6, 0.01, 0.3, 0.7, 0.999, 1 - 1e-9])


def entry_of(curve):
    """The composition of a curve by its laws, with scalar parameters."""
    experiment = curve.experiment.aligned((), np.float64)
    laws = laws_of(experiment.terms) if hasattr(experiment, "terms") else experiment
    return next(laws.curves())[0]


def doubled(curve):
    return doubled_of(entry_of(curve))


@functools.cache
def nodes():
    """Gauss's rule on cells so narrow that no kink in one matters."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    edges = np.union1d(np.linspace(-14.0, 16.0, 60001), [0.0])
    half = 0.5 * np.diff(edges)[:, None]
    x = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes
    return x.ravel(), (half * weights).ravel()


def once(mu, rate, eps):
    """Both profiles of one sampled Gaussian step, of any eps."""
    ratio = (np.exp(eps) - 1 + rate) / rate
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(ratio > 0, np.log(np.maximum(ratio, 1e-300)) / mu + mu / 2, -np.inf)
    forward = rate * norm.sf(z - mu) + (1 - rate) * norm.sf(z) - np.exp(eps) * norm.sf(z)
    beta = rate * norm.cdf(z - mu) + (1 - rate) * norm.cdf(z)
    return forward, norm.cdf(z) - np.exp(-eps) * beta


def twice(mu, rate, eps, reverse):
    """The profile of two of them: an integral over the first one's noise."""
    z, weight = nodes()
    ratio = 1 - rate + rate * np.exp(mu * z - mu * mu / 2)
    density = norm.pdf(z) * weight
    if reverse:  # without the record; gamma is the profile at -eps
        rest = once(mu, rate, -eps - np.log(ratio))[1]
        return np.sum(density * rest)
    return np.sum(density * ratio * once(mu, rate, eps - np.log(ratio))[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("noise", "rate"), [(0.7, 0.1), (1.0, 0.5), (2.0, 0.01)])
def test_two_steps_against_integrals(noise, rate, reverse):
    curve = W.subsampled_gaussian(noise, rate, 2)
    found = doubled(curve.reversed() if reverse else curve)
    assert found.exchanged == reverse
    eps = np.append(EPSILONS[2:-1], -0.5 * np.log1p(-rate))
    if reverse:
        eps = eps[eps < -1.9 * np.log1p(-rate)]
    truth = [twice(1 / noise, rate, at, reverse) for at in eps]
    np.testing.assert_allclose(np.exp(found.contacts(eps)[:, 0]), truth, rtol=1e-9, atol=1e-13)


CURVES = {
    "three": W.subsampled_gaussian(0.8, 0.2, 3),
    "relaxed": relaxed.subsampled_gaussian(0.9, 0.3, 4, 1),
    "of many dimensions": relaxed.subsampled_gaussian(1.0, 0.2, 5, 40),
    "many": W.subsampled_gaussian(1.0, 0.05, 60),
    "users": W.user_level(2.0, 0.1, 7, 3),
    "different": jaxpriv.compose(W.subsampled_gaussian(0.9, 0.1, 3),
                                 W.subsampled_gaussian(1.5, 0.4, 2)),
}  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CURVES)
def test_transforms_say_the_same(name, reverse, monkeypatch):
    """Where these have all digits."""
    curve = CURVES[name].reversed() if reverse else CURVES[name]
    found, eps = doubled(curve), EPSILONS * (-1 if reverse else 1)
    eps = eps[np.abs(eps) < 0.9 * float(CURVES[name].experiment.loss_bound(True))]
    contacts = found.contacts(eps)
    monkeypatch.setattr("jaxpriv.composition.composed.followed", lambda *_: None)
    experiment = curve.experiment.aligned(eps.shape, np.float64)
    log_delta, point = experiment.contact(eps, False)
    transforms = np.stack([log_delta, point.log_alpha, point.log_power, point.log_beta], -1)
    np.testing.assert_allclose(contacts, transforms, rtol=1e-9, atol=3e-9)


@pytest.mark.parametrize("name", CURVES)
def test_between_certified_ends(name):
    curve = CURVES[name]
    for reverse in (False, True):
        own = curve.reversed() if reverse else curve
        eps = np.array([0.01, 0.2, 1.0, 3.0])
        eps = eps[eps < float(own.experiment.loss_bound(False))]
        lower, upper = own.log_delta_bounds(eps)
        value = doubled(own).contacts(eps)[:, 0]
        deep = upper < -150.0
        assert np.all(deep | (lower - 1e-9 <= value) & (value <= upper + 1e-9))
        assert np.sum(deep) <= 1


SELDOM = W.subsampled_gaussian(1.0, 1e-4, 1000), W.subsampled_gaussian(1.0, 1e-6, 50_000)


@pytest.mark.slow
@pytest.mark.parametrize("curve", SELDOM, ids=["1e-4", "1e-6"])
def test_seldom(curve):
    found = doubled(curve)
    eps = np.array([0.0, 1e-3, 0.3, 2.0])
    lower, upper = curve.log_delta_bounds(eps)
    value = found.contacts(eps)[:, 0]
    assert np.all((lower - 1e-9 <= value) & (value <= upper + 1e-9))
    np.testing.assert_allclose(curve.log_delta(eps), value, atol=1e-9)


def check_levels(curve):
    """Levels, slopes and the profile belong together, in both directions."""
    for own in (curve, curve.reversed()):
        found = doubled(own)
        slopes = found.slopes(LEVELS)
        assert np.all(np.diff(slopes) < 0)
        log_delta, log_alpha, log_power, log_beta = found.contacts(slopes).T
        np.testing.assert_allclose(np.exp(log_alpha), LEVELS, rtol=1e-8)
        np.testing.assert_allclose(np.exp(log_power) + np.exp(log_beta), 1.0, rtol=1e-12)
        profile = np.exp(log_power) - np.exp(slopes + log_alpha)
        np.testing.assert_allclose(np.exp(log_delta), profile, atol=1e-9)
        np.testing.assert_allclose(found.epsilons(log_delta), slopes, rtol=1e-8, atol=1e-11)
    one, other = doubled(curve), doubled(curve.reversed())
    eps = np.array([-0.02, 0.0, 0.01])
    ahead, back = (np.exp(side.contacts(at)[:, 0]) for side, at in ((one, eps), (other, -eps)))
    np.testing.assert_allclose(ahead, 1 - np.exp(eps) * (1 - back), rtol=1e-9)


@pytest.mark.parametrize("name", CURVES)
def test_levels(name):
    check_levels(CURVES[name])


def test_ends():
    """Below all losses everything is rejected; what lies too deep is left to others."""
    curve = W.subsampled_gaussian(1.0, 0.1, 2)
    low = -2 * np.log1p(-0.1)
    inside, outside = doubled(curve).contacts(np.array([-low - 0.1, 200.0]))
    np.testing.assert_allclose(inside, [np.log(-np.expm1(-low - 0.1)), 0.0, 0.0, -np.inf])
    assert np.isnan(outside).all()
    np.testing.assert_array_equal(doubled(curve.reversed()).contacts(np.array([low + 0.1]))[0],
                                  [-np.inf, -np.inf, -np.inf, 0.0])  # fmt: skip
    assert np.isnan(doubled(curve).epsilons(np.array([-1000.0]))).all()
    assert np.isnan(doubled(curve).slopes(np.array([1e-200]))).all()
    lower, upper = curve.log_delta_bounds(np.array([0.0, 200.0]))
    value = curve.log_delta(np.array([0.0, 200.0]))  # deeper than what is followed
    assert np.all((lower - 1e-6 <= value) & (value <= upper + 1e-6))


@pytest.mark.parametrize("curve", [
    jaxpriv.compose(W.laplace(1.0).subsample(0.1), W.laplace(1.0).subsample(0.1)),  # kinks
    jaxpriv.compose(W.subsampled_gaussian(1.0, 0.1, 2), W.gaussian(0.5)),  # losses without end
    W.subsampled_gaussian(1.0, 0.01, 1000),  # many
    jaxpriv.compose(W.subsampled_gaussian(1.0, 0.1, 2), W.randomized_response(1.0)),  # atoms
])  # fmt: skip
def test_not_for_others(curve):
    assert doubled(curve) is None


def check_one_or_many():
    """Many questions to few steps are answered by panels, one by transforms."""
    curve = relaxed.subsampled_gaussian(0.7, 0.1, 2, 3).symmetric()
    levels, eps = np.linspace(0.01, 0.99, 25), np.linspace(0.0, 2.0, 25)
    many, deltas = curve(levels), curve.log_delta(eps)
    for at in (3, 20):
        np.testing.assert_allclose(many[at], curve(levels[at]), rtol=1e-8)
        np.testing.assert_allclose(deltas[at], curve.log_delta(eps[at]), atol=1e-8)
    again = curve.epsilon(np.exp(deltas[1:]))
    np.testing.assert_allclose(again, eps[1:], rtol=1e-7)


def test_one_or_many():
    check_one_or_many()


def test_one_that_lies_too_deep():
    """Of a few loud steps the panels end before some levels do."""
    curve = W.subsampled_gaussian(0.05, 0.1, 10)
    for level in (1e-3, 1e-30):
        low, high = curve.beta_bounds(level)
        assert low * (1 - 1e-9) <= curve(level) <= high * (1 + 1e-9)
    low, high = curve.log_delta_bounds(1e4)
    assert low - 1e-6 <= curve.log_delta(1e4) <= high + 1e-6


def test_powers():
    """n of one thing, in any order that `together` may be asked in, and none where a part fails."""
    for count in (1, 2, 3, 7, 12, 64):
        assert squaring.power(1, count, lambda a, b: a + b) == count
    assert squaring.power(1, 9, lambda a, b: None if a + b > 4 else a + b) is None
    assert squaring.power(None, 3, lambda a, b: a) is None


SLIPS = {
    "slopes of panels": (doubling.Tails, "logs", lambda right: lambda self, panel, x: (
        right(self, panel, x)[0], 1.001 * right(self, panel, x)[1])),
    "what is told for sure": (doubling, "_integrals", lambda right: lambda one, two, x, above: (
        right(one, two, x, above) - (1e-4 if above else 0.0))),
    "weights of the rule": (doubling, "_WEIGHTS", lambda right: 1.0001 * right),
    "hypotheses exchanged": (doubling.Doubled, "_at", lambda right: lambda self, log_x: (
        *right(self, log_x)[:2], right(self, log_x)[2].exchanged())),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_slip_is_seen(slip, monkeypatch):
    where, attribute, wrong = SLIPS[slip]

    def check():
        check_levels(CURVES["three"])
        eps = EPSILONS[2:-1]
        truth = [twice(1 / 0.7, 0.1, at, False) for at in eps]
        curve = W.subsampled_gaussian(0.7, 0.1, 2)
        np.testing.assert_allclose(np.exp(doubled(curve).contacts(eps)[:, 0]), truth, rtol=1e-9)

    check_is_red(monkeypatch, where, attribute, wrong(getattr(where, attribute)), check)
