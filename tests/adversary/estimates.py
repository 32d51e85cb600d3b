"""Estimates of the standing adversary's settings, beside the certified brackets of the same curves.

    python -m tests.adversary.estimates --seed 1 --minutes 5 [--corners 0.2]

prints those that lie outside, with a line for each, and those that take long.
"""

import argparse
import time
import warnings

import numpy as np

from tests.adversary import bounds
from tests.adversary.settings import FAMILIES, batch

METHODS = ("log_delta", "epsilon", "beta", "advantage")
DEEP = -100.0  # log delta below which a lattice may be far off
ROOM = 1e-3  # of delta, epsilon and the type II error, outside of the bracket
LONG = 3.0  # seconds
SOME = [family for family in FAMILIES if family != "calibrated"]


def estimated(curve, method, argument):
    if method == "advantage":
        return curve.advantage()
    return curve(argument) if method == "beta" else getattr(curve, method)(argument)


def asked(family, seed, corners=0.0, methods=METHODS):
    """(setting, bracket, estimate, seconds of either) of one setting."""
    (setting,) = batch(family, 1, seed, methods, corners)
    parameters = iter(bounds.numbers(setting.mechanism))
    curve = bounds.directed(bounds.curve(setting.mechanism, lambda: next(parameters)),
                            setting.direction)
    spent, begun = [], time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bracket = tuple(map(float, bounds.ask(curve, setting.method, setting.argument)))
        spent.append(time.process_time() - begun)
        estimate = float(estimated(curve, setting.method, setting.argument))
        spent.append(time.process_time() - begun - spent[0])
    return setting, bracket, estimate, spent


def outside(setting, bracket, estimate):
    """By how much an estimate is outside of the bracket, in `ROOM`s; NaN is far outside."""
    low, high = bracket
    if low <= estimate <= high or setting.method == "log_delta" and high < DEEP:
        return 0.0
    scale = 1.0 if setting.method == "log_delta" else abs(estimate) + 1e-9
    gap = max(low - estimate, estimate - high) / (ROOM * scale)
    return np.inf if np.isnan(gap) else gap


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--corners", type=float, default=0.0)
    options = parser.parse_args()
    random, count = np.random.default_rng(options.seed), 0
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        family, seed = str(random.choice(SOME)), int(random.integers(1 << 30))
        setting, bracket, estimate, spent = asked(family, seed, options.corners)
        far, count = outside(setting, bracket, estimate), count + 1
        if far > 1 or max(spent) > LONG:
            print(f"{family} {seed} {estimate!r} of {bracket}, {far:.2g} outside, "
                  f"{spent[0]:.2f} and {spent[1]:.2f} s: {setting}", flush=True)
    print(count, "settings")


if __name__ == "__main__":
    main()
