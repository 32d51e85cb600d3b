"""The privacy-loss transform of Poisson sub-sampled Gaussian noise:
Lambda = e^(mu z - mu^2/2), z normal.
"""

import math

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.on_paths import MANY, decay_on_paths, log_decay_on_paths
from jaxpriv.composition.sampled import REACH, Sampled
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.stats import norm

_LOWER = (1, 4, 16, 64, 256)  # how much: paths that see small losses


@pytree
class SubsampledGaussianTransform(Sampled):
    """Poisson sub-sampled Gaussian noise: 1+u = 1 - r + r e^(mu z - mu^2/2),
    analytic in log up to |Im z| = pi/mu.
    """

    mu: jax.Array
    rate: jax.Array
    reverse: jax.Array | np.ndarray  # bool

    def strip(self):
        # growth is looked for twice as high, at nodes: a tenth below the zeros of 1+u at pi/mu,
        # where a negative power has a peak that lies between two nodes
        return xp.minimum(0.45 * math.pi / self.mu, 1.0)

    def ends(self, s):
        mu = self.mu
        # below this z the power is flat: nothing pulls further to the left
        flat = (
            (xp.log1p(-self.rate) - xp.log(self.rate)) / mu + mu / 2 - xp.log1p(xp.abs(s) * mu) / mu
        )
        low = xp.minimum(xp.maximum(s * mu, flat), 0.0) - REACH
        high = xp.maximum(xp.maximum(mu, s * mu), 0.0) + REACH
        # for the derivative by the rate
        return low - xp.where(self.rate >= 1, xp.minimum(mu, REACH), 0.0), high

    def log_weight(self, x):
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi)

    def log_likelihood(self, x):
        return self.mu * x - self.mu * self.mu / 2

    def lifted(self, x, theta):
        mu = self.mu
        return mu * x - mu * mu / 2, mu * theta, 0.5 * theta * theta, -x * theta

    def cumulants(self, c):
        found, taken = super().cumulants(c), self.rate >= 1
        if xp.known_false(taken):
            return found
        always = GaussianTransform(self.mu).cumulants(c)
        return tuple(xp.where(taken, exact, value) for exact, value in zip(always, found))

    def always(self, c):
        taken = self.rate >= 1
        return None if xp.known_false(taken) else (GaussianTransform(self.mu).tilted(c), taken)

    def likely(self, log_ratio):
        mu = xp.where(self.mu > 0, self.mu, 1.0)
        threshold = log_ratio / mu + mu / 2
        return norm.logsf(xp.stack([threshold, threshold - mu]))

    def loss_bound(self):
        return xp.where(self.mu > 0, xp.where(self.reverse, -xp.log1p(-self.rate), xp.inf), 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return SubsampledGaussianTransform(self.mu, self.rate, self.reverse ^ when)

    def doubt(self, tilt):
        """Nothing: the loss is known to rounding."""
        return xp.zeros_like(tilt.value)

    def decay(self, tilt, paths):
        """(m, V) for every part {z >= x_k} of the tilted law:
        its mass and the variation of its loss density f.

        V is f at the start plus the integral of f |(log f)'|, (log f)' = s l' - z - mu (1-w),
        l' = mu w the slope of the loss. Between nodes both are bounded by their logarithms' second
        derivatives: 1 + |s| mu^2/4 for the tilted density, mu^2/4 more for f.
        """
        mu, rate, x = self.mu, self.rate, tilt.x
        odds = mu * x - mu * mu / 2 + xp.log(rate) - xp.log1p(-rate)
        share = xp.where(rate < 1, xp.sigmoid(xp.where(rate < 1, odds, 0.0)), 1.0)
        parts = parts_beyond(tilt, mu * share, mu * (1 - share), mu)
        return parts, low_paths(self, tilt, paths)

    @staticmethod
    def log_decay(decay, y):
        return log_decay(decay, y)


def parts_beyond(tilt, slope, lean, widest):
    """(m, V) for every part {z >= x_k}, from the loss's slope l' and l''/l' at the nodes,
    and the largest l'.

    Of posterior weights of shifts in [0, widest], l' is the mean, l'' the variance, l''/l' the mean
    of the weights times shifts less that of the weights: all second derivatives of logarithms are
    variances, at most widest^2/4.
    """
    s, x = tilt.s, tilt.x
    bend = 1 + xp.abs(s) * widest * widest / 4
    rise = xp.abs(s * slope - x - lean)
    return of_parts_beyond(tilt, slope, rise, bend, bend + widest * widest / 4)


def of_parts_beyond(tilt, slope, rise, bend, bend_f):
    """The same from the slope of the loss, that of log f (`rise`, its modulus), and bounds of the
    second derivatives of the logarithms of the tilted density and of f.
    """
    step, p = tilt.step, tilt.probability
    mass = xp.exp(-bend * step**2 / 8) * xp.flip(xp.cumsum(xp.flip(p, 0), 0), 0)
    top = p / (step * slope) * xp.exp(0.5 * rise * step + bend_f * step**2 / 8)
    change = step * top * (rise + 0.5 * bend_f * step)
    return mass, top + xp.flip(xp.cumsum(xp.flip(change, 0), 0), 0)


def low_paths(transform, tilt, paths):
    """What falls long before any part does, of many steps at a small rate, where many paths are
    asked for; not in a program, which would have all their nodes.
    """
    if paths < MANY or xp.any_jax(tilt.x):
        return None
    return decay_on_paths(transform, tilt, _LOWER)


def log_decay(decay, y):
    """log of a bound of |M(c+iy')/M(c)| for y' >= y: (1 - m) + V/y at the best part."""
    (mass, variation), paths = decay
    found = xp.log(xp.clip(xp.min(1 - mass + variation / y, 0), 1e-300, 1.0))
    return found if paths is None else xp.minimum(found, log_decay_on_paths(paths, y))
