"""The two executors agree: every function by NumPy and by JAX, in the bulk, in far tails, at ends;
and NumPy compiles nothing.

Both run the same text on IEEE numbers; what differs is the last bits of exp, log, log1p, erf and
fused multiplications, and that XLA takes numbers below the smallest normal one for zero.
"""

import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stats.checks import (
    EVERY,
    LAWS,
    LOGS,
    PLAIN,
    QUANTILES,
    SHAPES,
    SIZE,
    TINY,
    by_jax,
    columns,
    compilations,
    evaluate,
    function,
    references,
    worst,
)

pytestmark = pytest.mark.optimized  # what is compared is what users run

# of each shape the range that the module promises, with the smallest and largest numbers there
# are to compute with
ENDS = {"df": (0.5, 2.0, 7.3, 1e7), "nc": (0.0, 1e-300, 1e-8, 3.0, 1e8),
        "c": (0.0, 1e-300, 1e-8, 1.0, 1e4)}
FIRST = {
    "x": (-math.inf, -1e300, -1.0, -1e-300, 0.0, 1e-307, 1e-300, 1e-10, 1.0, 30.0, 1e7, 1e100,
          1e300, math.inf, math.nan),
    "p": (0.0, 1e-307, 1e-100, 0.3, 1 - 1e-12, 1.0, math.nan),
    "logp": (-math.inf, -1e5, -5000.0, -1.0, -1e-12, -1e-300, 0.0, math.nan),
}
FROM = {"ppf": "p", "isf": "p", "ppf_exp": "logp", "isf_exp": "logp"}


def loguniform(rng, low, high, count):
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def shapes_of(law, rng, count):
    """Random shapes of a law, some of them at the lower end."""
    ranges = {"df": (0.5, 1e7), "nc": (1e-8, 1e8), "c": (1e-8, 1e4)}
    drawn = {name: loguniform(rng, *ranges[name], count) for name in SHAPES[law]}
    at_zero = rng.random(count) < 0.1
    return [
        values if name == "df" else np.where(at_zero, 0.0, values) for name, values in drawn.items()
    ]


def spread(law, op, seed, count=SIZE):
    """Random arguments (x or p, *shapes): of x the bulk,
    both tails to e^-5000 and numbers next to zero.
    """
    rng = np.random.default_rng(seed)
    shapes = shapes_of(law, rng, count)
    if op in QUANTILES:
        log_p = -loguniform(rng, 1e-12, 5000, count)
        return [
            log_p if op.endswith("_exp") else np.exp(-loguniform(rng, 1e-3, 700, count)),
            *shapes,
        ]
    far = rng.uniform(-1, 1, count) * rng.choice([1, 8, 100], count)
    if law in ("chi2", "ncx2"):
        mean = sum(shapes)
        deviation = np.sqrt(2 * shapes[0] + 4 * (shapes[1] if law == "ncx2" else 0.0))
    else:
        mean, deviation = shapes[0] if shapes else 0.0, 1.0 if law.endswith("norm") else 50.0
    x = mean + far * deviation
    if law in ("norm", "laplace"):
        return [x]
    small = (mean + 1) * loguniform(rng, 1e-30, 1, count)
    return [np.where((x > 0) & (rng.random(count) < 0.9), x, small), *shapes]


def ends(law, op):
    """Every combination of the ends of all ranges."""
    combined = itertools.product(FIRST[FROM.get(op, "x")], *(ENDS[name] for name in SHAPES[law]))
    return columns(list(combined))


def agree(law, op, args, loc=0.0, scale=1.0):
    """1e-13 of max(1, |log value|) in the logarithm; of quantiles 1e-12 of themselves and what the
    rounding of p moves them.
    """
    by_numpy, got = (run(function(law, op), law, *args, loc, scale) for run in (evaluate, by_jax))
    standard, other = by_numpy, got  # at loc 0 and scale 1
    if op in QUANTILES:
        standard, other = (by_numpy - loc) / scale, (got - loc) / scale
        # where a quantile passes through zero its digits are those of log p,
        # an ulp of which it moves by sf/pdf
        names = ("logcdf" if op.startswith("ppf") else "logsf", "logpdf")
        log_tail, log_pdf = (
            evaluate(function(law, name), law, standard, *args[1:]) for name in names
        )
        with np.errstate(invalid="ignore"):
            moved = (
                1e-15
                * np.maximum(1.0, np.abs(log_tail))
                * np.exp(np.minimum(log_tail - log_pdf, 700.0))
            )
        bound = 1e-12 * (scale * np.abs(standard) + np.abs(loc)) + scale * np.where(
            np.isfinite(moved), moved, 0.0
        )
    else:
        with np.errstate(divide="ignore"):
            size = np.maximum(1.0, np.abs(by_numpy if op in LOGS else np.log(by_numpy)))
        bound = 1e-13 * np.where(np.isfinite(size), size, 1.0) * (by_numpy if op in PLAIN else 1.0)
        if op == "pdf":
            standard, other = by_numpy * scale, got * scale
    np.testing.assert_array_equal(np.isnan(got), np.isnan(by_numpy))
    # XLA takes the smallest numbers for zero, before they are scaled and after
    lost = [
        (np.abs(first) < TINY) & (np.abs(second) < TINY)
        for first, second in ((standard, other), (by_numpy, got))
    ]
    equal = np.isnan(got) | lost[0] | lost[1]
    worst(law, op, *(np.where(equal, 0.0, value) for value in (got, by_numpy)),
          np.where(equal, 1.0, bound), args)


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_executors_agree(law, op):
    """At the ends of all ranges, at a spread of arguments, at the reference points,
    and moved and scaled.
    """
    args = spread(law, op, 1)
    agree(law, op, args)
    agree(law, op, ends(law, op))
    if op not in QUANTILES:
        agree(law, op, columns(references(law)[0]))
    first = args[0] if op in QUANTILES else 0.3 + 2.5 * args[0]
    agree(law, op, [first, *args[1:]], 0.3, 2.5)
    for scale in (1e-100, 1e100):
        agree(law, op, [args[0] if op in QUANTILES else scale * args[0], *args[1:]], 0.0, scale)


@settings(max_examples=25)
@given(st.sampled_from(EVERY), st.integers(0, 10**6), st.floats(-10, 10), st.floats(-20, 20))
def test_executors_agree_anywhere(case, seed, loc, log_scale):
    """Random arguments of a random function, moved and scaled at random."""
    law, op = case
    scale = float(np.exp(log_scale))
    args = spread(law, op, seed)
    args[0] = args[0] if op in QUANTILES else loc + scale * args[0]
    agree(law, op, args, loc, scale)


@pytest.mark.parametrize("law", LAWS)
def test_one_number_equals_its_entry(law):
    """Python numbers, one after the other, are the entries of the NumPy array,
    to the bit of a loop that ends earlier.
    """
    for op in (*LOGS, *PLAIN, *QUANTILES):
        args = [a[:4] for a in spread(law, op, 2, 8)]
        got = [function(law, op)(*map(float, point)) for point in zip(*args, strict=True)]
        assert all(isinstance(value, np.float64) for value in got)
        np.testing.assert_allclose(got, evaluate(function(law, op), law, *args), rtol=1e-13)


def test_numpy_compiles_nothing():
    """No function traces or compiles for NumPy arrays, Python numbers or lists,
    nor does NumPy warn of infinities.
    """
    with compilations() as found, warnings.catch_warnings():
        warnings.simplefilter("error")
        for law, op in EVERY:
            columns_of = ends(law, op)
            function(law, op)(*columns_of)
            function(law, op)(
                *(np.asarray(column, np.float32) for column in spread(law, op, 3, 8)),
                scale=np.float32(1.5),
            )
            for args in (columns_of, spread(law, op, 3, 8)):
                function(law, op)(*(float(column[-1]) for column in args), loc=1, scale=2)
                function(law, op)(*(list(column) for column in args))
        assert not found, set(found)


def test_compilations_are_seen():
    """The count of the test above counts, and only inside its block."""
    with compilations() as found:
        jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) + 1.25)(jnp.ones(3)))
        assert any("backend_compile" in event for event in found)
        count = len(found)
    jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) + 2.25)(jnp.ones(3)))
    assert len(found) == count
