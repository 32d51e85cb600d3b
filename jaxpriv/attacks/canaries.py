"""Canaries: records made or chosen to be easy to detect,
so that an audit sees as much as there is to see.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxpriv._array import matmul
from jaxpriv._checks import POSITIVE, as_parameter, check_key
from jaxpriv._types import Numbers
from jaxpriv.attacks.gradients import as_function, clip, per_example_gradients
from jaxpriv.attacks.normal_laws import NormalLaw
from jaxpriv.attacks.scores import in_chunks

OBJECTIVES = ("mahalanobis", "canife")


def mahalanobis(gradients: Numbers, reference: NormalLaw) -> jax.Array:
    """The Mahalanobis score |g - mean|^2 under C^-1 of every gradient:
    how easily each is detected in a mean.

    Args:
        gradients: `Float[Array, "candidates d"]`. reference: from `jaxpriv.attacks.reference`.

    Returns: `Float[Array, "candidates"]`, in [0, inf); over n it is the leakage score of
        `jaxpriv.target`. Its argmax is the canary that hurts the model least: a real record.
    Source: Azize and Basu 2025 (AISTATS), Algorithm 3 (with the covariance centred).

        >>> import numpy as np
        >>> from jaxpriv.attacks.reference import known
        >>> print(mahalanobis(np.diag([1.0, 2.0]), known(np.zeros(2), np.array([1.0, 4.0]))))
        [1. 1.]
    """
    def score(rows):
        away = rows - reference.mean
        return reference.products(away, away)[0]

    return in_chunks(jnp.asarray(gradients), score)


def easy_medium_hard(scores: Numbers) -> jax.Array:
    """The places of the highest, the median and the lowest score: the three targets of Azize and
    Basu 2025's experiments.

    Args:
        scores: `Float[Array, "candidates"]`. Returns: `Int[Array, "3"]`. Source: Azize and Basu
        2025 (AISTATS), section 6.2.

        >>> import numpy as np
        >>> print(easy_medium_hard(np.array([5.0, 1.0, 3.0])))
        [0 2 1]
    """
    order = jnp.argsort(jnp.asarray(scores))
    return jnp.stack([order[-1], order[len(order) // 2], order[0]])


def dirac(dim: int, norm: Numbers = 1.0, index: int = 0) -> jax.Array:
    """The Dirac canary: a gradient with a single entry, as long as clipping lets it be.

    Args:
        dim: number of parameters. norm: `Float[Array, ""]` in (0, inf): the clipping norm.
            index: in [0, dim).

    Returns: `Float[Array, "dim"]`. Raises: ValueError for values outside their range.
    Source: Nasr et al. 2023; Kaissis et al. 2023 (NeurIPS 36), section 5 (the worst case of the
    relaxed adversary).

        >>> print(dirac(3, 2.0, 1))
        [0. 2. 0.]
    """
    if not 0 <= index < dim:
        raise ValueError(f"index = {index} is outside its range [0, {dim})")
    return jnp.zeros(dim).at[index].set(as_parameter("norm", norm, POSITIVE))


def mislabelled(key: jax.Array, labels: Numbers, classes: int) -> jax.Array:
    """Another label for every record, each wrong one equally likely.

    Args:
        key: a JAX key. labels: `Int[Array, "..."]` in [0, classes). classes: at least 2.

    Returns: labels of the same shape and dtype, none where it was.
        Raises: ValueError for fewer than two classes, or more than the labels' dtype has numbers.
    Source: Nasr, Songi, Thakurta, Papernot, Carlini 2021.

        >>> import jax
        >>> print(mislabelled(jax.random.key(0), jax.numpy.array([0, 1]), 2))
        [1 0]
    """
    check_key("key", key)
    if classes < 2:
        raise ValueError(f"classes = {classes} is outside its range [2, inf)")
    labels = jnp.asarray(labels)
    if classes - 1 > jnp.iinfo(labels.dtype).max:
        raise ValueError(f"classes = {classes} has labels that {labels.dtype} does not hold")
    # sums of small integers would overflow
    wide = labels.astype(jnp.promote_types(labels.dtype, jnp.int32))
    ahead = jax.random.randint(key, labels.shape, 1, classes, wide.dtype)
    left = classes - ahead
    return jnp.where(wide < left, wide + ahead, wide - left).astype(labels.dtype)


def blank(example: Any) -> Any:
    """A record of zeros in the shape of this one.

    Args:
        example: any pytree of arrays. Returns: the same, all zeros. Source: Nasr et al. 2023.

        >>> import numpy as np
        >>> print(blank(np.ones(3)))
        [0. 0. 0.]
    """
    return jax.tree.map(jnp.zeros_like, example)


def craft(
    loss: Callable[..., Any], model: Any, example: Any, reference: Any, *,
    objective: str = "mahalanobis", clip_norm: float | None = None, steps: int = 100,
    optimizer: Any = None, inputs: Any = None,
) -> tuple[Any, jax.Array]:
    """A canary by gradient descent on the record itself.

    "mahalanobis" climbs |g - mean|^2 under C^-1 of the record's (clipped) gradient g. "canife"
    descends sum_i (u_i^T g)^2 + max(clip_norm - |g|, 0)^2 over the reference gradients u_i.

    Args:
        loss: (model, example) -> scalar, twice differentiable.
            model: as in `per_example_gradients`.
        example: the record to start from, a pytree.
        reference: from `jaxpriv.attacks.reference` for "mahalanobis"; the gradients,
            `Float[Array, "n d"]`, for "canife".
        clip_norm: in (0, inf): of training; "canife" needs it.
        steps, optimizer: an optax optimiser, Adam at 0.05 unless given.
        inputs: the part of the example to move, as a pytree of booleans like it;
            its floating-point leaves unless given.

    Returns: (record, `Float[Array, "steps"]`: the objective before each step).
        The record is the best one seen.
    Raises: ValueError for an unknown objective, steps < 1, or "canife" without clip_norm.
    Source: Maddock, Sablayrolles, Stock 2022; Azize and Basu 2025 (AISTATS), Eq. (26) and section
    5.

        >>> import jax.numpy as jnp
        >>> from jaxpriv.attacks.reference import known
        >>> def loss(w, x):
        ...     return w @ x
        >>> law = known(jnp.zeros(2), jnp.array([1.0, 0.01]))
        >>> crafted, seen = craft(loss, jnp.zeros(2), jnp.ones(2), law, steps=50)
        >>> bool(seen[-1] > 2 * seen[0]), bool(abs(crafted[1]) > abs(crafted[0]) - 1e-3)
        (True, True)
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective = {objective!r}; accepted: {', '.join(OBJECTIVES)}")
    if objective == "canife" and clip_norm is None:
        raise ValueError(
            "clip_norm = None does not go with objective = 'canife'; accepted: (0, inf)"
        )
    if steps < 1:
        raise ValueError(f"steps = {steps} is outside its range [1, inf)")
    import optax  # only here: it takes longer to import than all curves

    optimizer = optax.adam(0.05) if optimizer is None else optimizer
    function, parameters = as_function(loss, model)
    example = jax.tree.map(jnp.asarray, example)
    if inputs is None:
        inputs = jax.tree.map(lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating), example)
    leaves, structure = jax.tree.flatten(example)
    marks = jax.tree.leaves(inputs)

    def record(moved):
        moved = iter(moved)
        return jax.tree.unflatten(
            structure, [next(moved) if mark else leaf for mark, leaf in zip(marks, leaves)]
        )

    def value(moved):
        gradient = per_example_gradients(
            function, parameters, jax.tree.map(lambda leaf: leaf[None], record(moved))
        )
        if objective == "mahalanobis":
            gradient = gradient if clip_norm is None else clip(gradient, clip_norm)
            return -mahalanobis(gradient, reference)[0]
        short = jnp.maximum(clip_norm - jnp.linalg.norm(gradient[0]), 0.0)
        return jnp.sum(matmul(reference, gradient[0]) ** 2) + short**2

    def step(state, _):
        moved, momentum, best, best_value = state
        now, slope = jax.value_and_grad(value)(moved)
        better = now < best_value
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), moved, best)
        change, momentum = optimizer.update(slope, momentum, moved)
        return (
            optax.apply_updates(moved, change),
            momentum,
            best,
            jnp.minimum(now, best_value),
        ), now

    start = [leaf for leaf, mark in zip(leaves, marks) if mark]
    (_, _, best, _), seen = jax.jit(lambda start: jax.lax.scan(
        step, (start, optimizer.init(start), start, jnp.inf), length=steps))(start)
    return record(best), -seen if objective == "mahalanobis" else seen
