"""Profiles of few steps: the inversion of `inversion` along a ray turned towards large Re z.

On z = c + (slope + i) y, 0 <= y, the factor e^(-eps z) decays though the transform may not: that
of few steps at a small rate is 1 + little over many periods of e^(-i eps y), and an outcome of loss
0 adds a constant. Between that ray and the line Re z = c there is no pole, and the transform is
bounded for slopes below 1. With the ray from below, conjugate,

    I(eps) = (1/pi) Im (slope + i) int_0^inf G(z) e^(-eps (z-1)) / (z (z-1)) dy,

by Gauss-Legendre on [0, Y], [Y, 2Y], [2Y, 4Y], ...: e^((slope + i) y L) of a panel is the square of
the one before. What two computations with other slopes, panels, paths of outcomes and meshes
differ by is taken for the error.
"""

import math

import numpy as np
from flint import acb, acb_mat, arb

from tests.adversary.balls import precision
from tests.adversary.chi_square import Unavailable
from tests.adversary.inversion import NATS, Composition, gauss

LEVELS = ((54, (48, 96)), (170, (160,)))  # bits of the saddle point's value; nodes of a panel
ROUGH = ((38, (40, 80)),)  # where no bracket is narrow
SPARE = 3.0  # nats
RAYS = ((0.3, 0.5, 1.0), (0.24, 0.42, 0.77))  # (slope, bend, stretch)
MOST_BITS = 900
MOST_PANELS = 250


class Turned(Composition):
    """`steps` of `paths`; `value(eps, region)` as of `Composition`."""

    def __init__(self, steps, levels=LEVELS):
        super().__init__()
        self.steps, self.levels = steps, levels

    def new_log_g(self, z):
        return sum(s.n * s.log_g(z) for s in self.steps)

    def floor(self):
        return sum((s.floor() * s.n for s in self.steps), arb(0))

    def value(self, eps, region):
        c = self.crossing(float(eps.mid()), region)
        for aim, rules in self.levels:
            self.aim = aim
            rays = [self.ray(eps, c, *ray) for ray in RAYS]
            for nodes in rules:
                first, second = (self.along(ray, eps, nodes) for ray in rays)
                with precision(400):
                    gap = 2 * abs(first - second) + abs(second.mid()) * arb(2) ** -self.levels[0][0]
                    found = second + arb(0, 1) * gap
                if found.is_finite() and found.rel_accuracy_bits() > self.levels[0][0] - 16:
                    return found
        raise Unavailable("the inversion did not settle")

    def crossing(self, eps, region):
        """Between a pole and the saddle point, where the integrand is e^SPARE of its size there.

        Losses that hardly ever occur place the saddle point far out, where paths are hard to
        follow, for little gain.
        """
        far, least = self.saddle(eps, region)
        if not math.isfinite(least):
            raise Unavailable("no saddle point")
        if region == "complement":
            return far
        pole = 1.0 if region == "delta" else 0.0
        near, distance = 0.0, far - pole
        for _ in range(40):
            middle = 0.5 * (near + distance)
            if self.guarded(pole + middle, eps) > least + SPARE:
                near = middle
            else:
                distance = middle
        return pole + distance

    def idle(self):
        """The transform's limit, P(all losses are 0), which adds to the complement only."""
        out = arb(1)
        for step in self.steps:
            out *= step.constant() ** step.n
        return out

    def width(self, eps, c):
        """Of the integrand around c."""
        h = 0.1 * min(abs(c), abs(c - 1))
        at = [self.guarded(z, eps) for z in (c - h, c, c + h)]
        bend = (at[0] - 2 * at[1] + at[2]) / h**2
        return 1.5 / math.sqrt(bend) if 0 < bend < math.inf else h

    def ray(self, eps, c, slope, bend, stretch):
        """(c, slope, end of the first panel, meshes)"""
        first = stretch * self.width(float(eps.mid()), c)
        with precision(400):
            gap = eps - self.floor() if self.floor().is_finite() else eps
        reach = (self.aim + 20) * NATS / (max(float(gap.mid()), 1e-300) * slope)
        reach, where = min(reach, first * 2.0**self.aim), (c, slope, bend)
        return c, slope, first, [Mesh(s, *where, first, reach, self.aim) for s in self.steps]

    def along(self, ray, eps, nodes):
        c, slope, first, meshes = ray
        bits = max(m.bits for m in meshes)
        with precision(bits):
            start, way, rule = arb(c), acb(arb(slope), 1), gauss(nodes, bits)
            ys = [arb(first) * t for t, _ in rule]
            total = self.panel([m.begin(way, ys) for m in meshes], start, way, ys, rule, eps)
            total *= first
            ys = [arb(first) * (1 + t) for t, _ in rule]
            values, width = [m.begin(way, ys) for m in meshes], arb(first)
            for _ in range(MOST_PANELS):
                total += self.panel(values, start, way, ys, rule, eps) * width
                if self.largest * width < abs((way * total).imag).mid() * arb(2) ** -(self.aim + 4):
                    found = abs((way * total).imag / arb.pi())
                    return found + self.idle() if 0 < c < 1 else found
                values, ys, width = [m.double() for m in meshes], [2 * y for y in ys], 2 * width
        raise Unavailable("the transform has not decayed")

    def panel(self, values, start, way, ys, rule, eps):
        """The integral over a panel of width 1, from E[e^(zL)] of all steps."""
        g = [acb(1)] * len(ys)
        for step, found in zip(self.steps, values):
            g = [a * v**step.n for a, v in zip(g, found)]
        idle = self.idle()
        terms = [self.term(v - idle, start + way * y, eps) for v, y in zip(g, ys)]
        self.largest = max(abs(t).upper() for t in terms)
        return sum((t * w for t, (_, w) in zip(terms, rule)), acb(0))


class Mesh:
    """A trapezoid along one step's path that agrees with its midpoints' all along the ray."""

    def __init__(self, step, c, slope, bend, first, reach, aim):
        self.aim, self.step, self.c, self.line = aim, step, c, step.line(bend, c)
        self.growth = 1 - bend**2
        known = step.log_g(c)
        goal = aim + 12 + math.log2(step.n)
        self.bits = int(goal + 50 + self.lost(known))
        if self.bits > MOST_BITS:
            raise Unavailable("too much is lost on the path")
        with precision(self.bits):
            found = self.settled(probes(c, slope, first, reach), goal)
            if abs(float(found.log().mid()) - known) > 1e-6 * (1 + abs(known)):
                raise Unavailable("the path passes a branch point on its wrong side")

    def lost(self, known):
        """Bits by which terms at z = c are larger than their sum, e^known."""
        with precision(160):
            nodes = self.nodes(0.2, *self.span(self.aim), 0)
            sizes = [[float((z * loss + w).real.mid()) for loss, w in nodes] for z in self.sides()]
        return max(float(np.logaddexp.reduce(np.concatenate(sizes))) - known, 0.0) / NATS

    def sides(self):
        """E[e^(zL)] has a term in e^((1-z) L) where losses are reflected."""
        return [arb(self.c), arb(1 - self.c)] if self.step.reflected else [arb(self.c)]

    def span(self, bits):
        peak = max(self.step.farthest(z) for z in (self.c, 1.0)) / self.growth
        high = peak + math.sqrt(2 * bits * NATS / self.growth) + 3
        return self.step.left(self.c, bits) - 1, high

    def settled(self, zs, goal):
        """Keeps the coarsest mesh that agrees with its midpoints; E[e^(cL)]."""
        mesh = min(2 * math.pi * 0.8 * min(self.line.lift, 1.2) / (self.bits * NATS + 5), 0.3)
        for _ in range(5):
            here, between = (self.nodes(mesh, *self.span(self.bits), k) for k in (0, arb(0.5)))
            at = [self.total(here, z) for z in zs]
            gaps = [abs(a - self.total(between, z)) for a, z in zip(at, zs)]
            if all(gap < abs(at[0]).mid() * arb(2) ** -goal for gap in gaps):
                self.keep(here, abs(at[0]).mid() * arb(2) ** -self.bits)
                return abs(at[0])
            mesh /= 2
        raise Unavailable("no mesh is fine enough")

    def nodes(self, mesh, low, high, offset):
        span = range(math.floor(low / mesh), math.ceil(high / mesh) + 1)
        norm = arb(mesh).log()
        points = [arb(mesh) * (arb(j) + offset) for j in span]
        return [(loss, w + norm) for loss, w in self.step.outcomes(self.line, points)]

    def total(self, nodes, z):
        """E[e^(zL)]"""
        out = sum(((z * loss + w).exp() for loss, w in nodes), acb(0)) + self.step.constant()
        if self.step.reflected:
            other = 1 - z.conjugate()
            out += sum(((other * loss + w).exp() for loss, w in nodes), acb(0)).conjugate()
        return out

    def keep(self, nodes, least):
        """[(losses, weights e^(zL))] of the sides, without what adds nothing."""
        self.least, self.kept = least, []
        for z in self.sides():
            weighed = [(loss, (z * loss + w).exp()) for loss, w in nodes]
            self.kept.append([(loss, w) for loss, w in weighed if abs(w) > least])

    def begin(self, way, ys):
        """E[e^(zL)] at z = c + way y."""
        ways, self.count = [way, -way.conjugate()], len(ys)
        self.held = [
            [(w, [(to * loss * y).exp() for y in ys]) for loss, w in side]
            for to, side in zip(ways, self.kept)
        ]
        return self.values()

    def double(self):
        """The same at 2 y, without the outcomes that have died out."""
        least = self.least
        self.held = [
            [(w, [e * e for e in row]) for w, row in side if abs(w * row[0]) > least]
            for side in self.held
        ]
        return self.values()

    def values(self):
        here, *mirrored = (
            (acb_mat([[w for w, _ in side]]) * acb_mat([row for _, row in side])).entries()
            if side
            else [acb(0)] * self.count
            for side in self.held
        )
        for other in mirrored:
            here = [v + w.conjugate() for v, w in zip(here, other)]
        return [v + self.step.constant() for v in here]


def probes(c, slope, first, reach):
    """Places along the ray from its start to where the integrand has died out."""
    ys = [0.0, *(first * (reach / first) ** (k / 4) for k in range(5))]
    return [acb(arb(c) + arb(slope) * y, arb(y)) for y in ys]


__all__ = ["Turned", "Unavailable"]
