"""By NumPy: many questions to one composition share lines, each of which serves all eps near the
one it was placed for.
"""

import jax
import numpy as np

from jaxpriv.composition.chain import FEW, RARE
from jaxpriv.composition.entrywise import side_by_side
from jaxpriv.composition.frequencies import LIMIT
from jaxpriv.composition.kept import Kept
from jaxpriv.composition.line import along
from jaxpriv.composition.stepped import Stepped

_LONG = 10.0  # log of the frequencies of a line that is long
SHARE = 0.5  # of how far a line serves alone: further off it knows fewer digits
_OF_THOSE = 3  # side by side at least one to a line, or these had better be asked so


def kept_at(terms, center, kind):
    """What is kept of the line for one eps, where no error bound is asked for."""
    eps = np.asarray(center)
    return Kept(terms, eps, kind, along(terms, eps, kind), np.zeros_like(eps), LIMIT, None)


def worth_while(terms, kind, eps):
    """Do so many eps lie so close together that lines serve several of them?"""
    spread = float(along(terms, np.median(eps), kind)[0].spread)
    each = side_by_side(terms) // _OF_THOSE
    return len(eps) >= each * len(np.unique(np.floor(eps / max(spread, 1e-150))))


def decays_slowly(terms):
    """Would a line of frequencies be long, or never end, where laws at uneven losses serve?"""
    if not all(isinstance(term.transform, Stepped) for term in terms):
        return np.zeros((), bool)
    heavy = sum(np.sum(term.count * term.transform.rate, -1) for term in terms)
    return is_long(terms, _LONG) & (heavy <= RARE) & are_few(terms)


def are_few(terms, most=FEW):
    """Are they few steps?"""
    return sum(np.sum(term.count, -1) for term in terms) <= most


def is_long(terms, log_y):
    """Would a line of frequencies reach beyond e^log_y?

    Few steps of small rates r lose about r (e^(mu z) - 1) each, r times a lognormal variable, whose
    transform's modulus falls as e^(-(log(r y)/mu)^2/2): n of them leave e^-37 at
    r y = e^(mu (74/n)^1/2), mu the largest shift.
    """
    end = np.inf
    for term in terms:
        n, rate = term.count, term.transform.rate
        some = (n > 0) & (rate > 0)
        last = term.transform.mu * np.sqrt(74 / np.where(some, n, 1.0))
        last = np.where(some, last - np.log(np.where(some, rate, 1.0)), np.inf)
        end = np.minimum(end, np.min(last, -1))
    return (end > log_y) & (end < np.inf)


def served(eps, place):
    """(indices, a line that serves the eps there) until all are served, in rising order; place: eps
    -> what is kept of the line for it.
    """
    order = np.argsort(eps)
    rising, at, reach = eps[order], 0, 0.0
    while at < len(order):
        # in the middle of those that a line would serve as far as the last one
        last = np.searchsorted(rising, rising[at] + 2 * reach, "right") - 1
        center = 0.5 * (rising[at] + rising[max(last, at)])
        kept = place(center)
        if not center - rising[at] <= SHARE * kept.spread:
            center = rising[at]
            kept = place(center)
        reach = SHARE * kept.spread
        after = max(int(np.searchsorted(rising, center + reach, "right")), at + 1)
        yield order[at:after], kept
        at = after


def gathered(eps, answers, good):
    """(results, which are good) of (indices, results there, which of them are good), up to a line
    that is good for nothing, for the next ones would be no better and take as long.
    """
    found = None
    for index, part, fine in answers:
        if found is None:
            found = jax.tree.map(
                lambda leaf: np.zeros(eps.shape + leaf.shape[1:], leaf.dtype), part
            )
        for whole, own in zip(jax.tree.leaves(found), jax.tree.leaves(part)):
            whole[index] = own
        good[index] = fine
        if not np.any(fine):
            break
    return found, good


def logs_nearby(terms, eps, kind):
    """The `Logs` of one integral at many eps; those that are not followed to their end, or in which
    rounding shows, are not good: on a line of their own it may not.
    """
    good = np.zeros(eps.shape, bool)
    if not (np.isfinite(eps).all() and worth_while(terms, kind, eps)):
        return None, good

    def answers():
        for index, kept in served(eps, lambda center: kept_at(terms, center, kind)):
            logs, _ = kept.logs(eps[index])
            yield index, logs, kept.done & logs.followed & logs.exact

    return gathered(eps, answers(), good)
