"""Noncentral chi-square in one table: jaxpriv (float64, jitted) against SciPy,
same points, same run.

    python bench/ncx2_vs_scipy.py [--size 1000000] [--repeats 5]

Points: df in {1, 10, 1e3, 1e6}, nc log-uniform in 1e-3..1e6, x within 8 standard deviations of the
mean and positive. SciPy is timed on the first points only where it is slow; the printed sizes say
so, and ns per element compare them. Peak memory: the largest resident set of a fresh process that
evaluates 1e7 elements, less that of one with 1e3.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
from timing import median_seconds

DEGREES = (1.0, 10.0, 1e3, 1e6)
SECONDS = 3.0  # what one SciPy call may take
HEAD = (
    f"{'function':<9}{'df':>9}  "
    f"{'opponent':>18}{'points':>10}{'share':>9}{'jaxpriv':>10}{'theirs':>10}{'ratio':>8}"
)


def points(df, size, seed=0):
    """(x, df, nc) arrays; df None mixes the four."""
    rng = np.random.default_rng(seed)
    df = np.full(size, df) if df else rng.choice(DEGREES, size)
    nc = np.exp(rng.uniform(np.log(1e-3), np.log(1e6), size))
    x = df + nc + rng.uniform(-8, 8, size) * np.sqrt(2 * df + 4 * nc)
    return np.maximum(x, 1e-3 * (df + nc)), df, nc


def compare(size, repeats):
    """Print the table."""
    import jax
    import scipy.special
    import scipy.stats

    from jaxpriv.stats import ncx2

    jax.config.update("jax_enable_x64", True)
    theirs = scipy.stats.ncx2
    cases = (
        ("sf", "stats.ncx2.sf", theirs.sf),
        ("logsf", "stats.ncx2.logsf", theirs.logsf),
        ("logcdf", "stats.ncx2.logcdf", theirs.logcdf),
        ("logcdf", "special.chndtr", scipy.special.chndtr),
        ("logpdf", "stats.ncx2.logpdf", theirs.logpdf),
    )
    print(
        f"{jax.devices()[0]}, float64, size {size}, medians of {repeats}; ns per element; "
        "ratio = theirs / jaxpriv"
    )
    print(HEAD)
    for df in (*DEGREES, None):
        args = points(df, size)
        for name, opponent, call in cases:
            f = jax.jit(getattr(ncx2, name))
            on_device = jax.device_put(args)
            ours = (
                median_seconds(lambda f=f, a=on_device: jax.block_until_ready(f(*a)), repeats)
                / size
            )
            few = [a[: min(size, 1000)] for a in args]
            start = time.perf_counter()
            with np.errstate(all="ignore"):
                call(*few)
                per_element = (time.perf_counter() - start) / few[0].size
                part = int(min(size, max(few[0].size, SECONDS / per_element)))
                some = [a[:part] for a in args]
                other = median_seconds(lambda c=call, a=some: c(*a), repeats) / part
            label = "mixed" if df is None else f"{df:g}"
            row = f"{name:<9}{label:>9}  {opponent:>18}{part:>10}{part / size:>9.2g}"
            print(f"{row}{ours * 1e9:>10.1f}{other * 1e9:>10.1f}{other / ours:>8.1f}", flush=True)


def child(size, name):
    """Evaluate once and print the peak resident set of this process in MiB."""
    import jax

    from jaxpriv.stats import ncx2

    jax.config.update("jax_enable_x64", True)
    args = points(None, size)
    jax.block_until_ready(jax.jit(getattr(ncx2, name))(*args))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def memory(size):
    """Print the peak memory of each function in fresh processes."""
    print(
        f"\npeak memory, {size} elements (MiB; the four arrays of arguments and result are "
        f"{size * 32 / 2**20:.0f})"
    )
    for name in ("logsf", "sf", "logcdf", "logpdf"):
        peaks = []
        for count in (1000, size):
            command = [sys.executable, __file__, "--child", name, "--size", str(count)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks.append(float(done.stdout))
        print(
            f"{name:<9} whole process {peaks[1]:>8.0f}   above the small run "
            f"{peaks[1] - peaks[0]:>8.0f}",
            flush=True,
        )


def main():
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-size", type=int, default=10_000_000)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.size, options.child)
        return
    compare(options.size, options.repeats)
    memory(options.memory_size)


if __name__ == "__main__":
    main()
