"""A million relaxed curves in one call: epsilon(1e-5) of a million (mu, dim), in curves a second.

    python bench/glrt_million.py [--size 1000000] [--repeats 3]

Both sides in one run: the batched call against a Python loop over single calls of the same compiled
method (timed on a few), and against SciPy's root search on its ncx2 (timed on fewer). Peak memory
is the process's largest resident set.
"""

import argparse
import resource
import time

import numpy as np
from timing import median_seconds

DELTA = 1e-5


def parameters(size, seed=0):
    rng = np.random.default_rng(seed)
    mu = np.exp(rng.uniform(np.log(0.1), np.log(5.0), size))
    return mu, np.exp(rng.uniform(0.0, np.log(1e5), size))


def scipy_epsilon(mu, dim):
    """The root of delta(eps) = DELTA by Brent's method, the threshold by Brent's method inside."""
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2

    def ratio(t):
        return ncx2.logpdf(t, dim, mu**2) - chi2.logpdf(t, dim)

    def excess(eps):
        t = brentq(lambda t: ratio(t) - eps, 1e-9, 1e3 * (dim + mu**2) + 1e4)
        return ncx2.sf(t, dim, mu**2) - np.exp(eps) * chi2.sf(t, dim) - DELTA

    return brentq(excess, 0.0, mu**2 / 2 + 6 * mu)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    import jax

    from jaxpriv import relaxed

    jax.config.update("jax_enable_x64", True)
    mu, dim = jax.device_put(parameters(options.size))

    start = time.perf_counter()
    epsilon = jax.block_until_ready(relaxed.gaussian(mu, dim).epsilon(DELTA))
    first = time.perf_counter() - start
    all_at_once = median_seconds(
        lambda: jax.block_until_ready(relaxed.gaussian(mu, dim).epsilon(DELTA)), options.repeats
    )
    batch = all_at_once / options.size
    few = [(float(m), float(d)) for m, d in zip(mu[:50], dim[:50], strict=True)]
    loop = median_seconds(
        lambda: [float(relaxed.gaussian(m, d).epsilon(DELTA)) for m, d in few], options.repeats
    ) / len(few)

    known = []
    start = time.perf_counter()
    for index, (m, d) in enumerate(few):
        with np.errstate(all="ignore"):
            try:
                known.append((index, scipy_epsilon(m, d)))
            except ValueError:
                # no sign change: SciPy's densities ran out of range, or epsilon is 0
                continue
    theirs = (time.perf_counter() - start) / len(few)
    worst = max(abs(float(epsilon[i]) - e) for i, e in known)

    print(
        f"{jax.devices()[0]}, float64, {options.size} curves, delta = {DELTA:g}, "
        f"medians of {options.repeats}"
    )
    print(
        f"batch      {batch * 1e6:10.3f} us per curve; first call, "
        f"compilation included: {first:.1f} s in all"
    )
    print(f"one by one {loop * 1e6:10.3f} us per curve: {loop / batch:.0f} times as long")
    print(f"SciPy      {theirs * 1e6:10.3f} us per curve: {theirs / batch:.0f} times as long")
    print(
        f"SciPy found {len(known)} of {len(few)}, largest difference {worst:.1e}; NaNs of ours: "
        f"{int(np.isnan(epsilon).sum())}"
    )
    print(
        "peak memory of the process: "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )


if __name__ == "__main__":
    main()
