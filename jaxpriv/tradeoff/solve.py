"""One root finder for increasing functions: Newton's step where it stays in the bracket and shrinks it, bisection elsewhere."""

import jax
import jax.numpy as jnp


def newton_in_bracket(function, low, high, iterations=40):
    """The x in [low, high] where an increasing function crosses zero, elementwise: the best of a fixed number of tries.

    Args:
        function: x -> (value, slope); the slope may be rough, zero or infinite, for it only proposes a step.
        low, high: arrays; finite ends are used as they are, a value beyond the function's range gives the nearer end.
    """

    def step(_, state):
        low, high, x, best, smallest = state
        value, slope = function(x)
        size = jnp.abs(value)
        # the iterate after the root, where rounding is all that is left, may be thrown to the bracket's middle
        best, smallest = jnp.where(size < smallest, x, best), jnp.minimum(jnp.where(jnp.isnan(size), jnp.inf, size), smallest)
        low = jnp.where(value <= 0, x, low)
        high = jnp.where(value >= 0, x, high)
        proposal = x - value / jnp.where(slope > 0, slope, 1.0)
        good = (slope > 0) & (proposal > low) & (proposal < high)
        middle = 0.5 * low + 0.5 * high
        return low, high, jnp.where(good, proposal, middle), best, smallest

    middle = 0.5 * low + 0.5 * high
    state = low, high, middle, middle, jnp.full_like(middle, jnp.inf)
    return jax.lax.fori_loop(0, iterations, step, state)[3]

