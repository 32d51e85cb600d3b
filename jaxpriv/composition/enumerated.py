"""Compositions of which all outcomes can be counted, by NumPy: reports, told ones, discrete noise.

Where losses are the same, as on the lattice of one mechanism's, outcomes are one (they are told
apart by nothing), so that a hundred steps may have a few hundred. What is left is one polygon, and
no lattice has to be laid beside its corners. Upper and lower bounds of its profile come from masses
and losses that are rounded to one side (`uneven`).
"""

from typing import NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._stored import key_of, store
from jaxpriv.composition.beside_one import BesideOne
from jaxpriv.composition.chain import bound_of_mean
from jaxpriv.composition.squaring import power
from jaxpriv.composition.uneven import LEAST, ULP, Law, gathered, some_of
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.discrete import Discrete
from jaxpriv.tradeoff.pair import Pair
from jaxpriv.tradeoff.subsampled import Reversed, Subsampled

_MOST, _PAIRS = 4096, 1 << 21  # outcomes, and pairs of them that are gathered
_BESIDE = 512  # outcomes beside a step that has others
_STEPS = 1 << 17
_kept = store(32)  # of 0.3 MB


def enumerated_of(entry):
    """The `Enumerated` of a composition with scalar parameters, its `BesideOne` where one step has
    other losses, or None.
    """
    if xp.any_jax(entry):
        return None
    return _kept.get(key_of(entry.steps, entry.flipped), lambda: _of(entry))


class Counted(NamedTuple):
    """`Law`s of a loss: rounded up, rounded down, and to rounding."""

    upper: Law
    lower: Law
    middle: Law


_SIGNS = 1, -1, 0


class Enumerated:
    """What is `Counted` of all steps, and its polygon, which ends at loss -inf with what is left of
    the null.
    """

    def __init__(self, counted):
        self.counted = counted
        loss, mass, endless = counted.middle
        with np.errstate(divide="ignore"):
            alternative = xp.log(xp.concatenate([[0.0], mass, [endless]]))
        loss = xp.concatenate([[-np.inf], loss, [np.inf]])
        null = xp.where(xp.isfinite(loss), alternative - loss, -xp.inf)
        self.polygon = Discrete(null, alternative, loss, xp.full_like(loss[0], xp.nan))
        self._vertices = np.stack(self.polygon.vertices())

    def brackets(self, eps):
        """(lower, upper) of log delta at eps (any shape), and -d log delta/d eps."""
        lower, _ = _bound(self.counted.lower, eps, -1)
        return lower, *_bound(self.counted.upper, eps, 1)

    def contacts(self, eps):
        """(log delta, log alpha, log power, log beta) at eps (k,), as (k, 4)."""
        log_delta = self._in_parts(Discrete.log_delta, eps)
        loss = self.polygon.loss
        above = loss.size - np.searchsorted(loss, eps, "right")
        log_alpha, _, log_beta, log_power = self._vertices[:, above]
        return np.stack([log_delta, log_alpha, log_power, log_beta], -1)

    def slopes(self, alpha):
        """The loss of the outcome within which the highest ones add up to alpha (k,)."""
        above = np.searchsorted(np.exp(self._vertices[0, 1:-1]), alpha, "left")
        return self.polygon.loss[::-1][above]

    def epsilons(self, log_delta):
        """The eps at which log delta is `log_delta` (k,)."""
        return self._in_parts(Discrete.solve_epsilon, log_delta)

    def _in_parts(self, method, values):
        """method(polygon, value) for so many at once as there is room for."""
        rows = max(_PAIRS // self.polygon.loss.size, 1)
        parts = [values[at : at + rows] for at in range(0, len(values), rows)]
        found = [method(self.polygon.aligned(part.shape, np.float64), part, False)
                 for part in parts]  # fmt: skip
        return np.concatenate([values[:0], *found])


@np.errstate(all="ignore")
def _bound(law, eps, sign):
    """A bound of log delta, and -d log delta/d eps: the mean of 1 - e^(eps - loss) where it is
    positive.
    """
    doubt = 4 * ULP * (np.abs(eps)[..., None] + np.abs(law.loss))
    ahead = law.loss - eps[..., None] + sign * doubt
    above = ahead > 0
    left = np.where(above, log1mexp(-np.where(above, ahead, 1.0)), -np.inf)
    rate = np.where(above, 1 / np.expm1(np.where(above, ahead, 1.0)), 0.0)
    found, rate = bound_of_mean(law, left, rate, sign)
    return found, np.where(np.isnan(rate), np.inf, rate)


@np.errstate(all="ignore")
def _of(entry):
    reverse, total, other = bool(entry.flipped), None, None
    for step in entry.steps:
        for member in np.flatnonzero(step.count > 0):
            experiment, count = xp.row(step.experiment, member), step.count[member]
            known = experiment.listed(reverse) if count == int(count) <= _STEPS else None
            if known is None and count == 1 and other is None and _closed(experiment):
                other = experiment
                continue
            if known is None or known[0].loss.size > _MOST:
                return None
            outcomes, doubt = known
            own = power(_one(outcomes, doubt, experiment.finite), int(count), _together)
            total = own if total is None or own is None else _together(total, own)
            if total is None:
                return None
    if total is None or (other is not None and total.middle.loss.size > _BESIDE):
        return None
    return Enumerated(total) if other is None else BesideOne(total, other, reverse)


def _closed(experiment):
    """Are its tests and its profile those of laws in closed form?"""
    while isinstance(experiment, Reversed | Subsampled):
        experiment = experiment.base
    return isinstance(experiment, Pair)


def _one(known, doubt, all_of_them):
    """What is `Counted` of a step; its masses' logarithms are rounded like the terms they sum."""
    log_mass, finite = known.alternative, np.isfinite(known.loss)
    mass = np.exp(log_mass)
    error = ULP * (64 + 8 * np.where(mass > 0, np.abs(log_mass), 0.0))

    def rounded(sign):
        own = mass * (1 + sign * error)
        endless = float(np.sum(own[known.loss == np.inf]))
        own, loss = own[finite], known.loss[finite] + sign * doubt[finite]
        if sign > 0 and not all_of_them:
            own[0], endless = own[0] + LEAST, endless + LEAST
        return some_of(loss, own, endless)

    return Counted(*map(rounded, _SIGNS))


def _together(one, other):
    """Of both, seen together."""
    if one.upper.loss.size * other.upper.loss.size > _PAIRS:
        return None
    found = Counted(*map(gathered, one, other, _SIGNS))
    return found if found.upper.loss.size <= _MOST else None
