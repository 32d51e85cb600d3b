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
        """l' = mu w, w the posterior weight of the record."""
        mu, rate, x = self.mu, self.rate, tilt.x
        odds = mu * x - mu * mu / 2 + xp.log(rate) - xp.log1p(-rate)
        share = xp.where(rate < 1, xp.sigmoid(xp.where(rate < 1, odds, 0.0)), 1.0)
        return decay(self, tilt, paths, of_shifts(tilt, mu * share, mu * (1 - share), mu))

    log_decay = staticmethod(log_decay)
