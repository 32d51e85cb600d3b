"""Steps with samples of fixed size: certified epsilon from their transform against lattices.

    python bench/fixed_size.py [--repeats 3]

JSON lines, one for each setting (noise multiplier, sampling rate, steps, delta): seconds of either,
medians of rounds in which both take turns, forgetting what lattices keep; `ratio` is the
median of the rounds' ratios, and `width` is that of the bracket over its upper end.
"""

import argparse
import statistics
import time

import numpy as np
from timing import line

SETTINGS = [(1.0, 0.01, 1000, 1e-5), (1.0, 1e-3, 1e5, 1e-6), (2.0, 1e-3, 1e6, 1e-7),
            (10.0, 1e-4, 1e5, 1e-8)]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args(arguments).repeats
    for *mechanism, delta in SETTINGS:
        compare(mechanism, delta, repeats)


def compare(mechanism, delta, repeats):
    from jaxpriv import _stored as stored
    from jaxpriv import worst_case
    from jaxpriv.composition.gridded import Gridded

    curve = worst_case.subsampled_gaussian(
        *mechanism, adjacency="replace_one", sampling="fixed_size")
    entry, log_delta = curve.experiment.aligned((), np.float64), np.asarray(np.log(delta))
    sides = {"transform": lambda: curve.epsilon_bounds(delta),
             "lattice": lambda: Gridded.epsilon_bracket(entry, log_delta, log_delta, False)}
    spent, found = {name: [] for name in sides}, {}
    with np.errstate(all="ignore"):
        for i in range(repeats + 1):
            for name in list(sides)[:: 1 if i % 2 else -1]:
                stored.forget()
                start = time.perf_counter()
                found[name] = sides[name]()
                spent[name].append(time.perf_counter() - start)
    ratio = statistics.median(
        slow / fast for slow, fast in zip(spent["lattice"][1:], spent["transform"][1:]))
    told = {}
    for name, (low, high) in found.items():
        told[name] = f"{statistics.median(spent[name][1:]):.3g}"
        told[f"width_{name}"] = f"{(high - low) / high:.1e}"
    line(setting=[*mechanism, delta], epsilon=float(found["transform"][1]), ratio=f"{ratio:.3g}",
         **told)


if __name__ == "__main__":
    main()
