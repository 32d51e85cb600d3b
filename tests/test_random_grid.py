"""Normal numbers on a grid: tables in exact arithmetic, decisions against mpmath, the law by chi^2,
and the tails by themselves.
"""

import os
import subprocess
import sys
from fractions import Fraction
from functools import cache, partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

from jaxpriv import _grid_tables as tables
from jaxpriv import random, random_grid
from jaxpriv.random_words import AGAIN, threefry
from tests.command import ROOT
from tests.slips import check_is_red

KEY = jnp.array([7, 2, 3, 5], jnp.uint32)
ONES = 2**32 - 1


def density(x):
    """Of |N|, per cell."""
    return mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-x * x / 2) / 32


@cache
def lines():
    return tables.lines()


@cache
def hats():
    """(whole numbers, their sums before each, their scale)."""
    each, scale = tables.hats()
    return each, [0, *map(int, np.cumsum(np.array(each, object)))], scale


def line(cell, f):
    a, b = lines()[cell]
    return (a + 2 * b * (1 - f)) / mpmath.mpf(2**32)


def check_tables():
    """Lines lie below the density, hats above what is left, at ends and in between."""
    each, (hats, scale) = tables.lines(), tables.hats()
    assert 2**128 - 10**4 < sum(hats) < 2**128
    with mpmath.workdps(60):
        for cell in range(tables.CELLS):
            a, b = each[cell]
            for i in range(33):
                f = mpmath.mpf(i) / 32
                above = density((cell + f) / 32) - (a + 2 * b * (1 - f)) / mpmath.mpf(2**32)
                assert 0 < above < hats[cell] / mpmath.mpf(scale), (cell, i)


def test_tables():
    check_tables()


@pytest.mark.parametrize(("part", "wrong"), [(0, 2), (1, 1)])
def test_a_line_too_high_is_seen(part, wrong, monkeypatch):
    true = tables.lines()
    raised = [tuple(v + wrong * (i == part) for i, v in enumerate(pair)) for pair in true]
    check_is_red(monkeypatch, tables, "lines", lambda: raised, check_tables)


def check_alias():
    """Outcomes have exactly the masses that they should, through `from_words` itself."""
    masses = [mass for pair in tables.lines() for mass in pair]
    left = 2**32 - sum(masses)
    assert 2.0**-14.1 < left / 2**32 < 2.0**-14
    thresholds = tables.first().astype(np.int64) >> 10
    slots = np.arange(1024, dtype=np.int64)
    first = np.array([random_grid.from_words(*(jnp.asarray(word, jnp.uint32) for word in (
        slots << 22 | place, np.zeros(1024), np.full(1024, ONES)))) for place in (
            np.maximum(thresholds - 1, 0), np.minimum(thresholds, 2**22 - 1))])  # fmt: skip
    # the same with the first place at its end: only what falls stays where the other one is
    last = np.asarray(random_grid.from_words(*(jnp.asarray(word, jnp.uint32) for word in (
        slots << 22 | np.minimum(thresholds, 2**22 - 1), np.full(1024, ONES), np.zeros(1024)))))
    found = np.zeros(1025, object)
    for slot in range(1024):
        if thresholds[slot]:
            found[slot if first[0, slot] != random_grid._OPEN else -1] += int(thresholds[slot])
            if first[0, slot] != random_grid._OPEN:
                assert first[0, slot] == slot // 2 << 19
        rest = 2**22 - int(thresholds[slot])
        if first[1, slot] == random_grid._OPEN:
            found[-1] += rest
        else:
            cell = int(first[1, slot]) >> 19
            falls = ~int(last[slot]) == cell << 19
            assert falls or ~int(last[slot]) == (cell << 19) + 2**19 - 1
            found[2 * cell + falls] += rest
    assert found[:768].tolist() == masses
    assert found[768:-1].tolist() == [0] * 256
    assert found[-1] == left


def test_alias():
    check_alias()


def test_shifted_outcomes_are_seen(monkeypatch):
    true = tables.alias

    def wrong(masses):
        thresholds, others = true(masses)
        return thresholds, [others[0], *others[:-1]]

    tables.first.cache_clear()
    check_is_red(monkeypatch, tables, "alias", wrong, check_alias)
    tables.first.cache_clear()


def test_places():
    """Even, or the smaller of two; the sign is that of floor."""
    generator = np.random.default_rng(0)
    b, c = generator.integers(0, 2**32, (2, 1000), dtype=np.uint32)
    slot = np.array([2 * 40, 2 * 40 + 1], np.uint32)[:, None]
    r = np.minimum(tables.first()[slot] >> 10, 2**22 - 1) - 1
    even, falling = np.asarray(random_grid.from_words(*map(jnp.asarray, (slot << 22 | r, b, c))))
    one, other = (((word & (2**31 - 1)) >> 12).astype(np.int64) for word in (b, c))
    for found, place in ((even, one), (falling, np.minimum(one, other))):
        whole = (40 << 19) + place
        np.testing.assert_array_equal(found, np.where(b >> 31, -whole - 1, whole))


def chosen(cell, end):
    """The words that choose a cell: the smallest or the largest."""
    sums = hats()[1]
    return tables.words(sums[cell + 1] - 1 if end else sums[cell])


def check_decisions():
    """Words just below and just above the exact probability are told apart."""
    generator, (each, _, scale) = np.random.default_rng(1), hats()
    rows, want = [], []
    cells = [0, 1, 15, 31, 32, 33, 63, 64, 200, 382, 383, *generator.integers(0, 384, 80)]
    with mpmath.workdps(70):
        for n, cell in enumerate(map(int, cells)):
            place = [0, 2**64 - 1, *(int(v) for v in generator.integers(0, 2**63, 2))][n % 4]
            f = (place + mpmath.mpf("0.5")) / 2**64
            left = density((cell + f) / 32) - line(cell, f)
            hat = each[cell] / mpmath.mpf(scale)
            edge = int(mpmath.floor(left / hat * 2**128))
            # what is compared is off by 2^-122 of the density where the cell begins
            off = 2 + int(density(mpmath.mpf(cell) / 32) / hat * 2**6)
            assert off < 2**24
            for u, counts in ((edge - off, True), (edge + off, False)):
                if 0 <= u < 2**128:
                    rows.append([*chosen(cell, n % 2), place >> 32, place & ONES, *tables.words(u),
                                 (n & 1) << 31, 0])
                    whole = (cell << 19) + (place >> 45)
                    want.append((~whole if n & 1 else whole, counts))
    assert sum(counts for _, counts in want) > 60
    drawn, counts = random_grid.candidate(*jnp.asarray(np.array(rows, np.uint32).T))
    np.testing.assert_array_equal(counts, [value for _, value in want])
    np.testing.assert_array_equal(drawn, [value for value, _ in want])


@pytest.mark.slow
def test_decisions():
    check_decisions()


def test_nothing_counts_beyond_the_last_cell():
    row = [ONES] * 4 + [0] * 8
    assert not random_grid.candidate(*jnp.asarray(np.array(row, np.uint32)[:, None]))[1][0]


def eight_digits_less(*given, true=random_grid._times):
    """Products of 120 bits."""
    found = true(*given)
    return [*found[:3], found[3] & np.uint64(0xFFFFFF00)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wrong"), [("_TERMS", 24), ("_times", eight_digits_less)])
def test_lost_digits_are_seen(name, wrong, monkeypatch):
    check_is_red(monkeypatch, random_grid, name, wrong, check_decisions)


def test_constants():
    """`BEYOND` and `RELATIVE` are what the module's derivation says."""
    with mpmath.workdps(40):
        beyond = mpmath.erfc(mpmath.mpf(12) / mpmath.sqrt(2))
        left = 1 - mpmath.mpf(sum(a + b for a, b in tables.lines())) / 2**32
        off = mpmath.mpf(2) ** -121
        relative = off * (1 + mpmath.mpf(2) ** -93) + (beyond + off) / (left - beyond - off)
    assert beyond <= random_grid.BEYOND <= beyond * (1 + 1e-9)
    assert relative <= random_grid.RELATIVE <= 2 * relative
    # Taylor's series of exp(-y): the first term that is left out, for y below 0.375
    assert Fraction(3, 8) ** 28 < Fraction(np.prod(np.arange(1, 29, dtype=object)), 2**128)


def check_law(size=2**20):
    """All cells of coarse grids, and cells of 2^-4 standard deviations of finer ones."""
    for bits in (0, 4, 10, 24):
        x = np.asarray(random.rounded_normal(random.fold_words(KEY, bits), (size,), bits))
        coarse = min(bits, 4)
        cells = np.clip(x >> (bits - coarse), -8 << coarse, (8 << coarse) - 1) + (8 << coarse)
        counts = np.bincount(cells, minlength=16 << coarse)
        with mpmath.workdps(30):
            ends = [mpmath.ncdf(mpmath.mpf(k) / 2**coarse) for k in range(-8 << coarse,
                                                                          (8 << coarse) + 1)]
        expected = np.array([float(b - a) for a, b in zip(ends, ends[1:])]) * size
        many = expected > 20
        seen, law = ([*v[many], v[~many].sum()] for v in (counts, expected / expected.sum() * size))
        assert scipy.stats.chisquare(seen, law).pvalue > 1e-6, bits
        if bits == 24:  # the last digits are even
            for shift in (0, 8, 15):
                digits = np.bincount(x >> shift & 255, minlength=256)
                assert scipy.stats.chisquare(digits).pvalue > 1e-6


@pytest.mark.slow
def test_law():
    check_law()


@pytest.mark.slow
@pytest.mark.optimized
def test_law_of_many():
    check_law(2**25)


def check_rest(size=8_000):
    """What one word leaves open: its own law, eighths of a cell at a time, tails included."""
    entries = jnp.arange(size, dtype=jnp.uint32)
    drawn = np.asarray(random_grid._again(KEY, entries, jnp.ones(size, bool)))
    eighths = np.where(drawn < 0, ~drawn, drawn) >> 16
    counts = np.bincount(eighths, minlength=8 * 384)
    masses = np.array(lines(), float) / 2**32
    ends = np.arange(8 * 384 + 1) / 256
    mass = 2 * (scipy.stats.norm.sf(ends[:-1]) - scipy.stats.norm.sf(ends[1:])).reshape(384, 8)
    f = np.arange(9) / 8
    falling = 1 - (1 - f) ** 2
    left = (mass - masses[:, :1] / 8 - masses[:, 1:] * np.diff(falling)).ravel()
    expected = left / left.sum() * size
    order = np.argsort(expected)
    few = order[: np.searchsorted(np.cumsum(expected[order]), 10)]
    merged = np.array_split(np.setdiff1d(order, few), 100)
    seen = [counts[few].sum(), *(counts[group].sum() for group in merged)]
    law = [expected[few].sum(), *(expected[group].sum() for group in merged)]
    assert scipy.stats.chisquare(seen, law).pvalue > 1e-6
    signs = np.sum(drawn < 0)
    assert abs(signs - size / 2) < 5 * np.sqrt(size) / 2


@pytest.mark.slow
def test_rest():
    check_rest()


def check_first():
    """The number is the first candidate that counts, whatever has been drawn at a time."""
    entries = np.arange(40, dtype=np.uint32)
    attempts = np.arange(40, dtype=np.uint32)[:, None]
    blocks = [threefry(KEY, entries, attempts, block, AGAIN) for block in range(3)]
    drawn, counts = jax.jit(random_grid.candidate)(*(word for block in blocks for word in block))
    assert np.all(np.any(counts, 0))
    expected = np.asarray(drawn)[np.argmax(counts, 0), entries]
    found = random_grid._again(KEY, jnp.asarray(entries), jnp.asarray(entries % 3 > 0))
    np.testing.assert_array_equal(found, np.where(entries % 3 > 0, expected, 0))


@pytest.mark.slow
def test_first(monkeypatch):
    check_first()
    true = random_grid.candidate

    def wrong(*given):
        """The second one that counts, of those of one round."""
        drawn, counts = true(*given)
        return drawn, counts & (jnp.cumsum(counts, 0) != 1 if len(counts) == 8 else True)

    check_is_red(monkeypatch, random_grid, "candidate", wrong, check_first)


def check_tails():
    """From four to twelve standard deviations, by words that choose cells there."""
    generator, size = np.random.default_rng(3), 20_000
    bins = np.zeros(8), np.zeros(8)
    each, _, scale = hats()
    for eighth in range(8):
        cells = np.arange(128 + 32 * eighth, 160 + 32 * eighth)
        weights = np.array([float(Fraction(each[c], each[cells[0]])) for c in cells])
        cell = generator.choice(cells, size, p=weights / weights.sum())
        words = generator.integers(0, 2**32, (12, size), dtype=np.uint32)
        words[:4] = np.array([chosen(c, c % 2) for c in range(cells[0], cells[-1] + 1)],
                             np.uint32)[cell - cells[0]].T
        counts = np.asarray(random_grid.candidate(*jnp.asarray(words))[1])
        with mpmath.workdps(40):
            low, high = (mpmath.mpf(int(end)) / 32 for end in (cells[0], cells[-1] + 1))
            mass = mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))
            mass -= sum(sum(lines()[c]) for c in cells) / mpmath.mpf(2**32)
            share = float(mass * scale / sum(each[c] for c in cells))
        bins[0][eighth], bins[1][eighth] = counts.sum(), share * size
        assert abs(counts.mean() - share) < 5 * np.sqrt(share * (1 - share) / size), eighth
    assert np.all(bins[1] > 100)


@pytest.mark.slow
def test_tails():
    check_tails()


def short(*given, true=random_grid.candidate):
    """Nothing beyond five standard deviations."""
    drawn, counts = true(*given)
    return drawn, counts & (jnp.abs(drawn) < 5 << 24)


def flat(*given, true=random_grid.candidate):
    """Whatever is drawn counts."""
    drawn, counts = true(*given)
    return drawn, jnp.ones_like(counts)


@pytest.mark.parametrize(("wrong", "check"), [(short, check_tails), (flat, check_rest)])
def test_slip_of_the_rest_is_seen(wrong, check, monkeypatch):
    check_is_red(monkeypatch, random_grid, "candidate", wrong, check)


def check_moments():
    x = np.asarray(random.rounded_normal(KEY, (10**6,), 12)) + 0.5
    x = x / 2**12
    for power, mean, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10395)):
        assert abs(np.mean(x**power) - mean) < 5 * np.sqrt((square - mean**2) / x.size)


def test_moments():
    check_moments()


def check_independent():
    """Neighbours, those 256 apart (of a row), steps, and keys of one another's: 16 by 16 bins."""
    x = np.asarray(random.rounded_normal(KEY, (2**19,)))
    other = np.asarray(random.rounded_normal(random.fold_words(KEY, 1), (2**19,)))
    next_one = np.asarray(random.rounded_normal(random.fold_words(KEY, 2), (2**19,)))
    size = np.abs(x)
    for one, two in ((x[1:], x[:-1]), (x[256:], x[:-256]), (size[1:], size[:-1]), (x, other),
                     (other, next_one), (x >> 12, x & 4095)):
        ranks = [(scipy.stats.rankdata(v, "ordinal") - 1) * 16 // v.size for v in (one, two)]
        table = np.bincount((16 * ranks[0] + ranks[1]).astype(int), minlength=256).reshape(16, 16)
        assert scipy.stats.chi2_contingency(table).pvalue > 1e-5


@pytest.mark.slow
def test_independent():
    check_independent()


SLIPS = {
    "a little too narrow": (lambda x: jnp.round(0.99 * x).astype(jnp.int32), check_moments),
    "truncated": (lambda x: jnp.where(x < 0, x + 1, x), check_law),
    "neighbours alike": (lambda x: x.at[1::2].set(x[::2]), check_independent),
    "signs alike": (lambda x: jnp.where(x[:1] < 0, ~jnp.abs(x), jnp.abs(x)), check_moments),
    "last digits missing": (lambda x: x >> 9 << 9, check_law),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    wrong, check = SLIPS[name]
    true = random.rounded_normal
    check_is_red(monkeypatch, random, "rounded_normal", lambda *given: wrong(true(*given)), check)


@pytest.mark.slow
def test_transformations():
    """A number is the same alone, among others, in another shape, on a coarser grid, jitted,
    mapped, in a loop.
    """
    draw = random.rounded_normal
    x = np.asarray(draw(KEY, (100_001,)))
    for size in (0, 257):
        np.testing.assert_array_equal(draw(KEY, size), x[:size])
    np.testing.assert_array_equal(draw(KEY), x[0])
    np.testing.assert_array_equal(draw(KEY, (7, 11, 13)), x[:1001].reshape(7, 11, 13))
    for bits in (0, 23):
        np.testing.assert_array_equal(draw(KEY, (1001,), bits), x[:1001] >> (24 - bits))
    np.testing.assert_array_equal(jax.jit(lambda key: draw(key, 1001))(KEY), x[:1001])
    keys = jnp.stack([random.fold_words(KEY, i) for i in range(3)])
    alone = [draw(key, (257,)) for key in keys]
    np.testing.assert_array_equal(jax.vmap(lambda key: draw(key, (257,)))(keys), alone)
    looped = jax.lax.scan(lambda _, key: (None, draw(key, (257,))), None, keys)[1]
    np.testing.assert_array_equal(looped, alone)


@pytest.mark.slow
def test_many_open_in_one_row(monkeypatch):
    """More than are filled in at a time, and several in a row: all come from their own words."""
    true = random_grid.from_words

    def every_third(a, *rest):
        found = true(a, *rest)
        return jnp.where(jax.lax.iota(jnp.uint32, found.size) % 3 == 0, random_grid._OPEN, found)

    whole = np.asarray(random.rounded_normal(KEY, 1000))
    monkeypatch.setattr(random_grid, "from_words", every_third)
    jax.clear_caches()
    found = np.asarray(random.rounded_normal(KEY, 1000))
    monkeypatch.undo()
    jax.clear_caches()
    place = np.arange(1000)
    np.testing.assert_array_equal(found[place % 3 > 0], whole[place % 3 > 0])
    again = random_grid._again(KEY, jnp.asarray(place[::3], jnp.uint32), jnp.ones(334, bool))
    np.testing.assert_array_equal(found[::3], again)
    assert np.all(found != random_grid._OPEN)


PROGRAM = """
import jax, numpy as np, sys, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxpriv import random
mesh = Mesh(np.ravel(jax.devices()), "i")
key = jnp.array([1, 2, 3, 4], jnp.uint32)
draw = lambda key: random.rounded_normal(key, (3000, 3), 20)
split = jax.jit(draw, out_shardings=NamedSharding(mesh, P("i")))(key)
np.savez(sys.argv[1], split=split, devices=len(jax.devices()))
"""


@pytest.mark.slow
def test_devices(tmp_path):
    """The same bits here and split over four devices, of a program without float64."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu",
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "found.npz"], env=environment,
                   cwd=ROOT, check=True)
    found = np.load(tmp_path / "found.npz")
    assert found["devices"] == 4
    key = jnp.array([1, 2, 3, 4], jnp.uint32)
    np.testing.assert_array_equal(found["split"], random.rounded_normal(key, (3000, 3), 20))


@pytest.mark.parametrize(
    ("call", "match"),
    [(partial(random.rounded_normal, jax.random.key(0)), "words is key"),
     (partial(random.rounded_normal, KEY, (3,), 25), "bits = 25"),
     (partial(random.rounded_normal, KEY, (3,), -1), "bits = -1"),
     (partial(random.rounded_normal, KEY, (3,), 1.0), "bits = 1.0"),
     (partial(random.rounded_normal, KEY, (2**16, 2**16)), "below 2")],
)  # fmt: skip
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
