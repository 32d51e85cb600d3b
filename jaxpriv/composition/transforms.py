"""Privacy-loss transforms: M(t) = E_Q[(q/p)^t] of a mechanism's pair,
on the real axis and along a vertical line.

With q/p = 1 + u under the null law P,

    forward  M(t) = E_P[(1+u)^(1+t)],        reverse  M(t) = E_P[(1+u)^(-t)] = forward M(-1-t).

A transform gives `cumulants(c)` = (K, K', K'') of K = log M, with an error of about 1e-14 in each,
to find out where to integrate; and `tilted(c)`, all that is known of it at a real c: `value`, K to
rounding; `line(spacing)`, log M(c+iy)/M(c) at y = spacing/2, 3 spacing/2, ..., formed from
M(c+iy)/M(c) - 1, so that 1e7 equal steps lose no digit; and two bounds for certificates.
Shapes: parameters (..., members), c (..., 1).
"""

from typing import Any

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.blocks import Several, block_of_frequencies
from jaxpriv.composition.slopes import ClosedSlopes

OUTSIDE = 1e30  # K where it is infinite, with derivatives
UNKNOWN = -1e30  # in place of a logarithm; finite, so that what is not taken has derivatives


def unknown_once(eps, parameter, kind):
    """`once` of a transform whose single steps are not known to tell much rarely."""
    return (
        xp.full(xp.broadcast_shapes(xp.shape(eps), xp.shape(parameter)), UNKNOWN, parameter.dtype)
        + 0 * kind.pole
    )


@pytree
class GaussianTransform:
    """Gaussian noise, either direction: K(t) = mu^2 t (t+1)/2."""

    mu: jax.Array

    @property
    def apart(self):
        """The mu of a Gaussian curve below that of a step."""
        return self.mu

    def cumulants(self, c):
        half = self.mu * self.mu / 2
        return half * c * (1 + c), half * (1 + 2 * c), 2 * half + 0 * c

    def tilted(self, c):
        return TiltedGaussian(self, c)

    def once(self, eps, kind):
        return unknown_once(eps, self.mu, kind)

    def loss_bound(self):
        return xp.where(self.mu > 0, xp.inf, 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`: the same."""
        del when
        return self


class Closed:
    """A tilted transform whose line has a closed form."""

    transform: Any
    c: Any

    def slopes(self, spacing, at_zero):
        """`line`, and what moves it."""
        del at_zero
        return ClosedSlopes(self.transform, self.c, spacing)

    def doubt(self):
        """What losses are off by, beyond their own rounding: nothing."""
        return xp.zeros_like(self.transform.mu)

    def line_error(self):
        """The line is exact."""
        return self.doubt()


@pytree
class TiltedGaussian(Closed):
    """Gaussian noise at a real c."""

    transform: GaussianTransform
    c: jax.Array

    @property
    def half(self):
        return self.transform.mu**2 / 2

    @property
    def value(self):
        return self.half * self.c * (1 + self.c)

    def line(self, spacing):
        return GaussianLine(self.half, 1 + 2 * self.c, spacing)

    def decay(self, paths):
        """What `log_decay` needs."""
        del paths
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

    def wider(self, times):
        return Several(self, times)

    def start(self):
        return self.spacing / 2 + xp.zeros_like(self.half)

    def advance(self, first):
        """(the next block's start, (log modulus, angle) at a block of frequencies)."""
        y, after = block_of_frequencies(first, self.spacing)
        return after, (-self.half * y * y, self.half * self.drift * y)
