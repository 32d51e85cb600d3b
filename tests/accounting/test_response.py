"""Reports that are given together: against binomial and trinomial laws of many digits, and against
the lattices that compose whatever there is.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

import jaxpriv
from jaxpriv import Curve, worst_case
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.pieces import behind
from jaxpriv.composition.tables import Step
from jaxpriv.tradeoff import response
from jaxpriv.tradeoff.response import BlackBox
from tests.slips import check_is_red


@functools.cache
def law_of_many(one, steps):
    """{multiple of the loss: probability under the alternative} by convolution, in 40 digits."""
    law = {0: mpf(1)}
    for _ in range(steps):
        after: dict = {}
        for total, mass in law.items():
            for loss, share in one:
                after[total + loss] = after.get(total + loss, 0) + mass * share
        law = after
    return law


def log_delta(one, loss, steps, told, eps):
    with mp.workdps(40):
        loss, told, eps = mpf(float(loss)), mpf(float(told)), mpf(float(eps))
        kept = (1 - told) ** steps
        law = law_of_many(tuple(one.items()), steps)
        total = 1 - kept + kept * sum(
            mass * -mp.expm1(eps - k * loss) for k, mass in law.items() if k * loss > eps)
        return float(mp.log(total)) if total > 0 else -math.inf


def of_two(loss):
    with mp.workdps(40):
        p = 1 / (1 + mp.exp(-mpf(loss)))
        return {1: p, -1: 1 - p}


def of_three(loss, categories):
    with mp.workdps(40):
        own = 1 / (1 + (categories - 1) * mp.exp(-mpf(loss)))
        other = own * mp.exp(-mpf(loss))
        return {1: own, -1: other, 0: 1 - own - other}


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "told", "steps"), [
    (1.0, 0.0, 3), (0.1, 1e-6, 10), (0.3, 1e-9, 1000), (3.0, 0.01, 100), (0.01, 0.0, 999),
    (40.0, 1e-12, 7), (1e-6, 0.0, 50),
])  # fmt: skip
def test_black_boxes_together(loss, told, steps):
    curve = worst_case.approximate_dp(loss, told).compose(steps)
    assert isinstance(curve.experiment, BlackBox)
    one, scale = of_two(loss), loss * math.sqrt(steps)
    for eps in (-0.3 * scale, 0.0, 0.35 * scale, 2.1 * scale, 0.97 * steps * loss):
        truth = log_delta(one, loss, steps, told, eps)
        found, (low, high) = curve.log_delta(eps), curve.log_delta_bounds(eps)
        assert low <= truth <= high
        if math.isfinite(truth):
            assert abs(found - truth) <= 2e-13 * (1 + abs(truth)) + 1e-12 * steps * loss
            assert high - low < 1e-10 * (1 + abs(truth))


@pytest.mark.parametrize(("loss", "categories", "steps"), [
    (1.0, 10, 7), (3.0, 3, 100), (0.2, 1000, 60), (2.0, 2, 5),
])  # fmt: skip
def test_silent_reports_together(loss, categories, steps):
    curve = worst_case.k_ary_randomized_response(loss, categories).compose(steps)
    one = of_three(loss, categories)
    for eps in (0.0, 1.37 * loss, 0.83 * steps * loss):
        truth = log_delta(one, loss, steps, 0.0, eps)
        assert abs(curve.log_delta(eps) - truth) <= 3e-13 * (1 + abs(truth))
        low, high = curve.log_delta_bounds(eps)
        assert low <= truth <= high


def test_batches():
    loss, eps = np.array([[0.1], [2.0]]), np.array([0.0, 0.4, 1.1])
    for make in (worst_case.randomized_response,
                 lambda x: worst_case.k_ary_randomized_response(x, 6)):
        found = make(loss).compose(4).log_delta(eps)
        assert found.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            assert found[i, j] == make(loss[i, 0]).compose(4).log_delta(eps[j])


@pytest.mark.parametrize("hashes", [2, 5])
def test_bits_of_rappor(hashes):
    """Of two bits for each hash, each a response with half the loss."""
    curve, half = worst_case.rappor(0.4, hashes), math.log(1.6 / 0.4)
    bits = worst_case.randomized_response(half).compose(2 * hashes)
    for eps in (0.0, half, 2.7 * half):
        assert np.isclose(curve.log_delta(eps), bits.log_delta(eps), rtol=1e-13)
    assert np.isclose(curve(0.01), bits(0.01), rtol=1e-12)


def test_errors_are_those_of_the_polygon():
    """A lattice's estimate was a fifth of the truth at 0.999; its upper end was 0.9 at 0.1."""
    curve = worst_case.approximate_dp(0.77149224, 4.36987723e-9).compose(10)
    alpha = np.array([1e-10, 1e-5, 0.01, 0.1, 0.3, 0.9, 0.999])
    low, high = curve.beta_bounds(alpha)
    beta = curve(alpha)
    assert (low <= beta * (1 + 1e-10)).all()
    assert (beta <= high * (1 + 1e-10)).all()
    assert (high - low < 1e-10 * high).all()
    # f is the largest of its tangents
    eps = np.linspace(-8, 8, 4001)
    tangents = 1 - curve.delta(eps)[:, None] - np.exp(eps)[:, None] * alpha
    assert np.allclose(np.max(tangents, 0), beta, rtol=2e-3)
    assert (np.max(tangents, 0) <= beta * (1 + 1e-10)).all()


def test_a_lattice_agrees():
    for curve, steps in ((worst_case.approximate_dp(0.3, 1e-6), 12),
                         (worst_case.k_ary_randomized_response(1.0, 5), 6)):
        step = Step(behind(curve.experiment), np.full(1, float(steps)))
        lattice, together = Curve(Gridded((step,), np.zeros((), bool))), curve.compose(steps)
        for eps in (0.0, 0.7, -0.4):
            low, high = lattice.log_delta_bounds(eps)
            assert low <= together.log_delta(eps) <= high


@pytest.mark.slow
def test_more_and_other_steps():
    curve = worst_case.randomized_response(0.2)
    twice = curve.compose(3).compose(4)
    assert twice.log_delta(0.5) == curve.compose(12).log_delta(0.5)
    assert jaxpriv.compose(curve, curve.compose(2)).delta(0.5) == curve.compose(3).delta(0.5)
    both = jaxpriv.compose(curve.symmetric(), curve.symmetric())
    assert both.delta(0.3) == curve.compose(2).delta(0.3)
    other = jaxpriv.compose(curve, worst_case.randomized_response(0.3))
    assert other.delta(0.4) > curve.compose(2).delta(0.4)
    low, high = curve.compose(1001).epsilon_bounds(1e-3)  # by a lattice
    assert low < curve.compose(1000).epsilon(1e-3) * 1.001 < high * 1.002
    assert curve.compose(2.5).delta_bounds(0.3)[0] <= curve.compose(3).delta(0.3)
    mixed = jaxpriv.compose(curve.compose(3), worst_case.gaussian(1.0))
    apart = jaxpriv.compose(curve, curve, curve, worst_case.gaussian(1.0))
    low, high = apart.log_delta_bounds(1.0)
    assert low - 1e-8 <= mixed.log_delta(1.0) <= high + 1e-8  # what a lattice estimates
    several = worst_case.randomized_response(np.array([0.1, 0.2])).compose(3)
    rows = jaxpriv.compose(several, axis=-1)
    low, high = rows.log_delta_bounds(0.5)
    one = jaxpriv.compose(*(worst_case.randomized_response(e).compose(3) for e in (0.1, 0.2)))
    assert low <= one.log_delta(0.5) <= high


@pytest.mark.slow
def test_executors_and_gradients():
    def of(loss, told, eps):
        return worst_case.approximate_dp(loss, told).compose(20).log_delta(eps)

    at = 0.3, 1e-5, 0.8
    assert np.isclose(jax.jit(of)(*map(jnp.asarray, at)), of(*at), rtol=1e-13)
    slopes = jax.grad(of, (0, 1, 2))(*map(jnp.asarray, at))
    for k, step in enumerate((1e-6, 1e-9, 1e-6)):
        more, less = ([x + sign * step * (j == k) for j, x in enumerate(at)] for sign in (1, -1))
        assert np.isclose(slopes[k], (of(*more) - of(*less)) / (2 * step), rtol=1e-5)

    def of_three_(loss, alpha):
        return worst_case.k_ary_randomized_response(loss, 7).compose(9).power(alpha)

    at_ = 0.4, 0.03
    assert np.isclose(jax.jit(of_three_)(*map(jnp.asarray, at_)), of_three_(*at_), rtol=1e-13)
    slope = jax.grad(of_three_)(*map(jnp.asarray, at_))
    rise = (of_three_(0.4 + 1e-6, 0.03) - of_three_(0.4 - 1e-6, 0.03)) / 2e-6
    assert np.isclose(slope, rise, rtol=1e-6)


def test_extremes_hold():
    nothing = worst_case.approximate_dp(0.0, 0.0).compose(9)
    assert nothing.delta(0.0) == 0.0
    everything = worst_case.approximate_dp(1.0, 1.0).compose(9)
    low, high = everything.delta_bounds(50.0)
    assert low > 1 - 1e-12
    assert high == 1.0
    steep = worst_case.randomized_response(1e5).compose(3)
    assert steep.epsilon(0.0) == 3e5
    low, high = worst_case.randomized_response(0.1).compose(3).epsilon_bounds(0.0)
    assert low <= 3 * 0.1 <= high
    assert worst_case.approximate_dp(0.1, 1e-6).compose(10).epsilon(1e-6) == math.inf
    assert np.isnan(worst_case.randomized_response(np.array([np.nan, 1.0])).compose(3)(0.1)[0])


SLIPS = [
    (response, "_deviance", lambda k, n, log_p: k * 0.0, lambda: test_black_boxes_together(
        1.0, 0.0, 3)),
    (response, "at_mean", lambda a, b: 0.5 * np.log(a * b / (2 * np.pi * (a + b))),
     lambda: test_black_boxes_together(1.0, 0.0, 3)),
    (BlackBox, "log_kept", lambda self, dtype: -self.told, lambda: test_black_boxes_together(
        3.0, 0.01, 100)),
    (BlackBox, "once", lambda self: self, test_more_and_other_steps),
]  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip[1])
def test_slip_is_seen(slip, monkeypatch):
    check_is_red(monkeypatch, *slip)
