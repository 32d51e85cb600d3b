"""The dominating pairs of Laplace noise: of the full adversary, and of one who sees only a magnitude."""

import math

import jax
import jax.numpy as jnp

from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp, log_cosh
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.laws import Exponential, FoldedLaplace, Laplace
from jaxpriv.tradeoff.pair import Pair, nan_like


@pytree
class LaplaceShift(Pair):
    """Laplace(0, 1) against Laplace(ratio, 1); the log ratio is 2t - ratio, cut off at -ratio and ratio."""

    ratio: jax.Array

    @property
    def null(self):
        return Laplace(jnp.zeros_like(self.ratio))

    @property
    def alternative(self):
        return Laplace(self.ratio)

    def log_ratio(self, t):
        return jnp.clip(2 * t - self.ratio, -self.ratio, self.ratio)

    def threshold(self, eps):
        t = (eps + self.ratio) / 2
        return jnp.where(eps > self.ratio, jnp.inf, jnp.where(eps < -self.ratio, -jnp.inf, t))

    def log_delta(self, eps, reverse):
        """delta = 1 - exp((eps - ratio)/2) for |eps| < ratio, and both directions are the same test."""
        del reverse
        inside = jnp.abs(eps) < self.ratio
        value = log1mexp(jnp.where(inside, (eps - self.ratio) / 2, -1.0))
        return jnp.where(inside, value, self.same_law(eps))

    def epsilon(self, log_delta, reverse):
        del reverse
        below_one = log_delta < 0
        return jnp.where(below_one, jnp.maximum(self.ratio + 2 * log1mexp(jnp.where(below_one, log_delta, -1.0)), 0.0),
                         0.0 * nan_like(log_delta))

    def loss_bound(self, reverse):
        return self.ratio

    def atoms(self, reverse):
        return -self.ratio, self.ratio

    def gaussian_mu(self):
        """The curves meet where alpha = beta = e^(-ratio/2)/2.

        mu(alpha) = -ppf(alpha) - ppf(beta): on the middle piece alpha beta is constant and -ppf is concave in log alpha;
        on the outer pieces mu grows towards the middle one, because cdf/pdf grows along the axis.
        """
        return 2 * norm.isf_exp(-self.ratio / 2 - math.log(2.0))

    def kinks(self, reverse):
        return (0.5 * jnp.exp(-self.ratio), jnp.full_like(self.ratio, 0.5))


@pytree
class FoldedLaplaceShift(Pair):
    """Magnitudes of Laplace noise: Exponential against FoldedLaplace(c), c = ratio.

    The ratio q/p(t) = e^-c (e^2t + 1)/2 grows up to t = c and is cosh c beyond, so the forward direction is pure
    log cosh c, the reverse one pure c (its largest loss, at t = 0). With the threshold inserted,
        forward  delta = 1 - e^(t-c),      t - c = log(2 e^(eps-c) - e^(-2c))/2
        reverse  delta = 1 - 1/cosh t,     t     = log(2 e^(c-eps) - 1)/2.
    """

    ratio: jax.Array

    @property
    def null(self):
        return Exponential()

    @property
    def alternative(self):
        return FoldedLaplace(self.ratio)

    def log_ratio(self, t):
        t = jnp.clip(t, 0.0, self.ratio)
        return t - self.ratio + log_cosh(t)

    def threshold(self, eps):
        inside = (eps > -self.ratio) & (eps <= log_cosh(self.ratio))
        y = jnp.where(inside, eps + self.ratio, 0.0)
        t = 0.5 * (y + jnp.log1p(-jnp.expm1(-y)))
        return jnp.where(inside, jnp.minimum(t, self.ratio), jnp.where(eps <= -self.ratio, 0.0, jnp.inf) * nan_like(eps))

    def touch(self, eps, reverse):
        point = super().touch(eps, reverse)
        # beyond the largest loss of the reverse direction nothing is left of the atom-free null
        if not reverse:
            return point
        out = eps > self.ratio
        return jax.tree.map(lambda end, inner: jnp.where(out, end, inner), Point.end(jnp.zeros_like(out)), point)

    def log_delta(self, eps, reverse):
        c = self.ratio
        below = eps <= (-log_cosh(c) if reverse else -c)
        zero = eps >= (c if reverse else log_cosh(c))
        inside = ~(below | zero)
        e = jnp.where(inside, eps, 0.0)
        if reverse:
            y = jnp.where(inside, c - e, 1.0)
            t = 0.5 * (y + jnp.log1p(-jnp.expm1(-y)))
            half = jnp.sinh(jnp.minimum(t, 30.0) / 2)
            small = jnp.log(2 * half * half) - log_cosh(t)
            value = jnp.where(t < 30.0, small, jnp.log1p(-jnp.exp(-log_cosh(t))))
        else:
            gap = jnp.where(inside, e - log_cosh(c), -0.1)
            value = log1mexp(0.5 * jnp.log1p((1 + jnp.exp(-2 * c)) * jnp.expm1(gap)))
        return jnp.where(inside, value, self.same_law(eps))

    def epsilon(self, log_delta, reverse):
        """Solve the closed forms: t from delta, then eps = log q/p(t) or its negative."""
        c = self.ratio
        below_one = log_delta < 0
        log_rest = jnp.where(below_one, log1mexp(jnp.where(below_one, log_delta, -1.0)), -jnp.inf)
        if reverse:
            # cosh t = 1/(1-delta): t = asinh(sqrt(delta (2-delta))/(1-delta))
            delta = jnp.exp(log_delta)
            cut = jnp.where(delta < 1, delta, 0.0)
            positive = cut > 0
            root = jnp.sqrt(jnp.where(positive, cut * (2 - cut), 1.0))
            t = jnp.where(positive, jnp.arcsinh(root / (1 - cut)), 0.0)
            eps = c - t - log_cosh(t)
            eps = jnp.where(delta < 1, eps, -jnp.inf)
        else:
            t = jnp.maximum(c + jnp.maximum(log_rest, -c), 0.0)
            eps = t - c + log_cosh(t)
            eps = jnp.where(log_rest > -c, eps, -jnp.inf)
        return jnp.maximum(eps, 0.0) * nan_like(log_delta)

    def loss_bound(self, reverse):
        return self.ratio if reverse else log_cosh(self.ratio)

    def atoms(self, reverse):
        top = -log_cosh(self.ratio) if reverse else log_cosh(self.ratio)
        return top, top

    def kinks(self, reverse):
        return (-0.5 * jnp.expm1(-2 * self.ratio),) if reverse else (jnp.exp(-self.ratio),)
