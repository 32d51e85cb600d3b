"""Certified brackets of a privacy profile from its transform: each error of the integral, bounded.

`jaxpriv.composition.inversion` derives the integral; docs/certified.md has the proofs. A line that
was placed for one eps serves all eps nearby: `Spectrum` keeps what was computed along it.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.blocks import BLOCK
from jaxpriv.composition.decisive import single_steps
from jaxpriv.composition.entrywise import entrywise
from jaxpriv.composition.frequencies import LIMIT, follow, plain_paths
from jaxpriv.composition.kept import Kept, Target
from jaxpriv.composition.line import (
    DELTA,
    POWER,
    Term,
    along,
    at_smallest,
    before_largest,
    bound_far,
    log_factor,
    loss_bound,
    on_axis,
    over_steps,
    saddle_epsilon,
)
from jaxpriv.composition.nearby import gathered, served, served_again, worth_while
from jaxpriv.composition.on_paths import FEW, MANY
from jaxpriv.composition.sampled import TiltedSampled
from jaxpriv.composition.stored import key_of, store
from jaxpriv.composition.transforms import UNKNOWN
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import padded
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.stepping import stepped_out

_PLACED = 12  # lines at most, until one was placed near enough to the root
# of 1 + |log delta|: the rounding of a single step's, which is no smaller than e^-7 of its power
_SINGLE = 1e-9
_MANY_NODES = 1024
_LOST = 1e100  # a rule's error that says that nothing is known (`sampled.UNSEEN`, times some steps)
# -log of the share of an integral that need not be followed, and need not where there is no end:
# for one eps, and for all that a line serves
_LITTLE, _LESS, _OF_MANY = 30.0, 25.0, 22.0
# log of how many frequencies there may be; parts of that range, and how often it is divided
_FARTHEST, _PARTS, _DIVISIONS = 20.0, 8, 3
# by how much more than the frequencies' rounding a bracket is wider, mostly; what is not rounding
_WITHIN, _FAINT = 2.5, 1e-6
_WIDER = 4.0  # than the narrowest of a line brackets may be that it serves
_LINES, _PATIENCE = 48, 64  # for all that is asked of few; blocks of frequencies for each
_KNOWN = 1e-6  # width of log delta, or of eps
_MUCH, _HALVED = 0.5, 14  # of log delta, to place another line; bisections to place it
_SOON = 512, 32768  # frequencies to which one path is enough, and few
_spectra = store(8)  # whoever looks for a level asks next to one eps again and again


class Bracket(NamedTuple):
    """Certified (lower, upper) of log delta, and -d log delta/d eps."""

    lower: jax.Array
    upper: jax.Array
    rate: jax.Array


class Margins(NamedTuple):
    """What bounds the errors of an integral along a line, whatever eps.

    total: K on the axis; steps: the sum of (2 |K|)^1/2 over the steps, of which it is made;
    error: the sum of the rules' relative errors; best, beyond: the distance from the pole whose
    Chernoff bound limits the far aliases, and log M there; stop: the frequency from which on
    nothing counts; where: little -> that from which on there is e^-little of an integral;
    log_decay: y -> log of a bound of |M(c+iy)/M(c)| beyond y.
    """

    kind: Any
    line: Any
    total: jax.Array
    steps: jax.Array
    error: jax.Array
    best: jax.Array
    beyond: jax.Array
    stop: jax.Array
    where: Any
    log_decay: Any

    @property
    def endless(self):
        """Do the frequencies not end in `LIMIT` blocks?"""
        return self.stop > LIMIT * BLOCK * self.line.spacing

    def blocks(self, tilts, little):
        """How many blocks of frequencies to follow at most, fewer of more nodes: a lattice may be
        narrower by then; by NumPy, where they are endless, no more than leave e^-little out.
        """
        nodes = max((len(tilt.x) for tilt in tilts if isinstance(tilt, TiltedSampled)), default=1)
        limit = 4 * LIMIT // max(1, nodes // _MANY_NODES)
        if xp.any_jax(self.stop) or not np.all(self.endless):
            return limit
        needed = np.max(self.where(little) / (BLOCK * self.line.spacing))
        return math.ceil(needed) if needed < limit else limit


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


def brackets_on_lines(terms, eps, lines):
    """The `Bracket`s of log delta at eps (k,) >= 0 of one composition, by NumPy, from a few lines;
    NaN where these do not serve. lines: a list of those that there are, to which others are added.
    """
    inner = before_largest(terms, eps)
    found = np.full((3, eps.size), np.nan)

    def place(at):
        return Spectrum(terms, at, DELTA, _PATIENCE)

    for index, spectrum in served_again(inner, place, lines, _LINES):
        if not spectrum.useful:
            break
        part = np.stack(spectrum.brackets(inner[index]))
        known = part[1] - part[0] < _KNOWN
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
    margins = _margins(terms, kind, line, tilts)
    paths, nothing = plain_paths(tilts, line), lambda *_: ()
    limit = margins.blocks(tilts, _LESS)
    _, sums, done = follow(
        terms, eps, kind, line, tilts, paths, nothing, (), margins.stop, limit, patience
    )
    return _enclosed(margins, sums, margins.log_decay(sums.reach), eps), done


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


def _margins(terms, kind, line, tilts):
    def decaying(paths):
        """(y -> log of a bound of |M(c+iy)/M(c)| beyond y by so many paths, where it ends)."""
        decays = [(tilt.log_decay, tilt.decay(paths)) for tilt in tilts]
        several = [(bound, _for_further(parts, line.d.ndim + 1)) for bound, parts in decays]

        def of(decays):
            def log_decay(y):
                return over_steps(terms, [bound(parts, y[..., None]) for bound, parts in decays])

            return log_decay

        return of(decays), partial(_where_decayed, of(several), line)

    log_decay, where = decaying(FEW if xp.any_jax(line) else 1)
    stop = where(_LITTLE)
    if not xp.any_jax(stop):
        for paths, soon in zip((FEW, MANY), _SOON):
            if np.any(stop > soon * line.spacing):
                log_decay, where = decaying(paths)
                stop = where(_LITTLE)
    values = [tilt.value for tilt in tilts]
    width = 2 * math.pi / line.spacing
    # the best candidate of few nodes, bounded by all of them and by their rule's error
    exponents = line.beyond - (line.further - line.d) * width
    best = at_smallest(exponents, line.further)
    beyond = bound_far(terms, on_axis(kind, line.side, best))
    return Margins(
        kind,
        line,
        over_steps(terms, values),
        over_steps(terms, [xp.sqrt(2 * xp.abs(value)) for value in values]),
        over_steps(terms, [tilt.line_error() for tilt in tilts]),
        best,
        xp.where(xp.min(exponents, 0) < xp.inf, beyond, xp.inf),
        stop,
        where,
        log_decay,
    )


def _for_further(parts, own):
    """Arrays of the batch and its members, and of what stands before these, with one more axis in
    between.
    """
    return jax.tree.map(
        lambda leaf: leaf.reshape((*leaf.shape[:-own], 1, *leaf.shape[leaf.ndim - own :])), parts
    )


def _where_decayed(log_decay, line, little):
    """The frequency beyond which all that is left out is e^-little: on a logarithmic scale the
    upper end of the last of a few divisions, for a call costs as much as several frequencies.
    """
    inner = xp.arange(1, _PARTS, dtype=line.d.dtype).reshape((-1,) + (1,) * line.d.ndim)

    def short(log_y):
        return log_y - log_decay(xp.exp(log_y)) - xp.log(line.d) <= little

    def divided(_, state):
        low, width = state
        steps = xp.sum(xp.where(short(low + width * inner), 1.0, 0.0), 0).astype(low.dtype)
        return low + width * steps, width / _PARTS

    low, width = xp.log(line.spacing), xp.full_like(line.d, _FARTHEST / _PARTS)
    farthest = low + _FARTHEST
    if not xp.any_jax(line) and short(farthest[None]).all():
        return np.exp(farthest)
    low, width = xp.fori_loop(0, _DIVISIONS, divided, (low, width))
    return xp.exp(low + width * _PARTS)


def _enclosed(margins, sums, log_left_out, eps):
    """The `Bracket` from what the frequencies add up to, and from the log of a bound of
    |M(c+iy)/M(c)| beyond them.
    """
    kind, line, total = margins.kind, margins.line, margins.total
    d, inner = line.d, line.side < 0
    away = xp.where(inner, 1 - d, 1 + d)
    height = total + log_factor(kind, line.side, d, eps)
    scale = line.spacing / math.pi
    log_value = height + xp.log(xp.maximum(sums.value * scale, 1e-300))

    width = 2 * math.pi / line.spacing
    near = xp.exp(-d * width - log_value) / -xp.expm1(-d * width)
    step = (margins.best - d) * width
    chernoff = margins.beyond - line.side * eps * margins.best
    aliasing = near + xp.exp(chernoff - step - log_value) / -xp.expm1(-step)
    # the integral of |kernel| over y > Y is at most d away/Y of its value at 0
    truncation = xp.exp(log_left_out) * d * away / (sums.reach * math.pi * scale * sums.value)
    # the integral of |kernel| over all y is at most pi max(d, 1)
    quadrature = 2 * margins.error * xp.maximum(xp.maximum(d, away), 1.0) / (scale * sums.value)
    c = on_axis(kind, line.side, d)
    carried = 16 * (1 + xp.abs(total) + xp.abs(eps * c) + margins.steps + xp.abs(height))
    ulp = xp.finfo(eps.dtype).eps
    rounding = ulp * (sums.size / xp.abs(sums.value) + carried)
    relative = aliasing + truncation + quadrature + rounding
    lost = xp.isnan(relative) | ~(sums.value > 0) | ~(margins.error < _LOST)
    relative = xp.where(lost, xp.inf, relative)

    log_high = xp.where(relative < xp.inf, log_value + xp.log1p(relative), xp.inf)
    log_low = xp.where(relative < 1, log_value + xp.log1p(-xp.minimum(relative, 1.0)), -xp.inf)
    # whatever happened above, Chernoff's bounds hold
    sure = xp.minimum(
        _chernoff(total + 2 * margins.error, eps, d), _chernoff(margins.beyond, eps, margins.best)
    )
    sure = xp.where(inner, 0.0, sure)
    rest_high, rest_low = (
        log1mexp(xp.minimum(xp.where(inner, end, -1.0), 0.0)) for end in (log_low, log_high)
    )
    lower, upper = padded(
        xp.where(inner, rest_low, xp.minimum(log_low, 0.0)),
        xp.where(inner, rest_high, xp.minimum(log_high, sure)),
    )
    # the integral is delta, or one less it
    rate = sums.slope / sums.value * xp.where(inner, -xp.expm1(-upper), 1.0)
    return Bracket(lower, upper, rate)


def _chernoff(total, eps, c):
    """Of log delta by log M at c > 0: (1 - e^(eps - L))_+ <= e^(c (L - eps)) c^c/(1+c)^(1+c); 0
    where that says nothing.
    """
    sure = total - eps * c + c * xp.log(c) - (1 + c) * xp.log1p(c)
    sure = sure + 64 * xp.finfo(eps.dtype).eps * (1 + xp.abs(total) + eps * c + xp.abs(sure))
    return xp.where(xp.isnan(sure), 0.0, xp.minimum(sure, 0.0))


class Spectrum:
    """What is known along one line, by NumPy: brackets of delta at every eps near the one it was
    placed for.
    """

    def __init__(self, terms, eps, kind, patience, guess=None):
        self.center = eps = np.asarray(eps)
        own = line, tilts, _ = along(terms, eps, kind, guess)
        self._margins = margins = _margins(terms, kind, line, tilts)
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
        return _enclosed(self._margins, self.kept.sums(eps), self._left_out, eps)

    def brackets(self, eps):
        """The same of a single line at thousands of eps, a little wider."""
        return _enclosed(self._margins, self.kept.sums_between(eps), self._left_out, eps)


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
