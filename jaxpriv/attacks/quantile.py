"""Membership without shadow models: what confidence is usual for records like this one, learned
from records that were in no training.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxpriv._array import matmul
from jaxpriv._checks import check_key, check_whole, is_traced
from jaxpriv._types import Numbers
from jaxpriv.stats import norm

_BATCH = 256
_BETWEEN = 20  # steps between two looks at the records that are held out


def quantile_regression(
    key: jax.Array, confidences: Numbers, features: Numbers, out: Numbers, out_features: Numbers,
    width: int = 64, steps: int = 1000,
) -> jax.Array:
    """The quantile regression attack: how unusually sure the attacked model is of a record, among
    records of like features.

    A law N(mean(features), std(features)^2) is fitted to the confidences of records that were in no
    training, by a linear map plus a layer of tanh, starting from the law without features. A fifth
    of those records is held out, and what fits them best is kept. The score is minus the log
    p-value of the query's confidence under its law: `offline_lira` with a law from features in the
    place of shadow models.

    Args:
        key: a JAX key. confidences: `Float[Array, "queries"]`, of the attacked model, from
            `confidence` (or any nearly normal answer). features: `Float[Array, "queries d"]`.
        out: `Float[Array, "others"]`: the same model's confidences of at least ten records that it
            was not trained on. out_features: `Float[Array, "others d"]`.
        width: in 1, 2, ...: of the layer. steps: in 1, 2, ...: of Adam, rounded up to twenties.

    Returns: `Float[Array, "queries"]`, in [0, inf), never cut off.
    Guarantee: none from the score itself, whose law is fitted. A threshold taken from scores of
        further records of the law of the non-members has its type I error on average over such
        records, not for each of them, nor for those of another law.
    Raises: ValueError for values that are not finite, fewer than ten others, and shapes that do not
        match.
    Source: Bertran et al. 2023, section 3 (the Gaussian model of the quantiles).

        >>> import jax, numpy as np
        >>> random = np.random.default_rng(0)
        >>> hard = random.uniform(size=(1000, 1))       # a feature: the harder, the less sure
        >>> sure = 4 - 8 * hard[:, 0] + random.normal(size=1000)
        >>> score = quantile_regression(jax.random.key(0), np.zeros(2), np.array([[0.1], [0.9]]),
        ...                             sure, hard)
        >>> bool(score[0] < 0.1), bool(score[1] > 3)    # 0 is little for one, much for the other
        (True, True)
    """
    check_key("key", key)
    check_whole("width", width)
    check_whole("steps", steps)
    given = {"confidences": confidences, "features": features, "out": out,
             "out_features": out_features}
    confidences, features, out, out_features = (
        _checked(name, value) for name, value in given.items()
    )
    for name, values, rows in (("confidences", confidences, features), ("out", out, out_features)):
        if values.ndim != 1 or rows.ndim != 2 or len(rows) != len(values):
            raise ValueError(f"{name} has shape {values.shape} and its features {rows.shape}; "
                             "accepted: (n,), (n, d)")
    if features.shape[1] != out_features.shape[1]:
        raise ValueError(f"features has {features.shape[1]} columns, out_features "
                         f"{out_features.shape[1]}; accepted: equally many")
    if len(out) < 10:
        raise ValueError(f"out has {len(out)} records; accepted: at least 10")
    return _scores(key, confidences, features, out, out_features, width, steps)


def _checked(name, value):
    array = jnp.asarray(value, jnp.result_type(value, 0.0))
    if not is_traced(array) and not np.all(np.isfinite(np.asarray(array))):
        raise ValueError(f"{name} has entries that are not finite; accepted: finite numbers")
    return array


@partial(jax.jit, static_argnames=("width", "steps"))
def _scores(key, confidences, features, out, out_features, width, steps):
    centre, scale = _standard(out_features)
    middle, spread = _standard(out)
    rows, seen = (out_features - centre) / scale, (out - middle) / spread
    law = _fitted(key, rows, seen, width, steps)
    mean, log_std = _law(law, (features - centre) / scale)
    return -norm.logsf(((confidences - middle) / spread - mean) * jnp.exp(-log_std))


def _standard(values):
    """Mean and standard deviation, 1 where all are alike."""
    std = jnp.std(values, 0)
    return jnp.mean(values, 0), jnp.where(std > 0, std, 1.0)


def _law(parameters, rows):
    """(mean, log std) of every row."""
    hidden = jnp.tanh(matmul(rows, parameters["inner"]) + parameters["shift"])
    both = matmul(hidden, parameters["outer"]) + matmul(rows, parameters["linear"])
    both = both + parameters["base"]
    return both[:, 0], both[:, 1]


def _loss(parameters, rows, seen):
    """Minus the log density of N(mean, std^2), less a constant: log std + ((c - mean)/std)^2/2.

    Its minimum over all laws is at the conditional ones, as that of the pinball loss is at a
    quantile; here all quantiles, mean + std Phi^-1(p), come at once and cannot cross.
    """
    mean, log_std = _law(parameters, rows)
    return jnp.mean(log_std + jnp.exp(-2 * log_std) * (seen - mean) ** 2 / 2)


def _fitted(key, rows, seen, width, steps):
    """The parameters that fit the held-out fifth best, of those after every so many steps."""
    import optax  # only here: it takes longer to import than all curves

    key_start, key_split, key_steps = jax.random.split(key, 3)
    d, held = rows.shape[1], len(rows) // 5
    order = jax.random.permutation(key_split, len(rows))
    kept, training = order[:held], order[held:]
    inner = jax.random.normal(key_start, (d, width), rows.dtype) / np.sqrt(max(d, 1))
    # as one vector: of many arrays, Adam takes longer to compile than to run
    start, as_tree = ravel_pytree({"inner": inner, **{
        name: jnp.zeros(shape, rows.dtype)
        for name, shape in (("shift", width), ("outer", (width, 2)), ("linear", (d, 2)),
                            ("base", 2))}})
    rate = optax.cosine_decay_schedule(0.03, steps)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))

    def loss(vector, records):
        return _loss(as_tree(vector), rows[records], seen[records])

    def step(state, records):
        vector, momentum = state
        change, momentum = optimizer.update(jax.grad(loss)(vector, training[records]), momentum)
        return (vector + change, momentum), None

    def look(state, records):
        running, best, least = state
        running, _ = jax.lax.scan(step, running, records)
        now = loss(running[0], kept)
        return (running, jnp.where(now < least, running[0], best), jnp.fmin(now, least)), None

    shape = -(-steps // _BETWEEN), _BETWEEN, min(_BATCH, len(training))
    batches = jax.random.randint(key_steps, shape, 0, len(training))
    state = (start, optimizer.init(start)), start, loss(start, kept)
    return as_tree(jax.lax.scan(look, state, batches)[0][1])
