"""Normal random numbers: from bits against mpmath, tails against binomial limits."""

import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats
from jax.extend.random import threefry_2x32

from jaxpriv import random
from tests.command import ROOT
from tests.slips import check_is_red

CHUNK = 10**7
STEP, BINS = 8, 128  # of the histogram: eighths of a standard deviation, from -8 to 8


def exact(words, width, shift=(0.5, 0.5)):
    """The pair of four words in 60 digits; shift: where in their cells U and Theta are."""
    a, b, c, d = (int(word) for word in words)
    with mpmath.workdps(60):
        k, cells = (a << 2 * width) + (b << width) + c, mpmath.mpf(2) ** (3 * width)
        below = (k + mpmath.mpf(shift[0])) / cells
        above = (2 ** (3 * width) - k - mpmath.mpf(shift[0])) / cells
        radius = mpmath.sqrt(-2 * (mpmath.log1p(-above) if a >> (width - 1) else mpmath.log(below)))
        phi = (d % 2 ** (width - 3) + mpmath.mpf(shift[1])) * mpmath.pi / 4 / 2 ** (width - 3)
        pair = [mpmath.cos(phi), mpmath.sin(phi)]
        if d >> (width - 3) & 1:
            pair.reverse()
        if d >> (width - 1):
            pair[0] = -pair[0]
        if d >> (width - 2) & 1:
            pair[1] = -pair[1]
        return [radius * value for value in pair]


def extreme_words(width):
    """Zeros, ones, single bits and zeros, the branch at sqrt(1/2), random ones at every depth."""
    unsigned = np.uint32 if width == 32 else np.uint64
    ones, generator = 2**width - 1, np.random.default_rng(0)
    found = [[0] * 4, [ones] * 4]
    for place in range(4):
        for bit in range(width):
            single = [0] * 4
            single[place] = 1 << bit
            found += [single, [ones ^ word for word in single]]
    edge = int(mpmath.floor(mpmath.sqrt(mpmath.mpf(0.5)) * 2**width))
    found += [[edge + i, 0, 0, 1 << (width - 3)] for i in (-1, 0, 1)]
    for depth in range(2 * width):
        u = int.from_bytes(generator.bytes(3 * width // 8), "little") >> depth
        angle = int.from_bytes(generator.bytes(width // 8), "little")
        words = [u >> 2 * width, u >> width & ones, u & ones, angle]
        found += [words, [*(ones ^ word for word in words[:3]), words[3]]]
    return np.array(found, unsigned).T


def check_bits(width):
    words = extreme_words(width)
    with jax.enable_x64(width == 64):
        got = np.asarray(random.from_words(*words))
    assert got.dtype == (np.float32 if width == 32 else np.float64)
    allowed = 2.0**-21.5 if width == 32 else 2.0**-50
    for column in range(words.shape[1]):
        for value, true in zip(got[:, column], exact(words[:, column], width)):
            assert abs(mpmath.mpf(float(value)) - true) <= allowed * abs(true), words[:, column]


@pytest.mark.parametrize("width", [32, 64])
def test_bits_to_numbers(width):
    check_bits(width)


def test_ends():
    """The largest numbers are sqrt(2 (3W + 1) log 2); nothing is infinite, and nothing is zero."""
    for width, unsigned in ((32, np.uint32), (64, np.uint64)):
        with jax.enable_x64(width == 64):
            x, y = random.from_words(*np.zeros((4, 1), unsigned))
            least = random.from_words(*np.array([[2**width - 1]] * 3 + [[0]], unsigned))
        assert float(x[0]) == pytest.approx(np.sqrt(2 * (3 * width + 1) * np.log(2)), rel=1e-6)
        assert 0 < float(y[0]) < 1e-7
        assert 0 < float(least[1][0]) < float(least[0][0]) < 1e-14


def test_distance_from_an_ideal_draw():
    """|drawn - X| <= 2^-21 |X| + 2^-26, wherever in their cells U >= 2^-80 and Theta are."""
    words = extreme_words(32)
    got = np.asarray(random.from_words(*words), float)
    beyond = 0
    for column in range(words.shape[1]):
        a, b, c, _ = (int(word) for word in words[:, column])
        if (a << 64) + (b << 32) + c < 2**16:
            beyond += 1
            continue
        for shift in ((1e-9, 1e-9), (1e-9, 1), (1 - 1e-9, 1e-9), (1 - 1e-9, 1)):
            for value, true in zip(got[:, column], exact(words[:, column], 32, shift)):
                assert abs(value - float(true)) <= 2.0**-21 * abs(float(true)) + 2.0**-26
    assert beyond > 10


def test_threefry_is_that_of_jax():
    key = jax.random.key_data(jax.random.key(5))
    low = jnp.arange(1000, dtype=jnp.uint32)
    for high in (0, 3):
        counts = jnp.concatenate([jnp.full_like(low, high), low])
        ours = jnp.concatenate(random._threefry(key, high, low))
        np.testing.assert_array_equal(ours, threefry_2x32(key, counts))


def histogram(normal, chunks, size=CHUNK):
    """(counts in eighths from -8 to 8, smallest, largest) of so many chunks, one in memory."""
    @jax.jit
    def whole(key):
        def chunk(i, state):
            counts, low, high = state
            x = normal(jax.random.fold_in(key, i), (size,), jnp.float32)
            place = jnp.clip(jnp.floor(x * STEP).astype(jnp.int32) + BINS // 2, 0, BINS - 1)
            return counts.at[place].add(1), jnp.minimum(low, x.min()), jnp.maximum(high, x.max())

        start = jnp.zeros(BINS, jnp.uint32), jnp.float32(0), jnp.float32(0)
        return jax.lax.fori_loop(0, chunks, chunk, start)

    counts, low, high = whole(jax.random.key(11))
    return np.asarray(counts, np.int64), float(low), float(high)


def check_tails(counts):
    """Counts beyond every edge within binomial limits of 1e-7; chi-square where 20 are expected."""
    n, edges = counts.sum(), (np.arange(1, BINS) - BINS // 2) / STEP
    lower, upper = np.cumsum(counts)[:-1], np.cumsum(counts[::-1])[-2::-1]
    for beyond, edge in ((lower, edges), (upper, -edges)):
        law = scipy.stats.binom(n, scipy.stats.norm.cdf(edge))
        assert np.all(law.cdf(beyond) > 1e-7)
        assert np.all(law.sf(beyond - 1) > 1e-7)
    expected = n * np.diff(scipy.stats.norm.cdf([-np.inf, *edges, np.inf]))
    many = expected > 20
    observed, expected = ([*seen[many], seen[~many].sum()] for seen in (counts, expected))
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-6


def test_secret_keys_differ_in_both_words():
    found = np.array([jax.random.key_data(random.secret_key()) for _ in range(64)])
    assert len(np.unique(found[:, 0])) == len(np.unique(found[:, 1])) == 64
    assert random.normal(random.secret_key()).shape == ()


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.checkpoint])
def test_no_secret_is_a_constant_of_a_program(transform):
    program = transform(lambda x: x + random.normal(random.secret_key()))
    if transform is jax.vmap:  # runs each time, and draws anew
        assert program(jnp.zeros(2))[0] != program(jnp.zeros(2))[0]
    else:
        with pytest.raises(ValueError, match="constant"):
            program(jnp.zeros(2))


@pytest.mark.slow
def test_tails():
    check_tails(histogram(random.normal, 2)[0])


@pytest.mark.slow
@pytest.mark.optimized
def test_billion():
    """1e9 draws: 76 of them above 5.25, where `jax.random.normal` has none."""
    counts, low, high = histogram(random.normal, 100)
    assert counts.sum() == 10**9
    check_tails(counts)
    assert high > 5.6
    assert low < -5.6


@pytest.mark.slow
@pytest.mark.optimized
def test_old_noise_is_seen(monkeypatch):
    """3e8 draws tell it: 23 are expected where it has none."""
    check_is_red(monkeypatch, random, "normal", jax.random.normal,
                 lambda: check_tails(histogram(random.normal, 30)[0]))


def pairs(dtype=jnp.float32, count=10**6):
    with jax.enable_x64(dtype == jnp.float64):
        return np.asarray(random.normal(jax.random.key(2), (count, 2), dtype), float).T


def check_moments():
    for dtype in (jnp.float32, jnp.float64):
        x = np.concatenate(pairs(dtype, 500_000))
        for power, mean, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10395)):
            assert abs(np.mean(x**power) - mean) < 5 * np.sqrt((square - mean**2) / x.size)
        assert scipy.stats.kstest(x, "norm").pvalue > 1e-4


@pytest.mark.slow
def test_moments():
    check_moments()


def check_independent():
    """The two of a pair, neighbouring pairs, and signs: 16 by 16 equally likely bins."""
    x, y = pairs()
    for one, other in ((x, y), (x[1:], x[:-1]), (y[1:], x[:-1]), (x**2, y**2)):
        ranks = [(scipy.stats.rankdata(values) - 1) * 16 // values.size for values in (one, other)]
        places = (16 * ranks[0] + ranks[1]).astype(int)
        table = np.bincount(places, minlength=256).reshape(16, 16)
        assert scipy.stats.chi2_contingency(table).pvalue > 1e-4
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(one.size)
    signs = np.bincount(2 * (x > 0) + (y > 0), minlength=4)
    assert scipy.stats.chisquare(signs).pvalue > 1e-4


@pytest.mark.slow
def test_independent():
    check_independent()


SLIPS = {
    "one number for a pair": (lambda x: jnp.repeat(x[:, :1], 2, 1), check_independent),
    "a variance a little too small": (lambda x: 0.99 * x, check_moments),
    "signs shared": (lambda x: jnp.abs(x) * jnp.sign(x[:, :1]), check_independent),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    wrong, check = SLIPS[name]
    true = random.normal
    check_is_red(monkeypatch, random, "normal", lambda *given: wrong(true(*given)), check)


@pytest.mark.slow
def test_transformations():
    """A number is the same alone, among others, in another shape, jitted, mapped, in a loop."""
    key, normal = jax.random.key(4), partial(random.normal, dtype=jnp.float32)
    x = np.asarray(normal(key, (1001,)))
    np.testing.assert_array_equal(normal(key, (7,)), x[:7])
    np.testing.assert_array_equal(normal(key), x[0])
    np.testing.assert_array_equal(normal(key, (7, 11, 13)), x.reshape(7, 11, 13))
    np.testing.assert_allclose(jax.jit(lambda key: normal(key, 1001))(key), x, rtol=1e-6)
    keys = jax.random.split(key, 3)
    alone = [normal(each, (5,)) for each in keys]
    np.testing.assert_allclose(jax.vmap(lambda key: normal(key, (5,)))(keys), alone, rtol=1e-6)
    looped = jax.lax.scan(lambda _, key: (None, normal(key, (5,))), None, keys)[1]
    np.testing.assert_allclose(looped, alone, rtol=1e-6)
    assert normal(key, (0, 3)).shape == (0, 3)


def test_types():
    key = jax.random.key(4)
    wide = random.normal(key, (100,), jnp.float32)
    for dtype in (jnp.bfloat16, jnp.float16):
        np.testing.assert_array_equal(random.normal(key, (100,), dtype), wide.astype(dtype))

    @jax.jit
    def inside(key):
        with jax.enable_x64(True):
            return random.normal(key, (100,), jnp.float64).astype(jnp.float32)

    with jax.enable_x64(True):
        double = random.normal(key, (100,), jnp.float64)
        assert double.dtype == random.normal(key).dtype == jnp.float64
    np.testing.assert_allclose(inside(key), double, rtol=1e-6)
    other = random.normal(jax.random.key(4, impl="rbg"), (10**5,), jnp.float32)
    assert scipy.stats.kstest(np.asarray(other), "norm").pvalue > 1e-4


PROGRAM = """
import jax, numpy as np, sys
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxpriv import random
mesh = Mesh(np.ravel(jax.devices()), "i")
draw = lambda key: random.normal(key, (4000, 3))
split = jax.jit(draw, out_shardings=NamedSharding(mesh, P("i")))(jax.random.key(3))
everywhere = jax.shard_map(draw, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
whole = jax.jit(everywhere)(jax.random.key(3))
np.savez(sys.argv[1], split=split, whole=whole, devices=len(jax.devices()))
"""


@pytest.mark.slow
def test_devices(tmp_path):
    """The same bits on one device and on eight."""
    found = []
    for devices in (1, 8):
        environment = {**os.environ, "JAX_PLATFORMS": "cpu",
                       "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
        subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / f"{devices}.npz"],
                       env=environment, cwd=ROOT, check=True)
        found.append(np.load(tmp_path / f"{devices}.npz"))
        assert found[-1]["devices"] == devices
    for name in ("split", "whole"):
        np.testing.assert_array_equal(found[1][name], found[0]["whole"])


def test_errors():
    with pytest.raises(ValueError, match="not a JAX key"):
        random.normal(jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match="dtype = int32"):
        random.normal(jax.random.key(0), (3,), jnp.int32)
    with pytest.raises(ValueError, match="below 2"):
        random.normal(jax.random.key(0), (2**16, 2**16))
