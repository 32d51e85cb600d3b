"""How long `jaxpriv certify` takes: whole processes, with an empty cache of compiled programs and with a filled one.

    python bench/cli_time.py [--repeats 3]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINES = {
    "gaussian, dim 30": ["--sensitivity", "1", "--std", "2", "--dim", "30"],
    "laplace": ["--noise", "laplace", "--sensitivity", "1", "--scale", "2"],
    "dp-sgd": ["--dataset-size", "50000", "--batch-size", "500", "--epochs", "10", "--noise-multiplier", "1"],
}


def seconds(arguments, cache):
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "jaxpriv", "certify", *arguments], env=environment, cwd=ROOT, check=True,
                   capture_output=True)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(f"seconds, medians of {repeats}; load average {os.getloadavg()[0]:.1f}")
    for name, arguments in LINES.items():
        cold, warm = [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(seconds(arguments, cache))
                warm.append(seconds(arguments, cache))
        print(f"{name:<20} cold {statistics.median(cold):6.2f}   warm {statistics.median(warm):6.2f}", flush=True)


if __name__ == "__main__":
    main()
