"""Killed at random moments, a run goes on to the same end,
and its ledger never counts less than what was released.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import time

import jax
import pytest

from jaxpriv.training import spent
from jaxpriv.training.checkpoints import Checkpoints
from jaxpriv.training.run import unspent
from jaxpriv.training.step import fresh_state
from tests.command import ROOT
from tests.training.killed import PLANS, STEPS, made, train
from tests.training.problems import equal


def surroundings():
    """What a run is compiled with: as in this process, which compares numbers bit by bit."""
    plainly = jax.config.read("jax_disable_most_optimizations")
    return os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": str(int(plainly))}


def check_counted(folder):
    """Every step of which anything is known to have come out was counted before."""
    _, counted = spent(folder / "ledger.jsonl")
    rows = (
        (folder / "metrics.jsonl").read_text().splitlines()
        if (folder / "metrics.jsonl").exists()
        else []
    )
    for row in rows:
        if row.endswith("}"):
            assert json.loads(row)["step"] <= counted
    checkpoints = [
        int(path.name) for path in (folder / "checkpoints").glob("*") if path.name.isdigit()
    ]
    assert max(checkpoints, default=0) <= counted <= STEPS


def command(folder, kind):
    return [sys.executable, "-m", "tests.training.killed", str(folder),
            str(folder.parent / "xla"), kind]


def run_and_kill(folder, kind, steps, seconds):
    """Start or go on; kill so many steps and seconds later, with no steps while it starts.
    True if it was done.
    """
    process = subprocess.Popen(
        command(folder, kind),
        cwd=ROOT,
        env=surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = [process.stdout.readline() for _ in range(steps)]
    time.sleep(seconds)
    process.kill()
    out, err = process.communicate()
    assert "Error" not in err, err
    return "done" in "".join([*told, out])


def last_parameters(folder, kind):
    """As the last checkpoint has them."""
    trainer = made(kind)
    state = fresh_state(trainer.parameters, trainer.optimizer, PLANS[kind], canaries=3)
    with contextlib.closing(Checkpoints(folder / "checkpoints")) as checkpoints:
        assert checkpoints.last() == STEPS
        return checkpoints.restore(STEPS, state).parameters


def check_killed(tmp_path, kind, kills):
    moments = random.Random(kills)
    folder, counted, done = tmp_path / "run", 0, False
    used = 0
    while used < kills and not done:
        used += 1
        # mostly while it trains, in a step, a ledger line or a checkpoint;
        # now and then while it starts
        moment = (
            (0, moments.uniform(1, 5))
            if moments.random() < 0.1
            else (moments.randint(1, 9), moments.uniform(0, 0.1))
        )
        done = run_and_kill(folder, kind, *moment)
        if not unspent(folder):
            check_counted(folder)
            now = spent(folder / "ledger.jsonl")[1]
            assert now >= counted
            counted = now
    if not done:
        finished = subprocess.run(command(folder, kind), cwd=ROOT, env=surroundings(),
                                  capture_output=True, text=True, check=False)
        assert "done" in finished.stdout, finished.stderr
    whole = train(None, kind)
    assert spent(folder / "ledger.jsonl")[1] == STEPS == whole.spent
    rows = [json.loads(row) for row in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert rows == whole.history
    assert equal(last_parameters(folder, kind), whole.model)
    return used


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANS)
def test_killed_a_few_times(tmp_path, kind):
    check_killed(tmp_path, kind, 3)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", PLANS)
def test_killed_fifty_times(tmp_path, kind):
    """Over several runs, until fifty kills are done."""
    kills = 0
    while kills < 50:
        kills += check_killed(tmp_path / str(kills), kind, 50 - kills)
