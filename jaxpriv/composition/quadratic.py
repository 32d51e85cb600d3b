"""The privacy-loss transform of two normal laws of different variance,
which makes any two normal vectors a composition.

In coordinates in which both covariances are diagonal, the loss of a vector is the sum of the losses
of its entries. With the null N(0, 1), the alternative N(m, 1-u) of one entry, 0 <= u < 1, and t the
argument of M(t) = E_Q[(q/p)^t],

    K(t) = log M(t) = -(t/2) log(1-u) - (1/2) log(1 + tu) + (m^2/2) t(t+1)/(1 + tu),

a Gaussian integral. It is finite for 1 + tu > 0; u = 0 is Gaussian noise. What the docstrings of
`transforms` say holds here.
"""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.blocks import Several, block_of_frequencies
from jaxpriv.composition.transforms import OUTSIDE, Closed, unknown_once

_EDGE = 1e-9  # of 1 + tu, which a search for the saddle may approach


@pytree
class NormalTransform:
    """Null N(0, 1), alternative N(shift, 1 - narrower);
    `reverse` where the hypotheses are exchanged, K(-1-t).
    """

    shift: jax.Array
    narrower: jax.Array
    reverse: jax.Array | np.ndarray  # bool

    def _forward(self, c):
        """(t, sign) with K(c) = K_forward(t), t = sign c + constant."""
        return xp.where(self.reverse, -1 - c, c), xp.where(self.reverse, -1.0, 1.0).astype(
            self.shift.dtype
        )

    def _value(self, t, scale):
        u = self.narrower
        log_laws = -0.5 * (t * xp.log1p(-u) + xp.log(scale))
        return log_laws + 0.5 * self.shift**2 * t * (1 + t) / scale

    def _slope(self, t, scale):
        u = self.narrower
        return (
            -0.5 * (xp.log1p(-u) + u / scale)
            + 0.5 * self.shift**2 * (1 + t * (2 + t * u)) / scale**2
        )

    def cumulants(self, c):
        t, sign = self._forward(c)
        raw = 1 + t * self.narrower
        scale = xp.maximum(raw, _EDGE)
        bend = 0.5 * (self.narrower / scale) ** 2 + self.shift**2 * (1 - self.narrower) / scale**3
        return (
            xp.where(raw > _EDGE, self._value(t, scale), OUTSIDE),
            sign * self._slope(t, scale),
            bend,
        )

    def tilted(self, c):
        t, sign = self._forward(c)
        scale = xp.maximum(1 + t * self.narrower, _EDGE)
        return TiltedNormal(self, c, t, sign, scale, self._value(t, scale))

    def once(self, eps, kind):
        return unknown_once(eps, self.shift, kind)

    def loss_bound(self):
        """Forward: log q/p = z^2/2 - (z-m)^2/(2(1-u)) - log(1-u)/2 is largest at z = m/u.
        Exchanged it has no bound.
        """
        u = self.narrower
        some = u > 0
        top = 0.5 * self.shift**2 / xp.where(some, u, 1.0) - 0.5 * xp.log1p(-u)
        return xp.where(some & ~self.reverse, top, xp.where(some | (self.shift != 0), xp.inf, 0.0))

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return NormalTransform(self.shift, self.narrower, self.reverse ^ when)

    @property
    def apart(self):
        """The mu of a Gaussian curve below that of a step."""
        return self.mu

    @property
    def mu(self):
        """Of the Gaussian curve below all of it: none where the variances differ, for the loss has
        an exponential tail then.
        """
        return xp.where(self.narrower > 0, xp.inf, xp.abs(self.shift))


@pytree
class TiltedNormal(Closed):
    """The transform at a real c: scale = 1 + tu there."""

    transform: NormalTransform
    c: jax.Array
    t: jax.Array
    sign: jax.Array
    scale: jax.Array
    value: jax.Array

    def line(self, spacing):
        return NormalLine(
            self.transform.shift**2, self.transform.narrower, self.t, self.sign, self.scale, spacing
        )

    def decay(self, paths):
        """What `log_decay` needs."""
        del paths
        return self.transform.shift**2, self.transform.narrower, self.scale

    @staticmethod
    def log_decay(decay, y):
        """log |M(c+iy)/M(c)|, which falls with y."""
        square, u, scale = decay
        return _log_modulus(square, u, scale, y)


def _log_modulus(square, u, scale, y):
    """Of M(c+iy)/M(c), r = yu/scale: -(1/4) log(1 + r^2) - (m^2/2) (1-u)
    y^2/(scale (scale^2 + y^2 u^2)).
    """
    wide = scale**2 + (y * u) ** 2
    return -0.25 * xp.log1p((y * u / scale) ** 2) - 0.5 * square * (1 - u) * y * y / (scale * wide)


@pytree
class NormalLine:
    """log M(c+iy)/M(c), formed without cancellation for small u."""

    square: jax.Array
    u: jax.Array
    t: jax.Array
    sign: jax.Array
    scale: jax.Array
    spacing: jax.Array

    def wider(self, times):
        return Several(self, times)

    def start(self):
        return self.spacing / 2 + xp.zeros_like(self.scale)

    def advance(self, first):
        """(the next block's start, (log modulus, angle) at a block of frequencies)."""
        y, after = block_of_frequencies(first, self.spacing)
        wide = self.scale**2 + (y * self.u) ** 2
        # Im t(t+1)/(1+tu) at t + iy, over y
        slope = (1 + self.t * (2 + self.t * self.u) + y * y * self.u) / wide
        angle = (
            -0.5 * (y * xp.log1p(-self.u) + xp.arctan2(y * self.u, self.scale))
            + 0.5 * self.square * y * slope
        )
        return after, (_log_modulus(self.square, self.u, self.scale, y), self.sign * angle)
