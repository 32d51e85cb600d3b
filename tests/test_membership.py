"""Membership inference: Leemann et al. 2023's theorem against 40-digit values, a simulated game,
its table, and quadrature.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import jaxpriv
from jaxpriv import membership, worst_case
from jaxpriv.tradeoff.mean_pair import MeanShift
from tests.slips import check_is_red

GOLDEN = json.loads((Path(__file__).parent / "data" / "gmip.json").read_text())["entries"]
LEVELS = np.linspace(0.0, 1.0, 20_001)
EPS = np.array([-0.5, 0.0, 0.3, 1.0])
# data set: (records, d = K, batch, epochs, C), and the noise of Leemann et al. 2023, Table 5 for 20
# levels of mu
TABLE_4 = {"CIFAR-10": (48_000, 650, 400, 10, 500.0), "Purchase": (54_855, 2580, 795, 3, 2000.0),
           "Adult": (43_000, 1026, 1000, 20, 800.0)}
TABLE_5 = {
    ("CIFAR-10", "MIP"): [2.84, 2.44, 2.13] + 17 * [0.0],
    ("CIFAR-10", "DP"): [2.84, 2.44, 2.13, 1.89, 1.70, 1.55, 1.42, 1.32, 1.24, 1.17, 1.11, 1.06,
                         1.02, 0.98, 0.94, 0.91, 0.88, 0.85, 0.83, 0.81],
    ("Purchase", "MIP"): [4.72, 4.14, 3.68, 3.32, 3.04, 2.81] + 14 * [0.0],
    ("Purchase", "DP"): [4.72, 4.14, 3.68, 3.32, 3.04, 2.81, 2.62, 2.46, 2.32, 2.21, 2.11, 2.02,
                         1.94, 1.87, 1.81, 1.75, 1.70, 1.65, 1.61, 1.57],
    ("Adult", "MIP"): [3.38, 2.77, 2.30, 1.93, 1.65] + 15 * [0.0],
    ("Adult", "DP"): [3.38, 2.77, 2.30, 1.93, 1.65, 1.43, 1.26, 1.13, 1.02, 0.94, 0.87, 0.81, 0.77,
                      0.73, 0.69, 0.66, 0.63, 0.61, 0.59, 0.57],
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def golden(*keys):
    return [np.array([float(entry[key]) for entry in GOLDEN]) for key in keys]


def check_golden():
    """beta and power to rounding in their logarithms, mu of a step."""
    d, n, k, alpha, log_beta, log_power, mu = golden(
        "d", "n", "K", "alpha", "log_beta", "log1m_beta", "mu_step"
    )
    curve = membership.sgd_step(d, n, k)
    for got, want in ((curve(alpha), log_beta), (curve.power(alpha), log_power)):
        assert np.max(np.abs(np.log(got) - want) / np.maximum(1, np.abs(want))) < 1e-12
    np.testing.assert_allclose(membership.gdp_mu_step(d, n, k), mu, rtol=1e-14)


def check_profile():
    """delta is the conjugate of the curve, in both directions, and epsilon its inverse;
    the pair's formulas agree.
    """
    step = membership.sgd_step(dim=65, batch_size=20, susceptibility=80)
    for curve in (step, step.reversed(), step.symmetric()):
        beta = np.asarray(curve(LEVELS))
        for eps in EPS:
            conjugate = np.max(1 - beta - np.exp(eps) * LEVELS)
            assert conjugate <= curve.delta(eps) * (1 + 1e-15) <= conjugate + 1e-6
        np.testing.assert_allclose(curve.delta(curve.epsilon(1e-4)), 1e-4, rtol=1e-10)
        low, high = curve.delta_bounds(EPS)
        assert np.all(
            (low <= curve.delta(EPS)) & (curve.delta(EPS) <= high) & (high - low <= 1e-10 * high)
        )
    bound = 80 / 2 - 65 / 2 * np.log1p(-1 / 20)
    assert step.delta(bound * (1 + 1e-12)) == 0 < step.delta(bound * 0.8)


def test_golden():
    check_golden()


@pytest.mark.slow
def test_profile():
    check_profile()


def check_game():
    """Leemann et al. 2023's game with normal gradients: the statistic's threshold test has the
    power that the theorem says.
    """
    d, n, rounds = 12, 7, 60_000
    random = np.random.default_rng(3)
    g = random.normal(size=d)
    absent = random.normal(size=(rounds, d)) / np.sqrt(n)
    present = (random.normal(size=(rounds, d)) * np.sqrt(n - 1) + g) / n
    statistics = [np.sum((mean - g) ** 2, 1) for mean in (absent, present)]
    curve = membership.sgd_step(d, n, g @ g)
    for alpha in (0.01, 0.1, 0.5):
        power = np.mean(statistics[1] <= np.quantile(statistics[0], alpha))
        spread = np.sqrt(power * (1 - power) / rounds) + np.exp(
            float(curve.slope(alpha))
        ) * np.sqrt(alpha * (1 - alpha) / rounds)
        assert abs(power - curve.power(alpha)) < 4 * spread


def test_game():
    check_game()


def check_noise():
    """Noise of (tau n/C)^2 batches' worth, none without a clipping norm; more noise tells less."""
    np.testing.assert_allclose(membership.effective_batch_size(100, 0.5, 10.0), 125.0, rtol=1e-15)
    assert membership.effective_batch_size(100, 0.5) == 100
    noisy = membership.sgd_step(650, 100, 650, noise_std=0.5, clip_norm=10.0)
    np.testing.assert_allclose(noisy(0.2), membership.sgd_step(650, 125, 650)(0.2), rtol=1e-13)
    mu = membership.gdp_mu_step(650, 100, 650, 0.5, 10.0)
    np.testing.assert_allclose(mu, membership.gdp_mu_step(650, 125, 650), rtol=1e-14)


def test_noise():
    check_noise()


def noise_for(mu, name, kind):
    """tau for mu over the training, 0 where none is needed."""
    records, dim, batch, epochs, clip = TABLE_4[name]

    def make(tau):
        step = (
            membership.gdp_mu_step(dim, batch, dim, tau, clip)
            if kind == "MIP"
            else 2 * clip / (batch * tau)
        )
        return membership.sgd(step, batch, records, epochs * records / batch)

    if kind == "MIP" and make(0.0).gdp_mu() <= mu:
        return 0.0
    return jaxpriv.calibrate(make, mu=mu, bracket=(1e-3, 100.0))


def check_table(levels):
    mu = np.geomspace(0.4, 50, 20)
    for (name, kind), printed in TABLE_5.items():
        for i in levels:
            tau = noise_for(mu[i], name, kind)
            tau = min(tau, noise_for(mu[i], name, "DP")) if kind == "MIP" else tau
            assert abs(tau - printed[i]) < 0.00501, (name, kind, mu[i], tau)


def test_table_5_in_part():
    check_table((0, 5, 19))


@pytest.mark.slow
def test_table_5():
    """All 120 values."""
    check_table(range(20))


def check_average():
    """The average of the profiles over K ~ chi-square, by adaptive quadrature."""
    d, n = 30, 12
    curve = membership.average_sgd_step(d, n)
    for eps in (-0.4, 0.3, 1.5):
        law = scipy.stats.chi2(d)
        grid = np.linspace(law.ppf(1e-13), law.isf(1e-13), 2001)
        want = scipy.integrate.simpson(
            law.pdf(grid) * np.asarray(membership.sgd_step(d, n, grid).delta(eps)), x=grid
        )
        np.testing.assert_allclose(curve.delta(eps), want, rtol=1e-9)
    # stochastic composition: one slope for all records, each with its own level
    alphas, betas = [], []
    for slope in (-1.0, 0.2):
        k = np.asarray(scipy.stats.chi2(d).rvs(4000, random_state=1))
        members = membership.sgd_step(d, n, k)
        t = 2 * (n - 1) * (k / 2 - d / 2 * np.log1p(-1 / n) - slope)
        alphas.append(np.mean(scipy.stats.ncx2.cdf(t, d, n * k)))
        betas.append(np.mean(np.asarray(members(scipy.stats.ncx2.cdf(t, d, n * k)))))
    np.testing.assert_allclose(curve(np.array(alphas)), betas, atol=0.01)


@pytest.mark.slow
def test_average():
    check_average()


def test_converges_to_the_gaussian_curve():
    """Leemann et al. 2023, Figure 1: K = d;
    the largest distance of both curves falls as d and n grow.
    """
    alpha = np.linspace(0.001, 0.999, 499)
    gaps = []
    for d, n in ((2, 5), (20, 50), (200, 500), (2000, 5000)):
        gaussian = worst_case.gaussian(membership.gdp_mu_step(d, n, d))
        gaps.append(np.max(np.abs(membership.sgd_step(d, n, d)(alpha) - gaussian(alpha))))
    assert gaps[0] > 2.5 * gaps[1] > 2.5**2 * gaps[2] > 2.5**3 * gaps[3]


def test_gaussian_is_no_bound():
    """The exact curve is above the Gaussian one at small levels and below it at large
    ones; no mu bounds it.
    """
    curve = membership.sgd_step(650, 500, 650)
    gaussian = worst_case.gaussian(membership.gdp_mu_step(650, 500, 650))
    assert curve(1e-3) > gaussian(1e-3)
    assert curve(0.9) < gaussian(0.9)
    assert curve.gdp_mu() == np.inf


def check_training():
    """Eq. (10) as printed, in 50 digits, and its limit 2^1/2 c m (1/2)^1/2 for small m."""
    import mpmath

    for m in (1e-6, 1e-3, 0.3, 2.0):
        with mpmath.workdps(50):
            x = mpmath.mpf(m)
            root = mpmath.sqrt(
                mpmath.exp(x**2) * mpmath.ncdf(1.5 * x) + 3 * mpmath.ncdf(-x / 2) - 2
            )
            want = float(mpmath.sqrt(2) * 400 * mpmath.sqrt(1200) / 48000 * root)
        np.testing.assert_allclose(membership.sgd(m, 400, 48000, 1200).gdp_mu(), want, rtol=1e-9)
    assert membership.sgd(0.0, 400, 48000, 1200).gdp_mu() == 0
    assert jax.grad(lambda m: membership.sgd(m, 400, 48000, 1200).gdp_mu())(0.5) > 0


def test_training():
    check_training()


def check_translation():
    """Corollary F.1: the noise that makes a step mu-GDP, put into Corollary 5.1,
    and back; Theorem 4.2.
    """
    dim, n, clip = 650, 100, 7.0
    for mu in (0.05, 0.3, 1.0):
        mip = membership.gmip_from_gdp(mu, dim, n)
        step = membership.gdp_mu_step(dim, n, dim, noise_std=2 * clip / (n * mu), clip_norm=clip)
        np.testing.assert_allclose(mip, min(float(step), mu), rtol=1e-13)
        assert mip <= mu
    for mip in (0.5, 2.0):
        mu = membership.gdp_from_gmip(mip, dim, n)
        step = membership.gdp_mu_step(dim, n, dim, noise_std=2 * clip / (n * mu), clip_norm=clip)
        np.testing.assert_allclose(step, mip, rtol=1e-12)
    assert membership.gdp_from_gmip(2.6, dim, n) == np.inf


def test_translation():
    check_translation()


def anisotropic(d=40, n=12, seed=3):
    """A gradient, a mean, a covariance far from round, and the noise at which both count."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(d, d)) / np.sqrt(d) * np.geomspace(0.3, 3, d)
    return (
        1.5 * random.normal(size=d), 0.2 * random.normal(size=d), root.T @ root + 0.01 * np.eye(d),
        n, 0.1,
    )


def check_given_covariance():
    """Round, it is Theorem 5.1 to rounding, in both directions;
    without noise the covariance does not matter beyond K.
    """
    d, n, noise = 40, 12, 0.15
    gradient, mean, covariance, *_ = anisotropic(d)
    away = gradient - mean
    round_one = membership.sgd_step_of(gradient, mean, 4 * np.eye(d), n, noise)
    silent = membership.sgd_step_of(gradient, mean, covariance, n)
    for got, want in (
        (round_one, membership.sgd_step(d, n, away @ away / 4, noise, 2.0)),
        (silent, membership.sgd_step(d, n, away @ np.linalg.solve(covariance, away))),
    ):
        for a, b in ((got, want), (got.reversed(), want.reversed())):
            levels = np.array([1e-6, 0.01, 0.3, 0.9])
            np.testing.assert_allclose(a.power(levels), b.power(levels), rtol=1e-9)
            np.testing.assert_allclose(a.log_delta(EPS), b.log_delta(EPS), rtol=1e-9)
            np.testing.assert_allclose(a.epsilon(1e-7), b.epsilon(1e-7), rtol=1e-9)
        low, high = got.delta_bounds(EPS)
        truth = np.asarray(want.delta(EPS))
        assert np.all(
            (low <= truth * (1 + 1e-12))
            & (truth <= high * (1 + 1e-12))
            & (high - low <= 1e-8 * high + 1e-15)
        )
        assert got.gdp_mu() == np.inf
    variances = np.linalg.eigvalsh(covariance)
    np.testing.assert_allclose(
        membership.sgd_step_of(gradient, mean, variances, n, noise).delta(0.3),
        membership.sgd_step_of(gradient, mean, np.diag(variances), n, noise).delta(0.3),
        rtol=1e-10,
    )


def test_given_covariance():
    check_given_covariance()


def check_noisy_game():
    """The likelihood ratio of simulated means, both covariances in full, has the curve's power;
    two steps that of two.
    """
    gradient, mean, covariance, n, noise = anisotropic()
    d, random, rounds = len(mean), np.random.default_rng(0), 40_000
    laws = [(mean, covariance / n + noise**2 * np.eye(d)),
            (mean + (gradient - mean) / n, covariance * (n - 1) / n**2 + noise**2 * np.eye(d))]
    absent, present = (scipy.stats.multivariate_normal(*law) for law in laws)
    curve = membership.sgd_step_of(gradient, mean, covariance, n, noise)
    for steps in (1, 2):
        drawn = [law.rvs(steps * rounds, random) for law in (absent, present)]
        scores = [
            np.sum((present.logpdf(means) - absent.logpdf(means)).reshape(steps, rounds), 0)
            for means in drawn
        ]
        alpha = np.array([0.01, 0.1, 0.4])
        thresholds = np.quantile(scores[0], 1 - alpha)
        power = np.mean(scores[1][:, None] > thresholds, 0)
        np.testing.assert_allclose(power, curve.compose(steps).power(alpha), atol=0.02)
        eps = 0.5
        plus = np.mean(np.maximum(1 - np.exp(eps - scores[1]), 0))
        np.testing.assert_allclose(curve.compose(steps).delta(eps), plus, rtol=0.02)
        minus = np.mean(np.maximum(1 - np.exp(eps + scores[0]), 0))
        np.testing.assert_allclose(curve.reversed().compose(steps).delta(eps), minus, rtol=0.03)


def test_noisy_game():
    check_noisy_game()


@pytest.mark.slow
def test_derivatives_of_a_given_covariance():
    gradient, mean, covariance, n, noise = anisotropic()

    def value(n, noise):
        return membership.sgd_step_of(gradient, mean, covariance, n, noise).log_delta(0.3)

    for i, at in enumerate((float(n), noise)):
        h = 1e-4 * at
        ends = [
            value(*(v + sign * h * (i == j) for j, v in enumerate((float(n), noise))))
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            jax.grad(value, i)(float(n), noise), (ends[0] - ends[1]) / (2 * h), rtol=1e-6
        )
    many = membership.sgd_step_of(
        gradient, mean, covariance, np.array([5.0, 12.0, 50.0]), noise
    ).power(0.1)
    assert np.all(np.diff(many) < 0)
    with pytest.raises(ValueError, match="different covariance"):
        jaxpriv.compose(
            membership.sgd_step_of(gradient, mean, covariance, n, noise), worst_case.laplace(0.1)
        )


@pytest.mark.slow
def test_derivatives():
    """In every parameter, forward and reverse, against differences; through jit and vmap."""
    at = np.array([30.0, 12.0, 40.0, 0.2, 3.0])

    def value(p, method, x):
        return getattr(membership.sgd_step(*p), method)(x)

    for method, x in (("log_delta", 0.3), ("power", 0.05), ("epsilon", 1e-4)):
        gradient = jax.jit(jax.grad(value), static_argnums=1)(jnp.asarray(at), method, x)
        forward = jax.jit(jax.jacfwd(value), static_argnums=1)(jnp.asarray(at), method, x)
        np.testing.assert_allclose(gradient, forward, rtol=1e-10)
        for i, unit in enumerate(np.eye(at.size)):
            h = 1e-5 * at[i]
            difference = (value(at + h * unit, method, x) - value(at - h * unit, method, x)) / (
                2 * h
            )
            np.testing.assert_allclose(gradient[i], difference, rtol=2e-6)
    many = jax.vmap(lambda k: membership.sgd_step(30.0, 12.0, k).power(0.05))(
        jnp.linspace(10.0, 60.0, 5)
    )
    assert np.all(np.diff(many) > 0)


@pytest.mark.parametrize(("call", "match"), [
    (lambda: membership.sgd_step(650, 1, 650), "batch_size = 1"),
    (lambda: membership.sgd_step(0.5, 10, 650), "dim = 0.5"),
    (lambda: membership.sgd_step_of(np.ones(3), np.zeros(3), np.eye(3), 1), "batch_size = 1"),
    (lambda: membership.sgd_step_of(np.ones(3), np.zeros(3), np.eye(3), 5, -1), "noise_std = -1"),
    (lambda: membership.sgd_step(650, 10, -1), "susceptibility = -1"),
    (lambda: membership.sgd_step(650, 10, 1, clip_norm=0.0), "clip_norm = 0"),
    (lambda: membership.effective_batch_size(10, -0.1), "noise_std = -0.1"),
    (lambda: membership.sgd(0.1, 10, 0, 5), "dataset_size = 0"),
    (lambda: membership.gmip_from_gdp(0.0, 650, 10), "mu_dp = 0"),
    (lambda: membership.gdp_from_gmip(1.0, 650, 0.5), "batch_size = 0.5"),
])
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def scaled(name, factor):
    """A public function whose number is off by a factor."""
    true = getattr(membership, name)
    return lambda *args, **kwargs: true(*args, **kwargs) * factor


def without_the_missing_one(gradient, mean, covariance, n, noise=0.0, true=membership.sgd_step_of):
    """The same covariance with the record as without it."""
    away = (np.asarray(gradient) - mean) / (n * 1.0)
    return worst_case.gaussian(
        np.sqrt(away @ np.linalg.solve(covariance / n + noise**2 * np.eye(len(mean)), away))
    )


SLIPS = {
    "equal covariances": (membership, "sgd_step_of", lambda: without_the_missing_one,
                          check_given_covariance),
    "mu of a step off by 1e-12": (membership, "gdp_mu_step",
                                  lambda: scaled("gdp_mu_step", 1 + 1e-12), check_golden),
    "the batch without noise": (membership, "effective_batch_size", lambda: lambda n, *_: n,
                                check_noise),
    "n - 1 for n": (membership, "_effective", lambda: lambda n, *_: n - 1, check_golden),
    "noise counted once": (membership, "_effective",
                           lambda: lambda n, s=0.0, c=np.inf: n + (s / c) ** 2 * n, check_noise),
    "K per dimension": (membership, "sgd_step",
                        lambda: lambda d, n, k, true=membership.sgd_step: true(d, n, k / d),
                        check_game),
    "the printed factor n - 1": (MeanShift, "null", lambda: property(lambda self: self.alternative),
                                 check_golden),
    "depth without the dimension": (MeanShift, "_depth",
                                    lambda: lambda self: self.susceptibility / 2, check_profile),
    "one node": (membership, "average_sgd_step", lambda: lambda d, n: membership.sgd_step(d, n, d),
                 check_average),
    "without the root of the steps": (
        membership,
        "sgd",
        lambda: lambda m, b, n, t, true=membership.sgd: true(m, b, n, t**2),
        check_training,
    ),
    "C not cancelled": (membership, "gmip_from_gdp",
                        lambda: lambda mu, d, n, true=membership.gmip_from_gdp: true(mu / 7, d, n),
                        check_translation),
    "n for n + 1/2": (membership, "gdp_from_gmip",
                      lambda: lambda mu, d, n, true=membership.gdp_from_gmip: true(mu, d, n - 0.5),
                      check_translation),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    where, attribute, make, check = SLIPS[name]
    check_is_red(monkeypatch, where, attribute, make(), check)


def test_every_public_name_has_a_slip():
    assert set(membership.__all__) - {"mixture"} <= {
        attribute for _, attribute, _, _ in SLIPS.values()
    }
