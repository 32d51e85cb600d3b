"""Runs that draw batches or noise in another way than their plan says are caught by their own
canaries, against the whole curve of their certificate; sound ones are not.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import auditing, correlated, training
from jaxpriv.report.training import certify_training
from jaxpriv.training import sampling, step, streams

CANARIES, RECORDS = 400, 1000


def verdict(plan, folder, seed=3):
    """What the audit of a training of this plan says."""
    made = training.DPTrainer(
        lambda w, x, key: 0.0 * jnp.sum(w), jnp.zeros(CANARIES, jnp.float32), optax.sgd(1.0),
        training.Privacy(epsilon=500.0), batch_size=plan.batch_size, steps=plan.steps,
        noise_multiplier=plan.noise_multipliers[0], sampler=plan.sampler, noise=plan.strategy,
    )
    found = made.fit(np.zeros((RECORDS, 1), np.float32), seed=seed, plan=plan, canaries=CANARIES,
                     evaluate_every=plan.steps)
    return certify_training(found, folder)["audit"]


def plan_of(batch, noise, steps, **changes):
    return training.Plan(RECORDS, batch, (noise,) * steps, CANARIES, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_shuffling_sold_as_poisson(broken, monkeypatch):
    """Five batches, each record in one of them for sure, where Poisson sampling leaves out a third:
    many trainings of a few records, each with the last one there or not, by vmap.
    """
    plan = training.Plan(10, 2, (0.2,) * 5, 1)
    if broken:
        dealt = sampling.BallsInBins()
        for name in ("period", "drawn", "batch"):
            monkeypatch.setattr(sampling.Poisson, name, getattr(dealt, name).__func__)
    run = training.private(lambda w, x, key: -w[0] * x, optax.sgd(1.0), plan)
    state, rounds = run.init(jnp.zeros(1), seed=0), 1500

    def score(key, member):
        keys = *jax.random.split(key, 3), state.keys[3]
        data = jnp.zeros(10).at[9].set(member)
        after = jax.lax.fori_loop(0, 5, lambda _, s: run.update(s, data),
                                  state._replace(keys=keys))
        return after.model[0]

    members = np.arange(rounds) % 2 == 1
    found = jax.jit(jax.vmap(score))(jax.random.split(jax.random.key(1), rounds),
                                     jnp.asarray(members, float))
    rate = auditing.tpr_at_fpr(np.asarray(found), members, fpr=0.2)
    # what Poisson sampling allows, by its own bound: somebody who is never drawn does not show
    allowed = 1 - plan.curve().beta_bounds(0.2)[0]
    assert (rate.lower > allowed) == broken


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_noise_of_another_strategy(broken, tmp_path, monkeypatch):
    """Noise that all but cancels in the sum, where two bands are accounted."""
    plan = plan_of(50, 3.0, 400, sampler=sampling.CyclicPoisson(4),
                   strategy=correlated.banded_square_root(2))
    if broken:
        wrong = streams.stream_of(correlated.banded_inverse([1.0, -1.0]))
        monkeypatch.setattr(step, "stream_of", lambda strategy: wrong)
    audit = verdict(plan, tmp_path)
    assert audit["violated"] == broken


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_cut_batches_that_are_too_large(broken, tmp_path, monkeypatch):
    """Everybody in every batch, where one in twenty is accounted."""
    plan = training.Plan(RECORDS + CANARIES, 70, (1.0,) * 10, CANARIES,
                         sampler=sampling.CutPoisson(120))
    if broken:
        monkeypatch.setattr(sampling.CutPoisson, "rows", lambda self, plan, records: records)
        monkeypatch.setattr(sampling.CutPoisson, "batch", lambda self, plan, key, step, records,
                            drawn, rows: sampling.Batch(jnp.arange(records),
                                                        jnp.ones(records, bool), jnp.bool_(False)))
    audit = verdict(plan, tmp_path)
    assert audit["violated"] == broken
