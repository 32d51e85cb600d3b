"""Normal random numbers: `jaxpriv.random.normal` against `jax.random.normal`, in time and memory.

    python bench/noise.py [--repeats 9]

JSON lines. Seconds are medians of `repeats` rounds in which the two sides take turns; a ratio is
the median of the rounds' ratios, `range` its smallest and largest. `MiB` is what the compiled
program needs besides the numbers that it returns.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp

SIZES = (10**4, 10**6, 10**7)


def seconds(program, key):
    start = time.perf_counter()
    jax.block_until_ready(program(key))
    return time.perf_counter() - start


def compare(dtype, size, repeats):
    from jaxpriv import random

    key = jax.random.key(0)
    sides = {"jax": jax.random.normal, "ours": random.normal}
    programs = {name: jax.jit(lambda key, draw=draw: draw(key, (size,), dtype)).lower(key).compile()
                for name, draw in sides.items()}
    spent = {name: [] for name in sides}
    for i in range(repeats + 1):
        for name in list(sides)[:: 1 if i % 2 else -1]:
            spent[name].append(seconds(programs[name], key))
    ratios = [mine / theirs for mine, theirs in zip(spent["ours"][1:], spent["jax"][1:])]
    row = {"what": "seconds", "dtype": jnp.dtype(dtype).name, "size": size}
    row |= {name: f"{statistics.median(times[1:]):.3g}" for name, times in spent.items()}
    row |= {"ratio": f"{statistics.median(ratios):.3g}",
            "range": f"{min(ratios):.3g} ... {max(ratios):.3g}"}
    row |= {f"MiB {name}": f"{program.memory_analysis().temp_size_in_bytes / 2**20:.3g}"
            for name, program in programs.items()}
    print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    for dtype in (jnp.float32, jnp.float64):
        with jax.enable_x64(dtype == jnp.float64):
            for size in SIZES:
                compare(dtype, size, options.repeats)


if __name__ == "__main__":
    main()
