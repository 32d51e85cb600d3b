"""Calibration: every kind of target, on the private side of the boundary and within 1e-9 of it."""

import importlib
import math

import jax
import numpy as np
import pytest

from jaxpriv import _stored as stored
from jaxpriv import calibrate, relaxed, worst_case
from jaxpriv.composition import by_laws, estimates
from tests.slips import check_is_red

CLOSE = 4e-9
MECHANISMS = {
    "gaussian, noise": (lambda std: worst_case.gaussian(1 / std), 1),
    "gaussian, signal": (lambda mu: worst_case.gaussian(mu), -1),
    "laplace, scale": (lambda scale: worst_case.laplace(1 / scale), 1),
    "relaxed laplace, scale": (lambda scale: relaxed.laplace(1 / scale), 1),
}
TARGETS = {
    "epsilon": {"epsilon": 0.7, "delta": 1e-3},
    "advantage": {"advantage": 0.2},
    "mu": {"mu": 0.6},
    "power": {"fpr": 0.05, "tpr": 0.21},
}


def meets(curve, target):
    """Does the curve's upper bound meet the target?"""
    curve = curve.symmetric()
    if "epsilon" in target:
        return float(curve.delta_bounds(target["epsilon"])[1]) <= target["delta"]
    if "advantage" in target:
        return float(curve.delta_bounds(0.0)[1]) <= target["advantage"]
    if "mu" in target:
        return float(curve.gdp_mu()) <= target["mu"]
    return float(curve.power(target["fpr"])) <= target["tpr"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_lands_on_the_private_side(mechanism, target):
    """The target holds at the answer, and slightly less private fails."""
    make, sign = MECHANISMS[mechanism]
    answer = calibrate(make, **TARGETS[target])
    assert isinstance(answer, float)
    assert meets(make(answer), TARGETS[target])
    assert not meets(make(answer * (1 - sign * CLOSE)), TARGETS[target])


def test_closed_forms():
    """Where the boundary is known."""
    assert abs(calibrate(lambda s: worst_case.gaussian(1 / s), mu=0.25) - 4) < 4 * CLOSE
    assert abs(calibrate(worst_case.laplace, advantage=1 - math.exp(-0.5)) - 1) < CLOSE
    assert abs(calibrate(lambda b: worst_case.laplace(2 / b), epsilon=0.5, delta=1e-300) - 4) < 1e-7
    assert (
        abs(calibrate(lambda s: worst_case.gaussian(1 / s), epsilon=1.0, delta=1e-5) - 3.730632)
        < 1e-6
    )


def check_no_law_is_asked():
    """The search begins at noise 3, where delta is e^-200: no digits of that are needed."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_laws, "laws_of", lambda terms: asked.append(terms))
        found = calibrate(lambda noise: relaxed.subsampled_gaussian(noise, 0.01, 1000, 3),
                          epsilon=0.5, delta=1e-5, bracket=(0.3, 30.0))
    assert abs(found - 0.99494878) < 1e-7
    assert not asked


def test_no_law_is_asked_far_below_a_target():
    check_no_law_is_asked()


def test_slip_is_seen_in_how_far(monkeypatch):
    module = importlib.import_module("jaxpriv.accounting.calibrate")
    check_is_red(monkeypatch, module, "_FAR_BELOW", math.inf, check_no_law_is_asked)


def test_relaxed_needs_less_noise():
    """The relaxed Gaussian adversary at dim 30, and the bound that it promises."""
    bracket = (0.2, 5.0)
    weak = calibrate(
        lambda s: relaxed.gaussian(1 / s, 30.0), epsilon=1.0, delta=1e-3, bracket=bracket
    )
    full = calibrate(lambda s: worst_case.gaussian(1 / s), epsilon=1.0, delta=1e-3, bracket=bracket)
    assert weak < 0.7 * full
    assert float(relaxed.gaussian(1 / weak, 30.0).symmetric().delta_bounds(1.0)[1]) <= 1e-3
    assert float(relaxed.gaussian(1 / weak / (1 - CLOSE), 30.0).symmetric().delta(1.0)) > 1e-3


def test_sampling_rate():
    """Towards small rates it is more private; both directions of the sub-sampled curve count."""
    rate = calibrate(lambda p: worst_case.gaussian(2.0).subsample(p), epsilon=0.3, delta=0.05,
                     bracket=(1e-3, 1.0))
    curve = worst_case.gaussian(2.0).subsample(rate)
    larger = worst_case.gaussian(2.0).subsample(rate * (1 + CLOSE))
    assert max(float(curve.delta(0.3)), float(curve.reversed().delta(0.3))) <= 0.05
    assert max(float(larger.delta(0.3)), float(larger.reversed().delta(0.3))) > 0.05


def test_batch_of_curves():
    """A maker of several curves: all of them have to meet the target."""
    answer = calibrate(lambda s: worst_case.gaussian(np.array([1.0, 2.0]) / s), mu=0.5)
    assert abs(answer - 4) < 4 * CLOSE


def test_without_x64():
    """The accountant's precision does not depend on the user's mode."""
    want = calibrate(lambda s: worst_case.gaussian(1 / s), epsilon=1.0, delta=1e-5)
    with jax.enable_x64(False):
        assert calibrate(lambda s: worst_case.gaussian(1 / s), epsilon=1.0, delta=1e-5) == want


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({}, "exactly one"),
        ({"epsilon": 1.0}, "incomplete"),
        ({"delta": 1e-5}, "incomplete"),
        ({"fpr": 0.1}, "incomplete"),
        ({"mu": 1.0, "advantage": 0.1}, "exactly one"),
        ({"epsilon": 1.0, "delta": 1e-5, "mu": 1.0}, "exactly one"),
        ({"epsilon": -1.0, "delta": 1e-5}, "epsilon"),
        ({"epsilon": math.inf, "delta": 1e-5}, "epsilon"),
        ({"epsilon": math.nan, "delta": 1e-5}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1.5}, "delta"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta"),
        ({"advantage": 1.2}, "advantage"),
        ({"advantage": "much"}, "advantage"),
        ({"mu": -0.1}, "mu"),
        ({"mu": math.nan}, "mu"),
        ({"fpr": -0.1, "tpr": 0.5}, "fpr"),
        ({"fpr": 0.1, "tpr": 1.5}, "tpr"),
    ],
)
def test_bad_targets(target, words):
    with pytest.raises(ValueError, match=words):
        calibrate(worst_case.gaussian, **target)


@pytest.mark.parametrize(
    "bracket",
    [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (1.0, math.inf), (1.0, 1.0), (math.nan, 1.0),
     5, (1, 2, 3), ("a", 1)],
)
def test_bad_brackets(bracket):
    with pytest.raises(ValueError, match="bracket"):
        calibrate(worst_case.gaussian, mu=1.0, bracket=bracket)


def test_a_power_of_1_is_met_by_all():
    with pytest.raises(ValueError, match="holds at both"):
        calibrate(worst_case.gaussian, fpr=0.5, tpr=1.0, bracket=(0.1, 30.0))


def test_answer_outside_the_bracket():
    with pytest.raises(ValueError, match="holds at both"):
        calibrate(worst_case.gaussian, mu=1.0, bracket=(0.1, 0.5))
    with pytest.raises(ValueError, match="fails at both"):
        calibrate(worst_case.gaussian, mu=1.0, bracket=(2.0, 5.0))
    with pytest.raises(ValueError, match="fails at both"):
        calibrate(worst_case.gaussian, fpr=0.1, tpr=0.05)


def test_nan_curve_is_never_private():
    """A maker that returns NaN must not pass as private."""
    with pytest.raises(ValueError, match="fails at both"):
        calibrate(lambda s: worst_case.gaussian(s * math.nan), mu=1.0)


def test_whole_numbers():
    """The most steps, and the least; the next one fails."""

    def make(n):
        return worst_case.gaussian(0.1).compose(n)

    steps = calibrate(make, epsilon=1.0, delta=1e-5, integer=True, bracket=(1, 1000))
    assert isinstance(steps, int)
    assert meets(make(steps), {"epsilon": 1.0, "delta": 1e-5})
    assert not meets(make(steps + 1), {"epsilon": 1.0, "delta": 1e-5})
    noise = calibrate(lambda n: worst_case.gaussian(1 / n), mu=0.3, integer=True, bracket=(1, 100))
    assert noise == 4


@pytest.mark.slow
def test_derivative_in_the_target():
    """mu-GDP at noise 1/mu: d noise/d mu = -1/mu^2; of epsilon and delta against differences."""
    slope = jax.grad(lambda mu: calibrate(lambda s: worst_case.gaussian(1 / s), mu=mu))(0.25)
    np.testing.assert_allclose(slope, -16.0, rtol=1e-8)

    def noise(epsilon, delta):
        return calibrate(lambda s: worst_case.gaussian(1 / s), epsilon=epsilon, delta=delta)

    by_epsilon, by_delta = jax.grad(noise, (0, 1))(1.0, 1e-5)
    np.testing.assert_allclose(
        by_epsilon, (noise(1.001, 1e-5) - noise(0.999, 1e-5)) / 0.002, rtol=1e-5
    )
    np.testing.assert_allclose(
        by_delta, (noise(1.0, 1.001e-5) - noise(1.0, 0.999e-5)) / 2e-8, rtol=1e-5
    )


def test_tight_where_the_estimate_says_nothing():
    """NaN between the ends: the bound alone decides, and is followed to 1e-9."""

    class Silent:
        def __init__(self, curve):
            self.curve = curve

        def symmetric(self):
            return self

        def log_delta(self, epsilon):
            return np.nan

        def delta_bounds(self, epsilon):
            return self.curve.delta_bounds(epsilon)

    answer = calibrate(lambda s: Silent(worst_case.gaussian(1 / s)), epsilon=1.0, delta=1e-5)
    np.testing.assert_allclose(answer, 3.7306317, rtol=1e-6)
    assert meets(worst_case.gaussian(1 / answer), {"epsilon": 1.0, "delta": 1e-5})
    assert not meets(
        worst_case.gaussian(1 / (answer * (1 - CLOSE))), {"epsilon": 1.0, "delta": 1e-5}
    )


def counted(make):
    """The same, which remembers what it was asked for."""

    def made(parameter):
        made.asked.append(parameter)
        return make(parameter)

    made.asked = []
    return made


def test_next_to_the_largest_loss():
    """Where log delta falls without end, secants alone go round and round."""
    make = counted(lambda scale: worst_case.laplace(1 / scale).compose(10))
    answer = calibrate(make, epsilon=3.0, delta=1e-5)
    assert len(make.asked) < 60
    assert make(answer).delta_bounds(3.0)[1] <= 1e-5 < make(answer * (1 - 1e-7)).delta(3.0)


def test_no_root_lies_outside_the_bracket():
    """Not by a secant's last step either: beyond it there may be no rate."""
    crossing = importlib.import_module("jaxpriv.accounting.calibrate")._crossing
    found = crossing(lambda t: t - 5e-8, -1.0, -0.5, (-1.0, 0.0), lambda *_: False)
    assert found.at == 0.0


def test_leaps():
    """One step more, and what could not be lost at all may be: next to that no root is sought."""
    make = counted(lambda n: worst_case.laplace(0.5).compose(n))
    answer = calibrate(make, epsilon=1.75, delta=0.01, integer=True, bracket=(1, 100))
    assert answer == 3
    assert len(make.asked) < 50
    assert make(3).delta_bounds(1.75)[1] <= 0.01 < make(4).delta_bounds(1.75)[0]


@pytest.mark.parametrize("points", [1 << 10, 1 << 13])
def test_small_lattices_only_say_where_to_look(points, monkeypatch):
    def make(scale):
        return worst_case.laplace(1 / scale).compose(4)

    want = calibrate(make, epsilon=1.0, delta=0.01)
    monkeypatch.setattr(estimates, "_SMALL", points)
    stored.forget()
    np.testing.assert_allclose(calibrate(make, epsilon=1.0, delta=0.01), want, rtol=1e-7)


def test_batch_of_targets():
    """The strictest of several targets decides."""
    both = calibrate(
        lambda s: worst_case.gaussian(1 / s), epsilon=1.0, delta=np.array([1e-5, 1e-6])
    )
    alone = calibrate(lambda s: worst_case.gaussian(1 / s), epsilon=1.0, delta=1e-6)
    assert both == pytest.approx(alone, rel=1e-8)
