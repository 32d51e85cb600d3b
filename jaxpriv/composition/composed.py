"""The composed experiment of Gaussian steps, sub-sampled or not:
its questions as inverse transforms.
"""

import operator
from dataclasses import field, replace
from typing import Any, ClassVar

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import derived, known_whole, product, resolved
from jaxpriv._pytree import pytree
from jaxpriv.composition import by_integrals, enclosure, light, line
from jaxpriv.composition.by_laws import (
    DEEP,
    by_laws,
    followed,
    has_laws,
    laws_of,
    log_delta,
)
from jaxpriv.composition.centred import log_rest_of
from jaxpriv.composition.directed import Directed
from jaxpriv.composition.enclosure import from_other_direction
from jaxpriv.composition.ended import may_end
from jaxpriv.composition.inversion import invert, log_result
from jaxpriv.composition.kept import Target
from jaxpriv.composition.line import (
    ALPHA,
    DELTA,
    POWER,
    Kind,
    Term,
    advantage_bound,
    cumulants,
    saddle_epsilon,
    stacked,
)
from jaxpriv.composition.mu import MuOfTerms
from jaxpriv.composition.nearby import decays_slowly
from jaxpriv.composition.pieces import audible, behind
from jaxpriv.composition.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.composition.stepped import Stepped
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import DEEPEST, Point, never_told
from jaxpriv.tradeoff.gaussian_pairs import NormalShift

_USEFUL = 1.0  # width of log delta's bracket above which another bound is looked at
_WITHIN = 0.9  # of the losses: where a slope is looked for first


@pytree
class Composed(MuOfTerms, Directed):
    """Steps of mechanisms with privacy-loss transforms. `terms`:
    tuple of `Term`s with arrays (..., members); deep: the log of a probability below which no law
    is asked for an estimate, which is what transforms say, however roughly.
    """

    terms: tuple
    deep: float = field(default=DEEP, metadata={"static": True})

    brackets_by: ClassVar[Any] = enclosure  # `bracket`, `brackets_near` and `epsilon_bracket`

    def batch_shape(self):
        return xp.broadcast_shapes(*(xp.shape(leaf)[:-1] for leaf in jax.tree.leaves(self.terms)))

    def own_axes(self):
        return jax.tree.map(lambda _: 1, self)

    def aligned(self, shape, dtype):
        def spread(leaf):
            wanted = bool if xp.is_bool(leaf) else dtype
            return xp.broadcast_to(xp.asarray(leaf, wanted), shape + xp.shape(leaf)[-1:])

        terms = jax.tree.map(spread, resolved(self.terms, dtype))
        return replace(self, terms=tuple(audible(term) for term in terms))

    def whole(self, up):
        """Where the record does not always take part:
        between two numbers of steps there is no mechanism.

        Gaussian losses are infinitely divisible, and so are those of normal vectors.
        """

        def rounded(term):
            if not isinstance(term.transform, Stepped) or known_whole(term.count):
                return term
            return Term(term.transform, term.transform.whole(term.count, up))

        terms = tuple(map(rounded, self.terms))
        return self if all(map(operator.is_, terms, self.terms)) else replace(self, terms=terms)

    def defined(self):
        result = xp.ones(self.batch_shape(), bool)
        for leaf in jax.tree.leaves(self.terms):
            result = result & ~xp.any(xp.isnan(leaf), -1)
        return result

    def _directed(self, when):
        """The terms, of the exchanged hypotheses where `when` (in the shape of the
        batch, or one for all).
        """
        return tuple(
            Term(t.transform.reversed(xp.asarray(when)[..., None]), t.count) for t in self.terms
        )

    def directed(self, reverse):
        return replace(self, terms=self._directed(reverse))

    def _leaks(self):
        """Is there any loss at all?"""
        return line.loss_bound(self.terms) > 0

    def log_told(self, reverse):
        return never_told(self, reverse)

    def loss_bound(self, reverse):
        return line.loss_bound(self._directed(reverse))

    def _unless_followed(self, of, values, reverse, method, pick):
        """of(experiment, values), several arrays; by NumPy, unless the laws of few steps tell all
        that takes less (`doubling`), what pick finds in it.
        """
        if xp.any_jax(self, values):
            return of(self, values)
        terms = self._directed(np.full(values.shape, reverse))
        found = followed(terms, method, values)
        return of(self, values) if found is None else self._others(pick(found), of, values)

    def log_delta(self, eps, reverse):
        def of(own, eps):
            return (own._log_delta(eps, reverse),)

        def pick(found):
            return (found[..., 0],)

        return self._unless_followed(of, eps, reverse, "contacts", pick)[0]

    def _log_delta(self, eps, reverse):
        terms = self._directed((eps < 0) ^ reverse)
        return self._signed(eps, reverse, *log_delta(terms, xp.abs(eps), self.deep))

    def _signed(self, eps, reverse, value, rest):
        """log delta(eps) from (log, log of one less it)
        at |eps| in the direction in which that is not negative.

        For eps < 0 delta(eps) = 1 - e^eps (1 - delta_r(-eps)).
        """
        flipped = eps < 0
        terms = self._directed(flipped ^ reverse)
        inside = self._leaks() & (xp.abs(eps) < line.loss_bound(terms))
        value = xp.where(inside, value, xp.where(xp.isnan(eps), xp.nan, -xp.inf))
        rest = xp.where(inside, rest, 0.0)
        down = xp.where(flipped, eps, -1.0)
        return xp.where(
            flipped, log1mexp(xp.minimum(down + rest, -xp.finfo(eps.dtype).tiny)), value
        )

    def bracket(self, low, high, reverse):
        """Of whole steps, at one eps = low = high."""
        del low
        found = self.brackets_by.bracket(self._directed((high < 0) ^ reverse), xp.abs(high))
        return self._below_gaussian(high, *from_other_direction(high, found))

    def _below_gaussian(self, eps, lower, upper, rate):
        """A bracket whose upper end is at most that of the record in every step; by NumPy where the
        bracket says little.
        """
        if xp.any_jax(upper) or np.any(upper - lower > _USEFUL):
            upper = xp.fmin(upper, self._always(eps).bracket(eps, eps, False)[1])
        return lower, upper, rate

    def _always(self, values):
        """Gaussian noise with the record in every step, in the shape of some values: no less is
        told by it.
        """
        mu = self.gaussian_mu() * (1 + 16 * xp.finfo(values.dtype).eps)
        return NormalShift(xp.broadcast_to(mu, values.shape))

    def brackets_near(self, center, ends, reverse):
        """By NumPy from one line, or for eps of the other sign from one of the other direction."""
        if xp.any_jax(self, center):
            return super().brackets_near(center, ends, reverse)
        flipped, center, sizes = center < 0, np.abs(center), np.abs(ends)
        found = self.brackets_by.brackets_near(self._directed(flipped ^ reverse), center, sizes)
        other = (ends < 0) != flipped
        some = other.any(0)
        if some.any():
            own = jax.tree.map(lambda leaf: leaf[some], self)
            direction = ~flipped[some] ^ reverse
            terms = own._directed(direction)
            more = self.brackets_by.brackets_near(terms, center[some], sizes[..., some])
            found = [np.array(part) for part in found]
            for whole, part in zip(found, more):
                whole[other] = part[other[..., some]]
        found = self._below_gaussian(ends, *from_other_direction(ends, found))

        def search(own, center, ends):
            return Directed.brackets_near(own, center, ends, reverse)

        return self._others(found, search, center, ends)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """By NumPy from one line for all that is asked;
        by the general search where that does not serve.
        """
        if xp.any_jax(self, log_delta):
            return super().epsilon_bracket(lowest, log_delta, reverse)
        terms = self._directed(np.full(log_delta.shape, reverse))
        # epsilon is 0 then
        nothing = (lowest >= 0) | (advantage_bound(terms) <= np.exp(lowest))
        if nothing.all():
            return np.zeros(log_delta.shape), np.zeros(log_delta.shape)
        found = self.brackets_by.epsilon_bracket(terms, lowest, log_delta)
        if has_laws(self.terms):
            # no search is worth while: they are asked next
            lost = np.isnan(found[0]) & (log_delta > DEEPEST)
            if lost.any():
                always = self._always(log_delta).epsilon_bracket(lowest, log_delta, False)[1]
                found = [np.where(lost, worst, end) for end, worst in zip(found, (0.0, always))]
        found = [np.where(nothing, 0.0, end) for end in found]

        def search(own, lowest, log_delta):
            return Directed.epsilon_bracket(own, lowest, log_delta, reverse)

        return self._others(found, search, lowest, log_delta)

    def _others(self, found, search, *values):
        """NumPy arrays `found`, with search(experiment, *values) where they are NaN."""
        lost = np.isnan(found[0]).reshape((-1, *self.batch_shape())).any(0)
        if lost.any():
            own = jax.tree.map(lambda leaf: leaf[lost], self)
            for whole, part in zip(found, search(own, *(value[..., lost] for value in values))):
                whole[..., lost] = part
        return found

    def touch(self, eps, reverse):
        def of(own, eps):
            return own._touch(eps, reverse)

        def pick(found):
            log_alpha, log_power, log_beta = (found[..., k] for k in (1, 2, 3))
            return Point(log_alpha, log_rest_of(log_alpha), log_beta, log_power)

        return Point(*self._unless_followed(of, eps, reverse, "contacts", pick))

    def _touch(self, eps, reverse):
        """Power and level, from one evaluation of a batch twice as large."""
        terms = self._directed(xp.full(eps.shape, reverse))
        at = eps
        if not xp.any_jax(self, eps):
            at = -line.before_largest(self._directed(not reverse), -line.before_largest(terms, at))
        twice, both, kinds = stacked(terms, 2), xp.stack([at, at]), _kinds(eps, ALPHA, POWER)
        if xp.any_jax(self, eps):
            return self._point(eps, reverse, *log_result(twice, both, kinds))
        logs = invert(twice, both, kinds)
        logs = light.inverted(twice, both, kinds, logs, ~logs.exact)
        point = self._point(eps, reverse, logs.result, logs.rest)
        lost = np.isfinite(eps) & self._leaks() & ~(logs.exact | (logs.result <= self.deep)).all(0)
        return by_laws(terms, point, lost, lambda own, eps: own.touch(eps, False), eps)

    def contact(self, eps, reverse):
        """A program evaluates profile, level and power as one batch."""
        if not xp.any_jax(self, eps):
            return super().contact(eps, reverse)
        flipped = eps < 0
        when = xp.stack([flipped ^ reverse, *[xp.full(eps.shape, reverse)] * 2])
        own = Composed(stacked(self.terms, 3))
        at = xp.stack([xp.abs(eps), eps, eps])
        logs = log_result(own._directed(when), at, _kinds(eps, DELTA, ALPHA, POWER))
        (value, *tests), (rest, *others) = logs
        value = xp.stop_gradient(self._signed(eps, reverse, value, rest))
        return value, self._point(eps, reverse, tests, others)

    def _point(self, eps, reverse, tests, rests):
        """A point of the curve from log alpha and log power, and those of one less; or its end
        where the line touches it there.
        """
        (log_alpha, log_power), (log_specificity, log_beta) = tests, rests
        point = Point(log_alpha, log_specificity, log_beta, log_power)
        terms = self._directed(xp.full(eps.shape, reverse))
        above = eps >= line.loss_bound(terms)
        below = -eps >= line.loss_bound(self._directed(not reverse))
        out = above | below | ~self._leaks()
        end = Point.end(below | ~above & (eps < 0))
        return jax.tree.map(lambda inner, outer: xp.where(out, outer, inner), point, end)

    def find_slope(self, alpha, reverse):
        def of(own, alpha):
            return (own._find_slope(alpha, reverse),)

        return self._unless_followed(of, alpha, reverse, "slopes", _alone)[0]

    def _find_slope(self, alpha, reverse):
        """Newton on the smaller of log alpha and log(1 - alpha),
        from where it would be if the loss were normal.
        """
        terms = self._directed(xp.full(alpha.shape, reverse))
        _, mean, variance = cumulants(terms, xp.full_like(alpha, -1.0))
        small = alpha < 0.5
        log_alpha, log_rest = xp.log(alpha), xp.log1p(-alpha)
        tail = norm.isf_exp(xp.minimum(log_alpha, log_rest))
        start = mean + xp.sqrt(variance) * xp.where(small, 1.0, -1.0) * tail
        # within the losses: a line beyond the last of them is far out
        least, most = -line.loss_bound(self._directed(not reverse)), line.loss_bound(terms)
        start = xp.clip(start, _WITHIN * least, _WITHIN * most)
        leaks = self._leaks()
        if xp.any_jax(alpha, self):
            return xp.where(
                leaks,
                by_integrals.slope(terms, start, log_alpha, log_rest, small, mean, variance),
                0.0,
            )
        target = Target(np.full_like(alpha, -np.inf), most, log_alpha, log_rest, small)
        found, exact = light.roots(terms, start, target, log_alpha, ALPHA)
        found = np.where(leaks, found, 0.0)
        lost = leaks & ~exact & (np.minimum(log_alpha, log_rest) > self.deep)
        found = by_laws(terms, found, lost, lambda own, a: own.find_slope(a, False), alpha)
        lost = np.isnan(found)
        if lost.any():
            rest = jax.tree.map(
                lambda leaf: leaf[lost], (start, log_alpha, log_rest, small, mean, variance)
            )
            found[lost] = by_integrals.slope(jax.tree.map(lambda leaf: leaf[lost], terms), *rest)
        return found

    def epsilon(self, log_delta, reverse):
        """A program has the derivatives from its search."""
        if not xp.any_jax(self, log_delta):
            return super().epsilon(log_delta, reverse)
        return xp.maximum(self.solve_epsilon(log_delta, reverse), 0.0)

    def solve_epsilon(self, log_delta, reverse):
        def of(own, log_delta):
            return (own._solve_epsilon(log_delta, reverse),)

        return self._unless_followed(of, log_delta, reverse, "epsilons", _alone)[0]

    def _solve_epsilon(self, log_delta, reverse):
        """From where the saddle-point approximation meets the target, by Newton on log delta."""
        terms = self._directed(xp.full(log_delta.shape, reverse))
        reachable = (log_delta > -xp.inf) & (log_delta < 0) & self._leaks()
        target = xp.where(reachable, log_delta, -1.0)
        start, _ = saddle_epsilon(*xp.stop_gradient((terms, target)))
        if xp.any_jax(start):
            eps = by_integrals.epsilon(terms, start, target, reachable)
        else:
            goal = Target.of_delta(target, line.loss_bound(terms))
            eps, exact = light.roots(terms, start, goal, target, DELTA)
            eps = np.where(reachable, eps, 0.0)
            lost = reachable & ~exact & (target > self.deep)
            eps = by_laws(terms, eps, lost, lambda own, d: own.solve_epsilon(d, False), target)
            lost = np.isnan(eps)
            if lost.any():
                rest = jax.tree.map(lambda leaf: leaf[lost], (terms, start, target, reachable))
                eps[lost] = by_integrals.epsilon(*rest)
        # its derivative by a rate of 1 is infinite
        limit = xp.stop_gradient(line.loss_bound(terms))
        limit = xp.where((log_delta < 0) & self._leaks(), limit, 0.0)
        limit = limit + xp.where(xp.isnan(log_delta), xp.nan, 0.0)
        return xp.where(reachable, xp.minimum(eps, limit), limit)

    def means(self):
        """By transforms, of all losses and of all but large ones, then by laws; these first where
        transforms decay slowly, when large losses are all that is told.
        """
        by_laws = [laws] if (laws := self.on_lattice()) is not None else []
        if np.all(decays_slowly(resolved(self.terms, np.float64))):
            return iter([*by_laws, self])
        ends = any(may_end(term.transform) for term in self.terms)
        return iter([self, *([WithoutLarge(self.terms)] if ends else []), *by_laws])

    def on_lattice(self):
        """The same experiment by its laws in place of its transforms, or None."""
        return laws_of(self.terms)

    def smooth(self):
        """Losses have densities."""
        return True

    def full(self):
        return not any(isinstance(term.transform, SubsampledChiSquareTransform)
                       for term in self.terms)

    def reversed(self):
        other = np.ones(1, bool)
        exchanged = [term.transform.reversed(other) for term in self.terms]
        if all(new is term.transform for new, term in zip(exchanged, self.terms)):
            return self
        terms = tuple(Term(new, term.count) for new, term in zip(exchanged, self.terms))
        return replace(self, terms=terms)

    def compose(self, n):
        terms = tuple(Term(term.transform, derived(product, term.count, behind(n)))
                      for term in self.terms)
        return replace(self, terms=terms)

    def as_narrow_as(self, width=None, deep=None):
        return self if deep is None else replace(self, deep=max(deep, DEEP))


@pytree
class WithoutLarge(Composed):
    """The same composition, whose brackets are those of small losses."""

    brackets_by: ClassVar[Any] = light


def _alone(found):
    return (found,)


def _kinds(eps, *kinds):
    """Several integrals along a new first axis of eps."""
    shape = (len(kinds),) + (1,) * eps.ndim
    poles = xp.like(np.asarray([kind.pole for kind in kinds], eps.dtype).reshape(shape), eps)
    return Kind(poles, xp.like(np.asarray([kind.double for kind in kinds]).reshape(shape), eps))
