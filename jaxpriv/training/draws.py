"""The batches of a training, of its plan's sampler: which records, and which canaries."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Draw(NamedTuple):
    """The sample of a step.

    indices: `Int[Array, "rows"]`, places of records. mask: `Bool[Array, "rows"]`, False for
    padding. overflow: `Bool[Array, ""]`, the sample does not fit. canaries:
    `Int[Array, "canaries"]`, how often each Dirac canary takes part.
    """

    indices: jax.Array
    mask: jax.Array
    overflow: jax.Array
    canaries: jax.Array


class Draws:
    """The draws of a plan: pure functions of a key.

    Dirac canaries are records behind the others, as many for each as a user has, so that they take
    part in whatever way records do. Canaries that are not in the data have places all the same, and
    add nothing: how many have come in tells nothing of how often others are drawn.

    Args:
        plan: a `Plan`. present: `Bool[numpy.ndarray, "records"]`, which of the records are in the
            data. rows: of a physical batch, from `physical_batch`. members:
            `Bool[numpy.ndarray, "canaries"]`, for each Dirac canary whether it is in the data.
    """

    def __init__(self, plan, present, rows, members=()):
        self._plan, self._present, self._rows = plan, np.asarray(present), rows
        self._records, self._members = len(self._present), np.asarray(members, bool)
        self._everyone = self._records + len(self._members) * plan.records_per_user

    @property
    def period(self):
        """The number of steps that `drawn` is for."""
        return self._plan.sampler.period(self._plan)

    def drawn(self, key, number):
        """What is drawn once for all steps of the `number`th period."""
        own = jax.random.fold_in(jax.random.split(key)[0], number)
        return self._plan.sampler.drawn(self._plan, own, self._everyone)

    def draw(self, key, step, drawn):
        """The `Draw` of a step, from what was drawn for its period."""
        own = jax.random.fold_in(jax.random.split(key)[1], step)
        rows = min(self._rows, self._everyone)
        batch = self._plan.sampler.batch(self._plan, own, step, self._everyone, drawn, rows)
        canary = batch.mask & (batch.indices >= self._records)
        # which canary; the last place is for records, and left out
        count = len(self._members)
        place = jnp.where(canary, (batch.indices - self._records) // self._plan.records_per_user,
                          count)
        part = jnp.zeros(count + 1, jnp.int32).at[place].add(canary)[:-1]
        indices = jnp.where(canary, 0, batch.indices)
        mask = batch.mask & ~canary & jnp.asarray(self._present)[indices]
        padding = self._rows - len(batch.indices)
        return Draw(jnp.pad(indices, (0, padding)), jnp.pad(mask, (0, padding)), batch.overflow,
                    jnp.where(self._members, part, 0))


def in_sequence(draws):
    """draw(key, step) -> `Draw`, compiled; what is drawn for a period is kept as long."""
    start, draw = jax.jit(draws.drawn), jax.jit(draws.draw)
    known: dict = {}

    def drawn(key, step):
        number = step // draws.period
        if number not in known:
            known.clear()
            known[number] = start(key, number)
        return draw(key, step, known[number])

    return drawn


def physical_batch(plan, records, devices, microbatch):
    """(rows of a padded batch, rows of a device that have gradients at once).

    The batch overflows in the whole training with probability below 1e-12.
    """
    rows = plan.sampler.rows(plan, records)
    local = -(-rows // devices)
    at_once = local if microbatch is None else min(microbatch, local)
    return devices * at_once * -(-local // at_once), at_once
