"""Composition against dp-accounting, prv-accountant and riskcal: certified epsilon, calibration,
sweeps, memory, growth in T.

    pip install -e '.[bench]'
    python bench/composition.py [--repeats 5]

JSON lines: medians of seconds, both sides in one run, both directions (remove and add) on either
side. `cold` is a process of its own without a cache of programs, less the imports; `memory` its
peak in MiB beyond that of the imports; `width` is the certified bracket's, dp-accounting's is its
pessimistic less its optimistic answer, prv-accountant's its own upper less lower.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from timing import line, median_and_result

ROOT = Path(__file__).resolve().parents[1]
RATE, NOISE, STEPS, DELTA = 0.01, 1.0, 1000, 1e-5
SWEEP = np.linspace(0.7, 3.0, 100)
ADVANTAGE = 0.1
PROCESS = """
import json, re, sys, time
sys.path.insert(0, "bench")
import composition
{imports}
peak = lambda: int(re.search("VmHWM:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]) / 1024
start, before = time.perf_counter(), peak()
{work}
print(json.dumps([time.perf_counter() - start, peak() - before]))
"""


def process(imports, work, repeats):
    """Medians of (seconds, MiB) of a new process's work."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    code = PROCESS.format(imports=imports, work=work)
    runs = [subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*map(json.loads, runs))]


def ours(noise=NOISE, steps=STEPS):
    import jaxpriv

    return jaxpriv.worst_case.subsampled_gaussian(noise, RATE, float(steps)).symmetric()


def theirs(noise=NOISE, pessimistic=True):
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(noise, sampling_prob=RATE, pessimistic_estimate=pessimistic)
    return one.self_compose(STEPS)


def prv(error):
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    step = PoissonSubsampledGaussianMechanism(noise_multiplier=NOISE, sampling_probability=RATE)
    accountant = PRVAccountant(
        prvs=[step], max_self_compositions=[STEPS], eps_error=error, delta_error=DELTA / 1000
    )
    return accountant.compute_epsilon(delta=DELTA, num_self_compositions=[STEPS])


def calibrated(**target):
    import jaxpriv

    return jaxpriv.calibrate(ours, **target, bracket=(0.5, 5.0))


def their_calibration():
    import dp_accounting

    def event(noise):
        step = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, STEPS)

    return dp_accounting.calibrate_dp_mechanism(dp_accounting.pld.PLDAccountant, event, 1.0, DELTA,
                                                dp_accounting.ExplicitBracketInterval(0.5, 5.0),
                                                tol=1e-6)


def riskcal_calibration():
    from riskcal.calibration import find_noise_multiplier_for_advantage_dpsgd

    return find_noise_multiplier_for_advantage_dpsgd(ADVANTAGE, RATE, STEPS, advantage_tol=1e-5)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats

    ours().epsilon_bounds(DELTA)
    warm, (low, high) = median_and_result(lambda: ours().epsilon_bounds(DELTA), 4 * repeats)
    reference, upper = median_and_result(lambda: theirs().get_epsilon_for_delta(DELTA), repeats)
    lower = theirs(pessimistic=False).get_epsilon_for_delta(DELTA)
    cold, memory = process(
        "import jaxpriv", "composition.ours().epsilon_bounds(composition.DELTA)", repeats
    )
    their_cold, their_memory = process(
        "from dp_accounting.pld import privacy_loss_distribution",
        "composition.theirs().get_epsilon_for_delta(composition.DELTA)",
        repeats,
    )
    line(what="certified epsilon", ours=warm, dp_accounting=reference, ratio=reference / warm,
         cold=cold, their_cold=their_cold, ratio_cold=their_cold / cold, memory=memory,
         their_memory=their_memory, ratio_memory=their_memory / memory,
         bracket=[float(low), float(high)], width=float(high - low), their_width=upper - lower)
    for error in (0.1, 1e-3):
        seconds, (below, _, above) = median_and_result(lambda error=error: prv(error), repeats)
        line(what="certified epsilon", ours=warm, prv_accountant=seconds, ratio=seconds / warm,
             their_width=above - below)

    calibrated(epsilon=1.0, delta=DELTA)
    warm, noise = median_and_result(lambda: calibrated(epsilon=1.0, delta=DELTA), repeats)
    reference, their_noise = median_and_result(their_calibration, 1)
    line(what="noise for (1, 1e-5)", ours=warm, dp_accounting=reference, ratio=reference / warm,
         noise=noise, their_noise=their_noise)

    calibrated(advantage=ADVANTAGE)
    warm, noise = median_and_result(lambda: calibrated(advantage=ADVANTAGE), repeats)
    reference, their_noise = median_and_result(riskcal_calibration, 1)
    line(what="noise for advantage 0.1", ours=warm, riskcal=reference, ratio=reference / warm,
         noise=noise, their_noise=their_noise)

    curves = ours(SWEEP)
    curves.epsilon_bounds(DELTA)
    warm, (low, high) = median_and_result(lambda: curves.epsilon_bounds(DELTA), repeats)
    reference, upper = median_and_result(
        lambda: [theirs(noise).get_epsilon_for_delta(DELTA) for noise in SWEEP], 1
    )
    line(what="sweep over 100 noises", ours=warm, dp_accounting=reference, ratio=reference / warm,
         width=float(np.max(high - low)), theirs_above_ours=float(np.max(upper - high)),
         theirs_below_ours=float(np.max(low - upper)))

    for steps in (1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7):
        curve = ours(1.0 + 0.002 * steps**0.5, steps)  # about the same epsilon each time
        curve.epsilon(DELTA)
        seconds, epsilon = median_and_result(
            lambda curve=curve: curve.epsilon(DELTA).block_until_ready(), 4 * repeats
        )
        line(what="epsilon as T grows", steps=steps, seconds=seconds, epsilon=float(epsilon))


if __name__ == "__main__":
    main()
