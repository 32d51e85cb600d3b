"""Random points against second implementations: the Poisson mixture, 50-digit closed forms,
SciPy for loc and scale.
"""

import numpy as np
import pytest
import scipy.stats
from mpmath import mp, mpf

from tests import oracles
from tests.stats.checks import (
    LAWS,
    LOGS,
    OPS,
    QUANTILES,
    SHAPES,
    columns,
    evaluate,
    function,
    table,
    worst,
)

RNG = np.random.default_rng(20240607)


def spread(low, high, size):
    """Log-uniform draws."""
    return np.exp(RNG.uniform(np.log(low), np.log(high), size))


def random_points():
    """Arguments (x, *shapes) for every law, deep tails included."""
    both = np.concatenate([RNG.normal(size=60), RNG.uniform(-440, 440, 60), spread(1e-8, 1, 20)])
    wide = np.concatenate([both, RNG.uniform(-1e5, 1e5, 40)])
    yield "norm", (both,)
    yield "laplace", (wide,)
    yield "expon", (np.concatenate([spread(1e-300, 1e5, 80), RNG.exponential(size=60)]),)
    df, nc = spread(0.5, 1e4, 120), spread(1e-3, 3e3, 120)
    deviations = np.concatenate(
        [RNG.normal(size=40), RNG.uniform(-8, 8, 40), RNG.uniform(8, 60, 40)]
    )
    x = df + nc + deviations * np.sqrt(2 * df + 4 * nc)
    yield "ncx2", (np.where(x > 0, x, (df + nc) * spread(1e-12, 1, 120)), df, nc)
    df = np.concatenate([spread(0.5, 1e4, 100), spread(1e4, 1e7, 20)])
    x = df + deviations * np.sqrt(2 * df)
    yield "chi2", (np.where(x > 0, x, df * spread(1e-12, 1, 120)), df)
    c = np.concatenate([np.zeros(20), np.full(20, 1e-8), spread(1e-8, 1e4, 120), np.full(20, 1e4)])
    near = np.abs(c + np.concatenate([RNG.normal(size=90), RNG.uniform(-400, 400, 90)]))
    yield "foldnorm", (np.concatenate([near, spread(1e-12, 1, 180)]), np.tile(c, 2))
    yield "foldlaplace", (np.concatenate([near, spread(1e-12, 1, 180)]), np.tile(c, 2))


POINTS = dict(random_points())


@pytest.mark.parametrize("law", LAWS)
def test_random_points(law):
    """Close to the oracle, and not the same bits: the oracle is another computation,
    not the package once more.
    """
    args = POINTS[law]
    exact = [
        oracles.log_of(getattr(oracles, law)(*map(float, point)))
        for point in zip(*args, strict=True)
    ]
    identical = True
    for i, op in enumerate(LOGS):
        want = np.array([float(tails[i]) for tails in exact])
        got = evaluate(function(law, op), law, *args)
        worst(law, op, got, want, 1e-11 * np.maximum(1, np.abs(want)), args)
        identical &= bool(np.all(got == want))
        if law == "ncx2":
            assert np.any(got != want), op
    assert not identical


def test_oracle_agrees_with_the_tables():
    """The mixture reproduces the golden digits (two other methods made those),
    so it may be trusted elsewhere.
    """
    for e in table("ncx2")[::11]:
        if e["lam"] <= 1e3:
            found = oracles.log_of(oracles.ncx2(e["x"], e["d"], e["lam"]))
            for got, field in zip(found, ("log_pdf", "log_cdf", "log_sf"), strict=True):
                want = mpf(e[field])
                assert abs(got - want) <= mpf(10) ** -30 * abs(want)


def test_noncentral_law_is_the_folded_normal_squared():
    """ncx2 with one degree of freedom is the square of a shifted normal:
    the two oracles and two laws meet.
    """
    x, c = np.array([0.01, 0.7, 2.0, 9.0, 33.0]), np.array([0.2, 1.0, 3.0, 1.5, 7.0])
    for op in ("logcdf", "logsf"):
        got = evaluate(function("ncx2", op), "ncx2", x, 1.0, c * c)
        want = evaluate(function("foldnorm", op), "foldnorm", np.sqrt(x), c)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_regressions():
    """Points that were wrong once."""
    got = evaluate(function("chi2", "logsf"), "chi2", 2900.0, 902.0)
    want = float(oracles.log_of(oracles.chi2(2900, 902)).sf)
    assert abs(want + 477.07056886) < 1e-8
    np.testing.assert_allclose(got, want, rtol=1e-12)
    got = float(evaluate(function("ncx2", "ppf"), "ncx2", 1e-300, 1.0, 1000.0)[0])
    cdf = oracles.ncx2(got, 1, 1000).cdf  # near zero the cdf goes as sqrt(x)
    assert abs(mp.log(cdf / mpf("1e-300"))) <= 1e-9


def scipy_points():
    """(shapes, loc, scale) of moderate size for each law."""
    loc, scale = RNG.uniform(-3, 3, 60), spread(0.1, 10, 60)
    df, nc, c = spread(0.8, 300, 60), spread(0.05, 200, 60), spread(0.05, 20, 60)
    shapes = {"chi2": (df,), "ncx2": (df, nc), "foldnorm": (c,)}
    return {law: (*shapes.get(law, ()), loc, scale) for law in LAWS if law != "foldlaplace"}


SCIPY = scipy_points()


@pytest.mark.parametrize(
    ("law", "op"), [(law, op) for law in SCIPY for op in OPS if not op.endswith("_exp")]
)
def test_scipy(law, op):
    """SciPy's own accuracy sets the tolerance, so only its comfortable range is asked for."""
    args = SCIPY[law]
    theirs = getattr(scipy.stats, law)
    probability = RNG.uniform(0.02, 0.98, 60)
    first = probability if op in QUANTILES else theirs.ppf(probability, *args)
    want = getattr(theirs, op)(first, *args)
    worst(law, op, evaluate(function(law, op), law, first, *args), want,
          1e-9 * np.maximum(np.abs(want), 0.01), args)


@pytest.mark.parametrize("op", ["pdf", "cdf", "sf"])
def test_folded_laplace_from_its_definition(op):
    """|c + Y| with loc and scale, from SciPy's Laplace law on both sides of zero."""
    c, loc, scale = spread(0.05, 20, 60), RNG.uniform(-3, 3, 60), spread(0.1, 10, 60)
    z = np.abs(c + RNG.laplace(size=60))
    law = scipy.stats.laplace
    want = {
        "pdf": (law.pdf(z - c) + law.pdf(-z - c)) / scale,
        "cdf": law.cdf(z - c) - law.cdf(-z - c),
        "sf": law.sf(z - c) + law.cdf(-z - c),
    }[op]
    got = evaluate(function("foldlaplace", op), "foldlaplace", loc + scale * z, c, loc, scale)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_exponentials(law):
    """pdf, cdf and sf are the exponentials of their logarithms;
    ppf and isf take the exponentials of theirs.
    """
    args = POINTS[law]
    for op in ("pdf", "cdf", "sf"):
        want = np.exp(evaluate(function(law, "log" + op), law, *args))
        np.testing.assert_allclose(
            evaluate(function(law, op), law, *args), want, rtol=1e-11, atol=1e-300
        )
    log_p = -spread(1e-6, 600, args[0].size)
    for op in ("ppf", "isf"):
        want = evaluate(function(law, op + "_exp"), law, log_p, *args[1:])
        got = evaluate(function(law, op), law, np.exp(log_p), *args[1:])
        kept = (np.exp(log_p) < 0.9) & (np.abs(want) > 1e-300)
        np.testing.assert_allclose(
            got[kept], want[kept], rtol=1e-10, atol=1e-12 if not SHAPES[law] else 0
        )


def test_points_are_many():
    """The random points cover what the module promises: c at its ends, df up to 1e7."""
    c = POINTS["foldnorm"][1]
    assert {0.0, 1e-8, 1e4} <= set(c)
    assert columns(list(zip(*POINTS["chi2"], strict=True)))[1].max() > 1e6
