"""Reference tables: golden and extreme points of the noncentral chi-square law at the
accuracy that is promised.
"""

import numpy as np
import pytest
from mpmath import mp, mpf

from tests.stats.checks import (
    EVERY,
    LOGS,
    TINY,
    check,
    columns,
    differentiate,
    evaluate,
    function,
    table,
    worst,
)

GOLDEN = {"logpdf": "log_pdf", "logcdf": "log_cdf", "logsf": "log_sf"}


def golden_inputs():
    """(x, df, nc) of the golden table."""
    return columns([(e["x"], e["d"], e["lam"]) for e in table("ncx2")])


def quantile_inputs():
    """(p, df, nc) of the golden table of quantiles."""
    return columns([(e["p"], e["d"], e["lam"]) for e in table("ncx2_quantile")])


def number(text):
    """A decimal string as a float64, with what XLA would flush as zero."""
    value = float(text)
    return value if abs(value) >= TINY else 0.0


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_reference_points(law, op):
    check(law, op, function(law, op))


@pytest.mark.parametrize("op", LOGS)
def test_golden_values(op):
    inputs = golden_inputs()
    want = np.array([number(e[GOLDEN[op]]) for e in table("ncx2")])
    got = evaluate(function("ncx2", op), "ncx2", *inputs)
    worst("ncx2", op, got, want, 1e-11 * np.maximum(1, np.abs(want)), inputs)


@pytest.mark.parametrize("op", LOGS)
def test_golden_medians(op):
    keep = np.array([e["where"] == "mean+0sd" and e["d"] >= 1 for e in table("ncx2")])
    inputs = [a[keep] for a in golden_inputs()]
    assert keep.sum() > 30
    want = np.array([number(e[GOLDEN[op]]) for e in table("ncx2")])[keep]
    got = evaluate(function("ncx2", op), "ncx2", *inputs)
    worst("ncx2", op, got, want, 1e-13 * np.maximum(1, np.abs(want)), inputs)


def test_golden_derivatives():
    inputs = golden_inputs()
    _, forward, backward = differentiate("ncx2", "logsf", *inputs)
    for i, field in enumerate(("dlogsf_dx", "dlogsf_dd", "dlogsf_dlam")):
        want = np.array([number(e[field]) for e in table("ncx2")])
        for got in (forward[:, i], backward[:, i]):
            worst("ncx2", field, got, want, 1e-9 * np.abs(want) + TINY, inputs)


@pytest.mark.parametrize("op", LOGS)
def test_extreme_derivatives(op):
    """Relative to themselves; near the mode, where those of the log density vanish, to the unit
    1/sd that they are made of.
    """
    inputs = columns([(e["x"], e["df"], e["nc"]) for e in table("ncx2_extreme")])
    _, forward, backward = differentiate("ncx2", op, *inputs)
    spread = 1 / np.sqrt(2 * inputs[1] + 4 * inputs[2])
    rounding = (
        spread * np.where(inputs[1] + inputs[2] > 1e6, 1e-11, 1e-14) if op == "logpdf" else 0.0
    )
    for i, argument in enumerate(("x", "df", "nc")):
        want = np.array([number(e["d" + op][i]) for e in table("ncx2_extreme")])
        for got in (forward[:, i], backward[:, i]):
            worst("ncx2", f"d{op}/d{argument}", got, want, 1e-9 * np.abs(want) + rounding + TINY,
                  inputs)


@pytest.mark.parametrize("op", ["isf", "ppf"])
def test_golden_quantiles(op):
    inputs = quantile_inputs()
    value, forward, backward = differentiate("ncx2", op, *inputs)
    want = np.array([number(e[op]) for e in table("ncx2_quantile")])
    for got in (evaluate(function("ncx2", op), "ncx2", *inputs), value):
        worst("ncx2", op, got, want, 1e-9 * np.abs(want) + TINY, inputs)
    for i, argument in enumerate(("p", "dd", "dlam")):
        field = f"d{op}_d{argument}" if i == 0 else f"d{op}_{argument}"
        slope = np.array([number(e[field]) for e in table("ncx2_quantile")])
        for got in (forward[:, i], backward[:, i]):
            # what has become zero may have the derivative of zero
            underflow = (want == 0) & (got == 0)
            worst("ncx2", field, got, np.where(underflow, 0, slope), 1e-9 * np.abs(slope) + TINY,
                  inputs)


@pytest.mark.parametrize("op", ["isf", "ppf"])
def test_golden_quantiles_of_log_probabilities(op):
    """The tabulated p is exact, its logarithm is rounded:
    the quantile moves by half an ulp of log p over its slope.
    """
    entries = table("ncx2_quantile")
    p, df, nc = quantile_inputs()
    log_p = np.array([float(mp.log(mpf(v))) for v in p])
    name = op + "_exp"
    _, forward, backward = differentiate("ncx2", name, log_p, df, nc)
    got = evaluate(function("ncx2", name), "ncx2", log_p, df, nc)
    slope = [mpf(e[f"d{op}_dp"]) * mpf(v) for e, v in zip(entries, p, strict=True)]
    move = [(float(w) - mp.log(mpf(v))) * s for w, v, s in zip(log_p, p, slope, strict=True)]
    want = np.array([number(mpf(e[op]) + m) for e, m in zip(entries, move, strict=True)])
    worst("ncx2", name, got, want, 1e-9 * np.abs(want) + TINY, (log_p, df, nc))
    logs = np.array([float(e["log_" + op]) for e in entries])
    nonzero = want > 0
    assert np.all(
        np.abs(np.log(got[nonzero]) - logs[nonzero]) <= 1e-9 * np.maximum(1, np.abs(logs[nonzero]))
    )
    fields = ([number(s) for s in slope], [number(e[f"d{op}_dd"]) for e in entries])
    fields += ([number(e[f"d{op}_dlam"]) for e in entries],)
    for i, field in enumerate(fields):
        slopes = np.array(field)
        for derivative in (forward[:, i], backward[:, i]):
            kept = np.where(~nonzero & (derivative == 0), 0, slopes)
            worst("ncx2", f"d{name}/d{i}", derivative, kept, 1e-9 * np.abs(slopes) + TINY,
                  (log_p, df, nc))


@pytest.mark.parametrize("op", ["logpdf", "logcdf", "logsf", "pdf", "cdf", "sf"])
def test_central_law(op):
    """nc = 0 is the central law."""
    rows = [(e["x"], e["d"]) for e in table("ncx2")] + [
        (e["x"], e["df"]) for e in table("ncx2_extreme")
    ]
    x, df = columns(rows)
    want = evaluate(function("chi2", op), "chi2", x, df)
    got = evaluate(function("ncx2", op), "ncx2", x, df, 0.0)
    worst("ncx2", op, got, want, 1e-13 * np.maximum(1, np.abs(want)), (x, df))


def test_outer_edges():
    """Zero, subnormals, the largest floats, infinity and the wrong side of zero,
    for df on both sides of 2.
    """
    x = np.array([-np.inf, -1e300, -1.0, -1e-300, 0.0, np.inf])
    for df in (0.5, 2.0, 7.0, 1e7):
        for nc in (0.0, 3.0, 1e8):
            for op, below, above in (("logcdf", -np.inf, 0), ("cdf", 0, 1), ("logsf", 0, -np.inf),
                                     ("sf", 1, 0)):
                got = evaluate(function("ncx2", op), "ncx2", x, df, nc)
                np.testing.assert_array_equal(got, [below] * 5 + [above])
            at_zero = np.inf if df < 2 else -np.log(2) - nc / 2 if df == 2 else -np.inf
            got = evaluate(function("ncx2", "logpdf"), "ncx2", x, df, nc)
            np.testing.assert_allclose(got, [-np.inf] * 4 + [at_zero] + [-np.inf], rtol=1e-14)
            got = evaluate(function("ncx2", "pdf"), "ncx2", x, df, nc)
            np.testing.assert_allclose(got, [0.0] * 4 + [np.exp(at_zero), 0.0], rtol=1e-12)


@pytest.mark.parametrize("op", LOGS)
def test_smallest_arguments(op):
    """Down to the smallest normal float: the leading term of the mixture,
    the next is smaller by a factor x.
    """
    x = np.array([2.3e-308, 1e-307, 1e-305, 9.99e-301, 1e-300, 1.001e-300, 2e-300, 1e-299, 1e-250])
    for df in (0.5, 2.0, 7.0):
        for nc in (0.0, 3.0):
            lower = [df / 2 * mp.log(mpf(v) / 2) - nc / 2 - mp.loggamma(mpf(df) / 2 + 1) for v in x]
            density = [
                v + mp.log(mpf(df) / 2) - mp.log(mpf(a)) for v, a in zip(lower, x, strict=True)
            ]
            exact = {
                "logpdf": density,
                "logcdf": lower,
                "logsf": [mp.log1p(-mp.exp(v)) for v in lower],
            }[op]
            want = np.array([number(v) for v in exact])
            got = evaluate(function("ncx2", op), "ncx2", x, df, nc)
            worst("ncx2", op, got, want, 1e-11 * np.abs(want) + TINY,
                  (x, np.full(x.size, df), np.full(x.size, nc)))
            if op == "logpdf":
                slope = (df / 2 - 1) / x if df != 2 else np.full(x.size, nc / 4 - 0.5)
            else:
                logs = lower if op == "logcdf" else [mpf(0)] * x.size
                terms = zip(density, logs, strict=True)
                slope = np.array(
                    [number(mp.exp(f - g)) * (1 if op == "logcdf" else -1) for f, g in terms]
                )
            with np.errstate(over="ignore"):
                bound = 1e-9 * np.abs(slope) + TINY
            if df == 2:  # below 1e-300 the law is its leading power x^0, whose slope is 0
                bound = np.where(x < 1e-300, 1.0, bound)
            got = differentiate("ncx2", op, x, df, nc)[1][:, 0]
            worst("ncx2", f"{op} by x", got, slope, bound,
                  (x, np.full(x.size, df), np.full(x.size, nc)))


def test_subnormal_argument():
    """XLA reads 1e-320 as zero on a CPU; the answer is that of zero or the true one, never NaN."""
    for df in (0.5, 2.0, 7.0):
        got = evaluate(function("ncx2", "logcdf"), "ncx2", 1e-320, df, 3.0)
        true = df / 2 * np.log(1e-320 / 2) - 1.5 - float(mp.loggamma(df / 2 + 1))
        assert got[0] == -np.inf or abs(got[0] - true) <= 1e-11 * abs(true)
        assert evaluate(function("ncx2", "logsf"), "ncx2", 1e-320, df, 3.0)[0] <= 0


@pytest.mark.parametrize("nc", [0.0, 1e-8, 3.0, 1e4, 1e8])
def test_huge_arguments(nc):
    """For x far beyond everything else log sf = -(sqrt(x) - sqrt(nc))^2 / 2 up to a few hundred."""
    x = np.array([1e30, 1e100, 1e200, 1e299, 1e300, 1.7e308])
    want = -((np.sqrt(x) - np.sqrt(nc)) ** 2) / 2
    for df in (0.5, 3.0, 1e7):
        for op in ("logsf", "logpdf"):
            got = evaluate(function("ncx2", op), "ncx2", x, df, nc)
            worst("ncx2", op, got, want, 1e-11 * np.abs(want), (x, df, nc))
        np.testing.assert_array_equal(evaluate(function("ncx2", "logcdf"), "ncx2", x, df, nc), 0.0)
        np.testing.assert_array_equal(evaluate(function("ncx2", "sf"), "ncx2", x, df, nc), 0.0)
        np.testing.assert_array_equal(evaluate(function("ncx2", "cdf"), "ncx2", x, df, nc), 1.0)
