"""Mechanisms with finitely many outcomes that matter: their trade-off function is a polygon."""

from dataclasses import replace

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import ROUNDING, Point, padded
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.subsampled import sampled_loss


@pytree
class Discrete(Envelope):
    """Outcomes (..., outcomes) of ascending loss = log alternative/null, each mass a logarithm.

    The losses are given, for near each other two masses do not tell theirs: delta is a sum of
    alternative (1 - e^(eps - loss)), all of whose terms are positive. told: (...), the exact
    probability of an infinite loss in both directions, NaN where it is not known, or the largest
    finite loss only to rounding.
    """

    null: jax.Array
    alternative: jax.Array
    loss: jax.Array
    told: jax.Array
    finite = True

    def batch_shape(self):
        return xp.shape(self.loss)[:-1]

    def own_axes(self):
        return replace(jax.tree.map(lambda _: 1, self), told=0)

    def aligned(self, shape, dtype):
        def spread(leaf, behind):
            return xp.broadcast_to(xp.asarray(leaf, dtype), shape + behind)

        outcomes = xp.shape(self.loss)[-1:]
        null, alternative, loss = (
            spread(leaf, outcomes) for leaf in (self.null, self.alternative, self.loss)
        )
        return type(self)(null, alternative, loss, spread(self.told, ()))

    def defined(self):
        return xp.all(~xp.isnan(self.null) & ~xp.isnan(self.alternative) & ~xp.isnan(self.loss), -1)

    def reversed(self):
        null, alternative, loss = (
            xp.flip(leaf, -1) for leaf in (self.null, self.alternative, self.loss)
        )
        return Discrete(alternative, null, -loss, self.told)

    def _towards(self, reverse):
        return self.reversed() if reverse else self

    def vertices(self):
        """Logarithms of type I error, power and their complements when the k highest losses are
        rejected, k = 0, 1, ...; all of them are 1, which their sum is only to rounding.
        """

        def below(mass):
            total = xp.flip(_log_cumulated(mass), -1)
            one = xp.zeros_like(total[..., :1])
            return xp.concatenate([one, total[..., 1:], one - xp.inf], -1)

        def above(mass):
            return xp.flip(below(xp.flip(mass, -1)), -1)

        null, alternative = self.null, self.alternative
        return above(null), below(null), below(alternative), above(alternative)

    def touch(self, eps, reverse):
        """The vertex that rejects all losses above eps."""
        own = self._towards(reverse)
        above = own.loss > eps[..., None]
        return Point(
            *(
                xp.minimum(_log_sum(xp.where(side, mass, -xp.inf)), 0.0)
                for mass, side in (
                    (own.null, above),
                    (own.null, ~above),
                    (own.alternative, ~above),
                    (own.alternative, above),
                )
            )
        )

    def _gains(self, eps):
        """log of what each outcome adds to delta."""
        gap = self.loss - eps[..., None]
        above = (gap > 0) & (self.alternative > -xp.inf)
        rest = log1mexp(-xp.where(above, xp.minimum(gap, 1e30), 1.0))
        return xp.where(above, xp.where(above, self.alternative, 0.0) + rest, -xp.inf)

    def log_delta(self, eps, reverse):
        return _log_sum(self._towards(reverse)._gains(eps)) + xp.where(xp.isnan(eps), xp.nan, 0.0)

    def bracket(self, low, high, reverse):
        """Each loss, and each of delta's positive terms, is known to rounding; what is next to
        zero, to the least number.
        """
        own, info = self._towards(reverse), xp.finfo(low.dtype)
        some = xp.isfinite(own.loss) & (own.loss != 0)
        shift = xp.where(some, 8 * info.eps * xp.abs(own.loss) + 2 * info.tiny, 0.0)
        less, more = (replace(own, loss=own.loss + sign * shift) for sign in (-1, 1))
        lower, upper = padded(_log_sum(less._gains(high)), _log_sum(more._gains(low)))
        return lower, upper, self.steepness(high, reverse)

    def find_slope(self, alpha, reverse):
        """The loss of the outcome within which the highest ones add up to alpha."""
        own = self._towards(reverse)
        index = _side(own.vertices()[0], alpha)
        return xp.take_along_axis(xp.flip(own.loss, -1), index, -1)[..., 0]

    def errors(self, alpha, reverse):
        """On the polygon's side above alpha."""
        log_alpha, _, log_beta, log_power = self._towards(reverse).vertices()
        index = _side(log_alpha, alpha)

        def at(column, shift):
            return xp.exp(xp.take_along_axis(column, index + shift, -1)[..., 0])

        width = at(log_alpha, 1) - at(log_alpha, 0)
        share = (alpha - at(log_alpha, 0)) / xp.where(width > 0, width, 1.0)
        share = xp.where((width > 0) & (share < 1), share, 1.0)
        return tuple(
            safe_log((1 - share) * at(column, 0) + share * at(column, 1))
            for column in (log_beta, log_power)
        )

    def solve_epsilon(self, log_delta, reverse):
        """delta = A_k - e^eps B_k between the k-th and the next loss: the largest of the lines'
        zeros of delta - target.
        """
        log_alpha, _, _, log_power = self._towards(reverse).vertices()
        target = log_delta[..., None]
        more = log_power > target
        reachable = (log_alpha > -xp.inf) & more
        rest = log1mexp(xp.where(reachable, target - xp.where(reachable, log_power, 0.0), -1.0))
        eps = xp.where(reachable, log_power - log_alpha, 0.0) + rest
        endless = xp.any((log_alpha == -xp.inf) & more, -1)
        best = xp.max(xp.where(reachable, eps, -xp.inf), -1)
        # delta = 0 asks for the largest loss, which two masses may not tell
        best = xp.where(
            log_delta == -xp.inf, self.loss_bound(reverse), xp.where(endless, xp.inf, best)
        )
        return best + xp.where(xp.isnan(log_delta), xp.nan, 0.0)

    def loss_bound(self, reverse):
        """Of the outcomes that happen."""
        own = self._towards(reverse)
        return xp.max(xp.where(own.alternative > -xp.inf, own.loss, -xp.inf), -1)

    def finite_bound(self, reverse):
        return self.atoms(reverse)[1]

    def gaussian_mu(self):
        """At a vertex: where G_mu lies below two vertices it lies below their
        chord, for it is convex.
        """
        return self._largest_height(1)

    def least_gaussian_mu(self):
        return self._largest_height(-1)

    def _largest_height(self, sign):
        """The largest Phi^-1(power) - Phi^-1(alpha) of a vertex, rounded up or down."""
        log_alpha, log_rest, log_beta, log_power = self.vertices()
        proper = (
            (log_alpha > -xp.inf)
            & (log_beta > -xp.inf)
            & (log_rest > -xp.inf)
            & (log_power > -xp.inf)
        )
        above, below = (
            _quantile(*pair, proper) for pair in ((log_power, log_beta), (log_alpha, log_rest))
        )
        never = (log_alpha == -xp.inf) & (log_power > -xp.inf) | (log_beta == -xp.inf) & (
            log_rest > -xp.inf
        )
        # quantiles are known to rounding of themselves and of 1, near the median
        doubt = ROUNDING * xp.finfo(above.dtype).eps * (1 + xp.abs(above) + xp.abs(below))
        gap = xp.maximum(xp.maximum(above - below, 0.0) + sign * doubt, 0.0)
        heights = xp.where(proper, gap, xp.where(never, xp.inf, 0.0))
        leaks = (self.loss_bound(False) > 0) | (self.loss_bound(True) > 0)
        return xp.where(leaks, xp.max(heights, -1), 0.0)

    def beta_bracket(self, alpha):
        """f is the largest of its sides continued:
        b + e^loss (a - alpha) through the vertex (a, b) below.

        a - alpha comes from a and alpha, or from their complements,
        which are exact at the last vertex.
        """
        log_a, log_rest, log_b, _ = (column[..., 1:] for column in self.vertices())
        loss, alpha = xp.flip(self.loss, -1), alpha[..., None]
        log_alpha = safe_log(alpha)
        ulp = xp.finfo(alpha.dtype).eps

        def known(log_value):
            value = xp.exp(log_value)
            finite = xp.where(log_value > -xp.inf, log_value, 0.0)
            return value, ROUNDING * ulp * (1 + xp.abs(finite)) * value

        (a, a_doubt), (rest, rest_doubt), (b, b_doubt) = map(known, (log_a, log_rest, log_b))
        small = a < rest
        gap = xp.where(small, a - alpha, (1 - alpha) - rest)
        doubt = xp.where(small, a_doubt, rest_doubt) + 2 * ulp * xp.abs(gap)
        finite = xp.isfinite(loss)
        loss = xp.where(finite, loss, 0.0)

        def side(sign):
            over = gap + sign * doubt
            log_over = safe_log(xp.abs(over))
            size = xp.abs(loss) + xp.where(xp.isfinite(log_over), xp.abs(log_over), 0.0)
            outward = 1 + sign * xp.where(over < 0, -1.0, 1.0) * 32 * ulp * (1 + size)
            rise = xp.where(over < 0, -1.0, 1.0) * xp.exp(loss + log_over) * outward
            # an a that is too small a number has e^loss a <= 1 all the same
            aside = sign * ROUNDING * ulp * (1 + 2 * xp.abs(loss))
            apart = xp.exp(loss + log_a + aside) - xp.exp(loss + log_alpha - aside)
            rise = xp.where(small & (log_a < -650.0), apart, rise)
            value = xp.where(finite, b + sign * b_doubt + rise, 0.0)
            value = xp.where(xp.isnan(value), sign * xp.inf, value)
            return xp.max(value * xp.where(value < 0, 1.0, 1 + sign * 4 * ulp), -1)

        flat = 1 - alpha[..., 0]
        low, high = (xp.clip(side(sign), 0.0, flat * (1 + ulp)) for sign in (-1, 1))
        # products below the least number are 0
        high = xp.where(flat > 0, xp.maximum(high, xp.finfo(alpha.dtype).tiny), 0.0)
        return xp.minimum(low, flat * (1 - 2 * ulp)), xp.minimum(high, 1.0)

    def log_told(self, reverse):
        own, ulp = self._towards(reverse), xp.finfo(self.loss.dtype).eps
        mass = _log_sum(xp.where(own.loss == xp.inf, own.alternative, -xp.inf))
        known = ~xp.isnan(self.told)
        sure = safe_log(xp.where(known, self.told, 0.0))
        off = 8 * ulp * xp.abs(xp.where(sure > -xp.inf, sure, 0.0))
        exact = sure - off, xp.minimum(sure + off, 0.0)
        return tuple(xp.where(known, *both) for both in zip(exact, padded(mass, mass)))

    def last_loss(self):
        return self.atoms(False)[1], self.told

    def atoms(self, reverse):
        loss = self._towards(reverse).loss
        finite = xp.isfinite(loss)
        return xp.min(xp.where(finite, loss, xp.inf), -1), xp.max(
            xp.where(finite, loss, -xp.inf), -1
        )

    def listed(self, reverse):
        own = self._towards(reverse)
        return own, 8 * np.finfo(np.float64).eps * np.abs(own.loss)

    def kinks(self, reverse):
        levels = xp.exp(self._towards(reverse).vertices()[0])
        return tuple(levels[..., k] for k in range(1, levels.shape[-1] - 1))

    def subsampled(self, rate):
        """The masses of the alternative blended, their losses from the losses."""
        rate = xp.broadcast_to(xp.asarray(rate, self.loss.dtype)[..., None], self.loss.shape)
        whole = rate >= 1
        absent = xp.where(whole, -xp.inf, xp.log1p(-xp.where(whole, 0.0, rate)))
        blended = _log_sum(xp.stack([absent + self.null, xp.log(rate) + self.alternative], -1))
        loss = sampled_loss(self.loss, rate)
        return Discrete(self.null, xp.where(whole, self.alternative, blended),
                        xp.where(whole, self.loss, loss),
                        xp.where(whole[..., 0], self.told, xp.nan))


@pytree
class Mirrored(Discrete):
    """Outcomes that exchanging the hypotheses does not change."""

    def reversed(self):
        return self


def _log_sum(values):
    """log of a sum of exponentials, exact where only one is not zero; without NaN where all are."""
    some = xp.any(values > -xp.inf, -1, keepdims=True)
    total = xp.logsumexp(xp.where(some, values, 0.0), axis=-1)
    return xp.where(some[..., 0], total, xp.where(xp.any(xp.isnan(values), -1), xp.nan, -xp.inf))


def _log_cumulated(mass):
    """log of cumulative sums, each of log2 n roundings (Hillis and Steele's scan)."""
    reach = 1
    while reach < mass.shape[-1]:
        further = xp.logaddexp(mass[..., reach:], mass[..., :-reach])
        mass = xp.concatenate([mass[..., :reach], further], -1)
        reach *= 2
    return xp.minimum(mass, 0.0)


def _side(log_levels, alpha):
    """The index of the polygon's side above alpha."""
    levels = xp.exp(log_levels)
    return xp.clip(xp.sum(levels[..., 1:] < alpha[..., None], -1), 0, levels.shape[-1] - 2)[
        ..., None
    ]


def _quantile(log_p, log_rest, proper):
    """Phi^-1(p) from the smaller of p and its complement."""
    low = log_p < log_rest
    small = xp.where(proper, xp.where(low, log_p, log_rest), -1.0)
    return xp.where(low, norm.ppf_exp(small), norm.isf_exp(small))
