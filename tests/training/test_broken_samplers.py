"""Runs that draw batches or noise in another way than their plan says are caught by their own
canaries, against the whole curve of their certificate; sound ones are not.
"""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import correlated, training
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


@pytest.mark.parametrize("broken", [False, True])
def test_shuffling_sold_as_poisson(broken, tmp_path, monkeypatch):
    """Five batches, each record in one of them for sure: with little noise everybody who is in the
    data shows, where Poisson sampling leaves out a third. No epsilon at one delta says so.
    """
    plan = plan_of(200, 0.15, 5)
    if broken:
        shuffled = sampling.BallsInBins()
        for name in ("period", "drawn", "batch"):
            monkeypatch.setattr(sampling.Poisson, name, getattr(shuffled, name).__func__)
    audit = verdict(plan, tmp_path)
    assert audit["violated"] == broken
    assert (audit["curve_p_value"] < 1e-3) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_noise_of_another_strategy(broken, tmp_path, monkeypatch):
    """Noise that all but cancels in the sum, where two bands are accounted."""
    plan = plan_of(250, 2.0, 40, sampler=sampling.CyclicPoisson(4),
                   strategy=correlated.banded_square_root(2))
    if broken:
        wrong = streams.stream_of(correlated.banded_inverse([1.0, -1.0]))
        monkeypatch.setattr(step, "stream_of", lambda strategy: wrong)
    audit = verdict(plan, tmp_path)
    assert audit["violated"] == broken


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
