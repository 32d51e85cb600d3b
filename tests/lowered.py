"""What of the library becomes a program, with small arguments to trace it by, and what is computed
on the host alone, with the reason (`test_lowering.py`).
"""

import jax
import jax.numpy as jnp
import optax

import jaxpriv
from jaxpriv import (
    accounting,
    attacks,
    correlated,
    filters,
    membership,
    random,
    relaxed,
    target,
    training,
    worst_case,
)
from jaxpriv.attacks import canaries, games, reference

KEY = jax.random.key(0)
ROWS = jnp.eye(3, 2)
SEEN = jnp.array([[1, 0], [1, 0], [0, 1], [0, 1]], bool)
LAW = reference.known(jnp.zeros(2), jnp.ones(2))


def of_curve(make, *arguments):
    """(a program, its arguments) that asks a curve of traced parameters."""
    return lambda *values: make(*values).log_delta(1.0), arguments


def squared(parameters, row):
    return jnp.sum((parameters - row) ** 2)


def released(key, member):
    return member + jax.random.normal(key)


def drawn(key, count):
    return jax.random.normal(key, (count, 2))


def mean(key, data):
    return jnp.mean(data, 0) + jax.random.normal(key, (2,))


def spent(filtered):
    return lambda mu: filtered.spend(filtered.init(), mu)


PRIVATE = training.private(lambda w, row, key: squared(w, row), optax.sgd(0.1),
                           training.Plan(10, 5, (1.0,), 2))
PRIVATE_STATE = PRIVATE.init(jnp.zeros(2), seed=0)

CURVES = {
    "worst_case.gaussian": of_curve(worst_case.gaussian, 1.0),
    "worst_case.laplace": of_curve(worst_case.laplace, 1.0),
    "worst_case.randomized_response": of_curve(worst_case.randomized_response, 1.0),
    "worst_case.approximate_dp": of_curve(worst_case.approximate_dp, 1.0, 1e-3),
    "worst_case.gaussian_mixture": of_curve(
        worst_case.gaussian_mixture, jnp.array([0.0, 1.0]), jnp.array([0.9, 0.1])),
    "worst_case.gaussian_releases": of_curve(
        worst_case.gaussian_releases, jnp.ones(2), jnp.ones(2)),
    "worst_case.random_allocation": of_curve(worst_case.random_allocation, 1.0, 100.0),
    "worst_case.shuffled_gaussian": of_curve(worst_case.shuffled_gaussian, 1.0, 100.0),
    "worst_case.k_ary_randomized_response": of_curve(
        lambda epsilon: worst_case.k_ary_randomized_response(epsilon, 5), 1.0),
    "worst_case.rappor": of_curve(worst_case.rappor, 0.5),
    "worst_case.unary_encoding": of_curve(worst_case.unary_encoding, 1.0),
    "worst_case.discrete_gaussian": of_curve(worst_case.discrete_gaussian, 2.0),
    "worst_case.discrete_laplace": of_curve(worst_case.discrete_laplace, 2.0),
    "worst_case.subsampled_gaussian": of_curve(
        worst_case.subsampled_gaussian, 1.0, 0.01, 100.0),
    "worst_case.truncated_gaussian": of_curve(
        lambda noise: worst_case.truncated_gaussian(noise, 0.01, 100, 1000, 20), 1.0),
    "worst_case.user_level": of_curve(
        lambda noise: worst_case.user_level(noise, 0.01, 100, 2), 1.0),
    "worst_case.exponential_mechanism": of_curve(worst_case.exponential_mechanism, 1.0),
    "worst_case.report_noisy_max": of_curve(worst_case.report_noisy_max, 1.0),
    "relaxed.k_ary_randomized_response": of_curve(
        lambda epsilon: relaxed.k_ary_randomized_response(epsilon, 5), 1.0),
    "relaxed.unary_encoding": of_curve(lambda epsilon: relaxed.unary_encoding(epsilon, 5), 1.0),
    "relaxed.gaussian": of_curve(relaxed.gaussian, 1.0, 5.0),
    "relaxed.laplace": of_curve(relaxed.laplace, 1.0),
    "relaxed.gaussian_releases": of_curve(relaxed.gaussian_releases, jnp.ones(2), jnp.ones(2)),
    "relaxed.subsampled_gaussian": of_curve(relaxed.subsampled_gaussian, 1.0, 0.01, 100.0),
    "relaxed.gaussian_limit": of_curve(relaxed.gaussian_limit, 1.0, 100.0),
    "membership.average_sgd_step": of_curve(
        lambda noise: membership.average_sgd_step(10, 100, noise), 1.0),
    "membership.sgd": of_curve(lambda mu: membership.sgd(mu, 100, 1000, 10), 0.1),
    "membership.sgd_step": of_curve(membership.sgd_step, 10.0, 100.0, 1.0),
    "membership.sgd_step_of": of_curve(
        lambda row: membership.sgd_step_of(row, jnp.zeros(2), jnp.eye(2), 100), jnp.ones(2)),
    "target.empirical_mean": of_curve(target.empirical_mean, 1.0),
    "target.misspecified": of_curve(target.misspecified, 4.0, 3.0),
    "target.noisy_mean": of_curve(
        lambda row: target.noisy_mean(row, jnp.zeros(2), jnp.eye(2), 100, 0.1), jnp.ones(2)),
    "target.subsampled_mean": of_curve(target.subsampled_mean, 1.0, 0.5),
    "accounting.gaussian_limit": of_curve(
        lambda noise: accounting.gaussian_limit(
            worst_case.subsampled_gaussian(noise, 0.01, 100)), 1.0),
    "correlated.curve": of_curve(
        lambda noise: correlated.curve(correlated.banded_square_root(4), noise, 16), 1.0),
    "compose": of_curve(
        lambda mu: jaxpriv.compose(worst_case.gaussian(mu), worst_case.gaussian(1.0)), 1.0),
    "mixture": of_curve(
        lambda mu: jaxpriv.mixture([worst_case.gaussian(mu), worst_case.gaussian(2.0)],
                                   jnp.array([0.5, 0.5])), 1.0),
    "worst_of": of_curve(
        lambda mu: jaxpriv.worst_of(worst_case.gaussian(mu), worst_case.laplace(1.0)), 1.0),
}  # fmt: skip

FUNCTIONS = {
    "calibrate": (
        lambda delta: jaxpriv.calibrate(worst_case.gaussian, epsilon=1.0, delta=delta), (1e-5,)),
    "detection_resilience": (
        lambda mu: jaxpriv.detection_resilience(relaxed.gaussian(mu), worst_case.gaussian(mu)),
        (1.0,)),
    "worst_case.signal": (worst_case.signal, (jnp.ones(2), jnp.ones(2))),
    "relaxed.gaussian_limit_mu": (relaxed.gaussian_limit_mu, (1.0, 10.0)),
    "membership.effective_batch_size": (membership.effective_batch_size, (100.0, 0.1, 1.0)),
    "membership.gdp_from_gmip": (membership.gdp_from_gmip, (0.1, 10.0, 100.0)),
    "membership.gdp_mu_step": (membership.gdp_mu_step, (10.0, 100.0, 1.0)),
    "membership.gmip_from_gdp": (membership.gmip_from_gdp, (0.1, 10.0, 100.0)),
    "target.estimator_score": (
        lambda row: target.estimator_score(squared, jnp.zeros(2), row, ROWS), (jnp.ones(2),)),
    "target.leakage_score": (
        target.leakage_score, (jnp.ones(2), jnp.zeros(2), jnp.eye(2), 100.0)),
    "random.key_of": (lambda words: jax.random.key_data(random.key_of(words)),
                      (jnp.zeros(2, jnp.uint32),)),
    "random.normal": (lambda words: random.normal(jax.random.wrap_key_data(words), (3,)),
                      (jnp.zeros(2, jnp.uint32),)),
    "random.fold_words": (lambda step: random.fold_words(jnp.zeros(4, jnp.uint32), step), (3,)),
    "random.rounded_normal": (lambda words: random.rounded_normal(words, (3,)),
                              (jnp.zeros(4, jnp.uint32),)),
    "random.from_words": (random.from_words, (jnp.ones(3, jnp.uint32),) * 4),
    "accounting.renyi_divergence": (
        lambda noise: accounting.renyi_divergence(
            worst_case.subsampled_gaussian(noise, 0.01, 100), 2.0), (1.0,)),
    "accounting.renyi_epsilon": (
        lambda noise: accounting.renyi_epsilon(worst_case.gaussian(1 / noise), 1e-5), (1.0,)),
    "correlated.banded_inverse": (
        lambda c: correlated.banded_inverse(c).column(5), (jnp.array([1.0, 0.5]),)),
    "correlated.banded_toeplitz": (
        lambda c: correlated.banded_toeplitz(c).inverse_column(5), (jnp.array([1.0, 0.5]),)),
    "correlated.buffered_toeplitz": (
        lambda decay: correlated.buffered_toeplitz(decay, jnp.array([0.1])).inverse_column(5),
        (jnp.array([0.5]),)),
    "correlated.error": (
        lambda c: correlated.error(correlated.banded_toeplitz(c), 5), (jnp.array([1.0, 0.5]),)),
    "correlated.row_norms": (
        lambda c: correlated.row_norms(correlated.banded_toeplitz(c), 5),
        (jnp.array([1.0, 0.5]),)),
    "correlated.sensitivity": (
        lambda c: correlated.sensitivity(correlated.banded_toeplitz(c), 5),
        (jnp.array([1.0, 0.5]),)),
    "correlated.noise_multiplier": (
        lambda delta: correlated.noise_multiplier(
            correlated.banded_square_root(2), 5, epsilon=1.0, delta=delta), (1e-5,)),
    "correlated.workload": (
        lambda rates: correlated.workload(rates).matrix(3), (jnp.ones(3),)),
    "filters.gaussian": (spent(filters.gaussian(1.0)), (0.5,)),
    "filters.odometer": (spent(filters.odometer([1.0, 2.0])), (0.5,)),
    "filters.renyi": (spent(filters.renyi(2.0, 1.0)), (0.5,)),
    "filters.renyi_odometer": (spent(filters.renyi_odometer(2.0, [1.0, 2.0])), (0.5,)),
    "attacks.bernoulli_likelihood_ratio": (
        attacks.bernoulli_likelihood_ratio, (jnp.full(2, 0.5), ROWS, jnp.full(2, 0.5))),
    "attacks.clip": (attacks.clip, (ROWS, 1.0)),
    "attacks.confidence": (attacks.confidence, (ROWS, jnp.array([0, 1, 0]))),
    "attacks.covariance": (
        lambda release: attacks.covariance(release, ROWS, LAW, 10.0, 0.1), (jnp.ones(2),)),
    "attacks.fisher": (attacks.fisher, (jnp.ones((3, 2)),)),
    "attacks.folded": (attacks.folded, (ROWS, 1.0)),
    "attacks.glir": (lambda release: attacks.glir(release, ROWS, LAW, 10.0, 0.1), (jnp.ones(2),)),
    "attacks.rmia": (
        lambda seen: attacks.rmia(seen, -ROWS, -jnp.ones(5), -jnp.ones((3, 5))), (-jnp.ones(2),)),
    "attacks.quantile_regression": (
        lambda seen: attacks.quantile_regression(KEY, seen, ROWS, jnp.ones(20), jnp.ones((20, 2))),
        (jnp.ones(3),)),
    "attacks.loss_threshold": (attacks.loss_threshold, (jnp.ones(3),)),
    "attacks.offline_lira": (attacks.offline_lira, (jnp.ones(2), ROWS)),
    "attacks.online_lira": (
        lambda seen, shadow: attacks.online_lira(seen, shadow, SEEN),
        (jnp.ones(2), jnp.ones((4, 2)))),
    "attacks.per_example_gradients": (
        lambda rows: attacks.per_example_gradients(squared, jnp.zeros(2), rows), (ROWS,)),
    "attacks.scalar_product": (attacks.scalar_product, (jnp.ones(2), ROWS)),
    "attacks.canaries.mahalanobis": (lambda rows: canaries.mahalanobis(rows, LAW), (ROWS,)),
    "attacks.canaries.easy_medium_hard": (canaries.easy_medium_hard, (jnp.ones(3),)),
    "attacks.canaries.dirac": (lambda norm: canaries.dirac(3, norm), (1.0,)),
    "attacks.canaries.mislabelled": (
        lambda labels: canaries.mislabelled(KEY, labels, 3), (jnp.array([0, 1]),)),
    "attacks.canaries.blank": (canaries.blank, (ROWS,)),
    "attacks.canaries.craft": (
        lambda row: canaries.craft(squared, jnp.zeros(2), row, LAW, steps=2), (jnp.ones(2),)),
    "attacks.games.play": (
        lambda shift: games.play(KEY, released, lambda output: output + shift, 4), (0.0,)),
    "attacks.games.crafter": (
        lambda row: games.crafter(mean, drawn, 3, row)(KEY, True), (jnp.ones(2),)),
    "attacks.games.target_crafter": (
        lambda member: games.target_crafter(mean, drawn, 3)(KEY, member), (True,)),
    "attacks.games.fixed_target": (
        lambda row: games.fixed_target(KEY, mean, drawn, 3, row, jnp.sum, 4), (jnp.ones(2),)),
    "attacks.games.average_target": (
        lambda shift: games.average_target(
            KEY, mean, drawn, 3, lambda row, output: jnp.sum(row * output) + shift, 4), (0.0,)),
    "attacks.reference.known": (
        lambda matrix: reference.known(jnp.zeros(2), matrix).mean, (jnp.eye(2),)),
    "training.add_noise": (
        lambda rows: training.add_noise(KEY, 1.0).update(
            rows, training.add_noise(KEY, 1.0).init(rows))[0], (ROWS,)),
    "training.clipped_sum": (
        lambda rows: training.clipped_sum(
            lambda w, row, key: squared(w, row), jnp.zeros(2), rows, clip_norm=1.0), (ROWS,)),
    "training.clipped_sum_on_grid": (
        lambda rows: training.clipped_sum_on_grid(
            lambda w, row, key: squared(w, row), jnp.zeros(2), rows, clip_norm=1.0,
            noise_multiplier=1.0, bits=10), (ROWS,)),
    "training.private_mean_on_grid": (
        lambda total: training.private_mean_on_grid(
            jnp.zeros(4, jnp.uint32), total, clip_norm=1.0, noise_multiplier=1.0, bits=10,
            expected_batch_size=10.0), (jnp.ones(2, jnp.int32),)),
    "training.ghost_clipped_sum": (
        lambda rows: training.ghost_clipped_sum(
            lambda w, row, key: jnp.sum(jnp.matmul(row, w, precision="highest")[0]),
            jnp.zeros((2, 4)), rows, clip_norm=1.0),
        (ROWS,)),
    "training.private": (
        lambda rows: PRIVATE.update(PRIVATE_STATE, rows).model, (jnp.ones((10, 2)),)),
    "training.poisson_sample": (
        lambda rate: training.poisson_sample(KEY, 100, rate, 20), (0.1,)),
    "training.private_mean": (
        lambda total: training.private_mean(
            KEY, total, clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=10.0),
        (jnp.ones(2),)),
}  # fmt: skip

# of one curve, in closed form; sub-sampled ones are of the table of curves
_AT = {"delta_bounds": (1.0,), "delta": (1.0,), "log_delta": (1.0,), "log_delta_bounds": (1.0,),
       "precision": (0.1, 0.1), "precision_bounds": (0.1, 0.1), "posterior": (0.1, 0.1),
       "posterior_bounds": (0.1, 0.1), "advantage": (), "advantage_bounds": (), "auc": (),
       "gdp_mu": (), "gdp_mu_bounds": (), "gdp_regret": (1.5,), "gdp_regret_bounds": (1.5,)}
_CURVES_OF_IT = {"reversed": (), "symmetric": (), "subsample": (0.5,), "compose": (3.0,)}


def of_method(name):
    """(a program, its arguments) of a method of `Curve`."""
    if name in _CURVES_OF_IT:
        return of_curve(lambda mu, *rest: getattr(worst_case.gaussian(mu), name)(*rest),
                        1.0, *_CURVES_OF_IT[name])  # fmt: skip
    if name == "group":
        return of_curve(lambda mu: worst_case.gaussian(mu).group(3), 1.0)
    return (lambda mu, *at: getattr(worst_case.gaussian(mu), name)(*at),
            (1.0, *_AT.get(name, (0.1,))))  # fmt: skip


# on the host, by documentation: the reason, and whom it concerns
HOST = {
    "keys of the operating system": {"random.secret_key", "random.secret_words"},
    "taking data and models apart": {"training.limit_records", "training.trainable"},
    "files": {"training.best_of", "datasets.read_idx", "datasets.fashion_mnist",
              "datasets.cifar10", "datasets.adult", "datasets.digits",
              "datasets.diabetes", "datasets.read_users", "report.read_certificate",
              "report.verify", "report.certify", "report.certify_training", "training.spent"},
    "certified statements about concrete scores": {
        "auditing.advantage", "auditing.auc", "auditing.audit", "auditing.clopper_pearson",
        "auditing.one_run", "auditing.one_run_curve_p_value", "auditing.one_run_family",
        "auditing.one_run_guesses", "auditing.one_run_p_value", "auditing.roc",
        "auditing.tpr_at_fpr"},
    "searches that run programs of their own": {
        "accounting.optimise_schedule", "correlated.optimise", "correlated.plan",
        "accounting.selection_epsilon", "attacks.campaign", "training.make_plan",
        "training.grid_bits", "training.microbatch_that_fits", "training.capacity",
        "attacks.reference.estimate"},
    "exact arithmetic on concrete coefficients": {
        "correlated.sensitivity_bounds", "correlated.with_unit_columns", "correlated.dense",
        "correlated.banded_inverse_square_root", "correlated.banded_square_root",
        "correlated.buffered_square_root"},
    "curves of numbers that somebody published": {
        "bridges.dp_accounting.curve", "bridges.jax_privacy.curve", "bridges.jax_privacy.dp_sgd",
        "bridges.points.curve", "bridges.points.of", "bridges.privacy_loss.curve",
        "bridges.renyi.curve", "bridges.renyi.zcdp"},
}  # fmt: skip
