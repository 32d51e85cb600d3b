"""The privacy-loss transform of the hull of both directions of Poisson sub-sampled Gaussian noise,
the pair of a record that is exchanged: delta(eps) is that of a record removed for eps >= 0.

With l = log(1 - r + r e^(mu g)), g = z - mu/2 > 0, the loss l > 0 of a record removed has the
density n(z) (1+u) in z, 1+u = e^l. The hull has these losses, each -l with e^-l times as much, and
the outcome of loss 0 with what remains, A = (1-r) erf(mu/sqrt 8):

    M(t) = A + int n(z) ((1+u)^(1+t) + (1+u)^-t) dg,      the integrals I(t) and J(t)
         = 1 + int n(z) (1+u) (e^(tl) - 1)(1 - e^(-(1+t) l)) dg,   of one sign at real t.

Both integrals begin at g = 0. With g = k log(1 + e^w) they are over the whole line and end like e^w
and normal densities. Along w = v + i theta, 0 < theta < pi, g has an angle at its start and the
height k theta later, and mu Im g < pi: arg(1+u) > 0, so that |e^(iyl)| <= 1. J runs along the
conjugate: e^(-iyl) there is e^(iy(-conj l)). The trapezoidal rule's strip is from the real axis to
twice the path's height.
"""

import math
from functools import cached_property

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.sampled import REACH, Sampled, line_through, rule_error
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform

_HEIGHT = 0.4 * math.pi  # of the path in w; twice that is the strip
_SHARES = np.array([1.0, 0.7, 0.4, 0.2, 0.1])  # lower paths, where powers grow
_START = -46.0  # of w: e^-46 is left out
_EXPONENT = 50.0  # the rule's error is about e^-50
_LARGE = 300.0


@pytree
class HullTransform(Sampled):
    """Both directions are one."""

    mu: jax.Array
    rate: jax.Array
    nodes, fewer = 640, 256

    @property
    def reverse(self):
        return np.zeros((), bool)

    @property
    def removed(self):
        """The transform of one record removed."""
        return SubsampledGaussianTransform(self.mu, self.rate, self.reverse)

    @property
    def log_same(self):
        """log A, of the outcome that tells nothing."""
        return xp.log(xp.maximum(self.absent * xp.erf(self.mu / math.sqrt(8.0)), 1e-300))

    @staticmethod
    def most(nodes):
        return 8 * nodes

    def reversed(self, when):
        del when
        return self

    def strip(self):
        return xp.minimum(0.45 * math.pi / self.mu, 1.0)

    @property
    def _scale(self):
        """k, for which twice the path's height stays below the zeros of 1+u."""
        return xp.stop_gradient(self.strip() / _HEIGHT)

    def ends(self, s):
        """Of w: log(1 + e^w) > w. In g powers of up to s end as those of a record removed do."""
        mu = self.mu
        high = (xp.maximum(s, 1.0) - 0.5) * mu + REACH
        return _START + 0 * high, high / self._scale

    def log_weight(self, x):
        return self._weight(x, xp.zeros_like(x))[0]

    def log_likelihood(self, x):
        return self.mu * self._scale * xp.logaddexp(0.0, x)

    def _weight(self, x, theta):
        """(log |n(z) dg/dw|, its angle, Re g, Im g) at w = x + i theta."""
        k, half = self._scale, self.mu / 2
        shrink = xp.exp(-xp.abs(x))
        one, more = xp.where(x > 0, shrink, 1.0), xp.where(x > 0, 1.0, shrink)
        re, im = one + more * xp.cos(theta), more * xp.sin(theta)
        # |1 + e^w|^2 e^(-2 max(x, 0)) - 1, without cancellation where e^w is small
        less = shrink * (2 * xp.cos(theta) + shrink)
        log_size = xp.maximum(x, 0.0) + 0.5 * xp.log1p(less)
        angle = xp.arctan2(im, re)
        g, height = k * log_size, k * angle
        z = half + g
        size = -0.5 * z * z + 0.5 * height**2 - 0.5 * math.log(2 * math.pi)
        return size + xp.log(k) + x - log_size, theta - angle - z * height, g, height

    def lifted(self, x, theta):
        size, turns, g, height = self._weight(x, theta)
        return self.mu * g, self.mu * height, size - self.log_weight(x), turns

    def once(self, eps, kind):
        return self.removed.once(eps, kind)

    def loss_bound(self):
        return xp.where(self.mu > 0, xp.inf, 0.0)

    def nodes_at(self, c, most, exponent):
        """(nodes, their distance) for the powers 1+c and -c."""
        s = xp.maximum(1 + c, -c) + 0 * self.rate
        return self.grid(s, most, strip=_HEIGHT, exponent=exponent)

    def cumulants(self, c):
        """(K, K', K''), of I and J tilted, and A."""
        x, step = self.nodes_at(c, self.fewer, self.rough)
        loss, log_weight = self.loss(x)[0], self.log_weight(x) + xp.log(step)
        value, exponents = self._value(c, loss, log_weight)
        first, second = (xp.exp(exponent - value) for exponent in exponents)
        mean = xp.sum((first - second) * loss, 0)
        return value, mean, xp.sum((first + second) * loss * loss, 0) - mean * mean

    def _value(self, c, loss, log_weight):
        """K = log M(c), and the exponents of I and J at the nodes."""
        exponents = log_weight + (1 + c) * loss, log_weight - c * loss
        every = xp.concatenate([*exponents, (self.log_same + 0 * c)[None]])
        large = xp.logsumexp(every, axis=0)
        small = xp.stop_gradient(large) < 0.1
        up, down = xp.clip(c * loss, -_LARGE, _LARGE), xp.clip(-(1 + c) * loss, -_LARGE, _LARGE)
        plain = xp.exp(xp.minimum(log_weight + loss, _LARGE))
        rise = xp.sum(xp.where(small, -plain * xp.expm1(up) * xp.expm1(down), 0.0), 0)
        # a product that was cut off is no longer the summand; K is not small there
        whole = xp.all((xp.abs(c * loss) < _LARGE) & (xp.abs((1 + c) * loss) < _LARGE)
                       | (log_weight + loss < -_LARGE), 0)
        small = small & whole & (xp.stop_gradient(rise) > -0.3)
        return xp.where(small, xp.log1p(xp.where(small, rise, 0.0)), large), exponents

    def tilted(self, c):
        x, step = self.nodes_at(c, self.nodes, _EXPONENT)
        tilt = self._tilted(c, x, step)
        if not xp.any_jax(tilt):
            height = np.min(np.stack(tilt.heights))
            if 0 < height < 0.9 * _HEIGHT:  # a lower path asks for more nodes
                s = np.maximum(1 + c, -c) + 0 * self.rate
                return self._tilted(c, *self.grid(s, self.nodes, strip=height))
        return tilt

    tilted_far = tilted

    def _tilted(self, c, x, step):
        loss, u = self.loss(x)
        del u
        value, exponents = self._value(c, loss, self.log_weight(x) + xp.log(step))
        return TiltedHull(self, c + 0 * value, x, step, loss, value, exponents)


@pytree
class TiltedHull:
    """The hull at a real c: the nodes of I and of J, tilted."""

    transform: HullTransform
    c: jax.Array
    x: jax.Array
    step: jax.Array
    loss: jax.Array
    value: jax.Array
    exponents: tuple

    @property
    def powers(self):
        """Of 1+u, in I and in J."""
        return 1 + self.c, -self.c

    @cached_property
    def heights(self):
        """How high the path of each is: as `TiltedSampled.height`."""
        return tuple(map(self._height, self.powers, self.exponents))

    def _height(self, s, exponent):
        some = slice(1, None, 3)  # of the nodes serve
        x, best = self.x[some], xp.zeros_like(self.value)
        for share in _SHARES:
            d = share * _HEIGHT
            edge = xp.zeros_like(x) + 2 * d
            log_size, _, grows, _ = self.transform.log_ratio(self.transform.lifted(x, edge))
            more = exponent[some] + s * (log_size - self.loss[some]) + grows
            growth = xp.logsumexp(more, axis=0) + math.log(3.0) - self.value
            best = xp.where((best == 0) & (growth < 3.0), d, best)
        return xp.stop_gradient(best)

    def on_path(self):
        """(log modulus, angle) of the tilted weights on both paths, and the losses there."""
        log_step = xp.log(self.step) - self.value
        parts = placed(self.transform, self)
        size, phase, log_size, angle = parts
        return size + log_step, phase, log_size, angle

    def line(self, spacing):
        size, phase, log_size, angle = self.on_path()
        size = xp.exp(size)
        weight = (size * xp.cos(phase))[None], (size * xp.sin(phase))[None]
        return line_through(xp.ones_like(self.value), spacing, weight, log_size, angle)

    def doubt(self):
        """Nothing: the loss is known to rounding."""
        return xp.zeros_like(self.value)

    def moved_by_rate(self):
        """Of |dM|/M for a relative change of the rate, over |t|: du = d u, dl = d (1 - e^-l), and
        dM = int n(z) (t (e^(tl) - e^(-(1+t) l)) + e^(tl) - 1) du, |e^(tl) - 1| <= |t| l max(1,
        e^(cl)).
        """
        told = xp.minimum(-xp.expm1(-self.loss), 1.0) * (1 + self.loss)
        plain = xp.exp(self.exponents[0] - self.c * self.loss - self.value)
        tilted = sum(xp.exp(exponent - self.value) for exponent in self.exponents)
        return xp.sum((tilted + plain) * told, 0)

    def line_error(self):
        """As `TiltedSampled.line_error`, of both integrals."""
        return sum(rule_error(height, self.step) for height in self.heights)

    def decay(self, paths):
        """What does not fall, the outcome that tells nothing and the rules' errors (`on_paths`);
        log of the weights' moduli, and the angles of 1+u. Not in a program.
        """
        del paths
        stays = xp.exp(self.transform.log_same - self.value) + self.line_error()
        if xp.any_jax(self.x):
            return xp.ones_like(stays), None
        size, _, _, angle = self.on_path()
        return stays, (size, xp.maximum(angle, 0.0))

    @staticmethod
    def log_decay(decay, y):
        """log of a bound of |M(c+iy')/M(c)| for y' >= y."""
        stays, falling = decay
        if falling is None:
            return xp.zeros_like(stays + y)
        size, angle = falling
        return xp.minimum(xp.log(stays + xp.exp(xp.logsumexp(size - y * angle, axis=0))), 0.0)


def placed(transform, tilt):
    """(log modulus, angle) of the weights, less log of the nodes' distance, and the losses, of I
    and J on the paths of `tilt`.
    """
    parts = []
    for s, height, sign in zip(tilt.powers, tilt.heights, (1.0, -1.0)):
        theta = height + xp.zeros_like(tilt.x)
        log_size, angle, grows, turns = transform.log_ratio(transform.lifted(tilt.x, theta))
        size = transform.log_weight(tilt.x) + grows + s * log_size
        parts.append((size, sign * (turns + s * angle), sign * log_size, angle))
    return tuple(xp.concatenate(column) for column in zip(*parts))
