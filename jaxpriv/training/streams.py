"""Noise that is correlated over the steps, as it streams: z = C^-1 g, one step after the other.

What a step needs of those before is a few arrays like the parameters, which are part of the state
of a training: kept with it, sharded with it, and as private as the releases that they come from
(never printed: whoever has them and the releases takes part of the noise off).

They are kept, not drawn anew from their keys: at a million parameters drawing one step's normal
numbers takes about twice as long as reading fifteen from memory (`bench/streams.py`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import correlated


class Stream(NamedTuple):
    """`start(parameters)` -> state; `noise(g, step, state)` -> (z, state), of pytrees like the
    parameters; g: the independent normal numbers of this step.
    """

    start: Any
    noise: Any


def stream_of(strategy):
    """The `Stream` of a strategy. Raises: ValueError for dense matrices.

    >>> import jax.numpy as jnp
    >>> stream = stream_of(correlated.banded_toeplitz([1.0, 0.5]))
    >>> state, noises = stream.start(jnp.zeros(1)), []
    >>> for step in range(3):
    ...     noise, state = stream.noise(jnp.ones(1), step, state)
    ...     noises.append(float(noise[0]))
    >>> noises
    [1.0, 0.5, 0.75]
    """
    if isinstance(strategy, correlated.Identity):
        return Stream(lambda parameters: (), lambda g, step, state: (g, state))
    if isinstance(strategy, correlated.BufferedToeplitz):
        return _buffered(np.asarray(strategy.decay), np.asarray(strategy.scale))
    if isinstance(strategy, (correlated.BandedToeplitz, correlated.BandedInverse)):
        coefficients = np.asarray(strategy.coefficients)
        inverse = isinstance(strategy, correlated.BandedInverse)
        # z_t = (g_t - c_1 z_(t-1) - ...)/c_0, or z_t = c_0 g_t + c_1 g_(t-1) + ...
        direct = coefficients[0] if inverse else 1 / coefficients[0]
        read = coefficients[1:] if inverse else -coefficients[1:] / coefficients[0]
        return _banded(direct, read, inverse)
    raise ValueError(f"strategy = {type(strategy).__name__} cannot be streamed")


def _banded(direct, read, keep_g):
    """The state holds the last g, or z, of step t at the place t mod their number."""
    count = len(read)

    def noise(g, step, state):
        if not count:
            return jax.tree.map(lambda now: jnp.asarray(direct, now.dtype) * now, g), state
        # the one of step t - k is at (t - k) mod count, so read[k - 1] goes there
        places = jnp.mod(step - 1 - jnp.arange(count), count)
        weights = jnp.zeros(count).at[places].set(read)

        def one(now, past):
            before = jnp.tensordot(weights.astype(now.dtype), past, 1, precision="highest")
            return jnp.asarray(direct, now.dtype) * now + before

        found = jax.tree.map(one, g, state)
        kept, place = found, jnp.mod(step, count)
        if keep_g:
            # by its values after what is there was read: else XLA copies it all to write one array
            kept = jax.tree.map(lambda z, now: jnp.where(z == z, now, z), found, g)
        return found, jax.tree.map(lambda past, new: past.at[place].set(new), state, kept)

    # Orbax keeps no empty arrays
    return Stream(lambda parameters: _like(parameters, count) if count else (), noise)


def _buffered(decay, scale):
    """z_t = g_t - scale . buffers, and then each buffer' = decay buffer + z_t."""

    def noise(g, step, state):
        def one(now, buffers):
            weights = jnp.asarray(scale, now.dtype)
            return now - jnp.tensordot(weights, buffers, 1, precision="highest")

        found = jax.tree.map(one, g, state)
        return found, jax.tree.map(after, state, found)

    def after(buffers, z):
        return jnp.asarray(decay, z.dtype).reshape(-1, *(1,) * z.ndim) * buffers + z

    return Stream(lambda parameters: _like(parameters, len(decay)), noise)


def _like(parameters, count):
    """So many zeros for each parameter, in float32 at least."""
    def zeros(leaf):
        wide = jnp.promote_types(jnp.result_type(leaf), jnp.float32)
        return jnp.zeros((count, *jnp.shape(leaf)), wide)

    return jax.tree.map(zeros, parameters)
