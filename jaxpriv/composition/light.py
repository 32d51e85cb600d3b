"""By NumPy: compositions without the large losses of their steps.

A record that is seldom drawn may show a loss that is larger than all others together, with a
probability of e^-100. The transform knows it all the same: at some c it leaps, from there on it is
made of that loss alone, and no line reaches the saddle of the small ones. Without it, each step's
variable z <= h_i (`jaxpriv.composition.ended`), there is such a line; and the profile is that of
what is left, and at most the probability, with the record, that any z lies beyond:

    delta_left <= delta <= delta_left + sum n_i P(z_i > h_i),

since (1 - e^(eps - L))_+ is between 0 and 1. What is left has a measure of less than 1, which the
inverse transform (`jaxpriv.composition.inversion`) integrates as any other.
"""

import math

import jax
import numpy as np

from jaxpriv.composition import enclosure
from jaxpriv.composition.ended import cut_off, may_end, seldom_large
from jaxpriv.composition.inversion import invert
from jaxpriv.composition.line import (
    DELTA,
    Kind,
    Term,
    along,
    over_steps,
    place,
    saddle_epsilon,
)
from jaxpriv.composition.margins import Bracket
from jaxpriv.composition.nearby import decays_slowly
from jaxpriv.composition.roots import root
from jaxpriv.stats._logspace import log1mexp

_MISSED = 28.0  # -log of the share of delta that large losses may have
_NOTHING = 1e-8  # of an estimate, what its rules may miss
_FIRST, _LOOKS, _CLOSE = -20.0, 8, 1.0  # log of the delta that is expected, until it is so near


def bracket(terms, eps):
    """`enclosure.bracket`."""
    small, missed = without_large(terms, eps)
    return with_missed(enclosure.bracket(small, eps), missed)


def brackets_near(terms, center, ends):
    """`enclosure.brackets_near`."""
    small, missed = without_large(terms, center)
    return with_missed(enclosure.brackets_near(small, center, ends), missed)


def epsilon_bracket(terms, lowest, log_delta):
    """`enclosure.epsilon_bracket`: of deltas that differ by what is missed."""
    small, missed = without_share(terms, lowest)
    return enclosure.epsilon_bracket(small, _less(lowest, missed), np.logaddexp(log_delta, missed))


def inverted(terms, eps, kind, logs, lost):
    """`invert`'s `Logs`, of which those that are lost are those of small losses, if these are
    exact.
    """
    lost = lost & _may_be_without(terms)
    if not lost.any():
        return logs
    own, at = jax.tree.map(lambda leaf: leaf[lost], (terms, eps))
    kind = Kind(*(np.broadcast_to(part, eps.shape)[lost] for part in kind))
    small, _ = without_large(own, np.maximum(at, 0.0))
    found = invert(small, at, kind)
    good = found.exact & _rules_serve(small, at, kind)
    better = np.zeros(eps.shape, bool)
    better[lost] = good
    logs = jax.tree.map(np.array, logs)
    for leaf, new in zip(logs, found):
        leaf[better] = new[good]
    return logs


def roots(terms, start, target, log_share, kind):
    """`root`'s (eps, is it exact?), of which those that are not are those of small losses, if these
    are.

    start: eps from where on they are looked for; log_share: of the probability of which large
    losses may have a small part, which is delta if that is the integral.
    """
    eps, exact = root(terms, (start, target), kind)
    lost = ~exact & _may_be_without(terms)
    if lost.any():
        given = terms, start, target, log_share
        own, start, target, log_share = jax.tree.map(lambda leaf: leaf[lost], given)
        small, _ = without_share(own, log_share)
        if kind == DELTA:
            start, _ = saddle_epsilon(small, log_share)
        found, sure = root(small, (start, target), kind)
        good = sure & _rules_serve(small, np.where(np.isnan(found), 1.0, found), kind)
        eps[lost], exact[lost] = np.where(good, found, eps[lost]), good
    return eps, exact


def _rules_serve(terms, eps, kind):
    """Is what rules and paths miss next to nothing? Where large losses decide, the integrand is the
    largest at its end.
    """
    _, tilts, _ = along(terms, eps, kind)
    return over_steps(terms, [tilt.line_error() for tilt in tilts]) < _NOTHING


def without_large(terms, eps):
    """`without_share` of delta(eps)."""
    return without_share(terms, expected_without(terms, eps))


def expected_without(terms, eps):
    """log of delta(eps), nearly, without large losses, of which it has a small share."""
    expected = np.full(eps.shape, _FIRST)
    for _ in range(_LOOKS):
        small, _ = without_share(terms, expected)
        found = np.fmin(place(small, eps, DELTA).estimate, expected)
        if np.all(expected - found <= _CLOSE):
            break
        expected = found
    return expected


def without_share(terms, log_value):
    """(the terms without large losses, log of what they miss): a small share of a probability."""
    ending = [may_end(term.transform) for term in terms]
    members = sum(term.count.shape[-1] for term, ends in zip(terms, ending) if ends)
    share = log_value[..., None] - _MISSED - math.log(max(members, 1))
    left, missed = [], [np.full(log_value.shape, -np.inf)]
    for term, ends in zip(terms, ending):
        if ends:
            several = np.log(np.where(term.count > 0, term.count, 1.0))
            transform, less = cut_off(term.transform, share - several, seldom_large(term))
            missed.append(np.logaddexp.reduce(less + several, -1))
            term = Term(transform, term.count)
        left.append(term)
    return tuple(left), np.logaddexp.reduce(missed)


def _may_be_without(terms):
    """Where transforms decay slowly large losses are all that is told."""
    return has_large(terms) & ~decays_slowly(terms)


def has_large(terms):
    """Are there large losses that are rare?"""
    each = [np.any(seldom_large(term), -1) for term in terms if may_end(term.transform)]
    return np.any(each, 0)


def with_missed(found, missed):
    """Brackets of the whole from those of what is left. On the left of the mean one less it is
    integrated, as if nothing were missing of the measure.
    """
    lower, upper, rate = found
    return Bracket(_less(lower, missed), np.minimum(np.logaddexp(upper, missed), 0.0), rate)


def _less(log_value, log_share):
    """log (e^a - e^b), -inf where b >= a."""
    some = log_value > log_share
    gap = np.where(some, log_share - np.where(some, log_value, 0.0), -1.0)
    return np.where(some, log_value + log1mexp(gap), -np.inf)
