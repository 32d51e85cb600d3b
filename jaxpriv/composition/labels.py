"""A lower bound of a composed profile for laws of isolated outcomes, by NumPy.

To move an outcome down to a lattice's point is an error of first order, unless neighbours can be
merged with it (`jaxpriv.composition.lattice`), of which isolated outcomes have none. Here every
outcome has the number of its cell as a label, and of all steps together whatever has the same sum
of labels is merged: one test less can be told apart (data processing), but the loss within such a
class varies by a spacing times the square root of the steps only, which is of second order. What is
merged has the masses P and Q, so both are composed, each by its own transform:

    delta(eps) >= sum over sums of labels of (P - e^eps Q)_+.

With c the tilt and L the loss that a sum of labels stands for, P e^(cL - K) and Q e^((1+c)L - K)
are of one size. For c < 0 one less delta is summed: min(P, e^eps Q), and all that was left out.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from jaxpriv.composition import grid, lattice, spectrum
from jaxpriv.composition.line import Term
from jaxpriv.composition.spectrum import Spectrum
from jaxpriv.composition.summed import BLOCK, running_sums
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import ROUNDING

_ULP = 2.0**-52
_BACK = 16.0  # standard deviations, of a spacing, from eps within which labels are in no order


class _Sums(NamedTuple):
    """Over all steps: both transforms; K, the loss of label 0, how large losses are; K at two
    further tilts; the error of K, and the mass that has no label.
    """

    spectrum: Spectrum
    value: float
    origin: float
    far: float
    shifted: np.ndarray
    doubt: float
    missing: float


def _labelled(own, experiment, count, table, reverse):
    """(the first label, labels' losses, log P at most as large, Q's share of it e^label) of a step,
    and the mass without a label.
    """
    c, spacing = own.c, own.spacing
    _, mean, _ = table.cumulants(c)
    origin = np.round(mean / spacing) * spacing
    low = grid.extent(table, c, np.ones(()), 0.0)[0]
    first = np.floor((low - origin) / spacing) - 1
    size = grid.points_of(own, table, count, origin + first * spacing)
    points = origin + (first - 0.5 + np.arange(size + 1)) * spacing
    label = origin + (first + np.arange(size)) * spacing
    found = lattice.cells(experiment, points, reverse)
    lowest = points[:-1] + np.maximum(found.rise - found.doubt, 0.0)
    log_p = found.log_mass + np.log1p(-np.minimum(found.error, 1 - 1e-16))
    lost = np.exp(found.log_mass) * (2 * found.error + 1e-15) + np.exp(found.unseen)
    lowest = lowest - 4 * _ULP * (np.abs(lowest) + np.abs(points[-1]))
    return origin, first, label, log_p, label - lowest, np.sum(lost) + found.below + found.above


def _added(own, sums, reverse, experiment, count, table):
    """The sums with `count` steps of one mechanism."""
    origin, first, label, log_p, ahead, lost = _labelled(own, experiment, count, table, reverse)
    exponent = log_p + own.c * label
    value = np.logaddexp.reduce(exponent)
    masses = np.exp(exponent - value) * np.stack([np.ones_like(ahead), np.exp(ahead)])
    sizes = np.where(masses[0] > 0, np.abs(log_p), 0.0) + np.abs(own.c * label)
    entry = _ULP * (8 + np.sum(masses[1] * sizes) + abs(value))
    added = spectrum.of_step(masses, first, own.size, sums.spectrum, entry)
    shifted = np.array([np.logaddexp.reduce(log_p + (own.c + s) * label) for s in own.shifts])
    steps = _Sums(added, value, origin, max(abs(origin), abs(label[0]), abs(label[-1])), shifted,
                  entry + 4 * _ULP * (1 + abs(value)), lost)
    sums = jax.tree.map(lambda total, one: total + count * one, sums, steps)
    return sums._replace(spectrum=spectrum.audible(sums.spectrum))


def lower(steps, tables, reverse, eps, size):
    """A lower bound of log delta(eps) of `Step`s with scalar parameters, in one direction."""
    return around(steps, tables, reverse, eps, size)(np.reshape(eps, 1))[0]


@np.errstate(all="ignore")
def around(steps, tables, reverse, middle, size):
    """A function of eps (k,), all near the middle: those lower bounds, from labels laid once."""
    terms = tuple(Term(table, step.count) for table, step in zip(tables, steps))
    spans = [np.zeros(1)]
    own = grid.locate(terms, spans, middle, size)
    if not own.spacing > 0:  # no loss is finite
        return lambda ends: np.full(len(ends), -np.inf)
    nothing = spectrum.flat(2, size, np.float64)
    sums = _Sums(nothing, 0.0, 0.0, 0.0, np.zeros(2), 0.0, 0.0)
    for step, table in zip(steps, tables):
        for member in np.flatnonzero(step.count > 0):
            parts = jax.tree.map(lambda leaf, at=member: leaf[at],
                                 (step.experiment, step.count, table))  # fmt: skip
            sums = _added(own, sums, reverse, *parts)
    bounded = _bounds(own, sums, middle, sum(float(np.sum(step.count)) for step in steps))

    @np.errstate(all="ignore")
    def lower_at(ends):
        found = bounded(ends)
        return np.where(np.isfinite(found), found, -np.inf)

    return lower_at


def _bounds(own, sums, middle, count):
    """eps (k,) near the middle, around which the lattice lies, -> lower bounds of log delta.

    With x the labels' losses less the middle and t = eps - middle, for c >= 0 the sum over any
    labels of P' - e^t Q' bounds delta, P' = nu_P e^-cx, Q' = nu_Q e^-(1+c)x, and for c < 0 that of
    one of both for each label bounds one less delta: far from t on either side they are running
    sums, and the better choice is made next to it, where labels are not in order.
    """
    size, c, spacing, under, over, shifts, _ = own
    nu, noise = spectrum.back(sums.spectrum, size)
    start = np.ceil((middle - under - sums.origin) / spacing)
    nu = np.maximum(np.roll(nu, -int(np.mod(start, size)), 1), 0.0)
    x = sums.origin - middle + (start + np.arange(size)) * spacing
    weight = np.exp(-np.stack([c * x, (1 + c) * x]))
    # P', Q', and by how much more or less of them noise may make
    terms = np.concatenate([nu * weight, noise[:, None] * weight])
    above = running_sums(terms[:, ::-1])
    below = running_sums(terms) if c < 0 else above
    near = _BACK * spacing * math.sqrt(count)
    rounding = _ULP * (2 * BLOCK + size // BLOCK + 64)

    def beyond(end, distance):
        """Chernoff's bounds of the tilted mass beyond middle + distance."""
        bound = sums.shifted[end] - sums.value - shifts[end] * (middle + distance)
        return np.where(np.isnan(bound), 1.0, np.exp(np.minimum(bound, 0.0)))

    def bounded(eps):
        t = eps - middle
        first, last = (np.searchsorted(x, t + side * near, "right") for side in (-1, 1))
        lift = np.exp(t)
        scale = sums.value - c * middle
        size_of = sums.far + np.abs(start * spacing) + np.abs(eps) + np.abs(middle)
        blur = 8 * _ULP * size_of * (1 + np.abs(c))
        doubt = sums.doubt + _ULP * (64 + 2 * np.abs(sums.value - c * eps) + 4 * np.abs(c * t))
        p, q, p_noise, q_noise = above[:, size - last]
        if c < 0:  # no weight is above 1: outside the window the mass is all
            p, _, p_noise, _ = below[:, first]
            rest = p + lift * q
            wrong = p_noise + lift * q_noise + rounding * rest
            for k, (start_at, stop_at) in enumerate(zip(first, last)):
                own_p, own_q, *off = terms[:, start_at:stop_at]
                rest[k] += np.sum(np.minimum(own_p, lift[k] * own_q))
                wrong[k] += np.sum(np.maximum(off[0], lift[k] * off[1]))
            out = (beyond(0, over) + beyond(1, -under)) * np.exp(-c * t)
            rest = rest * (1 + blur) + wrong + out
            most = np.logaddexp(np.log(rest) + scale + doubt, np.log(sums.missing))
            return np.where(most < 0, _down(log1mexp(np.minimum(most, -1e-300))), -np.inf)
        gain = p - lift * q
        wrong = p_noise + lift * q_noise + (blur + rounding) * (p + lift * q)
        for k, (start_at, stop_at) in enumerate(zip(first, last)):
            own_p, own_q, *off = terms[:, start_at:stop_at]
            each = own_p - lift[k] * own_q
            error = off[0] + lift[k] * off[1] + blur[k] * (own_p + lift[k] * own_q)
            gain[k] += np.sum(np.maximum(each - error, 0.0))
        # any part of the window will do
        out = beyond(0, spacing * size - near + t) + beyond(1, -under)
        total = gain - wrong - out * np.exp(c * (near - t))
        some = total > 0
        return np.where(some, _down(np.log(np.where(some, total, 1.0)) + scale - doubt), -np.inf)

    return bounded


def _down(value):
    return value - ROUNDING * _ULP * (1 + abs(value))
