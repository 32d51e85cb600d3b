"""An average of the parameters along a training, which noise moves less than the last of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxpriv._checks import BELOW_ONE, check_number


class AverageState(NamedTuple):
    """`parameter_average`: a pytree like the parameters, in float32 at least; step: updates so
    far.
    """

    parameter_average: Any
    step: jax.Array


def parameter_average(decay):
    """A moving average of the parameters, kept in the optimiser's state; updates pass unchanged.

    The last of a chain: it averages parameters + updates, a <- d a + (1 - d) (parameters +
    updates) with d = min(decay, (1+t)/(10+t)) after t updates. `optax.ema` averages updates.
    `optax.tree.get(state, "parameter_average")` reads the average, for evaluation.

    Args:
        decay: in [0, 1).

    Returns: an `optax.GradientTransformation`, whose `update` needs the parameters.
    Guarantee: post-processing of releases; it costs no privacy.
    Raises: ValueError for a decay outside its range, and without parameters.
    Source: De et al. 2022.

        >>> import jax.numpy as jnp, optax
        >>> optimizer = optax.chain(optax.sgd(1.0), parameter_average(0.9))
        >>> state = optimizer.init(jnp.full(1, 4.0))
        >>> _, state = optimizer.update(jnp.ones(1), state, jnp.full(1, 4.0))
        >>> print(f"{optax.tree.get(state, 'parameter_average')[0]:.1f}")  # 0.1 * 4 + 0.9 * 3
        3.1
    """
    check_number("decay", decay, BELOW_ONE)

    def init(parameters):
        # a copy: a step that donates parameters and state may not be given one buffer twice
        wide = jax.tree.map(
            lambda leaf: jnp.array(leaf, jnp.promote_types(leaf.dtype, jnp.float32), copy=True),
            parameters,
        )
        return AverageState(wide, jnp.zeros((), jnp.int32))

    def update(updates, state, parameters=None):
        if parameters is None:
            raise ValueError("parameter_average needs them: update(updates, state, parameters)")
        now = jnp.minimum(decay, (1 + state.step) / (10 + state.step))
        after = optax.apply_updates(parameters, updates)
        average = jax.tree.map(
            lambda mean, new: (mean + (1 - now) * (new - mean)).astype(mean.dtype),
            state.parameter_average, after,
        )
        return updates, AverageState(average, state.step + 1)

    return optax.GradientTransformation(init, update)
