"""The dominating pair of a mean of gradients to whoever knows one gradient and the law of the others."""

import jax
import jax.numpy as jnp

from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.laws import ChiSquare, Scaled
from jaxpriv.tradeoff.pair import Pair


@pytree
class MeanShift(Pair):
    """T = n |m - g|^2 of the mean m of n standard normal vectors in d dimensions, |g|^2 = K.

    Absent, T is noncentral chi-square with d degrees of freedom and nc = nK. Present, m - g is the mean of the other n-1,
    times (n-1)/n, less g (n-1)/n: T n/(n-1) is noncentral chi-square with nc = (n-1)K. A small T means present, so this
    pair has the record present as its null; the curve of membership is that of the exchanged hypotheses. Both densities
    have the Bessel function I_(d/2-1)((nKT)^1/2), and with it gone

        log (absent/present)(t) = t/(2(n-1)) - a,      a = K/2 - (d/2) log(1 - 1/n).

    n may be any real number above 1: noise on m counts as more gradients.
    """

    df: jax.Array
    n: jax.Array
    susceptibility: jax.Array

    @property
    def null(self):
        return Scaled(ChiSquare(self.df, (self.n - 1) * self.susceptibility), (self.n - 1) / self.n)

    @property
    def alternative(self):
        return ChiSquare(self.df, self.n * self.susceptibility)

    def _depth(self):
        few = self.n < 2
        log_shrink = jnp.where(few, jnp.log((self.n - 1) / self.n), jnp.log1p(-1 / jnp.where(few, 2.0, self.n)))
        return self.susceptibility / 2 - self.df / 2 * log_shrink

    def loss_size(self):
        return self._depth()

    def both_at(self, t):
        """The laws in one evaluation: a batch twice as large is cheaper to compile than two kernels."""
        one, shrink = jnp.ones_like(t), (self.n - 1) / self.n
        signal = jnp.stack([(self.n - 1) * self.susceptibility, self.n * self.susceptibility])
        law = Scaled(ChiSquare(jnp.stack([self.df, self.df]), signal), jnp.stack([shrink * one, one]))
        values = law.at(jnp.stack([t, t]))
        return tuple(v[0] for v in values), tuple(v[1] for v in values)

    def log_ratio(self, t):
        return t / (2 * (self.n - 1)) - self._depth()

    def find_threshold(self, eps):
        return jnp.maximum(2 * (self.n - 1) * (eps + self._depth()), 0.0)

    def loss_bound(self, reverse):
        return self._depth() if reverse else jnp.full_like(self.df, jnp.inf)

    def tail_mu(self):
        """The loss of an absent record has an exponential tail, which outruns every Gaussian curve."""
        return jnp.full_like(self.df, jnp.inf)
