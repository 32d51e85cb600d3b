"""The privacy-loss transform of the relaxed adversary's sub-sampled steps:
chi-square against noncentral chi-square.

Lambda = e^(-nc/2) 0F1(; df/2; nc r^2/4) of the magnitude r, whose law is that of the length of a
normal vector. The variable is v, any real number:

    r = log(1 + e^v),

so that r is v for large v, where the law of r has a width of order 1 in every dimension,
and e^v near r = 0.

Along v = x + i theta, theta <= pi/2, the angle of r lies between 0 and theta, and that of r^2
between 0 and pi. Lambda, a product of 1 + nc r^2/j^2 over the zeros j of a Bessel function, has an
angle that is not negative there, and so has 1+u as long as the path meets no zero of it (`clear`):
|e^(iyL)| <= 1 on the whole strip, at every frequency y.
"""

import functools
import math
from dataclasses import replace

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.on_paths import decay_on_paths, log_decay_on_paths
from jaxpriv.composition.sampled import REACH, Sampled
from jaxpriv.stats._complex_contour import complex_log1p, complex_log_likelihood_ratio
from jaxpriv.stats._contour import chi_square
from jaxpriv.tradeoff.gaussian_pairs import ChiSquareShift

_STRIP = 0.78  # twice of which is below pi/2, where r^2 does not turn by more than pi
_DEEP = 50.0  # minus the logarithm of what is left out next to r = 0
_LOWER = (1, 2, 4, 8)  # how much: paths among which the bound of |M| chooses
# of 1 + nc/2 + |log Lambda|: the error of the contour kernel at complex arguments, by mpmath 2e-14
_KERNEL = 5e-14
_FAR = 3.0  # an angle below pi
_GENTLE = 0.01  # curvature below which that of e^(-r^2/2) is taken


def _density_at_middle(df):
    """log of the chi-square density at its mean."""
    if xp.any_jax(df):
        return chi_square(df, df, None)[0]
    return np.frombuffer(_known_density(df.tobytes())).reshape(df.shape)


@functools.lru_cache(maxsize=64)
def _known_density(df):
    """Of the float64 numbers in these bytes: every law of the same mechanism asks for it again."""
    numbers = np.frombuffer(df)
    return chi_square(numbers, numbers, None)[0].tobytes()


@pytree
class SubsampledChiSquareTransform(Sampled):
    """Poisson sub-sampled magnitudes of Gaussian noise."""

    df: jax.Array
    nc: jax.Array
    rate: jax.Array
    reverse: jax.Array | np.ndarray  # bool
    nodes, fewer, rough = 768, 256, 16.0
    together = 4  # entries that share the nodes of the one that needs most

    @property
    def mu(self):
        """Of the Gaussian curve that the step's curve meets for alpha -> 0."""
        some = self.nc > 0
        return xp.where(some, xp.sqrt(xp.where(some, self.nc, 1.0)), 0.0)

    def audible(self):
        silent = self.nc == 0
        return silent, replace(self, nc=xp.where(silent, 1.0, self.nc))

    def strip(self):
        # below the zeros of 1+u, as for a normal law
        return xp.minimum(0.45 * math.pi / self.mu, _STRIP)

    def ends(self, s):
        """Lambda grows like e^(mu r) at most, and like e^(mu^2 r^2/(2 df)).

        The mode of r^(df-1) e^(-r^2/2 + s mu r) is m = (s mu + (s^2 mu^2 + 4 (df-1))^1/2)/2, and it
        is log-concave with curvature below -1, so that m -+ t bounds all but e^(-t^2/2). With the
        other bound the mode is at ((df-1)/k)^1/2, k = 1 - s mu^2/df, and the curvature below -k.
        """
        weak = self.df - 1

        def pulled(pull):
            gentle = 1 - pull * self.nc / self.df
            some = gentle > _GENTLE
            near = xp.sqrt(weak / xp.where(some, gentle, 1.0))
            far = 0.5 * (pull * self.mu + xp.sqrt((pull * self.mu) ** 2 + 4 * weak))
            return some, near, far, REACH / xp.sqrt(xp.where(some, gentle, 1.0))

        _, near, far, _ = pulled(xp.minimum(s, 0.0))
        away = xp.maximum(near, far) - REACH - 1.0  # v is less than r, by less than 1 for r > 0.5
        # next to r = 0 the law is r^df/df, r = e^v,
        # and with -s pulled > 0 its mode at (df/k)^1/2 or above
        small = (
            0.5 * (xp.log(self.df / (1 - xp.minimum(s, 0.0) * self.nc / self.df)) - 1)
            - _DEEP / self.df
        )
        low = xp.maximum(xp.where(away > 0, away, small), small)
        some, near, far, reach = pulled(xp.maximum(s, 1.0))
        high = xp.where(some, xp.minimum(near + reach, far + REACH), far + REACH)
        return low, high

    def cumulants(self, c):
        """Infinite where (1+u)^s grows so far out that the nodes do not resolve it:
        no line is placed there.
        """
        s, _ = self.power(c)
        low, high = self.ends(s)
        most = self.nodes if xp.any_jax(low) else self.most(self.nodes)
        resolved = self.rough * (high - low) < 2 * math.pi * self.strip() * most
        return tuple(xp.where(resolved, value, xp.inf) for value in super().cumulants(c))

    def _magnitude(self, x, theta):
        """At v = x + i theta: r, and the logarithms of what r, dr/dv grow by since v = x,
        and half of what r^2 grows by.

        With e^(-+v) - e^(-+x) = e^(-|x|) (cos theta - 1 -+ i sin theta), the upper sign for x > 0,
        where r = v + log(1+e^-v). The angle of r is between 0 and theta, below pi:
        its logarithm is the principal one.
        """
        up, share = x > 0, 1 / (1 + xp.exp(xp.abs(x)))
        sign = xp.where(up, -1.0, 1.0)
        change = complex_log1p(
            xp.make_complex(share * (xp.cos(theta) - 1), sign * share * xp.sin(theta))
        )
        turn = xp.make_complex(xp.zeros_like(change.real), theta + xp.zeros_like(change.real))
        r = self._length(x)
        more = change + xp.where(up, turn, 0.0)
        slope = xp.where(up, 0.0, turn) - change
        return r + more, complex_log1p(more / r), slope, more * (r + 0.5 * more)

    @staticmethod
    def _length(x):
        return xp.maximum(x, 0.0) + xp.log1p(xp.exp(-xp.abs(x)))

    def log_weight(self, x):
        """r^(df-1) e^(-r^2/2) against what it is at r = df^1/2, where the chi-square law tells it;
        no term is of size df.
        """
        r, slope = self._length(x), -self._length(-x)
        middle = xp.sqrt(self.df)
        at_middle = _density_at_middle(self.df) + xp.log(2 * middle)
        away = r - middle
        near = r > 0.5 * middle
        log_r = xp.where(near, xp.log1p(xp.where(near, away, 0.0) / middle), xp.log(r / middle))
        return at_middle + (self.df - 1) * log_r - 0.5 * away * (r + middle) + slope

    def log_likelihood(self, x):
        return self._log_likelihood(self._length(x))

    def _log_likelihood(self, r):
        return complex_log_likelihood_ratio(r * r, self.df, self.nc)

    def lifted(self, x, theta):
        r, log_growth, slope, half_square = self._magnitude(x, theta)
        ratio = self._log_likelihood(r)
        growth = (self.df - 1) * log_growth - half_square + slope
        return ratio.real, ratio.imag, growth.real, growth.imag

    def clear(self, x, theta, lifted):
        """1+u is zero only where Lambda < 0 and |rate Lambda| = 1 - rate.

        Lambda itself has zeros at negative r^2 <= -2 df/nc only (Rayleigh's sum of the inverse
        squares of Bessel's zeros is 1/(2 df)); where there are none, log |Lambda| and arg Lambda
        are harmonic, and largest or smallest at the edges. So up to some place |arg Lambda| < pi,
        and beyond it |rate Lambda| > 1 - rate.
        """
        r, *_ = self._magnitude(x, theta)
        square = r * r
        away = (square.real > 0) | (xp.abs(square) * self.nc < self.df)
        log_likelihood, angle, *_ = lifted
        near = xp.abs(angle) < _FAR
        large = log_likelihood + xp.log(self.rate) > xp.log1p(-self.rate) + 0.1
        # a place: all before it are near, all from it on large
        before = xp.cumsum(xp.where(near, 0, 1), 1) == 0
        after = xp.flip(xp.cumsum(xp.flip(xp.where(large, 0, 1), 1), 1), 1) == 0
        split = (
            xp.any(before[:, :-1] & after[:, 1:] & after[:, :-1] & before[:, 1:], 1)
            | xp.all(near, 1)
            | xp.all(large, 1)
        )
        return split & xp.all(away, 1)

    def likely(self, log_ratio):
        """By NumPy; to a compiled program the law and its threshold would add more
        than all the rest.
        """
        if xp.any_jax(log_ratio, self.df, self.nc):
            return None
        shape = np.broadcast_shapes(np.shape(log_ratio), np.shape(self.df))
        pair = ChiSquareShift(self.df, xp.where(self.nc > 0, self.nc, 1.0)).aligned(
            shape, log_ratio.dtype
        )
        null, present = pair.both_at(pair.threshold(np.broadcast_to(log_ratio, shape)))
        return null[1], present[1]

    def beyond(self, z):
        r = self._length(z)
        pair = ChiSquareShift(self.df, self.nc).aligned(np.shape(r), r.dtype)
        null, present = pair.both_at(r * r)
        return null[1], xp.log(self.rate) + present[1]

    def lifts(self, z, theta, s):
        """With r = log(1 + e^(z + iv)): Re r is at most what it is on the axis, and at least
        log(e^z - 1) for z > 0, Im r is between 0 and theta; |Lambda|, a mean of e^(mu r cos), is at
        most that of Re r; and |dr/dz| = 1/|1 + e^-(z + iv)|.
        """
        del s
        r, far = self._length(z), z > 1
        shrink = xp.exp(-xp.where(far, z, 1.0))
        least = z + xp.log1p(-shrink)
        found = (0.5 * (self.df - 1) * xp.log1p((theta / r) ** 2)
                 + 0.5 * (theta * theta + (r - least) * (r + least))
                 + xp.log1p(shrink) - xp.log1p(-shrink))
        return xp.where(far, found, xp.inf)

    def loss_bound(self):
        """Forward none; in reverse -log(1 - rate + rate e^(-nc/2)), that of r = 0."""
        least = -xp.log1p(self.rate * xp.expm1(-self.nc / 2))
        return xp.where(self.nc > 0, xp.where(self.reverse, least, xp.inf), 0.0)

    def reversed(self, when):
        """The transform of the exchanged hypotheses where `when`."""
        return SubsampledChiSquareTransform(self.df, self.nc, self.rate, self.reverse ^ when)

    def doubt(self, tilt):
        """The kernel's error, of which rate Lambda/(1+u) reaches the loss."""
        ratio = self.log_likelihood(tilt.x)
        share = xp.minimum(
            self.rate
            * xp.exp(xp.minimum(ratio - tilt.loss, 0.0) + xp.maximum(ratio - tilt.loss, 0.0)),
            1.0,
        )
        error = _KERNEL / 2.2e-16 * (1 + self.nc / 2 + xp.abs(ratio))
        # and the weights', whose logarithms are differences of terms that grow like
        # df^1/2 around the middle
        return xp.stop_gradient(
            xp.sum(tilt.probability * share * error, 0) + 8 * xp.sqrt(self.df) * xp.abs(tilt.value)
        )

    def decay(self, tilt, paths):
        return decay_on_paths(self, tilt, _LOWER[:paths])

    @staticmethod
    def log_decay(decay, y):
        return log_decay_on_paths(decay, y)
