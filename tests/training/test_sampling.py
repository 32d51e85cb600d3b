"""Poisson samples: frequencies, independence, and batches that are large enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxpriv import training


def drawn(rate, rounds=4000, size=40, capacity=40):
    keys = jax.random.split(jax.random.key(0), rounds)
    batches = jax.vmap(lambda key: training.poisson_sample(key, size, rate, capacity))(keys)
    taken = np.zeros((rounds, size), bool)
    for row, indices, mask in zip(taken, np.asarray(batches.indices), np.asarray(batches.mask)):
        assert len(set(indices[mask])) == mask.sum()
        row[indices[mask]] = True
    return taken, batches


def check_frequencies():
    """Every record, every pair and every count as independent coins would have it."""
    for rate in (0.05, 0.3):
        taken, batches = drawn(rate)
        assert not np.any(batches.overflow)
        counts = taken.sum(0)
        seen = np.stack([counts, 4000 - counts]).ravel()
        expected = np.repeat([4000 * rate, 4000 * (1 - rate)], 40)
        assert scipy.stats.chisquare(seen, expected, ddof=39).pvalue > 1e-4
        correlation = np.corrcoef(taken.T)[np.triu_indices(40, 1)]
        assert np.max(np.abs(correlation)) < 5 / np.sqrt(4000)
        sizes, law = taken.sum(1), scipy.stats.binom(40, rate)
        assert abs(sizes.mean() - law.mean()) < 5 * law.std() / np.sqrt(4000)
        assert abs(sizes.var() / law.var() - 1) < 0.15


@pytest.mark.slow
def test_frequencies():
    check_frequencies()


@pytest.mark.slow
@pytest.mark.optimized  # runs for longer than it compiles
def test_small_rates_are_exact():
    """A rate of 1e-4 is met within its statistical error of 0.6%,
    and never exceeded by rounding.
    """
    keys = jax.random.split(jax.random.key(1), 300)

    def count(key):
        return jnp.sum(training.poisson_sample(key, 1_000_000, 1e-4, 300).mask)

    counts = jax.jit(lambda keys: jax.lax.map(count, keys))(keys)
    assert abs(np.sum(counts) - 30_000) < 4 * np.sqrt(30_000)


@pytest.mark.slow
def test_extremes_and_traced_rates():
    key = jax.random.key(0)
    assert np.all(training.poisson_sample(key, 9, 1.0, 9).mask)
    assert not np.any(training.poisson_sample(key, 9, 0.0, 9).mask)
    for rate in (0.0, 0.3, 1.0):
        got = jax.jit(lambda rate: training.poisson_sample(key, 50, rate, 50).mask)(rate)
        np.testing.assert_array_equal(got, training.poisson_sample(key, 50, rate, 50).mask)


def test_overflow_is_said():
    batch = training.poisson_sample(jax.random.key(0), 100, 0.5, 20)
    assert batch.overflow
    assert np.all(batch.mask)


def check_capacity():
    """The smallest with the tail that is asked for, by SciPy."""
    for size, rate, steps, failure in ((10_000, 0.01, 1, 1e-12), (500, 0.2, 100, 1e-6),
                                       (60_000, 0.004, 10_000, 1e-12), (50, 0.5, 1, 1e-3)):
        found = training.capacity(size, rate, steps, failure)
        assert scipy.stats.binom.sf(found, size, rate) * steps <= failure
        assert scipy.stats.binom.sf(found - 1, size, rate) * steps > failure
    assert training.capacity(7, 1.0) == 7


def test_capacity():
    check_capacity()


@pytest.mark.parametrize(
    ("call", "match"),
    [(lambda: training.capacity(10, 0.0), "rate = 0"),
     (lambda: training.capacity(0, 0.5), "size = 0"),
     (lambda: training.capacity(10, 0.5, failure=0.0), "failure = 0"),
     (lambda: training.capacity(10, 0.5, steps=0), "steps = 0"),
     (lambda: training.poisson_sample(jax.random.key(0), 10, 1.5, 10), "rate = 1.5"),
     (lambda: training.poisson_sample(jax.random.key(0), 10, np.nan, 10), "rate = nan")],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_capacity_while_tracing():
    """A training that is traced as a whole asks for it in the middle."""
    assert jax.jit(lambda x: x + training.capacity(1000, 0.01))(0) == training.capacity(1000, 0.01)
