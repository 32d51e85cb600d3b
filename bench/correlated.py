"""Errors of optimised correlated noise against published algorithms', and the time they take.

    python bench/correlated.py [--steps 1024] [--bands 8,64,1024] [--dense] [--long 100000]

JSON lines. An error is that of prefix sums for a record that takes part once, times sensitivity:
`mean` the root of the mean of squares, `max` the longest row. `theirs` is jax-privacy's
optimisation of banded Toeplitz matrices (McKenna 2024, arXiv:2405.15913); `square root` is the
closed form (Kalinin and Lampert 2024, arXiv:2405.13763), `dense` (--dense, minutes) the least error
of all matrices with as many bands and columns of length 1 (the problem of Choquette-Choo et al.
2023, arXiv:2306.08153), `dual` what none of them gets below. Seconds contain compiling.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import numpy as np


def timed(function, *args, **kwargs):
    start = time.perf_counter()
    found = function(*args, **kwargs)
    return found, f"{time.perf_counter() - start:.2f}"


def theirs(steps, bands, loss):
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import toeplitz

    reduce = {"mean": jnp.mean, "max": jnp.max}[loss]
    with jax.enable_x64(True):
        return np.asarray(toeplitz.optimize_banded_toeplitz(
            n=steps, bands=bands, reduction_fn=reduce, max_optimizer_steps=150))


def banded(steps, bands, loss, dense):
    from jaxpriv import correlated
    from tests.correlated.oracles import least_error

    begin = correlated.banded_square_root(bands)
    found, seconds = timed(correlated.optimise, begin, steps, loss=loss)
    other, their_seconds = timed(theirs, steps, bands, loss)
    other = correlated.error(correlated.banded_toeplitz(other), steps, loss=loss)
    row = {"what": "banded Toeplitz", "steps": steps, "bands": bands, "loss": loss,
           "square root": correlated.error(begin, steps, loss=loss), "ours": found.error,
           "theirs": other, "seconds": seconds, "their seconds": their_seconds}
    if dense and loss == "mean":
        made = correlated.with_unit_columns(found.strategy, steps)
        best, spent = timed(correlated.optimise, made, steps)
        gram = best.strategy.matrix.T @ best.strategy.matrix
        row |= {"dense": best.error, "dual": least_error(gram, bands) / np.sqrt(steps),
                "dense seconds": spent}
    print(json.dumps(row), flush=True)


def others(steps, loss):
    """Families of a few numbers."""
    from jaxpriv import correlated

    for name, begin in (("2 buffers", correlated.buffered_square_root(2, steps)),
                        ("4 buffers", correlated.buffered_square_root(4, steps)),
                        ("8-banded inverse", correlated.banded_inverse_square_root(8))):
        found, seconds = timed(correlated.optimise, begin, steps, loss=loss)
        print(json.dumps({"what": name, "steps": steps, "loss": loss,
                          "begin": correlated.error(begin, steps, loss=loss), "ours": found.error,
                          "seconds": seconds}), flush=True)


def plan():
    from jaxpriv import correlated

    found, seconds = timed(correlated.plan, 2000, 50_000, 500, epsilon=2.0, delta=1e-6)
    first = found.candidates[0]
    print(json.dumps({"what": "plan, 2000 steps, 500 of 50,000 records, (2, 1e-6)",
                      "bands": found.best.bands, "error": found.best.error,
                      "DP-SGD's": first.error, "seconds": seconds}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1024)
    parser.add_argument("--bands", default="1,8,64,1024")
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--dense", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    for loss in ("mean", "max"):
        for bands in map(int, options.bands.split(",")):
            banded(options.steps, bands, loss, options.dense)
        others(options.steps, loss)
    others(options.long, "mean")
    plan()


if __name__ == "__main__":
    main()
