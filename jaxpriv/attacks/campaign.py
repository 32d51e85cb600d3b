"""All attacks on a user's own training: shadow trainings in one program, scores, and what these
prove.

Targets and shadows are trained alike, on random halves of the same records; their coins are not
alike. Every record is in exactly half of the shadows, so that LiRA has as much to fit on either
side. It is in each target by a fair coin of its own, independent of everything: with the shadows'
design a record's place in the other models would tell whether it is in this one. That also is why
no shadow takes its turn as a target, as it does in LiRA's experiments: each guess about a record
would use the coins of others. As it is, `auditing.one_run` holds for all (target, record) pairs
together: they are the canaries of one mechanism, that of training all targets, in which a coin
moves the law of one target's training alone, which is independent of the others'.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import auditing
from jaxpriv._checks import BELOW_ONE, OPEN_UNIT, check_key, check_number, check_whole
from jaxpriv.attacks.campaign_report import LOOKS, Campaign, Leak
from jaxpriv.attacks.losses import loss_threshold, offline_lira, online_lira
from jaxpriv.attacks.quantile import quantile_regression
from jaxpriv.attacks.rmia import rmia

_PAIRS = 10**6  # that `one_run` takes


def campaign(key, train, answer, data, population, *, shadows=64, targets=8, features=None,
             curve=None, delta=1e-5, fpr=0.01, confidence=0.95, batch_size=None):
    """Attack a training of your own by loss threshold, LiRA, RMIA and quantile regression, and say
    what each of them proves.

    Args:
        key: a JAX key.
        train: (key, data, member) -> parameters, any pytree; a pure function, traced once for all
            models. member is a `Bool[Array, "records"]`: only those records may have a part.
        answer: (parameters, data) -> `Float[Array, "records"]`: how sure the model is of every
            record, from `confidence`.
        data: the records, a pytree of arrays with a leading axis. population: like data: further
            records of the same law, which are in no training; a test set.
        shadows: an even number in 4, 6, ...: models that the attacker trains. targets: in 1, 2,
            ...: models that are attacked; targets times records at most 10^6.
        features: (data) -> `Float[Array, "records d"]`, for quantile regression; without it, that
            attack is left out.
        curve: a scalar `Curve` that `train` is claimed to have, of one record with and without.
        delta: in [0, 1): of epsilon. fpr: in (0, 1). confidence: in (0, 1).
        batch_size: in 1, 2, ...: how many models are trained at once, by `vmap`; all, or on a CPU
            one, unless given.

    Returns: a `Campaign`: `print` shows its table, `plot` draws the ROC curves.
    Guarantee: all lower bounds of epsilon, and whether the claimed curve is refuted, hold together
        with probability `confidence` for the training as it ran, however its records influence
        each other. They are no upper bounds: other attackers may see more. Rates and areas are
        estimates.
    Raises: ValueError for values outside their range, records that do not match, and answers that
        are not finite.
    Source: Carlini et al. 2022 (shadow models); Steinke, Nasr, Jagielski 2023 (what they prove);
        Jälkö et al. 2026 (the bias of targets out of a balanced design).

        >>> import jax, jax.numpy as jnp
        >>> from jaxpriv import random, worst_case
        >>> def train(key, data, member):         # releases each record's membership, with noise
        ...     return jnp.zeros(800).at[data].set(member) + random.normal(key, (800,))
        >>> found = campaign(jax.random.key(0), train, lambda released, data: released[data],
        ...                  jnp.arange(500), jnp.arange(500, 800), curve=worst_case.gaussian(1.0))
        >>> bool(0.7 < found.leaks["online LiRA"].auc < 0.8), found.refuted
        (True, [])
    """
    check_key("key", key)
    check_number("delta", delta, BELOW_ONE)
    check_number("fpr", fpr, OPEN_UNIT)
    check_number("confidence", confidence, OPEN_UNIT)
    check_whole("shadows", shadows, least=4)
    if shadows % 2:
        raise ValueError(f"shadows = {shadows}; accepted: an even number")
    check_whole("targets", targets)
    records, others = _count("data", data), _count("population", population)
    check_whole("targets times records", targets * records, least=4, most=_PAIRS)
    key_target, key_shadow, key_train, key_fit = jax.random.split(key, 4)
    coins = jax.random.bernoulli(key_target, 0.5, (targets, records))
    seen = _balanced(key_shadow, shadows, records)
    answers = _answers(key_train, train, answer, data, population, (records, others),
                       jnp.concatenate([coins, seen]), batch_size)
    (target, shadow), (target_others, shadow_others) = (
        (part[:targets], part[targets:]) for part in answers
    )
    scores = _scores(target, shadow, seen, target_others, shadow_others)
    if features is not None:
        fit = jax.vmap(quantile_regression, in_axes=(0, 0, None, 0, None))
        scores["quantile regression"] = fit(jax.random.split(key_fit, targets), target,
                                            features(data), target_others, features(population))
    scores = {name: np.asarray(scores[name]) for name in LOOKS if name in scores}
    member = np.asarray(coins)
    # each attack misses with its part, so that the best of them may be looked at
    each = 1 - (1 - confidence) / len(scores)
    leaks = {name: _leak(score.ravel(), member.ravel(), curve, delta, fpr, each)
             for name, score in scores.items()}
    return Campaign(scores, member, leaks, shadows, curve, delta, fpr, confidence)


def _count(name, tree):
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(tree)}
    if len(counts) != 1 or () in counts or (0,) in counts:
        raise ValueError(f"{name} has leaves of lengths {sorted(counts)}; accepted: one, above 0")
    return counts.pop()[0]


def _balanced(key, models, records):
    """`Bool[Array, "models records"]`: every record in a random half of the models."""
    half = jnp.broadcast_to(jnp.arange(models)[:, None] < models // 2, (models, records))
    return jax.random.permutation(key, half, axis=0, independent=True)


def _answers(key, train, answer, data, population, counts, member, batch_size):
    """Every model's answers on data and population, `Float[Array, "models ..."]` each, by one
    program; parameters are not kept.
    """

    def one(data, population, key, member):
        parameters = train(key, data, member)
        return answer(parameters, data), answer(parameters, population)

    def every(data, population, keys, member):
        return _each(lambda pair: one(data, population, *pair), (keys, member), batch_size)

    if batch_size is not None:
        check_whole("batch_size", batch_size)
    data, population = (jax.tree.map(jnp.asarray, tree) for tree in (data, population))
    keys = jax.random.split(key, len(member))
    shapes = [made.shape for made in jax.eval_shape(one, data, population, keys[0], member[0])]
    if shapes != [(count,) for count in counts]:
        raise ValueError(f"answer gives shapes {shapes}; accepted: {[(n,) for n in counts]}")
    answers = jax.jit(every)(data, population, keys, member)
    for name, made in zip(("data", "population"), answers):
        wrong = np.argwhere(~np.isfinite(np.asarray(made)))
        if len(wrong):
            raise ValueError(f"answer on {name} is not finite for model {wrong[0][0]}, record "
                             f"{wrong[0][1]}; accepted: finite numbers")
    return answers


def _each(one, pairs, batch_size):
    """`one` of every pair. XLA's programs for CPUs take two to three times as long for products of
    many small matrices at once as for one after the other (bench/campaign.py).
    """
    count = len(pairs[0])
    if batch_size is None:
        batch_size = 1 if jax.default_backend() == "cpu" else count
    if batch_size == 1:  # by itself: a batch of one would be such a product, too
        return jax.lax.map(one, pairs)
    if batch_size >= count:
        return jax.vmap(one)(pairs)
    return jax.lax.map(one, pairs, batch_size=batch_size)


@jax.jit
def _scores(target, shadow, seen, target_others, shadow_others):
    """The scores of every attack that needs no features, `Float[Array, "targets records"]` each."""
    half = len(shadow) // 2
    out = jnp.take_along_axis(shadow, jnp.argsort(seen, axis=0)[:half], axis=0)
    few = half < 64  # see `offline_lira`
    log_p, log_shadow, log_out, log_others, log_shadow_others = (
        jax.nn.log_sigmoid(sure) for sure in (target, shadow, out, target_others, shadow_others)
    )
    return {
        "loss threshold": loss_threshold(-log_p),
        "offline LiRA": jax.vmap(lambda sure: offline_lira(sure, out, few))(target),
        "online LiRA": jax.vmap(lambda sure: online_lira(sure, shadow, seen, few))(target),
        "offline RMIA": jax.vmap(lambda query, others: rmia(
            query, log_out, others, log_shadow_others))(log_p, log_others),
        "online RMIA": jax.vmap(lambda query, others: rmia(
            query, log_shadow, others, log_shadow_others, seen))(log_p, log_others),
    }


def _leak(score, member, curve, delta, fpr, confidence):
    """Bound of epsilon and verdict miss together no more often than each alone may: both are wrong
    for so many correct guesses or more.
    """
    proved = auditing.one_run(score, member, delta, confidence=confidence)
    seen = proved.correct, proved.guesses, proved.canaries
    p_value = None if curve is None else auditing.one_run_curve_p_value(curve, *seen)
    return Leak(auditing.auc(score, member), auditing.tpr_at_fpr(score, member, fpr, confidence),
                proved, p_value, p_value is not None and p_value <= 1 - confidence)
