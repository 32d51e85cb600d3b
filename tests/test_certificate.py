"""The certificate: its numbers against SciPy's formulas, its worst-case row,
its errors, and JSON.
"""

import json
import math

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from jaxpriv.report import Mechanism, certify
from tests.tradeoff.profiles import brute_mu, fast_gaussian, laplace_profile

NORM = scipy.stats.norm


def gaussian_epsilon(mu, delta):
    """The classical formula, solved."""

    def profile(eps):
        return NORM.cdf(mu / 2 - eps / mu) - np.exp(eps) * NORM.cdf(-mu / 2 - eps / mu)

    return scipy.optimize.brentq(lambda e: profile(e) - delta, 0, 60, xtol=1e-14)


def chi_square_epsilon(mu, dim, delta):
    """The larger of both directions, thresholds by root finding."""
    p, q = scipy.stats.chi2(dim), scipy.stats.ncx2(dim, mu * mu)

    def solve(direction):
        def gap(log_t):
            t = np.exp(log_t)
            ratio = q.logpdf(t) - p.logpdf(t)
            value = (
                q.sf(t) - np.exp(ratio) * p.sf(t)
                if direction > 0
                else p.cdf(t) - np.exp(-ratio) * q.cdf(t)
            )
            return value - delta

        grid = np.linspace(-8, 5, 261)
        values = np.array([gap(v) for v in grid])
        at = np.nonzero(np.diff(np.sign(values)))[0]
        roots = [scipy.optimize.brentq(gap, grid[i], grid[i + 1], xtol=1e-13) for i in at]
        return max(
            [direction * (q.logpdf(np.exp(r)) - p.logpdf(np.exp(r))) for r in roots], default=0.0
        )

    return max(solve(1), solve(-1), 0.0)


def mu_at_slack(mu, name, slack):
    """Of N(0, 1) against N(mu, 1), and of their squared lengths, by brute force."""
    if name == "worst case":
        return brute_mu(lambda e: fast_gaussian(mu, e), slack, 6.0)
    dim = int(name[-1])
    p, q = scipy.stats.chi2(dim), scipy.stats.ncx2(dim, mu * mu)
    x = np.linspace(1e-6, 80, 400_001)
    loss = q.logpdf(x) - p.logpdf(x)  # increasing

    def profile(eps):
        at = np.interp(eps, loss, x)
        forward = np.where(eps > loss[0], q.sf(at) - np.exp(eps) * p.sf(at), 1 - np.exp(eps))
        at = np.interp(-eps, loss, x)
        back = np.where(-eps > loss[0], p.cdf(at) - np.exp(eps) * q.cdf(at), 0.0)
        return np.maximum(forward, back)

    return brute_mu(profile, slack, 6.0)


def by_name(certificate):
    """The rows of a certificate."""
    return {row["adversary"]: row for row in certificate["adversaries"]}


@pytest.mark.slow
def test_gaussian():
    """Two releases of 3 dimensions: worst case first, one dimension, three dimensions."""
    mechanism = Mechanism("gaussian", (1.0, 2.0), (2.0, 2.5), dim=3)
    mu = math.hypot(0.5, 0.8)
    certificate = certify(mechanism, delta=1e-3)
    rows = by_name(certificate)
    assert list(rows) == ["worst case", "relaxed, dim 1", "relaxed, dim 3"]
    want = {"worst case": gaussian_epsilon(mu, 1e-3)}
    want |= {f"relaxed, dim {d}": chi_square_epsilon(mu, d, 1e-3) for d in (1, 3)}
    for name, row in rows.items():
        assert want[name] <= row["epsilon"] + 1e-9
        assert abs(row["epsilon"] - want[name]) < 1e-7
        assert 0 <= row["mu_at_slack"] - mu_at_slack(mu, name, 1e-3) < 1e-6
    assert abs(rows["worst case"]["advantage"] - (2 * NORM.cdf(mu / 2) - 1)) < 1e-12
    for fpr in (1e-3, 1e-1):
        assert (
            0 <= rows["worst case"]["tpr_at_fpr"][f"{fpr:g}"] - NORM.sf(NORM.isf(fpr) - mu) < 1e-11
        )
    weak = rows["relaxed, dim 3"]
    assert weak["epsilon"] < rows["relaxed, dim 1"]["epsilon"] < rows["worst case"]["epsilon"]
    assert weak["advantage"] < rows["relaxed, dim 1"]["advantage"] < rows["worst case"]["advantage"]


@pytest.mark.slow
def test_one_dimension_has_one_relaxed_row():
    rows = by_name(certify(Mechanism("gaussian", (1.0,), (1.0,)), delta=1e-4))
    assert list(rows) == ["worst case", "relaxed, dim 1"]
    assert abs(rows["relaxed, dim 1"]["epsilon"] - 3.1114) < 5e-5
    c = NORM.isf(5e-4)
    assert rows["relaxed, dim 1"]["tpr_at_fpr"]["0.001"] >= NORM.sf(c - 1) + NORM.sf(c + 1) - 1e-12


def test_laplace():
    """Pure budget, the bounded loss's Gaussian mu, and power by hand."""
    ratio = 0.5
    rows = by_name(certify(Mechanism("laplace", (1.0,), (2.0,)), delta=1e-5))
    full, weak = rows["worst case"], rows["relaxed"]
    exact = ratio + 2 * math.log1p(-1e-5)
    assert exact <= full["epsilon"] < exact + 1e-7
    assert 1 - math.exp(-ratio / 2) <= full["advantage"] < 1 - math.exp(-ratio / 2) + 1e-12
    assert 0 <= full["tpr_at_fpr"]["0.001"] - math.exp(ratio) * 1e-3 < 1e-9
    # without a slack the curves meet at alpha = beta = e^(-ratio/2)/2
    assert full["mu_at_slack"] < 2 * NORM.isf(math.exp(-ratio / 2) / 2)
    want = brute_mu(lambda e: laplace_profile(ratio, e), 1e-5, ratio)
    assert 0 <= full["mu_at_slack"] - want < 1e-6
    assert weak["epsilon"] < full["epsilon"]
    assert weak["mu_at_slack"] < full["mu_at_slack"]
    assert weak["advantage"] < full["advantage"]
    t = math.acosh(1 / (1 - 1e-5))
    assert abs(weak["epsilon"] - (ratio - t - math.log(math.cosh(t)))) < 1e-7


@pytest.mark.parametrize(
    "mechanism",
    [Mechanism("gaussian", (1.0,), (1.0,)), Mechanism("laplace", (1.0,), (1.0,)),
     Mechanism("gaussian", (0.1,), (1.0,), 9)],
)
def test_worst_case_comes_first_and_all_is_said(mechanism):
    """Never a relaxed number without the worst case;
    adversary, adjacency and sampling stated; JSON and back.
    """
    certificate = certify(mechanism)
    names = [row["adversary"] for row in certificate["adversaries"]]
    assert names[0] == "worst case"
    assert len(names) > 1
    assert all(name.startswith("relaxed") for name in names[1:])
    assert certificate["delta"] == 1e-5
    assert "add/remove" in certificate["adjacency"]
    assert "none" in certificate["sampling"]
    assert all(len(row["assumption"]) > 40 for row in certificate["adversaries"])
    assert (
        json.loads(json.dumps(certificate, allow_nan=False))["adversaries"]
        == certificate["adversaries"]
    )
    assert certificate["mechanism"]["noise"] == mechanism.noise


def test_numbers_do_not_depend_on_the_mode():
    mechanism = Mechanism("laplace", (1.0,), (1.7,))
    want = certify(mechanism)
    with jax.enable_x64(False):
        assert certify(mechanism) == want


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cauchy", (1.0,), (1.0,)), "noise"),
        (("gaussian", (0.0,), (1.0,)), "sensitivities"),
        (("gaussian", (math.nan,), (1.0,)), "sensitivities"),
        (("gaussian", (1.0,), (-1.0,)), "scales"),
        (("gaussian", (1.0,), (math.inf,)), "scales"),
        (("gaussian", (1.0,), (math.nan,)), "scales"),
        (("gaussian", ("one",), (1.0,)), "sensitivities"),
        (("gaussian", (1.0, 2.0), (1.0,)), "sensitivities"),
        (("gaussian", (), ()), "sensitivities"),
        (("gaussian", (1.0,), (1.0,), 0), "dim"),
        (("gaussian", (1.0,), (1.0,), 1.5), "dim"),
        (("gaussian", (1.0,), (1.0,), math.nan), "dim"),
        (("laplace", (1.0, 1.0), (1.0, 1.0)), "laplace"),
        (("laplace", (1.0,), (1.0,), 2), "dim"),
    ],
)
def test_bad_mechanisms(arguments, words):
    with pytest.raises(ValueError, match=words):
        Mechanism(*arguments)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match="delta"):
        certify(Mechanism("gaussian", (1.0,), (1.0,)), delta=delta)


def test_a_mechanism_is_fixed():
    with pytest.raises(AttributeError):
        Mechanism("gaussian", (1.0,), (1.0,)).dim = 5
