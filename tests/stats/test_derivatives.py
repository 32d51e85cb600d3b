"""First and second derivatives: forward and reverse, against 130-digit differences,
by the implicit theorem, at edges.

Where the true derivative is infinite: that of log cdf at the lower end of the support; of the log
density of norm and foldnorm at infinity, and of chi2 and ncx2 with df != 2 at zero; of log sf of
norm and foldnorm at infinity; of a quantile at a probability whose end of the support is infinite
or has no density.
"""

import functools
import math

import jax
import numpy as np
import pytest
from mpmath import mp, mpf

from tests import oracles
from tests.stats.checks import (
    EVERY,
    LAWS,
    LOGS,
    OPS,
    QUANTILES,
    SHAPES,
    SIZE,
    TINY,
    blocks,
    columns,
    differentiate,
    function,
    names,
    quantile_references,
    references,
    table,
    worst,
)

LOC, SCALE = 0.3, 1.7
DEEPEST = 1.1e5  # the largest |log p| looked at


def spread_arguments(law, op, count=SIZE):
    """Up to `count` arguments from the reference points, spread over them;
    x and the quantiles away from zero.
    """
    if op in QUANTILES:
        inputs, quantile = quantile_references(law, op)
        keep = (np.abs(quantile) > 1e-8) & (inputs[0] > -DEEPEST)
    else:
        inputs = columns(references(law)[0])
        keep = np.abs(inputs[0]) > 1e-8
    inputs = [a[keep] for a in inputs]
    pick = np.unique(np.linspace(0, inputs[0].size - 1, count).astype(int))
    return [a[pick] for a in inputs]


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_forward_equals_reverse(law, op):
    """In every argument, loc and scale included, which also satisfy their chain rule."""
    first, *shapes = spread_arguments(law, op)
    if op not in QUANTILES:
        first = LOC + SCALE * first
    args = (first, *shapes, LOC, SCALE)
    value, forward, backward = differentiate(law, op, *args)
    assert not np.isnan(value).any()
    extra = {"logpdf": 1 / SCALE, "pdf": value / SCALE}.get(op, 0.0)
    # of terms that cancel at a stationary point
    rounding = 1e-15 * (np.abs(forward).max(1) + np.abs(extra))
    rounding += TINY * (1 + np.abs(first))  # and of what is flushed to zero on the way
    for i, argument in enumerate(names(law, op)):
        want = forward[:, i]
        worst(
            law, f"{op} by {argument}", backward[:, i], want, 1e-11 * np.abs(want) + rounding, args
        )
    by_first, by_loc, by_scale = forward[:, 0], forward[:, -2], forward[:, -1]
    if op in QUANTILES:
        worst(law, f"{op} by loc", by_loc, np.ones_like(value), np.full(value.shape, 1e-14), args)
        worst(law, f"{op} by scale", by_scale, (value - LOC) / SCALE, 1e-11 * np.abs(value) + 1e-14,
              args)
        return
    z = (first - LOC) / SCALE
    worst(law, f"{op} by loc", by_loc, -by_first, 1e-11 * np.abs(by_first) + rounding, args)
    bound = 1e-11 * (np.abs(z * by_first) + np.abs(extra)) + rounding
    worst(law, f"{op} by scale", by_scale, -z * by_first - extra, bound, args)


@functools.lru_cache(None)
def differences(law, args):
    """{op: (gradient, Hessian)} of the three logarithms by central differences of the smaller
    tail in 130 digits.
    """
    with mp.workdps(130):
        at = [mpf(a) for a in args]
        steps = [mpf(10) ** -28 * (abs(a) if a else 1) for a in at]
        axes = range(len(at))

        @functools.lru_cache(None)
        def value(*moves):
            return getattr(oracles, law)(
                *[a + m * h for a, m, h in zip(at, moves, steps, strict=True)]
            )

        def move(*changes):
            return value(*[sum(s for j, s in changes if j == i) for i in axes])

        center = move()
        smaller = "cdf" if center.cdf < center.sf else "sf"
        result = {}
        for op in LOGS:
            name = "pdf" if op == "logpdf" else smaller
            sign = -1 if op != "logpdf" and op != "log" + smaller else 1
            whole = sign * getattr(center, op[3:])

            def part(*changes, name=name):
                return getattr(move(*changes), name)

            first = [(part((i, 1)) - part((i, -1))) / (2 * steps[i]) / whole for i in axes]
            second = {}
            for i in axes:
                bend = (part((i, 1)) - 2 * part() + part((i, -1))) / steps[i] ** 2
                second[i, i] = bend / whole - first[i] ** 2
                for j in range(i):
                    cross = part((i, 1), (j, 1)) - part((i, 1), (j, -1))
                    cross += part((i, -1), (j, -1)) - part((i, -1), (j, 1))
                    second[j, i] = cross / (4 * steps[i] * steps[j]) / whole - first[i] * first[j]
            result[op] = [float(v) for v in first], {key: float(v) for key, v in second.items()}
        return result


def smooth_points(law):
    """Points where the law is smooth (off a kink)
    and differences by a relative step are meaningful.
    """
    if law == "chi2":
        return ()
    rows = [p for p, logs in zip(*references(law), strict=True)
            if max(map(abs, logs)) <= DEEPEST and abs(p[0]) >= 1e-4]
    rows = [p for p in rows if len(p) == 1 or p[1] == 0 or p[1] > 1e-9]
    return [p for p in rows if law != "foldlaplace" or abs(p[0] - p[1]) > 1e-7][::2]


CLOSED = [law for law in LAWS if law not in ("chi2", "ncx2")]


@pytest.mark.parametrize("op", LOGS)
@pytest.mark.parametrize("law", CLOSED)
def test_first_derivatives(law, op):
    """1e-9, and where terms cancel 1e-14 of the derivative's natural unit,
    the root of the curvature.
    """
    rows = smooth_points(law)
    args = columns(rows)
    _, forward, _ = differentiate(law, op, *args)
    for i, argument in enumerate(names(law, op)[:-2]):
        want = np.array([differences(law, row)[op][0][i] for row in rows])
        unit = np.sqrt(np.abs([differences(law, row)[op][1][i, i] for row in rows]))
        bound = 1e-9 * np.abs(want) + 1e-14 * unit + 1e-15
        worst(law, f"{op} by {argument}", forward[:, i], want, bound, args)


@pytest.mark.parametrize("op", LOGS)
def test_central_first_derivatives(op):
    """chi2 against the rows with nc = 0 of the table."""
    rows = [e for e in table("ncx2_extreme") if e["nc"] == 0 and e["x"] > 1e-290]
    args = columns([(e["x"], e["df"]) for e in rows])
    _, forward, _ = differentiate("chi2", op, *args)
    for i, argument in enumerate(("x", "df")):
        want = np.array([float(e["d" + op][i]) for e in rows])
        worst("chi2", f"{op} by {argument}", forward[:, i], want, 1e-9 * np.abs(want) + TINY, args)


@functools.lru_cache(None)
def second_order(law, op):
    """The derivative along given tangents of all reverse derivatives, jitted."""

    def gradient(*args):
        return jax.grad(lambda *a: function(law, op)(*a).sum(), argnums=tuple(range(len(args))))(
            *args
        )

    return jax.jit(lambda point, tangents: jax.jvp(gradient, point, tangents)[1])


def second_derivatives(law, op, *args):
    """Derivative along each argument of each reverse derivative: (n, i, j)."""
    along = second_order(law, op)
    size, parts = blocks(args)
    results = []
    for part in parts:
        axes = range(len(part))
        rows = [along(tuple(part), tuple(np.full(SIZE, float(i == j)) for j in axes)) for i in axes]
        results.append(np.stack([np.stack([np.asarray(v) for v in row], -1) for row in rows], -2))
    return np.concatenate(results)[:size]


def compare_second(law, op, args, first, second, floor=TINY):
    """H = f''/f - g g' loses digits where g g' is far larger than H,
    so the bound has 1e-10 of that beside 1e-8 of H.

    Where H vanishes by symmetry its natural unit, sqrt(H_ii H_jj),
    gives the rounding that is left, 1e-13 of it.
    """
    got = second_derivatives(law, op, *args)
    for (i, j), want in second.items():
        unit = np.sqrt(np.abs(second[i, i] * second[j, j]))
        bound = (
            1e-8 * np.abs(want) + 1e-10 * np.abs(first[:, i] * first[:, j]) + 1e-13 * unit + floor
        )
        if "nc" in SHAPES[law] and i == 0:
            # towards 0 the Bessel term's slope is a difference in nc/x
            bound += 4e-15 * np.maximum(args[2], 1) / args[0]
        for a, b in {(i, j), (j, i)}:
            worst(law, f"{op} by {names(law, op)[a]} and {names(law, op)[b]}", got[:, a, b], want,
                  bound, args)


@pytest.mark.parametrize("op", LOGS)
@pytest.mark.parametrize("law", CLOSED)
def test_second_derivatives(law, op):
    rows = smooth_points(law)
    found = [differences(law, row)[op] for row in rows]
    second = {key: np.array([h[key] for _, h in found]) for key in found[0][1]}
    compare_second(law, op, columns(rows), np.array([g for g, _ in found]), second, floor=1e-15)


PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


@pytest.mark.slow
@pytest.mark.parametrize(("law", "op"), [("chi2", "logsf"), *[("ncx2", op) for op in LOGS]])
def test_second_derivatives_of_chi_square(law, op):
    """Against the table: x, df, nc and mixed, nc = 0 included."""
    rows = [e for e in table("ncx2_extreme")
            if "h" + op in e and e["x"] >= 1e-10 and (law == "ncx2" or e["nc"] == 0)]
    args = columns([(e["x"], e["df"], e["nc"]) for e in rows])[: len(SHAPES[law]) + 1]
    first = np.array([[float(v) for v in e["d" + op]] for e in rows])
    second = {p: np.array([float(e["h" + op][k]) for e in rows]) for k, p in enumerate(PAIRS)
              if max(p) < len(args)}
    compare_second(law, op, args, first, second)


@pytest.mark.parametrize("law", ["norm", "ncx2", "foldnorm"])
def test_jvp_and_grad(law):
    """JAX's own two entry points, at one point: they agree with what the other tests use."""
    point = (1.3, *[2.0] * len(SHAPES[law]))
    _, forward, backward = differentiate(law, "logsf", *point)
    f = function(law, "logsf")
    pushed = jax.jvp(f, point, (1.0,) * len(point))[1]
    pulled = jax.grad(f, argnums=tuple(range(len(point))))(*point)
    np.testing.assert_allclose(pushed, forward[0, : len(point)].sum(), rtol=1e-11)
    np.testing.assert_allclose(pulled, backward[0, : len(point)], rtol=1e-11)


@pytest.mark.parametrize("op", QUANTILES)
@pytest.mark.parametrize("law", LAWS)
def test_implicit_theorem(law, op):
    """dx/dlogp = 1 / (d log tail/dx) and dx/dshape = -(d log tail/dshape) / (d log tail/dx),
    at the quantile found.

    dx/dc is of order one, or odd in c: where it vanishes with c, 1e-14 of one is rounding.
    """
    args = spread_arguments(law, op)
    quantile, forward, _ = differentiate(law, op, *args)
    _, tail, _ = differentiate(
        law, "logcdf" if op.startswith("ppf") else "logsf", quantile, *args[1:]
    )
    want = 1 / tail[:, 0] / (1 if op.endswith("_exp") else args[0])
    worst(law, f"{op} by {names(law, op)[0]}", forward[:, 0], want, 1e-9 * np.abs(want), args)
    for i, argument in enumerate(SHAPES[law], 1):
        want = -tail[:, i] / tail[:, 0]
        rounding = 1e-14 if argument == "c" else TINY
        worst(law, f"{op} by {argument}", forward[:, i], want, 1e-9 * np.abs(want) + rounding, args)


@pytest.mark.parametrize("law", ["norm", "expon", "foldlaplace", "ncx2"])
def test_second_derivatives_of_quantiles(law):
    """With F(x, t) = log p held: x_ij = -(F_xx x_i x_j + F_xi x_j + F_xj x_i + F_ij) / F_x,
    F_p = -1 and flat.
    """
    shapes = {"ncx2": (3.0, 2.5), "foldlaplace": (1.3,)}.get(law, ())
    log_p = np.array([-1e-6, -0.01, -0.3, -0.9, -3.0, -40.0, -900.0])
    args = [np.broadcast_to(a, log_p.shape) for a in (log_p, *shapes)]
    quantile, forward, _ = differentiate(law, "isf_exp", *args)
    got = second_derivatives(law, "isf_exp", *args)
    _, tail, _ = differentiate(law, "logsf", quantile, *args[1:])
    bends = second_derivatives(law, "logsf", quantile, *args[1:])
    for i in range(len(args)):
        for j in range(len(args)):
            xi, xj, f_x = forward[:, i], forward[:, j], tail[:, 0]
            terms = [bends[:, 0, 0] * xi * xj]
            terms += [bends[:, 0, i] * xj] if i else []
            terms += [bends[:, 0, j] * xi] if j else []
            terms += [bends[:, i, j]] if i and j else []
            bound = 1e-8 * sum(np.abs(term / f_x) for term in terms) + TINY
            worst(law, f"isf_exp by {i} and {j}", got[:, i, j], -sum(terms) / f_x, bound, args)


EDGES = {"x": (-math.inf, -1.0, 0.0, math.inf, 1e100), "p": (0.0, 1.0), "logp": (-math.inf, 0.0)}
EDGE_SHAPES = {
    "chi2": [(0.5,), (2.0,), (7.0,), (1e7,)],
    "ncx2": [(0.5, 0.0), (2.0, 0.0), (7.0, 0.0), (0.5, 3.0), (2.0, 3.0), (7.0, 3.0), (1e7, 1e8)],
    "foldnorm": [(0.0,), (1e-8,), (1.3,), (1e4,)],
    "foldlaplace": [(0.0,), (1e-8,), (1.3,), (1e4,)],
}


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_no_nan_at_the_edges(law, op):
    """The ends of the support, what lies outside it, the ends of the probabilities,
    and shapes at their own ends.
    """
    rows = [(v, *s) for v in EDGES[names(law, op)[0]] for s in EDGE_SHAPES.get(law, [()])]
    inner = 0.4 if names(law, op)[0] != "logp" else -0.9
    rows += [(inner, *s) for s in EDGE_SHAPES.get(law, [()])]
    args = columns(rows)
    value, forward, backward = differentiate(law, op, *args)
    assert not np.isnan(value).any(), [r for r, v in zip(rows, value, strict=True) if np.isnan(v)]
    for name, found in (("forward", forward), ("reverse", backward)):
        bad = [(row, names(law, op)[i]) for row, b in zip(rows, np.isnan(found), strict=True)
               for i in np.where(b)[0]]
        assert not bad, (name, bad[:8])
    np.testing.assert_allclose(forward, backward, rtol=1e-12, atol=TINY)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("law", LAWS)
def test_flat_at_the_ends(law, op):
    """At the ends of the range of the first argument, and beyond,
    derivatives are 0 (where they are not those of loc).
    """
    first = names(law, op)[0]
    ends = [
        v
        for v in EDGES[first]
        if v != 1e100 and (v not in (-1.0, 0.0) or first != "x" or law not in ("norm", "laplace"))
    ]
    rows = [(v, *s) for v in ends for s in EDGE_SHAPES.get(law, [()])]
    _, forward, _ = differentiate(law, op, *columns(rows))
    assert (forward[:, 0] == 0).all()
