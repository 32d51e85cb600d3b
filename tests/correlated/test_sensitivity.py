"""Sensitivities against all patterns, enumerated; bounds against 40 digits; jax-privacy's."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax_privacy.matrix_factorization import sensitivity as theirs
from jax_privacy.matrix_factorization import toeplitz as their_toeplitz

from jaxpriv import correlated
from tests.correlated.oracles import reach, strategies, toeplitz

ALL = strategies(np.random.default_rng(0))
NAMES = [name for name, _, _ in ALL]
EXACT = {"identity", "square root", "buffered", "inverse square root"}  # c >= 0 does not increase
SCHEMAS = [(separation, most) for separation in (1, 2, 3, 5, 9) for most in (1, 2, 3, None)]


@pytest.mark.parametrize(("name", "column", "strategy"), ALL, ids=NAMES)
def test_toeplitz_against_all_patterns(name, column, strategy):
    for steps in (1, 2, 6, 9):
        matrix = toeplitz(column(steps))
        for separation, most in SCHEMAS:
            schema = correlated.MinSeparation(separation, most)
            exact = reach(matrix, separation, schema.times(steps))
            low, high = correlated.sensitivity_bounds(strategy, steps, schema)
            assert low <= exact * (1 + 1e-14)
            assert exact <= high * (1 + 1e-14)
            assert 0 < low <= high
            found = correlated.sensitivity(strategy, steps, schema)
            np.testing.assert_allclose(found, high, rtol=1e-12)
            bands = strategy.bands()
            if name in EXACT or most == 1 or (bands is not None and bands <= separation):
                np.testing.assert_allclose([low, high], exact, rtol=1e-12)


def random_matrix(random, steps, bands, signs):
    matrix = random.uniform(0.1, 1.0, (steps, steps))
    if signs:
        matrix *= random.choice([-1.0, 1.0], (steps, steps))
    behind = np.subtract.outer(np.arange(steps), np.arange(steps))
    return np.where((behind >= 0) & (behind < bands), matrix, 0.0)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6), st.integers(1, 9), st.booleans(),
       st.integers(0, 10**6))
def test_dense_against_all_patterns(steps, bands, separation, most, signs, seed):
    """Bounds always, equality where only neighbours in a pattern meet."""
    bands = min(bands, steps)
    matrix = random_matrix(np.random.default_rng(seed), steps, bands, signs)
    schema = correlated.MinSeparation(separation, most)
    exact = reach(matrix, separation, schema.times(steps))
    low, high = correlated.sensitivity_bounds(correlated.dense(matrix), steps, schema)
    assert low <= exact * (1 + 1e-13)
    assert exact <= high * (1 + 1e-13)
    if schema.times(steps) == 1 or bands <= 2 * separation:
        np.testing.assert_allclose([low, high], exact, rtol=1e-11)


@pytest.mark.parametrize("separation", [1, 2, 3])
def test_dense_where_neighbours_meet_last(separation):
    """Around the number of bands at which others than neighbours in a pattern begin to meet."""
    steps = 9
    for bands in range(2 * separation - 1, 2 * separation + 3):
        for seed in range(8):
            matrix = random_matrix(np.random.default_rng(seed), steps, bands, signs=False)
            made = correlated.dense(matrix)
            for most in (2, 3, None):
                schema = correlated.MinSeparation(separation, most)
                exact = reach(matrix, separation, schema.times(steps))
                low, high = correlated.sensitivity_bounds(made, steps, schema)
                assert low <= exact * (1 + 1e-13)
                assert exact <= high * (1 + 1e-13)
                if bands <= 2 * separation:
                    np.testing.assert_allclose([low, high], exact, rtol=1e-11)


def test_dense_is_exact_where_what_is_shared_falls():
    """All diagonals, as of Toeplitz matrices that do not increase, and with columns that shrink."""
    steps = 10
    column = correlated.banded_square_root(steps).column(steps)
    for matrix in (toeplitz(column), toeplitz(column) * np.linspace(1, 0.5, steps)):
        for separation in (1, 2, 3, 4):
            schema = correlated.MinSeparation(separation)
            exact = reach(matrix, separation, schema.times(steps))
            bounds = correlated.sensitivity_bounds(correlated.dense(matrix), steps, schema)
            np.testing.assert_allclose(bounds, exact, rtol=1e-12)


@pytest.mark.slow
def test_dense_is_no_wider_than_jax_privacy():
    """Algorithm 4 of Choquette-Choo et al. 2023, which ours is the least of several bounds with."""
    random = np.random.default_rng(5)
    gains = []
    for bands in (4, 20):
        matrix = random_matrix(random, 20, bands, signs=True)
        for separation, most in ((2, None), (4, 2)):
            schema = correlated.MinSeparation(separation, most)
            high = correlated.sensitivity_bounds(correlated.dense(matrix), 20, schema)[1]
            other = theirs.get_min_sep_sensitivity_upper_bound(jnp.asarray(matrix), separation,
                                                               most)
            assert high <= other * (1 + 1e-12)
            gains.append(high / other)
    assert min(gains) < 0.99


def test_toeplitz_against_jax_privacy():
    for steps, separation, most in ((1000, 100, 4), (777, 10, None)):
        for strategy in (correlated.banded_square_root(40),
                         correlated.buffered_toeplitz([0.99, 0.5], [0.3, 0.1])):
            want = their_toeplitz.minsep_sensitivity_squared(
                jnp.asarray(strategy.column(steps)), separation, most, n=steps) ** 0.5
            schema = correlated.MinSeparation(separation, most)
            found = correlated.sensitivity(strategy, steps, schema)
            np.testing.assert_allclose(found, want, rtol=1e-10)


@pytest.mark.parametrize("most", [1, 3, None])
def test_bounds_hold_to_the_last_digit(most):
    """Against 40 digits of the same formula, and not wider than rounding."""
    steps, separation = 400, 30
    decay, scale = [0.99, 0.7, 0.3], [0.1, 0.2, 0.3]
    schema = correlated.MinSeparation(separation, most)
    strategy = correlated.buffered_toeplitz(decay, scale)
    with mpmath.workdps(40):
        column = [mpmath.mpf(1)] + [
            mpmath.fsum(mpmath.mpf(s) * mpmath.mpf(d) ** t for d, s in zip(decay, scale))
            for t in range(steps - 1)]
        total = mpmath.fsum(
            mpmath.fsum(column[t - start] for start in range(0, t + 1, separation)
                        if start // separation < schema.times(steps)) ** 2
            for t in range(steps))
        low, high = correlated.sensitivity_bounds(strategy, steps, schema)
        assert mpmath.mpf(low) <= mpmath.sqrt(total) <= mpmath.mpf(high)
    assert high / low < 1 + 1e-12


def test_epochs_in_a_fixed_order_are_covered():
    """Whatever step of the epoch a record has."""
    matrix = toeplitz(correlated.banded_square_root(12).column(12))
    worst = correlated.sensitivity(correlated.banded_square_root(12), 12,
                                   correlated.MinSeparation(4))
    each = [np.linalg.norm(matrix[:, start::4].sum(1)) for start in range(4)]
    np.testing.assert_allclose(worst, max(each), rtol=1e-12)


@pytest.mark.slow
def test_derivatives_against_differences():
    steps, schema = 60, correlated.MinSeparation(7)
    cases = [(correlated.banded_toeplitz, np.array([1.0, 0.6, 0.3, 0.1]), schema),
             (correlated.banded_toeplitz, np.array([1.0, 0.9, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1]),
              schema),
             (lambda v: correlated.buffered_toeplitz(v, 0.3 * v), np.array([0.9, 0.4]), schema),
             (lambda v: correlated.dense(jnp.diag(v)), np.array([1.0, 0.7, 0.3]), correlated.ONCE)]
    for made, values, schema in cases:
        count = 3 if schema is correlated.ONCE else steps

        def value(vector, made=made, count=count, schema=schema):
            return correlated.sensitivity(made(vector), count, schema)

        slope = jax.jit(jax.grad(value))(jnp.asarray(values))
        for j, step in enumerate(1e-6 * np.eye(len(values))):
            want = (value(values + step) - value(values - step)) / 2e-6
            np.testing.assert_allclose(slope[j], want, rtol=1e-6, atol=1e-8)


def test_cyclic_sampling_asks_for_one_column():
    schema = correlated.CyclicPoisson(5, 0.1)
    strategy = correlated.banded_toeplitz([3.0, -4.0])
    assert correlated.sensitivity(strategy, 100, schema) == 5.0
    low, high = correlated.sensitivity_bounds(strategy, 100, schema)
    assert low <= 5.0 <= high < 5.0 + 1e-13
