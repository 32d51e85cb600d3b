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
from typing import Any

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


class Beside:
    """Terms, and [(experiment with scalar parameters, whole number)] beside them; reverse: in the
    other direction?
    """

    def __init__(self, terms, steps, reverse):
        self._steps, self._reverse, self._reach = steps, reverse, np.inf
        self._terms = [
            [Term(term.transform.reversed(np.full(1, when)), term.count) for term in terms]
            for when in (reverse, not reverse)]
        # (terms, log of what they miss, the lines that were placed) of both
        self._directions: list[tuple[Any, Any, list]] = [
            (own, -np.inf, []) for own in self._terms]
        self._normal = None
        if all(isinstance(term.transform, GaussianTransform) for term in terms):
            square = sum(np.sum(term.count * term.transform.apart**2) for term in terms)
            self._normal = NormalShift(np.sqrt(square))

    def _many(self, eps):
        """(lower, upper, rate) of the many's log delta at eps (k,)."""
        if self._normal is None:
            return _on_lines(self._directions, eps, self._reach)
        return self._normal.aligned(eps.shape, eps.dtype).bracket(eps, eps, False)

    @functools.cached_property
    def _tails(self):
        return [None if step.finite else tails(step, self._reverse) for step, _ in self._steps]

    @np.errstate(all="ignore")
    def law(self, eps, log_delta=None):
        """The `Sides` of the few, for an eps at which delta is about e^log_delta; None where lines
        are no good for the many.
        """
        upper = self._known(eps, log_delta)
        if upper is None:
            self._leave_out(eps, log_delta)
            upper = self._known(eps, log_delta)
        if upper is None:
            return None
        least = (upper if log_delta is None else log_delta) - _NEGLIGIBLE
        tilts = 2.0 ** np.arange(-3.0, 9.0)
        known = [cumulants(terms, tilts) for terms, *_ in self._directions]
        # from where on less is left of the many in both directions (Chernoff)
        self._reach = float(max(np.nanmin((value - least) / tilts) for value, _, _ in known))
        single = sum(count for _, count in self._steps) == 1
        floor = max(math.exp(least), LEAST)
        aim = aimed(self._outline(eps, tilts, *known[0]), eps)
        return powers(self._steps, self._tails, self._reverse, aim, _ONE if single else _SEVERAL,
                      floor)

    def _known(self, eps, log_delta):
        """An upper bound of the many's log delta; None where it is neither known nor hardly
        anything of what is looked for.
        """
        (lower,), (upper,), _ = self._many(np.asarray([eps]))
        little = log_delta is not None and upper < log_delta - _FAINT
        return upper if upper - lower < 1 or little else None

    def _leave_out(self, eps, log_delta):
        """The many's large losses, of which hardly anything comes at eps: of all that there are,
        whatever was left out before.
        """
        if log_delta is None:
            left = [light.without_large(terms, np.asarray(eps)) for terms in self._terms]
        else:
            left = [light.without_share(terms, np.asarray(log_delta)) for terms in self._terms]
        self._directions = [(*one, []) for one in left]

    def _outline(self, eps, tilts, value, mean, variance):
        """The law of the many, coarsely: normal once it is tilted towards eps."""
        near = np.argmin(np.abs(np.nan_to_num(mean, nan=np.inf) - eps))
        loss = np.linspace(-self._reach, self._reach, _COARSE)
        density = value[near] - tilts[near] * loss - (loss - mean[near]) ** 2 / (2 * variance[near])
        return Law(loss, np.exp(np.clip(density, -690.0, 0.0)), 0.0)

    def brackets(self, law, ends):
        """(lower, upper) of log delta at eps (k,) and -d log delta/d eps."""
        if law is None:
            return np.full(ends.shape, -np.inf), np.zeros(ends.shape), np.ones(ends.shape)
        (lower, _), (upper, rate) = self._ends(law, ends, ends)
        return lower, upper, rate

    @np.errstate(all="ignore")
    def _ends(self, law, low, high):
        """Lower bounds of log delta at some eps (k,) and upper ones at others, each with -d log
        delta/d eps; the same lines serve both.
        """
        below, above = _less(low, law.lower, -1), _less(high, law.upper, 1)
        lower, upper, rate = self._many(np.concatenate([below.ravel(), above.ravel()]))
        first, then = slice(below.size), slice(below.size, None)
        return (bound_of_mean(law.lower, lower[first].reshape(below.shape),
                              rate[first].reshape(below.shape), -1),
                bound_of_mean(law.upper, upper[then].reshape(above.shape),
                              rate[then].reshape(above.shape), 1))

    @np.errstate(all="ignore")
    def epsilon_bracket(self, eps, lowest, log_delta):
        """(low, high) of eps for log delta between `lowest` and `log_delta`, and the rate there,
        from about there.
        """
        law, rate = self.law(eps, log_delta), np.inf
        for _ in range(_TRIES if law is not None else 0):
            _, ((value,), (rate,)) = self._ends(law, np.zeros(0), np.asarray([eps]))
            step = (value - log_delta) / rate
            eps = max(eps + step, 0.0)
            if not abs(step) * rate > _CLOSE:
                break
        if not (math.isfinite(eps) and rate < np.inf):
            return 0.0, np.inf, np.inf

        def verified(ends):
            """Of two eps the lower bound at the first and the upper one at the second."""
            pairs = self._ends(law, ends[:1], ends[1:])
            found, rates = (np.concatenate(column) for column in zip(*pairs))
            return found, found, rates

        low, high = stepped_out(np.asarray(eps), verified, lowest, log_delta)
        return low, high, rate


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


def _on_lines(directions, eps, reach):
    """(lower, upper, rate) of log delta at eps (k,). Beyond `reach`, and where no line serves, that
    is bounded by what is known before: delta falls.
    """
    found, size = np.full((3, eps.size), np.nan), np.minimum(np.abs(eps), reach)
    for (terms, missed, lines), where in zip(directions, (eps >= 0, eps < 0), strict=True):
        if where.any():
            lines_say = brackets_on_lines(terms, size[where], lines)
            found[:, where] = light.with_missed(lines_say, missed)
    found[0, np.abs(eps) > reach] = -np.inf
    lower, upper, rate = from_other_direction(eps, found)
    order = np.argsort(eps)
    lower[order] = np.fmax.accumulate(lower[order][::-1])[::-1]
    upper[order] = np.fmin.accumulate(upper[order])
    return (np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), 0.0, upper),
            np.where(np.isfinite(rate), rate, 0.0))
