"""Profiles of compositions by inverting the transform of the privacy loss, in ball arithmetic.

With G(z) = E_P[e^(zL)] of the whole composition (a product), L = log dQ/dP:

    I(eps) = (1/2 pi i) int_(c + iR) G(z) e^(-eps (z-1)) / (z (z-1)) dz

is, by residues at z = 1 (where G = 1) and z = 0 (where G = 1, weight e^eps),

    c > 1:      delta(eps)                         = E_Q[(1 - e^(eps-L))_+]
    0 < c < 1:  delta(eps) - 1                     = -E_Q[min(1, e^(eps-L))]
    c < 0:      delta(eps) - 1 + e^eps             = E_Q[(e^(eps-L) - 1)_+]

all of one sign, so that c at the saddle point gives each with relative accuracy. The reverse
direction is the third: delta_reverse(eps) = e^eps I_3(-eps), and its complement e^eps
E_Q[min(1, e^(-eps-L))]. The trapezoid rule in Im z with step h sees the images of eps at distance
2 pi k/h; by Chernoff |I(e)| <= G(c') e^(-(c'-1) e) for every c' of the same strip, which bounds
them. Where it is cut the last rows of terms are watched. Parts:

    ("shift", m, q, n)   n-fold N(0,1) against (1-q) N(0,1) + q N(m,1):
                         G(z) = E[(1 - q + q e^(mx - m^2/2))^z]
    ("normal", s)        N(0,1) against N(mu,1) with s = mu^2 summed: e^(s z (z-1)/2)
    ("laplace", r, n)    atoms -r (1/2), r (e^-r/2) and density e^-x/2 at the loss 2x - r
    ("finite", [(loss, P)], n)

The expectation of "shift" is a trapezoid in x along the line Im x = d > 0, on which e^(i y L)
decays for y > 0 as e^(-y arg(.)); the logarithm's branch points lie at Im x = pi/m. G(1) = 1 with
the same nodes watches the quadrature.
"""

import math
from dataclasses import dataclass

import numpy as np
from flint import acb, acb_mat, arb, ctx, fmpq

from tests.adversary.balls import exact, precision
from tests.adversary.chi_square import Unavailable

TOLERANCE = 90  # bits of relative accuracy aimed at
ROUGH = 58  # where the transform decays slowly
COLUMNS = 48
MOST = 12_000  # frequencies
PATIENCE = 4_000_000  # nodes times frequencies where the transform decays slowly
NATS = math.log(2.0)


@dataclass(frozen=True)
class Shift:
    m: object  # callables -> arb at the context's precision
    q: object
    n: int
    m_float: float
    q_float: float


class Composition:
    """Parts of a composition; `value(eps, region)` is |I| in one of the three regions."""

    def __init__(self, shifts=(), normal=None, normal_float=0.0, laplaces=(), finites=()):
        self.shifts, self.normal, self.normal_float = list(shifts), normal, normal_float
        self.laplaces, self.finites = list(laplaces), list(finites)
        self.kept, self.aim = {}, TOLERANCE

    def log_g(self, z):
        """log G at a real z in doubles: chooses lines and steps, enters no value."""
        if z not in self.kept:
            self.kept[z] = self.new_log_g(z)
        return self.kept[z]

    def new_log_g(self, z):
        total = self.normal_float * z * (z - 1) / 2
        for s in self.shifts:
            total += s.n * shift_log_g(s.m_float, s.q_float, z)
        for r, n in self.laplaces:
            total += n * laplace_log_g(float(r), z)
        for atoms, n, _ in self.finites:
            terms = np.array([math.log(p) + z * loss for loss, p in atoms])
            total += n * float(np.logaddexp.reduce(terms))
        return total

    def exponent(self, z, eps):
        return self.log_g(z) - eps * (z - 1) - math.log(abs(z * (z - 1)))

    def saddle(self, eps, region):
        """argmin of the exponent on z > 1, (0, 1) or z < 0."""
        to_z, low, high = {
            "delta": (lambda u: 1 + math.exp(u), -40.0, 40.0),
            "complement": (lambda u: 1 / (1 + math.exp(-u)), -34.0, 34.0),
        }.get(region, (lambda u: -math.exp(u), -40.0, 40.0))
        grid = np.linspace(low, high, 61)
        values = [self.guarded(to_z(u), eps) for u in grid]
        best = int(np.argmin(values))
        a, b = grid[max(best - 1, 0)], grid[min(best + 1, 60)]
        for _ in range(16):
            u, v = a + (b - a) * 0.382, a + (b - a) * 0.618
            if self.guarded(to_z(u), eps) < self.guarded(to_z(v), eps):
                b = v
            else:
                a = u
        c = to_z((a + b) / 2)
        return c, self.guarded(c, eps)

    def guarded(self, z, eps):
        try:
            value = self.exponent(z, eps)
        except (OverflowError, ValueError, FloatingPointError):
            return math.inf
        return value if value == value else math.inf

    def period(self, eps, c, region, log_value):
        """Lambda = 2 pi/h such that both images of eps add less than 2^-self.aim of the value."""
        aim = log_value - (self.aim + 8) * NATS
        low, high = {
            "delta": (1.0, math.inf),
            "complement": (0.0, 1.0),
            "reverse": (-math.inf, 0.0),
        }[region]
        found = {}
        for side in (1, -1):
            best = math.inf
            for k in range(-24, 22):
                step = 2.0**k
                z = c + side * step
                if not low <= z <= high:
                    z = low if side < 0 else high
                if math.isinf(z) or z == c:
                    continue
                try:
                    bound = self.log_g(z) - eps * (z - 1)
                except (OverflowError, ValueError):
                    continue
                if bound == bound:
                    best = min(best, (bound - aim + NATS) / abs(z - c))
            found[side] = best
        return max(*found.values(), 1e-300)

    def value(self, eps, region):
        """The ball of |I(eps)|, eps a ball of exact content."""
        found = self.unchecked(eps, region)
        if not (found.is_finite() and found.rel_accuracy_bits() > 20):
            raise Unavailable("the inversion did not settle")
        return found

    def unchecked(self, eps, region):
        e = float(eps.mid())
        c, log_value = self.saddle(e, region)
        if not math.isfinite(log_value):
            raise Unavailable("no saddle point")
        period = self.period(e, c, region, log_value)
        frequencies = self.frequencies(c, 2 * math.pi / period)
        if frequencies <= MOST / 2:
            return self.inverted(eps, c, period, frequencies)
        if self.aim > ROUGH:
            rough = Composition(
                self.shifts, self.normal, self.normal_float, self.laplaces, self.finites
            )
            rough.aim, rough.kept = ROUGH, self.kept
            return rough.value(eps, region)
        reach = 2 * math.pi / period * frequencies
        if not math.isfinite(reach):
            raise Unavailable("the transform does not decay")
        first = self.in_panels(eps, c, period, reach, 1.0)
        second = self.in_panels(eps, c, period, reach, 0.77)
        with precision(400):
            return second + arb(0, 1) * (
                2 * abs(first - second) + abs(second.mid()) * arb(2) ** -self.aim
            )

    def frequencies(self, c, h):
        """About how many steps h it takes until the integrand has decayed,
        in doubles (a choice, no value).
        """
        lines = [(s.n, *shift_line(s, c)) for s in self.shifts]
        small = 0
        for k in range(2, 200):
            y = h * 2.0 ** (k / 2)
            log_size = -self.normal_float * y * y / 2 - math.log(
                abs(complex(c, y) * complex(c - 1, y))
            )
            log_size += math.log(abs(c * (c - 1)))
            for n, weights, loss in lines:
                g = max(
                    abs(np.sum(weights * np.exp(1j * y * 2.0 ** (e / 8) * loss)))
                    for e in (-1, 0, 1)
                )
                log_size += n * math.log(max(g, 1e-11))
            small = small + 1 if log_size < -(self.aim + 8) * NATS else 0
            if small == 3:
                return y / h / 2
        return math.inf

    def in_panels(self, eps, c, period, reach, stretch):
        """Gauss-Legendre on [0, Y], [Y, 2Y], [2Y, 4Y], ...:
        e^(iyL) of a panel is the square of the one before.
        """
        pole = min(abs(c), abs(c - 1))
        y0 = stretch * min(3 * pole, 50 / period)
        panels = max(1, math.ceil(math.log2(reach / y0)) + 3)
        cycles = reach * abs(float(eps.mid())) / 4
        n = next((n for n in (64, 96, 160, 256) if cycles < 0.8 * n - 25), None)
        if n is None or panels > 60:
            raise Unavailable("too many oscillations before the transform has decayed")
        bits, most = self.bits()
        bits += panels
        with precision(bits):
            z0 = arb(c)
            rule = gauss(n, bits)
            meshes = [(s.n, *shift_mesh(s, z0, c, bits, reach, self.aim)) for s in self.shifts]
            if sum(len(losses) for _, losses, _ in meshes) * n * panels > PATIENCE:
                raise Unavailable("the transform decays too slowly")
            total, scale, held = acb(0), None, {}
            for panel in range(-1, panels + 4):
                if panel < 0:
                    ys, width = [arb(y0) * t for t, _ in rule], arb(y0)
                else:
                    width = arb(y0) * 2**panel
                    ys = [width * (1 + t) for t, _ in rule]
                g = [acb(1)] * n
                for k, (count, losses, weights) in enumerate(meshes):
                    if panel <= 0:
                        rows = [[(acb(0, 1) * y * loss).exp() for y in ys] for loss in losses]
                    else:
                        rows = [[e * e for e in row] for row in held[k]]
                    held[k] = rows
                    values = (acb_mat([weights]) * acb_mat(rows)).entries()
                    g = [a * v**count for a, v in zip(g, values)]
                terms = [self.term(g[i], acb(z0, ys[i]), eps) for i in range(n)]
                total += sum((t * w for t, (_, w) in zip(terms, rule)), acb(0)) * width
                scale = abs(terms[0]).mid() if scale is None else scale
                if max(abs(t).mid() for t in terms) * width < abs(total).mid() * arb(2) ** -(
                    self.aim + 4
                ):
                    break
            else:
                raise Unavailable("the transform has not decayed")
            return abs(total.real / arb.pi())

    def bits(self):
        most = max(
            [s.n for s in self.shifts]
            + [n for _, n in self.laplaces]
            + [f[1] for f in self.finites]
            + [1]
        )
        shift = max([0.0] + [min(math.pi / (2 * s.m_float), 7.0) ** 2 / 2 for s in self.shifts])
        return int(self.aim + 60 + math.log2(most) + 2 * shift / NATS), most

    def inverted(self, eps, c, period, frequencies):
        bits, _ = self.bits()
        with precision(bits):
            z0 = arb(c)
            h = 2 * arb.pi() / arb(period)
            total = acb(0)
            rows_done, rows = 0, 4
            reach = 2 * math.pi / period * frequencies
            tables = [(s.n, shift_nodes(s, z0, h, c, bits, reach, self.aim)) for s in self.shifts]
            scale = None
            while True:
                if (rows_done + rows) * COLUMNS > MOST:
                    raise Unavailable(f"more than {MOST} frequencies")
                terms = self.terms(tables, z0, h, eps, rows_done, rows)
                part = sum(terms[1:] if rows_done == 0 else terms, acb(0))
                if rows_done == 0:
                    part += terms[0] / 2
                    scale = abs(terms[0]).mid()
                total += part
                last = max(
                    float((abs(t).upper() / scale).upper().mid()) for t in terms[-2 * COLUMNS :]
                )
                rows_done += rows
                if last * rows_done * COLUMNS < 2.0 ** -(self.aim + 6):
                    break
                rows = min(rows_done, 128)
            result = abs(total.real * h / arb.pi())
            return result + arb(0, 1) * abs(result.mid()) * arb(2) ** -self.aim

    def terms(self, tables, z0, h, eps, first_row, rows):
        count = rows * COLUMNS
        g = [acb(1)] * count
        for n, nodes in tables:
            values = nodes.values(first_row, rows)
            g = [a * v**n for a, v in zip(g, values)]
        return [self.term(g[k], acb(z0, h * (first_row * COLUMNS + k)), eps) for k in range(count)]

    def term(self, g, z, eps):
        """G(z) e^(-eps (z-1))/(z (z-1)), g the product of the sub-sampled parts."""
        value = g / (z * (z - 1))
        power = -eps * (z - 1)
        if self.normal is not None:
            power += self.normal() * z * (z - 1) / 2
        value *= power.exp()
        for r, n in self.laplaces:
            value *= laplace_g(exact(r), z) ** n
        for _, n, make in self.finites:
            value *= sum(((z * loss).exp() * p for loss, p in make()), acb(0)) ** n
        return value


RULES = {}


def gauss(n, bits):
    """Gauss-Legendre nodes and weights on [0, 1]."""
    if (n, bits) not in RULES:
        pairs = [arb.legendre_p_root(n, k, weight=True) for k in range(n)]
        RULES[n, bits] = [((1 + t) / 2, w / 2) for t, w in pairs]
    return RULES[n, bits]


class Nodes:
    """E_j = e^(i h L_j) and weights w_j e^(z0 L_j) of one part's quadrature."""

    def __init__(self, weights, base):
        self.weights, self.base = weights, base
        self.row_base = [b**COLUMNS for b in base]
        columns = []
        for b in base:
            powers, p = [], acb(1)
            for _ in range(COLUMNS):
                powers.append(p)
                p = p * b
            columns.append(powers)
        self.columns = acb_mat(columns)
        self.front, self.row = list(weights), 0

    def values(self, first_row, rows):
        """G at rows first_row.. as one matrix product; rows are asked for in order."""
        assert first_row == self.row
        table = []
        for _ in range(rows):
            table.append(self.front)
            self.front = [a * b for a, b in zip(self.front, self.row_base)]
        self.row += rows
        return (acb_mat(table) * self.columns).entries()


def shift_nodes(s, z0, h, c, bits, reach, aim):
    losses, weights = shift_mesh(s, z0, c, bits, reach, aim)
    return Nodes(weights, [(acb(0, 1) * h * loss).exp() for loss in losses])


def shift_mesh(s, z0, c, bits, reach, aim):
    """(losses, weights e^(z0 L)) of a mesh that agrees with that of its midpoints at z0 + i
    (0, reach/3, reach).
    """
    m, q = s.m(), s.q()
    d = min(math.pi / (2 * s.m_float), 7.0)
    step = min(2 * math.pi * d / (bits * NATS + d * d), 0.45)
    low, high = shift_range(s.m_float, s.q_float, c, bits)
    needed = aim + 10 + math.log2(s.n)
    probes = [acb(z0, arb(y)) for y in (0.0, reach / 3, reach)]

    def mesh(step, offset):
        return [
            (x, ((1 - q) + q * (m * x - m * m / 2).exp()).log())
            for x in (
                acb(arb(step) * (arb(j) + offset), arb(d))
                for j in range(math.floor(low / step), math.ceil(high / step) + 1)
            )
        ]

    def weights(nodes, z, step):
        norm = arb(step) / (2 * arb.pi()).sqrt()
        return [norm * (z * loss - x * x / 2).exp() for x, loss in nodes]

    for _ in range(6):
        nodes, others = mesh(step, 0), mesh(step, arb(0.5))
        size = abs(sum(weights(nodes, z0, step), acb(0))).mid()
        gaps = [
            abs(sum(weights(nodes, z, step), acb(0)) - sum(weights(others, z, step), acb(0))) / size
            for z in probes
        ]
        if all(g < arb(2) ** -needed for g in gaps):
            return [loss for _, loss in nodes], weights(nodes, z0, step)
        step /= 2
        if len(nodes) > 6000:
            break
    raise Unavailable("no mesh is fine enough")


def shift_line(s, c):
    """(weights, losses) of a quadrature on a shifted line with G(c) as the unit, in doubles."""
    center = c * s.m_float
    if abs(center) > 1e4:
        raise Unavailable("line too far out")
    d = min(math.pi / (2 * s.m_float), 3.0)
    x = np.arange(min(0.0, center) - 14, max(0.0, center) + 14, min(0.02, 0.1 / s.m_float)) + 1j * d
    loss = np.log((1 - s.q_float) + s.q_float * np.exp(s.m_float * x - s.m_float**2 / 2))
    f = -x * x / 2 + c * loss
    weights = np.exp(f - f.real.max())
    return weights / weights.sum(), loss


def shift_range(m, q, c, bits):
    """Where -x^2/2 + c L(x) lies within 2^-bits of its largest value."""
    reach = math.sqrt(2 * bits * NATS) + 3
    x = np.linspace(min(0.0, c * m) - reach, max(0.0, c * m) + reach, 4001)
    f = -x * x / 2 + c * shift_loss(m, q, x)
    keep = x[f > f.max() - bits * NATS - 3]
    return float(keep[0]) - 0.5, float(keep[-1]) + 0.5


def shift_loss(m, q, x):
    stay = math.log1p(-q) if q < 1 else -math.inf
    return np.logaddexp(stay, math.log(q) + m * x - m * m / 2)


def shift_log_g(m, q, z):
    """log G(z) of one part in doubles, from nodes around the two places where the
    integrand peaks: 0 and z m.
    """
    center = z * m
    if abs(center) > 1e7:
        raise OverflowError
    step = min(0.05, 0.4 / m) if m < 40 else 0.01
    half = round(14 / step)
    ring, middle = np.arange(-half, half + 1), round(center / step)
    x = step * np.union1d(
        ring, ring + middle
    )  # one mesh: a gap or a doubled node would count n times
    f = -x * x / 2 + z * shift_loss(m, q, x)
    top = f.max()
    return float(top + math.log(np.exp(f - top).sum() * step / math.sqrt(2 * math.pi)))


def laplace_log_g(r, z):
    a = math.log(0.5) - z * r
    b = math.log(0.5) - r + z * r
    k = 2 * z - 1
    middle = (
        math.log(0.5)
        - z * r
        + (max(k * r, 0.0) + math.log(-math.expm1(-abs(k) * r) / abs(k)) if k else math.log(r))
    )
    return float(np.logaddexp.reduce([a, b, middle]))


def laplace_g(r, z):
    k = 2 * z - 1
    return ((-z * r).exp() + ((z - 1) * r).exp() + (-z * r).exp() * ((k * r).exp() - 1) / k) / 2


def shift_part(m_of, q, n, m_float):
    """m_of() -> ball of m at the context's precision; q a double."""
    return Shift(m_of, lambda: exact(q), int(n), m_float, float(q))


def composed(composition, eps, forward):
    """(delta, complement) of a composition at a ball eps:
    the smaller one by its own line, the other by difference.
    """
    at = eps if forward else -eps
    e = float(at.mid())
    own = "delta" if forward else "reverse"
    _, log_own = composition.saddle(e, own)
    _, log_other = composition.saddle(e, "complement")
    if log_own <= log_other + (0 if forward else 0):
        value = composition.value(at, own)
        with precision(400):
            delta = value if forward else value * eps.exp()
            return delta, 1 - delta
    value = composition.value(at, "complement")
    with precision(400):
        complement = value if forward else value * eps.exp()
        return 1 - complement, complement


__all__ = ["Composition", "Unavailable", "composed", "shift_part", "fmpq", "ctx"]
