"""Certified epsilon of random allocation: time of an answer and width of its bracket.

    python bench/allocation.py [--repeats 3]

Medians, in one process, at t = 1e2 ... 1e6 steps.
"""

import argparse
from functools import partial

from timing import median_and_result, median_seconds

from jaxpriv import worst_case

SETTINGS = [(0.5, 1e2), (1.0, 1e3), (2.0, 1e4), (1.0, 1e5), (1.0, 1e6)]
DELTAS = (1e-5, 1e-8)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("noise   steps  delta   direction  epsilon      width/eps  estimate  bracket")
    for noise, steps in SETTINGS:
        for delta in DELTAS:
            forward = worst_case.random_allocation(noise, steps)
            for name, curve in (("remove", forward), ("add", forward.reversed())):
                short = median_seconds(partial(curve.epsilon, delta), arguments.repeats)
                seconds, (low, high) = median_and_result(
                    partial(curve.epsilon_bounds, delta), arguments.repeats
                )
                print(
                    f"{noise:5} {steps:7.0e} {delta:6.0e}   {name:9} {high:.9f} "
                    f"{(high - low) / high:9.1e} {short:8.3f} s {seconds:7.3f} s"
                )


if __name__ == "__main__":
    main()
