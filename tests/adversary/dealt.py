"""Integrals over what is seen besides, by the trapezoidal rule on the whole line, whose error of an
analytic integrand falls exponentially: seen from the rule of half the nodes, and counted squared.
"""

import math

from flint import arb

from tests.adversary.balls import exact, one, tail, zero
from tests.adversary.chi_square import Unavailable
from tests.adversary.lines import Line


def over_the_line(pair_at, low, high, step):
    """The integral of pair_at(x), two balls, from low to high."""
    places, sums = range(int((high - low) / step) + 1), [zero(), zero()]
    halves = [zero(), zero()]
    for k in places:
        values = pair_at(arb(low) + arb(step) * k)
        for i, value in enumerate(values):
            sums[i] += value
            if k % 2 == 0:
                halves[i] += value
    out = []
    for whole, half in zip(sums, halves):
        whole, half = whole * step, half * 2 * step
        gap = abs(whole - half).upper()
        if gap > abs(whole) * arb(2) ** -20:
            raise Unavailable("a coarse rule")
        # the error squares as the step is halved; with room, for it is seen, not proved
        size = abs(whole) * ((gap / abs(whole)) ** 1.5 + arb(2) ** -80) if gap > 0 else zero()
        out.append(whole + size.union(-size))
    return out


def density(law, x):
    scale = (2 * arb.pi()).sqrt()
    return sum((w * (-((x - s) ** 2) / 2).exp() for w, s in law), zero()) / scale


class Both:
    """Two pairs seen together: delta(eps) = E_Q delta_2(eps - loss_1)."""

    def __init__(self, first, second):
        if not isinstance(first, Line):
            first, second = second, first
        if not isinstance(first, Line):
            raise Unavailable("two pairs, neither of them normal")
        self.first, self.second = first, second

    def profile(self, eps, forward):
        own = self.first.alternatives if forward else self.first.nulls
        sign = 1 if forward else -1
        shifts = [float(s.mid()) for _, s in self.first.alternatives + self.first.nulls]
        if max(map(abs, shifts)) > 8 or abs(float(eps.mid())) > 60:
            raise Unavailable("far shifts")
        reach = 11.0 + 2 * abs(float(eps.mid())) ** 0.5

        def at(x):
            weight = density(own, x)
            d, c = self.second.profile(eps - sign * self.first.loss(x), forward)
            return weight * d, weight * c

        pull = max(1.0, max(map(abs, shifts)))
        found = over_the_line(at, min(shifts) - reach, max(shifts) + reach, 0.14 / pull**0.5)
        # what lies further out is no larger than this, and may be all that there is
        if min(float(part.mid()) for part in found) < 1e20 * math.exp(-reach * reach / 2):
            raise Unavailable("far tails")
        return found


class TwoSteps:
    """(N(a e_1, I) + N(a e_2, I))/2 against N(0, I) in two dimensions: given d = (x - y)/sqrt 2 the
    ratio is e^(-a^2/2) cosh(b d) e^(b s), b = a/sqrt 2, s = (x + y)/sqrt 2 normal.
    """

    def __init__(self, a):
        self.a = a

    def profile(self, eps, forward):
        if not forward:
            # delta_r(eps) = E (1 - e^eps M)_+
            return self.integral(-eps, eps, False)
        return self.integral(eps, zero(), True)

    def integral(self, at, scale, above):
        """e^scale E (M - e^at)_+ and what is left of its largest value, or E (e^at - M)_+."""
        a = self.a
        b = a / arb(2).sqrt()
        reach = 14.0 + 2 * float(a.mid()) + abs(float((at / a).mid()))
        if reach > 200 or float(b.mid()) > 12:
            raise Unavailable("far tails")

        def pair_at(d):
            weight = density([(one(), zero())], d)
            log_c = (b * d).cosh().log() - a * a / 2
            z = (at - log_c) / b
            level = (scale + log_c + b * b / 2).exp()
            strike = (scale + at).exp()
            if above:
                delta = level * tail(z - b) - strike * tail(z)
                rest = level * tail(b - z) + strike * tail(z)
            else:
                delta = strike * tail(-z) - level * tail(b - z)
                rest = strike * tail(z) + level * tail(b - z)
            return weight * delta, weight * rest

        step = min(0.1, 0.12 / max(float(b.mid()), 1.0))
        return over_the_line(pair_at, -reach, reach, step)


def allocation(steps, noise):
    a = 1 / exact(noise)
    if steps == "1":
        return [(one(), one(), Line([(one(), zero())], [(one(), a)]))]
    return [(one(), one(), TwoSteps(a))]


def of_the_largest(steps, low, high, eps):
    """The best that is found of P(max > c) - e^eps P_0(max > c), of `steps` normal variables of
    which one has mean `high`, or under the null `low`: a floor.
    """

    def value(c):
        # 1 - Phi(c)^(n-1) Phi(c-s), of small tails
        above = [
            -(((-tail(c)).log1p() * (steps - 1) + (-tail(c - s)).log1p()).expm1())
            for s in (high, low)
        ]
        return above[0] - eps.exp() * above[1]

    places = [arb(k) / 2 for k in range(-16, int(2 * (40 + 3 * float(high.mid()))))]
    best, found = max(((value(c), c) for c in places), key=lambda pair: float(pair[0].mid()))
    step = 0.25
    for _ in range(14):
        for c in (found - step, found + step):
            if value(c) > best:
                best, found = value(c), c
        step /= 2
    return best.max(zero())
