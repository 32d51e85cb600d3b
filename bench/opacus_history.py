"""Epsilon of an Opacus history: `jaxpriv.bridges.opacus` against Opacus' own prv accountant.

    pip install -e '.[test,opacus]'
    python bench/opacus_history.py [--repeats 5]

JSON lines: medians of seconds, both sides in one run, each from a new accountant with the same
history; their interval by its default error of 0.01 in epsilon. "all" has the median ratio over all
histories, and whether all of our answers lie inside theirs; "error" what a smaller error of theirs
costs for the first history (our bracket is 1e-8 wide or less there). The first call of either side
is not counted, but is in the line "cold".
"""

import argparse
import statistics
from importlib import import_module

from timing import line, median_and_result

DELTA, ERROR = 1e-5, 0.01
HISTORIES = {
    "MNIST, 15 epochs of batches of 256": [(1.0, 256 / 60_000, 15 * 234)],
    "CIFAR-10, 90 epochs of batches of 1024": [(1.5, 1024 / 50_000, 90 * 49)],
    "large batches": [(5.0, 0.1, 1000)],
    "little noise": [(0.6, 0.002, 2000)],
    "two phases": [(1.0, 0.01, 1000), (1.3, 0.02, 500)],
    "noise that falls over 10 epochs": [(1.5 * 0.95**i, 0.01, 100) for i in range(10)],
    "noise that falls over 50 epochs": [(2.0 * 0.98**i, 0.01, 100) for i in range(50)],
}


def epsilon(kind, history, error=ERROR):
    from opacus.accountants import create_accountant

    accountant = create_accountant(kind)
    accountant.history = history
    return accountant.get_epsilon(DELTA, eps_error=error)


def interval(history):
    """The ends between which their accountant is sure of epsilon."""
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = history
    found = accountant._get_dprv(ERROR, DELTA / 1000).compute_epsilon(DELTA, DELTA / 1000, ERROR)
    return found[0], found[2]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats

    import_module("jaxpriv.bridges.opacus")  # registers the accountant

    first = next(iter(HISTORIES.values()))
    cold, _ = median_and_result(lambda: epsilon("jaxpriv", first), 1)
    their_cold, _ = median_and_result(lambda: epsilon("prv", first), 1)
    line(what="cold", ours=cold, theirs=their_cold, ratio=their_cold / cold)
    ratios, inside = [], []
    for name, history in HISTORIES.items():
        epsilon("jaxpriv", history)
        ours, found = median_and_result(lambda h=history: epsilon("jaxpriv", h), 4 * repeats)
        theirs, upper = median_and_result(lambda h=history: epsilon("prv", h), repeats)
        low, high = interval(history)
        ratios.append(theirs / ours)
        inside.append(bool(low <= found <= high))
        line(what=name, ours=ours, theirs=theirs, ratio=theirs / ours, epsilon=found,
             their_epsilon=float(upper), their_interval=[float(low), float(high)])  # fmt: skip
    line(what="all", median_ratio=statistics.median(ratios), inside=all(inside))
    ours, found = median_and_result(lambda: epsilon("jaxpriv", first), 4 * repeats)
    for error in (ERROR, 1e-3, 1e-4):
        theirs, upper = median_and_result(lambda e=error: epsilon("prv", first, e), repeats)
        line(what="error", error=error, ours=ours, theirs=theirs, ratio=theirs / ours,
             theirs_above_ours=float(upper) - found)  # fmt: skip


if __name__ == "__main__":
    main()
