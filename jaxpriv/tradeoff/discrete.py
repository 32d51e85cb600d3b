"""Mechanisms with finitely many outcomes that matter: their trade-off function is a polygon."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import ROUNDING, Experiment, Point, padded
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.subsampled import sampled_loss


@pytree
class Discrete(Envelope):
    """Outcomes (..., outcomes) of ascending loss = log alternative/null, each mass a logarithm.

    The losses are given, for near each other two masses do not tell theirs: delta is a sum of
    alternative (1 - e^(eps - loss)), all of whose terms are positive. told: (...), the exact
    probability of an infinite loss in both directions, NaN where it is not known.
    """

    null: jax.Array
    alternative: jax.Array
    loss: jax.Array
    told: jax.Array
    finite = True

    def batch_shape(self):
        return jnp.shape(self.loss)[:-1]

    def aligned(self, shape, dtype):
        def spread(leaf, behind):
            return jnp.broadcast_to(jnp.asarray(leaf, dtype), shape + behind)

        outcomes = jnp.shape(self.loss)[-1:]
        null, alternative, loss = (spread(leaf, outcomes) for leaf in (self.null, self.alternative, self.loss))
        return Discrete(null, alternative, loss, spread(self.told, ()))

    def defined(self):
        return jnp.all(~jnp.isnan(self.null) & ~jnp.isnan(self.alternative) & ~jnp.isnan(self.loss), -1)

    def reversed(self):
        null, alternative, loss = (jnp.flip(leaf, -1) for leaf in (self.null, self.alternative, self.loss))
        return Discrete(alternative, null, -loss, self.told)

    def _towards(self, reverse):
        return self.reversed() if reverse else self

    def _vertices(self):
        """Logarithms of type I error, power and their complements when the k highest losses are rejected, k = 0, 1, ..."""

        def below(mass):
            total = jnp.flip(_log_cumulated(mass), -1)
            return jnp.concatenate([total, jnp.full_like(total[..., :1], -jnp.inf)], -1)

        def above(mass):
            return jnp.flip(below(jnp.flip(mass, -1)), -1)

        null, alternative = self.null, self.alternative
        return above(null), below(null), below(alternative), above(alternative)

    def touch(self, eps, reverse):
        """The vertex that rejects all losses above eps."""
        own = self._towards(reverse)
        count = jnp.sum(own.loss > eps[..., None], -1)
        return Point(*(jnp.take_along_axis(column, count[..., None], -1)[..., 0] for column in own._vertices()))

    def _gains(self, eps):
        """log of what each outcome adds to delta."""
        gap = self.loss - eps[..., None]
        above = (gap > 0) & (self.alternative > -jnp.inf)
        rest = log1mexp(-jnp.where(above, jnp.minimum(gap, 1e30), 1.0))
        return jnp.where(above, jnp.where(above, self.alternative, 0.0) + rest, -jnp.inf)

    def log_delta(self, eps, reverse):
        return _log_sum(self._towards(reverse)._gains(eps)) + jnp.where(jnp.isnan(eps), jnp.nan, 0.0)

    def bracket(self, low, high, reverse):
        """Each loss, and each of delta's positive terms, is known to rounding."""
        own = self._towards(reverse)
        shift = 8 * jnp.finfo(low.dtype).eps * jnp.where(jnp.isfinite(own.loss), jnp.abs(own.loss), 0.0)
        less, more = (replace(own, loss=own.loss + sign * shift) for sign in (-1, 1))
        lower, upper = padded(_log_sum(less._gains(high)), _log_sum(more._gains(low)))
        return lower, upper, self.steepness(high, reverse)

    def find_slope(self, alpha, reverse):
        """The loss of the outcome within which the highest ones add up to alpha."""
        own = self._towards(reverse)
        index = _side(own._vertices()[0], alpha)
        return jnp.take_along_axis(jnp.flip(own.loss, -1), index, -1)[..., 0]

    def errors(self, alpha, reverse):
        """On the polygon's side above alpha."""
        log_alpha, _, log_beta, log_power = self._towards(reverse)._vertices()
        index = _side(log_alpha, alpha)

        def at(column, shift):
            return jnp.exp(jnp.take_along_axis(column, index + shift, -1)[..., 0])

        width = at(log_alpha, 1) - at(log_alpha, 0)
        share = jnp.where(width > 0, (alpha - at(log_alpha, 0)) / jnp.where(width > 0, width, 1.0), 1.0)
        return tuple(safe_log((1 - share) * at(column, 0) + share * at(column, 1)) for column in (log_beta, log_power))

    def solve_epsilon(self, log_delta, reverse):
        """delta = A_k - e^eps B_k between the k-th and the next loss: the largest of the lines' zeros of delta - target."""
        log_alpha, _, _, log_power = self._towards(reverse)._vertices()
        target = log_delta[..., None]
        more = log_power > target
        reachable = (log_alpha > -jnp.inf) & more
        rest = log1mexp(jnp.where(reachable, target - jnp.where(reachable, log_power, 0.0), -1.0))
        eps = jnp.where(reachable, log_power - log_alpha, 0.0) + rest
        endless = jnp.any((log_alpha == -jnp.inf) & more, -1)
        best = jnp.max(jnp.where(reachable, eps, -jnp.inf), -1)
        return jnp.where(endless, jnp.inf, best) + jnp.where(jnp.isnan(log_delta), jnp.nan, 0.0)

    def loss_bound(self, reverse):
        """Of the outcomes that happen."""
        own = self._towards(reverse)
        return jnp.max(jnp.where(own.alternative > -jnp.inf, own.loss, -jnp.inf), -1)

    def gaussian_mu(self):
        """At a vertex: where G_mu lies below two vertices it lies below their chord, for it is convex."""
        log_alpha, log_rest, log_beta, log_power = self._vertices()
        proper = (log_alpha > -jnp.inf) & (log_beta > -jnp.inf) & (log_rest > -jnp.inf) & (log_power > -jnp.inf)
        above, below = (_quantile(*pair, proper) for pair in ((log_power, log_beta), (log_alpha, log_rest)))
        never = (log_alpha == -jnp.inf) & (log_power > -jnp.inf) | (log_beta == -jnp.inf) & (log_rest > -jnp.inf)
        # rounded up: quantiles are known to rounding of themselves and of 1, near the median
        doubt = ROUNDING * jnp.finfo(above.dtype).eps * (1 + jnp.abs(above) + jnp.abs(below))
        gap = jnp.maximum(above - below, 0.0) + doubt
        heights = jnp.where(proper, gap, jnp.where(never, jnp.inf, 0.0))
        leaks = (self.loss_bound(False) > 0) | (self.loss_bound(True) > 0)
        return jnp.where(leaks, jnp.max(heights, -1), 0.0)

    def last_loss(self):
        return self.atoms(False)[1], self.told

    def atoms(self, reverse):
        loss = self._towards(reverse).loss
        finite = jnp.isfinite(loss)
        return jnp.min(jnp.where(finite, loss, jnp.inf), -1), jnp.max(jnp.where(finite, loss, -jnp.inf), -1)

    def kinks(self, reverse):
        levels = jnp.exp(self._towards(reverse)._vertices()[0])
        return tuple(levels[..., k] for k in range(1, levels.shape[-1] - 1))

    def subsampled(self, rate):
        """The masses of the alternative blended, their losses from the losses."""
        rate = jnp.broadcast_to(jnp.asarray(rate, self.loss.dtype)[..., None], self.loss.shape)
        whole = rate >= 1
        absent = jnp.where(whole, -jnp.inf, jnp.log1p(-jnp.where(whole, 0.0, rate)))
        blended = _log_sum(jnp.stack([absent + self.null, jnp.log(rate) + self.alternative], -1))
        loss = sampled_loss(self.loss, rate)
        return Discrete(self.null, jnp.where(whole, self.alternative, blended), jnp.where(whole, self.loss, loss),
                        jnp.where(whole[..., 0], self.told, jnp.nan))


class Outcomes(Experiment):
    """A mechanism with finitely many outcomes by its parameters: `aligned` makes it `Discrete`, in the dtype asked for."""

    finite = True

    def _discrete(self):
        return self.aligned(self.batch_shape(), jnp.result_type(*jax.tree.leaves(self)))

    def errors(self, alpha, reverse):
        return self.aligned(alpha.shape, alpha.dtype).errors(alpha, reverse)

    def slope(self, alpha, reverse):
        return self.aligned(alpha.shape, alpha.dtype).slope(alpha, reverse)

    def touch(self, eps, reverse):
        return self.aligned(eps.shape, eps.dtype).touch(eps, reverse)

    def log_delta(self, eps, reverse):
        return self.aligned(eps.shape, eps.dtype).log_delta(eps, reverse)

    def bracket(self, low, high, reverse):
        return self.aligned(low.shape, low.dtype).bracket(low, high, reverse)

    def solve_epsilon(self, log_delta, reverse):
        return self.aligned(log_delta.shape, log_delta.dtype).solve_epsilon(log_delta, reverse)

    def loss_bound(self, reverse):
        return self._discrete().loss_bound(reverse)

    def gaussian_mu(self):
        return self._discrete().gaussian_mu()

    def atoms(self, reverse):
        return self._discrete().atoms(reverse)

    def kinks(self, reverse):
        return self._discrete().kinks(reverse)

    def reversed(self):
        return Exchanged(self)

    def subsampled(self, rate):
        return Sampled(self, rate)


@pytree
class BlackBox(Outcomes):
    """With probability `told` everything is told, else randomised response: the worst (loss, told)-DP mechanism."""

    loss: jax.Array
    told: jax.Array

    def aligned(self, shape, dtype):
        leaves = jax.tree.leaves(resolved(self, dtype))
        top, told = (jnp.broadcast_to(jnp.asarray(leaf, dtype), shape) for leaf in leaves)
        rest = jnp.log1p(-told) - jnp.log1p(jnp.exp(-top))  # XLA's log1p is exact at 0
        always, never, endless = safe_log(told), jnp.full_like(told, -jnp.inf), jnp.full_like(told, jnp.inf)
        null = jnp.stack([always, rest, rest - top, never], -1)
        return Discrete(null, jnp.flip(null, -1), jnp.stack([-endless, -top, top, endless], -1), told)

    def reversed(self):
        return self


@pytree
class Sampled(Outcomes):
    """The record takes part with probability `rate`."""

    base: Experiment
    rate: jax.Array

    def aligned(self, shape, dtype):
        rate = jnp.asarray(resolved(self.rate, dtype), dtype)
        return self.base.aligned(shape, dtype).subsampled(jnp.broadcast_to(rate, shape))


@pytree
class Exchanged(Outcomes):
    """The hypotheses exchanged."""

    base: Experiment

    def aligned(self, shape, dtype):
        return self.base.aligned(shape, dtype).reversed()

    def reversed(self):
        return self.base


def _log_sum(values):
    """log of a sum of exponentials, exact where only one is not zero; without NaN where all are."""
    some = jnp.any(values > -jnp.inf, -1, keepdims=True)
    total = logsumexp(jnp.where(some, values, 0.0), axis=-1)
    return jnp.where(some[..., 0], total, jnp.where(jnp.any(jnp.isnan(values), -1), jnp.nan, -jnp.inf))


def _log_cumulated(mass):
    """log of cumulative sums, of few outcomes."""
    ends = range(1, mass.shape[-1] + 1)
    return jnp.minimum(jnp.stack([_log_sum(mass[..., :k]) for k in ends], -1), 0.0)


def _side(log_levels, alpha):
    """The index of the polygon's side above alpha."""
    levels = jnp.exp(log_levels)
    return jnp.clip(jnp.sum(levels[..., 1:] < alpha[..., None], -1), 0, levels.shape[-1] - 2)[..., None]


def _quantile(log_p, log_rest, proper):
    """Phi^-1(p) from the smaller of p and its complement."""
    low = log_p < log_rest
    small = jnp.where(proper, jnp.where(low, log_p, log_rest), -1.0)
    return jnp.where(low, norm.ppf_exp(small), norm.isf_exp(small))
