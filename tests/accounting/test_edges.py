"""Where rules change: rate 1, fractional numbers of steps, float32 parameters,
numbers that a curve takes from around it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import sampled
from jaxpriv.composition.enclosure import _told_once, brackets_near
from tests.slips import check_is_red


@pytest.mark.slow
def test_gradient_by_the_rate_at_one():
    """From below, as at any other rate."""

    def delta(rate):
        return worst_case.subsampled_gaussian(1.0, rate, 3.0).delta(1.0)

    step = 1e-6
    change = (3 * delta(1.0) - 4 * delta(1 - step) + delta(1 - 2 * step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(delta)(1.0), change, rtol=1e-7)


@pytest.mark.slow
def test_gradient_of_epsilon_by_the_rate_at_one():
    def epsilon(rate):
        return worst_case.subsampled_gaussian(1.0, rate, 3.0).symmetric().epsilon(1e-5)

    np.testing.assert_allclose(jax.grad(epsilon)(1.0), 3.8770467, rtol=1e-6)


def test_fractional_steps():
    """Estimates are continuous in the number of steps;
    bounds hold for both whole numbers next to it.
    """

    def curve(steps, rate=0.95):
        return worst_case.subsampled_gaussian(1.0, rate, steps)

    np.testing.assert_allclose(curve(2 - 1e-9).delta(1.0), curve(2.0).delta(1.0), rtol=1e-8)
    fewer, between, more = (curve(steps).delta_bounds(1.0) for steps in (2.0, 2.5, 3.0))
    assert between == (fewer[0], more[1])
    assert fewer[1] < curve(2.5).delta(1.0) < more[0]
    # at rate 1 every number of steps is a mechanism,
    # also where others of the batch have another rate
    exact = worst_case.gaussian(0.5**0.5).delta(1.0)
    low, high = curve(0.5, np.array([1.0, 0.5])).delta_bounds(1.0)
    assert low[0] <= exact <= high[0] <= low[0] * (1 + 1e-5)
    np.testing.assert_allclose(curve(0.5, np.array([1.0, 0.5])).delta(1.0)[0], exact, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("traced", [False, True])
def test_float32_parameters_are_taken_as_they_are(traced):
    """1/0.7 is computed from the float32 0.7 in float64; and 0.01 stays the float64 that it is."""
    with jax.enable_x64(False):
        def ask(noise):
            return worst_case.subsampled_gaussian(noise, 0.01, 100).delta_bounds(0.5)

        low, high = (jax.jit(ask) if traced else ask)(jnp.float32(0.7))
    exact = worst_case.subsampled_gaussian(float(np.float32(0.7)), 0.01, 100).delta_bounds(0.5)
    assert low <= exact[1]
    assert exact[0] <= high
    assert high - low <= (3e-7 if traced else 1e-11) * high
    assert low.dtype == (np.float32 if traced else np.float64)


@pytest.mark.slow
def test_directions_in_float32():
    """What chooses a direction compiles in a float64 part of a float32 program."""
    with jax.enable_x64(False):
        low, high = jax.jit(
            lambda n: worst_case.subsampled_gaussian(n, 0.01, 1000).symmetric().epsilon_bounds(1e-5)
        )(1.0)
        assert 1.828236 < low <= 1.82823667 <= high < 1.828238
        replaced = worst_case.subsampled_gaussian(1.0, 0.01, 10, adjacency="replace_one")
        assert np.isfinite(replaced.epsilon(1e-5))


@pytest.mark.slow
def test_calibrate_by_what_it_takes_from_around():
    def noise(sensitivity):
        return jaxpriv.calibrate(
            lambda std: worst_case.gaussian(sensitivity / std), epsilon=2.0, delta=1e-5
        )

    np.testing.assert_allclose(jax.grad(noise)(0.7), noise(1.0), rtol=1e-9)
    np.testing.assert_allclose(jax.jit(jax.grad(noise))(0.7), noise(1.0), rtol=1e-5)


@pytest.mark.long
@pytest.mark.slow
def test_calibrate_by_the_rate():
    def noise(rate):
        return jaxpriv.calibrate(
            lambda n: worst_case.subsampled_gaussian(n, rate, 1000).symmetric(),
            epsilon=2.0,
            delta=1e-5,
        )

    np.testing.assert_allclose(
        jax.grad(noise)(0.01), (noise(0.01001) - noise(0.00999)) / 2e-5, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(1.0, 1e-6, 10.0), (0.5, 1e-5, 2.0), (1.0, 1e-5, 1000.0)]
)
def test_few_steps_at_a_small_rate_have_a_lower_end(noise, rate, steps):
    """Single steps tell something; where the whole is known, they bound it from below,
    and closely if they are few.
    """
    low, high = worst_case.subsampled_gaussian(noise, rate, steps).log_delta_bounds(1.0)
    assert -150 < low < high < -3
    known = worst_case.subsampled_gaussian(0.5, 1e-3, 10.0)
    lower, upper = known.log_delta_bounds(1.0)
    experiment = known.experiment.aligned((), np.float64)
    single = _told_once(experiment._directed(np.full((), False)), np.array(1.0))
    assert lower - 0.05 < single < upper


def test_epsilon_is_zero_where_total_variation_says_so():
    """Without following any frequency; a little below it is found by the integral."""
    curve = worst_case.subsampled_gaussian(9.28, 2e-4, 4.0).symmetric()
    assert curve.epsilon_bounds(0.5) == (0.0, 0.0)
    assert curve.advantage_bounds()[1] <= 4 * 2e-4 * 0.043


def test_a_line_serves_only_nearby():
    """A bracket far from where the line was placed is wide, and true all the same."""
    curve = worst_case.subsampled_gaussian(1.0, 0.01, 1000.0)
    experiment = curve.experiment.aligned((), np.float64)
    terms = experiment._directed(np.full((), False))
    eps = np.array([0.5, 0.9, 1.0, 1.1, 2.0, 6.0])
    with np.errstate(all="ignore"):
        found = brackets_near(terms, np.array(1.0), eps)
    truth = np.array([curve.log_delta(e) for e in eps])
    assert np.all((found.lower <= truth + 1e-12) & (truth - 1e-12 <= found.upper))
    width = found.upper - found.lower
    assert np.all(width[1:4] < 1e-9)
    assert width[-1] > 1e-4


@pytest.mark.slow
def test_nodes_too_far_apart_bound_nothing():
    """In a program a rule has 384 nodes, however far its integrand reaches: 7e8 here, in one step
    of (1e6, 1.5e-5) at epsilon = 700. The record in every step bounds it then.
    """
    step = 1e6, 1.4546151760441717e-05, 1.0
    truth = worst_case.user_level(*step, 2).log_delta_bounds(700.0)

    def of(noise, rate, steps):
        return worst_case.user_level(noise, rate, steps, 2).log_delta_bounds(700.0)

    low, high = jax.jit(of)(*map(jnp.asarray, step))
    assert low <= truth[1]
    assert truth[0] <= high
    assert high < 0.9 * truth[1]


@pytest.mark.slow
def test_slip_of_the_nodes_is_seen(monkeypatch):
    def sure(height, step):
        return 4 * np.exp(3.0) / jnp.expm1(2 * np.pi * height / step) + 1e-20

    check_is_red(monkeypatch, sampled, "rule_error", sure, test_nodes_too_far_apart_bound_nothing)
