"""Golden values at the accuracy that is promised,
and bounds that contain all 40 digits and are narrow.
"""

import numpy as np
import pytest
from mpmath import mp, mpf

from jaxpriv import relaxed, worst_case
from tests.tradeoff.checks import TINY, close, columns, evaluate, table

DIRECTIONS = {"forward": "PQ", "reversed": "QP"}
EXACT_ROOTS = (0.25, 1.0, 4.0, 25.0)  # lam whose root is a float, so that nc = mu^2 is lam itself


def directed(make, direction):
    """The maker of the curve in this direction."""
    return {
        "forward": make,
        "reversed": lambda *p: make(*p).reversed(),
        "symmetric": lambda *p: make(*p).symmetric(),
    }[direction]


def rows(kind, exact=False):
    """Entries of the table of the relaxed Gaussian adversary."""
    return [e for e in table("glrt_profile")
            if e["kind"] == kind and (not exact or e["lam"] in EXACT_ROOTS)]


def inputs(entries, argument):
    """(argument, mu, dim)."""
    return columns([(e[argument], e["lam"] ** 0.5, e.get("d", 1)) for e in entries])


def truth(entry, direction, stem):
    """The decimal string of one direction, or of the larger of both."""
    if direction == "symmetric":
        return max((entry[f"{stem}_{d}"] for d in DIRECTIONS.values()), key=mpf)
    return entry[f"{stem}_{DIRECTIONS[direction]}"]


def contained(bounds, exact, least=TINY):
    """Assert that every bracket contains its 40 digits,
    where these are zero or not below `least`.
    """
    for low, high, text in zip(*bounds, exact, strict=True):
        assert 0 < mpf(text) < least or mpf(float(low)) <= mpf(text) <= mpf(float(high)), (
            low,
            text,
            high,
        )


@pytest.mark.parametrize("direction", ["forward", "reversed", "symmetric"])
def test_relaxed_gaussian_profile(direction):
    """log delta to 1e-11 of max(1, |log delta|); where delta is zero it is zero."""
    entries = rows("delta")
    args, make = inputs(entries, "eps"), directed(relaxed.gaussian, direction)
    want = np.array([float(truth(e, direction, "log_delta")) for e in entries])
    assert direction != "reversed" or np.isinf(want).sum() > 20
    got = evaluate(make, "log_delta", *args)
    finite = np.where(np.isfinite(want), np.abs(want), 0)
    close("relaxed.gaussian.log_delta", got, want, 1e-11 * np.maximum(1, finite), args)
    bound = 1e-11 * np.exp(want) * (1 + finite) + TINY
    close("relaxed.gaussian.delta", evaluate(make, "delta", *args), np.exp(want), bound, args)


@pytest.mark.parametrize("direction", ["forward", "reversed", "symmetric"])
def test_relaxed_gaussian_epsilon(direction):
    """epsilon to 1e-9 of itself."""
    entries = rows("eps")
    args = inputs(entries, "delta")
    want = np.array([float(truth(e, direction, "eps")) for e in entries])
    got = evaluate(directed(relaxed.gaussian, direction), "epsilon", *args)
    close("relaxed.gaussian.epsilon", got, want, 1e-9 * want, args)


def test_worst_case_gaussian():
    """Closed form: 1e-13 of max(1, |log delta|), and epsilon to 1e-9 of itself."""
    args = inputs(rows("gauss"), "eps")[:2]
    want = np.array([float(e["log_gauss_delta"]) for e in rows("gauss")])
    got = evaluate(worst_case.gaussian, "log_delta", *args)
    close("worst_case.gaussian.log_delta", got, want, 1e-13 * np.maximum(1, np.abs(want)), args)
    args = inputs(rows("eps"), "delta")[:2]
    want = np.array([float(e["gauss_eps"]) for e in rows("eps")])
    close("worst_case.gaussian.epsilon", evaluate(worst_case.gaussian, "epsilon", *args), want,
          1e-9 * want, args)


@pytest.mark.parametrize(
    "direction", ["forward", "reversed", pytest.param("symmetric", marks=pytest.mark.slow)]
)
def test_relaxed_gaussian_bounds(direction):
    """delta and epsilon lie inside their brackets, and these are narrow."""
    make = directed(relaxed.gaussian, direction)
    entries = rows("delta", exact=True)
    exact = [truth(e, direction, "delta") for e in entries]
    low, high = evaluate(make, "delta_bounds", *inputs(entries, "eps"))
    contained((low, high), exact)
    width = (high - low) / np.maximum(np.array([float(v) for v in exact]), 1e-3)
    assert width.max() < 1e-9
    entries = rows("eps", exact=True)
    exact = [truth(e, direction, "eps") for e in entries]
    low, high = evaluate(make, "epsilon_bounds", *inputs(entries, "delta"))
    contained((low, high), exact)
    upper = evaluate(make, "delta_bounds", high, *inputs(entries, "delta")[1:])[1]
    assert np.all(upper <= [e["delta"] for e in entries])


@pytest.mark.parametrize(
    "direction", ["forward", "reversed", pytest.param("symmetric", marks=pytest.mark.slow)]
)
def test_relaxed_gaussian_epsilon_brackets_are_narrow(direction):
    """The documentation says about 1e-12, whichever direction is asked."""
    low, high = evaluate(
        directed(relaxed.gaussian, direction), "epsilon_bounds", *inputs(rows("eps"), "delta")
    )
    assert np.median(high - low) < 3e-12
    assert (high - low).max() < 1e-9


def test_laplace_epsilon_brackets_are_narrow():
    """epsilon = ratio + 2 log(1 - delta) in closed form."""
    ratio, delta = np.array([0.5, 1.0, 4.0]), np.array([1e-5, 1e-3, 0.1])
    low, high = worst_case.laplace(ratio).epsilon_bounds(delta)
    close("laplace.epsilon_bounds", low, ratio + 2 * np.log1p(-delta), 1e-10)
    close("laplace.epsilon_bounds", high, ratio + 2 * np.log1p(-delta), 1e-10)


def test_bounds_hold_where_delta_underflows():
    """A delta of 1e-385 is positive: the upper bound may not be zero."""
    entries = [e for e in rows("delta", exact=True) if mpf(e["delta_PQ"]) < TINY]
    assert len(entries) >= 3
    bounds = evaluate(relaxed.gaussian, "delta_bounds", *inputs(entries, "eps"))
    contained(bounds, [e["delta_PQ"] for e in entries], least=0)


def test_worst_case_gaussian_bounds():
    entries = rows("gauss", exact=True)
    low, high = evaluate(worst_case.gaussian, "delta_bounds", *inputs(entries, "eps")[:2])
    contained((low, high), [e["gauss_delta"] for e in entries])
    assert np.all(high - low <= 1e-11 * high)
    entries = rows("eps", exact=True)
    low, high = evaluate(worst_case.gaussian, "epsilon_bounds", *inputs(entries, "delta")[:2])
    contained((low, high), [e["gauss_eps"] for e in entries])
    assert np.all(high - low <= 1e-11 * (1 + high))


@pytest.mark.parametrize(("method", "field"), [("__call__", "j"), ("inverse", "j_inv")])
def test_relaxed_laplace(method, field):
    """The closed form to 1e-13 of itself, its complement alike."""
    entries = table("laplace_rtm")
    args = columns([(e["alpha"], e["L"]) for e in entries])
    want = np.array([float(e[field]) for e in entries])
    close(f"relaxed.laplace.{method}", evaluate(relaxed.laplace, method, *args), want, 1e-13 * want,
          args)
    mirrored = {
        "__call__": relaxed.laplace,
        "inverse": lambda ratio: relaxed.laplace(ratio).reversed(),
    }[method]
    want = np.exp([float(e["log1m_" + field]) for e in entries])
    close(f"relaxed.laplace.power of {field}", evaluate(mirrored, "power", *args), want,
          1e-13 * want, args)


@pytest.mark.parametrize(
    ("direction", "code"), [("forward", "rem"), ("reversed", "add"), ("symmetric", None)]
)
def test_subsampled_gaussian_step(direction, code):
    """One Poisson sub-sampled step: removing is the forward direction, adding the reverse,
    exact zeros included.
    """

    def make(mu, rate):
        return directed(lambda mu, rate: worst_case.gaussian(mu).subsample(rate), direction)(
            mu, rate
        )

    entries = [e for e in table("sgm_one_step") if code in (e["direction"], None)]
    args = columns([(e["eps"], 1 / e["sigma"], e["q"]) for e in entries])
    texts = [e["log_delta"] for e in entries]
    if code is None:
        texts = [max((o["log_delta"] for o in entries if same(o, e)), key=mpf) for e in entries]
    want = np.array([float(text) for text in texts])
    finite = np.where(np.isfinite(want), np.abs(want), 0)
    got = evaluate(make, "log_delta", *args)
    close("subsampled.log_delta", got, want, 1e-11 * np.maximum(1, finite), args)
    bounds = evaluate(make, "delta_bounds", *args)
    kept = np.array([e["sigma"] in (1.0, 0.5) for e in entries])
    contained(
        [b[kept] for b in bounds], [mp.exp(mpf(t)) for t, k in zip(texts, kept, strict=True) if k]
    )
    assert np.all(bounds[1] - bounds[0] <= 1e-10 * np.exp(want) + 1e-13)


def same(first, second):
    """Do two entries differ in the direction alone?"""
    return all(first[name] == second[name] for name in ("q", "sigma", "eps"))
