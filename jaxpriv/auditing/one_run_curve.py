"""Auditing a whole trade-off curve from one training run: the probability of so many correct
guesses under every (epsilon, delta(epsilon)) of the curve at once, and the members of a family of
curves that it refutes.

With P_i = P(V >= i) and D(eps) the profile, the inequality of `jaxpriv.auditing.one_run` for the
sets {s >= i} says, with r_(i+1) = sum_(t>i) t P(V = t) = (i+1) P_(i+1) + sum_(t>i+1) P_t,

    (n - i) P_i >= sum_(t>i) P_t + g(r_(i+1)),   g(r) = (k-1) max_eps e^-eps (r - m D(eps)),

since sum_(s>=i) (n-s) P(V = s) = (n-i) P_i - sum_(t>i) P_t. The right side grows with all P_t, so
downwards from P_c = p and P_t = 0 for t > c each P_i is at least what this recursion gives; where
it gives P_0 > 1, P(V >= c) = p cannot be. That is the recursion of Mahloujifar, Melis, Chaudhuri
2025 in other variables, in which nothing cancels and the proof is this one line.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxpriv._checks import Domain, check_number, is_traced
from jaxpriv.auditing.errors import check_confidence
from jaxpriv.auditing.one_run import check_guesses, tail
from jaxpriv.curve import Curve

_LEAST = 1e-9  # p-values of the recursion are not told apart below
_ULP = float(np.finfo(np.float64).eps)
_FARTHEST = 64.0  # of eps that are asked
_FIRST, _MOST, _ROUNDS = 24, 160, 12  # eps at first and at most, and how often halves are put in
_HALVINGS = 40
_LOSS = 1e-3  # of g, by what lies between two eps
_FINITE = Domain(-np.inf, np.inf, "(-inf, inf)", open_low=True, open_high=True)


class FamilyBound(NamedTuple):
    """How far a family of curves is refuted: up to `parameter`, whose curve is `curve`;
    with `refuted` False not even the most private one is.
    """

    parameter: float
    curve: Any
    refuted: bool


def one_run_curve_p_value(
    curve: Curve, correct: int, guesses: int, canaries: int, choices: int = 2
) -> float:
    """An upper bound of the probability of at least so many correct guesses about the canaries of
    one run, if the mechanism has this trade-off curve.

    Each of the canaries took one of `choices` values by its own fair die (2: in or out); nothing is
    assumed of how they influence each other, nor of the attack, but that the number of guesses was
    chosen before the scores were seen. The least of two bounds: the recursion over the whole curve,
    and `one_run_p_value` at each (epsilon, delta(epsilon)) of it.

    Args:
        curve: a scalar `Curve` with concrete parameters: of one canary in or out, with "absent" as
            null hypothesis, or of one value in the place of another (choices > 2, or canaries that
            replace another record); a symmetric one serves both directions. What counts is the mean
            of both directions' profiles.
        correct, guesses, canaries: whole numbers, 0 <= correct <= guesses <= canaries <= 10^6.
        choices: a whole number >= 2.

    Returns: a float in [0, 1]. Guarantee: a mechanism with this curve gives so many correct guesses
        with at most this probability: rounded outward, from `curve.delta_bounds` at finitely many
        epsilon. What the recursion alone gives is not told apart below 1e-9. The best bound of this
        kind, a linear program, is lower by up to about a fifth of itself.
    Raises: ValueError for an array of curves, traced or NaN parameters, values out of range.
    Source: Mahloujifar, Melis, Chaudhuri 2025; derived here.

        >>> from jaxpriv import worst_case
        >>> for mu in (0.5, 1.0):
        ...     print(f"{one_run_curve_p_value(worst_case.gaussian(mu), 96, 100, 1000):.4f}")
        0.0002
        0.1894
    """
    check_guesses(correct, guesses, canaries, choices)
    profile = _Profile.of(curve, _LEAST * max(correct, 1) / canaries)
    game = correct, guesses, canaries, choices
    return min(_by_recursion(profile, *game), _by_points(profile, *game))


def one_run_family(
    make_curve: Callable[[Any], Curve], private: float, leaky: float, correct: int, guesses: int,
    canaries: int, choices: int = 2, confidence: float = 0.95,
) -> FamilyBound:
    """How far so many correct guesses refute a family of curves, from its most private member on.

    Args:
        make_curve: a number in, a `Curve` as for `one_run_curve_p_value` out, lower and lower from
            `private` to `leaky`: `worst_case.gaussian` from 0 to 10, or DP-SGD with noise
            multipliers from 10 to 0.2.
        correct, guesses, canaries: of `one_run_guesses`. choices: as there.
        confidence: in (0, 1).

    Returns: a `FamilyBound`, to about 1e-3 of the parameter. Guarantee: with probability
        `confidence` the mechanism has none of the curves from `private` to `parameter`; so if its
        curve is of this family, it leaks more than `bound.curve`, and its epsilon is at least
        `bound.curve.epsilon_bounds(delta)[0]`.
    Raises: ValueError as `one_run_curve_p_value`, and for values out of range.
    Source: Mahloujifar, Melis, Chaudhuri 2025.

        >>> from jaxpriv import worst_case
        >>> bound = one_run_family(worst_case.gaussian, 0.0, 10.0, 96, 100, 1000)
        >>> print(f"{bound.parameter:.2f} {bound.curve.epsilon_bounds(1e-5)[0]:.1f}")
        0.84 3.6
    """
    check_confidence(confidence)
    check_guesses(correct, guesses, canaries, choices)
    for name, value in (("private", private), ("leaky", leaky)):
        check_number(name, value, _FINITE)
    miss, game = 1 - confidence, (correct, guesses, canaries, choices)

    def refuted(parameter):
        curve = make_curve(parameter)
        profile = _Profile.of(curve, miss * max(correct, 1) / canaries)
        return _by_points(profile, *game) <= miss or bool(_impossible(profile, *game, miss))

    if not refuted(private):
        return FamilyBound(float(private), make_curve(private), False)
    if refuted(leaky):
        return FamilyBound(float(leaky), make_curve(leaky), True)
    inside, outside = float(private), float(leaky)
    for _ in range(_HALVINGS):
        if abs(outside - inside) <= 1e-3 * max(abs(inside), abs(outside)):
            break
        ratio = inside * outside > 0
        middle = np.sign(inside) * np.sqrt(inside * outside) if ratio else (inside + outside) / 2
        inside, outside = (middle, outside) if refuted(middle) else (inside, middle)
    return FamilyBound(float(inside), make_curve(inside), True)


class _Profile(NamedTuple):
    """`delta` is at least the mean of both directions' delta(epsilon), at rising epsilon."""

    epsilon: np.ndarray
    delta: np.ndarray

    @classmethod
    def of(cls, curve, least):
        """Of a curve, as far as delta matters beside `least`."""
        if is_traced(curve):
            raise ValueError("curve depends on a traced value; accepted: concrete parameters")
        other = curve.reversed()

        def above(epsilon):
            delta = curve.delta_bounds(epsilon)[1]
            if other.experiment is not curve.experiment:
                delta = (delta + other.delta_bounds(epsilon)[1]) / 2 * (1 + _ULP)
            return delta

        first = above(0.0)
        if np.ndim(first):
            raise ValueError(f"curve is an array of shape {np.shape(first)}; accepted: one curve")
        if np.isnan(first):
            raise ValueError("curve has a parameter that is NaN")
        farthest = 1.0
        while farthest < _FARTHEST and above(farthest) > 1e-3 * least:
            farthest *= 2
        epsilon = np.linspace(0.0, farthest, _FIRST)
        bound = max(float(curve.experiment.loss_bound(reverse)) for reverse in (False, True))
        if bound < farthest:  # there the profile of pure differential privacy ends in a corner
            epsilon = np.union1d(epsilon, bound)
        profile = cls(epsilon, above(epsilon))
        for _ in range(_ROUNDS):
            between = profile.loose(least)
            if not len(between) or len(profile.epsilon) + len(between) > _MOST:
                break
            order = np.argsort(np.append(profile.epsilon, between))
            profile = cls(*(np.append(one, more)[order] for one, more in
                            zip(profile, (between, above(between)))))
        return profile

    def loose(self, least):
        """The middles between neighbours where a convex profile, of e^epsilon, may lie so far below
        their chord that it matters: it lies above the two chords beside it, extended.
        """
        x, middle = np.exp(self.epsilon), (self.epsilon[1:] + self.epsilon[:-1]) / 2
        fall = -np.diff(self.delta) / np.diff(x)
        at = np.exp(middle)
        chord = self.delta[:-1] - fall * (at - x[:-1])
        from_left = self.delta[:-1] - np.append(fall[0], fall[:-1]) * (at - x[:-1])
        from_right = self.delta[1:] + np.append(fall[1:], fall[-1]) * (x[1:] - at)
        gap = chord - np.minimum(np.maximum(from_left, from_right), chord)
        gap[[0, -1]] = chord[[0, -1]] - np.minimum(from_right[0], from_left[-1])
        return middle[(gap > _LOSS * at * np.maximum(fall, 0.0)) & (self.delta[:-1] > least)]


def _by_points(profile, correct, guesses, canaries, choices):
    """The least of `one_run_p_value` at the points of a profile: the best of some, and those around
    it.
    """
    def at(index):
        return tail(profile.epsilon[index], canaries * profile.delta[index], correct, guesses,
                    choices)

    count, step = len(profile.epsilon), 8
    best = min(range(0, count, step), key=at)
    return min(at(index) for index in range(max(best - step, 0), min(best + step + 1, count)))


def _by_recursion(profile, correct, guesses, canaries, choices):
    """The smallest p >= 1e-9 that cannot be, to a thousandth of itself, from above."""
    low, high = np.log(_LEAST), 0.0
    for _ in range(3):
        chances = np.exp(np.linspace(low, high, 33))
        impossible = _impossible(profile, correct, guesses, canaries, choices, chances)
        first = int(np.argmax(impossible)) if impossible.any() else 33
        if first == 0:
            return float(chances[0])
        if first == 33:
            return 1.0
        low, high = np.log(chances[first - 1]), np.log(chances[first])
    return float(min(chances[first], 1.0))


def _impossible(profile, correct, guesses, canaries, choices, chance):
    """Is it beyond doubt that P(V >= correct) is not `chance`?"""
    n, ulp = guesses, _ULP * (guesses + 4.0)
    weight = ((choices - 1) * np.exp(-profile.epsilon) * (1 - 16 * _ULP))[:, None]
    budget = (canaries * profile.delta * (1 + 2 * _ULP))[:, None]
    at_least = np.atleast_1d(np.asarray(chance, np.float64))
    later = np.zeros_like(at_least)  # the sum of P_t over t > i
    with np.errstate(over="ignore"):
        for i in range(correct - 1, -1, -1):
            right = ((i + 1) * at_least + later) * (1 - 16 * ulp)
            later = later + at_least
            wrong = np.max(weight * (right - budget), axis=0, initial=0.0)
            at_least = np.maximum(at_least, (later + wrong) / (n - i))
    found = at_least > 1 + 64 * ulp
    return found if np.ndim(chance) else found[0]
