"""How long calls take, the same way in every script of this folder."""

import statistics
import time


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
