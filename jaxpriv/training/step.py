"""One step of DP-SGD as one compiled program: clipped gradients on all devices, noise, the
optimiser's update, epsilon so far.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxpriv.training.clipping import MARGIN, clipped_sum
from jaxpriv.training.noise import private_mean
from jaxpriv.training.sampling import capacity, poisson_sample

# a name that no model has: one that takes means over the axis would mix examples
AXIS = "jaxpriv.records"
_ALL, _SPLIT = PartitionSpec(), PartitionSpec(AXIS)


class State(NamedTuple):
    """All that changes from step to step; it follows from releases alone,
    so it is as private as they are.

    `canaries` holds the sums of the releases' entries at the Dirac canaries' places, `epsilon` what
    was spent when last asked.
    """

    parameters: Any
    optimizer: Any
    step: jax.Array
    epsilon: jax.Array
    canaries: jax.Array


class Diagnostics(NamedTuple):
    """What a step saw of the records themselves: not private, for those who hold the data."""

    loss: jax.Array
    clipped: jax.Array
    non_finite: jax.Array


class Draw(NamedTuple):
    """The Poisson sample of a step: places of records, padding masked out, too many, and the Dirac
    canaries that take part.
    """

    indices: jax.Array
    mask: jax.Array
    overflow: jax.Array
    canaries: jax.Array


def data_mesh(devices=None):
    """A mesh of devices (all of all processes, unless given) along one axis,
    over which batches are split.
    """
    return Mesh(np.ravel(jax.devices() if devices is None else devices), (AXIS,))


def physical_batch(plan, records, mesh, microbatch):
    """(rows of a padded batch, rows of a device that have gradients at once).

    The batch overflows in the whole training with probability below 1e-12.
    """
    rows = capacity(records, plan.sampling_rate, plan.steps)
    local = -(-rows // mesh.size)
    at_once = local if microbatch is None else min(microbatch, local)
    return mesh.size * at_once * -(-local // at_once), at_once


def make_draw(plan, records, rows, canaries):
    """draw(key, step) -> `Draw`. canaries: for each whether it is in the data at all."""
    canaries = jnp.asarray(canaries)
    fits = min(rows, records)

    @jax.jit
    def draw(key, step):
        of_records, of_canaries = jax.random.split(jax.random.fold_in(key, step))
        batch = poisson_sample(of_records, records, plan.sampling_rate, fits)
        padding = rows - fits
        chosen = poisson_sample(
            of_canaries, max(len(canaries), 1), plan.sampling_rate, max(len(canaries), 1)
        )
        part = jnp.zeros(max(len(canaries), 1), bool).at[chosen.indices].max(chosen.mask)
        part = part[: len(canaries)] & canaries
        return Draw(jnp.pad(batch.indices, (0, padding)), jnp.pad(batch.mask, (0, padding)),
                    batch.overflow, part)

    return draw


def make_step(loss, optimizer, plan, mesh, *, clip_norm, at_once, per_layer=False, places=()):
    """step(state, noise key, model key, rows, mask, canaries, ask) -> (state, release,
    `Diagnostics`), to be compiled.

    `ask` tells whether epsilon so far is evaluated; else it stays what it was when last asked.

    Args:
        loss: (parameters, example, key) -> scalar. optimizer: an optax optimiser. plan: a `Plan`.
        mesh: from `data_mesh`; rows and mask are split over it, all else is on every device.
        clip_norm: in [1e-15, 1e15]. per_layer: as `clipped_sum`. at_once: rows of a device with
            gradients in memory together.
        places: of the Dirac canaries in the flattened parameters.

    Guarantee: step i is one step of `plan`, whatever the rows are: the release has sensitivity
        clip_norm/batch_size and noise plan.noise_multipliers[i] times that.
    """
    noises, places = np.asarray(plan.noise_multipliers, np.float32), np.asarray(places, int)

    def local(parameters, rows, mask, keys):
        found = clipped_sum(lambda values, row, _: loss(values, *row), parameters, (rows, keys),
                            clip_norm=clip_norm, mask=mask, microbatch=at_once, per_layer=per_layer)
        return (
            jax.lax.psum(found.total, AXIS),
            found.norms,
            found.losses,
            jax.lax.psum(found.non_finite, AXIS),
        )

    # check_vma: where it knows that parameters are the same on all devices,
    # it adds up gradients before they are clipped
    everywhere = jax.shard_map(local, mesh=mesh, in_specs=(_ALL, _SPLIT, _SPLIT, _SPLIT),
                               out_specs=(_ALL, _SPLIT, _SPLIT, _ALL), check_vma=False)

    def step(state, noise_key, model_key, rows, mask, canaries, ask):
        keys = jax.random.split(jax.random.fold_in(model_key, state.step), len(mask))
        total, norms, losses, non_finite = everywhere(state.parameters, rows, mask, keys)
        if len(places):
            flat, restored = ravel_pytree(total)
            total = restored(
                flat.at[places].add(canaries * jnp.asarray((1 - MARGIN) * clip_norm, flat.dtype))
            )
        release = private_mean(jax.random.fold_in(noise_key, state.step), total,
                               clip_norm=clip_norm,
                               noise_multiplier=jnp.asarray(noises)[state.step],
                               expected_batch_size=plan.batch_size)
        scores = (
            state.canaries + ravel_pytree(release)[0][places] if len(places) else state.canaries
        )
        release = jax.tree.map(
            lambda leaf, parameter: leaf.astype(parameter.dtype), release, state.parameters
        )
        updates, momentum = optimizer.update(release, state.optimizer, state.parameters)
        after = state.step + 1
        epsilon = jax.lax.cond(ask, plan.epsilon, lambda _: state.epsilon, after)
        present = jnp.maximum(jnp.sum(mask), 1)
        seen = Diagnostics(
            jnp.sum(losses) / present, jnp.sum(norms > clip_norm) / present, non_finite
        )
        return (
            State(optax.apply_updates(state.parameters, updates), momentum, after, epsilon, scores),
            release,
            seen,
        )

    whole = NamedSharding(mesh, _ALL)
    return jax.jit(step, donate_argnums=0, out_shardings=whole)
