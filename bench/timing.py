"""How long calls take, the same way in every script of this folder;
and where they find what they measure.
"""

import json
import statistics
import sys
import time
from pathlib import Path

# the package and the tests' oracles beside this folder, from wherever a script is started
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def median_and_result(call, repeats):
    """(median seconds, the last result), every call counted."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def median_seconds(call, repeats):
    """Median over repeats; a first call, with whatever it compiles, is not counted."""
    call()
    return median_and_result(call, repeats)[0]


def line(**values):
    """One result as JSON."""
    print(json.dumps(values), flush=True)
