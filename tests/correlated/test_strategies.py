"""Coefficients of strategies against their definitions, dense inverses, mpmath and jax-privacy."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax_privacy.matrix_factorization import buffered_toeplitz
from jax_privacy.matrix_factorization import toeplitz as theirs

from jaxpriv import correlated
from jaxpriv.correlated import series
from tests.correlated.oracles import strategies, toeplitz

ALL = strategies(np.random.default_rng(0))
NAMES = [name for name, _, _ in ALL]
STEPS = (1, 2, 3, 7, 40, 64)


@pytest.mark.parametrize(("name", "column", "strategy"), ALL, ids=NAMES)
def test_columns_are_those_of_the_matrix_and_its_inverse(name, column, strategy):
    for steps in STEPS:
        want = np.asarray(column(steps))
        np.testing.assert_allclose(strategy.column(steps), want, rtol=1e-12, atol=1e-14)
        inverse = np.linalg.inv(toeplitz(want))[:, 0]
        np.testing.assert_allclose(strategy.inverse_column(steps), inverse, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(("name", "column", "strategy"), ALL, ids=NAMES)
def test_both_executors_agree_and_keep_to_float32(name, column, strategy):
    traced = jax.tree.map(jnp.asarray, strategy)

    def columns(strategy):
        return [(strategy.column(steps), strategy.inverse_column(steps)) for steps in (1, 7, 150)]

    for want, found in zip(jax.tree.leaves(columns(strategy)),
                           jax.tree.leaves(jax.jit(columns)(traced))):
        assert isinstance(want, np.ndarray)
        assert want.dtype == np.float64
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)
    if jax.tree.leaves(strategy):
        narrow = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), strategy)
        shapes = jax.eval_shape(columns, narrow)
        assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {np.dtype(np.float32)}


@pytest.mark.parametrize(("name", "column", "strategy"), ALL, ids=NAMES)
def test_the_recurrence_multiplies_by_the_inverse(name, column, strategy):
    steps = 30
    noise = np.random.default_rng(1).normal(size=steps)
    decay, read, write, direct = strategy.recurrence()
    state, found = np.zeros(len(read)), []
    for g in noise:
        found.append(read @ state + direct * g)
        state = decay @ state + write * g
    want = np.linalg.solve(toeplitz(column(steps)), noise)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-10)


def check_doubt(strategy, exact, steps):
    doubt = strategy.column_doubt(steps)
    off = [abs(mpmath.mpf(float(value)) - want) for value, want in zip(strategy.column(steps),
                                                                       exact)]
    assert all(mpmath.mpf(float(d)) >= e for d, e in zip(doubt, off))
    assert np.max(doubt) < 1e-11
    return max(off)


def test_doubts_cover_what_columns_are_off_by():
    """Against 40 digits; and the columns are off by something, so that this can fail."""
    random = np.random.default_rng(2)
    with mpmath.workdps(40):
        decay, scale = random.uniform(0.5, 1.0, 6), random.normal(size=6)
        strategy = correlated.buffered_toeplitz(decay, scale)
        exact = [mpmath.mpf(1)] + [
            mpmath.fsum(mpmath.mpf(float(s)) * mpmath.mpf(float(d)) ** t
                        for d, s in zip(decay, scale)) for t in range(299)]
        assert check_doubt(strategy, exact, 300) > 0
        taps = [mpmath.mpf(float(v)) for v in correlated.banded_inverse_square_root(9).coefficients]
        exact = []
        for t in range(300):
            past = mpmath.fsum(taps[j] * exact[t - j] for j in range(1, min(t, 8) + 1))
            exact.append(((1 if t == 0 else 0) - past) / taps[0])
        assert check_doubt(correlated.banded_inverse_square_root(9), exact, 300) > 0


def test_doubt_is_infinite_where_nothing_is_known():
    wild = correlated.banded_inverse([1.0, 3.0, -7.0])
    assert np.isinf(wild.column_doubt(200)[-1])
    assert np.all(wild.column_doubt(3) < 1e-12)


def test_square_roots_against_mpmath():
    """binom(2j, j)/4^j and the coefficients of (1 - x)^(1/2), to the thousandth."""
    with mpmath.workdps(40):
        for j in (0, 1, 2, 17, 999):
            root = mpmath.binomial(2 * j, j) / mpmath.mpf(4) ** j
            inverse = mpmath.binomial(mpmath.mpf(1) / 2, j) * (-1) ** j
            assert abs(series.square_root(1000)[j] / root - 1) < 1e-13
            assert abs(series.inverse_square_root(1000)[j] / inverse - 1) < 1e-13


def test_inverse_of_a_long_series():
    """1/(1-x)^(1/2) from (1-x)^(1/2), 1e5 coefficients by transforms."""
    steps = 100_000
    found = series.inverse(series.inverse_square_root(steps), steps)
    np.testing.assert_allclose(found, series.square_root(steps), rtol=1e-9)


def test_derivative_of_an_inverse():
    column = np.random.default_rng(3).normal(size=9) + 4 * np.eye(1, 9)[0]
    weights = np.random.default_rng(4).normal(size=200)

    def value(column):
        return weights @ series.inverse(column, 200)

    slope = jax.jit(jax.grad(value))(jnp.asarray(column))
    for j in range(9):
        step = 1e-6 * np.eye(1, 9, j)[0]
        want = (value(column + step) - value(column - step)) / 2e-6
        np.testing.assert_allclose(slope[j], want, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_jax_privacy_has_the_same_columns():
    coefficients = [1.0, 0.6, 0.3]
    np.testing.assert_allclose(
        correlated.banded_toeplitz(coefficients).inverse_column(50),
        theirs.inverse_coef(jnp.asarray(coefficients), 50), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(correlated.banded_square_root(50).column(50),
                               theirs.optimal_max_error_strategy_coefs(50), rtol=1e-12)
    blt = buffered_toeplitz.BufferedToeplitz.build([0.95, 0.5], [0.3, 0.2])
    own = correlated.buffered_toeplitz([0.95, 0.5], [0.3, 0.2])
    np.testing.assert_allclose(own.column(50), blt.toeplitz_coefs(50), rtol=1e-12)
    np.testing.assert_allclose(own.inverse_column(50), blt.inverse().toeplitz_coefs(50),
                               rtol=1e-9, atol=1e-12)


def test_a_few_buffers_are_near_the_square_root():
    steps = 1000
    for buffers, off in ((2, 0.25), (5, 0.06), (20, 0.02)):
        strategy = correlated.buffered_square_root(buffers, steps)
        column = strategy.column(steps)
        assert np.all(strategy.scale > 0)
        assert np.all((strategy.decay > 0) & (strategy.decay < 1))
        np.testing.assert_allclose(np.sum(strategy.scale), 0.5, rtol=1e-12)
        assert np.max(abs(column - series.square_root(steps))) < off


def test_unit_columns():
    made = correlated.with_unit_columns(correlated.banded_square_root(5), 12)
    np.testing.assert_allclose(np.linalg.norm(made.matrix, axis=0), 1.0, rtol=1e-14)
    assert made.bands() == 5
    columns = toeplitz(correlated.banded_square_root(5).column(12))
    np.testing.assert_allclose(made.matrix * np.linalg.norm(columns, axis=0), columns, rtol=1e-12)
    again = correlated.with_unit_columns(correlated.dense(3 * made.matrix), 12)
    np.testing.assert_allclose(again.matrix, made.matrix, rtol=1e-14)
