"""The relaxed adversary's sub-sampled steps by their transform, against mpmath,
closed forms and the lattice.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jaxpriv import compose, relaxed, worst_case
from jaxpriv.composition.composed import Composed
from jaxpriv.composition.line import Term
from jaxpriv.composition.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.curve import Curve
from jaxpriv.stats._complex_contour import complex_log_likelihood_ratio

# noise multiplier, rate, steps, dim, epsilon
SETTINGS = [(1.0, 0.01, 1000, 1, 0.3), (1.0, 0.01, 1000, 3, 0.1), (0.7, 0.05, 60, 2, 0.5),
            (2.0, 0.1, 300, 5, 0.2), (1.0, 0.5, 20, 10, 0.3), (0.5, 0.02, 200, 1.5, 1.0),
            (1.0, 1.0, 10, 4, 1.0), (7.0711, 0.01, 200, 1, 0.004)]


def composed(noise, rate, steps, dim, reverse=False):
    """By the transform, also where a closed form is taken for a single step."""
    leaves = (np.array([value]) for value in (float(dim), noise**-2.0, rate))
    transform = SubsampledChiSquareTransform(*leaves, np.array([reverse]))
    return Curve(Composed((Term(transform, np.array([float(steps)])),)))


@pytest.mark.parametrize("df", [1.0, 1 + 1e-15, 2.0, 3.5, 10.0, 1000.0, 1e6])
def test_likelihood_ratio_at_complex_arguments(df):
    """log(e^(-nc/2) 0F1(; df/2; nc x/4)) along the paths of integrals; a closed form for 1."""
    for nc in (1e-8, 1e-2, 1.0, 30.0):
        for height in (0.0, 0.3, 0.65):
            for place in (0.2, 1.0, np.sqrt(df), np.sqrt(df) + 4):
                x = complex(place, height * min(np.pi / np.sqrt(nc), 1.0)) ** 2
                ratio = complex_log_likelihood_ratio(np.array(x), np.array(df), np.array(nc))
                with mpmath.workdps(40):
                    argument = mpmath.mpf(nc) * mpmath.mpc(x) / 4
                    own = mpmath.hyp0f1(mpmath.mpf(df) / 2, argument)
                    want = complex(mpmath.log(own) - mpmath.mpf(nc) / 2)
                assert abs(complex(ratio) - want) <= 5e-14 * (1 + nc / 2 + abs(want))


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_brackets_meet_those_of_the_lattice(setting):
    """Two engines that share nothing but the law of one step."""
    *mechanism, eps = setting
    for reverse in (False, True):
        curve = composed(*mechanism, reverse)
        low, high = curve.log_delta_bounds(eps)
        assert high - low < 1e-6
        assert low <= curve.log_delta(eps) <= high
        lattice = curve.experiment.aligned((), np.float64).on_lattice()
        lower, upper = Curve(lattice).log_delta_bounds(eps)
        assert lower <= high
        assert low <= upper
        assert upper - lower < 0.2


@pytest.mark.slow
def test_one_step_is_the_closed_form():
    for noise, rate, dim, eps in ((0.4, 0.5, 2, 0.5), (0.5, 0.9, 1, 1.0), (0.3, 0.3, 6, 0.2)):
        single = relaxed.subsampled_gaussian(noise, rate, 1, dim)
        for reverse in (False, True):
            want = (single.reversed() if reverse else single).log_delta(eps)
            low, high = composed(noise, rate, 1, dim, reverse).log_delta_bounds(eps)
            assert low <= want <= high
            assert high - low < 0.1


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 1000, 1e6])
def test_width(dim):
    """The bracket of epsilon at (1, 0.01, 1000)."""
    curve = relaxed.subsampled_gaussian(1.0, 0.01, 1000, dim).symmetric()
    low, high = curve.epsilon_bounds(1e-5)
    assert 0 < low <= curve.epsilon(1e-5) <= high <= low * (1 + 1e-6)
    assert (
        high <= worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric().epsilon_bounds(1e-5)[1]
    )


def test_a_dimension_that_is_no_whole_number():
    """The path's height changes nothing: r^(df-1) turns often next to r = 0.
    By a wrong branch it was off by 1e-7 at 2.9.
    """
    curve = relaxed.subsampled_gaussian(1.0, 0.01, 1000, 2.9)
    low, high = curve.log_delta_bounds(0.2)
    assert low <= -5.30661460662767 <= high
    around = np.array([2.8, 2.85, 2.9, 2.95, 3.0, 3.05, 3.1])
    values = relaxed.subsampled_gaussian(1.0, 0.01, 1000, around).log_delta(0.2)
    # they fall by ten from order to order; the wrong branch left 1e-6
    assert abs(np.diff(values, 6)[0]) < 5e-9


# noise, rate, steps, dim, added, epsilon, delta by inversion along a turned
# ray (tests/adversary/turned.py)
FEW = [
    (3.136252527872391, 0.27456227957665114, 2.0, 2.0, False, 0.0, 0.0074747482451980986),
    (3.136252527872391, 0.27456227957665114, 3.0, 2.0, True, 0.002, 0.00817297745687878),
    (6.6, 0.516, 4.0, 1.86, True, 0.0, 0.004777275825860),
    (2.14, 0.825, 2.0, 1.84, False, 0.266, 0.00474966245388),
    (1.67, 0.025, 2.0, 1.4, True, 0.00383, 0.00079056768182),
    (4.41, 0.052, 3.0, 2.4, True, 0.00106, 0.00032736154670),
    (1.76, 0.199, 6.0, 1.13, True, 0.0, 0.03930194402792),
]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "rate", "steps", "dim", "added", "epsilon", "delta"), FEW)
def test_few_steps_in_a_low_dimension(noise, rate, steps, dim, added, epsilon, delta):
    """Their frequencies reach so far that a path must not turn r^2 by more than pi:
    the adversary found them off by 1e-7.
    """
    curve = relaxed.subsampled_gaussian(noise, rate, steps, dim)
    low, high = (curve.reversed() if added else curve).delta_bounds(epsilon)
    assert low <= delta * (1 + 1e-12)
    assert high >= delta * (1 - 1e-12)
    assert high - low < 2e-10 * delta
    # one step in a batch goes through the transform, which alone is in closed form
    low, high = relaxed.subsampled_gaussian(
        noise, rate, np.array([1.0, steps]), dim
    ).log_delta_bounds(epsilon)
    alone = relaxed.subsampled_gaussian(noise, rate, 1.0, dim).log_delta(epsilon)
    assert low[0] - 1e-13 <= alone <= high[0] + 1e-13


def test_members_add_up():
    """Different steps at once, equal ones as powers, in any order;
    without any signal there is no loss.
    """
    parts = [
        relaxed.subsampled_gaussian(noise, rate, steps, dim)
        for noise, rate, steps, dim, _ in SETTINGS[:2]
    ]
    one, other = compose(*parts), compose(*parts[::-1])
    assert one.log_delta(0.4) == pytest.approx(other.log_delta(0.4), rel=1e-12)
    half = relaxed.subsampled_gaussian(1.0, 0.01, 500, 3)
    whole = relaxed.subsampled_gaussian(1.0, 0.01, 1000, 3)
    assert compose(half, half).log_delta(0.1) == pytest.approx(whole.log_delta(0.1), rel=1e-11)
    mixed = compose(whole, worst_case.subsampled_gaussian(1.0, 0.01, 10))
    assert mixed.delta(0.1) > whole.delta(0.1)
    assert composed(1e12, 0.1, 100, 3).delta(0.1) == 0


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    """In noise, rate, steps and dimension, by JAX; values by NumPy."""
    at = (1.0, 0.01, 1000.0, 3.0)

    def log_delta(*mechanism):
        return relaxed.subsampled_gaussian(*mechanism).log_delta(0.2)

    slopes = jax.grad(log_delta, argnums=(0, 1, 2, 3))(*map(jnp.float64, at))
    for k, slope in enumerate(slopes):
        step = 1e-4 * at[k]
        ends = [
            log_delta(*(v + sign * step * (i == k) for i, v in enumerate(at))) for sign in (1, -1)
        ]
        assert float(slope) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-7)


@pytest.mark.slow
def test_inside_jit():
    """The same number, and a bracket that holds it."""
    def both(noise):
        curve = relaxed.subsampled_gaussian(noise, 0.01, 1000, 2.0)
        return curve.log_delta(0.3), curve.log_delta_bounds(0.3)

    value, (low, high) = jax.jit(both)(jnp.float64(1.0))
    curve = relaxed.subsampled_gaussian(1.0, 0.01, 1000, 2.0)
    assert float(value) == pytest.approx(curve.log_delta(0.3), rel=1e-12)
    lower, upper = curve.log_delta_bounds(0.3)
    assert low <= upper
    assert lower <= high
    assert high - low < 1e-5
