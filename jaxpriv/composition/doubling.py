"""Estimates of few steps, or of such as seldom tell anything, to rounding; by NumPy.

Let no loss be below l < 0, and losses have densities. Of the test that rejects above e

    delta(e) = E_P(1 - e^(e-L))_+,   -delta' = e^e alpha,   power = delta - delta',
    gamma(e) = E_Q(1 - e^(L-e))_+,   gamma' = e^-e beta,    1 - alpha = gamma + gamma',

where gamma(e) is the profile of exchanged hypotheses at -e. All are known to as many digits from
log delta at e >= 0 and log gamma at e <= 0, in which nothing cancels, and their slopes. Of two
mechanisms seen together, by parts, for dP_1 = -d power_1 and dQ_1 = d(1 - alpha_1),

    delta(e) = E_P1 delta_2(e - L_1)
             = delta_2(e - l_1) + e^l_2 delta_1(e - l_2) + int power_1(t) e^(e-t) alpha_2(e-t) dt,
    gamma(e) = E_Q1 gamma_2(e - L_1) = int (1 - alpha_1)(t) e^(t-e) beta_2(e-t) dt

over l_1 <= t <= e - l_2: beyond these, tests reject everything or nothing, which are the two
terms before the integral. Everything in it is positive.

Next to the lowest losses tails are powers of x = e - l, or fall like e^-(log x)^2: as functions of
log x they are smooth. So both logarithms are kept as polynomials on panels of log x, halved until
these follow them, and an integral runs over the panels of both mechanisms, by Gauss and Legendre.
"""

import numpy as np
from numpy.polynomial import chebyshev

from jaxpriv import _array as xp
from jaxpriv._stored import key_of, store
from jaxpriv.composition.chain import FEW, MOST, RARE, spread
from jaxpriv.composition.rare import RATE
from jaxpriv.composition.squaring import power
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.solve import newton_in_bracket, secant_in_bracket

_NODES, _RULE = 10, 8  # of a panel's polynomial, and of the rule on a part of it
_PANEL = np.log(2.0)  # widest one
_DEEPEST = -200.0  # of logarithms that are followed
# of a logarithm: what a panel's last coefficients may be, and where halving it does not help
_SMOOTH, _ENOUGH = 1e-9, 1e-7
_STEEP = 12.0  # how much it may change along a panel, for the rule
_HALVED = 9  # how often a panel is, at most
_RISING = 6.0  # of log of the number of steps: where parts end they are less and less smooth
_LEFT, _FARTHEST = 28.0, 1e6  # how far below the first e = 0 is log x followed; the largest x
_BEYOND = 60.0  # of log x: lines go on where the panels end
_SKIPPED = 40.0  # -log of a part's share of an integral that need not be known
_AT_ONCE = 128  # integrals
_BLURRED = 1e4  # times the rounding of e may move such a coefficient
_NEXT = 1e-9  # to one another are panels whose ends differ by less
_TRIES, _MET = 80, 1e-8  # for levels; of a logarithm: where one is not met it lies too deep
_kept = store(16)  # of 100 kB

_POINTS = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)[::-1]
_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_POINTS, _NODES - 1))
_POWERS = np.stack([np.pad(chebyshev.cheb2poly(row), (0, _NODES - 1 - k))
                    for k, row in enumerate(np.eye(_NODES))], -1)  # fmt: skip
_WHERE, _WEIGHTS = np.polynomial.legendre.leggauss(_RULE)


class Tails:
    """log delta above 0 and log gamma below, polynomials of 2 (log x - a)/(b - a) - 1 between edges
    a, b of log x, x = e - least.
    """

    def __init__(self, steps, least, edges, powers):
        self.steps, self.least = steps, least
        slopes = [powers[1:, k] @ (at ** np.arange(_NODES - 1) * np.arange(1, _NODES))
                  * 2 / (edges[1:] - edges[:-1])[k] for k, at in ((0, -1.0), (-1, 1.0))]
        values = powers[:, 0] @ (-1.0) ** np.arange(_NODES), np.sum(powers[:, -1])
        # beyond the ends lines, which nothing depends on but that there is no leap
        low, high = (np.zeros((_NODES, 1)) for _ in range(2))
        for line, value, slope, side in zip((low, high), values, slopes, (-1, 1)):
            line[1] = 0.5 * _BEYOND * slope
            line[0] = value + side * line[1, 0]
        self.first, self.last = edges[[0, -1]]
        self.edges = np.concatenate([[edges[0] - _BEYOND], edges, [edges[-1] + _BEYOND]])
        self.powers = np.concatenate([low, powers, high], 1)
        self.points = np.exp(self.edges)
        self.above = self.edges[:-1] >= np.log(-least) - 1e-9

    def panel(self, x):
        """Which one x lies on."""
        at = np.searchsorted(self.points, x, "right") - 1
        return np.clip(at, 0, self.above.size - 1)

    def logs(self, panel, x):
        """(log delta or log gamma, by how much a unit of e changes it) at x (k, ...) on panels
        (k,).
        """
        shape = (-1,) + (1,) * (x.ndim - 1)
        start, end = (self.edges[panel + k].reshape(shape) for k in (0, 1))
        at = np.clip((2 * np.log(x) - start - end) / (end - start), -1.0, 1.0)
        columns = self.powers[:, panel].reshape(_NODES, *shape)
        value, slope = columns[-1] + 0.0 * at, np.zeros_like(at)
        for column in columns[-2::-1]:  # Horner's rule, in place: this is where the time goes
            slope *= at
            slope += value
            value *= at
            value += column
        return value, np.maximum(np.abs(slope) * 2 / ((end - start) * x), 0.0)

    def tests(self, panel, x, above):
        """(power, e^e alpha) if above, else (1 - alpha, e^-e beta)."""
        value, rate = self.logs(panel, x)
        known = np.exp(value)
        one, other = known * (1 + rate), known * rate
        # from delta for e >= 0, from gamma for e <= 0, and from one for the other
        here = self.above[panel].reshape((-1,) + (1,) * (x.ndim - 1)) == above
        size = np.exp(-np.abs(x + self.least))
        rest = np.maximum(1 - size * other, 0.0), size * np.maximum(1 - one, 0.0)
        return np.where(here, one, rest[0]), np.where(here, other, rest[1])


def doubled_of(entry):
    """The `Doubled` of a composition with scalar parameters, or None where it is not for these."""
    if xp.any_jax(entry):
        return None
    return _kept.get(key_of(entry.steps, entry.flipped), lambda: _of(entry))


class Doubled:
    """A composition whose losses are those of `tails`, or of these with hypotheses exchanged; NaN
    is what lies too deep.
    """

    def __init__(self, tails, exchanged):
        self.tails, self.exchanged = tails, exchanged
        self._side = -1.0 if exchanged else 1.0  # eps grows with x, or falls

    def _at(self, log_x):
        """(eps, log delta, `Point`)"""
        tails, x = self.tails, np.exp(log_x)
        panel = tails.panel(x)
        value, rate = tails.logs(panel, x)
        e, above = x + tails.least, tails.above[panel]
        size = np.where(above, e, -e)
        # own is what is known as it is: delta above 0, or gamma below of exchanged hypotheses
        own = above != self.exchanged
        large = np.minimum(value + np.log1p(rate), -1e-300)
        small = np.minimum(value + np.log(rate) - size, -1e-300)
        point = Point(small, log1mexp(small), log1mexp(large), large)
        log_delta = np.where(own, value, log1mexp(log1mexp(value) - size))
        point = Point(*(xp.where(own, *both) for both in zip(point, point.exchanged())))
        return self._side * e, log_delta, point

    @np.errstate(all="ignore")
    def contacts(self, eps):
        """(log delta, log alpha, log power, log beta) at eps (k,), as (k, 4)."""
        tails, e = self.tails, self._side * eps
        log_x = np.log(e - tails.least)
        inside = (log_x > tails.first) & (log_x < tails.last)
        _, log_delta, point = self._at(np.where(inside, log_x, tails.last))
        found = np.stack([log_delta, point.log_alpha, point.log_power, point.log_beta], -1)
        found[~inside] = np.nan
        # below all losses the test rejects always, and never that of the exchanged hypotheses
        below = e <= tails.least
        if self.exchanged:
            found[below] = -np.inf, -np.inf, -np.inf, 0.0
        else:
            found[below] = 0.0, 0.0, 0.0, -np.inf
            found[below, 0] = log1mexp(eps[below])
        return found

    def slopes(self, alpha):
        """The eps at which alpha (k,) is the type I error."""
        small = alpha < 0.5
        log_alpha, log_rest = np.log(alpha), np.log1p(-alpha)

        def surplus(log_x):
            _, _, point = self._at(log_x)
            more = np.where(small, log_alpha - point.log_alpha, point.log_specificity - log_rest)
            return self._side * more

        return self._searched(secant_in_bracket, surplus, surplus, alpha)

    def epsilons(self, log_delta):
        """The eps at which log delta is `log_delta` (k,)."""

        def surplus(log_x):
            eps, value, point = self._at(log_x)
            rate = np.exp(eps + point.log_alpha - value)
            return self._side * (log_delta - value), rate * np.exp(log_x)

        return self._searched(newton_in_bracket, surplus, lambda x: surplus(x)[0], log_delta)

    @np.errstate(all="ignore")
    def _searched(self, search, function, surplus, values):
        """The eps at which what grows with log x crosses zero."""
        low, high = np.full((2, *values.shape), [[self.tails.first], [self.tails.last]])
        log_x = search(function, low, high, _TRIES)
        return np.where(np.abs(surplus(log_x)) <= _MET, self._at(log_x)[0], np.nan)


@np.errstate(all="ignore")
def _of(entry):
    steps = _steps_of(entry)
    if steps is None:
        return None
    # in which direction is there a lowest loss, but no highest one?
    lowest, highest = ({bool(0 < one.loss_bound(reverse) < np.inf) for one, _ in steps}
                       for reverse in (True, False))
    if (lowest, highest) not in (({True}, {False}), ({False}, {True})):
        return None
    reverse = highest == {True}
    total = None
    for experiment, count in steps:
        own = power(_single(experiment, reverse), count, _together)
        total = own if total is None or own is None else _together(total, own)
        if total is None:
            return None
    return Doubled(total, reverse != bool(entry.flipped))


def _steps_of(entry):
    """[(experiment with scalar parameters, how often)] of few steps, or of ones that seldom tell
    anything, whose losses have densities; else None, and of a single step, which is known.
    """
    steps = [(xp.row(step.experiment, member), step.count[member])
             for step in entry.steps for member in np.flatnonzero(step.count > 0)]
    total = sum(count for _, count in steps)
    rates = [float(one.participation()) for one, _ in steps]
    heavy = sum(rate * count for rate, (_, count) in zip(rates, steps))
    if not (1 < total <= FEW or 1 < total <= MOST and heavy <= RARE and max(rates) <= RATE):
        return None
    for one, count in steps:
        smooth = np.all(np.isnan(one.atoms(False))) and not (one.finite or one.isolated)
        if not smooth or count != int(count):
            return None
    return [(one, int(count)) for one, count in steps]


def _single(experiment, reverse):
    """The `Tails` of one step of a direction with a lowest loss."""
    least = -float(experiment.loss_bound(not reverse))

    def logs(x, above):
        e = x + least
        aligned = spread(experiment, e.shape)
        return aligned.log_delta(e, reverse) if above else aligned.log_delta(-e, not reverse)

    zero = np.log(-least)
    return _fitted(logs, 1, least, zero - _LEFT, np.log(_FARTHEST))


def _together(one, two):
    """The `Tails` of both, or None."""
    least = one.least + two.least

    def logs(x, above):
        parts = [x[at : at + _AT_ONCE] for at in range(0, len(x), _AT_ONCE)]
        return np.concatenate([_integrals(one, two, part, above) for part in parts])

    first, last = min(one.first, two.first), max(one.last, two.last) + _PANEL
    return _fitted(logs, one.steps + two.steps, least, first, last)


def _integrals(one, two, x, above):
    """log delta, or log gamma, of both at x (k,) above the lowest loss."""
    whole = x[:, None]
    edges = np.concatenate([one.points + 0.0 * whole, whole - two.points, whole], 1)
    edges = np.sort(np.clip(edges, 0.0, whole), 1)
    start, width = edges[:, :-1], np.diff(edges, axis=1)
    row, part = np.nonzero(width > 1e-16 * whole)
    start, width = start[row, part], width[row, part]
    panels = one.panel(start + 0.5 * width), two.panel(x[row] - start - 0.5 * width)

    def parts(at, rows, where):
        here = start[at, None] + width[at, None] * where
        rest = np.maximum(x[rows, None] - here, 1e-300)
        first = one.tests(panels[0][at], here, above)[0]
        return first * two.tests(panels[1][at], rest, above)[1] * width[at, None]

    # what most of the parts add is nothing
    rough = np.log(parts(slice(None), row, 0.5)[:, 0])
    most = np.full(x.shape, -np.inf)
    np.maximum.at(most, row, rough)
    some = np.flatnonzero(rough > most[row] - _SKIPPED)
    sums = parts(some, row[some], 0.5 + 0.5 * _WHERE) @ (0.5 * _WEIGHTS)
    total = np.bincount(row[some], sums, x.size)
    if above:  # of tests that reject everything, or nothing
        for tails, before in ((two, 0.0), (one, two.least)):
            total = total + np.exp(before + tails.logs(tails.panel(x), x)[0])
    return np.log(total)


def _fitted(logs, steps, least, first, last):
    """The `Tails` of logs(x, above?) between two log x, or None where no panels follow them."""
    zero, floor = np.log(-least), _DEEPEST + _RISING * np.log(steps)
    low = _panels(logs, least, first, zero, False, floor)
    high = _panels(logs, least, zero, last, True, floor)
    if low is None or high is None:
        return None
    (starts, below), (more, above) = low, high
    edges = np.concatenate([starts, [zero], more])
    return Tails(steps, least, edges, np.concatenate([below, above], 1))


def _panels(logs, least, first, last, above, floor):
    """(the outer ends, the polynomials) of panels in rising order, as far as they can be followed
    from where e is 0; None where some follow nothing.
    """
    edges = np.linspace(first, last, max(int(np.ceil((last - first) / _PANEL)), 1) + 1)
    asked, known = np.stack([edges[:-1], edges[1:]]), []
    for halved in range(_HALVED + 1):
        middle, half = asked.mean(0), 0.5 * (asked[1] - asked[0])
        log_x = middle[:, None] + half[:, None] * _POINTS
        values = logs(np.exp(log_x).ravel(), above).reshape(log_x.shape)
        values = np.where(np.isfinite(values), values, -np.inf)
        lowest, highest = values.min(1), values.max(1)
        there, ending = lowest > floor, (lowest <= floor) & (highest > floor)
        found = np.where(there[:, None], values, 0.0) @ _COEFFICIENTS.T
        # e = x + least is rounded
        blur = np.finfo(np.float64).eps * -least * np.exp(-middle) * np.abs(found[:, 1]) / half
        last_ones = np.abs(found[:, -2:]).max(1)
        rough = last_ones > np.maximum(_SMOOTH if halved < _HALVED else _ENOUGH, _BLURRED * blur)
        rough |= highest - lowest > _STEEP
        good = there & ~rough
        rough = there & rough | ending & (halved < _HALVED)
        known.append((asked[:, good], _POWERS @ found[good].T))
        start, end, middle = *asked[:, rough], middle[rough]
        asked = np.stack([np.append(start, middle), np.append(middle, end)])
        if not rough.any():
            break
    else:
        return None
    ends, polynomials = (np.concatenate(parts, 1) for parts in zip(*known))
    order = np.argsort(ends[0])
    ends, polynomials = ends[:, order], polynomials[:, order]
    # from the middle on up to the first that is missing
    starts, others = (ends[0], ends[1]) if above else (ends[1, ::-1], ends[0, ::-1])
    before = np.append(last if not above else first, others)[: starts.size]
    count = int(np.argmin(np.append(np.abs(starts - before) < _NEXT, False)))
    if not count:
        return None
    if above:
        return others[:count], polynomials[:, :count]
    return others[:count][::-1], polynomials[:, -count:]
