"""Certified type II errors: at one level by lines of frequencies that are kept against new ones,
and at thirty of a pipeline by a polynomial between sums over frequencies against a sum for each; at
one where these are too high for that by products of matrices against a sum for each.
The curve of a mixture at ten levels, whose slopes are found by secants, against bisections. delta
of few steps, a thousand frequencies at a time, against 256. A group's certified epsilon, its links
from an outline of the curve, against a search for each. Rare steps beside others at thirteen
levels: how far their lines are followed, against where these were given up before, how wide the
widest bracket is, and at four lines that all questions share against lines for each. Random
allocation: lines at fixed places against a line for each question; over several epochs one lattice
for three losses next to each other against three; mu with a slack by wide brackets first against
narrow ones from the start. Shuffled batches of several epochs at thirty losses: lattices that serve
those next to them against one for each. Reports and discrete noise at thirteen levels: outcomes
that are counted against lattices, and how wide the widest brackets of both are.

    python bench/levels.py [--repeats 5]

JSON lines, one for each curve: seconds of either, medians of rounds in which both take turns at
levels that nobody asked for before; `ratio` is the median of the rounds' ratios.
"""

import argparse
import statistics
import time
from contextlib import nullcontext
from unittest import mock

import numpy as np
from timing import line


def curves():
    from jaxpriv import relaxed, training, worst_case

    return {
        "DP-SGD": worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric(),
        "users": worst_case.user_level(1.0, 0.01, 100, 3).symmetric(),
        "relaxed": relaxed.subsampled_gaussian(1.0, 0.01, 1000, 10).symmetric(),
        "little noise": training.Plan(10, 2, (0.2,) * 5, 1).curve(),
    }


def pipeline():
    from jaxpriv import compose, worst_case

    return compose(worst_case.subsampled_gaussian(1.0, 0.01, 1000), worst_case.laplace(0.2))


def high_frequencies():
    from jaxpriv import compose, worst_case

    return compose(worst_case.laplace(0.544), worst_case.subsampled_gaussian(0.529, 0.0058, 24),
                   worst_case.subsampled_gaussian(2.27, 5.8e-5, 252))


def mixture():
    from jaxpriv import mixture, worst_case

    return mixture([worst_case.subsampled_gaussian(1.0, 0.02, 100), worst_case.gaussian(0.5)],
                   [0.3, 0.7])


def few_steps():
    from jaxpriv import relaxed, worst_case

    return {"two steps": worst_case.subsampled_gaussian(1.0, 1e-3, 2),
            "ten steps": worst_case.subsampled_gaussian(1.0, 1e-4, 10),
            "relaxed, dimension 1": relaxed.subsampled_gaussian(1.0, 0.3, 3, 1)}


def groups():
    from jaxpriv import worst_case

    return {"group of 3": worst_case.subsampled_gaussian(0.6, 0.05, 40).group(3),
            "group of 5": worst_case.subsampled_gaussian(2.0, 0.01, 1000).group(5)}


def rare_beside_others():
    from jaxpriv import compose, worst_case

    return {
        "beside two": compose(worst_case.subsampled_gaussian(0.8, 1e-3, 3000),
                              worst_case.laplace(0.5), worst_case.laplace(0.2)),
        "beside one": compose(worst_case.subsampled_gaussian(0.7, 1e-4, 2000),
                              worst_case.laplace(0.3)),
    }


def counted():
    import jaxpriv
    from jaxpriv import worst_case

    return {
        "counts with discrete Gaussian noise": worst_case.discrete_gaussian(0.9).compose(5),
        "reports": jaxpriv.compose(worst_case.k_ary_randomized_response(1.0, 10).compose(10),
                                   worst_case.rappor(0.5, 2).subsample(0.1)),
        "reports and counts": jaxpriv.compose(
            worst_case.unary_encoding(0.5), worst_case.discrete_laplace(2.0, 2).subsample(0.01),
            worst_case.approximate_dp(0.1, 1e-6).compose(20)).symmetric(),
        "Laplace noise beside reports": jaxpriv.compose(
            worst_case.laplace(0.3), worst_case.randomized_response(0.5),
            worst_case.approximate_dp(0.2, 1e-5)),
    }


def dealt():
    from jaxpriv import worst_case

    return {"allocation": worst_case.random_allocation(1.0, 1000).symmetric(),
            "allocation, little noise": worst_case.random_allocation(0.5, 100)}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args(arguments).repeats
    from jaxpriv import _stored as stored
    from jaxpriv import worst_case
    from jaxpriv.composition import (
        enclosure,
        enumerated,
        frequencies,
        interpolated,
        kept,
        ladder,
        laid,
    )
    from jaxpriv.composition.between import Between
    from jaxpriv.tradeoff import averaged, lognormal_mean, slack, solve
    from jaxpriv.tradeoff.experiment import Experiment
    from jaxpriv.tradeoff.group import Group

    def certified(curve, levels):
        return curve.beta_bounds(levels)

    def by_halves(function, low, high, iterations):
        return solve.newton_in_bracket(
            lambda x: (function(x), np.zeros_like(x)), low, high, iterations)

    for name, curve in curves().items():
        compare(name, curve, certified, repeats, 0.1, (enclosure._spectra, "most", 0),
                ("kept", "new"), rtol=0.0)
    levels = np.linspace(0.01, 0.9, 30)
    compare("pipeline", pipeline(), certified, repeats, levels,
            (interpolated, "_WORTH", np.inf), ("between", "each"), rtol=1e-9)
    compare("high frequencies", high_frequencies(), certified, 1, 0.1,
            (kept, "_MANY", np.inf), ("products", "each"), rtol=1e-3)
    compare("mixture", mixture(), lambda curve, levels: curve(levels), repeats, levels[::3],
            (averaged, "secant_in_bracket", by_halves), ("secants", "halves"), rtol=1e-9)
    for name, curve in few_steps().items():
        compare(name, curve, lambda curve, levels: curve.delta(1e-3 * levels), repeats, 1.0,
                (frequencies, "LONG", np.inf), ("wide", "narrow"), rtol=1e-9)
    for name, curve in groups().items():
        compare(name, curve, lambda curve, levels: curve.epsilon_bounds(1e-5 * levels), repeats,
                1.0, (Group, "_outlined", lambda *_: None), ("outline", "searches"), rtol=1e-7)
    levels = np.linspace(0.05, 0.8, 13)
    for name, curve in rare_beside_others().items():
        compare(name, curve, certified, repeats, levels, (enclosure, "_PATIENCE", 64),
                ("patient", "impatient"), rtol=0.1)
        low, high = curve.beta_bounds(levels)
        line(curve=name, widest=f"{np.max(high - low):.2g}")
        compare(name, curve, certified, 1, levels[::4], (ladder._ladders, "most", 0),
                ("shared", "own"), rtol=1e-2)
    for name, curve in counted().items():
        without = enumerated, "_MOST", 0
        compare(name, curve, certified, repeats, levels, without, ("counted", "lattices"), rtol=0.1)
        with_lattices = mock.patch.object(*without)
        for side, means in {"counted": nullcontext(), "lattices": with_lattices}.items():
            with means:
                stored.forget()
                low, high = curve.beta_bounds(levels)
            line(curve=name, by=side, widest=f"{np.max(high - low):.2g}")
    for name, curve in dealt().items():
        compare(name, curve, certified, repeats, levels,
                (lognormal_mean, "middle", lambda own, x: float(x)), ("places", "each"), rtol=1e-7)
    epochs = worst_case.random_allocation(1.0, 100, epochs=10).symmetric()
    compare("allocation over epochs", epochs, certified, repeats, 1e-3,
            (Between, "brackets_near", Experiment.brackets_near), ("one", "three"), rtol=1e-5)
    compare("mu of allocation over epochs", epochs,
            lambda curve, share: curve.gdp_mu_bounds(slack=1e-5 * share), repeats, 1.0,
            (slack, "roughly", lambda *_: None), ("wide first", "narrow"), rtol=1e-6)
    compare("shuffled", worst_case.shuffled_gaussian(1.0, 100, 10),
            lambda curve, share: curve.delta_bounds(np.linspace(0.1, 8.0, 30) * share), repeats,
            1.0, (laid, "FEW", 10**9), ("shared", "each"), rtol=1e-2)


def compare(name, curve, ask, repeats, levels, without, sides, rtol):
    """ask: (curve, levels) -> answers; without: (where, attribute, its value on the second side);
    rtol: of both sides' answers.
    """
    from jaxpriv import _stored as stored

    where, attribute, other = without
    own = getattr(where, attribute)
    spent = {side: [] for side in sides}
    for i in range(repeats + 1):
        found = {}
        for side in sides[:: 1 if i % 2 else -1]:
            stored.forget()
            setattr(where, attribute, own if side == sides[0] else other)
            start = time.perf_counter()
            found[side] = ask(curve, levels * (1 + 1e-3 * i))
            spent[side].append(time.perf_counter() - start)
        assert np.allclose(*found.values(), rtol=rtol, atol=0.0)
    setattr(where, attribute, own)
    stored.forget()
    ours, theirs = (spent[side][1:] for side in sides)
    line(curve=name, ratio=f"{statistics.median(b / a for a, b in zip(ours, theirs)):.3g}",
         **{side: f"{statistics.median(spent[side][1:]):.3g}" for side in sides})


if __name__ == "__main__":
    main()
