"""Many steps with a record replaced in samples of fixed size, by the transform of the hull of both
directions: how it falls, an inverse transform by plain quadrature, the lattice.
"""

import jax
import numpy as np
import pytest

from jaxpriv import compose, worst_case
from jaxpriv.composition import replaced_steps
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.replaced_steps import ReplacedSteps
from jaxpriv.composition.sampled_hull import HullTransform, TiltedHull
from tests.accounting.test_cut_exchanged import composed, hull
from tests.slips import check_is_red


def fixed(noise, rate, steps, adjacency="replace_one"):
    return worst_case.subsampled_gaussian(
        noise, rate, steps, adjacency=adjacency, sampling="fixed_size")


def check_falls():
    """The bound is above the transform, of the law by panels, and falls to what tells nothing."""
    for mu, rate in ((2.0, 0.02), (0.3, 0.4), (4.0, 1e-3)):
        loss, mass = hull(mu, rate, 400)
        transform = HullTransform(np.array([mu]), np.array([rate]))
        for c in (0.7, -0.4, 2.5):
            tilt = transform.tilted(np.array([c]))
            decay = tilt.decay(1)
            tilted = mass * np.exp(c * loss)
            for y in (0.5, 5.0, 40.0, 300.0):
                bound = np.exp(float(tilt.log_decay(decay, np.array([y]))[0]))
                further = np.abs([np.sum(tilted * np.exp(1j * z * loss)) for z in (y, 1.5 * y)])
                assert bound >= np.max(further) / np.sum(tilted) - 1e-12
            least = float(np.exp(transform.log_same - tilt.value)[0])
            far = np.exp(float(tilt.log_decay(decay, np.array([1e9]))[0]))
            assert least <= far < least + 1e-6


def test_falls():
    check_falls()


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.02, 300), (3.0, 0.1, 100)])
def test_against_quadrature(noise, rate, steps):
    curve = fixed(noise, rate, steps)
    for eps in (0.5, 3.0):
        truth = composed(hull(2 / noise, rate), steps, eps)
        lower, upper = curve.delta_bounds(eps)
        assert lower * (1 - 1e-9) <= truth <= upper * (1 + 1e-9)
        assert curve.delta(eps) == pytest.approx(truth, rel=1e-9)


# noise multiplier, sampling rate, steps, delta: brackets were from 2.5e-4 to 0.25 of epsilon wide,
# and the last one's had no upper end
SETTINGS = [(1.0, 0.01, 1000, 1e-5), (1.0, 1e-3, 1e5, 1e-6), (2.0, 1e-3, 1e6, 1e-7),
            (10.0, 1e-4, 1e5, 1e-8), (1.83, 9.47e-5, 2991114, 1.1e-12)]


def check_narrow():
    for *mechanism, delta in SETTINGS:
        low, high = fixed(*mechanism).epsilon_bounds(delta)
        assert 0 < high - low < 1e-9 * high, mechanism


def check_estimates():
    for *mechanism, delta in SETTINGS[:3]:
        curve = fixed(*mechanism)
        low, high = curve.epsilon_bounds(delta)
        assert low <= curve.epsilon(delta) <= high
        lower, upper = curve.log_delta_bounds(0.9 * low)
        assert lower <= curve.log_delta(0.9 * low) <= upper
        low, high = curve.beta_bounds(0.1)
        assert curve(0.1) == pytest.approx(low, abs=high - low + 1e-12)
        # a slope is that of a tangent
        step = 1e-4
        secant = (curve(0.1 + step) - curve(0.1 - step)) / (2 * step)
        assert curve.slope(0.1) == pytest.approx(np.log(-secant), abs=1e-5)


def test_narrow():
    check_narrow()


def test_estimates():
    check_estimates()


@pytest.mark.slow
def test_inside_the_lattice():
    """Both means bracket one number; and the zeroed record's is the same."""
    for *mechanism, delta in SETTINGS[:2]:
        curve = fixed(*mechanism)
        own = curve.experiment.aligned((), np.float64)
        asked = np.array(np.log(delta))
        low, high = Gridded.epsilon_bracket(own, asked, asked, False)
        found = curve.epsilon_bounds(delta)
        assert low <= found[1]
        assert found[0] <= high
        assert fixed(*mechanism, adjacency="zero_out").epsilon_bounds(delta) == found


@pytest.mark.slow
def test_beside_others():
    """Gaussian noise joins, which alone decides where the steps tell nothing; Laplace does not."""
    steps = fixed(2.0, 1e-3, 1000)
    with_noise = compose(steps, worst_case.gaussian(0.5))
    assert isinstance(with_noise.experiment, ReplacedSteps)
    low, high = with_noise.epsilon_bounds(1e-6)
    assert high - low < 1e-9 * high
    assert low > worst_case.gaussian(0.5).epsilon_bounds(1e-6)[1]
    nearly = compose(fixed(2.0, 1e-9, 1000), worst_case.gaussian(0.5)).epsilon_bounds(1e-6)
    assert nearly[0] == pytest.approx(worst_case.gaussian(0.5).epsilon(1e-6), rel=1e-5)
    twice = fixed(2.0, np.array([1e-3, 2e-3]), 1000).compose(2)
    each = [fixed(2.0, rate, 2000).epsilon_bounds(1e-6) for rate in (1e-3, 2e-3)]
    np.testing.assert_allclose(np.transpose(twice.epsilon_bounds(1e-6)), each, rtol=1e-10)
    assert type(compose(steps, worst_case.laplace(0.1)).experiment) is Gridded


def test_few_steps_and_seldom_ones_stay_on_the_lattice():
    few = fixed(0.3, 0.01, 20).experiment
    assert few.by_transforms() is None
    (first,) = few.means()
    assert first is few
    rare = fixed(1.0, 1e-9, 1000).experiment
    assert next(rare.means()) is rare


def test_always_drawn():
    """At rate 1 a replaced record is Gaussian noise with twice the shift."""
    found = fixed(1.0, 1.0, 100).epsilon_bounds(1e-6)
    np.testing.assert_allclose(found, worst_case.gaussian(20.0).epsilon(1e-6), rtol=1e-10)


@pytest.mark.slow
def test_a_program_is_the_lattice():
    """Parameters that a program does not know yet have one."""
    curve = fixed(2.0, 0.05, 200)
    inside = jax.jit(lambda curve: curve.delta(2.0))(curve)
    assert float(inside) == pytest.approx(curve.delta(2.0), rel=1e-6)


def check_ends():
    """At a delta of 0 all losses, at 1 nothing: of lattices, too."""
    five = worst_case.laplace(0.3).compose(5)
    low, high = five.epsilon_bounds(np.array([0.0, 1.0]))
    np.testing.assert_allclose(low, [1.5, 0.0], rtol=1e-12)
    np.testing.assert_allclose(high, [1.5, 0.0], rtol=1e-12)
    assert five.epsilon_bounds(0.0)[1] >= 1.5
    assert fixed(0.3, 0.01, 20).epsilon_bounds(1.0) == (0.0, 0.0)


def test_ends():
    check_ends()


def forgets_what_stays(self, paths):
    del paths
    size, _, _, angle = self.on_path()
    return 0 * self.value, (size, angle)


SLIPS = {
    "all of it falls": (TiltedHull, "decay", forgets_what_stays, check_falls),
    "nothing falls": (TiltedHull, "decay", lambda self, paths: (np.ones(1), None), check_falls),
    "never by transforms": (replaced_steps, "_FALLS", np.inf, check_narrow),
    "estimates on the lattice": (replaced_steps, "_SELDOM", np.inf, check_estimates),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])
