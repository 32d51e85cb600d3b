"""Privacy-loss transforms: M(t) = E_Q[(q/p)^t] of a mechanism's pair, on the real axis and along a vertical line.

With q/p = 1 + u under the null law P,

    forward  M(t) = E_P[(1+u)^(1+t)],        reverse  M(t) = E_P[(1+u)^(-t)] = forward M(-1-t).

A transform gives `cumulants(c)` = (K, K', K'') of K = log M, with an error of about 1e-14 in each, to find out where to
integrate; and `tilted(c)`, all that is known of it at a real c: `value`, K to rounding; `line(spacing)`, log M(c+iy)/M(c) at
y = spacing/2, 3 spacing/2, ..., formed from M(c+iy)/M(c) - 1, so that 1e7 equal steps lose no digit; and two bounds for
certificates. Shapes: parameters (..., members), c (..., 1).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._pytree import pytree
from jaxpriv.stats import norm

_NODES = 384
_FEWER = 128  # of them, where an error of 1e-14 does no harm
BLOCK = 16  # frequencies at a time
UNKNOWN = -1e30  # in place of a logarithm; finite, so that what is not taken has derivatives
_HEIGHTS = 10
_REACH = 9.5  # standard deviations; what lies beyond is 1e-21 of a normal law


def unknown_once(eps, parameter, kind):
    """`once` of a transform whose single steps are not known to tell much rarely."""
    return jnp.full(jnp.broadcast_shapes(jnp.shape(eps), jnp.shape(parameter)), UNKNOWN, parameter.dtype) + 0 * kind.pole


def block_of_frequencies(first, spacing):
    """(the frequencies of a block from `first` on, the next block's first)."""
    y = first + jnp.arange(BLOCK, dtype=first.dtype).reshape((-1,) + (1,) * first.ndim) * spacing
    return y, first + BLOCK * spacing


@pytree
class GaussianTransform:
    """Gaussian noise, either direction: K(t) = mu^2 t (t+1)/2."""

    mu: jax.Array

    def cumulants(self, c):
        half = self.mu * self.mu / 2
        return half * c * (1 + c), half * (1 + 2 * c), 2 * half + 0 * c

    def tilted(self, c):
        return TiltedGaussian(self.mu * self.mu / 2, c)

    def once(self, eps, kind):
        return unknown_once(eps, self.mu, kind)

    def loss_bound(self):
        return jnp.where(self.mu > 0, jnp.inf, 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`: the same."""
        del when
        return self


@pytree
class TiltedGaussian:
    """Gaussian noise at a real c."""

    half: jax.Array
    c: jax.Array

    @property
    def value(self):
        return self.half * self.c * (1 + self.c)

    def line(self, spacing):
        return GaussianLine(self.half, 1 + 2 * self.c, spacing)

    def line_error(self):
        """The line is exact."""
        return jnp.zeros_like(self.half)

    def decay(self):
        """What `log_decay` needs."""
        return self.half

    @staticmethod
    def log_decay(half, y):
        """log of a bound of |M(c+iy')/M(c)| for all y' >= y."""
        return -half * y * y


@pytree
class GaussianLine:
    """K(c+iy) - K(c) = (mu^2/2) (i y (1+2c) - y^2)."""

    half: jax.Array
    drift: jax.Array
    spacing: jax.Array

    def start(self):
        return self.spacing / 2 + jnp.zeros_like(self.half)

    def advance(self, first):
        """(the next block's start, (log modulus, angle) at a block of frequencies)."""
        y, after = block_of_frequencies(first, self.spacing)
        return after, (-self.half * y * y, self.half * self.drift * y)


@pytree
class SubsampledGaussianTransform:
    """Poisson sub-sampled Gaussian noise: 1+u = 1 - r + r e^(mu z - mu^2/2), z normal, by the trapezoidal rule in z."""

    mu: jax.Array
    rate: jax.Array
    reverse: jax.Array | np.ndarray  # bool

    def _power(self, c):
        """(s, sign) with M(c + iy) = E_P[(1+u)^(s + i sign y)]."""
        return jnp.where(self.reverse, -c, 1 + c), jnp.where(self.reverse, -1.0, 1.0).astype(self.mu.dtype)

    def cumulants(self, c):
        s, sign = self._power(c)
        x, step = self._grid(s, _FEWER)
        # log(1+u) from the larger of both parts of 1+u
        some = self.rate < 1
        absent = jnp.where(some, jnp.log1p(-jnp.where(some, self.rate, 0.0)), -jnp.inf)
        present = jnp.log(self.rate) + self.mu * x - self.mu * self.mu / 2
        loss = jnp.maximum(absent, present) + jnp.log1p(jnp.exp(-jnp.abs(absent - present)))
        exponent = s * loss - 0.5 * x * x
        top = jax.lax.stop_gradient(jnp.max(exponent, 0))
        weight = jnp.exp(exponent - top)
        total = jnp.sum(weight, 0)
        mean = jnp.sum(weight * loss, 0) / total
        variance = jnp.sum(weight * (loss - mean) ** 2, 0) / total
        found = top + jnp.log(total * step / math.sqrt(2 * math.pi)), sign * mean, variance
        always = GaussianTransform(self.mu).cumulants(c)
        return tuple(jnp.where(self.rate >= 1, exact, value) for exact, value in zip(always, found))

    def tilted(self, c):
        """K as log(1 + E[(1+u)^s - 1 - s u]), for E[u] = 0, where it is small; the summand is of one sign."""
        s, sign = self._power(c)
        x, step = self._grid(s, _NODES)
        loss, u = self.loss(x)
        log_weight = -0.5 * x * x + jnp.log(step) - 0.5 * math.log(2 * math.pi)
        exponent = log_weight + s * loss
        top = jax.lax.stop_gradient(jnp.max(exponent, 0))
        large = top + jnp.log(jnp.sum(jnp.exp(exponent - top), 0))
        small = jax.lax.stop_gradient(large) < 0.1
        weight = jnp.where(small, jnp.exp(log_weight), 0.0)
        large_loss = s * loss > 1.0
        excess = weight * (jnp.expm1(jnp.where(large_loss, 0.0, s * loss)) - jnp.where(small, s * u, 0.0))
        excess = excess + jnp.where(large_loss & small, jnp.exp(jnp.where(small, exponent, 0.0)) - weight, 0.0)
        value = jnp.where(small, jnp.log1p(jnp.where(small, jnp.sum(excess, 0), 0.0)), large)
        always = GaussianTransform(self.mu).tilted(c)
        value = jnp.where(self.rate >= 1, _with_derivative(always.value, value), value)
        return TiltedSubsampledGaussian(self, s, sign, x, step, loss, value, exponent, always)

    def _grid(self, s, nodes):
        """Real nodes over all that counts of (1+u)^s times the normal density, and of u itself; and their spacing."""
        mu = self.mu
        # below this z the power is flat: nothing pulls further to the left
        flat = (jnp.log1p(-self.rate) - jnp.log(self.rate)) / mu + mu / 2 - jnp.log1p(jnp.abs(s) * mu) / mu
        low = jnp.minimum(jnp.maximum(s * mu, flat), 0.0) - _REACH
        high = jnp.maximum(jnp.maximum(mu, s * mu), 0.0) + _REACH
        low = low - jnp.where(self.rate >= 1, jnp.minimum(mu, _REACH), 0.0)  # for the derivative by the rate
        step = (high - low) / nodes
        index = jnp.arange(nodes, dtype=low.dtype).reshape((-1,) + (1,) * jnp.ndim(low))
        return jax.lax.stop_gradient((low + (index + 0.5) * step, step))

    def loss(self, x):
        """(log(1+u), u) at real z = x; u is 0 where it would overflow."""
        mu, rate = self.mu, self.rate
        a = mu * x - mu * mu / 2
        usual = a < 30
        u = rate * jnp.expm1(jnp.where(usual, a, 0.0))
        low = u < -0.3  # from there on XLA's log1p has an error of 120 ulp, and none is needed
        shrink = jnp.exp(-jnp.abs(a))
        always = rate >= 1  # the loss is a, though e^a may underflow
        rest = jnp.where(usual, jnp.where(low & ~always, 1 - rate + rate * shrink, 1.0), rate + (1 - rate) * shrink)
        loss = jnp.where(usual, jnp.log1p(jnp.where(low | always, 0.0, u)), a) + jnp.log(rest)
        # at rate 1 with its derivatives: dL/dr = (e^a - 1)/(1+u)
        rise = (rate - 1) * -jnp.expm1(jnp.minimum(-a, 300.0))
        loss = jnp.where(always, a + rise - 0.5 * rise * rise, loss)
        large = rate * jnp.exp(jnp.where(usual | (a > 500), 0.0, a))
        return loss, jnp.where(usual, u, jnp.where(a > 500, 0.0, large))

    def log_ratio(self, x, theta):
        """(log|1+u|, arg(1+u)) at z = x + i theta."""
        mu, rate = self.mu, self.rate
        a, b = mu * x - mu * mu / 2, mu * theta
        # 1 + r (e^(a+ib) - 1) as it stands while that is of order 1, and both parts over the larger one elsewhere
        top = jax.lax.stop_gradient(jnp.maximum(a + jnp.log(rate), jnp.log1p(-rate)))
        absent = (1 - rate) * jnp.exp(jnp.minimum(-top, 600.0))  # at rate 1 there is none, however small the other
        present = rate * jnp.exp(a - top)
        near = jax.lax.stop_gradient(jnp.abs(top + jnp.log(absent + present)) < 0.7)
        low_a = jnp.where(near, a, 0.0)
        rise = jnp.exp(low_a)
        cos, sin = jnp.cos(b), jnp.sin(b)
        re = rate * (jnp.expm1(low_a) - 2 * rise * jnp.sin(b / 2) ** 2)
        im = rate * rise * sin
        far_re, far_im = absent + present * cos, present * sin
        far_size = jnp.where(near, 1.0, far_re * far_re + far_im * far_im)
        log_size = jnp.where(near, 0.5 * jnp.log1p(re * (2 + re) + im * im), top + 0.5 * jnp.log(far_size))
        angle = jnp.arctan2(jnp.where(near, im, far_im), jnp.where(near, 1 + re, far_re))
        return log_size, angle

    def once(self, eps, kind):
        """log of an integral's result for a single step, at eps > 0; forwards, for no step tells much in reverse.

        With z the threshold of the likelihood ratio: alpha = P(Z > z), power = (1-r) alpha + r P(Z > z - mu), and
        delta = power - e^eps alpha = r (P(Z > z - mu) - e^eps' alpha), eps' = log(1 + (e^eps - 1)/r).
        """
        mu, rate = self.mu, self.rate
        known = (eps > 0) & (mu > 0) & ~self.reverse
        up, mu = jnp.where(known, eps, 1.0), jnp.where(known, mu, 1.0)
        base = up + jnp.log(-jnp.expm1(-up) + rate * jnp.exp(-up)) - jnp.log(rate)
        threshold = base / mu + mu / 2
        log_alpha, log_present = norm.logsf(jnp.stack([threshold, threshold - mu]))
        power = jnp.logaddexp(jnp.where(rate < 1, jnp.log1p(-jnp.where(rate < 1, rate, 0.5)), -jnp.inf) + log_alpha,
                              jnp.log(rate) + log_present)
        delta = jnp.log(rate) + log_present + jnp.log1p(-jnp.exp(jnp.minimum(base + log_alpha - log_present, -1e-12)))
        value = jnp.where(kind.double, delta, jnp.where(kind.pole < 0, log_alpha, power))
        return jnp.where(known, value, UNKNOWN)

    def loss_bound(self):
        return jnp.where(self.mu > 0, jnp.where(self.reverse, -jnp.log1p(-self.rate), jnp.inf), 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return SubsampledGaussianTransform(self.mu, self.rate, self.reverse ^ when)


@pytree
class TiltedSubsampledGaussian:
    """Sub-sampled Gaussian noise at a real c: the law of the nodes, tilted by (1+u)^s; M(c+iy) = E_P[(1+u)^(s + i sign y)].

    On the line the rule runs along z = x + i theta. There every factor e^(iyL) with large L has decayed before the
    step could miss its oscillation, so the nodes do not have to follow y. log(1+u) is analytic up to |Im z| = pi/mu;
    the path stays half way.
    """

    transform: SubsampledGaussianTransform
    s: jax.Array
    sign: jax.Array
    x: jax.Array
    step: jax.Array
    loss: jax.Array
    value: jax.Array
    exponent: jax.Array
    always: TiltedGaussian  # what it is at rate 1

    @property
    def probability(self):
        return jnp.exp(self.exponent - self.value)

    def _height(self):
        """How far the path is lifted: half way to the branch points, less where a negative power would grow too much.

        Twice as high, at the strip's edge, the integrand's modulus must not integrate to more than e^3 times M(c).
        """
        shape = (_HEIGHTS,) + (1,) * (self.x.ndim - 1)
        d = jnp.linspace(1.0, 0.1, _HEIGHTS, dtype=self.s.dtype).reshape(shape)
        d = d * jnp.minimum(0.5 * math.pi / self.transform.mu, 1.0)
        some = slice(1, None, 3)  # of the nodes serve
        edge = self.transform.log_ratio(self.x[some], 2 * d[:, None] * (1 - 1e-9))[0]
        exponent = self.exponent[some] + self.s * (edge - self.loss[some])
        growth = 2 * d * d + jax.nn.logsumexp(exponent, 1) + math.log(3.0) - self.value
        return jax.lax.stop_gradient(jnp.max(jnp.where(growth < 3.0, d, 0.01 * d), 0))

    def line(self, spacing):
        theta = self.sign * self._height()
        log_size, angle = self.transform.log_ratio(self.x, theta)
        size = jnp.exp(self.exponent - self.value + 0.5 * theta * theta + self.s * (log_size - self.loss))
        phase = self.s * angle - self.x * theta
        loss = self.sign * log_size, self.sign * angle
        half = _expm1_i(0.5 * spacing, *loss)
        one = _turned(half, half)
        turn, turns = jax.lax.scan(lambda turn, _: (_turned(turn, one), turn), jax.tree.map(jnp.zeros_like, one), length=BLOCK)
        always = self.always.line(spacing), self.transform.rate >= 1
        return SubsampledLine((size * jnp.cos(phase), size * jnp.sin(phase)), half, turns, turn, *always)

    def line_error(self):
        """Bound of the rule's error in M(c+iy)/M(c): 2 N/(e^(2 pi d/step) - 1), N the integral along the strip's edges.

        The strip reaches from the real axis (N = 1) to twice the path's height, where N < e^3 by choice; twice that for
        the nodes having been taken for the integral.
        """
        error = 4 * math.exp(3.0) / jnp.expm1(2 * math.pi * self._height() / self.step) + 1e-20
        return jnp.where(self.transform.rate >= 1, 0.0, error)

    def decay(self):
        """(m, V) for every part {z >= x_k} of the tilted law: its mass and the variation of its loss density f.

        V is f at the start plus the integral of f |(log f)'|, (log f)' = s l' - z - mu (1-w), l' = mu w the slope of the
        loss. Between nodes both are bounded by their logarithms' second derivatives: 1 + |s| mu^2/4 for the tilted
        density, mu^2/4 more for f.
        """
        mu, rate, s, x, step = self.transform.mu, self.transform.rate, self.s, self.x, self.step
        odds = mu * x - mu * mu / 2 + jnp.log(rate) - jnp.log1p(-rate)
        share = jnp.where(rate < 1, jax.nn.sigmoid(jnp.where(rate < 1, odds, 0.0)), 1.0)
        bend = 1 + jnp.abs(s) * mu * mu / 4
        bend_f = bend + mu * mu / 4
        p = self.probability
        mass = jnp.exp(-bend * step**2 / 8) * jnp.flip(jnp.cumsum(jnp.flip(p, 0), 0), 0)
        rise = jnp.abs(s * mu * share - x - mu * (1 - share))
        top = p / (step * mu * share) * jnp.exp(0.5 * rise * step + bend_f * step**2 / 8)
        change = step * top * (rise + 0.5 * bend_f * step)
        return mass, top + jnp.flip(jnp.cumsum(jnp.flip(change, 0), 0), 0)

    @staticmethod
    def log_decay(decay, y):
        """log of a bound of |M(c+iy')/M(c)| for y' >= y: (1 - m) + V/y at the best part."""
        mass, variation = decay
        return jnp.log(jnp.clip(jnp.min(1 - mass + variation / y, 0), 1e-300, 1.0))


@pytree
class SubsampledLine:
    """M(c+iy)/M(c) - 1 = sum_k weight_k (e^(iy L_k) - 1), a block of frequencies at a time as a product of matrices.

    first: the brackets e^(iy L_k) - 1 at the first y; turns: (block, nodes, ...), those at the differences within a block;
    turn: at that between two blocks.
    """

    weight: tuple
    first: tuple
    turns: tuple
    turn: tuple
    always: GaussianLine  # what it is at rate 1
    whole: jax.Array | np.ndarray  # is it that?

    def start(self):
        """The brackets at the first y, the angle of M there before, with how often it has turned; and the start of `always`."""
        zero = jnp.zeros_like(self.always.half)
        return self.first, zero, zero, self.always.start()

    def advance(self, state):
        """(the next block's start, (log modulus, angle) at a block of frequencies); the angle follows M continuously."""
        (er, ei), before, turned, walk = state
        wr, wi = self.weight
        weights = jnp.stack([wr * (1 + er) - wi * ei, wr * ei + wi * (1 + er)])
        by_re, by_im = (jnp.einsum("an...,jn...->aj...", weights, part) for part in self.turns)
        re = jnp.sum(wr * er - wi * ei, 0) + by_re[0] - by_im[1]
        im = jnp.sum(wr * ei + wi * er, 0) + by_re[1] + by_im[0]
        less = re * (2 + re) + im * im  # |M|^2 - 1
        near = less > -0.3
        size = 0.5 * jnp.where(near, jnp.log1p(jnp.where(near, less, 0.0)), jnp.log((1 + re) ** 2 + im * im + 1e-37))
        angle = jnp.arctan2(im, 1 + re)
        jumps = jnp.diff(jax.lax.stop_gradient(angle), axis=0, prepend=before[None])
        turns = turned - jnp.cumsum(jnp.round(jumps / (2 * math.pi)), 0)
        walk, always = self.always.advance(walk)
        followed = angle + 2 * math.pi * turns
        size, followed = (jnp.where(self.whole, _with_derivative(exact, value), value)
                          for exact, value in zip(always, (size, followed)))
        after = jax.lax.stop_gradient(angle[-1])
        return (_turned((er, ei), self.turn), after, turns[-1], walk), (size, followed)


def _with_derivative(exact, value):
    """The exact value at rate 1, with the derivatives of the rule for all rates, which alone knows that by the rate."""
    return jax.lax.stop_gradient(exact) + value - jax.lax.stop_gradient(value)


def _turned(one, other):
    """(1 + a)(1 + b) - 1 of complex numbers."""
    (ar, ai), (br, bi) = one, other
    return ar + br + ar * br - ai * bi, ai + bi + ar * bi + ai * br


def _expm1_i(y, re, im):
    """e^(iy (re + i im)) - 1."""
    shrink = -y * im
    turn = y * re
    return jnp.expm1(shrink) * jnp.cos(turn) - 2 * jnp.sin(turn / 2) ** 2, jnp.exp(shrink) * jnp.sin(turn)
