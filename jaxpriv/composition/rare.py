"""Estimates of compositions in which the record seldom takes part, by NumPy.

Nearly all of their total loss lies within a tiny part of what it may be at most: the frequencies of
its transform do not end in time, and a lattice has no points there. Their laws at uneven losses
(`chain`) have: a bracket's slope there tells the test next to its middle,

    -d log delta/d eps = e^eps alpha/delta,        power = delta + e^eps alpha,

and at eps < 0 the test of the other direction is the same one with its errors exchanged.
"""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition import chain
from jaxpriv.composition.grown import by_chain
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.pair import safe_log

RATE = 1e-3  # above it a lattice's estimates are the better ones
_LOOKS = 2  # for a slope, whose error enters squared: from a law aimed at nothing first


class Rare:
    """Both directions of a composition with scalar parameters."""

    def __init__(self, forward, backward):
        self.forward, self.backward = forward, backward

    def contacts(self, eps):
        """(log delta, `Point`) at eps (k,)."""
        found = np.empty((5, eps.size))
        for steps, here in ((self.forward, eps >= 0), (self.backward, eps < 0)):
            if here.any():
                at = np.abs(eps[here])
                log_delta, point = _tests(at, *by_chain(steps, np.median(at), at))
                if steps is self.backward:
                    log_delta = log1mexp(np.minimum(log1mexp(log_delta) - at, -1e-300))
                    point = point.exchanged()
                found[:, here] = np.stack([log_delta, *point])
        return found[0], Point(*found[1:])

    def slope(self, alpha):
        """The eps at which alpha is the type I error: that of the forward test, or one less the
        power of the other direction's.
        """
        law, zero = self.forward.first_look, np.zeros(())
        if np.log(alpha) <= _tests(zero, *self.forward.near(law, zero))[1].log_alpha:
            return _crossing(self.forward, law, lambda point: point.log_alpha, np.log(alpha))
        law = self.backward.first_look
        return -_crossing(self.backward, law, lambda point: point.log_power, np.log1p(-alpha))

    def epsilon(self, log_delta):
        """The eps at which log delta is `log_delta`."""
        return 0.5 * sum(chain.epsilon_bracket(self.forward, log_delta, log_delta))


def rare(entry):
    """A composition with scalar parameters as `Rare`, of its whole steps, or None where a lattice
    has points where the losses are.
    """
    forward = chain.chain_of(entry.steps, entry.flipped)
    if forward is None or not forward.seldom or max(rate for rate, _ in forward.rates) > RATE:
        return None
    return Rare(forward, chain.chain_of(entry.steps, ~entry.flipped))


def beside_others(entry):
    """Do some steps of it seldom tell anything, and others always? Past what these tell at most a
    lattice has to show losses that it has no points for.
    """
    steps = chain.chain_of(entry.steps, entry.flipped)
    seldom = [] if steps is None else [rate * count for rate, count in steps.rates if rate < 1]
    return 0 < len(seldom) < len(steps.rates) and sum(seldom) <= chain.RARE


@np.errstate(all="ignore")
def _tests(eps, lower, upper, rate) :
    """(log delta, `Point`) of brackets at eps >= 0 and their slopes."""
    log_delta = chain.middle(lower, upper)
    some = (log_delta > -np.inf) & (rate > 0)
    log_alpha = np.where(some, log_delta - eps + safe_log(np.where(some, rate, 1.0)), -np.inf)
    log_alpha = xp.minimum(log_alpha, -1e-300)
    log_power = np.minimum(np.logaddexp(log_delta, eps + log_alpha), -1e-300)
    log_rest, log_beta = log1mexp(log_alpha), log1mexp(log_power)
    return log_delta, Point(log_alpha, log_rest, log_beta, log_power)


def _crossing(steps, law, of, target):
    """The eps >= 0 at which a falling function of the `Point` is the target, from a first look."""
    for look in range(_LOOKS):

        def above(eps, law=law):
            return of(_tests(eps, *steps.near(law, eps))[1]) > target

        eps = np.asarray(chain.crossing(law, above))
        if law.plain or look == _LOOKS - 1:
            break
        lower, upper, _ = steps.near(law, eps)
        law = chain.aimed_at(steps, law, eps, chain.middle(lower, upper))
    return float(eps)
