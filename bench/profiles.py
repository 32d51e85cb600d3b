"""A privacy profile at many epsilons: asked for at once, when neighbours share lattices, against
one epsilon after the other.

    python bench/profiles.py [--repeats 3]

JSON lines: medians of seconds, both sides in one run, neither with lattices that were kept; `wider`
is the widest bracket asked for at once over that of one alone, in delta.
"""

import argparse

import numpy as np
from timing import line, median_and_result

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import laid

EPSILONS = np.linspace(0.0, 2.5, 26)
CURVES = {
    "DP-SGD, Laplace, black box": lambda: jaxpriv.compose(
        worst_case.subsampled_gaussian(1.0, 0.01, 1000),
        worst_case.laplace(0.2),
        worst_case.approximate_dp(0.1, 1e-7),
    ),
    "allocation, 5 epochs": lambda: worst_case.random_allocation(1.0, 1000, epochs=5),
}


def forgetting(call, epsilons):
    def asked():
        for kept in (laid._laws, laid._labels, laid._tables):
            kept.clear()
        return call(epsilons)

    return asked


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    for name, make in CURVES.items():
        ask = make().symmetric().delta_bounds
        together, (low, high) = median_and_result(forgetting(ask, EPSILONS), repeats)
        alone, each = median_and_result(forgetting(lambda all_of, ask=ask: [
            ask(float(epsilon)) for epsilon in all_of], EPSILONS), repeats)
        least, most = np.array(each).T
        line(
            curve=name,
            together=round(together, 2),
            one_by_one=round(alone, 2),
            ratio=round(alone / together, 1),
            wider=round(float(np.max((high - low) / np.maximum(most - least, 1e-300))), 2),
        )


if __name__ == "__main__":
    main()
