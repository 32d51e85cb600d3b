"""What a question costs on a machine whose cores are busy with others, over what it costs alone:
DP-SGD, and a few steps against the relaxed adversary.

    python bench/busy.py
"""

import argparse
import multiprocessing
import os
import time

from timing import line, median_seconds

import jaxpriv


def dp_sgd():
    jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric().beta_bounds(1e-3)


def few_relaxed_steps():
    jaxpriv.relaxed.subsampled_gaussian(1.0, 0.3, 4, 1).symmetric().beta_bounds(1e-3)


def spin(stop):
    while not stop.is_set():
        sum(range(10_000))


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    context = multiprocessing.get_context("spawn")
    for ask in (dp_sgd, few_relaxed_steps):
        alone = median_seconds(ask, 5)
        stop = context.Event()
        others = [context.Process(target=spin, args=(stop,)) for _ in range(os.cpu_count() or 1)]
        for other in others:
            other.start()
        time.sleep(3)
        busy = median_seconds(ask, 5)
        stop.set()
        for other in others:
            other.join()
        line(
            question=ask.__name__,
            alone_seconds=round(alone, 4),
            busy_over_alone=round(busy / alone, 2),
        )


if __name__ == "__main__":
    main()
