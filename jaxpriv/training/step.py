"""One step of DP-SGD as one compiled program: clipped gradients on all devices, noise, the
optimiser's update.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxpriv.random_words import fold_words
from jaxpriv.training.adaptive_clipping import split_plan
from jaxpriv.training.canary_places import added, taken
from jaxpriv.training.clipping import MARGIN, clipped_sum
from jaxpriv.training.clipping_settings import Clipping
from jaxpriv.training.ghost import ghost_clipped_sum
from jaxpriv.training.grid import clipped_sum_on_grid, grid_bits, private_mean_on_grid
from jaxpriv.training.noise import noisy_mean, normal_like
from jaxpriv.training.optimizers.scaled import of_scaled, unscaled
from jaxpriv.training.sharding import (
    BOTH,
    EVERYWHERE,
    SPLIT,
    kept_in_parts,
    part_specs,
    sum_of_parts,
)
from jaxpriv.training.streams import stream_of

_PLAIN = Clipping()


class State(NamedTuple):
    """All that changes from step to step.

    But for `noise`, what a `streams.Stream` keeps of the noises so far, it follows from releases
    alone, so it is as private as they are. `canaries` holds the sums of the releases' entries at
    the Dirac canaries' places, `clip_norm` the one of the next step, `scale` what a
    `ScaleThenPrivatise` keeps.
    """

    parameters: Any
    optimizer: Any
    step: jax.Array
    noise: Any
    canaries: jax.Array
    clip_norm: jax.Array
    scale: Any


class Diagnostics(NamedTuple):
    """What a step saw of the records themselves: not private, for those who hold the data."""

    loss: jax.Array
    clipped: jax.Array
    non_finite: jax.Array


def fresh_state(parameters, optimizer, plan, clipping=_PLAIN, canaries=0):
    """The `State` before the first step, of copies: the step may use up what it is given."""
    parameters = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), parameters)
    width = jax.dtypes.canonicalize_dtype(
        jnp.promote_types(jnp.result_type(*jax.tree.leaves(parameters)), jnp.float32)
    )
    return State(parameters, optimizer.init(parameters), jnp.int32(0),
                 stream_of(plan.strategy).start(parameters),
                 jnp.zeros(max(canaries, 1), width),  # Orbax keeps no empty arrays
                 jnp.asarray(clipping.clip_norm, width),
                 clipping.scaling.init(parameters) if clipping.scaling else ())


def make_step(loss, optimizer, plan, mesh, clipping, *, at_once, places=()):
    """step(state, noise key, model key, rows, mask, canaries) -> (state, release, `Diagnostics`),
    a pure function. The noise key of a plan in whole numbers is four words.

    Args:
        loss: (parameters, example, key) -> scalar. optimizer: an optax optimiser. plan: a `Plan`.
        mesh: from `data_mesh`; rows and mask are split over it, the state over its second axis.
        clipping: a `Clipping`. at_once: rows of a device with gradients in memory together.
        places: of the Dirac canaries in the flattened parameters.

    Guarantee: step i is one step of `plan`, whatever the rows are: the release has sensitivity
        clip_norm/batch_size for each time that a record is in the batch, and the noise of the
        plan's strategy with plan.noise_multipliers[i] times that.
    """
    adaptive, scaling, places = clipping.adaptive, clipping.scaling, np.asarray(places, int)
    accounted = plan.noise_multipliers
    noises = np.asarray(split_plan(accounted, adaptive.count_std) if adaptive else accounted,
                        np.float32)
    if len(set(noises.tolist())) == 1:
        noises = noises[:1]  # no table of equal numbers in the program
    stream = stream_of(plan.strategy)

    def bits_of(rows):
        return grid_bits(noises, rows, plan.dim)

    def local(parameters, rows, mask, keys, clip_norm, scale, grid):
        summed: Any = ghost_clipped_sum if clipping.ghost else clipped_sum
        if plan.whole_numbers:
            summed = partial(clipped_sum_on_grid, **grid, bits=bits_of(mesh.size * len(mask)))

        def of_row(values, row, _):
            return loss(values, *row)

        moved, at = of_scaled(of_row, parameters, scale) if scaling else (of_row, parameters)
        found = summed(moved, at, (rows, keys), clip_norm=clip_norm, mask=mask, microbatch=at_once,
                       per_layer=clipping.per_layer)
        count = adaptive.count(found.norms, clip_norm, mask) if adaptive else jnp.zeros(())
        non_finite, count = jax.lax.psum((found.non_finite, count), BOTH)
        return sum_of_parts(found.total, mesh), found.norms, found.losses, non_finite, count

    def everywhere(parameters, *arguments):
        # check_vma: where it knows that parameters are the same on all devices,
        # it adds up gradients before they are clipped
        return jax.shard_map(
            local, mesh=mesh, check_vma=False,
            in_specs=(EVERYWHERE, SPLIT, SPLIT, SPLIT, EVERYWHERE, EVERYWHERE, EVERYWHERE),
            out_specs=(part_specs(parameters, mesh), SPLIT, SPLIT, EVERYWHERE, EVERYWHERE),
        )(parameters, *arguments)

    def step(state, noise_key, model_key, rows, mask, canaries):
        keys = jax.random.split(jax.random.fold_in(model_key, state.step), len(mask))
        # a constant of the program where it stays: its guarantee is then checked before
        clip_norm = state.clip_norm if adaptive else clipping.clip_norm
        scale = scaling.scale(state.scale) if scaling else ()
        noise_multiplier = jnp.asarray(noises)[jnp.minimum(state.step, len(noises) - 1)]
        grid = {"noise_multiplier": noise_multiplier} if plan.whole_numbers else {}
        total, norms, losses, non_finite, count = everywhere(
            state.parameters, rows, mask, keys, clip_norm, scale, grid
        )
        if len(places):
            # on the grid, of which the noise's standard deviation has 2^bits
            norm = 2.0 ** bits_of(len(mask)) / noise_multiplier if grid else clip_norm
            total = added(total, places, canaries, jnp.asarray((1 - MARGIN) * norm))
        of_noise = (fold_words if grid else jax.random.fold_in)(noise_key, state.step)
        next_norm = state.clip_norm
        count = count.astype(next_norm.dtype)
        if adaptive and grid:
            of_noise, of_count = (fold_words(of_noise, use) for use in (0, 1))
            next_norm, _ = adaptive.moved_on_grid(of_count, count, clip_norm, len(mask))
        elif adaptive:
            of_noise, of_count = jax.random.split(of_noise)
            next_norm, _ = adaptive.moved(of_count, count, clip_norm)
        kept = state.noise
        if grid:
            release = private_mean_on_grid(
                of_noise, total, clip_norm=clip_norm, **grid, bits=bits_of(len(mask)),
                expected_batch_size=plan.batch_size)
        else:
            drawn = normal_like(of_noise, total)
            noise, kept = stream.noise(drawn, state.step, kept)
            release = noisy_mean(total, noise, clip_norm * noise_multiplier, plan.batch_size)
        scores = state.canaries
        if len(places):
            scores = scores + taken(release, places, scores.dtype)
        kept_scale = ()
        if scaling:
            release = unscaled(release, scale)
            kept_scale = scaling.update(release, state.scale)
        release = jax.tree.map(
            lambda leaf, parameter: leaf.astype(parameter.dtype), release, state.parameters
        )
        updates, momentum = optimizer.update(release, state.optimizer, state.parameters)
        present = jnp.maximum(jnp.sum(mask), 1)
        seen = Diagnostics(
            jnp.sum(losses) / present, jnp.sum(norms > clip_norm) / present, non_finite
        )
        after = State(optax.apply_updates(state.parameters, updates), momentum, state.step + 1,
                      kept, scores, next_norm, kept_scale)
        return kept_in_parts((after, release, seen), mesh)

    return step
