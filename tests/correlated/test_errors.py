"""Errors of iterates against dense linear algebra, and published facts about them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_privacy.matrix_factorization import toeplitz as theirs

from jaxpriv import correlated
from jaxpriv.correlated import series, workloads
from tests.correlated.oracles import iterates, strategies, toeplitz

ALL = strategies(np.random.default_rng(0))
NAMES = [name for name, _, _ in ALL]
RATES = np.random.default_rng(6).uniform(0.0, 2.0, 64)


@pytest.mark.parametrize(("rates", "momentum"), [(None, 0.0), (None, 0.9), (RATES, 0.0),
                                                 (RATES, 0.5)])
def test_workloads_are_what_sgd_does(rates, momentum):
    made = correlated.workload(rates, momentum)
    np.testing.assert_allclose(made.matrix(64), iterates(rates, momentum, 64), rtol=1e-12,
                               atol=1e-15)


@pytest.mark.parametrize(("name", "column", "strategy"), ALL, ids=NAMES)
def test_row_norms_against_dense_matrices(name, column, strategy):
    for steps in (1, 2, 13, 64):
        inverse = np.linalg.inv(toeplitz(column(steps)))
        as_matrix = correlated.dense(toeplitz(column(steps)))
        for rates, momentum in ((None, 0.0), (None, 0.9), (RATES[:steps], 0.0),
                                (RATES[:steps], 0.5)):
            want = np.linalg.norm(iterates(rates, momentum, steps) @ inverse, axis=1)
            made = correlated.workload(rates, momentum)
            np.testing.assert_allclose(correlated.row_norms(strategy, steps, made), want, rtol=1e-9)
            np.testing.assert_allclose(correlated.row_norms(as_matrix, steps, made), want,
                                       rtol=1e-9)


def test_schedules_by_columns_are_those_by_recurrence():
    """What has more states than the recurrence is followed for goes column by column."""
    steps = 200
    rates = np.linspace(1.0, 0.0, steps)
    for bands in (60, 80):
        strategy = correlated.banded_square_root(bands)
        made = correlated.workload(rates, 0.7)
        one = workloads._by_recurrence(strategy, steps, made)
        other = workloads._by_columns(strategy, steps, made)
        np.testing.assert_allclose(one, other, rtol=1e-10)
        norms = correlated.row_norms(strategy, steps, made)
        np.testing.assert_allclose(norms**2, one, rtol=1e-10)


def test_both_executors_agree():
    steps, schema = 40, correlated.MinSeparation(8)
    made = [correlated.workload(), correlated.workload(RATES[:steps], 0.5)]
    some = [strategy for _, _, strategy in ALL[3:6]]

    def errors(some, made):
        return [correlated.error(strategy, steps, schema, loss, each)
                for strategy in some for each in made for loss in ("mean", "max")]

    want = errors(some, made)
    assert {type(value) for value in want} == {np.float64}
    found = jax.jit(errors)(*jax.tree.map(jnp.asarray, (some, made)))
    np.testing.assert_allclose(found, want, rtol=1e-11)


def test_known_errors():
    """DP-SGD's are sqrt((T+1)/2) and sqrt(T); the square root's sum of (binom(2j, j)/4^j)^2 both
    ways (Fichtenberger, Henzinger, Upadhyay 2023).
    """
    steps = 1024
    none = correlated.Identity()
    np.testing.assert_allclose(correlated.error(none, steps), np.sqrt((steps + 1) / 2), rtol=1e-12)
    np.testing.assert_allclose(correlated.error(none, steps, loss="max"), 32.0, rtol=1e-12)
    root = correlated.banded_square_root(steps)
    want = np.sum(series.square_root(steps) ** 2)
    np.testing.assert_allclose(correlated.error(root, steps, loss="max"), want, rtol=1e-12)
    epochs = correlated.MinSeparation(128)
    np.testing.assert_allclose(correlated.error(none, steps, epochs), np.sqrt(8 * (steps + 1) / 2))


def test_errors_against_jax_privacy():
    steps = 300
    coefficients = np.array([1.0, 0.5, 0.3, -0.1])
    for loss, reduce in (("mean", jnp.mean), ("max", jnp.max)):
        want = jnp.sqrt(theirs.loss(jnp.asarray(coefficients), steps, reduce))
        found = correlated.error(correlated.banded_toeplitz(coefficients), steps, loss=loss)
        np.testing.assert_allclose(found, want, rtol=1e-10)


def test_noise_of_a_training_has_these_deviations():
    """20,000 trainings with noise from the recurrence: the iterates scatter as the rows say."""
    steps, runs = 12, 20_000
    random = np.random.default_rng(8)
    rates = np.linspace(1.0, 0.2, steps)
    strategy = correlated.banded_square_root(4)
    decay, read, write, direct = strategy.recurrence()
    state, momentum, theta, seen = np.zeros((runs, 3)), 0.0, 0.0, []
    for rate in rates:
        g = random.normal(size=runs)
        noise = state @ read + direct * g
        state = state @ decay.T + g[:, None] * write
        momentum = 0.6 * momentum + noise
        theta = theta + rate * momentum
        seen.append(np.std(theta))
    want = correlated.row_norms(strategy, steps, correlated.workload(rates, 0.6))
    np.testing.assert_allclose(seen, want, rtol=5 / np.sqrt(2 * runs))


@pytest.mark.slow
def test_derivatives_against_differences():
    steps = 40
    rates = np.linspace(1.0, 0.3, steps)
    for made in (correlated.workload(momentum=0.5), correlated.workload(rates, 0.5)):
        for build, values in ((correlated.banded_toeplitz, np.array([1.0, 0.5, 0.2])),
                              (lambda v: correlated.buffered_toeplitz(v, 0.4 * v),
                               np.array([0.95, 0.5]))):
            def value(vector, build=build, made=made):
                return correlated.error(build(vector), steps, workload=made)

            slope = jax.jit(jax.grad(value))(jnp.asarray(values))
            for j, step in enumerate(1e-6 * np.eye(len(values))):
                want = (value(values + step) - value(values - step)) / 2e-6
                np.testing.assert_allclose(slope[j], want, rtol=1e-5, atol=1e-8)


def test_a_hundred_thousand_steps():
    """Without a matrix: the sum of squares of the square root's coefficients, and DP-SGD's."""
    steps = 100_000
    want = np.sum(series.square_root(steps) ** 2)
    found = correlated.error(correlated.banded_square_root(steps), steps, loss="max")
    np.testing.assert_allclose(found, want, rtol=1e-10)
    blt = correlated.buffered_square_root(6, steps)
    assert want < correlated.error(blt, steps, loss="max") < 1.1 * want
