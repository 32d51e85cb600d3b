"""Mechanisms with finitely many outcomes that matter: their trade-off function is a polygon."""

import jax
import jax.numpy as jnp

from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.pair import safe_log


@pytree
class Discrete(Envelope):
    """Outcomes with probabilities `null` and `alternative`, (..., outcomes), of ascending loss log alternative/null."""

    null: jax.Array
    alternative: jax.Array
    finite = True

    def batch_shape(self):
        return jnp.broadcast_shapes(jnp.shape(self.null), jnp.shape(self.alternative))[:-1]

    def aligned(self, shape, dtype):
        def spread(leaf):
            return jnp.broadcast_to(jnp.asarray(leaf, dtype), shape + jnp.shape(leaf)[-1:])

        return Discrete(spread(self.null), spread(self.alternative))

    def defined(self):
        return jnp.all(~jnp.isnan(self.null) & ~jnp.isnan(self.alternative), -1)

    def _laws(self, reverse):
        """(null, alternative) of a direction, of ascending loss."""
        if not reverse:
            return self.null, self.alternative
        return jnp.flip(self.alternative, -1), jnp.flip(self.null, -1)

    def _losses(self, reverse):
        null, alternative = self._laws(reverse)
        return safe_log(alternative) - jnp.where(null > 0, safe_log(null), -jnp.inf)

    def _vertices(self, reverse):
        """The polygon: type I error, power and their complements when the k highest losses are rejected, k = 0, 1, ..."""
        null, alternative = self._laws(reverse)

        def above(mass):
            total = jnp.cumsum(jnp.flip(mass, -1), -1)
            return jnp.concatenate([jnp.zeros_like(total[..., :1]), total], -1)

        def below(mass):
            total = jnp.flip(jnp.cumsum(mass, -1), -1)
            return jnp.concatenate([total, jnp.zeros_like(total[..., :1])], -1)

        return above(null), below(null), below(alternative), above(alternative)

    def touch(self, eps, reverse):
        """The vertex that rejects all losses above eps."""
        count = jnp.sum(self._losses(reverse) > eps[..., None], -1)
        return Point(*(safe_log(jnp.take_along_axis(column, count[..., None], -1)[..., 0]) for column in self._vertices(reverse)))

    def log_delta(self, eps, reverse):
        null, alternative = self._laws(reverse)
        above = self._losses(reverse) > eps[..., None]
        gain = jnp.where(above, alternative - jnp.where(above, jnp.exp(eps)[..., None], 0.0) * null, 0.0)
        return safe_log(jnp.sum(jnp.maximum(gain, 0.0), -1)) + jnp.where(jnp.isnan(eps), jnp.nan, 0.0)

    def find_slope(self, alpha, reverse):
        """The loss of the outcome within which the highest ones add up to alpha."""
        vertices = self._vertices(reverse)[0]
        index = jnp.clip(jnp.sum(vertices[..., 1:] < alpha[..., None], -1), 0, vertices.shape[-1] - 2)
        losses = jnp.flip(self._losses(reverse), -1)
        return jnp.take_along_axis(losses, index[..., None], -1)[..., 0]

    def errors(self, alpha, reverse):
        """On the polygon's side above alpha."""
        x, _, beta, power = self._vertices(reverse)
        index = jnp.clip(jnp.sum(x[..., 1:] < alpha[..., None], -1), 0, x.shape[-1] - 2)[..., None]

        def at(column, shift):
            return jnp.take_along_axis(column, index + shift, -1)[..., 0]

        width = at(x, 1) - at(x, 0)
        share = jnp.where(width > 0, (alpha - at(x, 0)) / jnp.where(width > 0, width, 1.0), 1.0)
        return tuple(safe_log((1 - share) * at(column, 0) + share * at(column, 1)) for column in (beta, power))

    def solve_epsilon(self, log_delta, reverse):
        """delta = A_k - e^eps B_k between the k-th and the next loss: the largest of the lines' zeros of delta - target."""
        alpha, _, _, power = self._vertices(reverse)
        delta = jnp.exp(log_delta)[..., None]
        reachable = (alpha > 0) & (power > delta)
        eps = jnp.log(jnp.where(reachable, power - delta, 1.0)) - jnp.log(jnp.where(reachable, alpha, 1.0))
        endless = jnp.any((alpha <= 0) & (power > delta), -1)
        best = jnp.max(jnp.where(reachable, eps, -jnp.inf), -1)
        return jnp.where(endless, jnp.inf, best) + jnp.where(jnp.isnan(log_delta), jnp.nan, 0.0)

    def loss_bound(self, reverse):
        return self._losses(reverse)[..., -1]

    def gaussian_mu(self):
        """At a vertex: where G_mu lies below two vertices it lies below their chord, for it is convex."""
        alpha, _, _, power = self._vertices(False)
        proper = (alpha > 0) & (power < 1)
        heights = norm.ppf(jnp.where(proper, power, 0.5)) - norm.ppf(jnp.where(proper, alpha, 0.5))
        heights = jnp.where(proper, heights, jnp.where((alpha <= 0) & (power > 0) | (alpha < 1) & (power >= 1), jnp.inf, 0.0))
        return jnp.maximum(jnp.max(heights, -1), 0.0)

    def atoms(self, reverse):
        losses = self._losses(reverse)
        finite = jnp.isfinite(losses)
        return jnp.min(jnp.where(finite, losses, jnp.inf), -1), jnp.max(jnp.where(finite, losses, -jnp.inf), -1)

    def kinks(self, reverse):
        vertices = self._vertices(reverse)[0]
        return tuple(vertices[..., k] for k in range(1, vertices.shape[-1] - 1))

    def reversed(self):
        return Discrete(*self._laws(True))

    def subsampled(self, rate):
        rate = jnp.asarray(rate)[..., None]
        return Discrete(self.null, (1 - rate) * self.null + rate * self.alternative)
