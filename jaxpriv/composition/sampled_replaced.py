"""The privacy-loss transform of replaced records under Poisson sampling: the loss is the difference
of the losses of a record added and of one removed, L(z) = l(z) - l(-z).

With l(z) = log(1 - q + q e^(mu z - mu^2/2)), M(t) = E e^(l(z) + t L(z)), z normal. Along z = x + i
theta, mu theta < pi, the one e^l has an angle in [0, mu theta], the other in [-mu theta, 0]:
neither has a zero, and arg e^L >= 0, so that |e^(iyL)| <= 1.
"""

import math

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.falling import Slopes, decay, log_decay
from jaxpriv.composition.sampled import REACH, Sampled
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform


@pytree
class ReplacedGaussianTransform(Sampled):
    """Both directions are one."""

    mu: jax.Array
    rate: jax.Array
    lean = -1

    @property
    def reverse(self):
        return np.zeros((), bool)

    @property
    def added(self):
        """The transform of one record added."""
        return SubsampledGaussianTransform(self.mu, self.rate, self.reverse)

    @property
    def apart(self):
        return 2 * self.mu

    def reversed(self, when):
        del when
        return self

    def strip(self):
        return xp.minimum(0.45 * math.pi / self.mu, 1.0)

    def power(self, c):
        return c + xp.zeros_like(self.rate), xp.ones_like(self.rate)

    def ends(self, s):
        """The integrand's logarithm has the slope -z + (1+s) mu w + s mu w', w and w' in [0, 1]:
        beyond the ends of where that may be 0 it falls like a normal density. And so do both laws.
        """
        mu = self.mu
        most = xp.maximum(xp.maximum(1 + s, 0.0) + xp.maximum(s, 0.0), 1.0)
        least = xp.minimum(xp.minimum(1 + s, 0.0) + xp.minimum(s, 0.0), -1.0)
        # for the derivative by the rate
        more = REACH + xp.where(self.rate >= 1, xp.minimum(mu, REACH), 0.0)
        return least * mu - more, most * mu + more

    def log_weight(self, x):
        return self.added.log_weight(x) + self.added.loss(x)[0]

    def loss(self, x):
        """(L, 1 - e^-L), the mean of which is 0 under the alternative."""
        loss = self.added.loss(x)[0] - self.added.loss(-x)[0]
        return loss, -xp.expm1(xp.minimum(-loss, 100.0))

    def log_likelihood(self, x):
        """Where the record always takes part."""
        return 2 * self.mu * x

    def lifted(self, x, theta):
        """(log |e^L|, arg e^L), and what the alternative's density grows by."""
        added = self.added
        size, angle, grows, turns = added.log_ratio(added.lifted(x, theta))
        other_size, other_angle, *_ = added.log_ratio(added.lifted(-x, -theta))
        return (size - other_size, angle - other_angle, grows + size - added.loss(x)[0],
                turns + angle)

    def log_ratio(self, lifted):
        return lifted

    def rough_loss(self, x):
        return self.loss(x)[0]

    def beyond(self, z):
        """Of the alternative, the null and a shift; there |u| <= 1."""
        absent, present = self.added.beyond(z)
        both = xp.logaddexp(self.log_absent + absent, present)
        return both, both

    def lifts(self, z, theta, s):
        """e^l, to powers above 0, is the largest on the axis; e^(l(-z)) is 1 - q + q e^-(mu z +
        mu^2/2) there, and no less than 1 - q less the rest elsewhere.
        """
        small = self.rate * xp.exp(-self.mu * z - self.mu * self.mu / 2)
        less = self.absent - small
        some = less > 0
        turned = xp.log((self.absent + small) / xp.where(some, less, 1.0))
        return 0.5 * theta * theta + xp.where(some, s * turned, xp.inf)

    def loss_bound(self):
        return xp.where(self.mu > 0, xp.inf, 0.0)

    def doubt(self, tilt):
        """Nothing: the loss is known to rounding."""
        return xp.zeros_like(tilt.value)

    def decay(self, tilt, paths):
        """L' = mu (w + w'), w and w' the posterior weights of both shifts, has
        L''/L' = mu (w (1-w) - w' (1-w'))/(w + w'). The density's logarithm has a second derivative
        of at most 1 + (|1+s| + |s|) mu^2/4; that of L', log(w + w') = log(cosh y + a) - log(cosh y
        + (a + 1/a)/2) + constant, y = mu z, one that is the difference of two in [0, mu^2].
        """
        mu, rate, x, s = self.mu, self.rate, tilt.x, tilt.s
        odds = xp.log(rate) - xp.log1p(-xp.where(rate < 1, rate, 0.5)) - mu * mu / 2

        def share(z):
            return xp.where(rate < 1, xp.sigmoid(xp.clip(odds + mu * z, -600.0, 600.0)), 1.0)

        there, other = share(x), share(-x)
        both = there + other
        lean = mu * (there * (1 - there) - other * (1 - other)) / both
        law = mu * ((1 + s) * there + s * other) - x
        bend = (xp.abs(1 + s) + xp.abs(s)) * mu * mu / 4
        return decay(self, tilt, paths, Slopes(mu * both, law, lean, mu, bend, mu * mu))

    log_decay = staticmethod(log_decay)
