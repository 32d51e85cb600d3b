"""The curve of a group of records, of a mechanism of labels alone, by its definition."""

import math

from tests.adversary.balls import one, zero
from tests.adversary.chi_square import Unavailable


def falling(masses):
    """Sorts (P, Q) by falling losses."""
    p, q = masses
    return -float((q / p).log().mid()) if q > 0 else math.inf


class Group:
    """The power of k links, each given the one before: vertices of polygons, whose levels are found
    by the inverse of a link.
    """

    def __init__(self, size, found):
        if any(pair is not None for *_, pair in found):
            raise Unavailable("a group of no polygon")
        self.revealed = sum((q for p, q, _ in found if p.is_zero()), zero())
        both = [(p, q) for p, q, _ in found if not p.is_zero()]
        both.sort(key=falling)
        self.sides, self.knots = both, [(zero(), self.revealed)]
        for p, q in both:
            a, b = self.knots[-1]
            self.knots.append((a + p, b + q))
        levels = [a for a, _ in self.knots]
        for _ in range(size - 1):
            levels = [a for a, _ in self.knots] + [
                x for level in levels for x in [self.level(level)] if x is not None
            ]
        self.points = []
        for level in levels:
            power = level
            for _ in range(size):
                power = self.power(power)
            self.points.append((level, power))

    def power(self, level):
        """The least of all sides, continued: the power is concave."""
        found = one()
        for (a, b), (p, q) in zip(self.knots, self.sides):
            found = found.min(b + (level - a) * q / p)
        return found

    def level(self, power):
        """The level of this power, None below what is told for sure."""
        if power < self.revealed:
            return None
        found = zero()
        for (a, b), (p, q) in zip(self.knots, self.sides):
            if q > 0:
                found = found.max(a + (power - b) * p / q)
        return found

    def profile(self, eps, forward):
        del forward
        delta, rise = zero(), eps.exp()
        if eps < 0:
            delta = -eps.expm1()
        for level, power in self.points:
            delta = delta.max(power - rise * level)
        return delta, 1 - delta
