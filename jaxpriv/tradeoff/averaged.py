"""One of several experiments, drawn with known weights: their profiles are averaged."""

import operator

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.envelope import Envelope, finite_slope
from jaxpriv.tradeoff.experiment import Point, padded
from jaxpriv.tradeoff.solve import newton_in_bracket, secant_in_bracket


@pytree
class Mixture(Envelope):
    """One of several experiments, drawn with the weights and known to the adversary:
    the conjugates are averaged.

    `members` are batched experiments whose parameters carry the members along a last
    axis, `weights` alike.
    """

    members: tuple
    weights: tuple

    def batch_shape(self):
        shapes = [
            xp.broadcast_shapes(m.batch_shape(), xp.shape(w))
            for m, w in zip(self.members, self.weights)
        ]
        return xp.broadcast_shapes(*(shape[:-1] for shape in shapes))

    def own_axes(self):
        return jax.tree.map(lambda own: own + 1, super().own_axes())

    def aligned(self, shape, dtype):
        def spread(member, weight):
            full = shape + xp.broadcast_shapes(member.batch_shape(), xp.shape(weight))[-1:]
            return member.aligned(full, dtype), xp.broadcast_to(
                xp.asarray(resolved(weight, dtype), dtype), full
            )

        members, weights = zip(*map(spread, self.members, self.weights))
        return Mixture(members, weights)

    def _each(self, function):
        """function(member) for all members, stacked along the last axis."""
        return xp.concatenate([function(member) for member in self.members], -1)

    def _average(self, log_values):
        shares = log_values + xp.log(xp.concatenate(self.weights, -1))
        some = xp.any(shares > -xp.inf, -1, keepdims=True)
        total = xp.logsumexp(xp.where(some, shares, 0.0), axis=-1)
        return xp.where(
            some[..., 0], total, xp.where(xp.any(xp.isnan(shares), -1), xp.nan, -xp.inf)
        )

    def log_delta(self, eps, reverse):
        return self._average(self._each(lambda m: m.log_delta(_per_member(eps, m), reverse)))

    def touch(self, eps, reverse):
        points = [m.touch(_per_member(eps, m), reverse) for m in self.members]
        return Point(*(self._average(xp.concatenate(parts, -1)) for parts in zip(*points)))

    def find_slope(self, alpha, reverse):
        slopes = finite_slope(self._each(lambda m: m.slope(_per_member(alpha, m), reverse)))
        return _where_touching(
            lambda eps: self.touch(eps, reverse), alpha, xp.min(slopes, -1), xp.max(slopes, -1)
        )

    def bracket(self, low, high, reverse):
        """The averages of the members' bounds."""
        ends = [(_per_member(low, member), _per_member(high, member)) for member in self.members]
        found = [member.bracket(*own, reverse) for member, own in zip(self.members, ends)]
        lower, upper, rate = (xp.concatenate(column, -1) for column in zip(*found))
        weights = xp.concatenate(self.weights, -1)
        most = self._average(upper)
        shares = weights * xp.exp(upper - xp.where(xp.isfinite(most), most, 0.0)[..., None])
        lower, upper = padded(self._average(lower), most)
        return lower, upper, xp.sum(xp.where(shares > 0, shares * rate, 0.0), -1)

    def as_narrow_as(self, width=None, deep=None):
        members = tuple(m.as_narrow_as(width, deep) for m in self.members)
        return Mixture(members, self.weights)

    def solve_epsilon(self, log_delta, reverse):
        """Newton between the members' epsilons;
        delta = 0 asks for the largest of those that are ever drawn.
        """
        each = self._each(lambda m: m.epsilon(_per_member(log_delta, m), reverse))
        some = log_delta > -xp.inf
        target = xp.where(some, log_delta, -1.0)

        def excess(eps):
            value = self.log_delta(eps, reverse)
            return target - value, xp.exp(eps + self.touch(eps, reverse).log_alpha - value)

        found = newton_in_bracket(excess, xp.min(each, -1), xp.max(each, -1))
        largest = xp.max(xp.where(xp.concatenate(self.weights, -1) > 0, each, 0.0), -1)
        return xp.where(some | xp.isnan(log_delta), found, largest)

    def whole(self, up):
        members = tuple(member.whole(up) for member in self.members)
        if all(map(operator.is_, members, self.members)):
            return self
        return Mixture(members, self.weights)

    def defined(self):
        result = xp.ones(self.batch_shape(), bool)
        for member, weight in zip(self.members, self.weights):
            result = result & xp.all(member.defined() & ~xp.isnan(weight), -1)
        return result

    def tail_mu(self):
        """The largest member's: the mixture lies above its curve, and follows it for alpha -> 0."""
        return self._largest(m.tail_mu() for m in self.members)

    def least_tail_mu(self):
        return self._largest(m.least_tail_mu() for m in self.members)

    def _largest(self, known):
        """Of the members' mu, if all are known."""
        known = list(known)
        if any(mu is None for mu in known):
            return None
        return xp.max(
            xp.where(xp.concatenate(self.weights, -1) > 0, xp.concatenate(known, -1), 0.0), -1
        )

    def straight(self):
        return any(member.straight() for member in self.members)

    def full(self):
        return all(member.full() for member in self.members)

    def participation(self):
        each = self._each(lambda m: m.participation())
        return xp.sum(xp.concatenate(self.weights, -1) * each, -1)

    def loss_bound(self, reverse):
        return xp.max(self._each(lambda m: m.loss_bound(reverse)), -1)

    def log_told(self, reverse):
        """That of who is told which mechanism it is."""
        both = zip(*(member.log_told(reverse) for member in self.members))
        return padded(*(self._average(xp.concatenate(side, -1)) for side in both))

    def reversed(self):
        return Mixture(tuple(m.reversed() for m in self.members), self.weights)

    def subsampled(self, rate):
        return Mixture(
            tuple(m.subsampled(xp.asarray(rate)[..., None]) for m in self.members), self.weights
        )


def _per_member(value, member):
    return xp.broadcast_to(
        value[..., None], xp.broadcast_shapes(value.shape + (1,), member.batch_shape())
    )


def _where_touching(touch, alpha, low, high):
    """The slope eps in [low, high] at which the touching point passes alpha."""

    small, log_alpha, log_rest = alpha < 0.5, xp.log(alpha), xp.log1p(-alpha)

    def shortfall(eps):
        point = touch(eps)
        return xp.where(small, log_alpha - point.log_alpha, point.log_specificity - log_rest)

    return secant_in_bracket(shortfall, low, high, iterations=48)
