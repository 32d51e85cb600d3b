"""Privacy-loss transforms of mechanisms in which the record takes part with probability `rate`,
by one quadrature rule.

With Lambda the likelihood ratio of a step in which it does, 1+u = 1 - rate + rate Lambda, and M is
an expectation of powers of 1+u under the null (`jaxpriv.composition.transforms`). A mechanism says
how to integrate over the null: a variable z on the real line, its nodes and the log of their
weights, and log Lambda, both also at z = x + i theta. Everything else stands here.

On the line c + iy the rule runs along z = x + i theta. There every factor e^(iyL) with large L has
decayed before the step could miss its oscillation, so the nodes do not have to follow y.
"""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.blocks import rows_at_once
from jaxpriv.composition.sampled_line import SampledLine, compounded, expm1_i, powers, product
from jaxpriv.composition.slopes import SampledSlopes, by_each
from jaxpriv.composition.stepped import Stepped
from jaxpriv.composition.transforms import UNKNOWN, unknown_once

_HEIGHTS = 5
REACH = 9.5  # standard deviations; what lies beyond is 1e-21 of a normal law
_LARGE = 30.0  # a loss from which on e^L - 1 is e^L to rounding
UNSEEN = 1e200  # an error of which nothing is known; a number, for some steps are taken 0 times
_LEAST = 64  # nodes
_EXPONENT = 50.0  # the rule's error on the strip around the path is about e^-50,
_NEARLY, _FAR = 45.0, 36.0  # no more than e^-45, and e^-36 where nothing but a bound is asked for


class Sampled(Stepped):
    """A transform by the rule."""

    nodes = 384
    fewer = 128  # where the rule only steers,
    rough = 32.0  # and minus the logarithm of its error there
    lean = 1  # E[u] = 0 for u = lean (e^(lean L) - 1)

    @property
    def absent(self):
        """With which probability the record takes no part."""
        return 1 - self.rate

    @property
    def log_absent(self):
        return xp.log1p(-self.rate)

    @abstractmethod
    def ends(self, s):
        """Between which z everything lies that counts of (1+u)^s times the null's
        density, and of u itself.
        """

    @abstractmethod
    def strip(self):
        """How high a path may be lifted at most, if nothing else holds it down."""

    @abstractmethod
    def log_weight(self, x):
        """log of the null's density in z = x."""

    @abstractmethod
    def log_likelihood(self, x):
        """log Lambda at z = x."""

    @abstractmethod
    def lifted(self, x, theta):
        """At z = x + i theta: (log |Lambda|, arg Lambda), and what (the logarithm of, the angle of)
        the density grows by.
        """

    def likely(self, log_ratio):
        """(log P(Lambda > e^log_ratio) without the record, and with it),
        or None where they are not at hand.
        """
        del log_ratio

    def once(self, eps, kind):
        """log of an integral's result for a single step, at eps >= 0;
        forwards, for no step tells much in reverse.

        With e^eps' = 1 + (e^eps - 1)/r the likelihood ratio at the threshold: power = (1-r)
        alpha + r beta', of which beta' is its power where the record takes part, and
        delta = power - e^eps alpha = r (beta' - e^eps' alpha).
        """
        rate = self.rate
        known = (eps >= 0) & (self.mu > 0) & ~self.reverse
        up = xp.where(known, eps, 1.0)
        base = up + xp.log(-xp.expm1(-up) + rate * xp.exp(-up)) - xp.log(rate)
        found = self.likely(base)
        if found is None:
            return unknown_once(eps, rate, kind)
        log_alpha, log_present = found
        power = xp.logaddexp(
            xp.where(rate < 1, xp.log1p(-xp.where(rate < 1, rate, 0.5)), -xp.inf) + log_alpha,
            xp.log(rate) + log_present,
        )
        delta = (
            xp.log(rate)
            + log_present
            + xp.log1p(-xp.exp(xp.minimum(base + log_alpha - log_present, -1e-12)))
        )
        value = xp.where(kind.double, delta, xp.where(kind.pole < 0, log_alpha, power))
        return xp.where(known, value, UNKNOWN)

    def always(self, c):
        """(the transform at rate 1 on the line through c, where it is known in closed form;
        does it hold?), or None.
        """
        del c

    def end_error(self, tilt):
        """Over M(c), what the rule and its path miss where the integral ends at some z."""
        return xp.zeros_like(tilt.value)

    def clear(self, x, theta, lifted):
        """Is 1+u without a zero between the real axis and x + i theta,
        for all x? Of what `lifted` gives there.
        """
        del x, theta, lifted
        return True

    def power(self, c):
        """(s, sign) with M(c + iy) = E_P[(1+u)^(s + i sign y)]."""
        return xp.where(self.reverse, -c, 1 + c), xp.where(self.reverse, -1.0, 1.0).astype(
            self.rate.dtype
        )

    def grid(self, s, most, strip=None, exponent=_EXPONENT):
        """Nodes, at most so many, and their spacing:
        NumPy takes no more than the strip around the path asks for.
        """
        low, high = self.ends(s)
        nodes = most
        if not xp.any_jax(low, high):
            strip = self.strip() if strip is None else strip
            needed = float(np.max(exponent / (2 * math.pi) * (high - low) / strip, initial=0.0))
            nodes = int(min(max(needed, _LEAST), self.most(most))) if needed == needed else _LEAST
        step = (high - low) / nodes
        index = xp.arange(nodes, dtype=low.dtype).reshape((-1,) + (1,) * xp.ndim(low))
        return xp.stop_gradient((low + (index + 0.5) * step, step))

    @staticmethod
    def most(nodes):
        """The largest number of nodes where it may follow the question."""
        return 4 * nodes

    def cumulants(self, c):
        """(K, K', K''), to about e^-`rough` and rounding; without derivatives by the rate."""
        s, sign = self.power(c)
        x, step = self.grid(s, self.fewer, exponent=self.rough)
        loss = self.rough_loss(x)
        total, mean, variance = xp.log_mean_variance(s * loss + self.log_weight(x), loss)
        return total + xp.log(step), sign * mean, variance

    def rough_loss(self, x):
        """log(1+u) without care for its last digits."""
        return xp.logaddexp(self.log_absent, xp.log(self.rate) + self.log_likelihood(x))

    def tilted(self, c):
        """K as log(1 + E[(1+u)^s - 1 - s u]), for E[u] = 0, where it is small;
        the summand is of one sign.
        """
        return self._fine_enough(c, _NEARLY)

    def tilted_far(self, c):
        """`tilted` where it only bounds what is far off."""
        return self._fine_enough(c, _FAR)

    def _fine_enough(self, c, exponent):
        """With a rule whose error is e^-exponent at most; by NumPy of as many nodes as it takes."""
        tilt = self._tilted(c, *self.grid(self.power(c)[0], self.nodes))
        if not xp.any_jax(tilt):
            # a path that is lower than hoped for asks for more nodes
            height = np.min(tilt.height)
            if height > 0 and np.any(2 * math.pi * tilt.height < exponent * tilt.step):
                return self._tilted(c, *self.grid(tilt.s, self.nodes, strip=height))
        return tilt

    def _tilted(self, c, x, step):
        s, sign = self.power(c)
        loss, u = self.loss(x)
        log_weight = self.log_weight(x) + xp.log(step)
        exponent = log_weight + s * loss
        large = xp.logsumexp(exponent, 0)
        small = xp.stop_gradient(large) < 0.1
        weight = xp.where(small, xp.exp(log_weight), 0.0)
        large_loss = s * loss > 1.0
        # where u is too large a number its logarithm is the loss
        outward = self.lean * loss
        far = small & (outward > _LARGE)
        u = xp.where(far | ~small, 0.0, u)
        excess = weight * (xp.expm1(xp.where(large_loss, 0.0, s * loss)) - s * u)
        excess = excess + xp.where(
            large_loss & small, xp.exp(xp.where(small, exponent, 0.0)) - weight, 0.0
        )
        there = xp.exp(xp.where(far, log_weight + outward, 0.0)) - weight
        excess = excess - xp.where(far, s * self.lean * there, 0.0)
        value = xp.where(small, xp.log1p(xp.where(small, xp.sum(excess, 0), 0.0)), large)
        always = self.always(c)
        if always is not None:
            value = xp.where(always[1], with_derivative(always[0].value, value), value)
        return TiltedSampled(self, s, sign, x, step, loss, value, exponent, always)

    def loss(self, x):
        """(log(1+u), u) at real z = x; u up to e^100."""
        rate, a = self.rate, self.log_likelihood(x)
        absent = self.absent
        usual = a < 30
        u = rate * xp.expm1(xp.where(usual, a, 0.0))
        low = u < -0.3  # from there on XLA's log1p has an error of 120 ulp, and none is needed
        shrink = xp.exp(-xp.abs(a))
        always = absent <= 0  # the loss is a, though e^a may underflow
        rest = xp.where(
            usual, xp.where(low & ~always, absent + rate * shrink, 1.0), rate + absent * shrink
        )
        loss = xp.where(usual, xp.log1p(xp.where(low | always, 0.0, u)), a) + xp.log(rest)
        # at rate 1 with its derivatives: dL/dr = (e^a - 1)/(1+u)
        rise = -absent * -xp.expm1(xp.minimum(-a, 300.0))
        loss = xp.where(always, a + rise - 0.5 * rise * rise, loss)
        log_rate = xp.log(xp.where(rate > 0, rate, 1e-300))
        large = xp.exp(xp.minimum(xp.where(usual, 0.0, a) + log_rate, 100.0))
        return loss, xp.where(usual, u, large)

    def log_ratio(self, lifted):
        """(log|1+u|, arg(1+u)), and what the density grows by, of what `lifted` gives."""
        rate, (a, b, *growth) = self.rate, lifted
        # 1 + r (e^(a+ib) - 1) as it stands while that is of order 1,
        # and both parts over the larger one elsewhere
        top = xp.stop_gradient(xp.maximum(a + xp.log(rate), self.log_absent))
        # at rate 1 there is none, however small the other
        absent = self.absent * xp.exp(xp.minimum(-top, 600.0))
        present = rate * xp.exp(a - top)
        near = xp.stop_gradient(xp.abs(top + xp.log(absent + present)) < 0.7)
        low_a = xp.where(near, a, 0.0)
        rise = xp.exp(low_a)
        cos, sin = xp.cos(b), xp.sin(b)
        re = rate * (xp.expm1(low_a) - 2 * rise * xp.sin(b / 2) ** 2)
        im = rate * rise * sin
        far_re, far_im = absent + present * cos, present * sin
        far_size = xp.where(near, 1.0, far_re * far_re + far_im * far_im)
        log_size = xp.where(
            near, 0.5 * xp.log1p(re * (2 + re) + im * im), top + 0.5 * xp.log(far_size)
        )
        angle = xp.arctan2(xp.where(near, im, far_im), xp.where(near, 1 + re, far_re))
        return log_size, angle, *growth


@pytree
class TiltedSampled:
    """A sampled mechanism at a real c: the law of the nodes, tilted by (1+u)^s;
    M(c+iy) = E_P[(1+u)^(s + i sign y)].
    """

    transform: Any
    s: jax.Array
    sign: jax.Array
    x: jax.Array
    step: jax.Array
    loss: jax.Array
    value: jax.Array
    exponent: jax.Array
    always: Any  # what it is at rate 1, and whether it is that

    @property
    def probability(self):
        return xp.exp(self.exponent - self.value)

    def small(self, most, further):
        """(K, K', K'') of what has losses below `most`, or of all where nothing has, as much
        further (k, ...) than this line is.
        """
        counts = self.loss < most
        counts = counts | ~xp.any(counts, 0)
        loss = self.loss[:, None]
        exponent = self.exponent[:, None] + self.sign * further * loss
        exponent = xp.where(counts[:, None], exponent, -xp.inf)
        total, mean, variance = xp.log_mean_variance(exponent, loss)
        return total, self.sign * mean, variance

    @cached_property
    def height(self):
        """How far the path is lifted: half way to the branch points,
        less where a negative power would grow too much.

        Twice as high, at the strip's edge, the integrand's modulus must not integrate to more than
        e^3 times M(c). Zero where no height is known to serve.
        """
        shape = (_HEIGHTS,) + (1,) * (self.x.ndim - 1)
        heights = xp.linspace(1.0, 0.1, _HEIGHTS, dtype=self.s.dtype).reshape(shape)
        if not xp.any_jax(self.x):
            # mostly the first serves, and a kernel may be costly
            found = self._highest(heights[:1])
            return found if np.all(found > 0) else self._highest(heights)
        return xp.stop_gradient(self._highest(heights))

    def _highest(self, shares):
        """Of the heights at these shares of the strip the highest that serves."""
        d = shares * self.transform.strip()
        edge = 2 * d[:, None] * (1 - 1e-9)
        lifted = self.transform.lifted(self.x, edge)
        log_size, _, grows, _ = self.transform.log_ratio(lifted)
        exponent = self.exponent + self.s * (log_size - self.loss) + grows
        growth = xp.logsumexp(exponent, 1) - self.value
        good = (growth < 3.0) & self.transform.clear(self.x, edge, lifted)
        return xp.max(xp.where(good, d, 0.0), 0)

    def on_path(self, theta):
        """(log modulus, angle) of the tilted weights at the height theta, and the loss there."""
        transform = self.transform
        log_size, angle, grows, turns = transform.log_ratio(transform.lifted(self.x, theta))
        size = self.exponent - self.value + grows + self.s * (log_size - self.loss)
        return size, self.s * angle + turns, log_size, angle

    def line(self, spacing):
        log_weight, phase, log_size, angle = self.on_path(self.sign * self.height)
        size = xp.exp(log_weight)
        weight = size * xp.cos(phase), size * xp.sin(phase)
        return self._line(spacing, tuple(part[None] for part in weight), log_size, angle)

    def _line(self, spacing, weight, log_size, angle):
        always = None if self.always is None else (self.always[0].line(spacing), self.always[1])
        return line_through(self.sign, spacing, weight, log_size, angle, always)

    def slopes(self, spacing, at_zero):
        """`line`, and what moves it: see `SampledSlopes`;
        at_zero: d log M(c) by every array of the transform.
        """
        theta = self.sign * self.height
        log_weight, phase, log_size, angle = self.on_path(theta)

        def moving(transform):
            log_size, angle, grows, turns = transform.log_ratio(transform.lifted(self.x, theta))
            return transform.log_weight(self.x) + grows, turns, log_size, angle

        log_law, turned, log_ratio, angles = by_each(moving, self.transform)
        size = xp.exp(log_weight)
        w = size * xp.cos(phase), size * xp.sin(phase)
        still = product(w, (log_law + self.s * log_ratio, turned + self.s * angles))
        moved = product(w, (log_ratio, angles))
        rows = tuple(xp.concatenate([one[None], a, b]) for one, a, b in zip(w, still, moved))
        mean = tuple(xp.sum(part, 1) for part in moved)
        return SampledSlopes(
            self._line(spacing, rows, log_size, angle), at_zero, mean, self.sign, spacing
        )

    def line_error(self):
        """Bound of the rule's error in M(c+iy)/M(c): 2 N/(e^(2 pi d/step) - 1), N the integral
        along the strip's edges.

        The strip reaches from the real axis (N = 1) to twice the path's height, where N < e^3 by
        choice; twice that for the nodes having been taken for the integral.
        """
        error = rule_error(self.height, self.step) + self.transform.end_error(self)
        return error if self.always is None else xp.where(self.always[1], 0.0, error)

    def doubt(self):
        """What losses are off by on average, beyond their own rounding, in ulp."""
        return self.transform.doubt(self)

    def decay(self, paths):
        """What `log_decay` needs, of so many paths at most."""
        return self.transform.decay(self, paths)

    @property
    def log_decay(self):
        """(decay, y) -> log of a bound of |M(c+iy')/M(c)| for y' >= y."""
        return self.transform.log_decay


def rule_error(height, step):
    """The bound of `TiltedSampled.line_error`. Nodes so far apart that it is above 1 do not tell
    what the edges integrate to either: then nothing is known (`UNSEEN`).
    """
    error = 4 * math.exp(3.0) / xp.expm1(2 * math.pi * height / step) + 1e-20
    return xp.where(error < 1, error, UNSEEN)


def line_through(sign, spacing, weight, log_size, angle, always=None):
    """The `SampledLine` of M(c+iy)/M(c): of nodes with these weights, (re, im) of
    (rows, nodes, ...), the first row that of M itself, and losses, times sign.
    """
    half = expm1_i(0.5 * spacing, sign * log_size, sign * angle)
    to_a_row, count = rows_at_once(spacing)
    turn, turns = powers(compounded(half, half), to_a_row)
    turn, rows = powers(turn, count)
    return SampledLine(weight, half, turns, rows, turn, always)


def with_derivative(exact, value):
    """The exact value at rate 1, with the derivatives of the rule for all rates,
    which alone knows that by the rate.
    """
    return xp.stop_gradient(exact) + value - xp.stop_gradient(value)
