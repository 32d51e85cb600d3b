"""Clipped sums of many examples, on the grid and not, with lengths of gradients measured one row
after the other and all rows at once.

    python bench/clipping.py [--batch 256] [--parameters 100000] [--repeats 9]

JSON lines. Seconds are medians of `repeats` rounds in which all sides take turns; a ratio is the
median of the rounds' ratios. The model is the MLP of `bench/grid_noise.py`.
"""

import argparse
import statistics

import grid_noise
import jax
import jax.numpy as jnp
from timing import line


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--parameters", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()

    from jaxpriv import training
    from jaxpriv.training import clipping

    layers = grid_noise.mlp(options.parameters)
    rows = (jax.random.normal(jax.random.key(2), (options.batch, grid_noise.INPUTS), jnp.float32),
            jnp.arange(options.batch) % grid_noise.CLASSES)
    settings = {"clip_norm": 1.0, "noise_multiplier": 1.0, "bits": 20}
    made = {
        "floats": lambda layers, rows: training.clipped_sum(
            grid_noise.loss, layers, rows, clip_norm=1.0).total,
        "grid": lambda layers, rows: training.clipped_sum_on_grid(
            grid_noise.loss, layers, rows, **settings).total,
    }
    programs = {}
    for name, function in made.items():
        for side, many in (("at once", options.batch), ("by rows", 0)):
            clipping._MANY = many
            # another function each time: a program is kept by what it was made of
            compiled = jax.jit(lambda *given, f=function: f(*given)).lower(layers, rows).compile()
            programs[name, side] = lambda compiled=compiled: compiled(layers, rows)
    spent = grid_noise.rounds(programs, options.repeats)
    for name in made:
        both = [spent[name, side] for side in ("at once", "by rows")]
        line(what=name, batch=options.batch, parameters=options.parameters,
             ratio=f"{grid_noise.median_ratio(*both):.3g}",
             **{side.replace(" ", "_"): f"{statistics.median(spent[name, side]):.3g}"
                for side in ("at once", "by rows")})


if __name__ == "__main__":
    main()
