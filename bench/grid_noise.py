"""What exact noise costs: `jaxpriv.random.rounded_normal` against `jaxpriv.random.normal`,
alone and in a step of DP-SGD.

    python bench/grid_noise.py [--repeats 15] [--parameters 1000000] [--batch 256]

JSON lines. Seconds are medians of `repeats` rounds in which all sides take turns; a ratio is the
median of the rounds' ratios. A step is that of an MLP of three layers: per-example gradients, their
clipped sum and the noisy mean. `share` is that of `private_mean` or `private_mean_on_grid`, alone,
in the whole step.
"""

import argparse
import math
import statistics
import time

import jax
import jax.numpy as jnp
from timing import line

INPUTS, CLASSES = 784, 10


def rounds(programs, repeats):
    """{name: seconds of each round}, the first round not counted."""
    spent = {name: [] for name in programs}
    for i in range(repeats + 1):
        for name in list(programs)[:: 1 if i % 2 else -1]:
            start = time.perf_counter()
            jax.block_until_ready(programs[name]())
            spent[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in spent.items()}


def median_ratio(times, others):
    return statistics.median(mine / theirs for mine, theirs in zip(times, others))


def draws(size, repeats):
    from jaxpriv import random

    key, words = jax.random.key(0), random.secret_words()
    spent = rounds({"normal": lambda: random.normal(key, (size,), jnp.float32),
                    "grid": lambda: random.rounded_normal(words, (size,), 20)}, repeats)
    line(what="draws", size=size, ratio=f"{median_ratio(spent['grid'], spent['normal']):.3g}",
         **{name: f"{statistics.median(times):.3g}" for name, times in spent.items()})


def mlp(parameters):
    """Three layers, of about so many parameters."""
    inner = INPUTS + CLASSES + 2
    width = round((math.sqrt(inner**2 + 4 * parameters) - inner) / 2)
    shapes = ((INPUTS, width), (width, width), (width, CLASSES))
    keys = jax.random.split(jax.random.key(1), 3)
    return [(jax.random.normal(key, shape, jnp.float32) / math.sqrt(shape[0]),
             jnp.zeros(shape[1], jnp.float32)) for key, shape in zip(keys, shapes)]


def loss(layers, example, key):
    del key
    x, label = example
    for weights, bias in layers[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    return -jax.nn.log_softmax(x @ layers[-1][0] + layers[-1][1])[label]


def steps(parameters, batch, repeats):
    from jaxpriv import random, training

    layers = mlp(parameters)
    dim = sum(leaf.size for leaf in jax.tree.leaves(layers))
    rows = (jax.random.normal(jax.random.key(2), (batch, INPUTS), jnp.float32),
            jnp.arange(batch) % CLASSES)
    key, words = jax.random.key(3), random.secret_words()
    same = {"clip_norm": 1.0, "noise_multiplier": 1.0}
    same_grid = {**same, "bits": training.grid_bits(1.0, batch, dim)}

    def floats(layers, rows):
        return training.clipped_sum(loss, layers, rows, clip_norm=1.0).total

    def whole(layers, rows):
        return training.clipped_sum_on_grid(loss, layers, rows, **same_grid).total

    def mean(total):
        return training.private_mean(key, total, expected_batch_size=batch, **same)

    def mean_on_grid(total):
        return training.private_mean_on_grid(words, total, expected_batch_size=batch, **same_grid)

    made = {"step": (lambda *given: mean(floats(*given)), (layers, rows)),
            "step_grid": (lambda *given: mean_on_grid(whole(*given)), (layers, rows)),
            "mean": (mean, (jax.tree.map(jnp.zeros_like, layers),)),
            "mean_grid": (mean_on_grid, (jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32),
                                                      layers),))}
    programs, memory = {}, {}
    for name, (function, given) in made.items():
        compiled = jax.jit(function).lower(*given).compile()
        memory[name] = compiled.memory_analysis().temp_size_in_bytes / 2**20
        programs[name] = lambda compiled=compiled, given=given: compiled(*given)
    spent = rounds(programs, repeats)
    line(what="step", parameters=dim, batch=batch, bits=same_grid["bits"],
         ratio=f"{median_ratio(spent['step_grid'], spent['step']):.3g}",
         ratio_of_means=f"{median_ratio(spent['mean_grid'], spent['mean']):.3g}",
         share=f"{median_ratio(spent['mean'], spent['step']):.2%}",
         share_grid=f"{median_ratio(spent['mean_grid'], spent['step_grid']):.2%}",
         **{name: f"{statistics.median(times):.3g}" for name, times in spent.items()},
         **{f"MiB_{name}": f"{memory[name]:.4g}" for name in ("step", "step_grid")})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--parameters", type=int, default=10**6)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    line(what="device", kind=jax.devices()[0].device_kind, backend=jax.default_backend())
    draws(options.parameters, options.repeats)
    steps(options.parameters, options.batch, options.repeats)


if __name__ == "__main__":
    main()
