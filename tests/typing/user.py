"""A user's program: `mypy --strict` and pyright accept it as it stands, by the types of the library
alone (`.ci/wheel`).
"""

from pathlib import Path

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxpriv
from jaxpriv import accounting, correlated, filters, membership, relaxed, target, worst_case
from jaxpriv.attacks import canaries, clip, games, glir, per_example_gradients, reference
from jaxpriv.auditing import Audit, audit, one_run, one_run_family, one_run_guesses
from jaxpriv.bridges import points, privacy_loss, renyi
from jaxpriv.report import DpSgd, Mechanism, Pipeline, certify, read_certificate, verify
from jaxpriv.stats import ncx2, norm
from jaxpriv.training import DPTrainer, Privacy, Trained, clipped_sum, poisson_sample, private_mean


def curves() -> list[jaxpriv.Curve]:
    step = worst_case.gaussian(0.5)
    training = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
    released = worst_case.gaussian_releases([3.0, 4.0], np.array([1.0, 1.0]))
    several = worst_case.laplace(jnp.array([0.1, 0.2]))
    mixed = jaxpriv.mixture([step, released], [0.5, 0.5])
    both = jaxpriv.compose(training.symmetric(), released)
    weaker = [relaxed.gaussian(0.5, dim=30), membership.sgd_step(10, 100, 1.0),
              target.empirical_mean(0.1)]
    return [step, training, released, several, mixed, both, jaxpriv.worst_of(step, released),
            step.group(3), step.subsample(0.1).compose(10).reversed(), *weaker]


def numbers(curve: jaxpriv.Curve, delta: float = 1e-5) -> dict[str, float]:
    low, high = curve.epsilon_bounds(delta, width=1e-6)
    bits = curve.beta_bounds(0.05)[0], curve.gdp_mu_bounds(slack=1e-6)[1]
    found: dict[str, float] = {"low": float(low), "high": float(high), "width": float(high - low)}
    found["power"] = float(1 - bits[0])
    if high > 2 * low:
        print(f"{low:.4f} {high:.4f} {curve.advantage():.4f} {curve.power(1e-3):.1e}")
    return found


def of_many(noises: jax.Array) -> jax.Array:
    def epsilon(noise: jax.Array) -> jax.Array:
        curve = worst_case.subsampled_gaussian(noise, 0.01, 1000)
        return jnp.asarray(curve.epsilon(1e-5))

    return jnp.asarray(jax.vmap(jax.grad(epsilon))(noises))


def calibrated() -> float:
    noise = jaxpriv.calibrate(
        lambda noise: worst_case.subsampled_gaussian(noise, 0.01, 1000), epsilon=2.0, delta=1e-5
    )
    plan = correlated.plan(20, 1000, 50, epsilon=2.0, delta=1e-5)
    schedule = accounting.optimise_schedule(
        lambda noises: jaxpriv.compose(worst_case.subsampled_gaussian(noises, 0.1, 1), axis=-1),
        lambda noises: -jnp.sum(noises), np.ones(4), epsilon=1.0, delta=1e-5, iterations=1,
    )
    limit = accounting.gaussian_limit(worst_case.subsampled_gaussian(noise, 0.01, 1000))
    print(plan.best.bands, schedule.parameters, limit.gdp_mu())
    return float(noise) + plan.best.noise_multiplier


def strategies() -> float:
    strategy = correlated.banded_square_root(4)
    optimum = correlated.optimise(strategy, 16, iterations=3)
    low, high = correlated.sensitivity_bounds(
        strategy, 16, correlated.MinSeparation(separation=4, most=2)
    )
    curve = correlated.curve(strategy, 2.0, 16, correlated.CyclicPoisson(4, 0.1))
    return low + high + optimum.error + float(curve.epsilon(1e-5))


def spending() -> bool:
    budget = filters.gaussian(1.0)
    state, accepted = budget.spend(budget.init(), 0.5)
    print(budget.spent(state), budget.curve().epsilon(1e-5))
    return bool(accepted)


def loss(model: nnx.Linear, example: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    del key
    return jnp.mean(optax.sigmoid_binary_cross_entropy(model(example["x"])[0], example["y"]))


def trained(folder: Path) -> Trained:
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    trainer = DPTrainer(
        loss, nnx.Linear(3, 1, rngs=nnx.Rngs(0)), optax.sgd(0.1),
        Privacy(epsilon=3.0, delta=1e-5), batch_size=20, steps=2,
    )
    found = trainer.fit({"x": x, "y": (x[:, 0] > 0).astype(np.float32)}, folder=folder, canaries=2)
    print(found.plan.curve("relaxed").epsilon(1e-5), found.epsilon + found.steps)
    return found


def by_hand(key: jax.Array) -> jax.Array:
    rows = jnp.ones((100, 3))
    batch = poisson_sample(key, 100, 0.1, 30)
    total = clipped_sum(lambda w, x, key: w @ x, jnp.zeros(3), rows[batch.indices],
                        mask=batch.mask, clip_norm=1.0)
    mean = private_mean(jaxpriv.random.secret_key(), total.total, clip_norm=1.0,
                        noise_multiplier=1.0, expected_batch_size=10.0)
    return jnp.asarray(mean) + jaxpriv.random.normal(key, (3,))


def attacked(key: jax.Array) -> Audit:
    law = reference.known(jnp.zeros(3), jnp.ones(3))
    gradients = per_example_gradients(lambda w, x: w @ x, jnp.ones(3), jnp.eye(3), clip_norm=1.0)
    canary = canaries.dirac(3, norm=1.0)
    print(glir(canary, clip(gradients, 1.0), law, batch_size=10))
    print(canaries.mahalanobis(canary[None], law))
    scores, member = games.play(
        key, lambda key, member: member + jax.random.normal(key), lambda output: output, rounds=100
    )
    found = one_run_guesses(scores, member)
    family = one_run_family(worst_case.gaussian, 0.0, 5.0, *found)
    print(family.parameter + one_run(scores, member).epsilon)
    audited = audit(scores, member, confidence=0.95)
    violation = audited.violation(worst_case.gaussian(1.0))
    print(audited.mu() + audited.epsilon(1e-5), violation.violated)
    return audited


def exchanged() -> float:
    published = points.curve([0.5, 1.0], [1e-2, 1e-3])
    saved = privacy_loss.curve([-1.0, 1.0], [0.2689414213699951, 0.7310585786300049])
    curve = jaxpriv.compose(published, renyi.zcdp(0.02), saved)
    return sum(delta for _, delta in points.of(curve, [1.0, 2.0]))


def certified(folder: Path) -> bool:
    pipeline = Pipeline([{"mechanism": "laplace", "ratio": 1.0, "times": 2}])
    for mechanism in (Mechanism("gaussian", (1.0,), (2.0,)), pipeline,
                      DpSgd(1000, 100, 2, noise_multiplier=1.0)):
        certificate = certify(mechanism, delta=1e-5)
        print(certificate["adversaries"][0]["epsilon"], mechanism.describe())
    (folder / "certificate.json").touch()
    try:
        read_certificate(folder / "certificate.json")
    except ValueError as error:
        print(error)
    return bool(verify(certificate)["holds"])


def laws() -> float:
    resilience = jaxpriv.detection_resilience(relaxed.gaussian(0.5), worst_case.gaussian(0.5))
    return float(norm.ppf(0.975) + ncx2.logsf(3.0, 2.0, 1.0)) + float(resilience.gap)
