"""Sub-sampled steps in which large losses are seldom: which part of the line is summed over, and
what is known then.
"""

import math

import jax
import mpmath
import numpy as np
import pytest

from jaxpriv import worst_case
from jaxpriv.composition import decisive
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from tests.slips import check_is_red

# (mu, rate, power)
POWERS = [(0.1, 1.4e-5, 723.0), (0.55, 1e-4, 61.0), (0.55, 1e-4, 57.0), (1 / 45.6, 6.6e-6, 34964.0),
          (0.2, 0.3, 200.0), (1.0, 0.01, 12.0), (3.0, 1e-12, 2.5), (1e-3, 1e-9, 1e6), (0.5, 0.9, 9)]


def left_out(mu, rate, power, end):
    """The share of E[(1+u)^s] beyond `end`, and E[|u|] there, by quadrature of 30 digits."""
    with mpmath.workdps(30):
        mu, rate = mpmath.mpf(mu), mpmath.mpf(rate)

        def integrand(z):
            ratio = 1 - rate + rate * mpmath.exp(mu * z - mu * mu / 2)
            return ratio ** mpmath.mpf(power) * mpmath.npdf(z)

        def u(z):
            return rate * mpmath.expm1(mu * z - mu * mu / 2) * mpmath.npdf(z)

        far = float(power * mu) + 40
        places = [*np.arange(-40, far, 4.0), far]
        whole = mpmath.quad(integrand, places)
        beyond = [end, *(place for place in places if place > end)]
        beyond = beyond if len(beyond) > 1 else [end, end + 10]
        return float(mpmath.quad(integrand, beyond) / whole), float(mpmath.quad(u, beyond))


def check_ends():
    for mu, rate, power in POWERS:
        transform = SubsampledGaussianTransform(np.array(mu), np.array(rate), np.zeros((), bool))
        end = float(transform.ends(np.array(power))[1])
        assert max(map(abs, left_out(mu, rate, power, end))) < 2e-20, (mu, rate, power)


def check_short():
    """A bump that counts nothing is left out."""
    for mu, rate, power in (POWERS[0], POWERS[3]):
        transform = SubsampledGaussianTransform(np.array(mu), np.array(rate), np.zeros((), bool))
        low, high = transform.ends(np.array(power))
        assert -10 < low < 0 < high < 25


@pytest.mark.slow
def test_ends():
    check_ends()


def test_short():
    check_short()


SLIPS = {"far bumps are forgotten": (lambda self, s: 13.5 + 0 * s, check_ends),
         "none is ever left out": (lambda self, s: math.inf + 0 * s, check_short)}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    wrong, check = SLIPS[name]
    check_is_red(monkeypatch, SubsampledGaussianTransform, "_enough", wrong, check)


# noise multiplier, sampling rate, steps, delta: most were 1e-3 of epsilon wide or more, some had no
# bounds at all
SELDOM = [
    (10.0, 1.4e-5, 875391, 1e-8), (45.6, 6.6e-6, 4461116, 9e-7), (40.1, 3.7e-5, 1621996, 2e-8),
    (11.8, 2.16e-6, 689300, 1.4e-7), (4.43, 2.47e-6, 46331, 1.2e-11), (39.0, 1.3e-3, 1636, 4e-9),
]


@pytest.mark.parametrize("setting", SELDOM)
def test_narrow(setting):
    *training, delta = setting
    curve = worst_case.subsampled_gaussian(*training)
    low, high = curve.epsilon_bounds(delta)
    assert low <= high <= low * (1 + 1e-6) + 5e-9
    lower, upper = curve.delta_bounds(0.5 * (low + high))
    assert lower <= delta * (1 + 1e-4)
    assert delta * (1 - 1e-4) <= upper
    # the other direction tells no more, and hardly less
    assert 0.9 * high < curve.reversed().epsilon_bounds(delta)[1] <= high * (1 + 1e-9)


# noise, rate, steps, eps: a single step decides, and the others' losses are no small part
DECIDED = [(1.8177, 0.0015393, 7298.0, 1.507), (1.9528, 0.0013568, 7384.0, 4.3737),
           (1.999, 0.0017467, 660.0, 0.70373), (1.47394, 2.75938e-5, 6861.0, 1.08331),
           (3.56957, 0.000606661, 31.0, 0.766003)]  # fmt: skip


@jax.jit
def inside(noise, rate, steps, eps):
    return worst_case.subsampled_gaussian(noise, rate, steps).log_delta(eps)


def check_decided():
    """Frequencies do not end there in a program; without the others they said e^-99.4, not e^-95.9,
    of the first.
    """
    for noise, rate, steps, eps in DECIDED:
        low, high = worst_case.subsampled_gaussian(noise, rate, steps).log_delta_bounds(eps)
        assert low - 0.04 < inside(noise, rate, steps, eps) < high + 0.04


@pytest.mark.slow
def test_decided(monkeypatch):
    check_decided()
    true = decisive.of_others

    def nothing(*args):
        return [0 * part for part in true(*args)]

    def check_anew():
        jax.clear_caches()
        check_decided()

    check_is_red(monkeypatch, decisive, "of_others", nothing, check_anew)
    jax.clear_caches()


# the same where many small losses decide, though K leaps before their saddle
UNDECIDED = [(3.41805, 0.00102315, 934.0, 0.109456), (4.88355, 0.00140748, 1080.0, 0.163316),
             (12.3916, 4.70087e-5, 325.0, 0.00180994)]  # fmt: skip


def check_undecided():
    """The first was e^-136, and is e^-71.6; the first epsilon was 0."""
    for noise, rate, steps, eps in UNDECIDED:
        low, high = worst_case.subsampled_gaussian(noise, rate, steps).log_delta_bounds(eps)
        assert low - 0.02 < inside(noise, rate, steps, eps) < high + 0.02
    for noise, steps, delta in [(10.0, 100, 4e-11), (10.0, 16, 1e-16), (3.0, 100, 1e-10)]:
        truth = worst_case.subsampled_gaussian(noise, 1e-4, steps).epsilon(delta)
        found = jax.jit(lambda *p, d=delta: worst_case.subsampled_gaussian(*p).epsilon(d))
        assert found(noise, 1e-4, float(steps)) == pytest.approx(truth, rel=5e-3)


@pytest.mark.slow
def test_undecided(monkeypatch):
    check_undecided()

    def check_anew():
        jax.clear_caches()
        check_undecided()

    check_is_red(monkeypatch, decisive, "_ENOUGH", np.inf, check_anew)
    jax.clear_caches()


@pytest.mark.slow
def test_one_step_is_as_it_is():
    """There are no others then, though its frequencies do not end."""
    for noise, rate, eps in [(1.0, 0.5, 700.0), (30.0, 1e-8, 0.0), (1.0, 0.01, 30.0)]:
        low, high = worst_case.subsampled_gaussian(noise, rate, 1).log_delta_bounds(eps)
        assert inside(noise, rate, 1.0, eps) == pytest.approx(0.5 * (low + high), rel=1e-9)


@pytest.mark.slow
def test_derivatives_where_a_step_decides():
    """The tilt is not moved with the parameters, nor the slope: a few percent."""
    for setting in DECIDED:
        value, slopes = jax.value_and_grad(inside, (0, 1, 3))(*setting)
        assert value == pytest.approx(float(inside(*setting)), rel=1e-12)
        for i, slope in zip((0, 1, 3), slopes):
            step = 1e-4 * setting[i]
            up, down = (
                inside(*(x + side * step * (i == k) for k, x in enumerate(setting)))
                for side in (1, -1)
            )
            assert slope == pytest.approx(float((up - down) / (2 * step)), rel=0.04)
