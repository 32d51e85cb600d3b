"""Estimates of one composition at many eps and levels, by NumPy: all that lie next to one middle
are read off one lattice (`laid`), where a program lays one for each.

`summed` has the sums; here only the law between both bounds counts.
"""

import functools

import numpy as np

from jaxpriv.composition import centred, grid, grown, laid, summed
from jaxpriv.composition.beside import beside_of
from jaxpriv.composition.doubling import doubled_of
from jaxpriv.composition.enumerated import enumerated_of
from jaxpriv.composition.grid import BETWEEN
from jaxpriv.composition.rare import beside_others, rare
from jaxpriv.composition.summed import running_sums
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket

_FARTHEST = 300.0  # of (1 + |c|) |eps - middle|: exponents stay numbers
_GOOD = 1e-6  # of what is summed: where noise may be more a lattice is laid around that very eps
_ROUNDING = 1e-13  # of running sums
_NOTHING = -28.0  # of log(1 - alpha)
_WIDE, _SMALL = 1e-3, 1 << 14  # width of epsilon's brackets from which on so many points do
_SETTLED, _HALVED = 1e-9, 60  # of logarithms; bisections
_BLUR = 1e-2  # width of log delta's brackets on a lattice from which on these say too little
_AT_END = 1e-5  # of the search's reach
_WIDENED, _WIDER = 12, 16.0  # times; by which factor
_APART, _LAST = 0.25, 150  # normal quantiles of levels whose slopes are approximated; how many
_TRIES, _REACH = 32, 4.0  # distances of two middles from where the saddle-point approximation is


class Running:
    """A law's masses, added up from its ends: what any eps near its middle needs of it."""

    def __init__(self, law):
        c, x = float(law.c), law.loss
        nu = law.nu[BETWEEN]
        self.law, self.inner = law, c < 0
        with np.errstate(all="ignore"):
            self._far = running_sums((nu * np.exp(-(1 + c) * x))[None, ::-1])[0]
            near = nu * np.exp(-c * x)
            self._near = running_sums((near if self.inner else near[::-1])[None])[0]

    def at(self, eps):
        """(log delta, `Point`, are they as well known as from a lattice around eps?)"""
        law, c, t = self.law, float(self.law.c), eps - self.law.middle
        scale, size = law.log_scale, law.loss.size
        below = np.searchsorted(law.loss, t, "right")
        above = size - below
        far = self._far[above] * np.exp(t)
        near = self._near[below if self.inner else above]
        value = near + far if self.inner else near - far
        weights = np.exp(-c * t) * (1 / -np.expm1(-abs(c) * law.spacing) + (
            1 / -np.expm1(-(1 + c) * law.spacing) if self.inner else 0.0))
        error = law.noise[BETWEEN] * weights + law.out[BETWEEN] * np.exp(np.abs(c * t) - c * t)
        error = error + _ROUNDING * (near + far)
        sure = (value > 0) & (error < _GOOD * value) & ((1 + abs(c)) * np.abs(t) < _FARTHEST)

        shift = np.clip((law.loss[np.minimum(below, size - 1)] - t) / law.spacing - 0.5, -0.5, 0.5)
        log_alpha = _log_shared(self._far, above, shift) + scale - law.middle
        log_value = safe_log(value) + scale
        if self.inner:
            log_delta = log1mexp(np.minimum(log_value, -1e-300))
            log_beta = np.minimum(_log_shared(self._near, below, -shift) + scale, 0.0)
            log_power = log1mexp(np.minimum(log_beta, -1e-300))
        else:
            log_delta = np.minimum(np.logaddexp(log_value, law.log_infinite), 0.0)
            seen = _log_shared(self._near, above, shift) + scale
            log_power = np.minimum(np.logaddexp(seen, law.log_infinite), 0.0)
            log_beta = log1mexp(np.minimum(log_power, -1e-300))
        log_alpha = np.minimum(log_alpha, 0.0)
        rest = centred.log_rest_of(log_alpha)
        return log_delta, Point(log_alpha, rest, log_beta, log_power), sure


class Profile:
    """One composition (scalar parameters) wherever it is asked for; on small lattices where its
    brackets may be wide.
    """

    def __init__(self, entry):
        self.entry, self.tables = entry, entry.tables()
        self.size = grid.SIZE if entry.width is None or entry.width < _WIDE else _SMALL

    def at(self, eps):
        """The same at eps (k,), from the lattices next to them."""
        middle = laid.near(self.entry, self.tables, eps)
        found = np.empty((6, eps.size))
        for center in np.unique(middle):
            here = middle == center
            log_delta, point, sure = self._around(center).at(eps[here])
            found[:, here] = np.stack([log_delta, *point, sure])
        return found[0], Point(*found[1:5]), found[5] > 0

    def _around(self, center):
        return laid.sums(self.entry, center, self.size, lambda: Running(self.law(center)))

    def law(self, center):
        return self.entry.law(center, self.tables, self.size)

    def log_alpha(self, eps):
        """log alpha, and its slope from differences: it rises from point to point of the lattice.
        """
        step = 1e-6 * (1 + np.abs(eps))
        at = np.stack([eps, eps + step, eps - step])
        log_alpha = self.at(at.ravel())[1].log_alpha.reshape(at.shape)
        return log_alpha[0], (log_alpha[1] - log_alpha[2]) / (2 * step)

    def search(self, shortfall, start):
        """(Where an increasing function of eps crosses zero, near `start`; is that well known?)"""
        reach = _REACH * laid.distance(self.entry, self.tables)
        least, most = -self.entry.finite_bound(True), self.entry.finite_bound(False)
        low, high = np.maximum(start - reach, least), np.minimum(start + reach, most)
        eps = newton_in_bracket(shortfall, low, high, _TRIES, start)
        over = ~(np.abs(shortfall(eps)[0]) <= _SETTLED)
        if over.any():
            # at an atom the crossing is a leap, which the saddle-point approximation does not see;
            # the best of all tries may lie anywhere before it
            first, last = centred.ends(self.entry, self.tables)
            first, last = np.maximum(least, first), np.minimum(most, last)
            for _ in range(_WIDENED):
                late = over & (low > first) & (shortfall(low)[0] > 0)
                early = over & (high < last) & (shortfall(high)[0] < 0)
                if not (late | early).any():
                    break
                reach = reach * _WIDER
                low = np.where(late, np.maximum(start - reach, first), low)
                high = np.where(early, np.minimum(start + reach, last), high)
            for _ in range(_HALVED):
                middle = 0.5 * (low + high)
                above = shortfall(middle)[0] > 0
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            eps = np.where(over, middle, eps)
        near = np.abs(eps - start) < reach * (1 - 1e-6)
        # at the largest loss, which may be told for sure, any lattice ends
        at_end = (eps > most - _AT_END * reach) | (eps < least + _AT_END * reach)
        # a leap may be where one lattice hands over to another that knows nothing there
        around = (np.where(over, end, eps) for end in (low, high))
        sure = np.all([self.at(end)[2] for end in around], 0)
        return eps, near & (sure | at_end)


def unknown(method, shape):
    """NaN for what a method says of values of this shape."""
    return np.full((*shape, 4) if method == "contacts" else shape, np.nan)


def followed(entry, method, values):
    """What is known of a composition without a lattice, method(values), NaN elsewhere: of counted
    outcomes, or of few smooth steps.
    """
    known = enumerated_of(entry) or doubled_of(entry)
    return unknown(method, values.shape) if known is None else getattr(known, method)(values)


def _followed_first(method):
    """A function(entry, values) where these are not known without."""

    def wrapped(function):
        @functools.wraps(function)
        def both(entry, values):
            found = followed(entry, method, values)
            lost = np.isnan(found).reshape(len(values), -1).any(1) & ~np.isnan(values)
            if lost.any():
                found[lost] = function(entry, values[lost])
            return found

        return both

    return wrapped


@_followed_first("contacts")
def contacts(entry, eps):
    """(log delta, log alpha, log power, log beta) at eps (k,), as (k, 4)."""
    seldom = rare(entry)
    if seldom is not None:
        log_delta, point = seldom.contacts(eps)
        return np.stack([log_delta, point.log_alpha, point.log_power, point.log_beta], -1)
    log_delta, point, sure = Profile(entry).at(eps)
    found = np.stack([log_delta, point.log_alpha, point.log_power, point.log_beta], -1)
    for k in np.flatnonzero(~sure):
        law = entry.law(eps[k], entry.tables())
        found[k] = grid.log_delta(law, eps[k]), *grid.touch(law, eps[k])
    return found


def log_deltas(entry, eps):
    """log delta at eps (k,), within certified brackets where the lattice is far off."""
    found = contacts(entry, eps)[:, 0]
    if beside_others(entry) and enumerated_of(entry) is None:
        few = beside_of(entry)
        for k in np.flatnonzero(_blurred(entry, eps)):
            lower, upper, _ = grown.brackets(entry, eps[k], eps[k, None], few)
            found[k] = np.clip(found[k], lower[0], upper[0])
    return found


def _blurred(entry, eps):
    """Are the lattice's brackets next to eps (k,) wide?"""
    profile = Profile(entry)
    middle = laid.near(entry, profile.tables, eps)
    wide = np.zeros(eps.shape, bool)
    for center in np.unique(middle):
        here = middle == center
        lower, upper, _ = summed.brackets(profile.law(center), eps[here])
        wide[here] = ~(upper - lower <= _BLUR)
    return wide


@_followed_first("slopes")
def slopes(entry, alpha):
    """The eps at which alpha (k,) is the type I error."""
    seldom = rare(entry)
    if seldom is not None:
        return np.asarray([seldom.slope(a) for a in alpha])
    profile = Profile(entry)
    return laid.slopes(entry, alpha, profile.size, lambda: _slopes(profile, alpha)).copy()


def _slopes(profile, alpha):
    entry = profile.entry
    log_alpha, log_rest = np.log(alpha), np.log1p(-alpha)
    small = log_alpha < log_rest

    def shortfall(eps):
        value, slope = profile.log_alpha(eps)
        rest = centred.log_rest_of(value)
        return np.where(small, log_alpha - value, rest - log_rest), -slope * np.where(
            small, 1.0, np.exp(value - rest))

    found, sure = profile.search(shortfall, _started(profile, alpha))
    # next to 1 the logarithm of alpha has no digits left for a lattice of its own either
    return _or_alone(entry, centred.slope_of, alpha, found, sure | (log_rest < _NOTHING))


def _started(profile, alpha):
    """Roughly the slopes: saddle-point approximations at fixed quantiles, and lines between them.

    Of a normal law eps is a line in the normal quantile of alpha.
    """
    quantile = np.clip(norm.ppf(alpha) / _APART, -_LAST, _LAST)
    below = np.floor(quantile)
    knots, index = np.unique(np.stack([below, below + 1]), return_inverse=True)
    logs = norm.logcdf(_APART * knots), norm.logcdf(-_APART * knots)
    at = centred.approximate(profile.entry, profile.tables, *logs)
    left, right = at[index.reshape(2, -1)]
    return left + (quantile - below) * (right - left)


@_followed_first("epsilons")
def epsilons(entry, log_delta):
    """The eps at which log delta is `log_delta` (k,)."""
    seldom = rare(entry)
    if seldom is not None:
        return np.asarray([seldom.epsilon(level) for level in log_delta])
    profile = Profile(entry)

    def shortfall(eps):
        value, point, _ = profile.at(eps)
        return log_delta - value, np.exp(eps + point.log_alpha - value)

    start = centred.start_of(entry, profile.tables, log_delta)
    found, sure = profile.search(shortfall, start)
    found = _or_alone(entry, centred.epsilon_of, log_delta, found, sure)
    if beside_others(entry):
        few = beside_of(entry)
        for k in np.flatnonzero(_blurred(entry, found)):
            low, high = grown.epsilon_bracket(entry, log_delta[k], log_delta[k], few)
            found[k] = np.clip(found[k], low, high)
    return found


def _or_alone(entry, function, values, found, sure):
    """What was found, or function(entry, value) where that is not sure."""
    for k in np.flatnonzero(~sure):
        found[k] = function(entry, values[k])
    return found


def _log_shared(sums, count, part):
    """log of `_shared`, a sum of estimates, a few of which may be negative."""
    return safe_log(np.maximum(_shared(sums, count, part), 0.0))


def _shared(sums, count, part):
    """The first `count` masses, where one within half a spacing of the end is shared out: `part`
    is how much of the next one belongs to them, or of the last one does not.
    """
    own, last = sums[count], len(sums) - 1
    before, after = sums[np.maximum(count - 1, 0)], sums[np.minimum(count + 1, last)]
    return own + np.where(part < 0, part * (own - before), 0.0) + np.where(
        part > 0, part * (after - own), 0.0)
