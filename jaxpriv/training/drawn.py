"""What a computer's normal numbers add to delta: `jaxpriv.random.normal` is not the normal law.

Let P and Q be the ideal laws of all releases on two neighbouring data sets, and P', Q' those that
are drawn. But for a probability of `random.BEYOND` per entry and step, eta in all, drawn numbers
are normal ones up to rounding in their last digits. What that rounding tells is not counted here
(Mironov 2012); the rest is. For every event S

    P'(S) <= P(S) + eta <= e^eps Q(S) + delta + eta <= e^eps Q'(S) + delta + (1 + e^eps) eta.

For large eps another way is shorter. A pair of entries is exceptional where its noise is longer
than R = `random.EDGE`, which has probability e^(-R^2/2) = `BEYOND`. Let G be the event that none
is, whichever of the two data sets the releases are taken to be from: so Q = Q' within G, and

    P(S) <= P(S, G) + P(not G) <= e^eps Q'(S) + delta + P(not G).

Under P the noise, if it is taken to be from the other data set, is displaced by s = 1/noise
multiplier at most: P(not G) <= eta + sum e^(-(R-s)^2/2) over entries and steps, for s < R, which is
eta (1 + e^(R s - s^2/2)). Together

    delta' = delta + eta min(1 + e^eps, 2 + e^(R s - s^2/2)).

All this is for given samples of the other records, hence holds for mixtures over them, too. How a
record's own batches are drawn is a law of its own, which is off by `unlike`, in total variation
(`training.sampling`): as above, with that in the place of eta.
"""

import math

import numpy as np

from jaxpriv import random
from jaxpriv.training.profile import CertifiedProfile


def noise_delta(epsilon, entries, kinds, unlike=0.0):
    """What is added to delta at `epsilon`, in [0, 1].

    Args:
        epsilon: in [0, inf]. entries: of a release. kinds: [(noise multiplier, number of steps)].
        unlike: the total variation distance of the batches' law from the one that is accounted,
            with the record or without: (1 + e^eps) times it is added, as above.

        >>> print(f"{noise_delta(3.0, 10**6, [(1.0, 10_000)]):.2g}")
        1.7e-13
    """
    noises, counts = np.asarray(kinds, float).T
    shift = 1 / noises
    edge = np.where(shift < random.EDGE, random.EDGE * shift - shift * shift / 2, np.inf)
    factor = np.minimum(1 + math.exp(min(epsilon, 700.0)), 2 + np.exp(np.minimum(edge, 700.0)))
    of_batches = unlike * (1 + math.exp(min(epsilon, 700.0)))
    return min(float(entries * random.BEYOND * np.sum(counts * factor)) + of_batches, 1.0)


class DrawnProfile(CertifiedProfile):
    """A `CertifiedProfile` for drawn noise; added: epsilon -> what delta grows by."""

    def __init__(self, curve, added):
        super().__init__(curve)
        self._added = added

    def log_delta(self, epsilon):
        """(lower, upper) of log delta at epsilon >= 0."""
        low, high = super().log_delta(epsilon)
        added = self._added(epsilon)
        if added > 0:
            high = min(float(np.logaddexp(high, math.log(added))) + 1e-15, 0.0)
        return low, high

    def known(self):
        """[(epsilon, upper bound of delta)] of all evaluations so far, in order of epsilon."""
        return [(epsilon, self.delta(epsilon)[1]) for epsilon, _ in super().known()]
