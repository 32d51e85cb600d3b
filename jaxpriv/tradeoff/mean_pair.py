"""The dominating pair of a mean of gradients to whoever knows one gradient and the
law of the others.
"""

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.laws import ChiSquare, Scaled
from jaxpriv.tradeoff.pair import Pair


@pytree
class MeanShift(Pair):
    """T = n |m - g|^2 of the mean m of n standard normal vectors in d dimensions, |g|^2 = K.

    Absent, T is noncentral chi-square with d degrees of freedom and nc = nK. Present, m - g is the
    mean of the other n-1, times (n-1)/n, less g (n-1)/n: T n/(n-1) is noncentral chi-square with
    nc = (n-1)K. A small T means present, so this pair has the record present as its null; the curve
    of membership is that of the exchanged hypotheses. Both densities have the Bessel function
    I_(d/2-1)((nKT)^1/2), and with it gone

        log (absent/present)(t) = t/(2(n-1)) - a,      a = K/2 - (d/2) log(1 - 1/n).

    n may be any real number above 1: noise on m counts as more gradients.
    """

    df: jax.Array
    n: jax.Array
    susceptibility: jax.Array

    def full(self):
        return False

    @property
    def null(self):
        return Scaled(ChiSquare(self.df, (self.n - 1) * self.susceptibility), (self.n - 1) / self.n)

    @property
    def alternative(self):
        return ChiSquare(self.df, self.n * self.susceptibility)

    def _depth(self):
        few = self.n < 2
        log_shrink = xp.where(
            few, xp.log((self.n - 1) / self.n), xp.log1p(-1 / xp.where(few, 2.0, self.n))
        )
        return self.susceptibility / 2 - self.df / 2 * log_shrink

    def loss_size(self):
        return self._depth()

    def both_at(self, t):
        """The laws in one evaluation: a batch twice as large is cheaper to
        compile than two kernels.
        """
        one, shrink = xp.ones_like(t), (self.n - 1) / self.n
        signal = xp.stack([(self.n - 1) * self.susceptibility, self.n * self.susceptibility])
        law = Scaled(ChiSquare(xp.stack([self.df, self.df]), signal), xp.stack([shrink * one, one]))
        values = law.at(xp.stack([t, t]))
        return tuple(v[0] for v in values), tuple(v[1] for v in values)

    def log_ratio(self, t):
        return t / (2 * (self.n - 1)) - self._depth()

    def find_threshold(self, eps):
        return xp.maximum(2 * (self.n - 1) * (eps + self._depth()), 0.0)

    def loss_bound(self, reverse):
        return self._depth() if reverse else xp.full_like(self.df, xp.inf)

    def tail_mu(self):
        """The loss of an absent record has an exponential tail,
        which outruns every Gaussian curve.
        """
        return xp.full_like(self.df, xp.inf)
