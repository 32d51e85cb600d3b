"""Random trees of dp-accounting's events: our bracket of epsilon and what its accountant says,
by privacy-loss distributions, or by Rényi divergences where those do not know it.

    python bench/event_trees.py [--trees 100] [--seed 0]

Both of theirs are upper bounds: one below our lower bound is on the unsafe side, and is printed
with its tree. Of replaced records theirs are asked by privacy-loss distributions alone: their Rényi
accountant takes a noise multiplier to be that of a replaced record already.
"""

import argparse
import math
import random
import statistics
import time
import warnings

from dp_accounting import NeighboringRelation, dp_event, pld, privacy_accountant, rdp

from jaxpriv.bridges.dp_accounting import Unsupported, curve

DELTA = 1e-5
RELATIONS = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)


def log_uniform(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def simple(draw):
    return draw.choice([
        lambda: dp_event.GaussianDpEvent(log_uniform(draw, 0.7, 20)),
        lambda: dp_event.LaplaceDpEvent(log_uniform(draw, 0.7, 20)),
    ])()  # fmt: skip


def leaf(draw):
    return draw.choice([
        lambda: simple(draw),
        lambda: dp_event.PoissonSampledDpEvent(log_uniform(draw, 1e-3, 0.5), simple(draw)),
        lambda: dp_event.DiscreteLaplaceDpEvent(log_uniform(draw, 0.1, 2), draw.randint(1, 3)),
        lambda: dp_event.MixtureOfGaussiansDpEvent(
            log_uniform(draw, 1, 10), [0.0, 1.0, 2.0], [0.5, 0.3, 0.2]),
        lambda: dp_event.TruncatedSubsampledGaussianDpEvent(
            draw.randint(20, 200), 0.1, draw.randint(3, 30), log_uniform(draw, 1, 5)),
        lambda: dp_event.SampledWithoutReplacementDpEvent(
            1000, draw.randint(1, 200), dp_event.GaussianDpEvent(log_uniform(draw, 1, 5))),
        lambda: dp_event.RandomizedResponseDpEvent(draw.uniform(0.3, 0.9), draw.randint(2, 6)),
        lambda: dp_event.SingleEpochTreeAggregationDpEvent(
            log_uniform(draw, 2, 20), draw.randint(2, 32)),
        dp_event.NoOpDpEvent,
    ])()  # fmt: skip


def tree(draw, depth=2):
    kind = draw.random()
    if depth == 0 or kind < 0.35:
        return leaf(draw)
    if kind < 0.7:
        return dp_event.SelfComposedDpEvent(tree(draw, depth - 1), round(log_uniform(draw, 1, 30)))
    return dp_event.ComposedDpEvent([tree(draw, depth - 1) for _ in range(draw.randint(1, 3))])


def theirs(event, relation):
    """(epsilon, seconds, which of their accountants), or None."""
    accountants = {"PLD": pld.PLDAccountant, "RDP": rdp.RdpAccountant}
    if relation == NeighboringRelation.REPLACE_ONE:
        del accountants["RDP"]
    for name, accountant in accountants.items():
        begun = time.perf_counter()
        try:
            found = accountant(neighboring_relation=relation).compose(event).get_epsilon(DELTA)
        except privacy_accountant.UnsupportedEventError:
            continue
        return found, time.perf_counter() - begun, name
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    draw, ratios, above, unsafe, alone = random.Random(arguments.seed), [], [], [], 0
    compared = 0
    while compared < arguments.trees:
        event, relation = tree(draw), draw.choice(RELATIONS)
        begun = time.perf_counter()
        try:
            low, high = curve(event, relation).epsilon_bounds(DELTA)
        except Unsupported:
            continue
        spent, peer = time.perf_counter() - begun, theirs(event, relation)
        if peer is None:
            alone += 1
            continue
        compared += 1
        found, seconds, name = peer
        ratios.append(seconds / spent)
        if found < low * (1 - 1e-9):
            unsafe.append((name, found, low, high, relation.name, event))
        elif 0 < high < math.inf:
            above.append((found - high) / high)
    print(f"{compared} trees (and {alone} that dp-accounting does not know): "
          f"{compared - len(unsafe)} consistent, {len(unsafe)} where theirs is too small")
    print(f"theirs above our upper end by {statistics.median(above):.1e} (median, relative), "
          f"at most {max(above):.1e}; below it within the bracket in {sum(a < 0 for a in above)}")
    print(f"time: theirs over ours {statistics.median(ratios):.1f} (median)")
    for name, found, low, high, relation, event in unsafe:
        print(f"{name} {found:.9g} < [{low:.9g}, {high:.9g}] {relation}\n  {event}")


if __name__ == "__main__":
    main()
