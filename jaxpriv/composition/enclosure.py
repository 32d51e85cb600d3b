"""Certified brackets of a privacy profile from its transform.

`jaxpriv.composition.inversion` derives the integral, `jaxpriv.composition.margins` bounds its
errors. A line that was placed for one eps serves all eps nearby: `Spectrum` keeps what was computed
along it.
"""

import math
from functools import partial

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._stored import key_of, store
from jaxpriv.composition.decisive import single_steps
from jaxpriv.composition.entrywise import entrywise
from jaxpriv.composition.frequencies import follow, plain_paths
from jaxpriv.composition.kept import Kept, Target
from jaxpriv.composition.ladder import ladder_of
from jaxpriv.composition.line import (
    DELTA,
    POWER,
    Term,
    along,
    before_largest,
    loss_bound,
    saddle_epsilon,
)
from jaxpriv.composition.margins import Bracket, enclosed, margins_of
from jaxpriv.composition.nearby import gathered, served, worth_while
from jaxpriv.composition.transforms import UNKNOWN
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import padded
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.stepping import stepped_out

_PLACED = 12  # lines at most, until one was placed near enough to the root
# of 1 + |log delta|: the rounding of a single step's, which is no smaller than e^-7 of its power
_SINGLE = 1e-9
# -log of the share of an integral that need not be followed where there is no end: for one eps, and
# for all that a line serves
_LESS, _OF_MANY = 25.0, 22.0
# by how much more than the frequencies' rounding a bracket is wider, mostly; what is not rounding
_WITHIN, _FAINT = 2.5, 1e-6
_WIDER = 4.0  # than the narrowest of a line brackets may be that it serves
_PATIENCE = 1024  # blocks of frequencies of a line on a ladder
_KNOWN = 1e-6  # width of log delta, or of eps
_TOLD = 0.1  # of log delta from lines on a ladder: what is wider is better told by others
_MUCH, _HALVED = 0.5, 14  # of log delta, to place another line; bisections to place it
_spectra = store(8)  # whoever looks for a level asks next to one eps again and again


def bracket(terms, eps):
    """The `Bracket` of log delta(eps), eps >= 0."""
    if xp.any_jax(terms, eps):
        return _below_largest(terms, eps, _bracket(terms, before_largest(terms, eps), DELTA))
    found = np.zeros((3, *eps.shape))
    inside = eps < loss_bound(terms)
    if inside.any():
        own = jax.tree.map(lambda leaf: leaf[inside], terms)
        found[:, inside] = _bracket(own, eps[inside], DELTA)
    return _below_largest(terms, eps, Bracket(*found))


def epsilon_bracket(terms, lowest, log_delta):
    """Certified (lower, upper) of eps for log delta between `lowest` and `log_delta`, by NumPy; NaN
    where that fails.
    """
    return _where_met(terms, (lowest, log_delta), DELTA)


def brackets_near(terms, center, ends):
    """The `Bracket`s of log delta at eps (k, ...) >= 0, all near `center`, by NumPy."""
    center = before_largest(terms, center)
    found = _nearby(terms, (center, np.moveaxis(ends, 0, -1)), DELTA)
    return _below_largest(terms, ends, jax.tree.map(lambda leaf: np.moveaxis(leaf, -1, 0), found))


def from_other_direction(eps, found):
    """A bracket at eps of what is known at |eps|, for eps < 0 of the other direction:
    1 - e^eps (1 - delta_r(-eps)), which falls by e^eps (1 - delta_r (1 + rate_r)).
    """
    lower, upper, rate = found
    flipped = eps < 0
    down = xp.where(flipped, eps, -1.0)
    low, high = padded(*(xp.logaddexp(log1mexp(down), down + end) for end in (lower, upper)))
    falls = xp.maximum(1 - xp.exp(upper) * (1 + rate), 0.0) * xp.exp(down - high)
    return (xp.where(flipped, low, lower), xp.where(flipped, high, upper),
            xp.where(flipped, falls, rate))


def brackets_on_lines(terms, eps):
    """The `Bracket`s of log delta at eps (k,) >= 0 of one composition, by NumPy, from the lines of
    its ladder; NaN where these do not serve.
    """
    inner = before_largest(terms, eps)
    found = np.full((3, eps.size), np.nan)
    for index, spectrum in ladder_of(terms, _line_of_many).serving(inner):
        if not spectrum.useful:
            break
        part = np.stack(spectrum.brackets(inner[index]))
        known = part[1] - part[0] < _TOLD
        found[:, index[known]] = part[:, known]
    return np.stack(_below_largest(terms, eps, Bracket(*found)))


def _below_largest(terms, eps, found):
    """No loss is larger than the largest; next to it rounding decides whether there is anything
    left.
    """
    largest = loss_bound(terms)
    leaks = largest > 0
    inside, near = leaks & (eps < largest), leaks & (eps < largest * (1 + 1e-13))
    lower = found.lower
    if not xp.any_jax(lower) and np.any(inside & (lower == -np.inf)):
        lower = np.maximum(lower, _told_once(terms, eps))
    return Bracket(
        xp.where(inside, lower, -xp.inf),
        xp.where(inside, found.upper, xp.where(near, -30.0, -xp.inf)),
        xp.where(inside, found.rate, xp.inf),
    )


def _brackets_nearby(terms, eps, kind):
    """`Bracket`s of one composition at many eps, from lines that serve several of them each."""
    good = np.zeros(eps.shape, bool)
    if not (np.isfinite(eps).all() and worth_while(terms, kind, eps)):
        return None, good

    def answers():
        for index, spectrum in served(eps, lambda at: Spectrum(terms, at, kind, None)):
            found = spectrum.bracket(eps[index])
            width = found.upper - found.lower
            # further off a line may know fewer digits than one's own
            yield index, found, spectrum.knows(width) & (width <= _WIDER * np.min(width) + 1e-13)

    return gathered(eps, answers(), good)


@partial(entrywise, several=_brackets_nearby)
def _bracket(terms, eps, kind, patience):
    line, tilts, _ = along(terms, eps, kind)
    margins = margins_of(terms, kind, line, tilts)
    paths, nothing = plain_paths(tilts, line), lambda *_: ()
    limit = margins.blocks(tilts, _LESS)
    _, sums, done = follow(
        terms, eps, kind, line, tilts, paths, nothing, (), margins.stop, limit, patience
    )
    return enclosed(margins, sums, margins.log_decay(sums.reach), eps), done


def _told_once(terms, eps):
    """A lower bound of log delta at eps > 0 from single steps, which few steps at a small rate
    hardly exceed; by NumPy.

    No loss is below -m_i, so L >= max L_i - m with m = sum m_i over the steps, and delta >= E g(max
    L_i) with g(l) = (1 - e^(eps + m - l))_+. Of positive numbers the largest is at least their sum
    less min(g_i, g_j) for each pair, and E min <= p_i p_j, p_i = Q(L_i > eps + m): delta >= sum
    delta_i(eps + m) - (sum p_i)^2/2.
    """
    least = loss_bound([Term(term.transform.reversed(True), term.count) for term in terms])
    up = np.where(np.isfinite(least) & (eps > 0), eps + least, 1.0)[..., None]
    several = [np.log(np.where(term.count > 0, term.count, 1e-300)) for term in terms]
    told, seen = (
        np.logaddexp.reduce(
            np.concatenate(
                [n + term.transform.once(up, kind) for n, term in zip(several, terms)], -1
            ),
            -1,
        )
        for kind in (DELTA, POWER)
    )
    pairs = 2 * seen - math.log(2.0) + 1e-6
    # where delta is a small difference of powers, or pairs count, nothing is claimed
    plain = (
        np.isfinite(least)
        & (eps > 0)
        & (told > seen - 7.0)
        & (pairs < told - 0.1)
        & (told > 0.5 * UNKNOWN)
    )
    lower = told + np.log1p(-np.exp(np.where(plain, pairs - told, -1.0)))
    return np.where(plain, lower - _SINGLE * (1 + np.abs(told)), -np.inf)


def _line_of_many(terms, eps):
    return Spectrum(terms, eps, DELTA, _PATIENCE)


class Spectrum:
    """What is known along one line, by NumPy: brackets of delta at every eps near the one it was
    placed for.
    """

    def __init__(self, terms, eps, kind, patience, guess=None):
        self.center = eps = np.asarray(eps)
        own = line, tilts, _ = along(terms, eps, kind, guess)
        self._margins = margins = margins_of(terms, kind, line, tilts)
        blocks = margins.blocks(tilts, _OF_MANY)
        self.kept = Kept(terms, eps, kind, own, margins.stop, blocks, patience)
        self.spread = line.spread
        self._left_out = margins.log_decay(self.kept.reach)
        self.endless = margins.endless

    @property
    def useful(self):
        """Were all frequencies followed?"""
        return self.kept.done & ~self.endless

    def knows(self, width):
        """Were they, or does what is left out hardly matter to a bracket of this width?"""
        return self.useful | (width < _KNOWN)

    def bracket(self, eps):
        """The `Bracket` at eps >= 0, of the shape of the spectrum's own or with further axes before
        it.
        """
        return enclosed(self._margins, self.kept.sums(eps), self._left_out, eps)

    def brackets(self, eps):
        """The same of a single line at thousands of eps, a little wider."""
        return enclosed(self._margins, self.kept.sums_of_many(eps), self._left_out, eps)


def _many_nearby(terms, places, kind):
    """The same of one composition, with several centres to a line."""
    center, ends = places
    good = np.zeros(center.shape, bool)
    if not (np.isfinite(ends).all() and worth_while(terms, kind, center)):
        return None, good

    def answers():
        for index, spectrum in served(center, lambda at: Spectrum(terms, at, kind, None)):
            found = spectrum.bracket(np.moveaxis(ends[index], -1, 0))
            near = np.all(np.abs(ends[index] - spectrum.center) <= 2 * spectrum.spread, -1)
            known = spectrum.knows(np.max(found.upper - found.lower, 0))
            yield index, jax.tree.map(lambda leaf: np.moveaxis(leaf, 0, -1), found), near & known

    return gathered(center, answers(), good)


@partial(entrywise, several=_many_nearby)
def _nearby(terms, places, kind, patience):
    """`Bracket`s at eps (..., k), from one line that was placed for another eps (...)."""
    center, ends = places
    spectrum = _spectra.get((*key_of(terms, center, kind), patience),
                            lambda: Spectrum(terms, center, kind, patience))
    found = spectrum.bracket(np.moveaxis(ends, -1, 0))
    return jax.tree.map(lambda leaf: np.moveaxis(leaf, 0, -1), found), spectrum.kept.done


def _where_told_once(terms, eps, log_delta, kind):
    """The eps beyond the given one at which single steps alone give delta, which is about the least
    that there is; 0 where they give less. Where they give most of it the saddle-point approximation
    is far off.
    """

    def shortfall(eps):
        value = single_steps(terms, eps, kind)
        return log_delta - value, np.zeros_like(eps)

    found = np.zeros_like(eps)
    low = np.maximum(eps, 1e-9)
    more = shortfall(low)[0] < -_MUCH
    if more.any():
        high = np.where(more, np.minimum(2 * loss_bound(terms), 1e4), 1e4)
        found = np.where(more, np.exp(newton_in_bracket(
            lambda x: shortfall(np.exp(x)), np.log(low), np.log(high), iterations=_HALVED)), 0.0)
    return found


@entrywise
def _where_met(terms, targets, kind, patience):
    """The ends of eps, verified on a line that was placed next to them."""
    lowest, log_delta = targets
    reachable = (log_delta > -np.inf) & (log_delta < 0) & (loss_bound(terms) > 0)
    target = np.where(reachable, log_delta, -1.0)
    goal = Target.of_delta(target, loss_bound(terms))
    (eps, saddle), done = saddle_epsilon(terms, target), True
    seldom = _where_told_once(terms, eps, target, kind)
    saddle = np.where(seldom > eps, np.nan, saddle)
    eps = np.maximum(eps, seldom)
    for attempt in range(_PLACED):
        spectrum = Spectrum(terms, eps, kind, patience, None if attempt else saddle)
        done = done & spectrum.kept.done
        eps, blur, serves, logs = spectrum.kept.newton(goal)
        # where the frequencies did not end the saddle-point approximation may have served itself;
        # of what a line sees only as rounding another one has never been seen to see more
        lost = ~done | spectrum.endless | ~logs.followed
        if np.all(serves | ~reachable | lost):
            break

    low, high = stepped_out(
        eps, lambda ends: _below_largest(terms, ends, spectrum.bracket(ends)), lowest, log_delta,
        _WITHIN * np.where(blur < _FAINT, blur, 0.0))
    known = reachable & (high < np.inf)
    known &= ~spectrum.endless | (high - low < _KNOWN * (1 + high))
    return (np.where(known, low, np.nan), np.where(known, high, np.nan)), done
