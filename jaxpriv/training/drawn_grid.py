"""What noise on a grid adds to delta: `jaxpriv.random.rounded_normal` is all but exact.

Let P and Q be the ideal laws of all releases on two neighbouring data sets, P' and Q' those that
are drawn, of n entries of noise in all; and G the event that the releases, taken to be from the
second data set, have no noise of 12 = `random_grid.EDGE` standard deviations or more. With
r = `random_grid.RELATIVE`, entry by entry, hence for their product, and for mixtures over samples
of the other records,

    P'(S) <= e^a P(S),   Q'(S) >= e^-a Q(S, G),   a = -n log(1 - r).

So for every event S, since P(S) <= e^eps Q(S) + delta,

    P'(S) - e^eps Q'(S) <= e^a P(S) - e^(eps-a) (Q(S) - Q(not G))
                        <= delta + 2 sinh a + e^eps Q(not G),

or, with what lies outside G left to P alone, delta + 2 sinh a + e^a P(not G). Q(not G) is at most
n times `random_grid.BEYOND`. Under P the noise is displaced by at most s = 1/noise multiplier, if
it is taken to be from Q: P(not G) <= sum e^(-(12-s)^2/2) over entries, for s < 12. Together

    delta' = delta + 2 sinh a + min(e^eps n BEYOND, e^a sum e^(-(12-s)^2/2)).

No term is about rounding: releases are whole numbers, and what is drawn are all their digits.
"""

import math

import numpy as np

from jaxpriv import random_grid


def grid_delta(epsilon, entries, kinds):
    """What is added to delta at `epsilon`, in [0, 1].

    Args:
        epsilon: in [0, inf]. entries: of a release. kinds: [(noise multiplier, number of steps)].

    Returns: a float, as `drawn.noise_delta` does for `jaxpriv.random.normal`.

        >>> print(f"{grid_delta(3.0, 10**6, [(1.0, 10_000)]):.2g}")
        2e-18
    """
    noises, counts = np.asarray(kinds, float).T
    shift = 1 / noises
    drawn = entries * float(np.sum(counts))
    a = -drawn * math.log1p(-random_grid.RELATIVE)
    reach = np.maximum(random_grid.EDGE - shift, 0.0)
    displaced = math.exp(a) * entries * float(np.sum(counts * np.exp(-reach * reach / 2)))
    beyond = math.exp(min(epsilon, 700.0)) * drawn * random_grid.BEYOND
    return min(2 * math.sinh(a) + min(beyond, displaced), 1.0)
