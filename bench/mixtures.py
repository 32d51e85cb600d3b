"""Certified epsilon of users with several records,
beside dp-accounting's mixture of Gaussians, in one process.

    python bench/mixtures.py [--repeats 5]

Medians. Ours bounds both sides in both directions;
theirs is the pessimistic one, at its usual interval.
"""

import argparse
import math
from functools import partial

from timing import median_and_result, median_seconds

from jaxpriv import worst_case

DELTA = 1e-5
SETTINGS = [(2.0, 0.01, 1000, 4), (4.0, 0.05, 200, 4), (2.0, 0.01, 1000, 10), (1.0, 0.001, 5000, 3)]


def ours(noise, rate, steps, records):
    return worst_case.user_level(noise, rate, steps, records).symmetric().epsilon_bounds(DELTA)


def theirs(noise, rate, steps, records):
    from dp_accounting.pld import privacy_loss_distribution as pld

    weights = [
        math.comb(records, k) * rate**k * (1 - rate) ** (records - k) for k in range(records + 1)
    ]
    one = pld.from_mixture_gaussian_mechanism(noise, list(range(records + 1)), weights)
    return one.self_compose(steps).get_epsilon_for_delta(DELTA)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for setting in SETTINGS:
        low, high = ours(*setting)
        mine = median_seconds(partial(ours, *setting), repeats)
        other, epsilon = median_and_result(partial(theirs, *setting), 1)
        print("noise {}, rate {}, steps {}, K = {}:".format(*setting),
              f"[{low:.12f}, {high:.12f}] in {1e3 * mine:.0f} ms,",
              f"{epsilon:.9f} in {1e3 * other:.0f} ms: {other / mine:.0f} times", flush=True)


if __name__ == "__main__":
    main()
