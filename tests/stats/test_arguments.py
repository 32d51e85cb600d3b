"""Arguments: NaN, what lies outside the range, dtypes, Python numbers, float32 accuracy,
and SciPy's names.
"""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.stats.checks import (
    EVERY,
    LAWS,
    LOGS,
    QUANTILES,
    SHAPES,
    SIZE,
    blocks,
    columns,
    evaluate,
    full,
    function,
    names,
    quantile_references,
    references,
    worst,
)

GOOD = {"x": 1.3, "p": 0.3, "logp": -0.8, "df": 3.0, "nc": 2.0, "c": 0.7, "loc": 0.1, "scale": 1.5}
RANGES = {
    "df": ("(0, inf)", (0.0, -1.0, -1e-300, math.inf)),
    "nc": ("[0, inf)", (-0.5, -1e-300, math.inf)),
    "c": ("[0, inf)", (-0.5, -1e-300, math.inf)),
    "scale": ("(0, inf)", (0.0, -2.5, math.inf)),
    "p": ("[0, 1]", (-0.1, 1.1, math.inf, -math.inf)),
    "logp": ("[-inf, 0]", (0.1, 1e-300, math.inf)),
}
BAD = [(law, op, name) for law, op in EVERY for name in names(law, op) if name in RANGES]


def good(law, op):
    """Arguments that are all in range."""
    return [GOOD[name] for name in names(law, op)]


def replaced(law, op, name, value):
    """The good arguments with one replaced."""
    return [value if n == name else GOOD[n] for n in names(law, op)]


def jitted(law, op, *args):
    """The value under jit."""
    _, (part,) = blocks(args)
    return np.asarray(jax.jit(function(law, op))(*part))


# to compile; ncx2 has the same quantiles
LONG = [(law, op) for law in ("chi2", "foldnorm") for op in QUANTILES]
QUICK = [pytest.param(*case, marks=pytest.mark.slow if case in LONG else ()) for case in EVERY]


@pytest.mark.parametrize(("law", "op"), QUICK)
def test_nan_in_nan_out(law, op):
    """One row per argument, and a last row without a NaN."""
    count = len(names(law, op))
    args = np.tile(good(law, op), (count + 1, 1))
    args[np.arange(count), np.arange(count)] = math.nan
    for got in (evaluate(function(law, op), law, *args.T), jitted(law, op, *args.T)[: count + 1]):
        np.testing.assert_array_equal(np.isnan(got), [True] * count + [False])


@pytest.mark.parametrize(("law", "op", "name"), BAD)
def test_out_of_range_raises(law, op, name):
    """Scalars and single entries of arrays, with a message that says what to do."""
    text, values = RANGES[name]
    for value in values:
        with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
            function(law, op)(*replaced(law, op, name, value))
        assert text in str(caught.value)
        assert str(value) in str(caught.value)
        for array in (np.array([GOOD[name], value, GOOD[name]]),
                      jnp.array([[value], [GOOD[name]]])):
            with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
                function(law, op)(*replaced(law, op, name, array))
            assert text in str(caught.value)
            assert str(value) in str(caught.value)


@pytest.mark.parametrize(("law", "op", "name"), BAD)
def test_out_of_range_raises_by_keyword(law, op, name):
    value = RANGES[name][1][0]
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        function(law, op)(**dict(zip(names(law, op), replaced(law, op, name, value), strict=True)))


@pytest.mark.parametrize(("law", "op"), QUICK)
def test_out_of_range_is_nan_under_jit(law, op):
    """Also for a NaN among good neighbours, which keep their values."""
    rows, bad = [good(law, op)], [False]
    for name in names(law, op):
        for value in RANGES.get(name, ("", ()))[1]:
            if value != -1e-300 or name not in ("nc", "c"):
                rows.append(replaced(law, op, name, value))
                bad.append(True)
    rows.append(good(law, op))
    got = jitted(law, op, *columns(rows))[: len(rows)]
    np.testing.assert_array_equal(np.isnan(got), [*bad, False])
    np.testing.assert_allclose(
        got[[0, -1]], evaluate(function(law, op), law, *good(law, op))[0], rtol=1e-13
    )


@pytest.mark.parametrize("op", ["logsf", "isf"])
@pytest.mark.parametrize("law", LAWS)
def test_bad_parameter_beside_a_traced_one_raises(law, op):
    """Under grad in the first argument the others are still concrete."""
    first, *rest = replaced(law, op, "scale", -1.0)
    with pytest.raises(ValueError, match="scale"):
        jax.grad(function(law, op))(first, *rest)


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_dtypes(law, op):
    """The result has the promoted dtype of the arguments:
    Python numbers and integers do not widen the floats.
    """
    f, count = function(law, op), len(names(law, op))

    def dtype(*dtypes):
        return jax.eval_shape(f, *[jax.ShapeDtypeStruct((2,), d) for d in dtypes]).dtype

    for name in (jnp.float32, jnp.float64, jnp.bfloat16, jnp.float16):
        assert dtype(*[name] * count) == name
    assert (
        jax.eval_shape(f, jax.ShapeDtypeStruct((), jnp.float32), *good(law, op)[1:]).dtype
        == jnp.float32
    )
    assert dtype(jnp.float32, *[jnp.int32] * (count - 1)) == jnp.float32
    assert dtype(*[jnp.int32] * count) == jnp.float64
    assert dtype(jnp.float16, *[jnp.float32] * (count - 2), jnp.float64) == jnp.float64


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_numpy_in_numpy_out(law, op):
    """NumPy arrays of any dtype are the float64 numbers that they hold; so are Python's;
    one number comes back as one.
    """
    f = function(law, op)
    rounded = [float(np.float16(value)) for value in good(law, op)]
    want = f(*rounded)
    assert isinstance(want, np.float64)
    for dtype in (np.float16, np.float32, np.float64):
        got = f(*(np.full(3, value, dtype) for value in rounded))
        assert type(got) is np.ndarray
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-14)
        for scalar in (f(*(np.asarray(value, dtype) for value in rounded)),
                       f(*(dtype(value) for value in rounded))):
            assert isinstance(scalar, np.float64)
            np.testing.assert_allclose(scalar, want, rtol=1e-14)
    for listed in (f([rounded[0]] * 3, *rounded[1:]), f(np.full(3, rounded[0]), *rounded[1:])):
        assert type(listed) is np.ndarray
        assert (listed.dtype, listed.shape) == (np.float64, (3,))
        np.testing.assert_allclose(listed, want, rtol=1e-14)


@pytest.mark.parametrize("position", range(3))
def test_jax_anywhere_is_jax_out(position):
    """One JAX array among NumPy's and Python's: a JAX array in the promoted dtype;
    Python numbers do not widen it.
    """
    f, args = function("laplace", "logsf"), [0.7, 0.1, 1.5]

    def given(others, dtype):
        return [jnp.asarray(v, dtype) if i == position else others(v) for i, v in enumerate(args)]

    for others, dtype, promoted in (
        (float, jnp.float32, jnp.float32),
        (float, jnp.float64, jnp.float64),
        (np.float32, jnp.float32, jnp.float32),
        (np.float64, jnp.float32, jnp.float64),
        (lambda v: np.full(2, v, np.float32), jnp.float64, jnp.float64),
    ):
        got = f(*given(others, dtype))
        assert isinstance(got, jax.Array)
        assert got.dtype == promoted
        np.testing.assert_allclose(got, f(*args), rtol=1e-6)


@pytest.mark.parametrize(("law", "op"), [*[(law, "logsf") for law in LAWS], ("norm", "ppf")])
def test_numbers_and_integers(law, op):
    """Python floats, Python integers, lists' worth of NumPy integers,
    and the defaults of loc and scale.
    """
    f, shapes = function(law, op), [2] * len(SHAPES[law])
    first = 1 if op == "logsf" else 0.25
    want = evaluate(f, law, float(first), *map(float, shapes))[0]
    plain = f(first, *shapes)
    assert plain.shape == ()
    assert plain.dtype == jnp.float64
    assert isinstance(plain, np.float64)
    arrays = f(np.array(first), *[np.array(v) for v in shapes])
    named = f(first, *shapes, loc=0, scale=1)
    single = f(jnp.float32(first), *shapes)
    assert isinstance(single, jax.Array)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose([plain, arrays, named], want, rtol=1e-14)
    np.testing.assert_allclose(single, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("law", "op"), [("norm", "logsf"), ("norm", "ppf"), ("ncx2", "logsf"), ("foldlaplace", "isf")]
)
def test_half_precision_values(law, op):
    """The narrow types carry the value of the wider computation, rounded."""
    shapes = [2.0] * len(SHAPES[law])
    first = np.array([0.25, 0.375, 0.75, 0.125])
    want = evaluate(function(law, op), law, first, *shapes)
    for dtype in (jnp.bfloat16, jnp.float16):
        got = function(law, op)(jnp.asarray(first, dtype), *shapes)
        assert got.dtype == dtype
        np.testing.assert_allclose(
            np.asarray(got, np.float64), want, rtol=float(jnp.finfo(dtype).eps), atol=1e-3
        )


def test_without_x64():
    """A user who never enabled float64 gets float64 from Python numbers all the same,
    and good float32 from JAX's.
    """
    want = evaluate(function("ncx2", "logsf"), "ncx2", 5.0, 3.0, 2.0)[0]
    with jax.enable_x64(False):
        plain = function("ncx2", "logsf")(5.0, 3.0, 2.0)
        got = function("ncx2", "logsf")(jnp.asarray(5.0), 3.0, 2.0)
        quantile = function("ncx2", "isf_exp")(jnp.asarray(-20.0), 3.0, 2.0)
    assert isinstance(plain, np.float64)
    np.testing.assert_allclose(plain, want, rtol=1e-14)
    assert isinstance(got, jax.Array)
    assert got.dtype == quantile.dtype == np.float32
    assert abs(float(got) - want) <= 2e-6
    np.testing.assert_allclose(
        quantile, evaluate(function("ncx2", "isf_exp"), "ncx2", -20.0, 3.0, 2.0)[0], rtol=1e-6
    )


def random_rows(law, count=SIZE):
    """df 0.5 to 1e7, nc 0 to 1e8, c 0 to 1e4, x in the bulk and in both tails."""
    rng = np.random.default_rng(7)
    sd = rng.uniform(-12, 12, count) * rng.choice([0.1, 1, 10], count)
    df = np.exp(rng.uniform(np.log(0.5), np.log(1e7), count))
    nc = np.where(
        rng.uniform(size=count) < 0.1, 0, np.exp(rng.uniform(np.log(1e-8), np.log(1e8), count))
    )
    c = np.where(
        rng.uniform(size=count) < 0.1, 0, np.exp(rng.uniform(np.log(1e-8), np.log(1e4), count))
    )
    if law in ("norm", "laplace"):
        return [sd]
    if law == "expon":
        return [np.exp(rng.uniform(-60, 10, count))]
    if law.startswith("fold"):
        return [np.abs(c + sd), c]
    nc = nc if law == "ncx2" else 0 * nc
    x = df + nc + sd * np.sqrt(2 * df + 4 * nc)
    x = np.where(x > 0, x, (df + nc) * np.exp(rng.uniform(-30, 0, count)))
    return [x, df, nc][: len(SHAPES[law]) + 1]


def rounded_to_single(inputs, single=np.float32):
    """The points whose arguments are zero or normal numbers of float32, rounded to it."""
    kept = np.all([(np.abs(a) > 1e-37) & (np.abs(a) < 1e37) | (a == 0) for a in inputs], axis=0)
    return [a[kept].astype(single).astype(np.float64) for a in inputs]


@pytest.mark.parametrize("op", LOGS)
@pytest.mark.parametrize("law", LAWS)
def test_single_precision(law, op):
    """Within 2e-6 of max(1, |log p|) of float64 at the same rounded arguments, down to
    log p = -1e5; never NaN.
    """
    inputs = [
        np.concatenate(pair)
        for pair in zip(columns(references(law)[0]), random_rows(law), strict=True)
    ]
    inputs = rounded_to_single(inputs)
    want = evaluate(function(law, op), law, *inputs)
    got = evaluate(function(law, op), law, *inputs, dtype=np.float32)
    assert got.dtype == np.float32
    assert not np.isnan(got).any()
    deep = (want < -1.1e5) & np.isfinite(want)
    got = np.where(deep, want, got.astype(float))
    worst(law, op + " in float32", got, want, 2e-6 * np.maximum(1, np.abs(want)), inputs)


@pytest.mark.parametrize(
    ("law", "op"), [*[(law, "isf_exp") for law in LAWS if law != "chi2"], ("ncx2", "ppf_exp")]
)
def test_single_precision_quantiles(law, op):
    """The log tail at the quantile found is the one asked for,
    to 2e-6 and to the spacing of float32 there.
    """
    inputs, quantile = quantile_references(law, op)
    kept = (
        (np.abs(quantile) > 1e-30)
        & (np.abs(quantile) < 1e30)
        & (inputs[0] < -1e-30)
        & (inputs[0] > -1.1e5)
    )
    inputs = rounded_to_single([a[kept] for a in inputs])
    got = evaluate(function(law, op), law, *inputs, dtype=np.float32)
    assert got.dtype == np.float32
    assert not np.isnan(got).any()
    x = got.astype(float)
    tail = evaluate(function(law, "logsf" if op == "isf_exp" else "logcdf"), law, x, *inputs[1:])
    slope = np.exp(evaluate(function(law, "logpdf"), law, x, *inputs[1:]) - tail)
    bound = 2e-6 * np.maximum(1, np.abs(inputs[0])) + np.abs(x) * slope * 2.0**-23
    worst(law, op + " in float32", tail, inputs[0], bound, inputs)


@pytest.mark.parametrize("law", LAWS)
def test_single_precision_edges(law):
    """No NaN at zero, at the largest and smallest floats, at infinity, or outside the support."""
    x = np.array(
        [-np.inf, -3e38, -1.0, 0.0, 1e-45, 1.2e-38, 1e-30, 1.0, 1e10, 1e30, 3.4e38, np.inf]
    )
    shapes = {
        "chi2": [(0.5,), (2.0,), (1e7,)],
        "ncx2": [(0.5, 0.0), (2.0, 1e-8), (3.0, 1e8), (1e7, 1e8)],
    }
    for shape in shapes.get(law, [(0.0,), (1e-8,), (1e4,)] if SHAPES[law] else [()]):
        for op in LOGS:
            got = evaluate(function(law, op), law, x, *shape, dtype=np.float32)
            assert not np.isnan(got).any(), (law, op, shape, x[np.isnan(got)])


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_signature(law, op):
    """The variable, SciPy's shapes in SciPy's order, then loc = 0 and scale = 1,
    all of them usable by name.
    """
    parameters = inspect.signature(function(law, op)).parameters
    theirs = getattr(scipy.stats, law, None)
    shapes = tuple((theirs.shapes or "").replace(" ", "").split(",")) if theirs else ("c",)
    assert tuple(parameters) == (names(law, op)[0], *filter(None, shapes), "loc", "scale")
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
    assert [p.default for p in parameters.values()][-2:] == [0, 1]
    assert all(p.default is p.empty for p in list(parameters.values())[:-2])
    assert function(law, op).__doc__
    assert function(law, op).__name__ == op


@pytest.mark.parametrize("law", LAWS)
def test_full_adds_loc_and_scale(law):
    """The helper of these tests passes what the defaults would."""
    args = full(law, (1.0, *[2.0] * len(SHAPES[law])))
    assert args[-2:] == (0.0, 1.0)
    assert len(args) == len(names(law, QUANTILES[0]))
