"""The worst of several experiments: the lower convex envelope of their trade-off functions."""

import operator

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.attacked import Attacked
from jaxpriv.tradeoff.envelope import Envelope, finite_slope
from jaxpriv.tradeoff.supporting import at_least, first_support, search, span, support


@pytree
class Hull(Envelope):
    """The lower convex envelope of several experiments in both directions:
    whoever attacks, and whichever way.

    Its profile is the largest of theirs. Where one of them supports the envelope, its own curve is
    the envelope; two such stretches are joined by a straight piece, the one of slope -1 between the
    two directions' points at eps = 0 always.
    """

    members: tuple

    def batch_shape(self):
        return xp.broadcast_shapes(*(member.batch_shape() for member in self.members))

    def aligned(self, shape, dtype):
        return type(self)(tuple(member.aligned(shape, dtype) for member in self.members))

    def defined(self):
        return xp.all(
            xp.stack(xp.broadcast_arrays(*(member.defined() for member in self.members))), 0
        )

    def _contacts(self, eps):
        """Both directions of every member: log deltas (directions, ...)
        and their points, stacked alike.
        """
        parts = []
        for member in self.members:
            (one, point), (other, exchanged) = member.contacts(eps)
            # at 0 both directions have one delta, but for rounding, and both support the envelope
            same = xp.where(eps == 0, xp.maximum(one, other), one)
            parts += [(same, point), (xp.where(eps == 0, same, other), exchanged)]
        return jax.tree.map(lambda *leaves: xp.stack(leaves), *parts)

    def log_delta(self, eps, reverse):
        del reverse
        return _first_largest(
            [value for member in self.members for value in member.log_deltas(eps)]
        )

    def epsilon(self, log_delta, reverse):
        del reverse
        return _first_largest(
            [value for member in self.members for value in member.epsilons(log_delta)]
        )

    def touch(self, eps, reverse):
        """The supporting direction's point; where several tie, as they do at eps = 0,
        the one with the smallest alpha.
        """
        del reverse
        return first_support(*self._contacts(eps))

    def find_slope(self, alpha, reverse):
        del reverse
        return self._searched(alpha)[0]

    def likely_slope(self, alpha):
        """Of one member: the forward direction's where that is above 0, the other one's where that
        is below, else 0, of the straight piece between them. So it is where the forward direction
        is the worse one at all eps > 0, as with the record in the sample.
        """
        if len(self.members) > 1:
            return None
        forward, backward = map(finite_slope, self.members[0].slopes(alpha))
        return np.where(forward > 0, forward, np.minimum(backward, 0.0))

    def supported(self, alpha, reverse):
        """A program has the contact from its search."""
        if xp.any_jax(alpha, self):
            return self._searched(alpha)
        return super().supported(alpha, reverse)

    def _searched(self, alpha):
        """(slope, contact there or, by NumPy, None): 0 on the middle piece, else the slope of a
        direction that supports the envelope at alpha, else that of a straight piece.

        The loop's first round looks at the candidates; it goes on only if some alpha lies on
        another straight piece.
        """
        own = [finite_slope(slope) for member in self.members for slope in member.slopes(alpha)]
        candidates = xp.stack([xp.zeros_like(alpha), *own])
        first, look, unfinished = search(self._tried, alpha, candidates)
        if xp.any_jax(candidates):
            return xp.while_loop(unfinished, look, first).best
        state = look(first)
        result, found = state.best[0], state.found
        if not found.all():
            # NumPy goes on with those that are left, and without the candidates
            rest = ~found
            own = jax.tree.map(lambda leaf: leaf[rest], self)
            _, look, unfinished = search(own._tried, alpha[rest], candidates[:, rest])
            state = jax.tree.map(lambda leaf: leaf[..., rest], state._replace(step=()))
            state = state._replace(step=1, tried=state.tried[:1])
            result[rest] = xp.while_loop(unfinished, look, state).best[0]
        return result, None

    def _tried(self, eps):
        """Of all slopes (slopes, ...) log deltas (directions, slopes, ...), of the first one log
        alpha (directions, ...), and the contacts.

        One program evaluates all alike; NumPy only what is asked for, without contacts.
        """
        if xp.any_jax(eps, self):
            log_deltas, points = self.aligned(eps.shape, eps.dtype)._contacts(eps)
            contact = xp.max(log_deltas, 0), first_support(log_deltas, points)
            return log_deltas, points.log_alpha[:, 0], contact
        at_first, points = self._contacts(eps[0])
        if len(eps) == 1:
            return at_first[:, None], points.log_alpha, None
        wide = self.aligned(eps[1:].shape, eps.dtype)
        others = xp.stack(
            [value for member in wide.members for value in member.log_deltas(eps[1:])]
        )
        return xp.concatenate([at_first[:, None], others], 1), points.log_alpha, None

    def kinks(self, reverse):
        del reverse
        own = tuple(
            kink for member in self.members for r in (False, True) for kink in member.kinks(r)
        )
        log_deltas, points = self._contacts(
            xp.zeros(self.batch_shape(), xp.result_type(*jax.tree.leaves(self)))
        )
        return own + span(points.log_alpha, support(log_deltas))

    def loss_bound(self, reverse):
        del reverse
        return _largest([member.loss_bound(r) for member in self.members for r in (False, True)])

    def whole(self, up):
        members = tuple(member.whole(up) for member in self.members)
        return self if all(map(operator.is_, members, self.members)) else type(self)(members)

    def as_narrow_as(self, width=None, deep=None):
        return type(self)(tuple(member.as_narrow_as(width, deep) for member in self.members))

    def straight(self):
        return any(member.straight() for member in self.members)

    def cornered(self):
        return any(member.cornered() for member in self.members)

    def polygon(self):
        """Where one curve takes over from another is not known."""
        return len(self.members) == 1 and self.members[0].finite

    def smooth(self):
        """But for where one direction takes over from the other."""
        return all(isinstance(m, Envelope) and m.smooth() for m in self.members)

    def full(self):
        return all(member.full() for member in self.members)

    def participation(self):
        """Of whoever's record takes part most often."""
        return _largest([member.participation() for member in self.members])

    def log_told(self, reverse):
        del reverse
        known = [member.log_told(r) for member in self.members for r in (False, True)]
        return tuple(map(_largest, zip(*known)))

    def last_loss(self):
        known = [member.last_loss() for member in self.members]
        if any(one is None for one in known):
            return None
        return tuple(_largest(column) for column in zip(*known))

    def contact(self, eps, reverse):
        """Both from one evaluation of all directions."""
        del reverse
        log_deltas, points = self._contacts(eps)
        return xp.max(log_deltas, 0), first_support(log_deltas, points)

    def bracket(self, low, high, reverse):
        """The largest lower and upper bounds;
        the rate is that of the direction with the largest profile.
        """
        del reverse
        return _largest_bracket(
            [one for member in self.members for one in member.brackets(low, high)]
        )

    def brackets_near(self, center, ends, reverse):
        if xp.any_jax(self, center):
            return super().brackets_near(center, ends, reverse)
        found = [one for member in self.members for one in member.both_brackets_near(center, ends)]
        return _largest_bracket(found)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """The largest of the directions' own;
        in a program one search for all of them, which is smaller.
        """
        if xp.any_jax(self, log_delta):
            return super().epsilon_bracket(lowest, log_delta, reverse)
        found = [
            own for member in self.members for own in member.epsilon_brackets(lowest, log_delta)
        ]
        lower, upper = zip(*found)
        return _largest(lower), _largest(upper)

    def means(self):
        """Of all members together; who has no further means stays with the last."""
        sources = [member.means() for member in self.members]
        members = tuple(map(next, sources))
        while True:
            yield type(self)(members)
            further = [next(source, None) for source in sources]
            if all(member is None for member in further):
                return
            members = tuple(map(lambda new, old: old if new is None else new, further, members))

    def tail_mu(self):
        known = [member.tail_mu() for member in self.members]
        return None if any(mu is None for mu in known) else _largest(known)

    def least_tail_mu(self):
        known = [member.least_tail_mu() for member in self.members]
        return None if any(mu is None for mu in known) else _largest(known)

    def least_gaussian_mu(self):
        known = [mu for member in self.members if (mu := member.least_gaussian_mu()) is not None]
        return _largest(known) if known else None

    def beta_bracket(self, alpha):
        """That of its only member, where exchanging its hypotheses changes nothing."""
        first = self.members[0]
        if len(self.members) == 1 and first.reversed() is first:
            return first.beta_bracket(alpha)
        return None

    def gaussian_mu(self):
        known = [member.gaussian_mu() for member in self.members]
        return None if any(mu is None for mu in known) else _largest(known)

    def reversed(self):
        return self


@pytree
class Symmetric(Hull):
    """A hull of which one direction of one member is what happens in every step,
    though it is not known which.
    """

    def subsampled(self, rate):
        return Symmetric(tuple(m.subsampled(rate) for member in self.members
                               for m in (member, member.reversed())))


def symmetrised(experiment):
    """What holds whichever hypothesis the adversary calls the null."""
    if isinstance(experiment, Attacked):
        return experiment.mapped(symmetrised)
    return experiment if isinstance(experiment, Hull) else Symmetric((experiment,))


@pytree
class Replaced(Hull):
    """A hull that is itself the bound of each step, whichever neighbour is worse there:
    it composes as one pair.
    """

    def atoms(self, reverse):
        """The straight piece of slope -1 is an outcome of loss 0."""
        del reverse
        zero = xp.zeros(self.batch_shape(), xp.result_type(*jax.tree.leaves(self)))
        return zero, zero

    def subsampled(self, rate):
        raise ValueError(
            "subsample() of a curve for replaced records: sub-sample the curve "
            "of the full mechanism once"
        )


@pytree
class ZeroedOut(Replaced):
    """That of a null record in a sample of fixed size: it goes with other null records, which
    differ by Poisson sampling as one added and one removed do.
    """


@pytree
class Worst(Replaced):
    """A hull of different mechanisms, any of which each step may be."""

    def subsampled(self, rate):
        raise ValueError(
            "subsample() of the worst of several curves: sub-sample each of them, then worst_of()"
        )


def _largest_bracket(found):
    lower, upper, rate = (xp.stack(xp.broadcast_arrays(*column)) for column in zip(*found))
    return xp.max(lower, 0), xp.max(upper, 0), at_least(-upper, rate)


def _largest(values):
    result = values[0]
    for value in values[1:]:
        result = xp.maximum(result, value)
    return result


def _first_largest(values):
    """The largest, or the first that is as large to rounding: where directions tie, as they do at
    rate 1, with its derivative.
    """
    result = values[0]
    for value in values[1:]:
        size = xp.where(xp.isfinite(result), xp.abs(result), 0.0)
        more = value > result + 64 * xp.finfo(result.dtype).eps * xp.stop_gradient(size)
        result = xp.where(more | xp.isnan(value), value, result)
    return result
