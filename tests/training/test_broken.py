"""A trainer with a deliberate fault is caught by `jaxpriv audit` from its own canaries;
a sound one is not.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import cli, training
from jaxpriv.training import grid, step
from jaxpriv.training.sampling import each_step

CANARIES, STEPS, RATE = 600, 20, 0.02
DATA = np.zeros((4400, CANARIES), np.float32)
RECORDS = 100 * np.eye(CANARIES, dtype=np.float32)


def scores(monkeypatch, faults, noise):
    """How far each canary, whose gradient is an entry of its own a hundred times too long,
    has pushed its weight.
    """
    for (module, name), wrong in faults.items():
        monkeypatch.setattr(module, name, wrong)
    trainer = training.DPTrainer(lambda w, x, key: w @ x, jnp.zeros(CANARIES, jnp.float32),
                                 optax.sgd(1.0), training.Privacy(epsilon=50.0),
                                 batch_size=RATE * 5000, steps=STEPS, noise_multiplier=1.0,
                                 noise=noise)
    found = trainer.fit(DATA, seed=4, canaries=RECORDS)
    monkeypatch.undo()
    return -np.asarray(found.model), found.canary_members, found.epsilon


def shared_noise(key, tree):
    """One number for the whole gradient."""
    noise = jax.random.normal(key)
    return jax.tree.map(lambda leaf: jnp.full_like(leaf, noise), tree)


def unclipped(*arguments, clip_norm, true=step.clipped_sum, **settings):
    return true(*arguments, clip_norm=1e6, **settings)


def shared_on_grid(words, shape, bits, true=grid.rounded_normal):
    return jnp.broadcast_to(true(words, (), bits), shape)


def unclipped_on_grid(*arguments, clip_norm, noise_multiplier, true=step.clipped_sum_on_grid,
                      **settings):
    """In the same units."""
    return true(*arguments, clip_norm=100 * clip_norm, noise_multiplier=noise_multiplier / 100,
                **settings)


def everyone(key, size, rate, capacity, true=each_step.poisson_sample):
    """All records in every step, whatever the rate that is accounted."""
    return true(key, size, 1.0, capacity)


SHARED, UNCLIPPED = "noise shared across the batch", "clip skipped"
FAULTS = [  # and the noise that is left to the trainer, or not
    (None, {}, None),
    (SHARED, {(step, "normal_like"): shared_noise}, "independent"),
    (SHARED, {(grid, "rounded_normal"): shared_on_grid}, None),
    (UNCLIPPED, {(step, "clipped_sum"): unclipped}, "independent"),
    (UNCLIPPED, {(step, "clipped_sum_on_grid"): unclipped_on_grid}, None),
    ("sampling not Poisson", {(each_step, "poisson_sample"): everyone,
                              (each_step, "capacity"): lambda size, rate, steps: size}, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "faults", "noise"), FAULTS)
def test_faults_are_caught(fault, faults, noise, tmp_path, monkeypatch, capsys):
    found, members, epsilon = scores(monkeypatch, faults, noise)
    if fault == SHARED:
        found = found - np.median(found)  # who knows of the fault takes it off
    np.savez(tmp_path / "scores.npz", score=found, member=members)
    code = cli.main(["audit", str(tmp_path / "scores.npz"), "--epsilon", str(epsilon), "--delta",
                     "1e-5", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["claims"][0]["violated"] == (fault is not None)
    assert code == (3 if fault else 0)
