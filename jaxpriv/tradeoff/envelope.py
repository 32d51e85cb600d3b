"""Experiments known by the tangent lines of their trade-off function: mixtures, and the symmetric worst of several."""

import operator
from abc import abstractmethod
from functools import partial

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.experiment import Experiment, Point, padded
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket


class Envelope(Experiment):
    """An experiment that gives `touch`, `log_delta` and `find_slope`.

    Errors from the slope at alpha: the line of slope -e^eps that touches at (a, b) gives beta = b - e^eps (alpha - a).

    That is exact on straight pieces, and elsewhere an error of eps enters squared.
    """

    @abstractmethod
    def find_slope(self, alpha, reverse):
        """The value of `slope`; its derivative is known without it."""

    def errors(self, alpha, reverse):
        eps = self.slope(alpha, reverse)
        log_delta, point = self.contact(eps, reverse)
        inside = (alpha > 0) & (alpha < 1)
        alpha_in = xp.where(inside, alpha, 0.5)
        low = alpha_in < 0.5
        step = xp.where(low, alpha_in - xp.exp(point.log_alpha), xp.exp(point.log_specificity) - (1 - alpha_in))
        rise = xp.exp(eps) * step
        # a slope that is right to the rounding of delta only may leave nothing of a beta of 1e-40
        log_beta = safe_log(xp.maximum(xp.exp(point.log_beta) - rise, 0.0))
        power = xp.exp(point.log_power) + rise
        # the same value without cancellation, for small alpha; the derivatives are those of the line through the point
        steepest = xp.exp(xp.minimum(self.loss_bound(reverse) + xp.log(alpha_in), 0.0))
        exact = xp.minimum(xp.exp(log_delta) + xp.exp(eps) * alpha_in, steepest)
        log_power = safe_log(xp.stop_gradient(exact) + (power - xp.stop_gradient(power)))
        sure, none = xp.zeros_like(alpha), xp.full_like(alpha, -xp.inf)
        end = alpha <= 0
        log_beta = xp.where(inside, log_beta, xp.where(end, sure, none))
        log_power = xp.where(inside, log_power, xp.where(end, none, sure))
        bad = xp.where(xp.isnan(alpha), xp.nan, 0.0)
        return log_beta + bad, log_power + bad

    def slope(self, alpha, reverse):
        inside = (alpha > 0) & (alpha < 1)
        return _slope(self, xp.where(inside, alpha, 0.5), reverse)


@partial(xp.custom_jvp, nondiff_argnums=(2,))
def _slope(envelope, alpha, reverse):
    return envelope.find_slope(alpha, reverse)


@_slope.defjvp
def _slope_jvp(reverse, primals, tangents):
    """alpha(eps) = alpha moves eps where the curve bends; on a straight piece, and at its ends, eps stays."""
    envelope, alpha = primals
    eps = _slope(envelope, alpha, reverse)

    def touching(envelope, eps):
        return xp.exp(envelope.touch(eps, reverse).log_alpha)

    value, explicit = jax.jvp(lambda e: touching(e, eps), (envelope,), (tangents[0],))
    _, rate = jax.jvp(partial(touching, envelope), (eps,), (xp.ones_like(eps),))
    bends = (rate < 0) & (xp.abs(value - alpha) <= 1e-6 * xp.minimum(alpha, 1 - alpha))
    return eps, xp.where(bends, (tangents[1] - explicit) / xp.where(bends, rate, 1.0), 0.0)


def _where_touching(touch, alpha, low, high):
    """The slope eps in [low, high] at which the touching point passes alpha."""

    def shortfall(eps):
        log_alpha = touch(eps).log_alpha
        return xp.log(alpha) - log_alpha, xp.zeros_like(eps)

    return newton_in_bracket(shortfall, low, high, iterations=48)


def _finite(eps):
    bound = 1e4 if eps.dtype == xp.float64 else 80.0
    return xp.clip(eps, -bound, bound)


@pytree
class Mixture(Envelope):
    """One of several experiments, drawn with the weights and known to the adversary: the conjugates are averaged.

    `members` are batched experiments whose parameters carry the members along a last axis, `weights` alike.
    """

    members: tuple
    weights: tuple

    def batch_shape(self):
        shapes = [xp.broadcast_shapes(m.batch_shape(), xp.shape(w)) for m, w in zip(self.members, self.weights)]
        return xp.broadcast_shapes(*(shape[:-1] for shape in shapes))

    def aligned(self, shape, dtype):
        def spread(member, weight):
            full = shape + xp.broadcast_shapes(member.batch_shape(), xp.shape(weight))[-1:]
            return member.aligned(full, dtype), xp.broadcast_to(xp.asarray(resolved(weight, dtype), dtype), full)

        members, weights = zip(*map(spread, self.members, self.weights))
        return Mixture(members, weights)

    def _each(self, function):
        """function(member) for all members, stacked along the last axis."""
        return xp.concatenate([function(member) for member in self.members], -1)

    def _average(self, log_values):
        shares = log_values + xp.log(xp.concatenate(self.weights, -1))
        some = xp.any(shares > -xp.inf, -1, keepdims=True)
        total = xp.logsumexp(xp.where(some, shares, 0.0), axis=-1)
        return xp.where(some[..., 0], total, xp.where(xp.any(xp.isnan(shares), -1), xp.nan, -xp.inf))

    def log_delta(self, eps, reverse):
        return self._average(self._each(lambda m: m.log_delta(_per_member(eps, m), reverse)))

    def touch(self, eps, reverse):
        points = [m.touch(_per_member(eps, m), reverse) for m in self.members]
        return Point(*(self._average(xp.concatenate(parts, -1)) for parts in zip(*points)))

    def find_slope(self, alpha, reverse):
        slopes = _finite(self._each(lambda m: m.slope(_per_member(alpha, m), reverse)))
        return _where_touching(lambda eps: self.touch(eps, reverse), alpha, xp.min(slopes, -1), xp.max(slopes, -1))

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

    def solve_epsilon(self, log_delta, reverse):
        """Newton between the members' epsilons; delta = 0 asks for the largest of those that are ever drawn."""
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
        return self if all(map(operator.is_, members, self.members)) else Mixture(members, self.weights)

    def defined(self):
        result = xp.ones(self.batch_shape(), bool)
        for member, weight in zip(self.members, self.weights):
            result = result & xp.all(member.defined() & ~xp.isnan(weight), -1)
        return result

    def tail_mu(self):
        """The largest member's: the mixture lies above its curve, and follows it for alpha -> 0."""
        known = [m.tail_mu() for m in self.members]
        if any(mu is None for mu in known):
            return None
        return xp.max(xp.where(xp.concatenate(self.weights, -1) > 0, xp.concatenate(known, -1), 0.0), -1)

    def loss_bound(self, reverse):
        return xp.max(self._each(lambda m: m.loss_bound(reverse)), -1)

    def reversed(self):
        return Mixture(tuple(m.reversed() for m in self.members), self.weights)

    def subsampled(self, rate):
        return Mixture(tuple(m.subsampled(xp.asarray(rate)[..., None]) for m in self.members), self.weights)


def _per_member(value, member):
    return xp.broadcast_to(value[..., None], xp.broadcast_shapes(value.shape + (1,), member.batch_shape()))


@pytree
class Hull(Envelope):
    """The lower convex envelope of several experiments in both directions: whoever attacks, and whichever way.

    Its profile is the largest of theirs. Where one of them supports the envelope, its own curve is the envelope; two such
    stretches are joined by a straight piece, the one of slope -1 between the two directions' points at eps = 0 always.
    """

    members: tuple

    def batch_shape(self):
        return xp.broadcast_shapes(*(member.batch_shape() for member in self.members))

    def aligned(self, shape, dtype):
        return type(self)(tuple(member.aligned(shape, dtype) for member in self.members))

    def defined(self):
        return xp.all(xp.stack(xp.broadcast_arrays(*(member.defined() for member in self.members))), 0)

    def _contacts(self, eps):
        """Both directions of every member: log deltas (directions, ...) and their points, stacked alike."""
        parts = [contact for member in self.members for contact in member.contacts(eps)]
        return jax.tree.map(lambda *leaves: xp.stack(leaves), *parts)

    def log_delta(self, eps, reverse):
        del reverse
        return _first_largest([value for member in self.members for value in member.log_deltas(eps)])

    def epsilon(self, log_delta, reverse):
        del reverse
        return _first_largest([value for member in self.members for value in member.epsilons(log_delta)])

    def touch(self, eps, reverse):
        """The supporting direction's point; where several tie, as they do at eps = 0, the one with the smallest alpha."""
        del reverse
        return _first_support(*self._contacts(eps))

    def find_slope(self, alpha, reverse):
        """0 on the middle piece, else the slope of a direction that supports the envelope at alpha, else by bisection.

        The loop's first round looks at the candidates; it goes on only if some alpha lies on another straight piece.
        """
        del reverse
        first, look, unfinished = self._search(alpha)
        if xp.any_jax(first):
            return xp.while_loop(unfinished, look, first)[4]
        *_, low, high, result, found = look(first)
        if found.all():
            return result
        # NumPy goes on with those that are left, and without the candidates
        rest = ~found
        own = jax.tree.map(lambda leaf: leaf[rest], self)
        _, look, unfinished = own._search(alpha[rest])
        middle = 0.5 * (low[rest] + high[rest])
        state = 1, middle[None], low[rest], high[rest], middle, found[rest]
        result[rest] = xp.while_loop(unfinished, look, state)[4]
        return result

    def _tried(self, eps):
        """log deltas (directions, slopes, ...) of all slopes (slopes, ...), and log alpha (directions, ...) at the first.

        One program evaluates all alike; NumPy only what is asked for.
        """
        if xp.any_jax(eps, self):
            log_deltas, points = self.aligned(eps.shape, eps.dtype)._contacts(eps)
            return log_deltas, points.log_alpha[:, 0]
        at_first, points = self._contacts(eps[0])
        if len(eps) == 1:
            return at_first[:, None], points.log_alpha
        wide = self.aligned(eps[1:].shape, eps.dtype)
        others = xp.stack([value for member in wide.members for value in member.log_deltas(eps[1:])])
        return xp.concatenate([at_first[:, None], others], 1), points.log_alpha

    def _search(self, alpha):
        """The loop: its start (step, slopes to try, ends of the bracket, result, is it found?), its step, does it go on?"""
        own = [_finite(slope) for member in self.members for slope in member.slopes(alpha)]
        candidates = xp.stack([xp.zeros_like(alpha), *own])
        low, high = xp.min(candidates[1:], 0), xp.max(candidates[1:], 0)

        def choose(log_deltas, log_alpha):
            supports = _support(log_deltas)
            start, stop = _span(log_alpha, supports[:, 0])
            found = (alpha >= start) & (alpha <= stop)
            result = xp.zeros_like(alpha)
            for index, eps in enumerate(own):
                take = supports[index, index + 1] & ~found
                result, found = xp.where(take, eps, result), found | take
            return result, found | xp.isnan(alpha)

        def look(state):
            step, eps, low, high, result, found = state
            log_deltas, log_alpha = self._tried(eps)
            first = xp.asarray(step == 0)
            chosen, settled = choose(log_deltas, log_alpha) if eps.shape == candidates.shape else (result, found)
            beyond = _span(log_alpha, _support(log_deltas)[:, 0])[0] > alpha
            low, high = xp.where(~first & beyond, eps[0], low), xp.where(~first & ~beyond, eps[0], high)
            found = xp.where(first, settled, found)
            middle = 0.5 * (low + high)
            result = xp.where(first, chosen, xp.where(found, result, middle))
            return step + 1, xp.broadcast_to(middle, eps.shape), low, high, result, found

        def unfinished(state):
            step, *_, found = state
            return (step == 0) | ((step < 50) & ~xp.all(found))

        return (0, candidates, low, high, xp.zeros_like(alpha), xp.zeros(alpha.shape, bool)), look, unfinished

    def kinks(self, reverse):
        del reverse
        own = tuple(kink for member in self.members for r in (False, True) for kink in member.kinks(r))
        log_deltas, points = self._contacts(xp.zeros(self.batch_shape(), xp.result_type(*jax.tree.leaves(self))))
        return own + _span(points.log_alpha, _support(log_deltas))

    def loss_bound(self, reverse):
        del reverse
        return _largest([member.loss_bound(r) for member in self.members for r in (False, True)])

    def whole(self, up):
        members = tuple(member.whole(up) for member in self.members)
        return self if all(map(operator.is_, members, self.members)) else type(self)(members)

    def last_loss(self):
        known = [member.last_loss() for member in self.members]
        if any(one is None for one in known):
            return None
        return tuple(_largest(column) for column in zip(*known))

    def contact(self, eps, reverse):
        """Both from one evaluation of all directions."""
        del reverse
        log_deltas, points = self._contacts(eps)
        return xp.max(log_deltas, 0), _first_support(log_deltas, points)

    def bracket(self, low, high, reverse):
        """The largest lower and upper bounds; the rate is that of the direction with the largest profile."""
        del reverse
        return _largest_bracket([one for member in self.members for one in member.brackets(low, high)])

    def brackets_near(self, center, ends, reverse):
        if xp.any_jax(self, center):
            return super().brackets_near(center, ends, reverse)
        found = [one for member in self.members for one in member.both_brackets_near(center, ends)]
        return _largest_bracket(found)

    def both_brackets_near(self, center, ends):
        own = self.brackets_near(center, ends, False)
        return own, own

    def brackets(self, low, high):
        own = self.bracket(low, high, False)
        return own, own

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """The largest of the directions' own; in a program one search for all of them, which is smaller."""
        if xp.any_jax(self, log_delta):
            return super().epsilon_bracket(lowest, log_delta, reverse)
        found = [own for member in self.members for own in member.epsilon_brackets(lowest, log_delta)]
        lower, upper = zip(*found)
        return _largest(lower), _largest(upper)

    def epsilon_brackets(self, lowest, log_delta):
        own = self.epsilon_bracket(lowest, log_delta, False)
        return own, own

    def otherwise(self):
        others = [member.otherwise() for member in self.members]
        if all(other is None for other in others):
            return None
        return type(self)(tuple(member if other is None else other for member, other in zip(self.members, others)))

    def tail_mu(self):
        known = [member.tail_mu() for member in self.members]
        return None if any(mu is None for mu in known) else _largest(known)

    def gaussian_mu(self):
        known = [member.gaussian_mu() for member in self.members]
        return None if any(mu is None for mu in known) else _largest(known)

    def reversed(self):
        return self


@pytree
class Symmetric(Hull):
    """A hull of which one direction of one member is what happens in every step, though it is not known which."""

    def subsampled(self, rate):
        return Symmetric(tuple(m.subsampled(rate) for member in self.members for m in (member, member.reversed())))

    def compose(self, n):
        return Symmetric(tuple(member.compose(n) for member in self.members))


@pytree
class Replaced(Hull):
    """A hull that is itself the bound of each step, whichever neighbour is worse there: it composes as one pair."""

    def atoms(self, reverse):
        """The straight piece of slope -1 is an outcome of loss 0."""
        del reverse
        zero = xp.zeros(self.batch_shape(), xp.result_type(*jax.tree.leaves(self)))
        return zero, zero

    def subsampled(self, rate):
        raise ValueError("subsample() of a curve for replaced records: sub-sample the curve of the full mechanism once")


def _largest_bracket(found):
    lower, upper, rate = (xp.stack(xp.broadcast_arrays(*column)) for column in zip(*found))
    return xp.max(lower, 0), xp.max(upper, 0), _at_least(-upper, rate)


def _largest(values):
    result = values[0]
    for value in values[1:]:
        result = xp.maximum(result, value)
    return result


def _first_largest(values):
    """The largest, or the first that is as large to rounding: where directions tie, as they do at rate 1, with its derivative."""
    result = values[0]
    for value in values[1:]:
        size = xp.where(xp.isfinite(result), xp.abs(result), 0.0)
        more = value > result + 64 * xp.finfo(result.dtype).eps * xp.stop_gradient(size)
        result = xp.where(more | xp.isnan(value), value, result)
    return result


def _support(log_deltas):
    """Which directions (first axis) have the largest profile, up to rounding."""
    worst = xp.max(log_deltas, 0)
    slack = 16 * xp.finfo(worst.dtype).eps * (1 + xp.abs(worst))
    return (log_deltas == worst) | (log_deltas >= worst - xp.where(xp.isfinite(slack), slack, 0.0))


def _first_support(log_deltas, points):
    """Of the supporting points that with the smallest alpha."""
    return _at_least(xp.where(_support(log_deltas), points.log_alpha, xp.inf), points)


def _at_least(keys, tree):
    """The rows of a pytree at the first smallest of a few keys. (argmin does not compile in float64 inside float32.)"""
    least, chosen = keys[0], jax.tree.map(lambda leaf: leaf[0], tree)
    for row in range(1, keys.shape[0]):
        less = keys[row] < least
        least = xp.where(less, keys[row], least)
        chosen = jax.tree.map(lambda leaf, old, row=row, less=less: xp.where(less, leaf[row], old), tree, chosen)
    return chosen


def _span(log_alpha, supports):
    """Smallest and largest alpha among the supporting points: the ends of a straight piece."""
    low = xp.min(xp.where(supports, log_alpha, xp.inf), 0)
    return xp.exp(low), xp.exp(xp.max(xp.where(supports, log_alpha, -xp.inf), 0))
