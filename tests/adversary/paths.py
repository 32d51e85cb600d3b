"""Losses of one step along a path of complex outcomes, to integrate e^(zL) over its law.

A path is x(s) = s + i (lift + more/(1 + e^(3-s)) + bend log(1 + e^(s - start))), s real: lifted,
e^(zL) decays for large Im z > 0 as e^(-Im z Im L); bent beyond the place where the step's branch
points lie, it decays for Re z > 0, too. A step gives the loss L and the logarithm of the density,
without the record, times dx/ds:

    Normal     N(0,1) against (1-q) N(0,1) + q N(m,1), the outcome x itself
    Magnitude  chi2_d against (1-q) chi2_d + q chi2_d(nc), of the magnitude r = log(1 + e^x)
    Replaced   the pair whose profile is the larger one of Normal's two directions: where L > 0 it
               is Normal's own, the outcome m/2 + log(1 + e^x); where L < 0 its mirror image; what
               is left is an outcome of loss 0
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from flint import acb, arb, ctx

from tests.adversary.balls import exact, precision, tail
from tests.adversary.chi_square import Unavailable
from tests.adversary.inversion import NATS

FARTHEST = 45.0  # standard deviations by which a real z may tilt a law
COARSE = 0.06


@dataclass(frozen=True)
class Line:
    lift: float = 0.0
    bend: float = 0.0
    start: float = 0.0
    more: float = 0.0

    def at(self, s):
        """(x, log dx/ds)."""
        if self.lift == 0:
            return acb(s), acb(0)
        gap, step = s - arb(self.start), 1 / (1 + (3 - s).exp())
        rise = soft(acb(gap)).real * arb(self.bend) + step * arb(self.more)
        slope = arb(self.bend) / (1 + (-gap).exp()) + step * (1 - step) * arb(self.more)
        return acb(s, arb(self.lift) + rise), acb(1, slope).log()


def soft(x):
    """log(1 + e^x)."""
    return x + (-x).exp().log1p() if x.real > 0 else x.exp().log1p()


def sampled(a, q):
    """log(1 - q + q e^a), followed continuously past |q e^a| = 1 - q."""
    if (q - 1).is_zero():
        return a
    odds = a + (q / (1 - q)).log()
    if odds.real > 0:
        return a + q.log() + (-odds).exp().log1p()
    return (1 - q).log() + odds.exp().log1p()


def confluent(z, a):
    """0F1(; a; z), at a higher precision where flint asks for one."""
    for times in (1, 2, 4, 8):
        with precision(ctx.prec * times):
            found = z.hypgeom_0f1(a)
        if found.rel_accuracy_bits() > ctx.prec - 30:
            return +found
    raise Unavailable("0F1")


class Normal:
    """`m()` and `q()` give balls at the context's precision; n such steps."""

    def __init__(self, m, q, n):
        self.m, self.q, self.n = m, q, int(n)
        with precision(64):
            self.pull, self.rate = float(m().mid()), float(q().mid())
            self.turn = float(((1 - q()) / q()).log().mid()) if self.rate < 1 else -math.inf

    middle = 0.0  # where the law without the record has its peak, in x
    reflected = False

    def line(self, bend, c):
        """Bent beyond the branch points."""
        start = max((self.turn + self.pull**2 / 2) / self.pull, 0.0)
        return Line(self.lift(c, 4.0), bend, start)

    def lift(self, c, most):
        """Half-way to the branch points; a quarter where e^(cL) would grow like e^|c e^L| there."""
        return min(math.pi / ((4 if c < 0 else 2) * self.pull), most)

    def floor(self):
        """The smallest loss."""
        return (1 - self.q()).log() if self.rate < 1 else arb("-inf")

    def left(self, c, bits):
        """Below which s the law, tilted by e^(cL), counts for nothing."""
        flat = (abs(self.turn) + math.log1p(abs(c)) + 5) / self.pull
        return -math.sqrt(2 * bits * NATS) - 3 - min(max(-c, 0.0) * self.pull, flat)

    def outcomes(self, line, mesh):
        """[(loss, log density)]"""
        m, q = self.m(), self.q()
        norm = (2 * arb.pi()).log() / 2
        for s in mesh:
            x, slope = line.at(s)
            yield sampled(m * x - m * m / 2, q), slope - x * x / 2 - norm

    def constant(self):
        return arb(0)

    @functools.cached_property
    def real(self):
        """(places, losses, log masses) on the real line in doubles: choices, no values."""
        low, high = self.left(-1e9, 60), self.middle + FARTHEST + 14
        places = COARSE * np.arange(math.floor(low / COARSE), int(high / COARSE))
        with precision(80):
            found = list(self.outcomes(Line(), [arb(s) for s in places]))
            losses = np.array([float(loss.real.mid()) for loss, _ in found])
            masses = np.array([float(w.real.mid()) for _, w in found]) + math.log(COARSE)
        return places, losses, masses

    def farthest(self, z):
        """Where the law tilted by e^(zL) has its peak; at least where the untilted law has it."""
        places, losses, masses = self.real
        return max(float(places[np.argmax(masses + z * losses)]), self.middle)

    def log_g(self, z):
        """log E[e^(zL)] for a real z in doubles."""
        if self.farthest(z) > self.middle + FARTHEST:
            raise OverflowError
        _, losses, masses = self.real
        terms = masses + z * losses
        if self.reflected:
            terms = np.concatenate([terms, masses + (1 - z) * losses, [self.log_constant]])
        return float(np.logaddexp.reduce(terms))


class Magnitude(Normal):
    """`dim` and `nc()` a ball at the context's precision."""

    def __init__(self, nc, dim, q, n):
        super().__init__(lambda: nc().sqrt(), q, n)
        self.nc, self.dim, self.middle = nc, dim, math.sqrt(dim)

    def line(self, bend, c):
        places, losses, _ = self.real
        with precision(64):
            even = float(sampled(acb(self.turn), self.q()).real.mid()) if self.rate < 1 else -1e9
        start = places[min(int(np.searchsorted(losses, even)), len(places) - 1)]
        # near r = 0 the loss turns with r^2
        low, high = self.lift(c, 0.45 if c < 0 else 1.2), self.lift(c, 3.0)
        return Line(low, bend, max(float(start), self.middle, 1.0), high - low)

    def floor(self):
        return sampled(acb(-self.nc() / 2), self.q()).real

    def left(self, c, bits):
        return -bits * NATS / self.dim - math.log1p(max(-c, 0.0) * self.pull**2) / 2 - 3

    def outcomes(self, line, mesh):
        nc, q, d = self.nc(), self.q(), exact(self.dim)
        norm = (1 - d / 2) * arb(2).log() - (d / 2).lgamma()
        angle = 0.0
        for s in mesh:
            x, slope = line.at(s)
            r = soft(x)
            ratio = confluent(nc * r * r / 4, d / 2).log()
            turns = round((angle - float(ratio.imag.mid())) / (2 * math.pi))
            ratio += acb(0, 2 * turns * arb.pi())
            angle = float(ratio.imag.mid())
            density = norm + (d - 1) * r.log() - r * r / 2 - (-x).exp().log1p()
            yield sampled(ratio - nc / 2, q), slope + density


class Replaced(Normal):
    reflected = True

    def line(self, bend, c):
        start = max(self.turn / self.pull, 1.0)
        return Line(self.lift(c, 1.2), bend, start)

    def floor(self):
        return arb("-inf")

    def left(self, c, bits):
        return -bits * NATS - 3

    def outcomes(self, line, mesh):
        m, q = self.m(), self.q()
        norm = (2 * arb.pi()).log() / 2
        for s in mesh:
            v, slope = line.at(s)
            x = m / 2 + soft(v)
            # (q e^a - q) at a = m (x - m/2), which may be next to 0
            a = m * soft(v)
            loss = (q * a.expm1()).log1p() if v.real < 0 else sampled(a, q)
            yield loss, slope - (-v).exp().log1p() - x * x / 2 - norm

    def constant(self):
        """1 - P(L > 0) - Q(L > 0)."""
        m, q = self.m(), self.q()
        return 1 - (2 - q) * tail(m / 2) - q * tail(-m / 2)

    @functools.cached_property
    def log_constant(self):
        with precision(200):
            return float(self.constant().log().mid())
