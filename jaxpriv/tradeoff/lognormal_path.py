"""The path of `lognormal_mean`'s integrals: a hyperbola around the branch cut z <= 0 of N,

    z(w) = mu (1 + sin(i w - phi)),    Re z = mu (1 - sin phi cosh w),   Im z = mu cos phi sinh w,

and what the midpoint rule of step h in w is off by. Moving w by i d makes another one of these, of
angle phi + d: if m(phi) is the integral of the integrand's size over half of it, that is at most

    (m(phi + d) + m(phi - d))/(pi (e^(2 pi d/h) - 1)).

m need not be known well, since the exponential outweighs it: it is bounded cell by cell, turning L
by a theta, where |N(z) e^-z| <= e^(t theta^2/2 + F(s)), s = Re(z e^(-i a theta)), F(s) =
t log E e^(-s L/t), of which `lognormal_rule.Columns` has bounds. What the sum leaves out, beyond
its last node, is bounded by the same cells.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.tradeoff.lognormal_rule import SLIGHT, ULP, leaning

_ANGLES = np.array([0.75, 0.5, 0.3, 0.17, 0.1, 0.05, 0.025, 0.012])  # phi
_STRIP = 0.95  # d/phi
_TURNED = 2.0  # phi/a at most: rounding grows as e^((phi/a)^2/2)
_STEEP = 0.39  # phi where there is N_G, which decays beyond arg z = pi/4: phi + d is less
_CELLS = 96
_TURNS = 0.5 * math.pi * np.geomspace(1e-6, 1.0, 16)  # a theta
FARTHER = 4.0  # K, or K - 1, may be as much smaller than what the path was placed for
_NODES = 512  # of JAX's programs
_MOST, _WORK = 4096, 1 << 21  # nodes of NumPy's, and with the rule's for each lognormal


class Asked(NamedTuple):
    """K - 1, K; in the right tail it is N - N_G that is integrated, N_G = e^(width^2 z^2/2)."""

    k: Any
    level: Any
    right: Any
    width: Any

    def falls(self):
        """The rate at which the integrand falls with -Re z."""
        return xp.where(self.right, self.k, self.level)


class Cells(NamedTuple):
    """Bounds of log|e^(z K) N e^-z| over pieces of hyperbolas, for every K: the smaller one of
    K high + falling, and growing + x (K - 1 + bend) at the worse end x. square: of Re z^2. by_gain,
    by_mass: log of the integral of |dz|/|z|^2 and |dz|/|z|.
    """

    low: Any
    high: Any
    square: Any
    falling: Any
    bend: Any
    growing: Any
    by_gain: Any
    by_mass: Any

    def log_size(self, asked):
        """Bounds of the integrand's size but for 1/z^2, as logarithms: in the right tail that of
        |N| + |N_G|.
        """
        tilt = asked.k + self.bend
        growing = self.growing + xp.maximum(self.low * tilt, self.high * tilt)
        found = xp.minimum(asked.level * self.high + self.falling, growing)
        found = found + 64 * ULP * (xp.abs(found) + asked.level * xp.abs(self.high))
        normal = asked.k * self.high + 0.5 * asked.width**2 * self.square
        return xp.where(asked.right, xp.logaddexp(found, normal), found)

    def each(self, function):
        """function of every entry."""
        return Cells(*map(function, self))


class Path(NamedTuple):
    """z and dz/pi at the nodes; edges, rest: `Cells` of what the sum is off by, the first times
    e^log_gap = 1/(e^(2 pi d/h) - 1).
    """

    z: Any
    jump: Any
    edges: Cells
    rest: Cells
    log_gap: Any


def path(own, asked, c, goal):
    """The `Path` through c > 0 with the fewest nodes whose errors of E (K - M)_+ or E (M - K)_+ are
    about e^goal, and of their probabilities c e^goal.
    """
    phi = xp.asarray(_ANGLES)
    phi = xp.where(own.a < SLIGHT, phi, xp.minimum(phi, _TURNED * own.a))
    phi = xp.where(asked.width > 0, xp.minimum(phi, _STEEP), phi)
    mu = c / (1 - xp.sin(phi))
    angles = xp.stack([phi * (1 - _STRIP), phi * (1 + _STRIP), phi])
    ends, cells = _cells(own, mu, angles, asked)
    size = cells.log_size(asked) - goal
    size = xp.maximum(size + cells.by_gain, size + cells.by_mass - xp.log(c))
    edges = xp.logsumexp(xp.logaddexp(size[0], size[1]), -1)
    step = 2 * math.pi * _STRIP * phi / xp.maximum(edges, 1.0)
    # it ends where no more than e^goal is left
    left = xp.exp(xp.minimum(size[2], 300.0))
    left = xp.flip(xp.cumsum(xp.flip(left, 1), 1), 1)
    last = xp.argmax((left <= 1.0) | (xp.arange(_CELLS + 1) == _CELLS), 1)
    reach = xp.take_along_axis(ends[2], last[:, None], 1)[:, 0]
    best = xp.argmin(reach / step + _unreliable(own, mu, phi, reach))
    count = _NODES
    if not xp.any_jax(own, asked):
        most = min(_MOST, _WORK // own.x.size)
        count = int(np.clip(np.nan_to_num(np.ceil(reach[best] / step[best])), 8, most))
    return _along(
        mu[best], phi[best], reach[best] / count, count,
        last[best], ends[2, best], cells.each(lambda part: part[:, best]),
    )


def _along(mu, phi, step, count, last, ends, cells):
    """The `Path` of this hyperbola; its own cells are the last row, between `ends`."""
    w = step * (xp.arange(count, dtype=xp.float64) + 0.5)
    cosh, sinh, cos, sin = xp.cosh(w), xp.sinh(w), xp.cos(phi), xp.sin(phi)
    z = mu * xp.make_complex(1 - sin * cosh, cos * sinh)
    jump = mu * step / math.pi * xp.make_complex(-sin * sinh, cos * cosh)
    # nodes within a cell stand for at most its length and a step
    length = xp.diff(ends, append=ends[-1:] + 1.0)
    more = xp.where(xp.arange(_CELLS + 1) < last, -xp.inf, xp.log1p(step / length))
    rest = cells.each(lambda part: part[2])
    rest = rest._replace(by_gain=rest.by_gain + more, by_mass=rest.by_mass + more)
    log_gap = -xp.log(xp.expm1(2 * math.pi * _STRIP * phi / step))
    return Path(z, jump, cells.each(lambda part: part[:2].reshape(-1)), rest, log_gap)


def _unreliable(own, mu, phi, reach):
    """How far paths go to where the rule for each lognormal, unturned, says nothing, as a penalty
    beside numbers of nodes.
    """
    x, y = mu * (1 - xp.sin(phi) * xp.cosh(reach)), mu * xp.cos(phi) * xp.sinh(reach)
    lean, past = xp.maximum(-x, 0.0) / own.t, xp.maximum(xp.arctan2(-x, y), 0.0)
    _, high, b = leaning(own, past, lean)
    excess = xp.maximum(lean * (high - 1) - 10 - 11 * past / own.a, 0.0) + xp.maximum(b - 4, 0.0)
    return xp.where(own.a < SLIGHT, 1e5 * excess, 0.0)


def _cells(own, mu, angle, asked):
    """(where they end in w, `Cells`) of half hyperbolas, mu (n,), angle (3, n)."""
    falls = asked.falls()
    sin, cos = xp.sin(angle), xp.cos(angle)
    # there a theta = angle and e^(falls x/FARTHER) outweighs it; arcosh of what may be large
    turned = 0.5 * own.t * (angle / own.a) ** 2
    farthest = (turned + 60 + falls * mu) * FARTHER / (falls * mu * sin)
    reach = xp.log(2 * xp.maximum(farthest, 2.0))
    mu, sin, cos = mu[:, None], sin[..., None], cos[..., None]
    w = reach[..., None] * xp.linspace(0.0, 1.0, _CELLS + 1, dtype=xp.float64) ** 1.5
    cosh, sinh = xp.cosh(w), xp.sinh(w)
    x, y, size = mu * (1 - sin * cosh), mu * cos * sinh, mu * (cosh - sin)
    slope = mu * xp.sqrt((cosh - sin) * (cosh + sin))
    high, low, near, far = x[..., :-1], x[..., 1:], y[..., :-1], y[..., 1:]
    square = xp.maximum(low**2, high**2) - near**2
    by_mass = xp.log(slope[..., 1:] / size[..., :-1] * xp.diff(w, axis=-1))
    by_gain = by_mass - xp.log(size[..., :-1])
    bounded = _bounded(own, asked.k, low, high, near, far, size[..., 1:])
    # the last cell has no end: the integrand falls at least as e^(-rate (w - reach)) there
    rate = falls / FARTHER * mu * sin * sinh[..., -1:]
    end_mass = xp.log(cosh[..., -1:] / (cosh[..., -1:] - sin) * (1 + 1 / rate))
    end_gain = end_mass - xp.log(size[..., -1:])
    end, zero = x[..., -1:], 0 * x[..., -1:]
    end_bounded = turned[..., None], zero, zero + xp.inf
    last = end, end, end**2 - y[..., -1:] ** 2, *end_bounded, end_gain, end_mass
    parts = low, high, square, *bounded, by_gain, by_mass
    return w, Cells(*(xp.concatenate(pair, -1) for pair in zip(parts, last)))


def _bounded(own, k, low, high, near, far, size):
    """(falling, bend, growing) of cells low <= Re z <= high, near <= Im z <= far, |z| <= size: of
    several turns a theta the best one, for K - 1 = k.
    """
    past = xp.maximum(xp.arctan2(-low, far), 0.0)  # beyond pi/2
    turns = xp.asarray(_TURNS)[:, None, None, None] + 0 * low
    turns = xp.concatenate([turns, past + turns])  # and from where s >= 0 all over the cell
    turns = xp.minimum(turns, xp.arctan2(near, high) + 0.5 * math.pi)
    paid = 0.5 * own.t * (turns / own.a) ** 2
    cos_turn, sin_turn = xp.cos(turns), xp.sin(turns)
    least = xp.minimum(low * cos_turn, high * cos_turn) + near * sin_turn
    most = xp.maximum(low * cos_turn, high * cos_turn) + far * sin_turn
    # F falls with s
    known = least >= own.s[0]
    fall = xp.where(known, xp.interp(least, own.s, own.fall), xp.inf)
    falling = paid + fall + 64 * ULP * (paid + xp.abs(fall))
    falling = xp.min(xp.where(xp.isnan(falling), xp.inf, falling), 0)
    # or F + s, which is convex, while K x - s = x (K - cos a theta) - y sin a theta
    known = known & (most <= own.s[-1])
    grown = (xp.interp(s, own.s, own.growth) for s in (least, most))
    grown = xp.where(known, xp.maximum(*grown), xp.inf)
    growing = paid + grown - near * sin_turn
    growing = growing + 64 * ULP * (paid + xp.abs(grown) + near)
    bend = 2 * xp.sin(0.5 * turns) ** 2
    # or |E g| <= E|v|^2/2, where |z| is small
    theta = past / own.a
    small = 0.5 * size**2 / own.t * (xp.expm1(own.a**2) + past**2)
    small = small * xp.exp(0.5 * theta**2 + xp.maximum(high, 0.0) / own.t) * (1 + 1e-12)
    growing = xp.concatenate([growing, small[None]])
    bend = xp.concatenate([bend, 0 * bend[:1]])
    growing = xp.where(xp.isnan(growing), xp.inf, growing)
    best = xp.argmin(growing + xp.maximum(low * (k + bend), high * (k + bend)), 0)[None]
    growing, bend = (xp.take_along_axis(part, best, 0)[0] for part in (growing, bend))
    return falling, bend, growing
