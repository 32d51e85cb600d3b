"""Certified epsilon and calibrated noise of DP-SGD: ours against dp-accounting's PLD accountant, and the cost as T grows.

    pip install dp-accounting
    python bench/composition.py [--repeats 5]

JSON lines: medians of seconds, both sides in one run. `cold` is a process of its own without a cache of programs, less
the imports; `width` is the certified bracket's, dp-accounting's is its pessimistic less its optimistic answer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RATE, NOISE, STEPS, DELTA = 0.01, 1.0, 1000, 1e-5
COLD = f"""
import time, jaxpriv
start = time.perf_counter()
jaxpriv.worst_case.subsampled_gaussian({NOISE}, {RATE}, {STEPS}.0).epsilon_bounds({DELTA})
print(time.perf_counter() - start)
"""


def median(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def ours(noise=NOISE, steps=STEPS):
    import jaxpriv

    return jaxpriv.worst_case.subsampled_gaussian(noise, RATE, float(steps))


def theirs(noise, pessimistic=True):
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(noise, sampling_prob=RATE, pessimistic_estimate=pessimistic)
    return one.self_compose(STEPS)


def their_calibration():
    import dp_accounting

    def event(noise):
        step = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, STEPS)

    return dp_accounting.calibrate_dp_mechanism(dp_accounting.pld.PLDAccountant, event, 1.0, DELTA,
                                                dp_accounting.ExplicitBracketInterval(0.5, 5.0), tol=1e-6)


def line(**values):
    print(json.dumps(values), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    import jaxpriv

    ours().epsilon_bounds(DELTA)
    warm, (low, high) = median(lambda: ours().epsilon_bounds(DELTA), 4 * repeats)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    cold = statistics.median(
        float(subprocess.run([sys.executable, "-c", COLD], env=environment, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    )
    reference, upper = median(lambda: theirs(NOISE).get_epsilon_for_delta(DELTA), repeats)
    lower = theirs(NOISE, pessimistic=False).get_epsilon_for_delta(DELTA)
    line(what="certified epsilon", ours_warm=warm, ours_cold=cold, dp_accounting=reference, ratio_warm=reference / warm,
         ratio_cold=reference / cold, ours=[float(low), float(high)], width=float(high - low), their_width=upper - lower)

    def calibrated():
        return jaxpriv.calibrate(lambda noise: ours(noise), epsilon=1.0, delta=DELTA, bracket=(0.5, 5.0))

    calibrated()
    warm, noise = median(calibrated, repeats)
    reference, their_noise = median(their_calibration, 1)
    line(what="calibrated noise", ours=warm, dp_accounting=reference, ratio=reference / warm, noise=noise,
         their_noise=their_noise)

    for steps in (1e3, 1e4, 1e5, 1e6, 1e7):
        curve = ours(1.0 + 0.002 * steps**0.5, steps)  # about the same epsilon each time
        curve.epsilon(DELTA)
        seconds, epsilon = median(lambda curve=curve: curve.epsilon(DELTA).block_until_ready(), 4 * repeats)
        line(what="epsilon as T grows", steps=steps, seconds=seconds, epsilon=float(epsilon))


if __name__ == "__main__":
    main()
