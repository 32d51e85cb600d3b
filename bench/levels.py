"""Certified type II errors at one level: lines of frequencies that are kept against new ones.

    python bench/levels.py [--repeats 5]

JSON lines, one for each curve: seconds of either, medians of rounds in which both take turns at a
level that nobody asked for before; `ratio` is the median of the rounds' ratios.
"""

import argparse
import statistics
import time

from timing import line


def curves():
    from jaxpriv import relaxed, training, worst_case

    return {
        "DP-SGD": worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric(),
        "users": worst_case.user_level(1.0, 0.01, 100, 3).symmetric(),
        "relaxed": relaxed.subsampled_gaussian(1.0, 0.01, 1000, 10).symmetric(),
        "little noise": training.Plan(10, 2, (0.2,) * 5, 1).curve(),
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args(arguments).repeats
    for name, curve in curves().items():
        compare(name, curve, repeats)


def compare(name, curve, repeats):
    from jaxpriv.composition import enclosure, stored

    spectra, most = enclosure._spectra, enclosure._spectra.most
    spent = {"kept": [], "new": []}
    for i in range(repeats + 1):
        level, found = 0.1 * (1 + 1e-3 * i), {}
        for side in list(spent)[:: 1 if i % 2 else -1]:
            stored.forget()
            spectra.most = most if side == "kept" else 0
            start = time.perf_counter()
            found[side] = curve.beta_bounds(level)
            spent[side].append(time.perf_counter() - start)
        assert found["kept"] == found["new"]
    spectra.most = most
    ratio = statistics.median(new / kept for kept, new in zip(*(spent[s][1:] for s in spent)))
    line(curve=name, ratio=f"{ratio:.3g}",
         **{side: f"{statistics.median(times[1:]):.3g}" for side, times in spent.items()})


if __name__ == "__main__":
    main()
