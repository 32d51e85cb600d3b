"""A schedule found by gradient against the best of a grid of them, at the same certified budget.

    python bench/schedule.py [--slopes 7] [--bends 3]

The problem is that of examples/noise_schedule.py, at (epsilon, delta) = (1, 1e-5): noise
multipliers of eight phases, or their sampling rates. The grid has ramps exp(slope x + bend x^2),
x in [-1, 1], each scaled to the budget by `jaxpriv.calibrate`; the gradient moves all eight in one
call.
"""

import argparse
import itertools
import sys
from functools import partial
from pathlib import Path

import numpy as np
from timing import median_and_result  # which finds the package, too

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
import noise_schedule as problem

import jaxpriv

EPSILON, DELTA = 1.0, 1e-5
X = np.linspace(-1.0, 1.0, problem.PHASES)
START = {"noise": 1.0, "rate": 0.02}  # the other one is held at this


def of(kind, values):
    """(noises, rates) of the phases."""
    other = np.full(problem.PHASES, START["rate" if kind == "noise" else "noise"])
    return (values, other) if kind == "noise" else (other, values)


def risk(kind, values):
    return float(problem.excess_risk(*of(kind, values)))


def on_budget(kind, shape):
    """The shape times the factor that spends the budget."""
    power = -1 if kind == "noise" else 1  # a factor that grows tells more
    scale = jaxpriv.calibrate(
        lambda factor: problem.curve(*of(kind, shape * factor**power)).symmetric(),
        epsilon=EPSILON, delta=DELTA)  # fmt: skip
    return shape * scale**power


def risks_of(kind, shapes):
    return [risk(kind, on_budget(kind, shape)) for shape in shapes]


def by_gradient(kind):
    return jaxpriv.accounting.optimise_schedule(
        lambda values: problem.curve(*of(kind, values)), lambda values: -problem.excess_risk(
            *of(kind, values)), np.full(problem.PHASES, START[kind]), epsilon=EPSILON, delta=DELTA,
        iterations=80, **({"largest": 1.0} if kind == "rate" else {}))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slopes", type=int, default=7)
    parser.add_argument("--bends", type=int, default=3)
    args = parser.parse_args()
    grid = list(itertools.product(np.linspace(-2, 2, args.slopes), np.linspace(-1, 1, args.bends)))
    for kind in START:
        ramps = [START[kind] * np.exp(slope * X + bend * X**2) for slope, bend in grid]
        of_grid, risks = median_and_result(
            partial(risks_of, kind, ramps), 1
        )
        constant = risk(kind, on_budget(kind, np.full(problem.PHASES, START[kind])))
        of_gradient, found = median_and_result(partial(by_gradient, kind), 1)
        print(f"{kind}: constant {constant:.4e}; best of {len(grid)} ramps {min(risks):.4e} at "
              f"{grid[int(np.argmin(risks))]}, {of_grid:.0f} s; by gradient {-found.utility:.4e}, "
              f"{of_gradient:.0f} s, certified delta {found.delta_bounds[1]:.9g}; "
              f"{-found.utility / min(risks):.4f} of the grid's")  # fmt: skip


if __name__ == "__main__":
    main()
