"""Certified brackets of steps with transforms beside a few others that are known by their laws, by
NumPy: Laplace or discrete noise, responses, black boxes beside thousands of sampled Gaussian steps.

Of the many a line (`jaxpriv.composition.enclosure`) knows the profile at thousands of eps, to ten
digits; the few have laws at uneven losses (`jaxpriv.composition.uneven`), so that

    delta(eps) = P(L_few = inf) + sum P_few(l) delta_many(eps - l)

lies between the sums over their upper law with the upper bounds of delta_many and over their lower
law with the lower ones. A lattice for all of them has to show the rare losses of a single step.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition import light
from jaxpriv.composition.chain import bound_of_mean, powers
from jaxpriv.composition.enclosure import brackets_on_lines, from_other_direction
from jaxpriv.composition.line import Term, cumulants
from jaxpriv.composition.pieces import audible, term_of
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.composition.uneven import LEAST, ULP, Law, aimed, spelled, tails
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.many_outcomes import ManyOutcomes
from jaxpriv.tradeoff.stepping import stepped_out

_ONE, _SEVERAL, _COARSE = 2048, 1024, 256  # points of one step's law, of several; of an outline
_MOST = 64  # steps beside
_NEGLIGIBLE = 40.0  # of log delta: what is that much less is not followed
_FAINT = 20.0  # what is that much less is hardly anything
_TRIES, _CLOSE = 12, 1e-9  # steps of Newton's, of log delta
_ROUGHLY = 1.0  # of log delta, to tell which losses are large
_WIDE = 1e-6  # of log delta, from which on it may be better without large losses


class Many(NamedTuple):
    """Terms of one direction, and log of what they miss."""

    terms: Any
    missed: Any


class Known(NamedTuple):
    """What is known next to one eps: the `Sides` of the few, the `Many` of both directions, and how
    far these are followed.
    """

    few: Any
    many: list
    reach: float


class Beside:
    """Terms, and [(experiment with scalar parameters, whole number)] beside them; reverse: in the
    other direction?
    """

    def __init__(self, terms, steps, reverse):
        self._steps, self._reverse = steps, reverse
        self._terms = [
            [Term(term.transform.reversed(np.full(1, when)), term.count) for term in terms]
            for when in (reverse, not reverse)]
        self._whole = [Many(own, -np.inf) for own in self._terms]
        self._normal = None
        if all(isinstance(term.transform, GaussianTransform) for term in terms):
            square = sum(np.sum(term.count * term.transform.apart**2) for term in terms)
            self._normal = NormalShift(np.sqrt(square))

    def _many(self, known, eps):
        """(lower, upper, rate) of the many's log delta at eps (k,)."""
        if self._normal is None:
            return _on_lines(known.many, eps, known.reach)
        return self._normal.aligned(eps.shape, eps.dtype).bracket(eps, eps, False)

    @functools.cached_property
    def _tails(self):
        return [None if step.finite else tails(step, self._reverse) for step, _ in self._steps]

    @np.errstate(all="ignore")
    def law(self, eps, log_delta=None, whole=True):
        """What is `Known` for an eps at which delta is about e^log_delta; None where lines are no
        good for the many. whole: are these tried with their large losses first?
        """
        known, upper = Known(None, self._whole, np.inf), None
        large = light.has_large(self._terms[int(eps < 0)])
        if whole or not large:
            upper = self._said(known, eps, log_delta)
        if upper is None and large:
            known = known._replace(many=self._without_large(eps, log_delta))
            upper = self._said(known, eps, log_delta)
        elif upper is None:
            # next to the largest loss no line serves, where hardly anything is left
            upper = self._falls_from_zero(known, eps)
        if upper is None:
            return None
        least = (upper if log_delta is None else log_delta) - _NEGLIGIBLE
        tilts = 2.0 ** np.arange(-3.0, 9.0)
        each = [cumulants(many.terms, tilts) for many in known.many]
        # from where on less is left of the many in both directions (Chernoff)
        reach = float(max(np.nanmin((value - least) / tilts) for value, _, _ in each))
        single = sum(count for _, count in self._steps) == 1
        floor = max(math.exp(least), LEAST)
        aim = aimed(_outline(eps, reach, tilts, *each[0]), eps)
        few = powers(self._steps, self._tails, self._reverse, aim, _ONE if single else _SEVERAL,
                     floor)
        return Known(few, known.many, reach)

    def _said(self, known, eps, log_delta):
        """An upper bound of the many's log delta; None where it is neither known nor hardly
        anything of what is looked for.
        """
        (lower,), (upper,), _ = self._many(known, np.asarray([eps]))
        little = log_delta is not None and upper < log_delta - _FAINT
        return upper if upper - lower < 1 or little else None

    def _falls_from_zero(self, known, eps):
        """An upper bound of the many's log delta, if that is known at 0; nothing that is much less
        than there.
        """
        lower, upper, _ = self._many(known, np.asarray([0.0, eps]))
        return max(upper[1], upper[0] - _NEGLIGIBLE) if upper[0] - lower[0] < 1 else None

    def _without_large(self, eps, log_delta):
        """The many without large losses, of which hardly anything comes at eps: for deltas of about
        the same size without the same ones, so that these share lines.
        """
        left = []
        for terms in self._terms:
            expected = log_delta
            if log_delta is None:
                expected = light.expected_without(terms, np.asarray(eps))
            rough = _ROUGHLY * np.floor(np.asarray(expected) / _ROUGHLY)
            left.append(Many(*light.without_share(terms, rough)))
        return left

    def near(self, center, ends):
        """(lower, upper) of log delta at eps (k,) near one, and -d log delta/d eps."""
        known = self.law(center)
        found = self.brackets(known, ends)
        narrow = np.all(found[1] - found[0] <= _WIDE)
        if narrow or known is None or not any(map(light.has_large, self._terms)):
            return found
        # elsewhere the many's lines may not serve
        lower, upper, _ = self.brackets(self.law(center, whole=False), ends)
        return np.fmax(lower, found[0]), np.fmin(upper, found[1]), found[2]

    def brackets(self, known, ends):
        """The same from what is known next to one."""
        if known is None:
            return np.full(ends.shape, -np.inf), np.zeros(ends.shape), np.ones(ends.shape)
        (lower, _), (upper, rate) = self._ends(known, ends, ends)
        return lower, upper, rate

    @np.errstate(all="ignore")
    def _ends(self, known, low, high):
        """Lower bounds of log delta at some eps (k,) and upper ones at others, each with -d log
        delta/d eps; the same lines serve both.
        """
        law = known.few
        below, above = _less(low, law.lower, -1), _less(high, law.upper, 1)
        lower, upper, rate = self._many(known, np.concatenate([below.ravel(), above.ravel()]))
        first, then = slice(below.size), slice(below.size, None)
        return (bound_of_mean(law.lower, lower[first].reshape(below.shape),
                              rate[first].reshape(below.shape), -1),
                bound_of_mean(law.upper, upper[then].reshape(above.shape),
                              rate[then].reshape(above.shape), 1))

    def epsilon_bracket(self, eps, lowest, log_delta):
        """(low, high) of eps for log delta between `lowest` and `log_delta`, and the rate there,
        from about there.
        """
        low, high, rate = self._stepped_out(eps, lowest, log_delta, True)
        if (high - low) * rate <= _WIDE or not any(map(light.has_large, self._terms)):
            return low, high, rate
        other = self._stepped_out(eps, lowest, log_delta, False)
        return np.fmax(low, other[0]), np.fmin(high, other[1]), np.fmin(rate, other[2])

    @np.errstate(all="ignore")
    def _stepped_out(self, eps, lowest, log_delta, whole):
        """The same by what is known at first with large losses, or without."""
        known, rate = self.law(eps, log_delta, whole), np.inf
        for _ in range(_TRIES if known is not None else 0):
            _, ((value,), (rate,)) = self._ends(known, np.zeros(0), np.asarray([eps]))
            step = (value - log_delta) / rate
            eps = max(eps + step, 0.0)
            if not abs(step) * rate > _CLOSE:
                break
        if not (math.isfinite(eps) and rate < np.inf):
            return 0.0, np.inf, np.inf

        def verified(ends):
            """Of two eps the lower bound at the first and the upper one at the second."""
            pairs = self._ends(known, ends[:1], ends[1:])
            found, rates = (np.concatenate(column) for column in zip(*pairs))
            return found, found, rates

        low, high = stepped_out(np.asarray(eps), verified, lowest, log_delta)
        return low, high, rate


def _outline(eps, reach, tilts, value, mean, variance):
    """The law of the many, coarsely: normal once it is tilted towards eps."""
    near = np.argmin(np.abs(np.nan_to_num(mean, nan=np.inf) - eps))
    loss = np.linspace(-reach, reach, _COARSE)
    density = value[near] - tilts[near] * loss - (loss - mean[near]) ** 2 / (2 * variance[near])
    return Law(loss, np.exp(np.clip(density, -690.0, 0.0)), 0.0)


def _less(eps, law, sign):
    """eps (k,) less the losses of a law (k, losses), rounded to the side of an upper bound, or not.
    """
    doubt = 4 * ULP * (np.abs(eps)[:, None] + np.abs(law.loss))
    return eps[:, None] - law.loss - sign * doubt


def beside_of(entry):
    """The `Beside` of an experiment on a lattice with scalar parameters, or None."""
    terms, few = [], []
    for step in entry.steps:
        term = term_of(step.experiment, -1)
        if term is not None:
            if np.any(step.count > 0):
                terms.append(audible(Term(term.transform, step.count)))
            continue
        for member in np.flatnonzero(step.count > 0):
            few.append((xp.row(step.experiment, member), int(step.count[member])))
    if not terms or not few or sum(count for _, count in few) > _MOST:
        return None
    return Beside(terms, few, bool(entry.flipped)) if all(_has_law(one) for one, _ in few) else None


def _has_law(experiment):
    """Not of so many outcomes that no points tell them apart."""
    if isinstance(experiment, ManyOutcomes):
        return False
    return not experiment.finite or spelled(experiment).loss.size <= _ONE


def _on_lines(both, eps, reach):
    """(lower, upper, rate) of log delta at eps (k,); of both directions at what is not negative."""
    found, size = np.empty((3, eps.size)), np.abs(eps)
    for many, where in zip(both, (eps >= 0, eps < 0), strict=True):
        if where.any():
            lines_say = brackets_on_lines(many.terms, np.minimum(size[where], reach))
            lower, upper, rate = light.with_missed(lines_say, many.missed)
            lower = np.where(size[where] > reach, -np.inf, lower)
            found[:, where] = *_fallen(size[where], lower, upper), rate
    lower, upper, rate = from_other_direction(eps, found)
    return lower, upper, np.where(np.isfinite(rate), rate, 0.0)


def _fallen(size, lower, upper):
    """Bounds of what falls at ascending sizes, where no line serves from what others know."""
    order = np.argsort(size)
    lower, upper = (
        part[order] for part in (np.where(np.isnan(lower), -np.inf, lower), np.fmin(upper, 0.0)))
    back = np.argsort(order)
    return (np.maximum.accumulate(lower[::-1])[::-1][back], np.minimum.accumulate(upper)[back])
