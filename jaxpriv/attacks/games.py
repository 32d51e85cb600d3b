"""Membership games, played thousands of times in one program.

A game is a `release`: a function (key, member) -> output, one round with the record in question
present or absent. `crafter` makes one of a mechanism, a law of records and a target; `play` draws
the coins and scores the outputs. Keys are explicit.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxpriv._checks import check_key


def play(
    key: jax.Array, release: Callable[..., Any], score: Callable[..., Any], rounds: int,
    batch_size: int = 32,
) -> tuple[Any, jax.Array]:
    """Rounds of a game: a fair coin decides whether the record is present,
    the attacker scores what comes out.

    Args:
        key: a JAX key.
        release: (key, member) -> output, any pytree; member is a boolean scalar, traced.
        score: (output) -> scalar, higher means member;
            or any pytree of scalars, one for each attack.
        rounds: number of rounds. batch_size: how many are played at once.

    Returns: (scores, member): `Float[Array, "rounds"]`, `Bool[Array, "rounds"]`, as
        `jaxpriv.auditing` takes them.
    Raises: ValueError for rounds < 1 and for old-style keys. Source: Azize and Basu 2025 (AISTATS),
    Algorithm 2.

        >>> import jax
        >>> from jaxpriv import random
        >>> noisy = lambda key, member: jax.numpy.where(member, 3.0, 0.0) + random.normal(key)
        >>> scores, member = play(jax.random.key(0), noisy, lambda output: output, 1000)
        >>> bool(scores[member].mean() > 2.5), bool(abs(scores[~member].mean()) < 0.5)
        (True, True)
    """
    check_key("key", key)
    if rounds < 1:
        raise ValueError(f"rounds = {rounds} is outside its range [1, inf)")

    def one(key):
        coin, own = jax.random.split(key)
        member = jax.random.bernoulli(coin)
        return score(release(own, member)), member

    return _played(one, jax.random.split(key, rounds), min(batch_size, rounds))


def _played(one, keys, batch_size):
    return jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=batch_size))(keys)


def crafter(
    mechanism: Callable[..., Any], draw: Callable[..., Any], size: int, target: Any
) -> Callable[..., Any]:
    """The crafter of a fixed-target game: data drawn anew,
    the target put in a random place if it is present.

    Args:
        mechanism: (key, data) -> output; data is a pytree with leading axis `size`.
        draw: (key, count) -> that many records of the law of the data, as such a pytree.
        size: number of records n. target: one record.

    Returns: a `release` for `play`: (key, member) -> output. Source: Azize and Basu 2025 (AISTATS),
    Algorithm 1.

        >>> import jax
        >>> draw = lambda key, count: jax.numpy.zeros((count, 2))
        >>> release = crafter(lambda key, data: data.mean(0), draw, 4, jax.numpy.ones(2))
        >>> print(release(jax.random.key(0), True), release(jax.random.key(0), False))
        [0.25 0.25] [0. 0.]
    """

    def release(key, member):
        key_data, key_place, key_mechanism = jax.random.split(key, 3)
        data = draw(key_data, size)
        return mechanism(key_mechanism, _placed(key_place, data, size, target, member))

    return release


def _placed(key, data, size, target, member):
    """The data with the target in a random row, if it is a member."""
    place = jax.random.randint(key, (), 0, size)
    return jax.tree.map(
        lambda rows, row: rows.at[place].set(jnp.where(member, row, rows[place])), data, target
    )


def target_crafter(
    mechanism: Callable[..., Any], draw: Callable[..., Any], size: int
) -> Callable[..., Any]:
    """The crafter of an average-target game: the target is a record of the data,
    or another one from their law.

    Args: as `crafter`. Returns: a `release` for `play` whose output is (target,
        output of the mechanism).
    Source: Azize and Basu 2025 (AISTATS), Algorithms 5 and 6.

        >>> import jax
        >>> draw = lambda key, count: jax.random.normal(key, (count, 3))
        >>> release = target_crafter(lambda key, data: data.mean(0), draw, 1)
        >>> target, mean = release(jax.random.key(0), True)
        >>> bool((target == mean).all())
        True
    """

    def release(key, member):
        key_target, rest = jax.random.split(key)
        target = jax.tree.map(lambda rows: rows[0], draw(key_target, 1))
        return target, crafter(mechanism, draw, size, target)(rest, member)

    return release


def fixed_target(
    key: jax.Array, mechanism: Callable[..., Any], draw: Callable[..., Any], size: int, target: Any,
    score: Callable[..., Any], rounds: int, batch_size: int = 32,
) -> tuple[Any, jax.Array]:
    """The fixed-target membership game: `play` of `crafter`.

    Args: as `crafter` and `play`. Returns: (scores, member). Source: Azize and Basu 2025 (AISTATS),
    Algorithm 2.

        >>> import jax
        >>> draw = lambda key, count: jax.random.normal(key, (count, 100))
        >>> target = jax.numpy.full(100, 2.0)
        >>> scores, member = fixed_target(jax.random.key(0), lambda key, data: data.mean(0), draw,
        ...                               20, target, lambda mean: mean @ target, 200)
        >>> bool(scores[member].min() > scores[~member].mean())
        True
    """
    return play(key, crafter(mechanism, draw, size, target), score, rounds, batch_size)


def average_target(
    key: jax.Array, mechanism: Callable[..., Any], draw: Callable[..., Any], size: int,
    score: Callable[..., Any], rounds: int, batch_size: int = 32,
) -> tuple[Any, jax.Array]:
    """The average-target membership game, a new target in every round: `play` of `target_crafter`.

    Args: as `crafter` and `play`, but score: (target, output) -> scalar. Returns: (scores, member).
    Source: Azize and Basu 2025 (AISTATS), Algorithm 6.

        >>> import jax
        >>> draw = lambda key, count: jax.random.normal(key, (count, 100))
        >>> scores, member = average_target(jax.random.key(0), lambda key, data: data.mean(0), draw,
        ...                                 20, lambda target, mean: mean @ target, 200)
        >>> bool(scores[member].mean() > 3)
        True
    """
    return play(key, target_crafter(mechanism, draw, size), lambda output: score(*output), rounds,
                batch_size)
