"""The privacy-loss transform of a mixture of normal shifts:
1+u = sum_k w_k e^(s_k z - s_k^2/2), z normal, s_k >= 0.

Along z = x + i theta with theta max s_k < pi all terms have angles in [0, pi): their sum has no
zero, and an angle there, so that |e^(iyL)| = e^(-y arg(1+u)) <= 1. Below 0.9 pi the sum is at least
cos(0.45 pi) times that of the moduli, which is 1+u at x: the integrand has no peaks there that
the nodes could miss.
"""

import math
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import derived
from jaxpriv._pytree import pytree
from jaxpriv.composition.falling import decay, log_decay, of_shifts
from jaxpriv.composition.sampled import Sampled
from jaxpriv.composition.transforms import unknown_once
from jaxpriv.stats import norm
from jaxpriv.tradeoff.gaussian_mixture import GaussianMixture
from jaxpriv.tradeoff.shifts import behind, exponents, log_ratio, scaled

# minus the logarithm of what is left out at each end; on the path it may be e^3 times that
_LEFT_OUT = 50.0
_MORE = 16  # times as many nodes where they may follow the question


@pytree
class GaussianMixtureTransform(Sampled):
    """parts: what the record may be shifted by, as of `GaussianMixture`."""

    parts: Any
    reverse: jax.Array | np.ndarray  # bool
    nodes, fewer, rough = 768, 256, 16.0

    @property
    def shifts(self):
        """The components, which NumPy computes once."""
        found = self.__dict__.get("_shifts")
        if found is None:
            found = self.parts.resolved()
            if not xp.any_jax(found):
                self.__dict__["_shifts"] = found
        return found

    @property
    def mu(self):
        """Of the Gaussian curve below: the largest shift."""
        return self.shifts.largest()

    @property
    def rate(self):
        return self.shifts.rate

    @property
    def absent(self):
        return self.shifts.absent

    @property
    def log_absent(self):
        return self.shifts.log_absent

    def audible(self):
        silent, heard = self.parts.audible()
        return silent, GaussianMixtureTransform(heard, self.reverse)

    def whole(self, count, up):
        """A mixture of several shifts takes a whole number of steps, however often it shifts."""
        return derived(xp.ceil if up else xp.floor, count)

    @staticmethod
    def most(nodes):
        return _MORE * nodes

    def strip(self):
        return xp.minimum(0.45 * math.pi / self.mu, 1.0)

    def ends(self, s):
        """Between which z all but e^-50 of M lies, and of E[u].

        With x_k = w_k e^(a_k), x_0 what is absent: for s >= 1 Minkowski's inequality bounds the
        s-th root of the integral of (sum x_k)^s beyond z by the sum of the roots of those of x_k^s,
        and for s < 1 the integral by the sum of the integrals; (sum x_k)^s <= x_k^s for s < 0,
        whichever k. The integral of x_k^s density is w_k^s e^(s_k^2 s (s-1)/2) times the tail of
        N(s s_k, 1). M itself is at least each of these for s > 0, and 1 for s <= 0
        and s >= 1 (Jensen).
        """
        shifts = self.shifts
        s = s + xp.zeros_like(shifts.rate)
        size = xp.concatenate([xp.zeros_like(shifts.rate)[None], shifts.size])
        log_weight = xp.concatenate(
            [shifts.log_absent[None], shifts.log_weight + xp.log(shifts.rate)]
        )
        size, log_weight = (behind(part, s[None]) for part in (size, log_weight))
        there = log_weight > -xp.inf
        count = math.log(size.shape[0])
        mass = s * xp.where(there, log_weight, 0.0) + size * size * s * (s - 1) / 2
        least = xp.max(xp.where(there & (s > 0), mass, -xp.inf), 0)
        least = xp.maximum(least, xp.where((s > 0) & (s < 1), -xp.inf, 0.0))
        left = _LEFT_OUT + mass - least + xp.where(s > 0, xp.maximum(s, 1.0) * count, 0.0)
        reach = xp.sqrt(2 * xp.maximum(left, 0.0))
        needed = there & (left > 0)
        low = xp.where(s > 0, xp.min(xp.where(needed, s * size - reach, xp.inf), 0),
                       xp.max(xp.where(there, s * size - reach, -xp.inf), 0))
        high = xp.where(s > 0, xp.max(xp.where(needed, s * size + reach, -xp.inf), 0),
                        xp.min(xp.where(there, s * size + reach, xp.inf), 0))
        # and u, which N(s_k, 1) and N(0, 1) weigh
        left = _LEFT_OUT + count + xp.where(there, log_weight, -xp.inf)
        up = xp.max(xp.where(left > 0, size + xp.sqrt(2 * xp.maximum(left, 0.0)), 0.0), 0)
        away = math.sqrt(2 * (_LEFT_OUT + count))
        return xp.minimum(low, -away), xp.maximum(high, xp.maximum(up, away))

    def log_weight(self, x):
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi)

    def log_likelihood(self, x):
        return log_ratio(x, self.shifts)[0]

    def lifted(self, x, theta):
        """log Lambda, of Lambda - 1 = sum w_k (e^(a_k + i s_k theta) - 1)
        but where that is large, or nearly -1.
        """
        shifts = self.shifts
        x, theta = x + xp.zeros_like(theta), theta + xp.zeros_like(x)
        size = behind(shifts.size, x[None])
        weight, log_weight = (behind(part, x[None]) for part in (shifts.weight, shifts.log_weight))
        a, turn = exponents(x, size), size * theta
        cos, sin = xp.cos(turn), xp.sin(turn)
        there = log_weight > -xp.inf
        top = xp.stop_gradient(xp.max(xp.where(there, log_weight + a, -xp.inf), 0))
        parts = scaled(a, top, weight, log_weight)
        far_re, far_im = xp.sum(parts * cos, 0), xp.sum(parts * sin, 0)
        gentle = xp.stop_gradient(xp.max(xp.where(there, a, 0.0), 0)) < 30
        low = xp.where(gentle, xp.minimum(a, 30.0), 0.0)
        rise = weight * xp.exp(low)
        re = xp.sum(weight * xp.expm1(low) - 2 * rise * xp.sin(turn / 2) ** 2, 0)
        im = xp.sum(rise * sin, 0)
        less = re * (2 + re) + im * im
        near = xp.stop_gradient(gentle & (less > -0.3))
        far_size = xp.where(near, 1.0, far_re * far_re + far_im * far_im)
        log_size = xp.where(
            near, 0.5 * xp.log1p(xp.where(near, less, 0.0)), top + 0.5 * xp.log(far_size)
        )
        angle = xp.arctan2(xp.where(near, im, far_im), xp.where(near, 1 + re, far_re))
        return log_size, angle, 0.5 * theta * theta, -x * theta

    def beyond(self, z):
        shifts = self.shifts
        size, log_weight = (behind(part, z[None]) for part in (shifts.size, shifts.log_weight))
        there = log_weight > -xp.inf
        present = xp.where(there, xp.where(there, log_weight, 0.0) + norm.logsf(z - size), -xp.inf)
        return norm.logsf(z), xp.log(shifts.rate) + xp.logsumexp(present, axis=0)

    def lifts(self, z, theta, s):
        """As of one shift: exponentials have their largest modulus on the axis."""
        del s
        return 0.5 * theta * theta + 0 * z

    def once(self, eps, kind):
        """By NumPy; to a compiled program the threshold would add more than all the rest."""
        if xp.any_jax(self, eps):
            return unknown_once(eps, self.rate, kind)
        shape = np.broadcast_shapes(np.shape(eps), np.shape(self.reverse))
        pair = GaussianMixture(self.parts).aligned(shape, np.float64)
        up = np.broadcast_to(np.where(eps > 0, eps, 1.0), shape)
        point, log_delta = pair.touch(up, False), pair.log_delta(up, False)
        value = np.where(
            kind.double, log_delta, np.where(kind.pole < 0, point.log_alpha, point.log_power)
        )
        return np.where((eps > 0) & ~self.reverse, value, unknown_once(eps, self.rate, kind))

    def loss_bound(self):
        return xp.where(self.mu > 0, xp.where(self.reverse, -self.log_absent, xp.inf), 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return GaussianMixtureTransform(self.parts, self.reverse ^ when)

    def doubt(self, tilt):
        """What weights and exponents are off by,
        each to the share that its member has of 1+u at a node.

        A weight that is off by a share d moves the loss by d w |e^a - 1|/(1+u), all of them
        together by no more than the largest d; an exponent that is off by d by d w e^a/(1+u).
        """
        shifts = self.shifts
        x = tilt.x
        size, log_weight, doubt = (
            behind(part, x[None]) for part in (shifts.size, shifts.log_weight, shifts.doubt)
        )
        a = exponents(x, size)
        log_weight = xp.where(log_weight > -xp.inf, log_weight + xp.log(shifts.rate), -xp.inf)
        seen = xp.exp(xp.minimum(log_weight + a - tilt.loss, 0.0))
        away = -xp.expm1(-xp.abs(a)) * xp.exp(
            xp.minimum(log_weight + xp.maximum(a, 0.0) - tilt.loss, 80.0)
        )
        weights = xp.minimum(
            xp.sum(doubt * away, 0), xp.max(xp.where(log_weight > -xp.inf, doubt, 0.0), 0)
        )
        terms = xp.sum(seen * size * (xp.abs(x) + size), 0)
        return xp.stop_gradient(xp.sum(tilt.probability * 4 * (weights + terms), 0))

    def decay(self, tilt, paths):
        """The slope is the mean shift of what is seen."""
        shifts = self.shifts
        x = tilt.x
        size, log_weight = (behind(part, x[None]) for part in (shifts.size, shifts.log_weight))
        there = log_weight > -xp.inf
        log_part = xp.where(there, log_weight + xp.log(shifts.rate) + exponents(x, size), -xp.inf)
        part = xp.exp(xp.minimum(log_part - tilt.loss, 1.0))
        first, second = xp.sum(part * size, 0), xp.sum(part * size * size, 0)
        some = first > 0
        lean = xp.where(some, second / xp.where(some, first, 1.0) - first, 0.0)
        first = xp.maximum(first, xp.finfo(first.dtype).tiny)
        return decay(self, tilt, paths, of_shifts(tilt, first, lean, self.mu))

    log_decay = staticmethod(log_decay)
