"""The clipping norm finds the quantile, and its count is paid for by the gradients' noise."""

import itertools
import math
import sys
from fractions import Fraction
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from mpmath import mp, mpf

from jaxpriv import worst_case
from jaxpriv.training import adaptive_clipping as module
from jaxpriv.training.adaptive_clipping import AdaptiveClipping, split_noise, split_plan
from tests.slips import check_is_red

PAIRS = [(1.0, 5.0), (0.3, 0.2), (1.0, 0.5 + 1e-9), (7.0, 200.0), (1e-3, 1e3), (50.0, 26.0)]


def check_split():
    """One step at the noise multiplier: certified, never more; and no more noise than that."""
    for noise, std in PAIRS:
        both = worst_case.gaussian_releases([1.0, 0.5], [split_noise(noise, std), std])
        one = worst_case.gaussian(1 / noise)
        # upper bounds of one quantity by two ways, each off by its rounding
        assert both.gdp_mu() <= one.gdp_mu() * (1 + 4e-15)
        assert both.gdp_mu() >= one.gdp_mu() * (1 - 2e-14)
        epsilon = one.epsilon_bounds(1e-5)
        assert both.epsilon_bounds(1e-5)[0] <= epsilon[1]
        assert both.epsilon(1e-5) == pytest.approx(epsilon[1], rel=1e-12)


def test_split():
    check_split()


def test_exactly():
    """In 50 digits: z_g^-2 + (2 sigma)^-2 <= z^-2."""
    with mp.workdps(50):
        for noise, std in PAIRS:
            left = mpf(split_noise(noise, std)) ** -2 + mpf(2 * std) ** -2
            assert mpf(noise) ** -2 * (1 - mpf(10) ** -13) < left <= mpf(noise) ** -2


def test_subsampled_by_composition():
    """At rate 1 many steps of both releases are as many of the one."""
    z, std = 2.0, 3.0
    both = worst_case.gaussian_releases([1.0, 0.5], [split_noise(z, std), std]).compose(30)
    one = worst_case.subsampled_gaussian(z, 1.0, 30)
    assert both.epsilon(1e-6) == pytest.approx(one.epsilon(1e-6), rel=1e-10)


def check_count():
    """Every record moves the count by 1/2, whichever records are there, and padding by nothing."""
    clipping = AdaptiveClipping(1.0, 4.0)
    lengths = [0.5, 1.0, 2.0, np.inf]
    for batch in itertools.product(lengths, repeat=3):
        norms = jnp.array(batch)
        whole = clipping.count(norms, 1.0)
        without = clipping.count(norms, 1.0, jnp.array([True, True, False]))
        assert abs(whole - without) == 0.5
        assert whole == sum(0.5 if length <= 1 else -0.5 for length in batch)


def test_count():
    check_count()


def check_noise():
    clipping = AdaptiveClipping(3.0, 10.0)
    keys = jax.random.split(jax.random.key(1), 2000)
    _, share = jax.vmap(lambda key: clipping.moved(key, jnp.asarray(2.0), 1.0))(keys)
    noise = (np.asarray(share) - 0.7) * 10 / 3
    assert scipy.stats.kstest(noise, "norm").pvalue > 1e-3


def test_noise():
    check_noise()


def check_whole_count():
    """A record moves the count by whole numbers, by 1/(2 std) of its noise at most; which is
    normal, rounded.
    """
    clipping = AdaptiveClipping(3.0, 10.0)
    with jax.enable_x64(True):
        unit = 3.0 * 2.0 ** -clipping.count_bits(100) / 10.0

        def share(words, count):
            return clipping.moved_on_grid(words, jnp.asarray(count), 1.0, 100)[1]

        keys = jax.random.bits(jax.random.key(1), (2000, 4), jnp.uint32)
        of_counts = [np.asarray(jax.vmap(lambda key, c=c: share(key, c))(keys)) for c in (2.0, 2.5)]
    whole = [(shares - 0.5) / unit - 0.5 for shares in of_counts]
    for each in whole:
        np.testing.assert_allclose(each, np.round(each), atol=1e-6)
    moved = set(np.round(whole[1] - whole[0]).astype(int).tolist())
    longest = Fraction(2) ** clipping.count_bits(100) / 6
    assert len(moved) == 1
    assert longest - 1 < moved.pop() <= longest
    assert scipy.stats.kstest((of_counts[0] - 0.7) * 10 / 3, "norm").pvalue > 1e-3


@pytest.mark.slow
def test_whole_count():
    check_whole_count()


def track(clipping, start, steps=400, seed=0):
    """Clipping norms over Poisson samples of lognormal lengths."""

    @jax.jit
    def run(key):
        def step(clip_norm, key):
            drawn, taken, noise = jax.random.split(key, 3)
            norms = jnp.exp(jax.random.normal(drawn, (200,)))
            mask = jax.random.bernoulli(taken, 0.5, (200,))
            clip_norm, _ = clipping.update(noise, norms, clip_norm, mask)
            return clip_norm, clip_norm

        return jax.lax.scan(step, jnp.asarray(start), jax.random.split(key, steps))[1]

    return np.asarray(run(jax.random.key(seed)))


def check_converges(quantile, start):
    norms = track(AdaptiveClipping(5.0, 100.0, quantile), start)
    share = scipy.stats.norm.cdf(np.mean(np.log(norms[200:])))
    assert abs(share - quantile) < 0.03
    assert np.std(np.log(norms[200:])) < 0.15


@pytest.mark.parametrize("start", [1e-3, 1e3])
@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.8])
def test_converges(quantile, start):
    # from far away a step moves by e^(0.2 * 0.2) at least
    check_converges(quantile, start)


def test_stays_in_range():
    clipping = AdaptiveClipping(1.0, 10.0, learning_rate=100.0)
    for count in (1e6, -1e6):
        norm, _ = clipping.moved(jax.random.key(0), jnp.asarray(count), 1.0)
        assert 1e-15 <= norm <= 1e15


def test_plan():
    np.testing.assert_array_equal(split_plan((1.0, 2.0, 1.0), 5.0),
                                  [split_noise(z, 5.0) for z in (1.0, 2.0, 1.0)])


@pytest.mark.parametrize(
    ("call", "match"),
    [(lambda: split_noise(1.0, 0.5), "count_std = 0.5 is outside"),
     (lambda: split_noise(np.nan, 5.0), "noise_multiplier = nan"),
     (lambda: split_noise(0.0, 5.0), "noise_multiplier = 0"),
     (lambda: split_noise(1.0, np.inf), "count_std = inf"),
     (lambda: AdaptiveClipping(1.0, 0.0), "expected_batch_size = 0"),
     (lambda: AdaptiveClipping(1.0, 10.0, quantile=1.0), "quantile = 1"),
     (lambda: AdaptiveClipping(1.0, 10.0, learning_rate=0.0), "learning_rate = 0"),
     (lambda: AdaptiveClipping(1.0, 10.0).count_bits(2**23), "rows = 8388608"),
     (lambda: AdaptiveClipping(1.0, 10.0).moved(jax.random.PRNGKey(0), 0.0, 1.0), "key")],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    def of_whole_count(noise, std):
        """As if a record moved the count by 1."""
        return (noise**-2 - std**-2) ** -0.5 if std > noise else np.inf

    check_is_red(monkeypatch, sys.modules[__name__], "split_noise", of_whole_count,
                 check_split)
    check_is_red(monkeypatch, AdaptiveClipping, "count",
                 lambda self, norms, clip_norm, mask=None: jnp.sum(norms <= clip_norm) * 1.0,
                 check_count)
    check_is_red(monkeypatch, module.random, "normal",
                 lambda key, shape, dtype: jax.random.uniform(key, shape, dtype), check_noise)
    check_is_red(monkeypatch, module, "math", SimpleNamespace(floor=math.ceil), check_whole_count)
    check_is_red(monkeypatch, module.random, "rounded_normal",
                 lambda words, shape, bits: jnp.int32(0), check_whole_count)
    check_is_red(monkeypatch, AdaptiveClipping, "moved",
                 lambda self, key, count, clip_norm, true=AdaptiveClipping.moved:
                 (clip_norm**2 / true(self, key, count, clip_norm)[0], 0.0),
                 lambda: check_converges(0.5, 1.0))
