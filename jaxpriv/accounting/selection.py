"""What it costs to train a random number of times and to tell the best result only.

Let A and B be the laws of one try on two neighbouring data sets, K the number of tries, of
generating function phi, and let results be ordered by their score, ties by another random number
(for independent tries the same as by who came first). With s(y) = P_A(better than y) the best of K
tries has the density a(y) phi'(1 - s(y)); of B, with w(y), b(y) phi'(1 - w(y)). So

    delta'(eps) = int (a phi'(1-s) - e^eps b phi'(1-w))_+ dy,       eps >= 0

(K = 0 has the same probability in both). One try is (c, delta(c))-private for every c >= 0, and
what is better than y is an event: w <= e^c s + delta(c). Where s <= t the logarithm of
phi'(1-s)/phi'(1-w) is therefore at most r(c, t), its largest value along w = e^c s + delta(c) <= 1,
which stands at an end, s = 0 or the largest s. As phi' <= phi'(1) = E[K], and as all results with
s > t together have the probability phi(1-t) at most,

    delta'(eps) <= E[K] delta(eps - r(c, t)) + phi(1-t)      for every c >= 0, 0 < t <= 1,

without the last term for t = 1. That is eps' = r(c, t) + eps((delta - phi(1-t))/E[K]). For pure
privacy, c = eps and delta(c) = 0, r <= (1+eta) eps: eps' = (2 + eta) eps, as Liu and Talwar 2019.
"""

import math

import numpy as np

from jaxpriv._checks import Domain, check_number, is_traced
from jaxpriv.accounting.tries import NegativeBinomialTries, PoissonTries
from jaxpriv.curve import Curve

_DELTA = Domain(0.0, 1.0, "[0, 1)", 0.5, open_high=True)
_TAIL = 0.1  # the share of delta that results far from the best may have
_POINTS, _ROUNDS = 17, 6  # of the search for c: to 2^-18 of its range
_LARGEST = 700.0  # whose exponential is a number
_ROUNDED = 1e-12
# twice what the logarithms of probabilities of ten million tries are off by: `tries.drawn`
_DRAWN = 1e-8


def selection_epsilon(
    curve: Curve, tries: NegativeBinomialTries | PoissonTries, delta: float
) -> float:
    """An upper bound of epsilon for a random number of tries, of which only the best is told.

    Every try runs the same mechanism with fresh randomness: for hyper-parameters, draw them at
    random from a list that does not depend on the data, train, and score the result. Which try is
    best is decided by its result alone; a score from private records is a part of the result, and
    has to be in `curve`. Nothing else may be seen: not K, nor how long it took, nor other results.

    Args:
        curve: a scalar `Curve` of one try; where candidates differ, `jaxpriv.worst_of` theirs.
        tries: `NegativeBinomialTries` or `PoissonTries`, drawn by its `draw`.
        delta: in [0, 1).

    Returns: a float in [0, inf].
    Guarantee: the best of the tries is (epsilon, delta)-differentially private, for both
        neighbours; the rounding of the drawn number of tries is counted.
    Raises: ValueError for values outside their range, other laws, and traced or batched curves.
    Source: derived in this module, from privacy profiles as Koskela, Redberg, Wang 2024; the laws
        and their bounds by Renyi divergences, which are larger: Papernot and Steinke 2022,
        Theorems 2 and 6.

        >>> from jaxpriv import accounting, worst_case
        >>> one = worst_case.subsampled_gaussian(2.0, 0.01, 500)
        >>> tries = accounting.NegativeBinomialTries(10.0)
        >>> print(f"{one.symmetric().epsilon(1e-5):.3f} "
        ...       f"{accounting.selection_epsilon(one, tries, 1e-5):.3f}")
        0.432 0.722
    """
    check_number("delta", delta, _DELTA)
    if not isinstance(tries, (NegativeBinomialTries, PoissonTries)):
        raise ValueError(f"tries = {tries!r}; accepted: NegativeBinomialTries, PoissonTries")
    if is_traced((curve, delta)) or np.shape(delta) or np.shape(curve.delta(0.0)):
        raise ValueError("a curve of several mechanisms, or a traced one; accepted: one curve")
    curve = curve.symmetric()
    return epsilon_of_best(lambda epsilon: curve.delta_bounds(epsilon)[1],
                           lambda delta: float(curve.epsilon_bounds(delta)[1]), tries, delta,
                           lossless=float(curve.epsilon_bounds(0.0)[1]))


def epsilon_of_best(delta_of, epsilon_of, tries, delta, lossless=math.inf):
    """`selection_epsilon`, of upper bounds of delta and epsilon for both neighbours, as functions.

    Args:
        delta_of: `Float[numpy.ndarray, "k"]` of epsilons >= 0 -> as many deltas.
        epsilon_of: a delta in [0, 1] -> epsilon. tries, delta: as there.
        lossless: an epsilon at which delta is 0.
    """
    mean = tries.mean * (1 + _ROUNDED)
    ends = [(1.0, 0.0)]
    tail = float(_TAIL * delta)
    if tail > 0:
        ends.append((tries.reach(tail), tail * (1 + _ROUNDED)))
    found = math.inf
    for t, tail in ends:
        one = epsilon_of(min((delta - tail) / mean * (1 - _ROUNDED), 1.0))
        if one < math.inf:
            found = min(found, one + _least_ratio(delta_of, lossless, tries, t, one))
    return found + _DRAWN


def _least_ratio(delta_of, lossless, tries, t, most):
    """r(c, t), the least over some c from 0 to beyond `most`; every one of them is valid."""
    low, high = 0.0, min(2 * most + 1, _LARGEST)
    found = math.inf
    for _ in range(_ROUNDS):
        c = np.linspace(low, high, _POINTS)
        if low <= lossless <= high:
            c = np.sort(np.append(c, lossless))
        ratio = _ratio(delta_of, tries, t, c)
        best = int(np.argmin(ratio))
        found = min(found, float(ratio[best]))
        low, high = c[max(best - 1, 0)], c[min(best + 1, len(c) - 1)]
    return found


def _ratio(delta_of, tries, t, c):
    """An upper bound of r(c, t)."""
    delta = np.minimum(np.asarray(delta_of(c)) * (1 + _ROUNDED), 1.0)
    slope = np.exp(c) * (1 + _ROUNDED)
    last = np.minimum(t * (1 + _ROUNDED), (1 - delta) / slope)
    ends = tries.log_ratio(0.0, delta), tries.log_ratio(last, np.minimum(slope * last + delta, 1.0))
    return np.maximum(*ends) * (1 + _ROUNDED) + _ROUNDED
