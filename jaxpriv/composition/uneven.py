"""Composition at unevenly spaced losses: few steps that hardly ever tell much, by NumPy.

A step at a small rate loses about -rate, and a million times as much once in a while. No even
spacing shows both, and no transform of it decays. Here a law has its points where it matters, and
two laws are composed outcome by outcome: every number is a sum of products of probabilities, so
that a delta of 1e-200 has as many digits as one of 1/2. With D(x) = delta(log x) of one law and
masses P_i (with the record) at losses l_i of the other, D_both(x) = sum P_i D(x e^-l_i) grows with
D and with each P_i, hence composing keeps bounds of profiles (`jaxpriv.composition.lattice`):

    upper  an outcome between two points becomes both of them, P and Q = P e^-l both kept; one above
           all points has an infinite loss from then on, one below all is moved up to the first
    lower  all outcomes between two points are merged (data processing); what lies below is dropped

Of the last step nothing is moved: delta(eps) = sum P_i delta_last(eps - l_i), by its closed form.
Chords miss D by what bends within a cell, x^2 D'' h^2, which is the density of the rest's loss at
eps - l; so cells are narrow where both densities are high: width^-3 ~ p(l) p_rest(eps - l).
"""

from typing import NamedTuple

import jax
import numpy as np

from jaxpriv.composition import lattice
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.outcomes import Outcomes

ULP = float(np.finfo(np.float64).eps)
LEAST = 1e-300  # probabilities below are not followed; what products underflow to adds up to less
_TABLE = 1024  # points at which a single step's tails are known
# where points lie on both sides of an outcome: so much of its loss, or of the advantage, away
_NEXT, _NEXT_TO_0 = 1e-9, 1e-6
_ALL = 1 + 1e-9  # no law has more
_SKETCH = 200  # outcomes that stand for a law where points are chosen


class Law(NamedTuple):
    """Probabilities with the record at ascending finite losses, and of an infinite loss."""

    loss: np.ndarray
    mass: np.ndarray
    endless: float


class Sides(NamedTuple):
    """An upper and a lower law of the same loss; plain: has it few outcomes, none of them moved?"""

    upper: Law
    lower: Law
    plain: bool


class Aim(NamedTuple):
    """What a law is composed for: the rest's law, coarsely, and the eps that both make up.

    loss, log_density of the rest; unit, at: its spread, and eps less its middle.
    """

    eps: float
    loss: np.ndarray
    log_density: np.ndarray
    unit: float
    at: float


def aimed(law, eps):
    """The `Aim` at eps if the rest's law is like this one."""
    density = law.mass / np.gradient(law.loss)
    share = np.cumsum(law.mass)
    low, middle, high = np.interp([0.1, 0.5, 0.9], share / share[-1], law.loss)
    log_density = np.log(np.maximum(density, LEAST))
    return Aim(eps, law.loss, log_density, 0.5 * (high - low) + LEAST, eps - middle)


def _points(loss, up, down, aim, size, floor):
    """About `size` losses where a law matters, of which both tails are known at ascending losses.

    A fifth by the law's own quantiles, three by the cube root of both densities, a fifth
    geometrically around where the rest has nothing to add. Beyond `floor` no loss is followed.
    """
    seen = np.flatnonzero((up > floor) & (down > floor))
    if not seen.size:
        return loss[:: max(len(loss) // size, 1)]
    some = slice(max(seen[0] - 1, 0), seen[-1] + 2)
    loss, up, down = loss[some], up[some], down[some]
    depth = np.sqrt(np.maximum(-2 * np.log(np.maximum(2 * np.minimum(up, down), LEAST)), 0.0))
    quantile = np.maximum.accumulate(np.where(up < down, depth, -depth))
    count = _shares(np.minimum(np.diff(quantile), 1.0))
    if aim is not None:
        width = np.diff(loss)
        mass = np.where(up[:-1] < 0.5, up[:-1] - up[1:], down[1:] - down[:-1])
        middle = loss[1:] - 0.5 * width
        rest = np.interp(aim.eps - middle, aim.loss, aim.log_density, left=-700, right=-700)
        both = np.cbrt(np.maximum(mass, 0.0) / width * np.exp(rest)) * width
        around = np.diff(np.arcsinh((loss - aim.at) / aim.unit))
        count = 0.2 * count + 0.6 * _shares(both) + 0.2 * _shares(around)
    total = np.concatenate([[0.0], np.cumsum(count)])
    return np.unique(np.interp(np.linspace(0.0, total[-1], size), total, loss))


def _shares(sizes):
    total = np.sum(sizes)
    return sizes / total if total > 0 else np.full(sizes.shape, 1.0 / max(sizes.size, 1))


def _graded(aim):
    """Losses around the one to which the rest has nothing to add, finer and finer."""
    return np.zeros(0) if aim is None else aim.at + aim.unit * np.sinh(np.linspace(-40, 40, 161))


class Tails(NamedTuple):
    """The tests of a single step that reject above ascending losses."""

    loss: np.ndarray
    tests: Point


def tails(experiment, reverse):
    """The `Tails` of a step (scalar parameters) at points that are chosen by its own quantiles."""
    sizes = 2.0 ** np.linspace(-60.0, 12.0, 200)
    points = np.concatenate([-sizes[::-1], [0.0], sizes])
    points = _chosen(Tails(points, lattice.touch(experiment, points, reverse)), None, _TABLE, LEAST)
    points = _beside_atoms(points, experiment, reverse)
    return Tails(points, lattice.touch(experiment, points, reverse))


def _beside_atoms(points, experiment, reverse):
    """Losses, and others next to the lowest and the highest that have a probability of their own,
    in the place of those that are nearer to them: rounding tells on which side such tests are.
    """
    low, high = experiment.atoms(False)
    atoms = np.asarray([-high, -low] if reverse else [low, high])
    atoms = atoms[np.isfinite(atoms)]
    if not atoms.size:
        return points
    advantage = np.exp(experiment.aligned((), np.float64).log_delta(np.zeros(()), False))
    aside = np.maximum(_NEXT * np.abs(atoms), _NEXT_TO_0 * advantage)
    away = np.all(np.abs(points[:, None] - atoms) > aside, -1)
    return np.unique(np.concatenate([points[away], atoms - aside, atoms + aside]))


def one_step(experiment, reverse, known, aim, size, floor):
    """The `Sides` of a single step (scalar parameters) from its `Tails`, None of finitely many
    outcomes.
    """
    if known is None:
        return _outcomes(experiment.reversed() if reverse else experiment)
    if aim is not None:
        known = _joined(known, experiment, reverse, _graded(aim))
    points = _chosen(known, aim, size, floor)
    points = _beside_atoms(points, experiment, reverse)
    found = lattice.cells(experiment, points, reverse)
    width = np.diff(points)
    # exponents up to 700 are rounded
    upper = np.exp(lattice.upwards(found, width)) * (1 + 2000 * ULP)
    upper[0] += found.below * (1 + 2000 * ULP)
    mass = np.exp(found.log_mass) * np.maximum(1 - found.error - 2000 * ULP, 0.0)
    loss = points[:-1] + np.maximum(found.rise - found.doubt, 0.0)
    loss = np.append(loss - 4 * ULP * np.abs(loss), points[-1])
    mass = np.append(mass, found.above * (1 - 2000 * ULP))
    beyond = found.above * (1 + 2000 * ULP) + LEAST
    if not np.sum(mass) <= _ALL:
        mass = np.zeros(mass.shape)  # tests that do not agree say nothing
    return Sides(Law(points, upper, beyond), some_of(loss, mass, 0.0), False)


def _joined(known, experiment, reverse, more):
    """The `Tails` at more losses, as far as they are followed."""
    more = more[(more > known.loss[0]) & (more < known.loss[-1])]
    if not more.size:
        return known
    loss, first = np.unique(np.concatenate([known.loss, more]), return_index=True)
    tests = jax.tree.map(
        lambda *pair: np.concatenate(pair)[first],
        known.tests,
        lattice.touch(experiment, more, reverse),
    )
    return Tails(loss, tests)


def _chosen(known, aim, size, floor):
    up, down = np.exp(known.tests.log_power), np.exp(known.tests.log_beta)
    return _points(known.loss, up, down, aim, size, floor)


def some_of(loss, mass, endless):
    """The law of those outcomes that happen."""
    happens = mass > 0
    return Law(loss[happens], mass[happens], endless)


def spelled(experiment):
    """The `Discrete` that an experiment with finitely many outcomes (scalar parameters) is."""
    own = experiment.spelled if isinstance(experiment, Outcomes) else experiment.aligned
    return own((), np.float64)


def _outcomes(experiment):
    """The law of a step with finitely many outcomes, whose losses are known to 8 ulp."""
    known = spelled(experiment)
    mass = np.exp(known.alternative)
    finite = np.isfinite(known.loss)

    def rounded(sign):
        own, loss = mass * (1 + sign * 2000 * ULP), known.loss[finite]
        endless = float(np.sum(own[known.loss == np.inf]))
        return some_of(loss + sign * 8 * ULP * np.abs(loss), own[finite], endless)

    return Sides(rounded(1), rounded(-1), True)


def together(one, other, aim, size, floor):
    """The `Sides` of two mechanisms seen together, at about `size` losses."""
    if one.plain and other.plain:
        sides = (gathered(one.upper, other.upper, 1), gathered(one.lower, other.lower, -1))
        found = Sides(*sides, plain=True)
        if found.upper.loss.size <= size:
            return found
    if not one.upper.loss.size or not other.upper.loss.size:  # all is told
        return Sides(
            gathered(one.upper, other.upper, 1), gathered(one.lower, other.lower, -1), True
        )
    points = _points_of_both(one.upper, other.upper, aim, size, floor)
    return Sides(_moved_up(one.upper, other.upper, points),
                 _merged(one.lower, other.lower, points), False)


def _pairs(one, other, sign):
    """(losses, masses) of all pairs of outcomes, the losses rounded to one side; of a law and
    itself each pair once, for both orders.
    """
    if one is other:
        first, second = np.triu_indices(one.loss.size)
        doubled = np.where(first == second, one.mass[first], 2 * one.mass[first])
        mass = doubled * one.mass[second]
        loss, size = one.loss[first] + one.loss[second], np.abs(one.loss)
        return loss + sign * 4 * ULP * (size[first] + size[second]), mass
    doubt = 4 * ULP * (np.abs(one.loss)[:, None] + np.abs(other.loss))
    loss = one.loss[:, None] + other.loss + sign * doubt
    return loss.ravel(), (one.mass[:, None] * other.mass).ravel()


def _rounded(sums, sign):
    """Sums of so many positive products, rounded to one side: each addition is off by an ulp."""
    return 1 + sign * (sums + 64) * ULP


def gathered(one, other, sign):
    """All pairs of outcomes, of which those whose losses rounding does not tell apart are one."""
    loss, mass = _pairs(one, other, sign)
    order = np.argsort(loss)
    loss, mass = loss[order], mass[order]
    scale = np.max(np.abs(one.loss), initial=0.0) + np.max(np.abs(other.loss), initial=0.0)
    starts = np.flatnonzero(np.diff(loss, prepend=-np.inf) > 1e-12 * scale)
    if not starts.size:
        return Law(loss, mass, _endless(one, other, sign))
    ends = np.append(starts[1:], loss.size) - 1
    together = np.add.reduceat(mass, starts) * _rounded(loss.size, sign)
    return some_of(loss[ends] if sign > 0 else loss[starts], together, _endless(one, other, sign))


def _endless(one, other, sign):
    either = one.endless + other.endless - one.endless * other.endless
    return max(either, 0.0) * _rounded(0, sign)


def _moved_up(one, other, points):
    loss, mass = _pairs(one, other, 1)
    cell = np.searchsorted(points, loss, "left") - 1  # points[cell] < loss <= points[cell + 1]
    above, last = cell > len(points) - 2, len(points) - 2
    rest = float(np.sum(mass[above]))
    below = cell < 0
    cell = np.clip(cell, 0, last)
    rise = np.where(below, 0.0, loss - points[cell])
    share = np.expm1(-rise) / np.expm1(-np.diff(points))[cell] * (1 + 64 * ULP)
    mass[above] = 0.0
    high = mass * np.minimum(share, 1.0)
    low = mass - high
    total = np.bincount(cell, low, last + 2) + np.bincount(cell + 1, high, last + 2)
    grown = _rounded(mass.size, 1)
    return Law(points, total * grown, (_endless(one, other, 1) + rest) * grown + LEAST)


def _merged(one, other, points):
    """e^-loss of what is merged is the mean of e^-loss, of which the sum of m (1 - e^-rise) over a
    cell is known to rounding of itself.
    """
    loss, mass = _pairs(one, other, -1)
    cell = np.searchsorted(points, loss, "right") - 1  # points[cell] <= loss
    inside = cell >= 0
    loss, mass, cell = loss[inside], mass[inside], cell[inside]
    total = np.bincount(cell, mass, len(points))
    falls = np.bincount(cell, mass * -np.expm1(points[cell] - loss), len(points))
    some = total > 0
    points, total, falls = points[some], total[some], falls[some]
    mean = np.minimum(falls / total, 1.0) * _rounded(2 * mass.size, -1)
    rise = -np.log1p(-mean)
    merged = points + rise - 8 * ULP * (np.abs(points) + rise)
    return some_of(merged, total * _rounded(mass.size, -1), _endless(one, other, -1))


def _points_of_both(one, other, aim, size, floor):
    """Where to put the points of two laws seen together, from what one of them in outline and the
    other smoothed make of the tails.
    """
    first, second = _outline(one), _outline(other)
    low, high = one.loss[0] + other.loss[0], one.loss[-1] + other.loss[-1]
    high += 16 * ULP * (np.abs(one.loss[-1]) + np.abs(other.loss[-1]))  # with its rounding
    means = [law.mass @ law.loss / np.sum(law.mass) for law in (one, other)]
    likely = first.loss + means[1], second.loss + means[0]
    looks = np.concatenate([*likely, _graded(aim), [low, high]])
    looks = np.unique(looks[(looks >= low) & (looks <= high)])
    at = looks - first.loss[:, None]
    up, down = (np.sum(first.mass[:, None] * _tail(other, at, above), 0) for above in (True, False))
    return np.union1d(_points(looks, up, down, aim, size, floor), [low, high])


def _outline(law):
    """About `_SKETCH` outcomes in the place of neighbours."""
    if law.loss.size <= _SKETCH:
        return law
    group = np.arange(law.loss.size) * _SKETCH // law.loss.size
    mass, mean = np.bincount(group, law.mass), np.bincount(group, law.mass * law.loss)
    some = mass > 0
    return Law(mean[some] / mass[some], mass[some], law.endless)


def _tail(law, at, above):
    """The probability of losses above (below) these, continuously in between."""
    mass = law.mass[::-1] if above else law.mass
    tail = np.cumsum(mass) - 0.5 * mass
    log = np.log(np.maximum(tail[::-1] if above else tail, LEAST))
    ends = (0.0, -np.inf) if above else (-np.inf, 0.0)
    return np.exp(np.interp(at, law.loss, log, *ends))
