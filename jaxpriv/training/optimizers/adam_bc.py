"""DP-AdamBC: Adam whose second moments are those of the gradients, without the noise."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxpriv._checks import BELOW_ONE, POSITIVE, check_number


class AdamBCState(NamedTuple):
    """Moving averages, not yet divided by 1 - b^step: of releases, of their squares, and of the
    noise's variance.
    """

    step: jax.Array
    first: Any
    second: Any
    noise: jax.Array


def adam_bc(learning_rate, noise_std, b1=0.9, b2=0.999, floor=None):
    """Adam for noisy gradients: the noise's variance is subtracted from the second moments.

    Noise of variance Phi makes E[release^2] = E[gradient^2] + Phi. Where Phi is the larger part,
    Adam divides every entry by about the same number, and is SGD with momentum.

    Args:
        learning_rate: a number, or a schedule: (step) -> number.
        noise_std: Phi^1/2, of the noise on an entry of the release: noise_multiplier clip_norm/
            expected_batch_size for `private_mean`. In (0, inf), or a schedule.
        b1, b2: in [0, 1).
        floor: the least second moment, gamma' of the paper, in (0, inf). Unless given, one standard
            deviation of what Phi's estimate is off by: less is not told from nothing.

    Returns: an `optax.GradientTransformation` of releases. Guarantee: post-processing; it needs no
        data and costs no privacy. Raises: ValueError for values outside their range.
    Source: Tang, Shpilevskiy, Lécuyer 2024, Algorithm 1.

        >>> import jax, jax.numpy as jnp
        >>> optimizer = adam_bc(0.1, noise_std=1.0)
        >>> state = optimizer.init(jnp.zeros(100_000))
        >>> for key in jax.random.split(jax.random.key(0), 5):
        ...     release = 0.5 + jax.random.normal(key, (100_000,))
        ...     _, state = optimizer.update(release, state)
        >>> unbiased = (state[0].second - state[0].noise) / (1 - 0.999**5)  # of gradient^2
        >>> print(f"{unbiased.mean():.2f}")
        0.25
    """
    for name, value, domain in (("b1", b1, BELOW_ONE), ("b2", b2, BELOW_ONE),
                                ("noise_std", noise_std, POSITIVE), ("floor", floor, POSITIVE)):
        if value is not None and not callable(value):
            check_number(name, value, domain)
    return optax.chain(
        _scale_by_adam_bc(noise_std, b1, b2, floor), optax.scale_by_learning_rate(learning_rate)
    )


def _scale_by_adam_bc(noise_std, b1, b2, floor):
    def zeros(parameters):
        # second moments of bfloat16 would not move: 1 - b2 is below its rounding
        return jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32)),
            parameters,
        )

    def init(parameters):
        return AdamBCState(
            jnp.zeros((), jnp.int32), zeros(parameters), zeros(parameters), jnp.zeros(())
        )

    def update(updates, state, parameters=None):
        del parameters
        std = noise_std(state.step) if callable(noise_std) else noise_std
        step = state.step + 1
        first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.first, updates)
        second = jax.tree.map(
            lambda v, g: b2 * v + (1 - b2) * jnp.square(g.astype(v.dtype)), state.second, updates
        )
        # weighted as the squares are, for schedules; both start at zero, so both lack 1 - b2^step
        noise = b2 * state.noise + (1 - b2) * jnp.asarray(std, state.noise.dtype) ** 2
        variance = noise / (1 - b2**step)
        least = variance * _spread(b2, step) if floor is None else floor

        def scaled(m, v, g):
            moment = jnp.maximum(v / (1 - b2**step) - variance, least)
            return (m / (1 - b1**step) / jnp.sqrt(moment)).astype(g.dtype)

        return (jax.tree.map(scaled, first, second, updates),
                AdamBCState(step, first, second, noise))

    return optax.GradientTransformation(init, update)


def _spread(b2, step):
    """The standard deviation of a weighted mean of squares of N(0, 1), w_i = (1-b) b^i/(1-b^t).

    Var = 2 sum w_i^2 = 2 (1-b)^2/(1-b^t)^2 (1-b^2t)/(1-b^2) = 2 (1-b)/(1+b) (1+b^t)/(1-b^t).
    """
    return jnp.sqrt(2 * (1 - b2) / (1 + b2) * (1 + b2**step) / (1 - b2**step))
