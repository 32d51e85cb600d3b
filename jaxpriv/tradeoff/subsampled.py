"""Pairs made of a pair: hypotheses exchanged, and the record sub-sampled."""

from typing import Any

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import derived, product
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.blend import Blend
from jaxpriv.tradeoff.experiment import Point, padded
from jaxpriv.tradeoff.laws import Law
from jaxpriv.tradeoff.pair import Pair
from jaxpriv.tradeoff.solve import newton_in_bracket


@pytree
class Negated(Law):
    """The law of -T."""

    law: Law

    def logpdf(self, t):
        return self.law.logpdf(-t)

    def log_tails(self, t):
        return self.law.log_tails(-t)[::-1]

    def at(self, t):
        logpdf, logsf, logcdf, up, down = self.law.at(-t)
        return logpdf, logcdf, logsf, down, up

    def isf_exp(self, logp):
        return -self.law.ppf_exp(logp)

    def ppf_exp(self, logp):
        return -self.law.isf_exp(logp)


@pytree
class Reversed(Pair):
    """The pair, or another experiment, with null and alternative exchanged; its statistic is -T."""

    base: Any

    def batch_shape(self):
        return self.base.batch_shape()

    def aligned(self, shape, dtype):
        return Reversed(self.base.aligned(shape, dtype))

    def defined(self):
        return self.base.defined()

    def log_told(self, reverse):
        return self.base.log_told(not reverse)

    @property
    def isolated(self):
        return self.base.isolated

    @property
    def null(self):
        return Negated(self.base.alternative)

    @property
    def alternative(self):
        return Negated(self.base.null)

    def log_ratio(self, t):
        return -self.base.log_ratio(-t)

    def threshold(self, eps):
        return -self.base.threshold(-eps)

    def touch(self, eps, reverse):
        return self.base.touch(eps, not reverse)

    def log_delta(self, eps, reverse):
        return self.base.log_delta(eps, not reverse)

    def epsilon(self, log_delta, reverse):
        return self.base.epsilon(log_delta, not reverse)

    def errors(self, alpha, reverse):
        return self.base.errors(alpha, not reverse)

    def slope(self, alpha, reverse):
        return self.base.slope(alpha, not reverse)

    def bracket(self, low, high, reverse):
        return self.base.bracket(low, high, not reverse)

    def contact(self, eps, reverse):
        return self.base.contact(eps, not reverse)

    def contacts(self, eps):
        return self.base.contacts(eps)[::-1]

    def slopes(self, alpha):
        return self.base.slopes(alpha)[::-1]

    def loss_bound(self, reverse):
        return self.base.loss_bound(not reverse)

    def atoms(self, reverse):
        return self.base.atoms(not reverse)

    def kinks(self, reverse):
        return self.base.kinks(not reverse)

    def tail_mu(self):
        return self.base.tail_mu()

    def gaussian_mu(self):
        return self.base.gaussian_mu()

    def full(self):
        return self.base.full()

    def participation(self):
        return self.base.participation()

    def straight(self):
        return self.base.straight()

    def listed(self, reverse):
        return self.base.listed(not reverse)

    def auc(self):
        return self.base.auc()

    def reversed(self):
        return self.base


def sampled_loss(loss, rate):
    """log(1 + rate (e^loss - 1)): the loss of an outcome once the record takes part
    with probability rate. One that is too small a number is the least one, for it is not zero.
    """
    bound = 700.0 if loss.dtype == xp.float64 else 80.0
    large, infinite = loss > bound, loss == xp.inf
    share = rate * xp.expm1(xp.where(large, 0.0, loss))
    low = share < -0.5
    left = xp.where(low, (1 - rate) + rate * xp.exp(xp.where(large, 0.0, loss)), 1.0)
    beyond = xp.where(infinite, xp.inf, xp.where(large & ~infinite, loss, 0.0) + xp.log(rate))
    small = xp.log1p(xp.where(low, 0.0, share))
    least = xp.where(loss == 0, 0.0, xp.copysign(xp.finfo(loss.dtype).tiny, loss))
    small = xp.where(xp.abs(small) < xp.abs(least), least, small)
    # at rate 1 alone e^loss may be too small a number
    some = left > xp.finfo(loss.dtype).tiny
    left = xp.where(some, xp.log(xp.where(some, left, 1.0)), loss)
    return xp.where(large, beyond, xp.where(low, left, small))


@pytree
class Subsampled(Pair):
    """P against (1-p) P + p Q: the record takes part with probability p = rate
    (Kaissis et al. 2023, Lemma 9).

        forward  f_p = p f + (1-p) Id,   delta_p(eps) = p delta(eps'),   e^eps' = 1 + (e^eps - 1)/p
        reverse  delta_p(eps) = (1 - (1-p) e^eps) delta(eps_r),
                 e^eps_r = p e^eps/(1 - (1-p) e^eps), and 0 for eps >= -log(1-p)
    """

    base: Pair
    rate: jax.Array

    def subsampled(self, rate):
        return Subsampled(self.base, derived(product, self.rate, rate))

    def full(self):
        return self.base.full()

    def participation(self):
        return self.rate * self.base.participation()

    def straight(self):
        return self.base.straight()

    @property
    def absent(self):
        """With which probability the record takes no part."""
        return 1 - self.rate

    @property
    def log_absent(self):
        """Its logarithm, with finite derivatives at rate 1."""
        some = self.rate < 1
        return xp.where(some, xp.log1p(-xp.where(some, self.rate, 0.5)), -xp.inf)

    @property
    def null(self):
        return self.base.null

    @property
    def alternative(self):
        return Blend(self.base, self.rate)

    def log_ratio(self, t):
        return sampled_loss(self.base.log_ratio(t), self.rate)

    def _base_eps(self, eps):
        """(is there a threshold?, eps'), without overflow for large eps,
        and without cancellation near its end log(1-p).
        """
        inside = xp.expm1(eps) > -self.rate
        e = xp.where(inside, eps, 0.0)
        high = e > 1
        up, down = xp.where(high, e, 1.0), xp.where(high, 0.0, e)
        large = up - xp.log(self.rate) + xp.log1p(-self.absent * xp.exp(-up))
        share = xp.expm1(down) / self.rate
        end = (share < -0.5) & (self.rate > 0.5)
        left = xp.where(end, xp.exp(down) - self.absent, 1.0)
        small = xp.log1p(xp.where(end, 0.0, share))
        low = xp.log(xp.maximum(left, xp.finfo(left.dtype).tiny)) - xp.log(self.rate)
        return inside, xp.where(high, large, xp.maximum(xp.where(end, low, small), -1e15))

    def _base_eps_reverse(self, eps):
        """(is delta positive?, eps_r, 1 - (1-p) e^eps)."""
        # 1 - (1-p) e^eps by its distance to the end where that is near
        some = self.absent > 0
        gap = eps + xp.where(some, self.log_absent, 0.0)
        # of a tiny rate it may be too small a number: the least one then
        least = xp.finfo(gap.dtype).tiny
        near_end = some & (xp.abs(gap) < 0.5) & (self.rate > least**0.5)
        share = self.absent * (xp.expm1(xp.minimum(eps, 700.0)) / self.rate)
        left = xp.where(near_end, -xp.expm1(xp.where(near_end, gap, -1.0)),
                        xp.where(share < 1, xp.maximum(self.rate * (1 - share), least), -1.0))
        positive = left > 0
        left = xp.where(positive, left, 1.0)
        e = xp.where(positive, eps, 0.0)
        # 1 - left/p, next to 0
        share = self.absent / self.rate * xp.expm1(e)
        small = xp.abs(share) < 0.5
        rise = xp.where(
            small, -xp.log1p(xp.where(small, -share, 0.0)), xp.log(self.rate) - xp.log(left)
        )
        return positive, e + rise, left

    def bracket(self, low, high, reverse):
        """That of the base at eps', of which each end is moved outward by its rounding.

        The slope is the base's by the chain rule: e^eps' deps' = e^eps deps/p, and
        deps_r = deps/(1 - (1-p) e^eps), of which the factor's own logarithm has another part.
        """
        ulp = 16 * xp.finfo(low.dtype).eps
        ends = xp.stack([high * xp.where(high > 0, 1 + ulp, 1 - ulp),
                         low * xp.where(low > 0, 1 - ulp, 1 + ulp)])
        wide = self.aligned(ends.shape, ends.dtype)
        outward = xp.asarray([1.0, -1.0], ends.dtype).reshape((2,) + (1,) * low.ndim)
        if reverse:
            positive, base_eps, left = wide._base_eps_reverse(ends)
            # less is known of the lower bound
            lost = (left <= xp.finfo(left.dtype).tiny) & (outward > 0)
            factor = xp.where(lost, -xp.inf, xp.log(left))
        else:
            positive, base_eps = wide._base_eps(ends)
            factor = xp.log(wide.rate)
        base_eps = base_eps + outward * ulp * (xp.abs(base_eps) + xp.abs(ends))
        *bounds, rate = wide.base.bracket(base_eps, base_eps, reverse)
        found = [factor + value for value in bounds]
        beyond = -xp.inf if reverse else self.same_law(ends)
        lower, upper = (xp.where(positive, value, beyond) for value in found)
        lower, upper = padded(
            xp.maximum(lower, self.same_law(ends))[0], xp.maximum(upper, self.same_law(ends))[1]
        )
        if reverse:
            absent = xp.exp(wide.log_absent + ends - factor)
            rate = absent + rate / left
        else:
            rate = rate * xp.exp(ends - base_eps - factor)
        rate = xp.where(positive, rate, xp.where(ends < 0, xp.exp(ends - beyond), xp.inf))
        return lower, upper, rate[0]

    def threshold(self, eps):
        inside, base_eps = self._base_eps(eps)
        return xp.where(
            inside, self.base.threshold(base_eps), self.null.ppf_exp(xp.full_like(eps, -xp.inf))
        )

    def touch(self, eps, reverse):
        """From the base's touch, with tails blended: no threshold needed."""
        inside, base_eps = self._base_eps(-eps if reverse else eps)
        point = self.base.touch(base_eps, False)
        mix = self.alternative.mix
        log_beta = mix(point.log_specificity, point.log_beta)
        log_power = mix(point.log_alpha, point.log_power)
        forward = Point(point.log_alpha, point.log_specificity, log_beta, log_power)
        always = Point.end(xp.ones_like(inside))
        chosen = jax.tree.map(lambda inner, end: xp.where(inside, inner, end), forward, always)
        return chosen.exchanged() if reverse else chosen

    def log_delta(self, eps, reverse):
        if reverse:
            positive, base_eps, left = self._base_eps_reverse(eps)
            value = xp.log(left) + self.base.log_delta(base_eps, True)
            return xp.where(positive, value, xp.where(xp.isnan(eps), xp.nan, -xp.inf))
        inside, base_eps = self._base_eps(eps)
        return xp.where(
            inside, xp.log(self.rate) + self.base.log_delta(base_eps, False), self.same_law(eps)
        )

    def solve_epsilon(self, log_delta, reverse):
        if not reverse:
            up = self.base.epsilon(xp.minimum(log_delta - xp.log(self.rate), 0.0), False)
            return sampled_loss(up, self.rate)
        # p delta(e)/(p + (1-p) e^e) = delta: e lies left of the base's answer for delta
        reachable = log_delta > -xp.inf
        log_delta = xp.where(reachable, log_delta, xp.where(xp.isnan(log_delta), xp.nan, -1.0))
        high = self.base.epsilon(log_delta, True)

        def shortfall(e):
            """target - log delta, increasing in e; its slope needs e^e Q(T<=t)/delta only."""
            log_delta_base = self.base.log_delta(e, True)
            weight = xp.logaddexp(xp.log(self.rate), xp.log1p(-self.rate) + e)
            slope = xp.exp(e + self.base.touch(e, True).log_alpha - log_delta_base)
            slope = slope + xp.exp(xp.log1p(-self.rate) + e - weight)
            return log_delta - (xp.log(self.rate) + log_delta_base - weight), slope

        e = newton_in_bracket(shortfall, xp.zeros_like(high), high)
        value = e - xp.logaddexp(xp.log(self.rate), self.log_absent + e)
        return xp.where(reachable | xp.isnan(log_delta), value, self.loss_bound(True))

    def errors(self, alpha, reverse):
        if reverse:
            return super().errors(alpha, reverse)
        log_beta, log_power = self.base.errors(alpha, False)
        mix = self.alternative.mix
        return mix(xp.log1p(-alpha), log_beta), mix(xp.log(alpha), log_power)

    def loss_bound(self, reverse):
        base = self.base.loss_bound(reverse)
        if reverse:
            return -sampled_loss(-base, self.rate)
        return sampled_loss(base, self.rate)

    def atoms(self, reverse):
        """The base's atoms, with losses log(1 + p (e^L - 1))."""
        low, high = (sampled_loss(loss, self.rate) for loss in self.base.atoms(False))
        return (-high, -low) if reverse else (low, high)

    def kinks(self, reverse):
        if not reverse:
            return self.base.kinks(False)
        return tuple(xp.exp(self.errors(kink, False)[0]) for kink in self.base.kinks(False))

    def tail_mu(self):
        return self.base.tail_mu()

    def auc(self):
        base = self.base.auc()
        return None if base is None else self.rate * base + (1 - self.rate) / 2
