"""Certified numbers of a curve from its `delta_bounds` alone, each evaluation kept: what is drawn
in floating point adds to delta, and to nothing else (`jaxpriv.training.drawn`).

All supporting lines of a trade-off function follow from its privacy profile, so a bound of delta at
any epsilon is a bound of everything else.
"""

import math

import numpy as np

from jaxpriv._checks import UNIT, Domain, check_number
from jaxpriv.tradeoff.certified import probabilities

_DELTA = Domain(0.0, 1.0, "(0, 1]", open_low=True)
_LARGEST = 512.0
_FIRST = 1e-6  # step from where the curve itself meets a delta
_ROUNDED = 2e-15  # of sums and exponentials here
_PRECISION = 1e-11  # relative, of epsilon: where the search for it ends, on the safe side


class CertifiedProfile:
    """Certified numbers of a scalar curve that covers both directions, for the host:
    a few evaluations, each kept.

    Args:
        curve: a scalar `Curve`, symmetric.

    Raises: ValueError where an argument is outside its range,
        ArithmeticError where a bound came out as NaN.

        >>> import jaxpriv
        >>> profile = CertifiedProfile(jaxpriv.worst_case.gaussian(1.0).symmetric())
        >>> low, high = profile.epsilon(1e-5)
        >>> print(f"{low:.6f} {high:.6f} {profile.tpr(0.1):.6f} {profile.advantage():.6f}")
        4.377178 4.377178 0.389144 0.382925
    """

    def __init__(self, curve):
        self._curve, self._known = curve, {}

    def delta(self, epsilon):
        """(lower, upper) of delta at epsilon >= 0."""
        return tuple(float(bound) for bound in probabilities(*self.log_delta(epsilon)))

    def log_delta(self, epsilon):
        """(lower, upper) of log delta at epsilon >= 0."""
        self.ask([epsilon])
        return self._known[epsilon]

    def ask(self, epsilons):
        """Evaluate at all of these, which is faster than one after the other."""
        new = [epsilon for epsilon in dict.fromkeys(epsilons) if epsilon not in self._known]
        if not new:
            return
        bounds = np.stack(self._curve.log_delta_bounds(np.asarray(new, np.float64)), -1)
        for epsilon, (low, high) in zip(new, bounds.tolist(), strict=True):
            if math.isnan(low) or math.isnan(high):
                raise ArithmeticError(f"the bounds of delta at epsilon = {epsilon} came out as NaN")
            self._known[epsilon] = low, high

    def known(self):
        """[(epsilon, upper bound of delta)] of all evaluations so far, in order of epsilon."""
        return [(epsilon, self.delta(epsilon)[1]) for epsilon in sorted(self._known)]

    def advantage(self):
        """An upper bound of the largest power - alpha: delta at epsilon = 0."""
        return self.delta(0.0)[1]

    def epsilon(self, delta):
        """(lower, upper) of epsilon at delta in (0, 1]; inf where no epsilon below 512 meets it."""
        check_number("delta", delta, _DELTA)
        low, high = (float(end) for end in self._curve.epsilon_bounds(delta))
        if math.isnan(low) or math.isnan(high):
            raise ArithmeticError(f"the bounds of epsilon at delta = {delta} came out as NaN")
        return min(low, _LARGEST), self._met(delta, high)

    def _met(self, delta, start):
        """The epsilon at which the upper bound is not above delta, from the curve's own on: what is
        added is little.
        """

        def excess(epsilon):
            return max(self.log_delta(epsilon)[1], -1e300) - math.log(delta)

        if start > _LARGEST or excess(start) <= 0:
            return start if start <= _LARGEST else math.inf
        low, high, step = start, start, _FIRST * (1 + start)
        while excess(high) > 0:
            low, high, step = high, high + step, 4 * step
            if high > _LARGEST:
                return math.inf
        at_low, at_high = excess(low), excess(high)
        # regula falsi, halving an end that stays (Illinois), and bisection where it is slow
        kept = 0
        for count in range(200):
            if high - low <= _PRECISION * high:
                break
            middle = (
                (low * at_high - high * at_low) / (at_high - at_low)
                if count % 4 != 3
                else 0.5 * (low + high)
            )
            least = 0.3 * _PRECISION * high
            middle = min(max(middle, low + least), high - least)
            at_middle = excess(middle)
            if at_middle > 0:
                low, at_low = middle, at_middle
                at_high *= 0.5 if kept == 1 else 1.0
                kept = 1
            else:
                high, at_high = middle, at_middle
                at_low *= 0.5 if kept == -1 else 1.0
                kept = -1
        return high

    def tpr(self, fpr):
        """An upper bound of the power at type I error `fpr` in [0, 1]:
        the lowest supporting line found there.

        Power <= delta + e^eps fpr and <= 1 - e^-eps (1 - delta - fpr), the other direction, for
        every epsilon; the lowest is where the curve's own slope at `fpr` is, but for what is added.
        """
        check_number("fpr", fpr, UNIT)
        if fpr >= 1:
            return 1.0
        slope = abs(float(self._curve.slope(fpr)))
        self.ask([0.0, slope if slope < _LARGEST else _LARGEST])

        def line(epsilon):
            delta = self.delta(epsilon)[1]
            steep = (delta + math.exp(epsilon) * fpr) * (1 + _ROUNDED)
            return min(steep, 1 - math.exp(-epsilon) * (1 - delta - fpr) + _ROUNDED, 1.0)

        return min(line(epsilon) for epsilon in self._known if epsilon <= _LARGEST)


def chords(known, epsilons):
    """Upper bounds of delta at `epsilons` from those at others: delta is convex in e^epsilon, so
    chords between upper bounds lie above it, and beyond the last it is no larger.

    Args: known: [(epsilon, upper bound of delta)], epsilon >= 0, that of 0 among them.

        >>> chords([(0.0, 0.5), (1.0, 0.1)], [0.0, 0.5, 2.0]).round(4).tolist()
        [0.5, 0.349, 0.1]
    """
    at, deltas = (np.asarray(column) for column in zip(*sorted(known)))
    between = np.interp(np.expm1(epsilons), np.expm1(at), deltas)
    return np.minimum(between * (1 + 1e-14) + 1e-15 * deltas[0], deltas[0])
