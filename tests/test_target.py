"""Target-dependent leakage: the limits of Azize and Basu 2025 against games that are played, linear
algebra and refitted models.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import target, worst_case
from tests.slips import check_is_red

ALPHA = np.array([0.01, 0.05, 0.1, 0.3, 0.6])
D, N, ROUNDS = 2000, 400, 6000


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def bernoulli(kind, random):
    """Means of D Bernoulli columns and a target:
    the most likely record, a random one, the least likely one.
    """
    p = random.uniform(0.25, 0.75, D)
    likely = (p > 0.5).astype(float)
    return p, {
        "easy": likely,
        "medium": (random.uniform(size=D) < p).astype(float),
        "hard": 1 - likely,
    }[kind]


def play(p, z, n, random, present, noise=0.0, rate=1.0):
    """Released means of ROUNDS data sets of n records, the target among them or not,
    `rate` of which are looked at.
    """
    k = round(rate * n)
    seen = present & (random.uniform(size=ROUNDS) < rate)
    # column by column: NumPy prepares binomial draws anew for each other p
    columns = random.binomial(k - 1, p[:, None], (D, ROUNDS)) + np.where(
        seen, z[:, None], random.uniform(size=(D, ROUNDS)) < p[:, None]
    )
    return columns.T / k + (noise * random.normal(size=(ROUNDS, D)) if noise else 0.0)


def check_power(curve, absent, present):
    """The power of thresholds on scores is the curve's, within four standard deviations and what is
    left of the limit.
    """
    power = np.array([np.mean(present > np.quantile(absent, 1 - a)) for a in ALPHA])
    want = np.asarray(curve.power(ALPHA))
    rise = np.exp(np.asarray(curve.slope(ALPHA)))
    spread = np.sqrt(want * (1 - want) / ROUNDS) + rise * np.sqrt(ALPHA * (1 - ALPHA) / ROUNDS)
    assert np.all(np.abs(power - want) < 4 * spread + 0.006), (power, want)


def check_game(kind, noise=0.0, rate=1.0):
    random = np.random.default_rng(7)
    p, z = bernoulli(kind, random)
    variance = p * (1 - p)
    score = target.leakage_score(z, p, variance, N)
    if noise:
        curve, variance = target.noisy_mean(z, p, variance, N, noise), variance + N * noise**2
    else:
        curve = target.subsampled_mean(score, rate) if rate < 1 else target.empirical_mean(score)
    never, always = np.zeros(ROUNDS, bool), np.ones(ROUNDS, bool)
    scores = [
        play(p, z, N, random, present, noise, rate) @ ((z - p) / variance)
        for present in (never, always)
    ]
    check_power(curve, *scores)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
def test_mean(kind):
    check_game(kind)


def check_noise():
    check_game("medium", noise=0.02)


@pytest.mark.slow
def test_noise():
    check_noise()


def check_subsampling():
    check_game("medium", rate=0.3)


@pytest.mark.slow
def test_subsampling():
    """The mixture, where the printed Gaussian curve is far away."""
    check_subsampling()
    curve, printed = target.subsampled_mean(8.83, 0.3), worst_case.gaussian(np.sqrt(0.3 * 8.83))
    np.testing.assert_allclose(
        curve.power(np.array([0.01, 0.1, 0.3])), [0.307, 0.370, 0.510], atol=6e-4
    )
    assert curve.advantage() < 0.3 < printed.advantage()
    np.testing.assert_allclose(
        target.subsampled_mean(8.83, 1.0)(ALPHA), target.empirical_mean(8.83)(ALPHA), rtol=1e-12
    )


def check_misspecified():
    random = np.random.default_rng(11)
    p, z = bernoulli("medium", random)
    variance = p * (1 - p)
    other = np.where(random.uniform(size=D) < 0.8, z, (random.uniform(size=D) < p).astype(float))
    inner = np.sum((other - p) * (z - p) / variance) / N
    never, always = np.zeros(ROUNDS, bool), np.ones(ROUNDS, bool)
    scores = [
        play(p, z, N, random, present) @ ((other - p) / variance) for present in (never, always)
    ]
    curve = target.misspecified(target.leakage_score(other, p, variance, N), inner)
    check_power(curve, *scores)
    assert curve.gdp_mu() < target.empirical_mean(target.leakage_score(z, p, variance, N)).gdp_mu()


@pytest.mark.slow
def test_misspecified():
    check_misspecified()


def check_score():
    """Against a linear solver, for variances and matrices, in batches; d/n on average."""
    random = np.random.default_rng(5)
    root = random.normal(size=(7, 7))
    covariance, mean = root @ root.T + np.eye(7), random.normal(size=7)
    records = random.multivariate_normal(mean, covariance, 20_000)
    got = target.leakage_score(records, mean, covariance, 10)
    want = np.sum((records - mean) * np.linalg.solve(covariance, (records - mean).T).T, 1) / 10
    np.testing.assert_allclose(got, want, rtol=1e-10)
    np.testing.assert_allclose(np.mean(got), 0.7, rtol=0.03)
    variances = np.diag(covariance)
    diagonal = target.leakage_score(records, mean, variances, 10)
    np.testing.assert_allclose(
        diagonal, target.leakage_score(records, mean, np.diag(variances), 10), rtol=1e-12
    )
    assert np.isnan(target.leakage_score(mean + 1, mean, -covariance, 10))


def test_score():
    check_score()


def fitted(loss, records, start):
    """Newton's minimiser of the mean loss."""
    mean = jax.jit(lambda p: jnp.mean(jax.vmap(loss, (None, 0))(p, records)))
    gradient, hessian = jax.jit(jax.grad(mean)), jax.jit(jax.hessian(mean))
    p = start
    for _ in range(30):
        p = p - jnp.linalg.solve(hessian(p), gradient(p))
    return p, hessian(p)


def squares(p, record):
    return 0.5 * (record["x"] @ p - record["y"]) ** 2


def logistic(p, record):
    return jnp.logaddexp(0.0, -record["y"] * (record["x"] @ p))


def check_estimator():
    """How far a model moves when the target joins, squared and in units of the model's own
    spread, is the score.
    """
    random = np.random.default_rng(2)
    n, d = 4000, 5
    x = random.normal(size=(n, d))
    labels = np.where(random.uniform(size=n) < 0.6, 1.0, -1.0)
    for loss, y in ((squares, x @ np.ones(d) + random.normal(size=n)), (logistic, labels)):
        records = {"x": jnp.asarray(x), "y": jnp.asarray(y)}
        aim = {"x": jnp.full(d, 1.5), "y": jnp.asarray(-1.0)}
        start, hessian = fitted(loss, records, jnp.zeros(d))
        more = jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), records, aim)
        moved = fitted(loss, more, start)[0] - start
        scores = jax.vmap(jax.grad(loss), (None, 0))(start, records)
        spread = jnp.linalg.solve(hessian, jnp.linalg.solve(hessian, scores.T @ scores / n).T) / n
        got = target.estimator_score(loss, start, aim, records)
        np.testing.assert_allclose(got, moved @ jnp.linalg.solve(spread, moved), rtol=0.02)
    numbers = random.normal(size=500)
    got = target.estimator_score(
        lambda mean, z: (z - mean) ** 2, numbers.mean(), 3.0, jnp.asarray(numbers)
    )
    want = target.leakage_score(np.array([3.0]), numbers.mean(), np.array([numbers.var()]), 500)
    np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.slow
def test_estimator():
    check_estimator()


def test_privacy_onion():
    """Without the most exposed records the covariance shrinks,
    and records that were safe before are exposed.
    """
    random = np.random.default_rng(9)
    records = np.concatenate([random.normal(size=(500, 3)), 6 * random.normal(size=(25, 3))])

    def scores(records):
        return np.asarray(
            target.leakage_score(records, records.mean(0), np.cov(records.T), len(records))
        )

    before = scores(records)
    kept = before < np.quantile(before, 0.95)
    after = scores(records[kept])
    assert np.mean(after > before[kept]) > 0.95
    assert np.max(after) > 2 * np.max(before[kept])


@pytest.mark.slow
def test_derivatives():
    """In the score, zero at no leak; in the target through the score."""
    np.testing.assert_allclose(
        jax.grad(lambda m: target.empirical_mean(m).gdp_mu())(4.0), 0.25, rtol=1e-12
    )
    assert jax.grad(lambda m: target.empirical_mean(m).delta(0.1))(0.0) == 0
    assert target.empirical_mean(0.0).advantage() == 0

    def power(z):
        return target.noisy_mean(z, jnp.zeros(3), jnp.eye(3), 10.0, 0.3).power(0.05)

    z = jnp.array([2.0, -1.0, 0.5])
    differences = [(power(z + 1e-5 * unit) - power(z - 1e-5 * unit)) / 2e-5 for unit in np.eye(3)]
    np.testing.assert_allclose(jax.jit(jax.grad(power))(z), differences, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: target.empirical_mean(-1.0), "score = -1"),
        (lambda: target.subsampled_mean(1.0, 0.0), "rate = 0"),
        (lambda: target.leakage_score(np.ones(2), np.zeros(2), np.ones(2), 0), "n = 0"),
        (lambda: target.noisy_mean(np.ones(2), np.zeros(2), np.ones(2), 10, -0.1),
         "noise_std = -0.1"),
        (lambda: target.misspecified(0.0, 1.0), "score_target = 0"),
        (lambda: target.misspecified(1.0, np.inf), "score_inner = inf"),
        (
            lambda: target.estimator_score(
                squares,
                jnp.zeros(3),
                {"x": jnp.zeros(3), "y": 0.0},
                {"x": jnp.zeros((2, 3)), "y": jnp.zeros(2)},
            ),
            "2 entries for 3 parameters",
        ),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


SLIPS = {
    "leakage_score": (lambda true: lambda *a: true(*a) * (1 + 1e-8), check_score),
    "estimator_score": (lambda true: lambda *a: true(*a) * 1.05, check_estimator),
    "empirical_mean": (lambda true: lambda m: true(m * m), lambda: check_game("medium")),
    "noisy_mean": (lambda true: lambda z, mean, c, n, s: true(z, mean, c, n, s / np.sqrt(n)),
                   check_noise),
    "subsampled_mean": (lambda true: lambda m, rate: worst_case.gaussian(jnp.sqrt(rate * m)),
                        check_subsampling),
    "misspecified": (lambda true: lambda m, inner: true(1.0, inner), check_misspecified),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    slip, check = SLIPS[name]
    check_is_red(monkeypatch, target, name, slip(getattr(target, name)), check)


def test_every_public_name_has_a_slip():
    assert set(target.__all__) == set(SLIPS)
