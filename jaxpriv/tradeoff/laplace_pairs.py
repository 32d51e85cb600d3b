"""The dominating pairs of Laplace noise:
of the full adversary, and of one who sees only a magnitude.
"""

import math

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import derived, product
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import exprel, log1mexp, log_cosh
from jaxpriv.tradeoff.experiment import ROUNDING, Point, padded
from jaxpriv.tradeoff.laws import Exponential, FoldedLaplace, Laplace
from jaxpriv.tradeoff.pair import Pair, nan_like


@pytree
class LaplaceShift(Pair):
    """Laplace(0, 1) against Laplace(ratio, 1);
    the log ratio is 2t - ratio, cut off at -ratio and ratio.

    It dominates a record that moves several coordinates by v_i, sum |v_i| = ratio =: s. Of one
    coordinate the log ratio is 2Y - s with 0 <= Y <= s and P(Y >= y) = e^-y/2 for y > 0 under the
    null. Of two, moved by a <= b, it is 2(Y_a + Y_b) - s, and P(Y_a + Y_b >= y)/(e^-y/2) is
    3/2 + y/2 up to a, then 1 + a/2 up to b, then (1 + s - y)/2: it falls through 1 at one y, from
    above. The likelihood ratios have equal means, 1, so that of one coordinate is the larger one in
    convex order (Karlin, Novikoff 1963), and deltas are means of convex functions of it. More
    coordinates by induction.
    """

    ratio: jax.Array

    def reversed(self):
        return self

    def straight(self):
        return True

    def grouped(self, size):
        return LaplaceShift(derived(product, self.ratio, size))

    @property
    def null(self):
        return Laplace(xp.zeros_like(self.ratio))

    @property
    def alternative(self):
        return Laplace(self.ratio)

    def log_ratio(self, t):
        return xp.clip(2 * t - self.ratio, -self.ratio, self.ratio)

    def threshold(self, eps):
        t = (eps + self.ratio) / 2
        return xp.where(eps > self.ratio, xp.inf, xp.where(eps < -self.ratio, -xp.inf, t))

    def log_delta(self, eps, reverse):
        """delta = 1 - exp((eps - ratio)/2) for |eps| < ratio,
        and both directions are the same test.
        """
        del reverse
        inside = xp.abs(eps) < self.ratio
        gap = xp.where(inside, self.ratio - eps, 1.0)
        small = gap < 1e-3  # half of it may be no number any more
        near = xp.log(gap) + xp.log(0.5 * exprel(xp.where(small, -0.5 * gap, 0.0)))
        value = xp.where(small, near, log1mexp(xp.where(small, -1.0, -0.5 * gap)))
        return xp.where(inside, value, self.same_law(eps))

    def bracket(self, low, high, reverse):
        lower, upper = padded(self.log_delta(high, reverse), self.log_delta(low, reverse))
        return lower, upper, self.steepness(high, reverse)

    def epsilon(self, log_delta, reverse):
        del reverse
        below_one = log_delta < 0
        return xp.where(
            below_one,
            xp.maximum(self.ratio + 2 * log1mexp(xp.where(below_one, log_delta, -1.0)), 0.0),
            0.0 * nan_like(log_delta),
        )

    def loss_bound(self, reverse):
        return self.ratio

    def last_loss(self):
        return self.ratio, xp.zeros_like(self.ratio)

    def atoms(self, reverse):
        return -self.ratio, self.ratio

    def gaussian_mu(self):
        """The curves meet where alpha = beta = e^(-ratio/2)/2.

        mu(alpha) = -ppf(alpha) - ppf(beta): on the middle piece alpha beta is constant and -ppf is
        concave in log alpha; on the outer pieces mu grows towards the middle one, because cdf/pdf
        grows along the axis.
        """
        mu = 2 * norm.isf_exp(-self.ratio / 2 - math.log(2.0))
        # rounded up, for the quantile is known to that
        doubt = ROUNDING * xp.finfo(mu.dtype).eps * (1 + mu)
        return xp.where(self.ratio > 0, xp.maximum(mu, 0.0) + doubt, 0.0)

    def kinks(self, reverse):
        return (0.5 * xp.exp(-self.ratio), xp.full_like(self.ratio, 0.5))


@pytree
class FoldedLaplaceShift(Pair):
    """Magnitudes of Laplace noise: Exponential against FoldedLaplace(c), c = ratio.

    The ratio q/p(t) = e^-c (e^2t + 1)/2 grows up to t = c and is cosh c beyond, so the forward
    direction is pure log cosh c, the reverse one pure c (its largest loss, at t = 0).
    With the threshold inserted,
        forward  delta = 1 - e^(t-c),      t - c = log(2 e^(eps-c) - e^(-2c))/2
        reverse  delta = 1 - 1/cosh t,     t     = log(2 e^(c-eps) - 1)/2.
    """

    ratio: jax.Array

    def full(self):
        return False

    def straight(self):
        return True

    def grouped(self, size):
        return FoldedLaplaceShift(derived(product, self.ratio, size))

    @property
    def null(self):
        return Exponential()

    @property
    def alternative(self):
        return FoldedLaplace(self.ratio)

    def log_ratio(self, t):
        t = xp.clip(t, 0.0, self.ratio)
        return t - self.ratio + log_cosh(t)

    def threshold(self, eps):
        inside = (eps > -self.ratio) & (eps <= log_cosh(self.ratio))
        y = xp.where(inside, eps + self.ratio, 0.0)
        t = 0.5 * (y + xp.log1p(-xp.expm1(-y)))
        return xp.where(inside, xp.minimum(t, self.ratio),
                        xp.where(eps <= -self.ratio, 0.0, xp.inf) * nan_like(eps))

    def touch(self, eps, reverse):
        point = super().touch(eps, reverse)
        # beyond the largest loss of the reverse direction nothing is left of the atom-free null
        if not reverse:
            return point
        out = eps > self.ratio
        return jax.tree.map(
            lambda end, inner: xp.where(out, end, inner), Point.end(xp.zeros_like(out)), point
        )

    def log_delta(self, eps, reverse):
        c = self.ratio
        below = eps <= (-log_cosh(c) if reverse else -c)
        zero = eps >= (c if reverse else log_cosh(c))
        inside = ~(below | zero)
        e = xp.where(inside, eps, 0.0)
        if reverse:
            y = xp.where(inside, c - e, 1.0)
            t = 0.5 * (y + xp.log1p(-xp.expm1(-y)))
            small = 2 * xp.log(xp.sinh(xp.minimum(t, 30.0) / 2)) + math.log(2.0) - log_cosh(t)
            value = xp.where(t < 30.0, small, xp.log1p(-xp.exp(-log_cosh(t))))
        else:
            value = log1mexp(xp.where(inside, self._log_quantile_share(e), -1.0))
        return xp.where(inside, value, self.same_law(eps))

    def _log_quantile_share(self, eps):
        """t - c < 0 at the threshold t of eps, from whichever end is nearer.

        (1/2) log w, w = 2 e^(eps-c) - e^(-2c); with y = eps + c and g = eps - log cosh c,
            w = e^(-2c) (1 + 2 (e^y - 1)) = 2 e^(eps-c)
            (1 - e^(-y)/2) = 1 + (1 + e^(-2c)) (e^g - 1).
        """
        c = self.ratio
        inside = (eps > -c) & (eps < log_cosh(c))
        y = xp.where(inside, eps + c, 1.0)
        g = xp.where(inside, eps - log_cosh(c), -0.1)
        low, high = y < 1.0, g > -0.5
        first = -2 * c + xp.log1p(2 * xp.expm1(xp.where(low, y, 0.0)))
        second = math.log(2.0) + eps - c + xp.log1p(-0.5 * xp.exp(-xp.where(low, 1.0, y)))
        third = xp.log1p((1 + xp.exp(-2 * c)) * xp.expm1(xp.where(high, g, -0.1)))
        return xp.minimum(0.5 * xp.where(high, third, xp.where(low, first, second)), 0.0)

    def bracket(self, low, high, reverse):
        """Rounding of losses shifts eps;
        below 1e-150 log cosh c, about c^2/2, is no number any more.
        """
        c = self.ratio
        ulp = xp.finfo(c.dtype).eps

        def blur(eps):
            return ulp * (ROUNDING * log_cosh(c) + 8 * xp.abs(eps))

        lower, upper = padded(
            self.log_delta(high + blur(high), reverse), self.log_delta(low - blur(low), reverse)
        )
        unseen = (c > 0) & (c < 1e-150) & (xp.abs(low) < 1e-290)
        return (
            lower,
            xp.where(unseen, xp.maximum(upper, -650.0), upper),
            self.steepness(high, reverse),
        )

    def epsilon(self, log_delta, reverse):
        """Solve the closed forms: t from delta, then eps = log q/p(t) or its negative."""
        c = self.ratio
        below_one = log_delta < 0
        log_rest = xp.where(below_one, log1mexp(xp.where(below_one, log_delta, -1.0)), -xp.inf)
        if reverse:
            # cosh t = 1/(1-delta): t = asinh(sqrt(delta (2-delta))/(1-delta))
            delta = xp.exp(log_delta)
            cut = xp.where(delta < 1, delta, 0.0)
            positive = cut > 0
            root = xp.sqrt(xp.where(positive, cut * (2 - cut), 1.0))
            t = xp.where(positive, xp.arcsinh(root / (1 - cut)), 0.0)
            eps = c - t - log_cosh(t)
            eps = xp.where(delta < 1, eps, -xp.inf)
        else:
            t = xp.maximum(c + xp.maximum(log_rest, -c), 0.0)
            eps = t - c + log_cosh(t)
            eps = xp.where(log_rest > -c, eps, -xp.inf)
            eps = xp.where(log_delta == -xp.inf, self._top(), eps)
        return xp.maximum(eps, 0.0) * nan_like(log_delta)

    def loss_bound(self, reverse):
        return self.ratio if reverse else self._top()

    def _top(self):
        """log cosh c, the least number where that is none, for it is not zero."""
        least = xp.where(self.ratio > 0, xp.finfo(self.ratio.dtype).tiny, 0.0)
        return xp.maximum(log_cosh(self.ratio), least)

    def atoms(self, reverse):
        top = -self._top() if reverse else self._top()
        return top, top

    def kinks(self, reverse):
        return (-0.5 * xp.expm1(-2 * self.ratio),) if reverse else (xp.exp(-self.ratio),)
