"""Optimised strategies against optima found without the package, and published algorithms' errors.

Published are algorithms rather than tables: their errors at 1024 steps were computed by
jax-privacy 2.0.0, by the algorithms' authors (`toeplitz.optimize_banded_toeplitz`, 150 steps of its
L-BFGS), and python bench/correlated.py computes them again.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_privacy.matrix_factorization import buffered_toeplitz
from scipy.optimize import minimize

from jaxpriv import correlated
from jaxpriv.correlated import optimum
from jaxpriv.correlated.descent import minimised
from tests.correlated.oracles import least_error, toeplitz

# by (loss, bands): 1 band is DP-SGD
PUBLISHED = {("mean", 1): np.sqrt(1025 / 2), ("mean", 8): 8.444300832568674,
             ("mean", 64): 4.06591343954361, ("mean", 1024): 3.056587931190461,
             ("max", 1): 32.0, ("max", 8): 11.70959703256416, ("max", 64): 5.17096314783243,
             ("max", 1024): 3.272554150273134}
SLOW_MAX = pytest.param("max", marks=pytest.mark.slow)


@pytest.mark.parametrize(("loss", "bands"), [
    pytest.param(*each, marks=[pytest.mark.slow] * (each[0] == "max")) for each in PUBLISHED])
def test_no_worse_than_published(loss, bands):
    found = correlated.optimise(correlated.banded_square_root(bands), 1024, loss=loss)
    assert found.error <= PUBLISHED[loss, bands] * (1 + 1e-10)
    np.testing.assert_allclose(correlated.error(found.strategy, 1024, loss=loss), found.error)
    np.testing.assert_allclose(correlated.sensitivity(found.strategy, 1024), 1.0, rtol=1e-12)


def convex_optimum(steps, bands):
    """The least (mean of the rows' squares)^(1/2) of C with columns of length 1, by SciPy over the
    entries of X = C^T C off its diagonal.
    """
    rows, columns = np.nonzero(np.tri(steps, k=-1) - np.tri(steps, k=-bands))
    work = np.tri(steps).T @ np.tri(steps)

    def gram(entries):
        matrix = np.eye(steps)
        matrix[rows, columns] = matrix[columns, rows] = entries
        return matrix

    def value(entries):
        matrix = gram(entries)
        if np.linalg.eigvalsh(matrix)[0] <= 1e-9:
            return np.inf, entries
        inverse = np.linalg.inv(matrix)
        slope = -inverse @ work @ inverse / steps
        return np.trace(work @ inverse) / steps, 2 * slope[rows, columns]

    start = np.full(len(rows), 0.3 / bands)
    found = minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    return np.sqrt(found.fun)


@pytest.mark.parametrize(("steps", "bands"), [(6, 6), (8, 3)])
def test_dense_against_a_convex_optimum(steps, bands):
    begin = correlated.with_unit_columns(correlated.banded_square_root(bands), steps)
    found = correlated.optimise(begin, steps)
    np.testing.assert_allclose(found.error, convex_optimum(steps, bands), rtol=1e-7)
    assert found.strategy.bands() == bands


@pytest.mark.parametrize(("steps", "bands"), [(48, 48), (64, 8)])
def test_dense_against_its_dual(steps, bands):
    """Nothing with as many bands is better, by more than 1e-6: whatever was published."""
    found = correlated.optimise(correlated.with_unit_columns(
        correlated.banded_square_root(bands), steps), steps)
    low = least_error(found.strategy.matrix.T @ found.strategy.matrix, bands) / np.sqrt(steps)
    assert low <= found.error <= low * (1 + 1e-6)


@pytest.mark.slow
def test_dense_at_1024_steps_against_its_dual():
    begin = correlated.optimise(correlated.banded_square_root(8), 1024)
    found = correlated.optimise(correlated.with_unit_columns(begin.strategy, 1024), 1024)
    low = least_error(found.strategy.matrix.T @ found.strategy.matrix, 8) / np.sqrt(1024)
    assert low <= found.error <= low * (1 + 1e-6)
    assert found.error < 0.9966 * PUBLISHED["mean", 8]


def test_dense_with_epochs_is_that_of_one_epoch_times_their_root():
    steps, schema = 24, correlated.MinSeparation(6)
    begin = correlated.with_unit_columns(correlated.banded_square_root(6), steps)
    once, often = (correlated.optimise(begin, steps, each) for each in (correlated.ONCE, schema))
    np.testing.assert_allclose(often.error, 2 * once.error, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["mean", SLOW_MAX])
def test_bands_beyond_the_separation_gain_nothing(loss):
    """More bands than participations are apart contain fewer: the optimum is no worse, and its
    sensitivity is exact.
    """
    steps, schema = 200, correlated.MinSeparation(20)
    few = correlated.optimise(correlated.banded_square_root(20), steps, schema, loss)
    many = correlated.optimise(correlated.banded_square_root(60), steps, schema, loss)
    assert many.error <= few.error * (1 + 1e-6)
    low, high = correlated.sensitivity_bounds(many.strategy, steps, schema)
    assert high / low < 1 + 1e-10


@pytest.mark.slow
def test_buffers_from_another_beginning():
    """Two buffers end at the same error, near that of many bands."""
    steps, schema = 200, correlated.MinSeparation(50)
    found = correlated.optimise(correlated.buffered_square_root(2, steps), steps, schema)
    other = correlated.optimise(correlated.buffered_toeplitz([0.93, 0.4], [0.2, 0.2]), steps,
                                schema)
    np.testing.assert_allclose(found.error, other.error, rtol=1e-7)
    best = correlated.optimise(correlated.banded_square_root(50), steps, schema)
    assert best.error < found.error < 1.08 * best.error


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["mean", "max"])
def test_buffers_are_no_worse_than_jax_privacy_s(loss):
    steps, schema = 1000, correlated.MinSeparation(100)
    blt = buffered_toeplitz.optimize(n=steps, min_sep=100, max_participations=10, error=loss,
                                     min_buffers=4, max_buffers=4)
    theirs = correlated.buffered_toeplitz(np.asarray(blt.buf_decay), np.asarray(blt.output_scale))
    found = correlated.optimise(correlated.buffered_square_root(4, steps), steps, schema, loss)
    assert found.error <= correlated.error(theirs, steps, schema, loss) * (1 + 1e-7)


def test_weighted_workloads_have_their_own_optimum():
    steps = 40
    made = correlated.workload(np.linspace(1.0, 0.0, steps), 0.5)
    begin = correlated.banded_square_root(6)
    own = correlated.optimise(begin, steps, workload=made)
    plain = correlated.optimise(begin, steps)
    assert own.error < 0.995 * correlated.error(plain.strategy, steps, workload=made)

    def value(taps):
        inverse = np.linalg.inv(toeplitz(np.concatenate([taps, np.zeros(steps - 6)])))
        rows = made.matrix(steps) @ inverse
        return np.linalg.norm(rows) * np.linalg.norm(taps) / np.sqrt(steps)

    found = minimize(value, begin.coefficients, method="BFGS")
    np.testing.assert_allclose(own.error, found.fun, rtol=1e-6)


def test_banded_inverses_gain_most():
    begin = correlated.banded_inverse_square_root(4)
    found = correlated.optimise(begin, 256)
    assert found.error < 0.75 * correlated.error(begin, 256)
    np.testing.assert_allclose(correlated.sensitivity(found.strategy, 256), 1.0, rtol=1e-9)

    @jax.jit
    def value(rest):
        return correlated.error(correlated.banded_inverse(
            jnp.concatenate([jnp.ones(1), rest])), 256)

    start = np.asarray(found.strategy.coefficients[1:] / found.strategy.coefficients[0])
    other = minimize(lambda rest: float(value(rest)), start, method="Nelder-Mead",
                     options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 2000})
    np.testing.assert_allclose(found.error, other.fun, rtol=1e-7)


def test_the_descent_is_quasi_newton():
    """A quadratic form and Rosenbrock's valley in no more steps than SciPy's L-BFGS."""
    weights = np.logspace(0, 3, 30)

    def bowl(vector):
        return jnp.sum(weights * (vector - 1) ** 2)

    found, taken = minimised(bowl, np.zeros(30), 1000, 1e-14)
    np.testing.assert_allclose(found, 1.0, atol=1e-6)
    other = minimize(lambda v: (np.sum(weights * (v - 1) ** 2), 2 * weights * (v - 1)),
                     np.zeros(30), jac=True, method="L-BFGS-B",
                     options={"maxcor": 20, "ftol": 1e-30, "gtol": 1e-7})
    assert taken < 1.2 * other.nit

    def valley(parts):
        return (1 - parts["x"]) ** 2 + 100 * (parts["y"] - parts["x"] ** 2) ** 2

    found, taken = minimised(valley, {"x": -1.2, "y": 1.0}, 1000, 1e-14)
    np.testing.assert_allclose([found["x"], found["y"]], 1.0, atol=1e-6)
    assert taken < 60


def test_coefficients_that_fall_are_found_again():
    begin = correlated.banded_square_root(9)
    again = optimum._falling(optimum._falls(begin))
    np.testing.assert_allclose(again.coefficients, begin.coefficients, rtol=1e-14)


def test_nothing_is_lost():
    """The best one already stays; identity has nothing to choose."""
    root = correlated.banded_square_root(64)
    found = correlated.optimise(root, 64, loss="max")
    assert found.error <= correlated.error(root, 64, loss="max") * (1 + 1e-14)
    assert correlated.optimise(correlated.Identity(), 9).iterations == 0
    assert correlated.optimise(correlated.banded_square_root(9), 100, iterations=1).iterations == 1


@pytest.mark.slow
def test_a_plan_weighs_bands_against_sampling():
    steps, records, batch, target = 64, 6400, 400, {"epsilon": 8.0, "delta": 1e-5}
    found = correlated.plan(steps, records, batch, bands=[1, 4, 16], **target)
    assert found.best is min(found.candidates, key=lambda one: one.error)
    for one in found.candidates:
        assert one.participation.cycle == one.bands == one.strategy.bands()
        np.testing.assert_allclose(one.participation.rate, batch * one.bands / records)
        curve = one.curve(steps).symmetric()
        assert curve.delta_bounds(8.0)[1] <= 1e-5
        norms = correlated.row_norms(one.strategy, steps)
        want = np.sqrt(np.mean(norms**2)) * one.noise_multiplier / batch
        np.testing.assert_allclose(one.error, want, rtol=1e-9)
    independent = found.candidates[0]
    assert independent.bands == 1
    assert found.best.error < 0.8 * independent.error


@pytest.mark.slow
def test_a_plan_by_default():
    found = correlated.plan(20, 100, [5, 10], mu=1.0)
    bands = {size: [one.bands for one in found.candidates if one.batch_size == size]
             for size in (5, 10)}
    assert bands == {5: [1, 2, 4, 8, 16, 20], 10: [1, 2, 4, 8, 10]}
    assert found.best.batch_size == 10
