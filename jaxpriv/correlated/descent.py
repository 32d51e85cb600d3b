"""Gradient descent: L-BFGS of optax as one program."""

from functools import partial

import jax
import jax.numpy as jnp
import optax

_MEMORY = 20  # pairs of steps that L-BFGS remembers
_PATIENCE = 5  # steps in a row that gain nothing after which it has arrived


def minimised(objective, start, iterations, tolerance):
    """(the parameters with the least objective that was met, how many steps it took).

    objective: parameters (a pytree) -> a number, of order 1. It ends after `iterations` steps, or
    where several in a row have gained less than `tolerance`. All in float64.
    """
    with jax.enable_x64(True):
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        found, steps = _descended(partial(objective), start, iterations, tolerance)
        return jax.tree.map(jax.device_get, found), int(steps)


@partial(jax.jit, static_argnums=0)
def _descended(objective, start, iterations, tolerance):
    method = optax.lbfgs(memory_size=_MEMORY)
    value_and_grad = optax.value_and_grad_from_state(objective)

    def goes_on(carry):
        _, _, best, _, step, idle = carry
        return (step < iterations) & (idle < _PATIENCE) & jnp.isfinite(best)

    def move(carry):
        parameters, state, best, at_best, step, idle = carry
        value, slope = value_and_grad(parameters, state=state)
        better = value < best
        idle = jnp.where(value < best - tolerance, 0, idle + 1)
        at_best = jax.tree.map(lambda new, old: jnp.where(better, new, old), parameters, at_best)
        updates, state = method.update(slope, state, parameters, value=value, grad=slope,
                                       value_fn=objective)
        parameters = optax.apply_updates(parameters, updates)
        return parameters, state, jnp.where(better, value, best), at_best, step + 1, idle

    begin = (start, method.init(start), objective(start) + 2 * tolerance, start,
             jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
    _, _, _, at_best, step, _ = jax.lax.while_loop(goes_on, move, begin)
    return at_best, step
