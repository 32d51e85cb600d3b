"""DP-SGD steps: jaxpriv against jax-privacy's clipped gradients and against training without
privacy, in time and memory.

    pip install -e '.[bench]'
    python bench/training.py [--repeats 5] [--model mlp|cnn]
    python bench/training.py --accountant

A step is: gradients, clipping, sum, noise (the same on both private sides), update by optax.sgd;
jitted, parameters donated. Models: an MLP of 99,530 parameters and a CNN of 26,010; batch 256, at
once and in microbatches of 32 (not without privacy). JSON lines. Seconds per step are medians of
`repeats` rounds in which the sides take turns; a time ratio is the median of the rounds' ratios,
`range` its smallest and largest. In MiB: `program` is what the compiled step needs besides its
arguments (temporaries and outputs); `resident, whole process` the largest resident set of a new
process that does a few steps, compiled beforehand, and `resident, steps` what of it the steps
added: medians of three processes.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BATCH, MICROBATCH, CLASSES = 256, 32, 10
CLIP_NORM, NOISE, LEARNING_RATE = 1.0, 1.0, 0.1
SECONDS = 0.3  # that one side's steps in one round take together, about
OTHERS = ("plain", "jax_privacy")
SIDES = (*OTHERS, "ours")
MODELS = ("mlp", "cnn")
PROCESSES = 3


def tell(**row):
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value
             for key, value in row.items()}
    print(json.dumps(shown), flush=True)


def model_and_data(name):
    """(loss of a batch or of one example, parameters, batch):
    losses have the leading axis of their examples, if any.
    """
    import flax.linen as nn
    import jax
    import optax

    if name == "mlp":
        shape = (64,)
        network = nn.Sequential([nn.Dense(256), nn.relu, nn.Dense(256), nn.relu, nn.Dense(64),
                                 nn.relu, nn.Dense(CLASSES)])
    else:  # the CNN of the tutorials of TensorFlow Privacy
        shape = (28, 28, 1)
        network = nn.Sequential([
            nn.Conv(16, (8, 8), 2), nn.relu, lambda x: nn.max_pool(x, (2, 2)),
            nn.Conv(32, (4, 4), 2, "VALID"), nn.relu, lambda x: nn.max_pool(x, (2, 2)),
            lambda x: x.reshape(*x.shape[:-3], -1), nn.Dense(32), nn.relu, nn.Dense(CLASSES)])
    random = np.random.default_rng(0)
    batch = {
        "x": random.normal(size=(BATCH, *shape)).astype(np.float32),
        "y": random.integers(0, CLASSES, BATCH),
    }
    parameters = jax.jit(network.init)(jax.random.key(0), batch["x"][:1])

    def loss(parameters, example):
        return optax.softmax_cross_entropy_with_integer_labels(
            network.apply(parameters, example["x"]), example["y"]
        )

    return loss, parameters, jax.device_put(batch)


def compiled_step(side, name, microbatch):
    """(the compiled step, its first parameters, batch):
    step(parameters, batch, key) -> parameters.
    """
    import jax
    import optax

    from jaxpriv.training import clipped_sum, private_mean

    loss, parameters, batch = model_and_data(name)
    optimizer = optax.sgd(LEARNING_RATE)
    state = optimizer.init(parameters)  # of plain SGD: nothing

    def gradient(parameters, batch, key):
        if side == "plain":
            return jax.grad(lambda parameters: loss(parameters, batch).mean())(parameters)
        if side == "ours":
            total = clipped_sum(
                lambda parameters, example, key: loss(parameters, example),
                parameters,
                batch,
                clip_norm=CLIP_NORM,
                microbatch=microbatch,
            ).total
        else:
            from jax_privacy.clipping import clipped_grad

            clipped = clipped_grad(
                loss, l2_clip_norm=CLIP_NORM, keep_batch_dim=False, microbatch_size=microbatch
            )
            total = clipped(parameters, batch)
        return private_mean(
            key, total, clip_norm=CLIP_NORM, noise_multiplier=NOISE, expected_batch_size=BATCH
        )

    def step(parameters, batch, key):
        updates, _ = optimizer.update(gradient(parameters, batch, key), state)
        return optax.apply_updates(parameters, updates)

    step = jax.jit(step, donate_argnums=0).lower(parameters, batch, jax.random.key(1)).compile()
    return step, parameters, batch


def mib(step):
    found = step.memory_analysis()
    return (found.temp_size_in_bytes + found.output_size_in_bytes) / 2**20


def runner(step, parameters, batch):
    """call(count) -> seconds of so many steps, each from the parameters of the last."""
    import jax

    key = jax.random.key(2)

    def call(count):
        nonlocal parameters
        start = time.perf_counter()
        for _ in range(count):
            parameters = step(parameters, batch, key)
        jax.block_until_ready(parameters)
        return time.perf_counter() - start

    return call


def interleaved(calls, repeats):
    """Seconds per step, side by side: {side: one figure per round}."""
    counts = {}
    for side, call in calls.items():
        call(2)
        counts[side] = max(1, round(SECONDS / (call(3) / 3)))
    spent = {side: [] for side in calls}
    for i in range(repeats):
        for side in np.roll(list(calls), i):  # nobody always goes first
            spent[side].append(calls[side](counts[side]) / counts[side])
    return spent


def ratios(spent, other):
    """Median, smallest and largest ratio of rounds."""
    found = [mine / theirs for mine, theirs in zip(spent["ours"], spent[other])]
    return statistics.median(found), f"{min(found):.3g} ... {max(found):.3g}"


def child(side, name, microbatch):
    """Print this process's largest resident set and what of it the steps added, in MiB."""
    def resident(what):
        status = Path("/proc/self/status").read_text()
        return int(re.search(rf"{what}:\s*([0-9]+)", status)[1]) / 1024

    call = runner(*compiled_step(side, name, microbatch))
    peak, before = resident("VmHWM"), resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
    call(3)
    print(json.dumps([max(peak, resident("VmHWM")), resident("VmHWM") - before]))


def processes(side, name, microbatch):
    """Medians of what `child` prints; its programs come from the cache."""
    command = [sys.executable, __file__, "--child", side, name, str(microbatch or 0)]
    runs = [subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           check=True) for _ in range(PROCESSES)]
    found = [json.loads(run.stdout) for run in runs]
    return [statistics.median(each) for each in zip(*found)]


def compare(name, microbatch, repeats):
    """Ours against both, in time and memory."""
    about = {"model": name, "microbatch": microbatch or BATCH}
    compiled = {side: compiled_step(side, name, microbatch) for side in SIDES}
    programs = {side: mib(step) for side, (step, *_) in compiled.items()}
    spent = interleaved({side: runner(*each) for side, each in compiled.items()}, repeats)
    tell(what="seconds per step", **about,
         **{side: statistics.median(each) for side, each in spent.items()})
    for other in OTHERS:
        ratio, span = ratios(spent, other)
        tell(what=f"time, ours/{other}", **about, ratio=ratio, range=span)
    residents = {side: processes(side, name, microbatch) for side in SIDES}
    whole, steps = ({side: each[i] for side, each in residents.items()} for i in (0, 1))
    for what, row in (("program", programs), ("resident, whole process", whole),
                      ("resident, steps", steps)):
        tell(what=f"MiB: {what}", **about, **row,
             **{f"ours/{other}": row["ours"] / row[other] for other in OTHERS})


def accountant(repeats):
    """What accounting costs beside 1000 steps of the MLP: epsilon ten times, as by default, and
    the calibration of the noise.
    """
    import jax
    import optax

    from jaxpriv.training import Plan, Privacy, make_plan
    from jaxpriv.training.clipping_settings import Clipping
    from jaxpriv.training.sharding import data_mesh
    from jaxpriv.training.step import fresh_state, make_step

    loss, parameters, batch = model_and_data("mlp")
    plan = Plan(60_000, BATCH, (NOISE,) * 1000, 99_530)
    optimizer, mesh = optax.sgd(LEARNING_RATE), data_mesh()
    step = jax.jit(
        make_step(lambda parameters, example, key: loss(parameters, example), optimizer, plan, mesh,
                  Clipping(CLIP_NORM), at_once=MICROBATCH), donate_argnums=0)
    mask, none = np.ones(BATCH, bool), np.zeros(0, np.int32)

    def steps():
        state = fresh_state(parameters, optimizer, plan)
        for _ in range(100):
            state, _, _ = step(state, jax.random.key(0), jax.random.key(1), batch, mask, none)
        jax.block_until_ready(state)

    def timed(call):
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    steps()
    calls = {"1000 steps": lambda: 10 * timed(steps),
             "epsilon, ten times": lambda: timed(
                 lambda: [plan.epsilon(at) for at in range(100, 1001, 100)]),
             "calibration": lambda: timed(
                 lambda: make_plan(Privacy(epsilon=3.0), 60_000, 99_530, batch_size=BATCH,
                                   steps=1000))}
    spent = [{name: call() for name, call in calls.items()} for _ in range(repeats)]
    for name in list(calls)[1:]:
        tell(what=name, seconds=statistics.median(row[name] for row in spent),
             share=statistics.median(row[name] / row["1000 steps"] for row in spent))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", choices=MODELS, help="only this one")
    parser.add_argument("--accountant", action="store_true",
                        help="only what epsilon and calibration cost")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.child:
        side, name, microbatch = options.child
        child(side, name, int(microbatch) or None)
        return
    if options.accountant:
        accountant(options.repeats)
        return
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(
            JAX_COMPILATION_CACHE_DIR=cache, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0"
        )
        for name in [options.model] if options.model else MODELS:
            for microbatch in (None, MICROBATCH):
                compare(name, microbatch, options.repeats)


if __name__ == "__main__":
    main()
