"""The checks of training notice: each public function with a plausible slip in it
turns its check red.
"""

import dataclasses
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import training
from jaxpriv.training import ghost, step
from tests.slips import check_is_red
from tests.training import (
    test_best,
    test_clipping,
    test_ghost,
    test_grid,
    test_ledger,
    test_memory,
    test_noise,
    test_plan,
    test_private,
    test_samplers,
    test_sampling,
    test_trainable,
    test_trainer,
)


def zeros_for_infinities(*args, true=training.clipped_sum, **settings):
    """Non-finite gradients are cleaned entry by entry, and what is left of them counts."""
    loss, parameters, examples, *rest = args
    clean = {**examples, "x": jnp.nan_to_num(examples["x"])}
    return true(loss, parameters, clean, *rest, **settings)


def mean_for_sum(*args, true=training.clipped_sum, **settings):
    found = true(*args, **settings)
    return found._replace(total=jax.tree.map(lambda leaf: leaf / len(found.norms), found.total))


def longer(*args, true=training.ghost_clipped_sum, **settings):
    """Clipped to a little more than the norm."""
    return true(*args, **{**settings, "clip_norm": settings["clip_norm"] * (1 + 1e-4)})


def without_cross_terms(rows, deltas):
    """The lengths of a layer's rows alone, as if no two were alike."""
    return jnp.sum(jnp.sum(rows**2, -1) * jnp.sum(deltas**2, -1))


def shared_key(key, total, *, clip_norm, noise_multiplier, expected_batch_size):
    """The same key for every leaf."""
    def noisy(leaf):
        noise = jax.random.normal(key, (leaf.size,)).reshape(leaf.shape)
        return (leaf + clip_norm * noise_multiplier * noise) / expected_batch_size

    return jax.tree.map(noisy, total)


def noise_per_batch(
    key, total, *, true=training.private_mean, clip_norm, noise_multiplier, expected_batch_size
):
    """The noise is not divided."""
    return true(key, jax.tree.map(lambda leaf: leaf / expected_batch_size, total),
                clip_norm=clip_norm, noise_multiplier=noise_multiplier, expected_batch_size=1.0)


def same_noise(key, std, true=training.add_noise):
    """Every step the noise of the first."""
    once = true(key, std)

    def update(updates, state, parameters=None):
        noisy, after = once.update(updates, state._replace(step=0 * state.step), parameters)
        return noisy, after._replace(step=state.step + 1)

    return optax.GradientTransformation(once.init, update)


def fixed_size(key, size, rate, capacity):
    """A sample of fixed size for a Poisson sample."""
    count = round(size * rate)
    return training.Batch(jax.random.permutation(key, size)[:capacity],
                          jnp.arange(capacity) < count, jnp.zeros((), bool))


def less_noise(privacy, *sizes, true=training.make_plan, **settings):
    plan = true(privacy, *sizes, **settings)
    return dataclasses.replace(
        plan, noise_multipliers=tuple(noise * (1 - 1e-6) for noise in plan.noise_multipliers)
    )


def half_the_noise(total, noise, std, batch_size, true=step.noisy_mean):
    return true(total, noise, std / 2, batch_size)


def any_records(users, most, true=training.limit_records):
    """The first of all records, whosever they are."""
    return true(np.zeros(len(users)), most * len(set(users)))


def every_step_the_first(*arguments, true=training.private, **settings):
    """A loop whose steps do not count, so that noise and batches are those of the first."""
    run = true(*arguments, **settings)
    step = run.step

    def stuck(state, data):
        after = step(state, data)
        return after._replace(state=after.state._replace(step=0 * after.state.step))

    run.step = stuck
    return run


def the_last(*arguments, true=training.best_of, **settings):
    """The last of the tries, whatever its score."""
    count = iter(range(10**9))
    score = settings["score"]
    last = true(*arguments, **{**settings, "score": lambda model: score(model) * 0 + next(count)})
    return dataclasses.replace(last, score=float(score(last.trained.model)))


def not_written(self, until):
    self.reserved = until


SLIPS = {
    "NaN for zero": ("clipped_sum", zeros_for_infinities, test_clipping.check_non_finite),
    "the mean": ("clipped_sum", mean_for_sum, test_clipping.check_free),
    "one key for all leaves": ("private_mean", shared_key, test_noise.check_mean),
    "NaN for zero, without gradients": (
        "ghost_clipped_sum",
        lambda *args, **settings: zeros_for_infinities(
            *args, true=ghost.ghost_clipped_sum, **settings
        ),
        test_ghost.check_non_finite,
    ),
    "a larger norm": ("ghost_clipped_sum", longer, test_ghost.check_cancelling),
    "the largest microbatch": ("microbatch_that_fits", lambda program, sizes, budget: max(sizes),
                               test_memory.check_fits),
    "all of the model": ("trainable", lambda model, which, true=training.trainable: true(model),
                         test_trainable.check_parts),
    "noise not divided": ("private_mean", noise_per_batch, test_noise.check_mean),
    "the same noise in every step": ("add_noise", same_noise, test_noise.check_transformation),
    "samples of fixed size": ("poisson_sample", fixed_size, test_sampling.check_frequencies),
    "a little less noise": ("make_plan", less_noise, test_plan.check_solved),
    "the last reservation not read": ("spent", lambda path, true=training.spent: (true(path)[0], 0),
                                      test_ledger.check_reserve),
    "records of anybody": ("limit_records", any_records, test_samplers.check_limit_records),
    "the last try": ("best_of", the_last, test_best.check_best),
    "a step that does not count": ("private", every_step_the_first, test_private.check_loop),
    "one step for all": (
        "capacity",
        lambda size, rate, steps=1, failure=1e-12, true=training.capacity: true(
            size, rate, 1, failure
        ),
        test_sampling.check_capacity,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    attribute, wrong, check = SLIPS[name]
    check_is_red(monkeypatch, training, attribute, wrong, check)


@pytest.mark.slow
def test_half_the_noise_of_a_training_is_seen(monkeypatch):
    check_is_red(monkeypatch, step, "noisy_mean", half_the_noise, test_trainer.check_released)


@pytest.mark.slow
def test_lengths_without_cross_terms_are_seen(monkeypatch):
    check_is_red(monkeypatch, ghost, "_squared", without_cross_terms, test_ghost.check_settings)


def test_an_unwritten_reservation_is_seen(monkeypatch):
    check_is_red(monkeypatch, training.Ledger, "reserve", not_written, test_ledger.check_reserve)


def test_every_public_name_has_a_slip():
    names = {name for name in training.__all__
             if not isinstance(getattr(training, name), (type, ModuleType))}
    assert names == {slip[0] for slip in [*SLIPS.values(), *test_grid.SLIPS.values()]}
