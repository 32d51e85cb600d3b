"""The best of a random number of tries: laws against SciPy's, bounds against exact laws of the best
result, pure privacy, and dp-accounting's Renyi divergences.
"""

import jax
import numpy as np
import pytest
import scipy.stats
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.special import ndtr

from jaxpriv import accounting, worst_case, worst_of
from jaxpriv.accounting import NegativeBinomialTries, PoissonTries, selection, tries
from jaxpriv.accounting import selection_epsilon as bound
from tests.slips import check_is_red

LAWS = [NegativeBinomialTries(10.0), NegativeBinomialTries(10.0, 0.0),
        NegativeBinomialTries(3.0, -0.5), NegativeBinomialTries(100.0, 3.0), PoissonTries(0.5),
        PoissonTries(80.0)]
K = np.arange(3000)


def masses(law):
    """P(K = k) by SciPy."""
    if isinstance(law, PoissonTries):
        return scipy.stats.poisson(law.mean).pmf(K)
    if law.eta == 0:
        return scipy.stats.logser(1 - law.gamma).pmf(K)
    if law.eta < 0:
        term = np.cumprod((1 - law.gamma) * (K[:-1] + law.eta) / (K[:-1] + 1)) / law.eta
        return np.append(0.0, term / np.sum(term))
    mass = scipy.stats.nbinom(law.eta, law.gamma).pmf(K)
    return np.where(K > 0, mass / (1 - mass[0]), 0.0)


def check_law(law):
    mass = masses(law)
    np.testing.assert_allclose(mass @ K, law.mean, rtol=1e-9)
    first = 0 if isinstance(law, PoissonTries) else 1
    hazards = np.concatenate([tries._thresholds(law, first + i * 256) for i in range(2)]) / 2.0**64
    of_k = hazards * np.append(1.0, np.cumprod(1 - hazards))[:-1]
    np.testing.assert_allclose(of_k, mass[first : first + 512], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_law(law):
    check_law(law)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_generating_function(law):
    """phi(1-t) and ratios of phi', from the masses."""
    mass = masses(law)
    for probability in (0.3, 1e-4):
        t = law.reach(probability)
        assert t == 1 or abs(mass @ (1 - t) ** K - probability) < 1e-9
    s, w = np.array([0.0, 0.1, 0.5]), np.array([0.01, 0.3, 0.51])
    slope = [np.sum((mass * K)[1:] * (1 - x[:, None]) ** K[:-1], 1) for x in (s, w)]
    np.testing.assert_allclose(law.log_ratio(s, w), np.log(slope[0] / slope[1]), rtol=1e-9)


def check_drawn():
    law = NegativeBinomialTries(3.0)
    found = np.array([law.draw(jax.random.key(i)) for i in range(400)])
    edges = [np.mean(found == k) for k in (1, 2, 3)]
    expected = masses(law)[1:4]
    assert np.all(np.abs(edges - expected) < 4.5 * np.sqrt(expected / 400))
    assert abs(np.mean(found) - 3) < 4.5 * np.sqrt(6 / 400)
    far = [NegativeBinomialTries(1000.0).draw(jax.random.key(i)) for i in range(50)]
    assert abs(np.mean(far) - 1000) < 4.5 * 1000 / np.sqrt(50)


def test_drawn():
    check_drawn()


def exact_delta(law, mu, epsilon, score):
    """delta of the best of K results N(0, 1) or N(mu, 1) by the score, by sums over a fine grid;
    the larger of both directions.
    """
    y = np.linspace(-12, 12 + mu, 40_001)
    laws = [np.diff(ndtr(y - shift)) for shift in (0.0, mu)]
    order = np.argsort(score(0.5 * (y[1:] + y[:-1]), mu))
    mass = masses(law)
    known = np.linspace(0, 1, 20_001)
    values = np.polynomial.polynomial.polyval(known, mass)
    best = []
    for one in laws:
        below = np.append(0.0, np.cumsum(one[order]))
        # of P(K = 0), nothing is told
        best.append(np.diff(np.interp(np.minimum(below, 1.0), known, values)))
    rows = [np.sum(np.maximum(a - np.exp(epsilon) * b, 0)) for a, b in (best, best[::-1])]
    return max(rows)


SCORES = {"more is better": lambda y, mu: y, "less is better": lambda y, mu: -y,
          "far is better": lambda y, mu: np.abs(y - mu / 2),
          "near is better": lambda y, mu: -np.abs(y - mu / 2)}


def check_above_exact(law, mu=1.0, delta=1e-3):
    """Above the exact delta for every score, and for the worst of them not by far."""
    epsilon = bound(worst_case.gaussian(mu), law, delta)
    deltas = [exact_delta(law, mu, epsilon, score) for score in SCORES.values()]
    assert max(deltas) <= delta
    # what the exact law of the best has at this delta
    fewer = [exact_delta(law, mu, 0.4 * epsilon, score) for score in SCORES.values()]
    assert max(fewer) > delta or law.mean > 50


@pytest.mark.parametrize("law", LAWS[:5], ids=str)
def test_above_exact(law):
    check_above_exact(law)


def check_pure(law, epsilon=0.7):
    """Results 0 and 1 by randomised response, 1 is better: the loss of the best is exact."""
    curve = worst_case.randomized_response(epsilon)
    found = bound(curve, law, 0.0)
    mass = masses(law)
    p = 1 / (1 + np.exp(-epsilon))
    none, other = (mass @ x**K - mass[0] for x in (p, 1 - p))  # no 1 among the tries
    every = 1 - mass[0]
    losses = [abs(np.log(none / other)), abs(np.log((every - none) / (every - other)))]
    assert max(losses) <= found
    if isinstance(law, NegativeBinomialTries):
        assert found <= (2 + law.eta) * epsilon + 1e-7


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_pure(law):
    check_pure(law)


def test_geometric_tries_of_nearly_pure_privacy_cost_three_times_epsilon():
    """Liu and Talwar 2019: at many tries the bound is attained."""
    found = bound(worst_case.randomized_response(0.1), NegativeBinomialTries(5000.0), 0.0)
    assert 0.25 < found < 0.3 + 1e-7


@pytest.mark.parametrize(("law", "shape"), [(LAWS[0], 1), (LAWS[1], 0), (LAWS[3], 3.0),
                                            (LAWS[5], np.inf)], ids=str)
@pytest.mark.parametrize("noise", [1.0, 8.0])
def test_below_renyi(law, shape, noise):
    """Papernot and Steinke 2022, as dp-accounting computes them, say more."""
    event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(noise), law.mean, shape)
    accountant = RdpAccountant(list(1 + np.geomspace(0.01, 500, 200))).compose(event)
    curve = worst_case.gaussian(1 / noise)
    found = bound(curve, law, 1e-6)
    assert curve.epsilon(1e-6 / law.mean) < found < accountant.get_epsilon(1e-6)


def test_properties():
    curve = worst_case.gaussian(0.5)
    found = [bound(curve, NegativeBinomialTries(mean), 1e-5) for mean in (1.0001, 3.0, 30.0)]
    assert curve.epsilon(1e-5) < found[0] < found[1] < found[2]
    assert found[0] < curve.epsilon(1e-5) + 1e-3
    assert bound(curve, LAWS[0], 1e-8) > bound(curve, LAWS[0], 1e-5)
    assert bound(curve, LAWS[0], 0.0) == np.inf
    assert bound(worst_case.gaussian(0.0), LAWS[0], 0.0) < 1e-7
    several = worst_of(curve, worst_case.laplace(0.1))
    assert bound(several, LAWS[0], 1e-5) >= bound(curve, LAWS[0], 1e-5)


@pytest.mark.parametrize(
    ("call", "match"),
    [(lambda: NegativeBinomialTries(1.0), "mean = 1"),
     (lambda: NegativeBinomialTries(np.nan), "mean = nan"),
     (lambda: NegativeBinomialTries(5.0, -1.0), "eta = -1"),
     (lambda: NegativeBinomialTries(5.0, -0.9), "gamma"),
     (lambda: PoissonTries(0.0), "mean = 0"),
     (lambda: PoissonTries(1e6), "mean = 1000000"),
     (lambda: LAWS[0].draw(jax.random.PRNGKey(0)), "key"),
     (lambda: bound(worst_case.gaussian(1.0), LAWS[0], 1.0), "delta = 1"),
     (lambda: bound(worst_case.gaussian(1.0), LAWS[0], np.nan), "delta = nan"),
     (lambda: bound(worst_case.gaussian(1.0), 10, 1e-5), "tries = 10"),
     (lambda: bound(worst_case.gaussian(np.ones(2)), LAWS[0], 1e-5), "several"),
     (lambda: jax.jit(lambda mu: bound(worst_case.gaussian(mu), LAWS[0], 1e-5))(1.0), "traced")],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_slips_are_seen(monkeypatch):
    law = LAWS[0]
    check_is_red(monkeypatch, selection, "_least_ratio", lambda *_: 0.0,
                 lambda: check_pure(law))
    check_is_red(monkeypatch, NegativeBinomialTries, "step",
                 lambda self, k: (1 - self.gamma + 0 * k, 1 - self.gamma),
                 lambda: check_law(LAWS[1]))
    check_is_red(monkeypatch, PoissonTries, "step", lambda self, k: (self.mean / (k + 2), 0.0),
                 lambda: check_law(LAWS[5]))
    check_is_red(monkeypatch, tries, "drawn", lambda key, law, first: round(law.mean), check_drawn)
    assert set(accounting.__all__) >= {"selection_epsilon", "NegativeBinomialTries", "PoissonTries"}
