"""A composition at many points: asked for at once, when neighbours share lines or lattices, against
one point after the other; areas under ROC curves from slopes and from levels; a thousand levels;
few steps followed by panels, against transforms and lattices (once); and groups of polygons,
counted against searched.

    python bench/profiles.py [--repeats 3]

JSON lines: medians of seconds, both sides in one run, neither with lattices that were kept. `wider`
is the widest bracket asked for at once over that of one alone; of estimates `apart` is how far both
differ in logarithms.
"""

import argparse
from functools import partial

import numpy as np
from timing import line, median_and_result

import jaxpriv
from jaxpriv import Curve, relaxed, worst_case
from jaxpriv import _stored as stored
from jaxpriv.composition import centred, composed, estimates
from jaxpriv.tradeoff import evaluate
from jaxpriv.tradeoff.group import Group
from jaxpriv.tradeoff.hull import symmetrised

EPSILONS = np.linspace(0.0, 2.5, 26)
CURVES = {
    "DP-SGD": lambda: worst_case.subsampled_gaussian(1.0, 0.01, 1000),
    "10 heavy steps": lambda: worst_case.subsampled_gaussian(1.0, 0.1, 10),
    "10 steps, users of 2 records": lambda: worst_case.user_level(0.9, 0.08, 10, 2),
    "DP-SGD, Laplace, black box": lambda: jaxpriv.compose(
        worst_case.subsampled_gaussian(1.0, 0.01, 1000),
        worst_case.laplace(0.2),
        worst_case.approximate_dp(0.1, 1e-7),
    ),
    "allocation, 5 epochs": lambda: worst_case.random_allocation(1.0, 1000, epochs=5),
}


QUESTIONS = {
    "delta": EPSILONS,
    "delta_bounds": EPSILONS,
    "__call__": np.linspace(0.01, 0.99, 26),
    "beta_bounds": np.linspace(0.01, 0.99, 26),
}
AREAS = {
    "DP-SGD": CURVES["DP-SGD"],
    "10 heavy steps": CURVES["10 heavy steps"],
    "10 steps, users of 2 records": CURVES["10 steps, users of 2 records"],
    "2 Laplace releases": lambda: worst_case.laplace(1.0).compose(2),
    "3 counts, discrete Laplace noise": lambda: worst_case.discrete_laplace(2.0).compose(3),
}
LEVELS = {
    "2 Laplace releases": AREAS["2 Laplace releases"],
    "50 counts, sampled discrete Gaussian noise": lambda: worst_case.discrete_gaussian(
        1.3).subsample(0.3).compose(50),
    "DP-SGD, Laplace": lambda: jaxpriv.compose(
        worst_case.subsampled_gaussian(1.0, 0.01, 1000), worst_case.laplace(0.2)),
}
FEW = {
    "2 steps": (worst_case.subsampled_gaussian(0.7, 0.1, 2), "__call__"),
    "2 relaxed steps": (relaxed.subsampled_gaussian(0.7, 0.1, 2, 1), "__call__"),
    "10 relaxed steps": (relaxed.subsampled_gaussian(0.7, 0.01, 10, 1), "__call__"),
    "1000 rare steps": (worst_case.subsampled_gaussian(1.0, 1e-4, 1000), "delta"),
}
GROUPS = {
    "5 records of (1, 1e-6)-DP": (worst_case.approximate_dp(1.0, 1e-6), 5, 0.1),
    "3 records of RAPPOR, f = 1e-4": (worst_case.rappor(1e-4), 3, 1e-5),
    "10 records of 10-ary response": (worst_case.k_ary_randomized_response(1.0, 10), 10, 1e-5),
}


def by_levels(curve):
    """The area under the ROC curve from eight hundred levels, as in programs."""
    true, evaluate.area = evaluate.area, lambda *_: None
    try:
        return curve.auc()
    finally:
        evaluate.area = true


def each_by_itself(profile, alpha):
    """Starts of searches as they were: the saddle-point approximation of every level."""
    return centred.approximate(profile.entry, profile.tables, np.log(alpha), np.log1p(-alpha))


def started_alone(curve, levels):
    """Type II errors at levels, each of which is searched for from its own start."""
    true, estimates._started = estimates._started, each_by_itself
    try:
        return curve(levels)
    finally:
        estimates._started = true


def by_transforms(ask, points):
    """Estimates as they were: by transforms, and what is lost to these from laws and lattices."""
    true = composed.followed, estimates.doubled_of
    composed.followed, estimates.doubled_of = lambda *_: None, lambda _: None
    try:
        return ask(points)
    finally:
        composed.followed, estimates.doubled_of = true


def forgetting(call, points):
    def asked():
        stored.forget()
        return call(points)

    return asked


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    for name, make in CURVES.items():
        for question, points in QUESTIONS.items():
            ask = getattr(make().symmetric(), question)

            def one_by_one(all_of, ask=ask):
                return [forgetting(ask, float(point))() for point in all_of]

            together, found = median_and_result(forgetting(ask, points), repeats)
            alone, each = median_and_result(forgetting(one_by_one, points), repeats)
            found, each = np.array(found), np.array(each).T
            if found.ndim == 2:
                widths = (end[1] - end[0] for end in (found, each))
                wider, one = widths
                said = {"wider": round(float(np.max(wider) / np.max(one)), 2)}
            else:
                said = {"apart": float(f"{np.max(np.abs(np.log(found / each))):.1e}")}
            line(curve=name, question=question, together=round(together, 2),
                 one_by_one=round(alone, 2), ratio=round(alone / together, 1), **said)
    for name, make in AREAS.items():
        curve = make().symmetric()
        (slopes, area), (levels, same) = (
            median_and_result(forgetting(lambda _, ask=ask: ask(), None), repeats)
            for ask in (curve.auc, partial(by_levels, curve))
        )
        line(curve=name, question="auc", by_slopes=round(slopes, 3), by_levels=round(levels, 2),
             ratio=round(levels / slopes, 1), apart=float(f"{abs(area - same):.1e}"))
    for name, make in LEVELS.items():
        curve, levels = make(), np.linspace(0.0, 1.0, 1001)
        (lines, found), (alone, same) = (
            median_and_result(forgetting(ask, levels), repeats)
            for ask in (curve, partial(started_alone, curve))
        )
        line(curve=name, question="1001 levels", starts_by_lines=round(lines, 2),
             own_starts=round(alone, 2), ratio=round(alone / lines, 1),
             apart=float(f"{np.max(np.abs(found - same)):.1e}"))
    points = np.linspace(0.0, 1.0, 101)
    for name, (curve, question) in FEW.items():
        ask = getattr(curve.symmetric(), question)
        panels, found = median_and_result(forgetting(ask, points), repeats)
        lines, same = median_and_result(forgetting(partial(by_transforms, ask), points), 1)
        line(curve=name, question=f"{question} at 101 points", panels=round(panels, 3),
             transforms=round(lines, 1), ratio=round(lines / panels),
             apart=float(f"{np.max(np.abs(found - same)):.1e}"))
    for name, (curve, size, delta) in GROUPS.items():
        slow = Curve(Group(symmetrised(curve.experiment), size))
        (counted, ends), (searched, others) = (
            median_and_result(partial(group.epsilon_bounds, delta), repeats)
            for group in (curve.group(size), slow)
        )
        line(group=name, counted=round(counted, 4), searched=round(searched, 2),
             ratio=round(searched / counted, 1), width=float(f"{ends[1] - ends[0]:.1e}"),
             width_searched=float(f"{others[1] - others[0]:.1e}"))


if __name__ == "__main__":
    main()
