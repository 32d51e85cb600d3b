"""Gradient descent: L-BFGS with one compiled program, the objective and its gradient.

optax's, as a program of its own, has the objective three times inside its line search, and takes
XLA three times as long to compile as all steps take to run.
"""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

_MEMORY = 20  # pairs of steps and slopes that are remembered
_PATIENCE = 5  # steps in a row that gain nothing after which it has arrived
_ENOUGH = 1e-4  # of what the slope promises is gained by an accepted step
_HALVINGS = 30  # of a step, before the descent gives up


def minimised(objective, start, iterations, tolerance):
    """(the parameters with the least objective that was met, how many steps it took).

    objective: parameters (a pytree) -> a number of order 1. It ends after `iterations` steps, or
    where several in a row have gained less than `tolerance`. All in float64.
    """
    with jax.enable_x64(True):
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        flat, unravel = ravel_pytree(start)
        program = jax.jit(jax.value_and_grad(lambda vector: objective(unravel(vector))))

        def value_and_slope(vector):
            value, slope = program(vector)
            value = float(value)
            return (value if np.isfinite(value) else np.inf), np.asarray(slope)

        found, taken = _descended(value_and_slope, np.asarray(flat), iterations, tolerance)
        return jax.tree.map(np.asarray, unravel(jnp.asarray(found))), taken


def _descended(value_and_slope, vector, iterations, tolerance):
    value, slope = value_and_slope(vector)
    pairs: deque = deque(maxlen=_MEMORY)
    idle = 0
    for taken in range(iterations):
        if idle == _PATIENCE or not np.any(slope) or not np.isfinite(value):
            return vector, taken
        direction = -_newtonish(slope, pairs)
        promised = direction @ slope
        if not promised < 0:  # curvature that misleads is forgotten
            pairs.clear()
            direction, promised = -slope, -(slope @ slope)
        length = 1.0 if pairs else min(1.0, 0.1 / np.sqrt(-promised))
        for _ in range(_HALVINGS):
            new, at_new = vector + length * direction, None
            at_new, new_slope = value_and_slope(new)
            if at_new <= value + _ENOUGH * length * promised:
                break
            length *= 0.5
        else:
            if not pairs:
                return vector, taken
            pairs.clear()
            continue
        step, change = new - vector, new_slope - slope
        if step @ change > 1e-12 * np.sqrt((step @ step) * (change @ change)):
            pairs.append((step, change))
        idle = idle + 1 if value - at_new < tolerance else 0
        vector, value, slope = new, at_new, new_slope
    return vector, iterations


def _newtonish(slope, pairs):
    """The two loops of L-BFGS: an inverse Hessian that maps the changes of slopes to the steps."""
    vector, weights = slope, []
    for step, change in reversed(pairs):
        weight = step @ vector / (step @ change)
        vector = vector - weight * change
        weights.append(weight)
    if pairs:
        step, change = pairs[-1]
        vector = vector * (step @ change / (change @ change))
    for (step, change), weight in zip(pairs, reversed(weights)):
        vector = vector + (weight - change @ vector / (step @ change)) * step
    return vector
