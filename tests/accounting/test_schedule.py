"""Schedules: the optimum known in closed form,
feasibility by an independent formula, and the example.
"""

import importlib.util
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import accounting, worst_case

WEIGHTS = 0.9 ** np.arange(30.0)[::-1]
EPSILON, DELTA = 1.0, 1e-5


def plain(noise):
    return jaxpriv.compose(worst_case.gaussian(1 / noise), axis=-1)


def loss(noise):
    return jnp.sum(WEIGHTS * noise**2)


def profile(mu):
    """delta(EPSILON) of G_mu, by SciPy."""
    norm = scipy.stats.norm
    return norm.sf(EPSILON / mu - mu / 2) - math.exp(EPSILON) * norm.sf(EPSILON / mu + mu / 2)


def optimised(**options):
    return accounting.optimise_schedule(
        plain, lambda noise: -loss(noise), np.ones(30), epsilon=EPSILON, delta=DELTA, **options
    )


@pytest.mark.slow
def test_optimum_of_plain_releases():
    """Least sum w sigma^2 at sum 1/sigma^2 = mu^2: sigma_t^2 = sum sqrt(w)/(mu^2 sqrt(w_t)), and
    (sum sqrt(w))^2/mu^2 in all.
    """
    best = optimised()
    mu = math.sqrt(np.sum(best.parameters**-2))
    root = np.sqrt(WEIGHTS)
    np.testing.assert_allclose(profile(mu), DELTA, rtol=1e-9)
    np.testing.assert_allclose(-best.utility, np.sum(root) ** 2 / mu**2, rtol=1e-6)
    np.testing.assert_allclose(best.parameters**2, np.sum(root) / (mu**2 * root), rtol=1e-3)
    np.testing.assert_allclose(best.history[0], -30 * np.sum(WEIGHTS) / mu**2, rtol=1e-5)
    assert best.history.shape == (201,)
    assert best.utility > 0.85 * best.history[0]


def test_the_budget_holds():
    """By the certified upper bound, evaluated again, and not by much: the budget is spent."""
    best = optimised(iterations=3)
    low, high = plain(best.parameters).symmetric().delta_bounds(EPSILON)
    assert (float(low), float(high)) == best.delta_bounds
    assert DELTA * (1 - 1e-9) < low <= high <= DELTA
    assert best.parameters.dtype == np.float64
    np.testing.assert_allclose(best.utility, -loss(best.parameters), rtol=1e-9)


@pytest.mark.slow
def test_scale_of_the_start_does_not_matter():
    """Nor does the shape of the tree; 0 iterations only scale."""

    def curve(tree):
        return jaxpriv.compose(plain(tree["early"]), worst_case.gaussian(1 / tree["last"]))

    def worth(tree):
        return -jnp.sum(tree["early"] ** 2) - 4 * tree["last"] ** 2

    found = [
        accounting.optimise_schedule(curve, worth, {"early": np.full(3, scale), "last": scale},
                                     epsilon=EPSILON, delta=DELTA, optimizer=optax.adam(0.1),
                                     iterations=n)
        for scale, n in ((1e-3, 0), (500.0, 0), (1.0, 5))
    ]
    np.testing.assert_allclose(
        found[0].parameters["early"], found[1].parameters["early"], rtol=1e-8
    )
    np.testing.assert_allclose(
        found[0].parameters["last"], found[0].parameters["early"][0], rtol=1e-12
    )
    assert found[2].utility > found[0].utility
    assert found[2].parameters["last"] < found[2].parameters["early"][0]


def example():
    path = Path(__file__).parents[2] / "examples" / "noise_schedule.py"
    spec = importlib.util.spec_from_file_location("noise_schedule", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("search", "least"), [("noises", 0.25), ("rates", 0.4)])
def test_example_beats_the_constant_schedule(search, least):
    """Sub-sampled phases: by a quarter and more, within the certified budget;
    noise falls, rates rise.
    """
    module = example()
    best = getattr(module, search)(iterations=30)
    assert best.utility / best.history[0] < 1 - least
    fixed = jnp.full(module.PHASES, module.RATE if search == "noises" else module.NOISE)
    curve = (
        module.curve(best.parameters, fixed)
        if search == "noises"
        else module.curve(fixed, best.parameters)
    )
    assert curve.symmetric().delta_bounds(module.EPSILON)[1] <= module.DELTA
    assert np.all(np.diff(best.parameters) * (-1 if search == "noises" else 1) > 0)


@pytest.mark.slow
@pytest.mark.long
def test_weights_of_the_example():
    """The closed form of the risk against the recursion that it sums up,
    one coordinate after the other.
    """
    module = example()
    variance = np.zeros(len(module.CURVATURES))
    noise = np.linspace(2.0, 0.5, module.PHASES)
    rate = np.linspace(0.01, 0.03, module.PHASES)
    for phase in range(module.PHASES):
        batch = rate[phase] * module.RECORDS
        each = (noise[phase] * module.CLIP / batch) ** 2 + module.GRADIENT_VARIANCE * (
            1 - rate[phase]
        ) / batch
        for _ in range(module.STEPS):
            variance = (
                1 - module.LEARNING_RATE * module.CURVATURES
            ) ** 2 * variance + module.LEARNING_RATE**2 * each
    np.testing.assert_allclose(
        module.excess_risk(noise, rate), np.sum(module.CURVATURES * variance) / 2, rtol=1e-10
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"start": np.array([1.0, -1.0])}, "start = -1.0"),
        ({"start": np.array([0.5, 1.0]), "largest": 1.0}, "start = 1.0"),
        ({"largest": 0.0}, "largest = 0.0"),
        ({"epsilon": -1.0}, "epsilon = -1.0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"iterations": -1}, "iterations = -1"),
        ({"make_curve": lambda noise: worst_case.gaussian(1.0 + 0 * noise[0])}, "no scale"),
    ],
)
def test_errors(change, match):
    given = {
        "make_curve": plain, "utility": jnp.sum, "start": np.ones(2), "epsilon": EPSILON,
        "delta": DELTA,
    } | change
    with pytest.raises(ValueError, match=match):
        accounting.optimise_schedule(**given)


def test_global_precision_is_left_alone():
    """In float32, JAX's default, the search runs in float64 all the same."""
    with jax.enable_x64(False):
        best = optimised(iterations=0)
        assert jnp.ones(1).dtype == jnp.float32
    np.testing.assert_allclose(profile(math.sqrt(np.sum(best.parameters**-2))), DELTA, rtol=1e-9)
