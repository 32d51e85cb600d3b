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
_ROUNDED = 2e-15  # of sums and exponentials here
_GOLDEN = 0.5 * (3 - math.sqrt(5.0))


class CertifiedProfile:
    """Certified numbers of a scalar curve that covers both directions, for the host:
    a few dozen evaluations, each kept.

    Args:
        curve: a scalar `Curve`, symmetric.
        precision: relative, of where searches end, always on the safe side; coarser is faster.

    Raises: ValueError where an argument is outside its range,
        ArithmeticError where a bound came out as NaN.

        >>> import jaxpriv
        >>> profile = CertifiedProfile(jaxpriv.worst_case.gaussian(1.0).symmetric())
        >>> low, high = profile.epsilon(1e-5)
        >>> print(f"{low:.6f} {high:.6f} {profile.tpr(0.1):.6f} {profile.advantage():.6f}")
        4.377178 4.377178 0.389144 0.382925
    """

    def __init__(self, curve, precision=1e-11):
        self._curve, self._precision = curve, precision
        self._known = {}

    def delta(self, epsilon):
        """(lower, upper) of delta at epsilon >= 0."""
        return tuple(float(bound) for bound in probabilities(*self.log_delta(epsilon)))

    def log_delta(self, epsilon):
        """(lower, upper) of log delta at epsilon >= 0."""
        if epsilon not in self._known:
            low, high = (float(bound) for bound in self._curve.log_delta_bounds(float(epsilon)))
            if math.isnan(low) or math.isnan(high):
                raise ArithmeticError(f"the bounds of delta at epsilon = {epsilon} came out as NaN")
            self._known[epsilon] = low, high
        return self._known[epsilon]

    def known(self):
        """[(epsilon, upper bound of delta)] of all evaluations so far, in order of epsilon."""
        return [(epsilon, self.delta(epsilon)[1]) for epsilon in sorted(self._known)]

    def advantage(self):
        """An upper bound of the largest power - alpha: delta at epsilon = 0."""
        return self.delta(0.0)[1]

    def epsilon(self, delta):
        """(lower, upper) of epsilon at delta in (0, 1]; inf where no epsilon below 512 meets it."""
        check_number("delta", delta, _DELTA)
        return self._crossing(delta, 0, False), self._crossing(delta, 1, True)

    def _crossing(self, delta, side, above):
        """Where the bound on this `side` falls to delta: the end of the last bracket that is above
        (or not) the crossing.
        """

        def excess(epsilon):
            return max(self.log_delta(epsilon)[side], -1e300) - math.log(delta)

        if excess(0.0) <= 0:
            return 0.0
        low = max(epsilon for epsilon in self._known if excess(epsilon) > 0)
        known = [epsilon for epsilon in self._known if excess(epsilon) <= 0]
        high = min(known) if known else max(2 * low, 0.25)
        while high <= _LARGEST and excess(high) > 0:
            low, high = high, 2 * high
        if high > _LARGEST:
            return math.inf if above else low
        at_low, at_high = excess(low), excess(high)
        # regula falsi, halving an end that stays (Illinois), and bisection where it is slow
        kept = 0
        for count in range(200):
            if high - low <= self._precision * high:
                break
            middle = (
                (low * at_high - high * at_low) / (at_high - at_low)
                if count % 4 != 3
                else 0.5 * (low + high)
            )
            middle = min(
                max(middle, low + 0.3 * self._precision * high), high - 0.3 * self._precision * high
            )
            at_middle = excess(middle)
            if at_middle > 0:
                low, at_low = middle, at_middle
                at_high *= 0.5 if kept == 1 else 1.0
                kept = 1
            else:
                high, at_high = middle, at_middle
                at_low *= 0.5 if kept == -1 else 1.0
                kept = -1
        return high if above else low

    def tpr(self, fpr):
        """An upper bound of the power at type I error `fpr` in [0, 1]:
        the lowest supporting line found there.

        Power <= delta + e^eps fpr and <= 1 - e^-eps (1 - delta - fpr), the other direction, for
        every epsilon; each is unimodal in epsilon, since delta is convex in e^epsilon.
        """
        check_number("fpr", fpr, UNIT)
        if fpr >= 1:
            return 1.0

        def line(epsilon):
            delta = self.delta(epsilon)[1]
            steep = (delta + math.exp(min(epsilon, 700.0)) * fpr) * (1 + _ROUNDED)
            return min(steep, 1 - math.exp(-epsilon) * (1 - delta - fpr) + _ROUNDED, 1.0)

        return self._lowest(line, fpr)

    def _lowest(self, line, fpr):
        """The minimum over epsilon by parabolas through the three lowest points, golden sections
        where they fail (Brent).
        """
        high = 0.25
        while high < _LARGEST and self.delta(high)[1] > 1e-3 * max(fpr, 1e-12):
            high *= 2
        points = sorted(
            (epsilon, line(epsilon)) for epsilon in {0.0, *(e for e in self._known if e <= high)}
        )
        width = max(math.sqrt(self._precision), 1e-4) * high
        for _ in range(24):
            best = min(range(len(points)), key=lambda i: points[i][1])
            left, right = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
            # the line is flat here: what lies within sqrt(precision)
            # is as low to about the precision
            if right[0] - left[0] <= width:
                break
            new = _vertex(left, points[best], right)
            if any(abs(new - epsilon) < 0.2 * width for epsilon, _ in points):
                wider = left if points[best][0] - left[0] > right[0] - points[best][0] else right
                new = points[best][0] + _GOLDEN * (wider[0] - points[best][0])
            if any(abs(new - epsilon) < 0.01 * width for epsilon, _ in points):
                break
            points = sorted([*points, (new, line(new))])
        return min(value for _, value in points)


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


def _vertex(left, middle, right):
    """Of the parabola through three points, or the middle one's place where there is none."""
    (a, at_a), (b, at_b), (c, at_c) = left, middle, right
    below = (b - a) * (at_b - at_c) - (b - c) * (at_b - at_a)
    if below == 0:
        return b
    found = b - 0.5 * ((b - a) ** 2 * (at_b - at_c) - (b - c) ** 2 * (at_b - at_a)) / below
    return found if a < found < c else b
