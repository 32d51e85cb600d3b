"""RMIA: how likely a model finds a record, in relation to how likely it finds records of the
population that were in no training.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import POSITIVE, UNIT, Domain, as_parameter, check_number, is_traced
from jaxpriv._types import Numbers

_LOG_P = Domain(-np.inf, 0.0, "(-inf, 0]", open_low=True)
_LOG_2 = float(np.log(2.0))


def rmia(
    log_p: Numbers, reference: Numbers, population: Numbers, population_reference: Numbers,
    member: Any = None, gamma: Numbers = 1.0, a: Numbers = 0.3,
) -> jax.Array:
    """The robust membership inference attack: the share of the population over which the query
    gains at least a factor gamma of probability.

    The gain of a record x is p(x|model)/p(x), its probability under the attacked model over that
    under a model in general, from reference models. RMIA's score is the share k/z of the population
    whose gain is at most that of the query over gamma. It takes z + 1 values, and all queries above
    the whole population tie, just where few false positives are asked for; therefore the gain
    itself, through the logistic function s, breaks ties: the score is (k + s)/(z + 1). Queries of
    one model rank as their gains do, whatever gamma and the population; those decide how scores of
    different models compare.

    Args:
        log_p: `Float[Array, "queries"]` in (-inf, 0]: log probability of the label under the
            attacked model; `jax.nn.log_sigmoid` of `confidence`, say.
        reference: `Float[Array, "models queries"]`: the same under reference (shadow) models.
        population: `Float[Array, "z"]`: of records that neither the attacked nor a reference model
            saw, under the attacked one. population_reference: `Float[Array, "models z"]`.
        member: `Bool[Array, "models queries"]`: which model saw which query ("online"); at least
            one did and one did not, for every query. None: no model saw any ("offline").
        gamma: in (0, inf). a: in [0, 1]: of a record of probability p unseen, what is taken for
            its probability if it is seen is a p + 1 - a.

    Returns: `Float[Array, "queries"]`, in (0, 1); queries of several views of a record, by `vmap`,
        are best averaged. Guarantee: offline, with gamma = 1 and gains without ties, of a query
        exchangeable with the population given all models, P(score >= 1 - t) <= t + 1/(z + 1); on
        average over such queries, not for each.
    Raises: ValueError for values outside their range, no model on one side of a query, and shapes
        that do not match.
    Source: Zarifzadeh, Liu, Shokri 2024, section 3; with the population's p(z) as their code has
        it, scaled like the queries'.

        >>> import numpy as np
        >>> others = np.log([0.2, 0.4, 0.5])           # of records that were in no training
        >>> score = rmia(np.log([0.9, 0.3]), np.log([[0.4, 0.4]]), others, others[None])
        >>> print((4 * score).astype(int))             # k: how many of them gained less
        [3 1]
    """
    given = {"log_p": log_p, "reference": reference, "population": population,
             "population_reference": population_reference}
    arrays = {name: _checked(name, value) for name, value in given.items()}
    _check_shapes(*arrays.values())
    if member is not None:
        member = _checked_member(member, arrays["reference"].shape)
    if not is_traced((gamma, a)):
        check_number("gamma", gamma, POSITIVE)
        check_number("a", a, UNIT)
    return _rmia(*arrays.values(), member, as_parameter("gamma", gamma, POSITIVE),
                 as_parameter("a", a, UNIT))


@jax.jit
def _rmia(log_p, reference, population, population_reference, member, gamma, a):
    """Sorting the population costs (queries + z) log z where the table of ratios has queries z."""
    usual = _offline(reference, a) if member is None else _online(reference, member)
    gain = log_p - usual
    gains = jnp.sort(population - _offline(population_reference, a))
    count = jnp.searchsorted(gains, gain - jnp.log(gamma), side="right")
    return (count + jax.nn.sigmoid(gain)) / (len(gains) + 1)


def _offline(unseen, a):
    """log p(x) from models that did not see x.

    p(x) = (p_in + p_out)/2, over models of which half saw x. Of p_in nothing is known but that it
    lies between p_out and 1: with p_in = a p_out + 1 - a, p(x) = ((1+a) p_out + 1 - a)/2.
    """
    mean = jax.nn.logsumexp(unseen, axis=0) - jnp.log(len(unseen))
    return jnp.logaddexp(jnp.log1p(a) + mean, jnp.log1p(-a)) - _LOG_2


def _online(shadow, member):
    """log p(x), p(x) = (p_in + p_out)/2, each the mean over the models that saw x, or did not.

    The plain mean over all models would tell how many of them saw x, and in a pool of models of
    which exactly half did, whether the one that is attacked was among those.
    """
    sides = [
        jax.nn.logsumexp(shadow, axis=0, where=side) - jnp.log(jnp.sum(side, 0))
        for side in (member, ~member)
    ]
    return jnp.logaddexp(*sides) - _LOG_2


def _checked(name, value):
    if not is_traced(value):
        check_number(name, value, _LOG_P)
    return jnp.asarray(value)


def _check_shapes(log_p, reference, population, population_reference):
    queries, others = log_p.shape, population.shape
    if len(queries) != 1 or reference.ndim != 2 or reference.shape[1:] != queries:
        raise ValueError(f"reference has shape {reference.shape}, log_p {queries}; "
                         "accepted: (models, queries), (queries,)")
    if len(others) != 1 or population_reference.shape[1:] != others or not others[0]:
        raise ValueError(
            f"population_reference has shape {population_reference.shape}, population {others}; "
            "accepted: (models, z), (z,), at least one record"
        )
    for name, models in (("reference", reference), ("population_reference", population_reference)):
        if not len(models):
            raise ValueError(f"{name} has 0 models; accepted: at least 1")


def _checked_member(member, shape):
    member = jnp.asarray(member, bool)
    if member.shape != shape:
        raise ValueError(f"member has shape {member.shape}; accepted: that of reference, {shape}")
    if not is_traced(member) and not bool(jnp.all(jnp.any(member, 0) & jnp.any(~member, 0))):
        raise ValueError("member has a query with 0 models on one side; accepted: at least 1")
    return member
