"""Rates of an attack as estimates with intervals."""

from typing import NamedTuple

import numpy as np

from jaxpriv._checks import OPEN_UNIT, check_number
from jaxpriv._types import Numbers
from jaxpriv.auditing.binomial import beta_cdf, clopper_pearson
from jaxpriv.auditing.errors import check_confidence, separated

_AT_ONCE = 64  # ranks that are looked at together: hardly dearer than one


class Rate(NamedTuple):
    """An estimate between two limits; `resolved` is False where there are too few scores to bound
    the false positives.
    """

    estimate: float
    lower: float
    upper: float
    resolved: bool


def tpr_at_fpr(
    scores: Numbers, member: Numbers, fpr: float = 1e-3, confidence: float = 0.95
) -> Rate:
    """The true positive rate of the attack at a false positive rate, with an interval that knows
    the threshold is estimated.

    The lower limit is the power at the largest rank whose false positive rate is certainly at most
    `fpr`, the upper limit that at the smallest rank whose rate is certainly at least `fpr`.

    Args:
        scores, member: as for `audit`. fpr: in (0, 1). confidence: in (0, 1).

    Returns: a `Rate`. With fewer than about log(4/(1 - confidence))/fpr non-members no threshold is
        certain: the lower limit is then 0 and `resolved` False.
    Raises: ValueError as `audit`, and for values outside their range.

        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> member = random.uniform(size=40000) < 0.5
        >>> rate = tpr_at_fpr(random.normal(size=40000) + 2 * member, member, fpr=0.01)
        >>> bool(rate.lower < 0.372 < rate.upper), rate.resolved
        (True, True)
        >>> tpr_at_fpr([1.0, 2, 3, 4], [0, 0, 1, 1]).resolved
        False
    """
    check_confidence(confidence)
    check_number("fpr", fpr, OPEN_UNIT)
    present, absent = separated(scores, member)
    n, each = len(absent), (1 - confidence) / 4
    sure = _last_rank(lambda rank: beta_cdf(fpr, rank, n + 1 - rank) >= 1 - each, n)
    enough = _last_rank(lambda rank: beta_cdf(fpr, rank, n + 1 - rank) > each, n)
    # where no rank is certain all or nothing lies above
    strict, loose = absent[sure - 1] if sure else np.inf, absent[enough] if enough < n else -np.inf
    counts = [np.sum(present > strict), np.sum(present >= loose)]
    lowers, uppers = clopper_pearson(counts, len(present), each)
    estimate = np.mean(present > absent[int(fpr * n)])  # as many false positives as fpr allows
    return Rate(float(estimate), float(lowers[0]), float(uppers[1]), sure > 0)


def _last_rank(holds, n):
    """The largest rank in 1..n up to which a condition, of arrays, holds; 0 if it never does."""
    low, high = 0, n + 1
    while high - low > 1:
        ranks = np.unique(np.linspace(low + 1, high - 1, _AT_ONCE).astype(int))
        ends = np.concatenate([[low], ranks, [high]])
        last = np.sum(holds(ranks))
        low, high = ends[last], ends[last + 1]
    return int(low)


def auc(scores: Numbers, member: Numbers) -> float:
    """The area under the ROC curve: the probability that a member scores higher than another
    record, ties counting half.

    Args: as `audit`. Raises: ValueError as `audit`.

        >>> print(auc([1.0, 2.0, 3.0, 3.0], [0, 1, 0, 1]))
        0.625
    """
    present, absent = separated(scores, member)
    rising = absent[::-1]
    below = np.searchsorted(rising, present, "left") + np.searchsorted(rising, present, "right")
    return float(np.mean(below) / (2 * len(absent)))


def roc(scores: Numbers, member: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """The empirical ROC curve.

    Args: as `audit`. Raises: ValueError as `audit`.
    Returns: (fpr, tpr): `Float[numpy.ndarray, "thresholds"]`, rising from (0, 0) to (1, 1), one
        entry per distinct score.

        >>> fpr, tpr = roc([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1])
        >>> print(fpr, tpr)
        [0.  0.  0.5 0.5 1. ] [0.  0.5 0.5 1.  1. ]
    """
    present, absent = separated(scores, member)
    thresholds = np.unique(np.concatenate([present, absent]))[::-1]
    tpr, fpr = (
        np.append(0.0, np.searchsorted(-side, -thresholds, "right") / len(side))
        for side in (present, absent)
    )
    return fpr, tpr


def advantage(scores: Numbers, member: Numbers) -> float:
    """The empirical advantage: the largest tpr - fpr over thresholds.
    An estimate, on average above the attack's own.

    Args: as `audit`. Raises: ValueError as `audit`.

        >>> print(advantage([1.0, 2.0, 3.0, 3.0], [0, 1, 0, 1]))
        0.5
    """
    fpr, tpr = roc(scores, member)
    return float(np.max(tpr - fpr))
