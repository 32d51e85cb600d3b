"""What one person waits for: whole processes without caches, and calls in a running process,
beside dp-accounting.

    python bench/answers.py [--repeats 5]

Rows of "process" are seconds (and MiB) of whole processes, ours and dp-accounting's in turn;
"compiled" counts JAX's compilations in ours. Rows of "call" are medians in one process. Ratios are
theirs over ours, the larger the better.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from timing import median_seconds

NOISE, RATE, STEPS, DELTA = 1.0, 0.01, 1000, 1e-5
SCALE = 5.0
COUNTED = """
import jax
found = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: \
found.append(event) if "compile" in event else None)
{what}
print("compiled", len(found))
"""
OURS = (
    "import jaxpriv; print(jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000)"
    ".symmetric().epsilon_bounds(1e-5))"
)
THEIRS = """
import dp_accounting
from dp_accounting.pld import PLDAccountant
a = PLDAccountant()
a.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 1000)
print(a.get_epsilon(1e-5))
"""
CALIBRATION = """
import jaxpriv
print(jaxpriv.calibrate(lambda n: jaxpriv.{curve}, **{target}, bracket=(.3, 30.)))
"""
DP_SGD = "worst_case.subsampled_gaussian(n, .01, 1000).symmetric()"
RELAXED = "relaxed.subsampled_gaussian(n, .01, 1000, 3).symmetric()"
CERTIFY = ["certify", "--dataset-size", "50000", "--batch-size", "500", "--epochs", "10",
           "--noise-multiplier", "1"]


def process(arguments):
    """(seconds, MiB, standard output) of a process in an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "JAX_PLATFORMS": "cpu"}
        start = time.perf_counter()
        child = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, text=True, env=environment, cwd=cache
        )
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise RuntimeError(f"{arguments} failed")
        return time.perf_counter() - start, usage.ru_maxrss / 1024, output


def of_code(code):
    return process([sys.executable, "-c", code])


def pairs(repeats):
    ours, theirs = zip(*((of_code(OURS), of_code(THEIRS)) for _ in range(repeats)))
    (own, mib), (other, their_mib) = (
        [statistics.median(row[i] for row in side) for i in (0, 1)] for side in (ours, theirs)
    )
    count = of_code(COUNTED.format(what=OURS))[2].split()[-1]
    print(
        f"process  certified epsilon {own:.2f} s {mib:.0f} MiB; dp-accounting {other:.2f} s "
        f"{their_mib:.0f} MiB; time x{own / other:.2f}, "
        f"memory x{mib / their_mib:.2f}, compiled {count}",
        flush=True,
    )


def commands(repeats):
    for name, extra in (("certify", []), ("certify --out", ["--out", "folder"])):
        times = [
            process([sys.executable, "-m", "jaxpriv", *CERTIFY, *extra])[0] for _ in range(repeats)
        ]
        print(f"process  {name:<28} {statistics.median(times):6.2f} s", flush=True)
    base = statistics.median(of_code("import jaxpriv")[0] for _ in range(repeats))
    jax = statistics.median(of_code("import jax")[0] for _ in range(repeats))
    print(
        f"process  import jaxpriv               {base:6.2f} s; import jax {jax:.2f} s", flush=True
    )
    for name, curve, target in (("epsilon", DP_SGD, {"epsilon": 1.0, "delta": 1e-5}),
                                ("advantage", DP_SGD, {"advantage": 0.1}),
                                ("mu", DP_SGD, {"mu": 10.0}),
                                ("TPR at FPR", DP_SGD, {"fpr": 0.01, "tpr": 0.05}),
                                ("relaxed epsilon", RELAXED, {"epsilon": 0.5, "delta": 1e-5})):
        code = CALIBRATION.format(curve=curve, target=target)
        spent = statistics.median(of_code(code)[0] for _ in range(repeats)) - base
        print(f"process  calibrate to {name:<15} {spent:6.2f} s beyond the import", flush=True)


def calls(repeats):
    import dp_accounting
    import numpy as np
    from dp_accounting.pld import PLDAccountant

    import jaxpriv

    def theirs(noise=NOISE):
        accountant = PLDAccountant()
        accountant.compose(
            dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise)), STEPS
        )
        return accountant.get_epsilon(DELTA)

    def ours(noise=NOISE):
        return (
            jaxpriv.worst_case.subsampled_gaussian(noise, RATE, STEPS)
            .symmetric()
            .epsilon_bounds(DELTA)
        )

    other, own = median_seconds(theirs, repeats), median_seconds(ours, 5 * repeats)
    print(
        f"call     certified epsilon {1e3 * own:8.1f} ms; "
        f"dp-accounting {other:.2f} s; x{other / own:.0f}",
        flush=True,
    )
    noises = np.linspace(0.6, 2.0, 100)
    many = median_seconds(lambda: ours(noises), 3)
    print(
        f"call     sweep over 100 noises        {many:8.2f} s;  dp-accounting {100 * other:.0f} s "
        f"(100 times one); x{100 * other / many:.0f}",
        flush=True,
    )
    targets = iter(np.linspace(0.5, 3.0, 100))  # a new one each time

    def dp_sgd(noise):
        return jaxpriv.worst_case.subsampled_gaussian(noise, RATE, STEPS).symmetric()

    def their_dp_sgd(noise):
        return dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise)), STEPS)

    def pipeline(noise):
        return jaxpriv.compose(dp_sgd(noise), jaxpriv.worst_case.laplace(1 / SCALE))

    def their_pipeline(noise):
        return dp_accounting.ComposedDpEvent(
            [their_dp_sgd(noise), dp_accounting.LaplaceDpEvent(SCALE)])

    for name, our_own, their_own in (("DP-SGD", dp_sgd, their_dp_sgd),
                                     ("with Laplace noise", pipeline, their_pipeline)):

        def calibrated(make=our_own):
            return jaxpriv.calibrate(lambda noise: make(noise), epsilon=float(next(targets)),
                                     delta=DELTA, bracket=(0.3, 30.0))

        def calibrated_by_them(make=their_own):
            return dp_accounting.calibrate_dp_mechanism(
                PLDAccountant, make, float(next(targets)), DELTA,
                dp_accounting.ExplicitBracketInterval(0.3, 30.0), tol=1e-6)

        own, other = median_seconds(calibrated, repeats), median_seconds(calibrated_by_them, 1)
        print(f"call     calibrate {name:<18} {1e3 * own:8.0f} ms; "
              f"dp-accounting {other:.1f} s; x{other / own:.0f}", flush=True)
    worst, relaxed = (
        module.subsampled_gaussian(NOISE, RATE, STEPS)
        for module in (jaxpriv.worst_case, jaxpriv.relaxed)
    )
    curves = [worst, worst.symmetric(), jaxpriv.worst_case.laplace(1.0),
              jaxpriv.worst_case.approximate_dp(1.0, 1e-5)]
    alpha = np.linspace(0.0, 1.0, 101)
    plot = median_seconds(lambda: [curve(alpha) for curve in curves], 1)
    print(f"call     101 points of 4 curves       {plot:8.2f} s", flush=True)
    for name, curve in (("relaxed", relaxed.symmetric()), ("add one record", worst.reversed())):
        low, high = curve.epsilon_bounds(DELTA)
        spent = median_seconds(lambda curve=curve: curve.epsilon_bounds(DELTA), 2)
        wide = (high - low) / high
        print(
            f"call     {name:<28} {spent:8.2f} s;  epsilon in [{low:.9f}, "
            f"{high:.9f}], {wide:.0e} wide",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"medians of {repeats}; load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    pairs(repeats)
    commands(repeats)
    calls(repeats)


if __name__ == "__main__":
    main()
