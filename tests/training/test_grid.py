"""DP-SGD in whole numbers: sensitivity in exact arithmetic, the law of a release, and the attack on
last digits that it withstands.
"""

import math
import os
import subprocess
import sys
from fractions import Fraction
from importlib.metadata import version

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

from jaxpriv import random, random_grid, training
from jaxpriv.training import clipping, drawn_grid, grid
from jaxpriv.training.drawn_grid import grid_delta
from tests.command import ROOT
from tests.slips import check_is_red
from tests.training.test_clipping import SIZE, flat, loss, problem

KEY = jnp.array([1, 2, 3, 4], jnp.uint32)
SETTINGS = {"clip_norm": 0.3, "noise_multiplier": 1.5, "bits": 18}
UNIT = 0.3 * 1.5 * 2.0**-18


def whole(tree):
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)])


def check_sum(**given):
    """Each example's clipped gradient, rounded towards zero, as `clipped_sum` has it alone."""
    parameters, examples = problem(jnp.float32)
    mask = given.get("mask", np.ones(SIZE, bool))
    found = training.clipped_sum_on_grid(loss, parameters, examples, **SETTINGS, **given)
    want = 0
    for i in range(SIZE):
        row = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], examples)
        alone = training.clipped_sum(loss, parameters, row, clip_norm=0.3, mask=mask[i : i + 1],
                                     per_layer=given.get("per_layer", False)).total
        want = want + np.trunc(whole(alone).astype(float) / UNIT)
    total = whole(found.total)
    assert total.dtype == np.int32
    assert np.max(np.abs(total - want)) <= SIZE * (1 + 1e-6 * 2**18)
    assert np.max(np.abs(want)) > 10**4
    assert found.non_finite == 0


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"microbatch": 4}, {"per_layer": True, "microbatch": 1},
                                   {"mask": np.arange(SIZE) % 3 != 0},
                                   {"per_layer": training.Groups(str, {"['w']": .8, "['b']": .6})}])
def test_sum(given):
    check_sum(**given)


def test_order_and_microbatches_change_nothing():
    """Not one bit: sums of floats would differ."""
    parameters, examples = problem(jnp.float32)
    order = np.random.default_rng(0).permutation(SIZE)
    shuffled = jax.tree.map(lambda leaf: leaf[order], examples)
    found = [whole(training.clipped_sum_on_grid(loss, parameters, rows, microbatch=m, **SETTINGS
                                                ).total)
             for rows, m in ((examples, 3), (shuffled, 3), (shuffled, 4))]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def linear(parameters, example, key):
    """Its gradient is the example."""
    del key
    return sum(jax.tree.leaves(jax.tree.map(lambda p, g: jnp.sum(p * g), parameters, example)))


def wild():
    """(name, gradient of two arrays) of lengths around the clipping norm and far from it."""
    generator = np.random.default_rng(5)
    shapes = (1,), (4099,)
    for scale in (1e-45, 1e-42, 1e-38, 1e-30, 1e-12, 1e-3, 1.0, 1e3, 1e18, 1e30, 1e36, 1e38):
        yield f"normal {scale}", [generator.normal(size=shape) * scale for shape in shapes]
        yield f"equal {scale}", [np.full(shape, scale) for shape in shapes]
        yield f"one entry {scale}", [np.full(1, scale), np.zeros(4099)]
        yield f"powers {scale}", [np.ones(1) * scale, 2.0 ** -np.arange(4099.0) * scale]
    for ulp in range(-3, 4):  # next to the norm
        near = np.full(4099, 0.7 / math.sqrt(4099) * (1 + ulp * 2.0**-24))
        yield f"near {ulp}", [np.zeros(1), near]
        yield f"nearer {ulp}", [np.full(1, 0.7 * (1 - 1e-5 + ulp * 2.0**-24)), np.zeros(4099)]
    for bad in (np.nan, np.inf, -np.inf, 3e38):
        yield f"{bad}", [np.full(1, bad), np.ones(4099)]
        yield f"all {bad}", [np.ones(1), np.full(4099, bad)]


def is_within(total, noise_multiplier, bits):
    """|k| <= 2^bits/noise, in exact arithmetic, of the float64 noise and of its float32."""
    square = sum(int(k) ** 2 for k in whole(total))
    noises = Fraction(noise_multiplier), Fraction(float(np.float32(noise_multiplier)))
    return all(square * noise**2 <= Fraction(4) ** bits for noise in noises)


def test_rows_one_by_one_are_rows_at_once():
    """On a CPU, and elsewhere; whatever the mode."""
    random = np.random.default_rng(0)
    flat = [jnp.asarray(random.normal(size=(7, n)), jnp.float32) for n in (5, 1, 40)]
    scale = jnp.asarray(random.uniform(0, 1e6, (7, 3)), jnp.float32)
    for wide in (False, True):
        with jax.enable_x64(wide):
            both = [sums(flat, scale) for sums in (grid._sum_at_once, grid._sum_by_rows)]
        for one, other in zip(*both):
            assert one.dtype == other.dtype == jnp.int32
            np.testing.assert_array_equal(one, other)


def check_sensitivity():
    for clip_norm, noise, bits in ((0.7, 1.1, 20), (1e-15, 0.3, 22), (1e15, 37.0, 24),
                                   (1e-5, 1e-3, 12), (0.7, 1.1, 8)):
        for per_layer in (False, True):
            summed = jax.jit(lambda rows, c, per_layer=per_layer, noise=noise, bits=bits:
                             training.clipped_sum_on_grid(
                                 linear, [jnp.zeros(1), jnp.zeros(4099)], rows, clip_norm=c,
                                 noise_multiplier=noise, bits=bits, per_layer=per_layer))
            longest = 0
            for name, gradient in wild():
                scale = clip_norm / 0.7 if "near" in name else 1.0
                with np.errstate(over="ignore"):
                    rows = [jnp.asarray((part * scale)[None], jnp.float32) for part in gradient]
                found = summed(rows, jnp.float32(clip_norm))
                assert is_within(found.total, noise, bits), name
                longest = max(longest, float(np.linalg.norm(whole(found.total).astype(float))))
                if "inf" in name or "nan" in name:
                    assert not np.any(whole(found.total)), name
            assert longest * noise / 2.0**bits > 0.99  # nothing is given away


@pytest.mark.slow
def test_sensitivity():
    check_sensitivity()


def to_nearest(rows, scale):
    return jnp.round(rows * scale).astype(jnp.int32)


@pytest.mark.slow
def test_rounding_to_nearest_is_seen(monkeypatch):
    """Many entries of half a cell become longer together."""
    check_is_red(monkeypatch, grid, "_rounded", to_nearest, check_sensitivity)


def test_a_forgotten_margin_is_seen(monkeypatch):
    check_is_red(monkeypatch, clipping, "MARGIN", -1e-7, check_sensitivity)


@pytest.mark.slow
@pytest.mark.optimized
def test_sensitivity_of_many_parameters():
    """2^26 equal entries, of which a sum in float32, one by one, would stop at 2^24."""
    dim = 2**26
    bits = training.grid_bits(1.0, 2, dim)

    @jax.jit
    def summed(rows):
        found = training.clipped_sum_on_grid(
            lambda p, x, _: jnp.sum(p * x), jnp.zeros(dim, jnp.float32), rows, clip_norm=1.0,
            noise_multiplier=1.0, bits=bits)  # fmt: skip
        return found.total.min(), found.total.max()

    for value in (2.0**-13, 2.0**-13 * (1 - 2.0**-20), 1e-3, 1.0, 1e30):
        low, high = (int(end) for end in summed(np.full((1, dim), value, np.float32)))
        assert low == high > 0
        assert high**2 * dim <= 4**bits


def test_no_second_array_of_all_gradients():
    """Beside the gradients themselves a sum needs less than a few rows; jaxlib 0.8 also the squares
    of all in float64.
    """
    rows, dim, arrays = 64, 10_000, 3.1 if version("jaxlib").startswith("0.8.") else 1.3
    program = jax.jit(lambda gradients: training.clipped_sum_on_grid(
        lambda p, x, _: jnp.sum(p * x), jnp.zeros(dim, jnp.float32), gradients,
        **SETTINGS)).lower(jax.ShapeDtypeStruct((rows, dim), jnp.float32)).compile()  # fmt: skip
    assert program.memory_analysis().temp_size_in_bytes < arrays * rows * dim * 4


def check_mean():
    """The law of the release in its cells, around the sum."""
    total = {"a": jnp.full((300, 200), 4096, jnp.int32), "b": jnp.arange(60_000, dtype=jnp.int32)}
    got = training.private_mean_on_grid(KEY, total, clip_norm=0.5, noise_multiplier=3.0, bits=12,
                                        expected_batch_size=20.0)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(got))
    noise = whole(got).astype(float) * 20 / (1.5 * 2.0**-12) - 0.5 - whole(total)
    assert np.max(np.abs(noise - np.round(noise))) < 0.02
    noise = (np.round(noise) + 0.5) / 2**12
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    ends = np.arange(-24, 25) / 8
    expected = noise.size * np.diff(scipy.stats.norm.cdf([-np.inf, *ends, np.inf]))
    counts = np.histogram(noise, [-np.inf, *ends, np.inf])[0]
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-5
    first, second = np.split(noise, 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(first.size)


@pytest.mark.slow
def test_mean():
    check_mean()


def last_digits(releases):
    """An attack: 1 where a release between -1/2 and 1/2 has digits below 2^-24, which no sum of 1
    and a float32 has.
    """
    exact = np.asarray(releases, np.float64) * 2.0**24
    return (np.abs(releases) < 0.5) & (exact != np.floor(exact))


def check_attack():
    """The sum is 0 or 1, the noise 1: normal noise in float32 proves that it is 0, a quarter of
    the time; noise on the grid never does, and has the same last digits either way.
    """
    size = 100_000
    naive = [s + random.normal(jax.random.key(3), (size,), jnp.float32) for s in (0, 1)]
    assert last_digits(naive[0]).mean() > 0.2
    assert not last_digits(naive[1]).any()
    both = [training.private_mean_on_grid(
        random.fold_words(KEY, s), jnp.full(size, s << 20, jnp.int32), clip_norm=1.0,
        noise_multiplier=1.0, bits=20, expected_batch_size=1) for s in (0, 1)]  # fmt: skip
    whole_numbers = [np.asarray(values, float) * 2**20 - 0.5 for values in both]
    digits = [np.bincount(np.floor(values[np.abs(values) < 2**19]).astype(int) & 255,
                          minlength=256) for values in whole_numbers]
    assert scipy.stats.chi2_contingency(digits).pvalue > 1e-5
    assert last_digits(both[0]).any() == last_digits(both[1]).any()


@pytest.mark.slow
def test_attack():
    check_attack()


PROGRAM = """
import jax, numpy as np, sys, jax.numpy as jnp
from functools import partial
from jax.sharding import Mesh, PartitionSpec as P
from jaxpriv import training
mesh = Mesh(np.ravel(jax.devices()), "i")
def local(rows, key):
    found = training.clipped_sum_on_grid(lambda p, x, _: jnp.sum(p * x ** 2), jnp.ones(300), rows,
        clip_norm=0.3, noise_multiplier=1.5, bits=18, microbatch=1)
    return training.private_mean_on_grid(key, jax.lax.psum(found.total, "i"), clip_norm=0.3,
        noise_multiplier=1.5, bits=18, expected_batch_size=8)
step = jax.shard_map(local, mesh=mesh, in_specs=(P("i"), P()), out_specs=P(), check_vma=False)
rows = np.random.default_rng(0).normal(size=(8, 300)).astype(np.float32)
np.save(sys.argv[1], jax.jit(step)(rows, jnp.arange(4, dtype=jnp.uint32)))
"""


@pytest.mark.slow
def test_devices(tmp_path):
    """A step is the same, bit by bit, on one device and on four."""
    for devices in (1, 4):
        environment = {**os.environ, "JAX_PLATFORMS": "cpu",
                       "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
        subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / f"{devices}.npy"],
                       env=environment, cwd=ROOT, check=True)
    np.testing.assert_array_equal(*(np.load(tmp_path / f"{n}.npy") for n in (1, 4)))


@pytest.mark.slow
def test_traced_settings():
    """A schedule's noise, inside a program, is that of numbers."""
    parameters, examples = problem(jnp.float32)

    @jax.jit
    def released(noise, clip_norm):
        total = training.clipped_sum_on_grid(loss, parameters, examples, clip_norm=clip_norm,
                                             noise_multiplier=noise, bits=18).total
        return training.private_mean_on_grid(KEY, total, clip_norm=clip_norm, bits=18,
                                             noise_multiplier=noise, expected_batch_size=4.0)

    total = training.clipped_sum_on_grid(loss, parameters, examples, **SETTINGS).total
    want = training.private_mean_on_grid(KEY, total, **SETTINGS, expected_batch_size=4.0)
    got = released(jnp.float32(1.5), jnp.float32(0.3))
    np.testing.assert_allclose(flat(got), flat(want), rtol=1e-6, atol=4 * UNIT)


def check_bits():
    for noises, capacity, dim in ((1.0, 256, 10**6), ((0.5, 2.0), 4096, 10**6), (30.0, 7, 10),
                                  (0.6, 10**5, 10**3)):
        bits = training.grid_bits(noises, capacity, dim)
        least, most = np.min(noises), np.max(noises)
        fits = [(capacity / least + 12) * 2.0**b + 1 < 2**31 for b in (bits, bits + 1)]
        assert fits[0]
        assert bits == 24 or not fits[1]
        assert math.sqrt(dim) * most * 2.0**-bits <= 1 / 8


def test_bits():
    check_bits()
    with pytest.raises(ValueError, match=r"capacity = 1,000,000 rows leave 11 bits"):
        training.grid_bits(1.0, 10**6, 10**6)
    with pytest.raises(ValueError, match="leave -"):
        training.grid_bits(1e-15, 10, 10)


def check_delta():
    """Against a derivation by parts, and the exact total variation of one entry."""
    for epsilon in (0.0, 1.0, 5.0):
        a = 3 * 10**7 * 2.0**-93
        beyond = 3 * 10**7 * random_grid.BEYOND * math.exp(epsilon)
        got = grid_delta(epsilon, 10**6, [(2.0, 10), (1.0, 20)])
        assert got == pytest.approx(2 * a + beyond, rel=1e-6, abs=0)
    at_most = 10**6 * (10 * math.exp(-(11.5**2) / 2) + 20 * math.exp(-(11.0**2) / 2))
    got = grid_delta(math.inf, 10**6, [(2.0, 10), (1.0, 20)])
    assert got == pytest.approx(at_most + 6 * 10**7 * 2.0**-93, rel=1e-6, abs=0)
    assert grid_delta(math.inf, 1, [(0.08, 1)]) == 1
    # one entry, displaced by s: hockey-stick divergence of the laws cut off at 12
    with mpmath.workdps(40):
        for s, epsilon in ((1.0, 0.0), (1.0, 3.0), (3.0, 40.0)):
            t = epsilon / s + s / 2  # the loss s x - s^2/2 is above epsilon from here on
            upper = [mpmath.ncdf(12 - s) if t < 12 else mpmath.mpf(0), mpmath.ncdf(12)]
            inside = (upper[0] - mpmath.ncdf(t - s)) - mpmath.exp(epsilon) * (
                upper[1] - mpmath.ncdf(t)) if t < 12 else mpmath.mpf(0)
            cut = inside + mpmath.ncdf(s - 12)
            ideal = mpmath.ncdf(s - t) - mpmath.exp(epsilon) * mpmath.ncdf(-t)
            assert cut - ideal <= grid_delta(epsilon, 1, [(1 / s, 1)])


def test_delta():
    check_delta()


def half_the_delta(*given, true=grid_delta):
    return true(*given) / 2


SLIPS = {
    "sums of floats": ("clipped_sum_on_grid", lambda *given, bits, noise_multiplier, **rest:
                       training.clipped_sum(*given, **rest), check_sum),
    "a bit too many": ("grid_bits", lambda *given, true=training.grid_bits: true(*given) + 1,
                       check_bits),
    "noise not divided": ("private_mean_on_grid", lambda *given, true=training.private_mean_on_grid,
                          **rest: true(*given, **{**rest, "expected_batch_size": 1.0}), check_mean),
    "half the noise": ("private_mean_on_grid", lambda *given, true=training.private_mean_on_grid,
                       **rest: jax.tree.map(lambda mean, total: mean / 2 + total * 1.5 / 2**13 / 20,
                                            true(*given, **rest), given[1]), check_mean),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    attribute, wrong, check = SLIPS[name]
    check_is_red(monkeypatch, training, attribute, wrong, check)


def test_half_the_delta_is_seen(monkeypatch):
    check_is_red(monkeypatch, sys.modules[__name__], "grid_delta", half_the_delta, check_delta)


def test_normal_noise_is_attacked(monkeypatch):
    """`check_attack` notices noise in floats."""
    def floats(words, total, *, expected_batch_size, **_):
        key = random.key_of(words[:2])
        return total / jnp.float32(2**20) + random.normal(key, total.shape, jnp.float32)

    check_is_red(monkeypatch, training, "private_mean_on_grid", floats, check_attack)


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"clip_norm": 0.0}, "clip_norm = 0"), ({"clip_norm": np.nan}, "clip_norm = nan"),
     ({"noise_multiplier": 0.0}, "noise_multiplier = 0"), ({"bits": 25}, "bits = 25"),
     ({"noise_multiplier": -1.0}, "noise_multiplier = -1"), ({"bits": 1.5}, "bits = 1.5"),
     ({"noise_multiplier": 1e-3, "bits": 20}, "may not fit"), ({"bits": True}, "bits = True")],
)  # fmt: skip
def test_errors(settings, match):
    parameters, examples = problem()
    settings = {**SETTINGS, **settings}
    with pytest.raises(ValueError, match=match):
        training.clipped_sum_on_grid(loss, parameters, examples, **settings)
    if "fit" not in match:
        with pytest.raises(ValueError, match=match):
            training.private_mean_on_grid(
                KEY, jnp.zeros(3, jnp.int32), expected_batch_size=1, **settings)  # fmt: skip


def test_more_errors():
    parameters, examples = problem()
    with pytest.raises(ValueError, match="leading"):
        training.clipped_sum_on_grid(loss, parameters, {**examples, "y": np.zeros(3)}, **SETTINGS)
    with pytest.raises(ValueError, match="microbatch = 5"):
        training.clipped_sum_on_grid(loss, parameters, examples, microbatch=5, **SETTINGS)
    for key, total, batch, match in (
        (jax.random.key(0), jnp.zeros(3, jnp.int32), 1, "words is key"),
        (KEY, jnp.zeros(3), 1, "total has float"), (KEY, [1, 2], 1, "total has int"),
        (KEY, jnp.zeros(3, jnp.int32), 0, "expected_batch_size = 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            training.private_mean_on_grid(key, total, expected_batch_size=batch, **SETTINGS)
    for given, match in (((0.0, 1, 1), "noise_multipliers = 0"), ((1.0, 0, 1), "capacity = 0"),
                         ((1.0, 1, 0), "dim = 0"), ((np.nan, 1, 1), "noise_multipliers = nan")):
        with pytest.raises(ValueError, match=match):
            training.grid_bits(*given)
    assert drawn_grid.grid_delta(0.0, 1, [(1.0, 1)]) > 0
