"""Scores of membership from what a trained model says of a record: loss threshold and LiRA.
Higher means member.

The release is the attacked model's answer on each query; the reference statistics are the answers
of shadow models, trained by the attacker on other data, or on data that half of the
time held the query.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import is_traced
from jaxpriv._types import Answer, Numbers
from jaxpriv.stats import norm


def confidence(logits: Numbers, labels: Numbers) -> jax.Array:
    """The logit of the probability that a model gives the label:
    log p - log(1-p), nearly normal over trainings.

    z_y - log(sum of e^z over the other classes): nothing cancels, however sure the model is.

    Args:
        logits: `Float[Array, "... classes"]`, at least two classes. labels: `Int[Array, "..."]`.

    Returns: `Float[Array, "..."]`, any real number; NaN for a traced label of no class.
    Raises: ValueError for fewer than two classes, and for labels outside [0, classes).
    Source: Carlini, Chien, Nasr, Song, Terzis, Tramer 2022, section V-A.

        >>> import numpy as np
        >>> print(confidence(np.array([[100.0, 0.0]]), np.array([0])))
        [100.]
    """
    logits = jnp.asarray(logits)
    if logits.shape[-1] < 2:
        raise ValueError(f"logits has {logits.shape[-1]} classes; accepted: at least 2")
    labels = jnp.asarray(labels)
    known = (labels >= 0) & (labels < logits.shape[-1])
    if not is_traced(known) and not bool(jnp.all(known)):
        raise ValueError(f"labels are outside their range [0, {logits.shape[-1]})")
    chosen = jax.nn.one_hot(labels, logits.shape[-1], dtype=bool)
    found = jnp.sum(jnp.where(chosen, logits, 0.0), -1) - jax.nn.logsumexp(
        jnp.where(chosen, -jnp.inf, logits), axis=-1
    )
    return jnp.where(known, found, jnp.nan)


def loss_threshold(losses: Numbers) -> jax.Array:
    """The score of the oldest attack: what is fitted well was trained on. Minus the loss.

    Args:
        losses: `Float[Array, "..."]`. Returns: the same shape.
            Source: Yeom, Giacomelli, Fredrikson, Jha 2018.

        >>> print(loss_threshold(0.25))
        -0.25
    """
    return -jnp.asarray(losses)


def offline_lira(confidences: Numbers, out: Numbers, same_spread: bool = False) -> Answer:
    """LiRA from shadow models that never saw the query: how unusually sure the attacked model is.

    Minus the log p-value of the confidence under the normal law fitted to the shadow
    models' confidences.

    Args:
        confidences: `Float[Array, "queries"]`, of the attacked model,
            from `confidence` (or any nearly normal answer).
        out: `Float[Array, "models queries"]`: of models trained without the query, at least two.
        same_spread: one standard deviation for all queries; better for fewer than about 64 models.

    Returns: `Float[Array, "queries"]`, in [0, inf), never cut off.
    Raises: ValueError for fewer than two models, or shapes that do not match.
    Source: Carlini et al. 2022, section V-C; Kaissis et al. 2023 (NeurIPS 36), section 5 (this is
    the relaxed adversary).

        >>> import numpy as np
        >>> print(f"{offline_lira(np.array([3.0]), np.array([[-1.0], [1.0]]))[0]:.4f}")
        4.0776
    """
    mean, std = _fitted(out, jnp.ones_like(jnp.asarray(out), bool), "out", confidences, same_spread)
    return -norm.logsf((jnp.asarray(confidences) - mean) / std)


def online_lira(
    confidences: Numbers, shadow: Numbers, member: Numbers, same_spread: bool = False
) -> Answer:
    """LiRA from shadow models of which some saw the query:
    the log likelihood ratio of two normal laws.

    Args:
        confidences: `Float[Array, "queries"]`, of the attacked model.
        shadow: `Float[Array, "models queries"]`. member: `Bool[Array, "models queries"]`: whether
            that model saw that query; at least two models with and two without, for every query.
        same_spread: one standard deviation for all queries on each side.

    Returns: `Float[Array, "queries"]`, any real number; 0 is indifferent.
    Raises: ValueError for too few models, or shapes that do not match. Source: Carlini et al.
        2022, Algorithm 1.

        >>> import numpy as np
        >>> shadow = np.array([[-1.0], [1.0], [3.0], [5.0]])
        >>> member = np.array([[False], [False], [True], [True]])
        >>> print(f"{online_lira(np.array([4.0]), shadow, member)[0]:.4f}")
        4.0000
    """
    confidences, member = jnp.asarray(confidences), jnp.asarray(member, bool)
    (mean_in, std_in), (mean_out, std_out) = (
        _fitted(shadow, chosen, "shadow", confidences, same_spread) for chosen in (member, ~member))
    return (norm.logpdf((confidences - mean_in) / std_in) - jnp.log(std_in)
            - norm.logpdf((confidences - mean_out) / std_out) + jnp.log(std_out))


def _fitted(values, chosen, name, confidences, same_spread):
    """Mean and standard deviation (over the count less one, pooled if `same_spread`, and no less
    than rounding) of the chosen values of every column.
    """
    values, queries = jnp.asarray(values), jnp.shape(confidences)
    if values.ndim != 2 or values.shape[1:] != queries or chosen.shape != values.shape:
        raise ValueError(
            f"{name} has shape {values.shape} and its members {chosen.shape}, confidences "
            f"{queries}; accepted: (models, queries) twice, (queries,)"
        )
    counts = jnp.sum(chosen, 0)
    if not is_traced(counts) and np.any(np.asarray(counts) < 2):
        raise ValueError(
            f"{name} has {int(np.min(counts))} models on one side of a query; accepted: at least 2"
        )
    mean = jnp.sum(jnp.where(chosen, values, 0.0), 0) / counts
    squares = jnp.sum(jnp.where(chosen, values - mean, 0.0) ** 2, 0)
    if same_spread:
        squares, counts = jnp.sum(squares), jnp.sum(counts - 1) + 1
    # the same answer of all models is known to rounding
    rounding = jnp.finfo(mean.dtype).eps * (1 + jnp.abs(mean))
    return mean, jnp.maximum(jnp.sqrt(squares / (counts - 1)), rounding)
