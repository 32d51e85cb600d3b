"""The privacy-loss transform of Poisson sub-sampled Gaussian noise:
Lambda = e^(mu z - mu^2/2), z normal.
"""

import math

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.falling import decay, log_decay, of_shifts
from jaxpriv.composition.sampled import REACH, Sampled
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.stats import norm

_POINTS = 64  # a tenth apart, mostly, where s mu is some hundreds


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
        if not xp.any_jax(s, high):  # a program has its number of nodes
            high = np.where(s > 1, np.minimum(high, self._enough(s)), high)
        # for the derivative by the rate
        return low - xp.where(self.rate >= 1, xp.minimum(mu, REACH), 0.0), high

    def _enough(self, s):
        """By NumPy the z beyond which hardly anything of (1+u)^s is left, s > 1, for losses are so
        seldom large.

        With 1+u = (1-r)(1+v), v = e^(mu z - b): from where on s log(1+v) <= z^2/2 - z - 36, what
        lies beyond z >= 2^1/2 REACH is less than e^-49 of M >= 1 (Jensen). Between two points v is
        less than at the right one, and the other side more than at the left one; beyond the last
        one log(1+v) <= e^-b + mu z, and s e^-b and s mu z are at most z^2/8 each.
        """
        mu, some, s = self.mu, np.where(self.rate < 1, self.rate, 0.5), np.maximum(s, 1.0)
        log_odds = np.log(some) - np.log1p(-some)
        start, size = math.sqrt(2) * REACH, np.exp(log_odds - mu * mu / 2)
        last = np.maximum(np.maximum(8 * s * mu, np.sqrt(8 * s * size)), 2 * start)
        share = np.linspace(0.0, 1.0, _POINTS).reshape((-1,) + (1,) * last.ndim)
        z = start * (last / start) ** share
        pulled = s * np.logaddexp(0.0, mu * z[1:] - mu * mu / 2 + log_odds)
        above = pulled > z[:-1] ** 2 / 2 - z[:-1] - 36
        end = np.max(np.where(above, z[1:], start), 0)
        return np.where(self.rate < 1, np.maximum(end, mu + REACH), np.inf)

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

    def beyond(self, z):
        absent, present = norm.logsf(xp.stack([z, z - self.mu]))
        return absent, xp.log(self.rate) + present

    def lifts(self, z, theta, s):
        """The modulus of 1+u, a sum of positive exponentials of z, is the largest on the axis."""
        del s
        return 0.5 * theta * theta + 0 * z

    def loss_bound(self):
        return xp.where(self.mu > 0, xp.where(self.reverse, -xp.log1p(-self.rate), xp.inf), 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return SubsampledGaussianTransform(self.mu, self.rate, self.reverse ^ when)

    def doubt(self, tilt):
        """Nothing: the loss is known to rounding."""
        return xp.zeros_like(tilt.value)

    def decay(self, tilt, paths):
        """l' = mu w, w the posterior weight of the record."""
        mu, rate, x = self.mu, self.rate, tilt.x
        odds = mu * x - mu * mu / 2 + xp.log(rate) - xp.log1p(-rate)
        share = xp.where(rate < 1, xp.sigmoid(xp.where(rate < 1, odds, 0.0)), 1.0)
        return decay(self, tilt, paths, of_shifts(tilt, mu * share, mu * (1 - share), mu))

    log_decay = staticmethod(log_decay)
