"""Auditing from one training run: many canaries, each in or out by its own coin,
and guesses about the surest of them.
"""

from typing import NamedTuple

import numpy as np

from jaxpriv._checks import BELOW_ONE, check_number
from jaxpriv.auditing.errors import check_confidence, separated

_HALVINGS = 50


class OneRun(NamedTuple):
    """Lower bound of epsilon, with the guesses it rests on:
    `guesses` of `canaries`, the others abstained from.
    """

    epsilon: float
    correct: int
    guesses: int
    canaries: int
    abstained: float


def one_run(scores, member, delta=0.0, guesses=None, confidence=0.95):
    """A lower bound of epsilon from the scores of canaries that one run saw or did not see,
    each by its own fair coin.

    The half of the guesses says "member" of the highest scores, the other half "not" of the lowest;
    the rest abstains. Under (eps, delta) the number V of correct ones satisfies, with
    W ~ binomial(guesses, 1/(1 + e^-eps)),

        P(V >= v) <= P(W >= v) + 2 m delta max_i P(v - i <= W < v)/i,

    and the bound is the largest eps for which this stays at or below 1 - confidence.

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
    Source: Steinke, Nasr, Jagielski 2023, Theorem 5.2.

        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> member = random.uniform(size=1000) < 0.5
        >>> result = one_run(random.normal(size=1000) + 3 * member, member, delta=1e-5)
        >>> result.guesses, round(result.abstained, 2), bool(2 < result.epsilon < 4.5)
        (100, 0.9, True)
    """
    check_confidence(confidence)
    check_number("delta", delta, BELOW_ONE)
    separated(scores, member)
    scores, member = np.asarray(scores, np.float64), np.asarray(member).astype(bool)
    m = len(scores)
    if guesses is None:
        guesses = min(2 * (max(m // 10, 32) // 2), 2 * (m // 2))
    if guesses % 2 or not 2 <= guesses <= m:
        raise ValueError(f"guesses = {guesses}; accepted: an even number in [2, {m}]")
    # ties are guessed wrong: their order in the file may tell
    order = np.lexsort((~member, scores))
    half = guesses // 2
    correct = int(np.sum(member[order[-half:]]) + np.sum(~member[order[:half]]))
    epsilon = _largest(
        lambda eps: one_run_p_value(eps, delta, correct, guesses, m) <= 1 - confidence
    )
    return OneRun(epsilon, correct, guesses, m, 1 - guesses / m)


def one_run_p_value(epsilon, delta, correct, guesses, canaries):
    """An upper bound of the probability of as many correct guesses under (epsilon, delta):
    the formula of `one_run`.

    Args:
        epsilon: in [0, inf). delta: in [0, 1). correct, guesses, canaries: whole numbers,
            correct <= guesses <= canaries.

    Returns: a float in [0, 1]; rising in epsilon.
    Source: Steinke, Nasr, Jagielski 2023, Theorem 5.2 and its appendix D (alpha there is
        the maximum here).

        >>> print(f"{one_run_p_value(0.0, 0.0, 10, 10, 10):.6f}")
        0.000977
    """
    log_pmf = _log_binomial(guesses, epsilon)
    pmf = np.exp(log_pmf)
    tail = pmf[correct:].sum()
    below = np.cumsum(pmf[:correct][::-1])
    largest = np.max(below / np.arange(1, correct + 1)) if correct else 0.0
    return float(min(tail + 2 * canaries * delta * largest, 1.0))


def _log_binomial(n, epsilon):
    """The log probabilities of 0..n successes at probability 1/(1 + e^-eps)."""
    k = np.arange(n + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    log_choose = log_factorial[n] - log_factorial - log_factorial[::-1]
    return log_choose - k * np.logaddexp(0.0, -epsilon) - (n - k) * np.logaddexp(0.0, epsilon)


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
