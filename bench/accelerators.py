"""A GPU or TPU against this machine's processor, both in one run: epsilon of a hundred million
relaxed curves, delta of a hundred thousand configurations of DP-SGD, GLiR at a million parameters.

    python bench/accelerators.py [--curves 100000000] [--configurations 100000] [--cores 2]

The processor gets a share of each batch (`--share`, a thousandth of the curves) and its time is
counted per curve; what both computed is compared, in logarithms where these are what is asked.
Medians of `--repeats`; compiling is not counted. `--cores` takes the others from the process, so
that the processor's figure is one of that many.
"""

import argparse
import os

import numpy as np
from timing import line, median_and_result

DELTA, BATCH, QUERIES, PARAMETERS = 1e-5, 64, 256, 1_000_000
PIECE = 1_000_000  # curves in one call


def relaxed_curves(size, seed=0):
    random = np.random.default_rng(seed)
    mu = np.exp(random.uniform(np.log(0.1), np.log(5.0), size))
    return mu, np.exp(random.uniform(0.0, np.log(1e5), size))


def trainings(size, seed=1):
    """(noise multiplier, rate, steps, epsilon) of DP-SGD."""
    random = np.random.default_rng(seed)
    return (
        random.uniform(0.7, 2.0, size),
        10 ** random.uniform(-3, -1.5, size),
        np.floor(10 ** random.uniform(2.7, 4, size)),
        random.uniform(0.5, 6.0, size),
    )


def timed(program, batches, repeats):
    """(median seconds for all batches, their results), after calls that compile."""
    import jax

    jax.block_until_ready([program(*batch) for batch in (batches[0], batches[-1])])
    return median_and_result(lambda: jax.block_until_ready([program(*b) for b in batches]), repeats)


def compare(what, program, make, size, share, piece, repeats):
    """The accelerator over all, the processor over a share of the same."""
    import jax

    fast, slow = jax.devices()[0], jax.devices("cpu")[0]
    numbers = make(size)
    few = min(max(int(size * share), 1), size)
    cut = [tuple(x[i : i + piece] for x in numbers) for i in range(0, size, piece)]
    spent, found = timed(program, jax.device_put(cut, fast), repeats)
    there, right = timed(
        program, [jax.device_put(tuple(x[:few] for x in numbers), slow)], repeats
    )
    found, right = np.asarray(found[0])[:few], np.asarray(right[0])
    here = np.isfinite(right)
    same = np.array_equal(here, np.isfinite(found))
    gap = np.max(np.abs(found - right)[here] / np.maximum(np.abs(right[here]), 1))
    line(what=what, size=size, accelerator_seconds=round(spent, 3), processor_share=few,
         processor_seconds=round(there, 3), ratio=round(there / few / (spent / size), 1),
         largest_difference=float(f"{gap:.2g}"), compared=int(here.sum()), finite_alike=same)


def attack(repeats):
    """GLiR of QUERIES gradients against a release, 512 reference gradients, float32."""
    import jax
    import jax.numpy as jnp

    from jaxpriv.attacks import glir, reference

    def score(data, queries, release):
        return glir(release, queries, reference.estimate(data, "low_rank"), BATCH)

    shapes = (512, PARAMETERS), (QUERIES, PARAMETERS), (BATCH, PARAMETERS)
    keys = jax.random.split(jax.random.key(0), 3)
    drawn = [np.asarray(jax.random.normal(k, s, jnp.float32)) for k, s in zip(keys, shapes)]
    drawn[2] = drawn[2].mean(0)
    taken = {}
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        arrays = jax.device_put(tuple(drawn), device)
        taken[str(device)] = timed(jax.jit(score), [arrays], repeats)
    (spent, found), (there, right) = list(taken.values())[0], list(taken.values())[-1]
    found, right = np.asarray(found[0]), np.asarray(right[0])
    gap = np.max(np.abs(found - right) / np.maximum(np.abs(right), 1))
    line(what=f"GLiR, {PARAMETERS} parameters, 512 references, {QUERIES} queries, float32",
         accelerator_seconds=round(spent, 4), processor_seconds=round(there, 3),
         ratio=round(there / spent, 1), largest_difference=float(f"{gap:.2g}"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--curves", type=int, default=100_000_000)
    parser.add_argument("--configurations", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=1e-3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])

    import jax

    import jaxpriv

    jax.config.update("jax_enable_x64", True)
    line(accelerator=str(jax.devices()[0]), kind=jax.devices()[0].device_kind, cores=options.cores)
    epsilon = jax.jit(lambda mu, dim: jaxpriv.relaxed.gaussian(mu, dim).epsilon(DELTA))
    compare("epsilon(1e-5) of relaxed curves", epsilon, relaxed_curves, options.curves,
            options.share, PIECE, options.repeats)

    def log_delta(noise, rate, steps, eps):
        curve = jaxpriv.worst_case.subsampled_gaussian(noise, rate, steps).symmetric()
        return curve.log_delta(eps)

    compare("log delta of DP-SGD, symmetric", jax.jit(log_delta), trainings,
            options.configurations, 20 * options.share, PIECE, options.repeats)
    attack(options.repeats)


if __name__ == "__main__":
    main()
