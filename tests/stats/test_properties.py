"""Properties that hold for every argument: order, complements, round trips,
and batches that equal their elements.
"""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stats.checks import (
    EVERY,
    LAWS,
    OPS,
    SHAPES,
    SIZE,
    columns,
    compiled,
    evaluate,
    full,
    function,
    quantile_references,
    references,
    worst,
)

EPS = np.finfo(np.float64).eps
DEGREES = st.floats(np.log(0.5), np.log(1e7)).map(lambda v: float(np.exp(v)))
NONCENTRALITY = st.one_of(
    st.just(0.0), st.floats(np.log(1e-8), np.log(1e8)).map(lambda v: float(np.exp(v)))
)
SHIFT = st.one_of(
    st.just(0.0), st.floats(np.log(1e-8), np.log(1e4)).map(lambda v: float(np.exp(v)))
)
STRATEGIES = {"df": DEGREES, "nc": NONCENTRALITY, "c": SHIFT}
LOWEST = -1e5  # log probabilities looked at


def shapes_of(law):
    """A strategy for the shapes of a law."""
    return st.tuples(*[STRATEGIES[name] for name in SHAPES[law]])


def grid(law, shapes, reach, count=SIZE):
    """Increasing x around the bulk and far to both sides of it,
    `reach` standard deviations each way.
    """
    steps = np.sinh(np.linspace(-np.arcsinh(reach), np.arcsinh(reach), count))
    if not SHAPES[law] and law != "expon":
        return steps
    if law in ("chi2", "ncx2"):
        df, nc = (*shapes, 0.0)[:2]
        middle, deviation = df + nc, np.sqrt(2 * df + 4 * nc)
    else:
        middle, deviation = (shapes[0] if shapes else 0.0) + 1.0, 1.0
    x = middle + deviation * steps
    low = middle * np.exp(np.linspace(-300, 0, count))
    if np.any(x <= 0):
        return np.where(np.arange(count) % 4 == 0, low, np.where(x > 0, x, low))
    return x


def ordered_grid(law, shapes, reach):
    """The grid, sorted and without repetitions closer than rounding."""
    x = np.sort(grid(law, shapes, reach))
    keep = np.concatenate([[True], np.diff(x) > 1e-9 * np.abs(x[1:])])
    return np.interp(np.arange(SIZE), np.arange(keep.sum()), x[keep]) if keep.sum() < 2 else x[keep]


@pytest.mark.parametrize("law", LAWS)
def test_monotone(law):
    """cdf and its logarithm never fall, sf and its never rise,
    by more than rounding in neighbouring values.
    """

    @given(shapes_of(law), st.floats(1, 100))
    def run(shapes, reach):
        x = ordered_grid(law, shapes, reach)
        for op, sign in (("logcdf", 1), ("cdf", 1), ("logsf", -1), ("sf", -1)):
            value = evaluate(function(law, op), law, x, *shapes)
            assert not np.isnan(value).any()
            slack = (
                1e-12 * np.maximum(1, np.abs(value[:-1]))
                if op.startswith("log")
                else 1e-12 * value[:-1]
            )
            with np.errstate(invalid="ignore"):
                rise = np.where(value[1:] == value[:-1], 0.0, sign * np.diff(value))
            bad = rise < -slack
            assert not bad.any(), (
                law, op, shapes, x[:-1][bad][0], value[:-1][bad][0], value[1:][bad][0],
            )

    run()


@pytest.mark.parametrize("op", ["cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize("law", LAWS)
def test_probabilities(law, op):
    """Never above one, never below zero: the quantiles would refuse them."""

    @given(shapes_of(law), st.floats(1, 100))
    def run(shapes, reach):
        for dtype in (np.float64, np.float32) if op.startswith("log") else (np.float64,):
            value = evaluate(function(law, op), law, grid(law, shapes, reach), *shapes, dtype=dtype)
            assert np.all(value <= (0 if op.startswith("log") else 1)), (
                law,
                op,
                shapes,
                value.max(),
            )
            assert op.startswith("log") or np.all(value >= 0)

    run()


@pytest.mark.parametrize("law", LAWS)
def test_complement(law):
    """sf + cdf = 1."""

    @given(shapes_of(law), st.floats(1, 40))
    def run(shapes, reach):
        x = grid(law, shapes, reach)
        total = evaluate(function(law, "cdf"), law, x, *shapes) + evaluate(
            function(law, "sf"), law, x, *shapes
        )
        worst(law, "cdf + sf", total, np.ones(SIZE), np.full(SIZE, 1e-12), (x, *shapes))

    run()


@pytest.mark.parametrize(("op", "inverse"), [("logsf", "isf_exp"), ("logcdf", "ppf_exp")])
@pytest.mark.parametrize("law", LAWS)
def test_round_trip(law, op, inverse):
    """The quantile of a log probability is where it came from,
    to 1e-10 and to what the rounding of log p leaves.
    """

    @given(shapes_of(law), st.floats(1, 300))
    def run(shapes, reach):
        x = grid(law, shapes, reach)
        log_p = evaluate(function(law, op), law, x, *shapes)
        kept = (log_p <= -1e-290) & (log_p >= LOWEST) & (np.abs(x) > 1e-290)
        back = evaluate(function(law, inverse), law, np.where(kept, log_p, -1.0), *shapes)
        log_pdf = evaluate(function(law, "logpdf"), law, x, *shapes)
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = 4 * EPS * np.abs(log_p) * np.exp(log_p - log_pdf)
        bound = 1e-10 * np.abs(x) + rounding
        worst(law, inverse, back[kept], x[kept], bound[kept],
              [np.broadcast_to(a, x.shape)[kept] for a in (x, *shapes)])

    run()


def some_arguments(law, op, count):
    """A few arguments from the reference points, spread over them."""
    if op in OPS[6:]:
        inputs, _ = quantile_references(law, op)
    else:
        inputs = columns(references(law)[0])
    pick = np.linspace(0, inputs[0].size - 1, count).astype(int)
    return [a[pick] for a in inputs]


def same(got, want):
    """Equal up to the order of a few operations, infinities included."""
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_jit_equals_eager(law, op):
    args = [np.broadcast_to(a, SIZE) for a in full(law, some_arguments(law, op, SIZE))]
    value, _, _ = compiled(law, op)(tuple(args), tuple(np.zeros(SIZE) for _ in args))
    same(np.asarray(value), evaluate(function(law, op), law, *args))


@pytest.mark.parametrize("op", ["logsf", "isf_exp"])
@pytest.mark.parametrize("law", LAWS)
def test_batch_equals_loop(law, op):
    args = some_arguments(law, op, 12)
    batch = evaluate(function(law, op), law, *args)
    loop = [float(function(law, op)(*map(float, point))) for point in zip(*args, strict=True)]
    same(batch, loop)


@pytest.mark.parametrize(
    ("law", "op"), [*[(law, "logcdf") for law in LAWS], ("ncx2", "isf"), ("foldlaplace", "pdf")]
)
def test_vmap_equals_direct(law, op):
    """Mapped over rows of x, the shapes held."""
    args = some_arguments(law, op, 12)
    first, shapes = args[0].reshape(3, 4), [a[0] for a in args[1:]]
    if shapes and op == "isf":
        first = np.linspace(0.1, 0.9, 12).reshape(3, 4)
    mapped = jax.vmap(function(law, op), in_axes=(0, *[None] * len(shapes)))(first, *shapes)
    assert mapped.shape == (3, 4)
    same(np.ravel(mapped), evaluate(function(law, op), law, first, *shapes))


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_broadcast_shapes(law, op):
    """Every argument takes part, and an empty array is one too."""
    count = len(SHAPES[law]) + 3

    def shape(*shapes):
        return jax.eval_shape(
            function(law, op), *[jax.ShapeDtypeStruct(s, np.float64) for s in shapes]
        ).shape

    assert (
        shape(*[tuple(3 if j == i else 1 for j in range(count)) for i in range(count)])
        == (3,) * count
    )
    assert shape((0, 4), *[()] * (count - 1)) == (0, 4)


def test_empty_arrays():
    """Concrete ones, whose range there is nothing to check."""
    for op in ("logsf", "isf"):
        assert function("ncx2", op)(np.zeros((0, 4)), 1.0, np.ones(4)).shape == (0, 4)


@pytest.mark.parametrize(
    ("law", "op"), [*[(law, "logsf") for law in LAWS], ("norm", "ppf"), ("ncx2", "ppf")]
)
def test_broadcasting(law, op):
    """(3, 1) with (4,) gives (3, 4), in the variable, the shapes, loc and scale."""
    column, row = np.array([[0.2], [0.5], [0.8]]), np.array([1.0, 2.0, 3.0, 4.0])
    rest = [row + i for i, _ in enumerate(SHAPES[law])]
    args = (column, *rest, row / 10, np.array(2.0))
    got = function(law, op)(*args)
    assert got.shape == (3, 4)
    same(np.ravel(got), evaluate(function(law, op), law, *args))


def test_two_parameters_broadcast():
    got = function("ncx2", "logsf")(np.full((2, 1, 1), 3.0), np.ones((3, 1)), np.arange(4.0))
    assert got.shape == (2, 3, 4)
