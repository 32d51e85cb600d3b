"""Curves of correlated noise: against the exact test of a small release, and calibrated noise."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv
from jaxpriv import correlated, worst_case
from tests.correlated.oracles import toeplitz


def test_a_release_is_gaussian_at_its_sensitivity():
    """mu from the longest difference of all patterns, 0.7 noise."""
    column = correlated.banded_square_root(4).column(8)
    matrix = toeplitz(column)
    schema = correlated.MinSeparation(3, most=2)
    longest = max(np.linalg.norm(matrix[:, [i, j]].sum(1)) for i in range(8)
                  for j in range(i + 3, 8))
    curve = correlated.curve(correlated.banded_square_root(4), 0.7, 8, schema)
    np.testing.assert_allclose(curve.gdp_mu(), longest / 0.7, rtol=1e-12)
    assert curve.gdp_mu() >= longest / 0.7


def loss_of(released, matrix, noise, cycle, rate):
    """log of the likelihood ratio of everything that is released, a record of the first group
    present or absent: a mixture over all its participations.
    """
    steps = len(matrix)
    turns = range(0, steps, cycle)
    terms = []
    for taken in itertools.product((0, 1), repeat=len(turns)):
        moved = matrix[:, list(turns)] @ np.array(taken, float)
        weight = np.prod([rate if each else 1 - rate for each in taken])
        terms.append(np.log(weight) + (released @ moved - moved @ moved / 2) / noise**2)
    return np.logaddexp.reduce(terms, axis=0)


@pytest.mark.parametrize("cycle", [2, 3])
def test_cyclic_poisson_sampling_against_the_exact_test(cycle):
    """delta of the exact likelihood ratio over all participations, from 4e5 releases: attained for
    a record whose gradients are equal, where all columns are as long as the first.
    """
    random = np.random.default_rng(11)
    steps, noise, rate, games = 6, 0.8, 0.3, 400_000
    strategy = correlated.banded_toeplitz([0.8, 0.6])
    matrix = toeplitz(strategy.column(steps))
    schema = correlated.CyclicPoisson(cycle, rate)
    curve = correlated.curve(strategy, noise, steps, schema)
    turns = list(range(0, steps, cycle))
    taken = random.uniform(size=(games, len(turns))) < rate
    released = noise * random.normal(size=(games, steps)) + taken @ matrix[:, turns].T
    loss = loss_of(released, matrix, noise, cycle, rate)
    for epsilon in (0.0, 0.5, 1.5):
        each = np.maximum(1 - np.exp(epsilon - loss), 0.0)
        spread = np.std(each) / np.sqrt(games)
        assert abs(np.mean(each) - curve.delta(epsilon)) < 4 * spread


def test_cyclic_sampling_is_that_of_fewer_steps():
    strategy = correlated.banded_toeplitz([3.0, 4.0])
    schema = correlated.CyclicPoisson(3, 0.05)
    found = correlated.curve(strategy, 10.0, 100, schema)
    want = worst_case.subsampled_gaussian(2.0, 0.05, 34)
    for epsilon in (0.1, 1.0):
        np.testing.assert_allclose(found.delta(epsilon), want.delta(epsilon), rtol=1e-9)
        assert found.delta_bounds(epsilon)[1] >= want.delta_bounds(epsilon)[0]


def test_one_band_is_dp_sgd():
    found = correlated.curve(correlated.Identity(), 1.1, 1000, correlated.CyclicPoisson(1, 0.01))
    want = worst_case.subsampled_gaussian(1.1, 0.01, 1000)
    np.testing.assert_allclose(found.epsilon(1e-5), want.epsilon(1e-5), rtol=1e-9)


def test_dense_matrices_are_amplified_as_well():
    made = correlated.with_unit_columns(correlated.banded_square_root(3), 30)
    schema = correlated.CyclicPoisson(3, 0.2)
    found = correlated.curve(made, 2.0, 30, schema)
    want = worst_case.subsampled_gaussian(2.0, 0.2, 10)
    np.testing.assert_allclose(found.delta(1.0), want.delta(1.0), rtol=1e-9)


@pytest.mark.parametrize("schema", [correlated.MinSeparation(50, most=3),
                                    correlated.CyclicPoisson(5, 0.1)])
def test_noise_meets_its_target_and_hardly_more(schema):
    strategy = correlated.banded_square_root(5)
    noise = correlated.noise_multiplier(strategy, 200, schema, epsilon=1.5, delta=1e-6)
    assert type(noise) is float
    curve = correlated.curve(strategy, noise, 200, schema).symmetric()
    assert curve.delta_bounds(1.5)[1] <= 1e-6
    less = correlated.curve(strategy, noise * (1 - 1e-8), 200, schema).symmetric()
    assert less.delta_bounds(1.5)[0] > 1e-6


@pytest.mark.slow
def test_noise_has_derivatives_in_rate_target_and_strategy():
    def noise(rate, epsilon, tap):
        strategy = correlated.banded_toeplitz(jnp.stack([1.0, tap]) if isinstance(tap, jax.Array)
                                              else [1.0, tap])
        return correlated.noise_multiplier(strategy, 60, correlated.CyclicPoisson(2, rate),
                                           epsilon=epsilon, delta=1e-5)

    at = (0.1, 2.0, 0.5)
    slopes = jax.grad(noise, (0, 1, 2))(*map(jnp.asarray, at))
    for j, slope in enumerate(slopes):
        steps = 1e-4 * np.eye(3)[j]
        want = (noise(*np.add(at, steps).tolist()) - noise(*np.subtract(at, steps).tolist())) / 2e-4
        np.testing.assert_allclose(slope, want, rtol=1e-4)


def test_noise_inside_jit():
    @jax.jit
    def noise(epsilon):
        return correlated.noise_multiplier(correlated.banded_square_root(5), 200,
                                           correlated.MinSeparation(20), epsilon=epsilon,
                                           delta=1e-5)

    want = correlated.noise_multiplier(correlated.banded_square_root(5), 200,
                                       correlated.MinSeparation(20), epsilon=1.0, delta=1e-5)
    np.testing.assert_allclose(noise(1.0), want, rtol=1e-9)


def test_batches_of_noise_multipliers():
    curve = correlated.curve(correlated.banded_square_root(3), np.array([1.0, 2.0]), 10)
    assert curve.gdp_mu().shape == (2,)
    traced = jax.jit(lambda noise: correlated.curve(correlated.banded_square_root(3), noise,
                                                    10).delta(0.5))
    np.testing.assert_allclose(traced(jnp.array([1.0, 2.0])), curve.delta(0.5), rtol=1e-12)


def test_it_beats_independent_noise():
    """At one privacy, with epochs and no sampling: the errors say by how much."""
    steps, schema = 500, correlated.MinSeparation(100)
    own = correlated.banded_square_root(100)
    target = {"epsilon": 2.0, "delta": 1e-5}
    noises = [correlated.noise_multiplier(strategy, steps, schema, **target)
              for strategy in (own, correlated.Identity())]
    errors = [np.sqrt(np.mean(correlated.row_norms(strategy, steps) ** 2)) * noise
              for strategy, noise in zip((own, correlated.Identity()), noises)]
    assert errors[0] < 0.25 * errors[1]
    assert jaxpriv.correlated is correlated


@pytest.mark.slow
def test_programs_of_single_precision():
    """Noise and target are traced in JAX's own dtype, the strategy is not."""
    strategy = correlated.banded_square_root(4)
    for participation in (correlated.MinSeparation(4, most=4), correlated.CyclicPoisson(4, 0.1)):
        curve = jax.jit(lambda noise, p=participation: correlated.curve(
            strategy, noise, 16, p).epsilon(1e-3))
        known = correlated.curve(strategy, 2.0, 16, participation).epsilon(1e-3)
        assert np.isclose(curve(jnp.float32(2.0)), known, rtol=1e-5)
    noise = jax.jit(lambda delta: correlated.noise_multiplier(
        strategy, 16, epsilon=1.0, delta=delta))
    known = correlated.noise_multiplier(strategy, 16, epsilon=1.0, delta=1e-5)
    assert np.isclose(noise(jnp.float32(1e-5)), known, rtol=1e-4)
