"""Auditing from one training run: many canaries, each in or out by its own coin,
and guesses about the surest of them.

What a mechanism allows is decided by the law of the number V of correct ones among n guesses about
m canaries, each of which took one of k values at random. For a canary, "guessed right, and s of the
others are" with its value has the probability, on average over canaries and values, (s+1) P(V =
s+1)/m; with another value in its place, by whoever guesses the same, it is (n-s) P(V = s)/((k-1)
m). So (eps, delta) for one value in the place of another says, for every set T,

    sum_(s in T) (s+1) P(V = s+1) - e^eps (n-s) P(V = s)/(k-1) <= m delta,

whether or not canaries influence each other. Source: Steinke, Nasr, Jagielski 2023, whose game it
is; Mahloujifar, Melis, Chaudhuri 2025, whose argument.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from jaxpriv._checks import BELOW_ONE, NONNEGATIVE, check_number, check_whole
from jaxpriv._types import Numbers
from jaxpriv.auditing.errors import check_confidence, separated

_HALVINGS = 32
_MOST = 10**6  # canaries: sums over guesses keep to what rounding is allowed for
_ULP = float(np.finfo(np.float64).eps)
_LEAST = 5e-324  # of positive numbers


class OneRun(NamedTuple):
    """Lower bound of epsilon, with the guesses it rests on:
    `guesses` of `canaries`, the others abstained from.
    """

    epsilon: float
    correct: int
    guesses: int
    canaries: int
    abstained: float


class Guesses(NamedTuple):
    """How many guesses about how many canaries were correct."""

    correct: int
    guesses: int
    canaries: int


def one_run_guesses(scores: Numbers, member: Numbers, guesses: int | None = None) -> Guesses:
    """The surest guesses about canaries: half of them says "member" of the highest scores, the
    other half "not" of the lowest; the rest abstains.

    Args:
        scores: `Float[Array, "m"]`, one per canary, higher means member.
        member: `Bool[Array, "m"]`, from independent fair coins.
        guesses: an even number in [2, m], chosen before the scores are seen;
            m/10, at least 32, unless given.

    Returns: `Guesses`, for `one_run_curve_p_value` and `one_run_family`. Ties are guessed wrong.
    Raises: ValueError as `audit`, and for guesses outside their range.

        >>> one_run_guesses([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0], guesses=4)
        Guesses(correct=4, guesses=4, canaries=4)
    """
    separated(scores, member)
    scores, member = np.asarray(scores, np.float64), np.asarray(member).astype(bool)
    m = len(scores)
    if guesses is None:
        guesses = min(2 * (max(m // 10, 32) // 2), 2 * (m // 2))
    if not isinstance(guesses, (int, np.integer)) or guesses % 2 or not 2 <= guesses <= m:
        raise ValueError(f"guesses = {guesses!r}; accepted: an even number in [2, {m}]")
    # ties are guessed wrong: their order in the file may tell
    order = np.lexsort((~member, scores))
    half = guesses // 2
    correct = int(np.sum(member[order[-half:]]) + np.sum(~member[order[:half]]))
    return Guesses(correct, guesses, m)


def one_run(
    scores: Numbers, member: Numbers, delta: float = 0.0, guesses: int | None = None,
    confidence: float = 0.95,
) -> OneRun:
    """A lower bound of epsilon from the scores of canaries that one run saw or did not see,
    each by its own fair coin.

    The guesses are those of `one_run_guesses`; the bound is the largest eps for which
    `one_run_p_value` of as many correct ones stays at or below 1 - confidence.

    Args:
        scores: `Float[Array, "m"]`, one per canary, higher means member.
            member: `Bool[Array, "m"]`, from independent fair coins.
        delta: in [0, 1).
        guesses: an even number in [2, m], chosen before the scores are seen;
            m/10, at least 32, unless given.
        confidence: in (0, 1).

    Returns: a `OneRun`. Guarantee: holds with probability `confidence` for add/remove differential
        privacy, also where canaries influence each other.
    Raises: ValueError as `audit`, and for values outside their range.
    Source: Steinke, Nasr, Jagielski 2023.

        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> member = random.uniform(size=1000) < 0.5
        >>> result = one_run(random.normal(size=1000) + 3 * member, member, delta=1e-5)
        >>> result.guesses, round(result.abstained, 2), bool(2 < result.epsilon < 4.5)
        (100, 0.9, True)
    """
    check_confidence(confidence)
    check_number("delta", delta, BELOW_ONE)
    correct, guesses, m = one_run_guesses(scores, member, guesses)
    epsilon = _largest(
        lambda eps: one_run_p_value(eps, delta, correct, guesses, m) <= 1 - confidence
    )
    return OneRun(epsilon, correct, guesses, m, 1 - guesses / m)


def one_run_p_value(
    epsilon: float, delta: float, correct: int, guesses: int, canaries: int, choices: int = 2
) -> float:
    """An upper bound of the probability of at least so many correct guesses under (epsilon, delta).

    With W ~ binomial(n, q), q = e^eps/(e^eps + k - 1), n = guesses, m = canaries, k = choices,

        P(V >= c) <= P(W >= c) + m delta max_(0<j<=c) P(W < j) P(W >= c)/(j P(W = j)).

    For W the inequality above holds with equality and delta = 0. So rho(s) = P(V = s)/P(W = s)
    rises from s-1 to s by x_s, say, with sum_s s P(W = s) max(x_s, 0) <= m delta. And P(V >= c) -
    P(W >= c) is the mean of rho(T) - rho(S) over independent S and T ~ W with S < c <= T, which is
    at most the sum of the rises from S to T: x_j counts with P(W < j) P(W >= c) at most for j <= c,
    and with P(W < c) P(W >= j) beyond, which is largest, over j P(W = j), at j = c.

    Args:
        epsilon: in [0, inf). delta: in [0, 1). correct, guesses, canaries: whole numbers,
            0 <= correct <= guesses <= canaries <= 10^6.
        choices: how many values each canary had, all as likely; 2 for in or out.

    Returns: a float in [0, 1], rounded upwards; rising in epsilon. For delta = 0 the probability
        itself under randomised response, which is the worst; for other delta below that of the
        source, by a factor of up to 2 (1 + e^epsilon) where delta decides.
    Raises: ValueError for values outside their range.
    Source: Steinke, Nasr, Jagielski 2023, Theorem 5.2 (k = 2, with a larger last term); derived
        here.

        >>> print(f"{one_run_p_value(0.0, 0.0, 10, 10, 10):.6f}")
        0.000977
    """
    check_number("epsilon", epsilon, NONNEGATIVE)
    check_number("delta", delta, BELOW_ONE)
    check_guesses(correct, guesses, canaries, choices)
    return tail(epsilon, canaries * delta, correct, guesses, choices)


def check_guesses(correct, guesses, canaries, choices):
    """One clear error for numbers that do not fit each other."""
    check_whole("canaries", canaries, most=_MOST)
    check_whole("guesses", guesses, most=canaries)
    check_whole("correct", correct, least=0, most=guesses)
    check_whole("choices", choices, least=2)


def tail(epsilon, budget, correct, guesses, choices):
    """The formula of `one_run_p_value`, budget = m delta."""
    if correct == 0:
        return 1.0
    log_odds = epsilon - math.log(choices - 1)
    log_pmf = _log_binomial(guesses, log_odds)
    log_tail = np.logaddexp.reduce(log_pmf[correct:])
    j = np.arange(1, correct + 1)
    log_below = np.logaddexp.accumulate(log_pmf[:correct])
    steepest = np.max(log_below - np.log(j) - log_pmf[1 : correct + 1])
    # each logarithm is off by a few ulp of what its largest terms are, and n of them are added
    off = 8 * _ULP * (guesses + 16.0) ** 2 * (1 + abs(log_odds))
    with np.errstate(divide="ignore"):
        more = np.logaddexp(0.0, np.log(budget) + steepest)
    return max(float(np.exp(min(log_tail + more + 2 * off, 0.0))), _LEAST)


def _log_binomial(n, log_odds):
    """The log probabilities of 0..n successes at these log odds of one."""
    k = np.arange(n + 1)
    return (
        _log_choose(n) - k * np.logaddexp(0.0, -log_odds) - (n - k) * np.logaddexp(0.0, log_odds)
    )


@functools.lru_cache(maxsize=8)
def _log_choose(n):
    """log of n choose 0..n, kept for searches with as many guesses."""
    log_factorial = np.array([math.lgamma(number) for number in range(1, n + 2)])
    return log_factorial[n] - log_factorial - log_factorial[::-1]


def _largest(refuted):
    """The largest epsilon that is refuted, from below; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high) and high < 64:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
