"""The checks notice: each public function with a plausible slip in it turns its check red."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import jaxpriv
from jaxpriv import detection_resilience, relaxed, worst_case
from jaxpriv.curve import Curve
from tests import test_calibrate
from tests.command import ROOT
from tests.tradeoff import test_bounds, test_oracle, test_papers, test_properties, test_reference


class Slip(NamedTuple):
    """A replacement for one attribute, made from the true one, and a check that must then fail."""

    owner: object
    name: str
    wrong: object
    check: object


def method(name, wrong, check):
    """A slip in a method of the curve."""
    return Slip(Curve, name, wrong, check)


def check_error_at_levels():
    test_oracle.test_errors_at_a_level("gaussian", 1.0)


def check_inverse():
    test_oracle.test_inverse("relaxed_laplace", 1.0)


def check_slope():
    test_properties.test_slope_supports_the_curve("laplace", "forward")


def check_profile():
    test_oracle.test_profile_is_the_integral("relaxed_laplace", 1.0)


def check_golden_epsilon():
    test_reference.test_worst_case_gaussian()


def check_golden_bounds():
    test_reference.test_worst_case_gaussian_bounds()


def check_log_bounds():
    test_bounds.test_log_delta(100.0)


def check_advantage():
    test_oracle.test_advantage("relaxed_laplace")


def check_auc():
    test_oracle.test_auc("gaussian", "forward")


def check_mu():
    test_oracle.test_gdp_mu_of_gaussian_noise("gaussian")


def check_reversed():
    test_oracle.test_profile_is_the_conjugate("relaxed_laplace", 1.0)


def check_symmetric():
    test_papers.test_theorem_1_of_paper_2()


def check_hull():
    test_oracle.test_symmetric_curve_is_the_hull("relaxed_laplace")


def check_power():
    test_papers.test_power_at_a_fixed_level()


def check_subsampling():
    test_papers.test_lemma_9()


def check_composition():
    """n releases are sqrt(n) mu."""
    got = worst_case.gaussian(0.5).compose(4.0).advantage()
    np.testing.assert_allclose(got, 2 * scipy.stats.norm.cdf(0.5) - 1, rtol=1e-12)


def check_steps():
    """A reference value (design, section 5; tests/data/sgm.json has more)."""
    got = worst_case.subsampled_gaussian(1.0, 0.01, 1000.0).delta(1.0)
    np.testing.assert_allclose(got, 0.002612420578627, rtol=1e-12)


def check_together():
    np.testing.assert_allclose(
        jaxpriv.compose(worst_case.gaussian(3.0), worst_case.gaussian(4.0)).gdp_mu(),
        5.0,
        rtol=1e-12,
    )


def check_mixture():
    test_oracle.test_mixture("laplace")


def check_calibration():
    test_calibrate.test_closed_forms()


def check_resilience():
    test_papers.test_resilience_sees_a_violation_in_the_far_tail()


def check_signal():
    test_papers.test_lemma_8_and_the_stronger_adversary()


def check_theorem_3():
    test_papers.test_theorem_3()


def check_corollary_1():
    test_papers.test_corollary_1()


def check_releases():
    test_oracle.test_releases_by_brute_force()


def check_full_laplace():
    test_oracle.test_profile_is_the_integral("laplace", 1.0)


def check_beta_bounds():
    test_bounds.test_beta("gaussian")


def check_mu_bounds():
    test_bounds.test_mu()


def check_advantage_bounds():
    test_bounds.test_advantage()


def check_black_boxes():
    """e^eps alpha + beta + delta = 1 where the first piece ends."""
    beta = float(worst_case.approximate_dp(0.5, 0.01)(0.1))
    np.testing.assert_allclose(beta, 0.99 - np.exp(0.5) * 0.1, rtol=1e-12)


def check_responses():
    np.testing.assert_allclose(
        worst_case.randomized_response(1.0).advantage(), np.tanh(0.5), rtol=1e-12
    )


def check_relaxed_steps():
    """One step is the sub-sampled pair; two leak more."""
    one = relaxed.gaussian(0.8, 3).subsample(0.2).delta(0.1)
    np.testing.assert_allclose(
        relaxed.subsampled_gaussian(1.25, 0.2, 1, dim=3).delta(0.1), one, rtol=1e-12
    )


def shifted_profile(shifts, weights, epsilon):
    """delta of sum_k w_k N(s_k, 1) against N(0, 1): beyond where the ratio is e^epsilon."""
    shifts, weights = np.asarray(shifts), np.asarray(weights)

    def excess(z):
        return np.log(np.sum(weights * np.exp(shifts * z - shifts**2 / 2))) - epsilon

    z = scipy.optimize.brentq(excess, -30.0, 30.0, xtol=1e-14)
    present = np.sum(weights * scipy.stats.norm.sf(z - shifts))
    return present - np.exp(epsilon) * scipy.stats.norm.sf(z)


def check_shifts():
    shifts, weights = [0.0, 0.7, 1.5], [0.6, 0.3, 0.1]
    got = worst_case.gaussian_mixture(shifts, weights).delta(0.4)
    np.testing.assert_allclose(got, shifted_profile(shifts, weights, 0.4), rtol=1e-10)


def check_group():
    """Of pure privacy k times epsilon."""
    assert worst_case.randomized_response(0.5).group(3).epsilon(0.0) == pytest.approx(1.5)


def check_allocation():
    """Of one step out of one: Gaussian noise."""
    found = worst_case.random_allocation(2.0, 1).delta(0.5)
    assert found == pytest.approx(worst_case.gaussian(0.5).delta(0.5), rel=1e-9)


def check_users():
    """Two records of one user, each drawn on its own."""
    got = worst_case.user_level(1.25, 0.2, 1, 2).delta(0.4)
    truth = shifted_profile([0.0, 0.8, 1.6], [0.64, 0.32, 0.04], 0.4)
    np.testing.assert_allclose(got, truth, rtol=1e-10)


def check_cut():
    """Three records, batches of one: two others are drawn never, once or twice."""
    got = worst_case.truncated_gaussian(1.25, 0.2, 1, 3, 1).delta(0.4)
    kept = (0.32 / 2 + 0.04 / 3) * 0.2 / 0.36
    whole, cut = (
        shifted_profile([0.0, shift], [1 - rate, rate], 0.4)
        for shift, rate in ((0.8, 0.2), (1.6, kept))
    )
    np.testing.assert_allclose(got, 0.64 * whole + 0.36 * cut, rtol=1e-10)


def narrower(true):
    """Lower bound returned as upper."""

    def wrong(curve, value):
        low, _ = true(curve, value)
        return low, low

    return wrong


def swapped(true):
    return lambda curve, value: true(curve, value)[::-1]


SLIPS = {
    "beta is the power": method(
        "__call__", lambda true: lambda c, a: 1 - true(c, a), check_error_at_levels
    ),
    "beta at twice the level": method(
        "__call__", lambda true: lambda c, a: true(c, np.asarray(a) / 2), check_error_at_levels
    ),
    "power off by 1e-8": method(
        "power", lambda true: lambda c, a: true(c, a) * (1 + 1e-8), check_error_at_levels
    ),
    "inverse is the curve": method("inverse", lambda true: Curve.__call__, check_inverse),
    "slope with the wrong sign": method(
        "slope", lambda true: lambda c, a: -true(c, a), check_slope
    ),
    "delta without e^eps": method(
        "delta",
        lambda true: lambda c, e: 1 - (1 - true(c, e)) * jnp.exp(-0.1 * jnp.abs(e)),
        check_profile,
    ),
    "delta off by 1e-11": method(
        "delta", lambda true: lambda c, e: true(c, e) + 1e-11, check_profile
    ),
    "delta of the other direction": method(
        "delta", lambda true: lambda c, e: true(c.reversed(), e), check_profile
    ),
    "log delta in base 10": method(
        "log_delta", lambda true: lambda c, e: true(c, e) / np.log(10), check_golden_epsilon
    ),
    "log delta off by 1e-12": method(
        "log_delta", lambda true: lambda c, e: true(c, e) * (1 + 1e-12), check_golden_epsilon
    ),
    "epsilon off by 1e-8": method(
        "epsilon", lambda true: lambda c, d: true(c, d) * (1 + 1e-8), check_golden_epsilon
    ),
    "advantage is the AUC": method("advantage", lambda true: lambda c: c.auc(), check_advantage),
    "advantage at epsilon 0.01": method(
        "advantage", lambda true: lambda c: c.delta(0.01), check_advantage
    ),
    "AUC without the half": method("auc", lambda true: lambda c: true(c) - 0.5, check_auc),
    "mu rounded down": method("gdp_mu", lambda true: lambda c: true(c) * (1 - 1e-6), check_mu),
    "reversed forgets to": method("reversed", lambda true: lambda c: c, check_reversed),
    "symmetric without the hull": method("symmetric", lambda true: lambda c: c, check_symmetric),
    "symmetric of the reverse alone": method(
        "symmetric", lambda true: lambda c: c.reversed(), check_hull
    ),
    "rate squared": method(
        "subsample", lambda true: lambda c, r: true(c, r * r), check_subsampling
    ),
    "no sub-sampling": method("subsample", lambda true: lambda c, r: c, check_subsampling),
    "n instead of sqrt(n)": method(
        "compose", lambda true: lambda c, n: true(c, n * n), check_composition
    ),
    "upper bound of delta is the lower": method("delta_bounds", narrower, check_golden_bounds),
    "bounds of delta swapped": method("delta_bounds", swapped, check_golden_bounds),
    "upper bound of log delta is the lower": method(
        "log_delta_bounds", lambda true: lambda c, e: (true(c, e)[0],) * 2, check_log_bounds
    ),
    "upper bound of epsilon is the lower": method("epsilon_bounds", narrower, check_golden_bounds),
    "bounds of epsilon swapped": method("epsilon_bounds", swapped, check_golden_bounds),
    "lower bound of beta is the upper": method(
        "beta_bounds", lambda true: lambda c, a: (true(c, a)[1] + 1e-9,) * 2, check_beta_bounds
    ),
    "bounds of beta at half the level": method(
        "beta_bounds", lambda true: lambda c, a: true(c, np.divide(a, 2)), check_beta_bounds
    ),
    "mu's upper bound is the lower": method(
        "gdp_mu_bounds", lambda true: lambda c: (true(c)[0],) * 2, check_mu_bounds
    ),
    "advantage's upper bound is the lower": method(
        "advantage_bounds",
        lambda true: lambda c: (true(c)[0] * (1 - 1e-12),) * 2,
        check_advantage_bounds,
    ),
    "delta twice": Slip(
        worst_case, "approximate_dp", lambda true: lambda e, d: true(e, 2 * d), check_black_boxes
    ),
    "responses of half the epsilon": Slip(
        worst_case, "randomized_response", lambda true: lambda e: true(e / 2), check_responses
    ),
    "the other rate": Slip(relaxed, "subsampled_gaussian",
                           lambda true: lambda s, q, n, dim=1: true(s, 1 - q, n, dim),
                           check_relaxed_steps),
    "full Gaussian with mu/2": Slip(
        worst_case, "gaussian", lambda true: lambda mu: true(np.asarray(mu) / 2), check_power
    ),
    "Laplace with twice the ratio": Slip(test_oracle.CATALOGUE["laplace"], "make",
                                         lambda true: lambda ratio: true(2 * ratio),
                                         check_full_laplace),
    "relaxed Gaussian with mu for mu^2": Slip(
        relaxed,
        "gaussian",
        lambda true: lambda mu, dim=1: true(jnp.sqrt(mu), dim),
        check_corollary_1,
    ),
    "relaxed Laplace with cosh for e": Slip(
        relaxed, "laplace", lambda true: lambda ratio: true(np.log(np.cosh(ratio))), check_symmetric
    ),
    "limit without its stretch": Slip(
        relaxed,
        "gaussian_limit",
        lambda true: lambda mu, dim: worst_case.gaussian(mu**2 / (2 * dim) ** 0.5),
        check_theorem_3,
    ),
    "limit of mu, not mu^2": Slip(relaxed, "gaussian_limit_mu",
                                  lambda true: lambda mu, dim: mu / (2 * dim) ** 0.5,
                                  check_theorem_3),
    "one step fewer": Slip(worst_case, "subsampled_gaussian",
                           lambda true: lambda noise, rate, steps: true(noise, rate, steps - 1),
                           check_steps),
    "rate of the other convention": Slip(
        worst_case,
        "subsampled_gaussian",
        lambda true: lambda noise, rate, n: true(noise, rate / (1 + rate), n),
        check_steps,
    ),
    "weights of the other shifts": Slip(
        worst_case,
        "gaussian_mixture",
        lambda true: lambda shifts, weights: true(shifts, np.asarray(weights)[..., ::-1]),
        check_shifts,
    ),
    "one record fewer": Slip(
        worst_case,
        "user_level",
        lambda true: lambda noise, rate, steps, records: true(noise, rate, steps, records - 1),
        check_users,
    ),
    "one record of the two data sets fewer": Slip(
        worst_case,
        "truncated_gaussian",
        lambda true: lambda noise, rate, n, size, most: true(noise, rate, n, size - 1, most),
        check_cut,
    ),
    "one link fewer": Slip(Curve, "group", lambda true: lambda self, k: true(self, k - 1),
                           check_group),
    "dealt to one step more": Slip(
        worst_case,
        "random_allocation",
        lambda true: lambda noise, steps, *k: true(noise, steps + 1, *k),
        check_allocation,
    ),
    "the last curve forgotten": Slip(
        jaxpriv, "compose", lambda true: lambda *c: true(*c[:-1]), check_together
    ),
    "signals added": Slip(worst_case, "signal",
                          lambda true: lambda s, b, averaging="optimal": np.sum(np.divide(s, b)),
                          check_signal),
    "averages the default": Slip(
        worst_case,
        "gaussian_releases",
        lambda true: lambda s, b: relaxed.gaussian_releases(s, b, 1, "mean"),
        check_releases,
    ),
    "releases ignore the averaging": Slip(
        relaxed,
        "gaussian_releases",
        lambda true: lambda s, b, dim=1, averaging="optimal": true(s, b, dim),
        check_releases,
    ),
    "weights shifted": Slip(jaxpriv, "mixture",
                            lambda true: lambda c, w: true(c, np.asarray(w)[..., ::-1]),
                            check_mixture),
    "calibrated to the unsafe side": Slip(
        test_calibrate,
        "calibrate",
        lambda true: lambda make, **k: true(make, **k) * (1 + 1e-8),
        check_calibration,
    ),
    "resilience by the bulk alone": Slip(
        test_papers, "detection_resilience", lambda true: lambda c, r: true(r, c), check_resilience
    ),
}


def install(monkeypatch, slip):
    """Put the slip in place; an entry of the catalogue is a tuple and is replaced
    in its dictionary.
    """
    if slip.owner is test_oracle.CATALOGUE["laplace"]:
        monkeypatch.setitem(
            test_oracle.CATALOGUE, "laplace", slip.owner._replace(make=slip.wrong(slip.owner.make))
        )
    else:
        monkeypatch.setattr(slip.owner, slip.name, slip.wrong(getattr(slip.owner, slip.name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    install(monkeypatch, SLIPS[name])
    with pytest.raises(AssertionError):
        SLIPS[name].check()


@pytest.mark.slow
@pytest.mark.parametrize("check", sorted({slip.check.__name__ for slip in SLIPS.values()}))
def test_check_is_green_without_a_slip(check):
    globals()[check]()


ELSEWHERE = {
    "shuffled_gaussian": "test_shuffled.py", "discrete_gaussian": "test_discrete_noise.py",
    "discrete_laplace": "test_discrete_noise.py", "k_ary_randomized_response": "test_local.py",
    "unary_encoding": "test_local.py", "rappor": "test_local.py",
    "exponential_mechanism": "test_selection.py", "report_noisy_max": "test_selection.py",
}  # slips beside what they are of


def test_every_public_name_has_a_slip():
    """Methods of the curve, the catalogues, and what the package exports beside them."""
    for name, file in ELSEWHERE.items():
        content = (ROOT / "tests" / "accounting" / file).read_text()
        assert name in content
        assert "check_is_red(" in content
    slipped = {slip.name for slip in SLIPS.values()} | {"laplace", *ELSEWHERE}
    methods = {
        name for name in vars(Curve) if callable(vars(Curve)[name]) and not name.startswith("_")
    } | {"__call__"}
    catalogues = {n for m in (worst_case, relaxed) for n, v in vars(m).items()
                  if getattr(v, "__module__", "").startswith((m.__name__, "jaxpriv.catalogue"))}
    catalogues = {name for name in catalogues if not name.startswith("_")}
    assert methods | catalogues <= slipped
    assert callable(detection_resilience)
    assert {"mixture", "calibrate", "compose", "detection_resilience"} <= slipped
