"""Certified brackets of few steps from their laws at unevenly spaced losses, by NumPy."""

import functools

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._stored import Store
from jaxpriv.composition import laid
from jaxpriv.composition.uneven import (
    LEAST,
    ULP,
    Law,
    Sides,
    aimed,
    one_step,
    tails,
    together,
)
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.many_outcomes import ManyOutcomes
from jaxpriv.tradeoff.stepping import stepped_out

_FIRST, _FINEST = 256, 1024  # points
_NARROW = 1e-5  # of log delta
RARE = 0.3  # steps with the record, on average
FEW, MOST = 64, 1 << 17  # steps
_SUMMED = 4e-12  # rounding of sums over a law, and of the exponentials in them
_COARSE = 200  # points of a first look
_LAWS = 16  # kept of a chain


class Chain:
    """Steps [(experiment with scalar parameters in float64, whole number)] of one direction, those
    without kinks first: the profile of one of the first is not discretised.
    """

    def __init__(self, steps, reverse):
        self.reverse = reverse
        self.count = sum(count for _, count in steps)
        # (how often does the record take part, steps), and is it rarely in any?
        self.rates = [(float(one.participation()), count) for one, count in steps]
        self.seldom = sum(rate * count for rate, count in self.rates) <= RARE
        (self.last, count), *others = steps
        self.steps = [(self.last, count - 1), *others]
        self.laws = Store(_LAWS)

    @functools.cached_property
    def tails(self):
        """Of each step, with the last one first."""
        return [None if step.finite else tails(step, self.reverse) for step, _ in self.steps]

    @functools.cached_property
    def profile(self):
        """The last step's profile between its `Tails`."""
        return ProfileTable(self.tails[0])

    @functools.cached_property
    def first_look(self):
        """The `Sides` of all steps but the last, aimed at nothing."""
        return self.composed(None, _COARSE, LEAST)

    def composed(self, aim, size, floor):
        """The `Sides` of all steps but the last."""
        return powers(self.steps, self.tails, self.reverse, aim, size, floor)

    @np.errstate(all="ignore")
    def near(self, sides, eps):
        """(lower, upper) of log delta at eps (any shape) and -d log delta/d eps, not certified: by
        the profile's table.
        """
        if self.last.finite:
            return self._summed(sides.lower, eps, -1)[0], *self._summed(sides.upper, eps, 1)
        lower, upper = (_mean(law, *self.profile(eps[..., None] - law.loss))
                        for law in (sides.lower, sides.upper))
        return lower[0], *upper

    @np.errstate(all="ignore")
    def bracket(self, sides, eps):
        """(lower, upper) of log delta at eps (any shape), and -d log delta/d eps."""
        return self._summed(sides.lower, eps, -1)[0], *self._summed(sides.upper, eps, 1)

    @np.errstate(all="ignore")
    def ends(self, sides, eps):
        """Of two eps the lower bound at the first and the upper one at the second, as brackets."""
        lower, rate_below = self._summed(sides.lower, eps[0], -1)
        upper, rate_above = self._summed(sides.upper, eps[1], 1)
        found = np.stack([lower, upper])
        return found, found, np.stack([rate_below, rate_above])

    def _summed(self, law, eps, sign):
        return summed_over(law, self.last, self.reverse, eps, sign)


@np.errstate(all="ignore")
def powers(steps, known, reverse, aim, size, floor):
    """The `Sides` of steps [(experiment, whole number)] with these `Tails`; by squaring."""
    nothing = Law(np.zeros(1), np.ones(1), 0.0)
    total = Sides(nothing, nothing, True)
    for (experiment, count), own in zip(steps, known):
        if not count:
            continue
        power = one_step(experiment, reverse, own, aim, size, floor)
        while True:
            if count % 2:
                empty = total.upper is nothing
                total = power if empty else together(total, power, aim, size, floor)
            count //= 2
            if not count:
                break
            power = together(power, power, aim, size, floor)
    return total


def summed_over(law, last, reverse, eps, sign):
    """A bound of log delta, and -d log delta/d eps, of a law and a step with scalar parameters."""
    rest = eps[..., None] - law.loss
    doubt = 4 * ULP * (np.abs(eps)[..., None] + np.abs(law.loss))
    lower, upper, rate = spread(last, rest.shape).bracket(rest - doubt, rest + doubt, reverse)
    return bound_of_mean(law, upper if sign > 0 else lower, rate, sign)


def spread(experiment, shape):
    """One of scalar parameters, for questions of this shape."""
    wide = jax.tree.map(lambda leaf: np.asarray(leaf)[(None,) * len(shape)], experiment)
    return wide.aligned(shape, np.float64)


def bound_of_mean(law, log_delta, rate, sign):
    """A bound of the mean over a law of as many bounds (..., losses), rounded to one side, and -d
    log delta/d eps.
    """
    value, rate = _mean(law, log_delta, rate)
    value = np.exp(value) * (1 + sign * _SUMMED) + (LEAST if sign > 0 else 0.0)
    return np.log(np.clip(value, 0.0, 1.0)), rate


def _mean(law, log_delta, rate):
    """(log delta, its rate) of a law and, given each of its losses, of what is left."""
    parts = law.mass * np.exp(log_delta)
    total = np.sum(parts, -1)
    rate = np.sum(parts * np.where(parts > 0, rate, 0.0), -1) / total
    return np.log(total + law.endless), rate


class ProfileTable:
    """log delta of a step between the losses of its `Tails`. Not certified.

    The tests tell its slope there, d log delta/d eps = -e^eps alpha/delta: by cubics, but between
    what delta, a convex function of e^eps, can be, its tangents and its chord: so it is known next
    to a kink as well.
    """

    def __init__(self, known):
        loss, tests = known.loss, known.tests
        ratio = np.minimum(loss + tests.log_alpha - tests.log_power, 0.0)
        log_delta = tests.log_power + log1mexp(ratio)
        some = np.isfinite(log_delta)
        self.loss, self.log_delta = loss[some], log_delta[some]
        self.rate = np.exp(self.loss + tests.log_alpha[some] - self.log_delta)

    def __call__(self, eps):
        """(log delta, its rate) at any eps; beyond the table that of nothing, and nothing."""
        x, y, fall = self.loss, self.log_delta, self.rate
        at = np.clip(np.searchsorted(x, eps) - 1, 0, len(x) - 2)
        since, width, change = eps - x[at], x[at + 1] - x[at], y[at + 1] - y[at]
        t, rise = since / width, change / width
        first, second = -fall[at] - rise, -fall[at + 1] - rise
        cubic = since * (rise + (1 - t) * ((1 - t) * first - t * second))
        slope = rise + (1 - t) * (1 - 3 * t) * first - t * (2 - 3 * t) * second

        # in units of delta at the first end: the tangents there and at the last one, and the chord
        last, before = np.exp(change), since - width
        lines = (1 - fall[at] * np.expm1(since), last * (1 - fall[at + 1] * np.expm1(before)))
        falls = fall[at] * np.exp(since), last * fall[at + 1] * np.exp(before)
        line, falling = np.where(lines[0] > lines[1], (lines[0], falls[0]), (lines[1], falls[1]))
        least = np.log(line)
        most = np.log1p(np.expm1(change) * np.expm1(since) / np.expm1(width))
        bent = (cubic >= least) & (cubic <= most)
        value = y[at] + np.fmin(np.fmax(cubic, least), most)
        rate = np.where(bent, -slope, falling / line)

        below, above = eps < x[0], eps > x[-1]
        left = np.where(below, eps, -1.0)
        value = np.where(below, log1mexp(left), np.where(above, -np.inf, value))
        return value, np.where(below, np.exp(left - value), np.where(above, 0.0, rate))


def chain_of(steps, flipped):
    """The `Chain` of `Step`s with scalar parameters and members along one axis, or None where they,
    or the outcomes of one, are too many.
    """
    return laid.chain(steps, flipped, lambda: _begun(steps, flipped))


def _begun(steps, flipped):
    smooth: list[tuple] = []
    kinked: list[tuple] = []
    for step in steps:
        for member in np.flatnonzero(step.count > 0):
            experiment, count = xp.row(step.experiment, member), int(step.count[member])
            if isinstance(experiment, ManyOutcomes):
                return None
            if experiment.finite or np.all(np.isnan(experiment.atoms(False))):
                smooth.append((experiment, count))
            else:
                kinked.append((experiment, count))
    steps = smooth + kinked
    return Chain(steps, bool(flipped)) if 0 < sum(count for _, count in steps) <= MOST else None


def law_at(chain, eps):
    """The `Sides` of all steps but the last, aimed at one eps."""
    return chain.laws.get(eps, lambda: _law_at(chain, np.asarray(eps)))


def _law_at(chain, eps):
    law = chain.first_look
    low, high, _ = chain.near(law, eps)
    size = 0 if law.plain else _FIRST
    while size:
        before, width = law, high - low
        law = aimed_at(chain, law, eps, middle(low, high), size)
        low, high, _ = chain.near(law, eps)
        law, size = _better(before, width, law, high - low, size)
    return law


def _better(before, width, law, narrower, size):
    """The better of two laws, and how many points make a bracket of log delta narrow, whose width
    goes with their square: none more where it is, where there are so many already, or where the
    rounding of narrow cells' probabilities makes them worse.
    """
    if narrower >= width:
        return before, 0
    if narrower <= _NARROW or size >= _FINEST:
        return law, 0
    return law, int(min(max(2 * size, 1.2 * size * np.sqrt(narrower / _NARROW)), _FINEST))


def aimed_at(chain, law, eps, log_delta, size=_FIRST):
    """The `Sides` aimed at eps, where delta is about this, from a first look."""
    floor = max(float(np.exp(log_delta)), LEAST) * 1e-9
    return chain.composed(aimed(law.upper, eps), size, floor)


def epsilon_bracket(chain, lowest, log_delta):
    """Certified (lower, upper) of eps for log delta between `lowest` and `log_delta`."""
    law = chain.first_look
    if chain.bracket(law, np.zeros(()))[1] <= lowest:
        return 0.0, 0.0
    eps, width = _met(chain, law, log_delta), np.inf
    size = 0 if law.plain else _FIRST
    while size:
        before, eps_before, wider = law, eps, width
        law = aimed_at(chain, law, eps, log_delta, size)
        eps = _met(chain, law, log_delta)
        lower, upper, rate = chain.near(law, np.asarray(eps))
        width = upper - lower
        if size == _FIRST and not abs(eps - eps_before) * rate <= 1:
            size = size + 1  # the first look was of another eps
        else:
            law, size = _better(before, wider, law, width, size)
            eps = eps_before if law is before else eps
    return stepped_out(
        np.asarray(eps), lambda ends: chain.ends(law, ends),
        np.asarray(lowest), np.asarray(log_delta))


def middle(lower, upper):
    """Of a bracket of log delta."""
    return 0.5 * (np.maximum(lower, upper - 5.0) + upper)


def _met(chain, law, log_delta):
    """The eps at which the middle of the bracket is log_delta."""

    def above(eps):
        lower, upper, _ = chain.near(law, eps)
        return middle(lower, upper) > log_delta

    return crossing(law, above)


def crossing(law, above):
    """The eps >= 0 at which a function ceases to be above a target, to 1e-8 of itself: between two
    of ever finer choices.
    """
    largest = 2 * (np.max(law.upper.loss, initial=0.0) + 1)
    choices = np.append(0.0, largest * 2.0 ** np.arange(-60.0, 1.0))
    for _ in range(7):
        over = np.flatnonzero(above(choices))
        last = over[-1] if over.size else 0
        if last + 1 == choices.size:
            break
        choices = np.linspace(choices[last], choices[last + 1], 17)
    return 0.5 * (choices[0] + choices[-1]) if over.size else 0.0
