"""What scores prove about an attack: limits of its error rates that hold all at once, and every
statement drawn from them.

Thresholds are the k-th highest scores of one side, the ranks k fixed before anything is seen. The
error rate of that side is then below its Beta(k, n-k+1) law exactly, whatever the law of the
scores, and the count of the other side above an independent threshold is binomial. All limits
together miss with probability at most 1 - confidence (Bonferroni), so any number of statements may
be drawn from them.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv._checks import BELOW_ONE, OPEN_UNIT, UNIT, check_number, check_whole
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv._types import Numbers
from jaxpriv.auditing.binomial import beta_quantile
from jaxpriv.curve import Curve
from jaxpriv.stats import norm
from jaxpriv.worst_case import gaussian


def separated(scores, member):
    """(scores of members, of the others), sorted downwards, as float64;
    one clear error for bad input.
    """
    scores, member = np.asarray(scores, np.float64), np.asarray(member)
    if scores.ndim != 1 or member.shape != scores.shape:
        raise ValueError(
            f"scores has shape {scores.shape} and member {member.shape}; "
            "accepted: one axis, the same length"
        )
    if np.isnan(scores).any():
        raise ValueError(
            f"scores has NaN at {int(np.argmax(np.isnan(scores)))}; "
            "accepted: numbers and infinities"
        )
    if not np.isin(member, (0, 1)).all():
        raise ValueError(
            f"member has the value {member[~np.isin(member, (0, 1))][0]}; "
            "accepted: 0, 1, False, True"
        )
    member = member.astype(bool)
    for name, count in (("members", member.sum()), ("non-members", (~member).sum())):
        if count < 2:
            raise ValueError(f"scores has {count} {name}; accepted: at least 2")
    return np.sort(scores[member])[::-1], np.sort(scores[~member])[::-1]


def check_confidence(confidence):
    check_number("confidence", confidence, OPEN_UNIT)


def _ranks(n, thresholds):
    """At most `thresholds` ranks in 1..n, in equal ratios from both ends:
    small rates on either side matter most.
    """
    steps = np.geomspace(1, (n + 1) / 2, (thresholds + 1) // 2).round().astype(int)
    return np.unique(np.concatenate([steps, n + 1 - steps]))


def _above(scores, thresholds, inclusive=False):
    """How many of `scores` (sorted downwards) lie above each threshold."""
    rising = scores[::-1]
    return len(scores) - np.searchsorted(rising, thresholds, "left" if inclusive else "right")


@dataclass(frozen=True)
class Points:
    """Tests of one direction: limits of type I error and power,
    `Float[numpy.ndarray, "thresholds"]` each.

    `alpha_upper`, `power_lower`: the attack is at least so good; `alpha_lower`, `power_upper`:
    and at most so good.
    """

    threshold: np.ndarray
    alpha_upper: np.ndarray
    power_lower: np.ndarray
    alpha_lower: np.ndarray
    power_upper: np.ndarray


def _points(tests, miss, thresholds):
    """The `Points` of some tests (null, other), which reject `null` for high scores;
    each of 4 limits at each of a test's ranks misses with `miss`/(4 ranks).
    """
    found, laws = [], []
    for null, other in tests:
        ranks = _ranks(len(null), thresholds)
        at, each = null[ranks - 1], miss / (4 * len(ranks))
        # ties: above the threshold there are fewer than k-1 scores, at or above it more than k, so
        # both limits stay on their side
        least, most = _above(other, at), _above(other, at, inclusive=True)
        # the error rate's own law, and Clopper's and Pearson's limits of the power
        successes = np.stack([ranks, least, ranks, most + 1])
        failures = np.stack([len(null) + 1 - ranks, len(other) - least + 1,
                             len(null) + 1 - ranks, len(other) - most])
        found.append(at)
        laws.append(np.broadcast_arrays(each, successes, failures))
    # of all tests at once
    shares, successes, failures = (np.concatenate(part, 1) for part in zip(*laws))
    above = np.array([[True], [False], [False], [True]])
    limits = beta_quantile(shares, successes, failures, above)
    ends = np.cumsum([len(at) for at in found])[:-1]
    return [Points(at, *own) for at, own in zip(found, np.split(limits, ends, 1))]


@dataclass(frozen=True)
class Violation:
    """Whether a claim is refuted, and the test that says most: where Phi^-1(power) exceeds that of
    the claim most, of tests that prove more power than alpha, if there are any.
    """

    violated: bool
    direction: str
    alpha: float
    power: float
    allowed: float


@dataclass(frozen=True)
class Audit:
    """What the scores prove; every statement holds together with all others with
    probability `confidence`.

    forward: tests with "absent" as the null hypothesis, reverse: with "present". From `audit`;
    `print` shows a table.
    """

    forward: Points
    reverse: Points
    confidence: float
    members: int
    others: int

    def __str__(self):
        """A table of what is proved, in ASCII:
        lower bounds rounded down, upper limits rounded up.
        """
        delta = 1e-5
        bounds = [
            ("mu (Gaussian differential privacy)", self.mu()),
            ("epsilon at delta = 0", self.epsilon(0.0)),
            (f"epsilon at delta = {delta:g}", self.epsilon(delta)),
            (
                f"epsilon at delta = {delta:g}, if the curve is Gaussian",
                self.gaussian_epsilon(delta),
            ),
        ]
        rows = [(name, f">= {rounded_down(value)}") for name, value in bounds]
        for alpha in (1e-3, 1e-2, 1e-1):
            low, high = self.band(alpha)
            rows.append((f"attack's TPR at FPR {alpha:g}",
                         f"in [{rounded_down(float(low))}, {rounded_up(float(high))}]"))
        left, right = (max(map(len, column)) for column in zip(*rows))
        rule = "-" * (left + 2 + right)
        return "\n".join([f"Audit of {self.members} members and {self.others} others", rule,
                          *(f"{name:<{left}}  {value:>{right}}" for name, value in rows), rule,
                          f"all together with {100 * self.confidence:g}% confidence"])

    def epsilon(self, delta: float) -> float:
        """A lower bound of epsilon at delta in [0, 1): (alpha e^eps + delta >= power for every
        test); 0 if nothing is proved.

        Raises: ValueError for delta outside its range. Source: Kairouz, Oh, Viswanath 2015.
        """
        check_number("delta", delta, BELOW_ONE)
        best = 0.0
        for points in (self.forward, self.reverse):
            power = points.power_lower - delta
            ratio = np.where(power > 0, power, 0.0) / np.maximum(points.alpha_upper, 1e-300)
            best = max(best, float(np.log(np.maximum(np.max(ratio), 1.0))))
        return best

    def mu(self) -> float:
        """A lower bound of the mu of Gaussian differential privacy, Phi^-1(power) - Phi^-1(alpha);
        0 if nothing is proved.

        Source: Dong, Roth, Su 2022, Eq. (6).
        """
        best = 0.0
        for points in (self.forward, self.reverse):
            some = (points.power_lower > 0) & (points.alpha_upper < 1)
            if some.any():
                mus = norm.ppf(points.power_lower[some]) - norm.ppf(points.alpha_upper[some])
                best = max(best, float(np.max(mus)))
        return best

    def gaussian_epsilon(self, delta: float) -> float:
        """A lower bound of epsilon at delta for a mechanism whose curve is Gaussian:
        that of G_mu at `mu()`.

        Far above `epsilon` for small delta, where counts alone prove little.
        Raises: ValueError for delta outside (0, 1).
        Source: Nasr et al. 2023.
        """
        check_number("delta", delta, OPEN_UNIT)
        mu = self.mu()
        return float(gaussian(mu).epsilon_bounds(delta)[0]) if mu > 0 else 0.0

    def violation(self, curve: Curve) -> Violation:
        """Is this curve refuted: does some test have more power at its type I error than
        the curve leaves it?

        Args:
            curve: a scalar `Curve` of the mechanism with "absent" as null hypothesis,
                or a symmetric one.

        Returns: a `Violation`. A curve that holds is called violated with probability at most
            1 - confidence: what it allows is taken from its certified bound.
        Raises: ValueError for a curve with a parameter that is NaN.
        """
        found: list[tuple] = []
        both = [("forward", self.forward, curve), ("reverse", self.reverse, curve.reversed())]
        some = any(np.any(points.power_lower > points.alpha_upper) for _, points, _ in both)
        for name, points, claim in both:
            alpha, power = points.alpha_upper, points.power_lower
            if some:  # what proves no more power than alpha refutes nothing
                alpha, power = alpha[power > alpha], power[power > alpha]
            allowed = 1 - claim.beta_bounds(alpha)[0]
            if np.isnan(allowed).any():
                raise ValueError("curve has a parameter that is NaN: it claims nothing")
            power = np.where(allowed < 1, power, 0.0)
            excess = norm.ppf(power) - norm.ppf(np.where(allowed < 1, allowed, 0.5))
            found += zip(excess, power > allowed, [name] * len(power), alpha, power, allowed)
        _, violated, name, *rates = max(found, key=lambda test: test[0])
        return Violation(bool(violated), name, *map(float, rates))

    def band(self, alpha: Numbers) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the attack's power at every type I error at once.

        Args:
            alpha: `Float[Array, "..."]` in [0, 1].

        Returns: two `Float[numpy.ndarray, "..."]`: steps through the points,
            which hold everywhere since power only rises.
        Raises: ValueError for alpha outside its range.
        """
        check_number("alpha", alpha, UNIT)
        alpha = np.asarray(alpha, np.float64)
        points = self.forward
        order = np.argsort(points.alpha_upper)
        lower = np.maximum.accumulate(np.append(0.0, points.power_lower[order]))
        low = lower[np.searchsorted(points.alpha_upper[order], alpha, "right")]
        order = np.argsort(points.alpha_lower)
        upper = np.minimum.accumulate(np.append(points.power_upper[order], 1.0)[::-1])[::-1]
        return low, upper[np.searchsorted(points.alpha_lower[order], alpha, "left")]


def audit(
    scores: Numbers, member: Numbers, confidence: float = 0.95, thresholds: int = 32
) -> Audit:
    """Everything that these scores prove about the attack and so about the mechanism behind it.

    Args:
        scores: `Float[Array, "rounds"]`, higher means member:
            of independent rounds, or of independent records.
        member: `Bool[Array, "rounds"]`: the truth.
        confidence: in (0, 1), of all statements together.
        thresholds: how many tests at most in either direction;
            more look closer, and cost a little certainty.

    Returns: an `Audit`.
    Guarantee: lower bounds on the mechanism's leakage hold with probability `confidence`, for any
        law of scores, ties too.
    Raises: ValueError for NaN scores, other labels, fewer than two of either,
        values outside their range.

        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> member = random.uniform(size=20000) < 0.5
        >>> result = audit(random.normal(size=20000) + 2 * member, member)
        >>> bool(1.8 < result.mu() <= 2.0), bool(result.epsilon(1e-5) > 2)
        (True, True)
        >>> from jaxpriv import worst_case
        >>> [result.violation(worst_case.gaussian(mu)).violated for mu in (2.0, 1.0)]
        [False, True]
    """
    check_confidence(confidence)
    check_whole("thresholds", thresholds, least=2)
    present, absent = separated(scores, member)
    miss = (1 - confidence) / 2
    both = (absent, present), (-present[::-1], -absent[::-1])
    forward, reverse = _points(both, miss, thresholds)
    return Audit(forward, reverse, confidence, len(present), len(absent))
