"""Pairs of mixtures of normal laws on the line, from their densities, in ball arithmetic.

A null sum_k v_k N(r_k, 1) and an alternative sum_k w_k N(s_k, 1) whose likelihood ratio grows:
delta(eps) = Q(x > t) - e^eps P(x > t) where Q/P passes e^eps, which is enclosed by the signs of
log Q/P - eps at both ends of a small ball.
"""

from flint import arb, ctx

from tests.adversary.balls import one, precision, tail, zero
from tests.adversary.chi_square import Unavailable


def log_sum(terms):
    """log sum e^a of [(weight, a)]."""
    largest = max((a for _, a in terms), key=lambda a: float(a.mid()))
    return sum((w * (a - largest).exp() for w, a in terms), zero()).log() + largest


class Line:
    """nulls, alternatives: [(weight, shift)] of balls, weights > 0."""

    def __init__(self, nulls, alternatives):
        self.nulls = [(w, s) for w, s in nulls if not w.is_zero()]
        self.alternatives = [(w, s) for w, s in alternatives if not w.is_zero()]

    def mu(self):
        """Of a plain shift of N(0, 1), else None."""
        if len(self.nulls) == len(self.alternatives) == 1 and self.nulls[0][1].is_zero():
            return self.alternatives[0][1]
        return None

    def loss(self, x):
        return log_sum([(w, s * (x - s / 2)) for w, s in self.alternatives]) - log_sum(
            [(w, s * (x - s / 2)) for w, s in self.nulls]
        )

    def same(self):
        return all(s.is_zero() for _, s in self.nulls + self.alternatives)

    def end(self, side):
        """The loss for x -> -inf (side -1) or inf, None where there is no end."""
        far = [
            max(law, key=lambda part: side * float(part[1].mid()))[1]
            for law in (self.alternatives, self.nulls)
        ]
        if not (far[0] - far[1]).is_zero():
            return None
        weights = [
            sum((w for w, s in law if (s - place).is_zero()), zero())
            for law, place in zip((self.alternatives, self.nulls), far)
        ]
        return (weights[0] / weights[1]).log()

    def threshold(self, eps):
        """A ball around the x with loss eps."""
        with precision(96):
            low, high = arb(-1), arb(1)
            for end in (-1, 1):
                for _ in range(3000):
                    place = low if end < 0 else high
                    if (self.loss(place) - eps) * end > 0:
                        break
                    low, high = (low * 2, high) if end < 0 else (low, high * 2)
                else:
                    raise Unavailable("no threshold")
            for _ in range(80):
                middle = ((low + high) / 2).mid()
                if self.loss(middle) > eps:
                    high = middle
                else:
                    low = middle
            x = ((low + high) / 2).mid()
        size = arb(2) ** (40 - ctx.prec) * (1 + abs(x))
        for _ in range(30):
            step = (self.loss(x) - eps) / self.slope(x)
            x = (x - step).mid()
            if abs(step) < size / 16:
                break
        for _ in range(200):
            if self.loss(x - size) < eps and self.loss(x + size) > eps:
                return (x - size).union(x + size)
            size = size * 4
        raise Unavailable("no threshold")

    def slope(self, x):
        """Of the loss: the posterior means of the shifts, one less the other."""

        def mean(law):
            whole = log_sum([(w, s * (x - s / 2)) for w, s in law])
            return sum((w * s * (s * (x - s / 2) - whole).exp() for w, s in law), zero())

        return mean(self.alternatives) - mean(self.nulls)

    def profile(self, eps, forward):
        if self.same():
            return trivial(eps)
        bottom, top = self.end(-1), self.end(1)
        if not forward:
            if bottom is not None and -eps <= bottom:
                return zero(), one()
            return reverse_of(*self.profile(-eps, True), -eps)
        if bottom is not None and eps <= bottom:
            return trivial(eps)
        if top is not None and eps >= top:
            return zero(), one()
        t = self.threshold(eps)
        power = sum((w * tail(t - s) for w, s in self.alternatives), zero())
        missed = sum((w * tail(s - t) for w, s in self.alternatives), zero())
        error = sum((w * tail(t - s) for w, s in self.nulls), zero()) * eps.exp()
        return power - error, missed + error


class Larger:
    """The pair whose profile is the larger of a pair's two directions."""

    def __init__(self, pair):
        self.pair = pair

    def profile(self, eps, forward):
        del forward
        return largest([self.pair.profile(eps, way) for way in (True, False)])


def largest(found):
    """Of [(delta, complement)] the one of the largest delta."""
    delta, complement = found[0]
    for d, c in found[1:]:
        if delta < 0.5:
            delta = delta.max(d)
            complement = 1 - delta if complement.rad() > 1e-3 else complement.min(c)
        else:
            delta, complement = delta.max(d), complement.min(c)
    return delta, complement


def trivial(eps):
    return (-eps.expm1(), eps.exp()) if eps < 0 else (zero(), one())


def reverse_of(delta, complement, eps):
    """(delta_r, 1 - delta_r) at -eps of delta at eps: delta_r(-eps) = 1 - e^-eps (1 - delta)."""
    again = (-eps).exp()
    kept = complement * again
    # 1 - e^-eps + e^-eps delta: of the two forms the one that keeps digits
    plain = again * delta - (-eps).expm1()
    other = 1 - kept
    return (plain if plain.rad() < other.rad() else other), kept
