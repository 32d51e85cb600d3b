"""One step's privacy loss moved onto a lattice: upwards for an upper bound of its profile,
downwards for a lower one.

With D(x) = delta(log x) = sum over outcomes of (P - x Q)_+, P the mass with the record and Q
without, a step is all that composition needs to know of a mechanism: D_{A and B}(x) = sum_l P_B(l)
D_A(x e^-l) grows with D_A, for any positive P_B, and so does the composition of many with each of
them. The lattice is l_j = l_0 + j h; of the outcomes with loss in (l_j, l_j+1] the errors of two
tests tell the masses P_j and Q_j, and so the loss l_j + r_j, r_j = log P_j/Q_j - l_j, of the
outcome that they are when merged.

Upwards ("connect the dots", Doroshenko et al. 2022): D at the points is kept and joined by chords.
An outcome becomes one of the two neighbours, P and Q both kept, which puts the share
s_j = (1 - e^-r_j)/(1 - e^-h) of P_j above.

Downwards: outcomes that are merged only lose (data processing). Merge the part v_j of one cell and
the part u_j+1 of the next such that the result has loss l_j+1 exactly. With deficit A_j = P_j
(e^(h - r_j) - 1) under l_j+1 and excess B_j = P_j (1 - e^-r_j) over l_j that asks for v_j
A_j = u_j+1 B_j+1 =: w_j+1. Of evenly filled cells each gives half to either side; in general the w
make all v_j + u_j as nearly 1 as they can, and what remains of a cell falls to l_j. Both bounds
differ from the truth by second order in h.

Between both, as an estimate: chords, less the variance V_j that they add. A cell that is evenly
filled has a third of the variance s (1-s) h^2 of its two ends, one that is an atom at an end none
of none: V_j = (2/3) s_j (1 - s_j) h^2. In terms of the shift E by h, (E-1)(E-e^-h) keeps P and Q
and adds the variance 2 h^2; the four points around a cell, (E-1)(E-e^-h)(1+E)/(2E) = (E^2 - e^-h
E - 1 + e^-h/E)/2, take it back.
"""

from typing import NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.pair import safe_log

_ULPS = 64  # the rounding model of curves in closed form, relative to the log of a tail


class Cells(NamedTuple):
    """Outcomes with loss in (l_j, l_j+1]: log P_j, r_j in [0, h].

    error, unseen: relative rounding error of P_j, log of what may lie where none was found;
    doubt: rounding error of r_j. below, above: P of what lies under the first and
    over the last point.
    """

    log_mass: jax.Array
    rise: jax.Array
    error: jax.Array
    unseen: jax.Array
    doubt: jax.Array
    below: jax.Array
    above: jax.Array


def cells(experiment, points, reverse):
    """The `Cells` between successive points, for one direction (data, not a choice of programs)
    and scalar parameters.
    """
    return between_points(points, touch(experiment, points, reverse), experiment.isolated)


def between_points(points, test, isolated):
    """The `Cells` from the tests at the points;
    of isolated outcomes none lie between equal tails.
    """
    log_p, error_p, unseen_p = _difference(test.log_power, test.log_beta, isolated)
    log_q, error_q, unseen_q = _difference(test.log_alpha, test.log_specificity, isolated)
    width = points[1:] - points[:-1]
    some = xp.isfinite(log_p) & xp.isfinite(log_q)
    rise = xp.where(
        some, xp.where(some, log_p, 0.0) - xp.where(some, log_q, 0.0) - points[:-1], 0.0
    )
    # without mass under the null the loss is infinite:
    # what can be said of a cell's loss is then its upper end
    rise = xp.where(some, rise, xp.where(xp.isfinite(log_p), width, 0.0))
    doubt = xp.where(unseen_q > -xp.inf, xp.inf, error_p + error_q)
    return Cells(log_p, xp.clip(rise, 0.0, width), error_p, unseen_p, doubt,
                 xp.exp(test.log_beta[0]), xp.exp(test.log_power[-1]))


def touch(experiment, points, reverse):
    """The tests at ascending eps, in one direction: to reject losses above eps in reverse is not to
    reject them below -eps.

    No loss with positive mass may be among the points,
    for which of the two tests has it then differs.
    """
    wide = jax.tree.map(lambda leaf: xp.asarray(leaf)[None], experiment).aligned(
        points.shape, points.dtype
    )
    test = wide.touch(xp.where(reverse, -xp.flip(points), points), False)
    return jax.tree.map(
        lambda own, other: xp.where(reverse, xp.flip(other), own), test, test.exchanged()
    )


def _difference(log_up, log_down, isolated):
    """Of the mass between successive points, from the smaller of both tails:
    log, relative error, log of what is unseen.
    """
    up = (log_up < log_down)[:-1]
    first = xp.where(up, log_up[:-1], log_down[1:])
    second = xp.where(up, log_up[1:], log_down[:-1])
    some, any_tail = second < first, first > -xp.inf
    start = xp.where(any_tail, first, 0.0)
    last = some & xp.isfinite(second)
    gap = xp.where(last, xp.where(last, second, 0.0) - start, -800.0)
    log_mass = xp.where(some, start + log1mexp(gap), -xp.inf)
    ulps = 2 * _ULPS * xp.finfo(log_up.dtype).eps * (1 - start)
    error = ulps / xp.where(some, -xp.expm1(gap), 1.0)
    nothing = some | ~any_tail | isolated & (first == second)
    unseen = xp.where(nothing, -xp.inf, start + xp.log(ulps))
    return log_mass, xp.stop_gradient(error), xp.stop_gradient(unseen)


def upwards(found, spacing):
    """log masses of an upper bound at the points, of what lies between the first and the last."""
    share = xp.expm1(-found.rise) / xp.expm1(-spacing)
    share = xp.minimum(share + found.doubt / -xp.expm1(-spacing), 1.0)
    mass = found.log_mass + xp.log1p(found.error)
    return _at_points(
        mass + safe_log(xp.maximum(1 - share, 0.0)),
        xp.logaddexp(mass + safe_log(share), found.unseen),
    )


def downwards(found, spacing):
    """(log masses of a lower bound at the points, log of what each cell lost to rounding,
    log of what fell below them).
    """
    mass = found.log_mass + xp.log1p(-xp.minimum(found.error, 1 - 1e-16))
    log_excess = safe_log(-xp.expm1(-found.rise))
    log_deficit = safe_log(xp.expm1(spacing - found.rise))
    # half the logarithm of B_j+1/A_j, at the points between two cells
    lean = 0.5 * (mass[1:] + log_excess[1:] - mass[:-1] - log_deficit[:-1])
    joins = xp.isfinite(lean) & (xp.maximum(found.doubt[1:], found.doubt[:-1]) < 0.1)
    lean = xp.where(joins, xp.clip(lean, -300.0, 300.0), 0.0)
    up, down = _shares(lean, joins)
    none = xp.zeros_like(mass[:1])
    # a little less, and that little falls, for rounding may have flattered a cell's loss
    slack = xp.minimum(found.doubt / -xp.expm1(-spacing), 1.0)
    risen = xp.concatenate([up, none]) * (1 - slack)
    fallen = xp.concatenate([none, down]) * slack
    stays = xp.maximum(1 - risen - fallen, 0.0) * (1 - 4 * xp.finfo(spacing.dtype).eps)
    low = _at_points(mass + safe_log(stays), mass + safe_log(risen))
    low = xp.concatenate([low[:-1], xp.logaddexp(low[-1], safe_log(found.above))[None]])
    low = xp.logaddexp(
        low, xp.concatenate([mass[1:] + safe_log(fallen[1:]), xp.full((2,), -xp.inf, mass.dtype)])
    )
    lost = xp.logaddexp(found.log_mass + xp.log(2 * found.error + 1e-15), found.unseen)
    return low, lost, mass[0] + safe_log(fallen[0])


def _shares(lean, joins):
    """(v_j, u_j+1) for every point between two cells, with v_j + u_j <= 1 and nearly 1.

    w = sqrt(A B)/2 is right to second order where cells fill evenly. It is scaled to at most what a
    cell has, and what is left over is matched once more: at every other point first, for two
    neighbouring points ask the same cell.
    """
    up, down = (xp.where(joins, 0.5 * xp.exp(sign * lean), 0.0) for sign in (1, -1))
    none = xp.zeros_like(lean[:1])

    def taken():
        return xp.concatenate([up, none]) + xp.concatenate([none, down])

    scale = 1 / xp.maximum(taken(), 1.0)
    scale = xp.minimum(scale[1:], scale[:-1])
    up, down = up * scale, down * scale
    ratio = xp.exp(2 * lean)  # v_j = ratio u_j+1
    odd = xp.arange(up.size) % 2 == 1
    for turn in (odd, ~odd):
        left = xp.maximum(1 - taken(), 0.0)
        more = xp.where(joins & turn, xp.minimum(left[:-1] / ratio, left[1:]), 0.0)
        up, down = up + more * ratio, down + more
    return up, down


def between(found, spacing, weight):
    """Masses of an estimate at the points, relative to `weight`:
    the logs, at the points, of what a mass of 1 counts.
    """
    share = xp.expm1(-found.rise) / xp.expm1(-spacing)
    law = xp.exp(
        _at_points(
            found.log_mass + safe_log(xp.maximum(1 - share, 0.0)), found.log_mass + safe_log(share)
        )
        + weight
    )
    base = found.log_mass + weight[:-1]  # at the lower end of each cell
    step = weight[1:] - weight[:-1]
    take = share * (1 - share) / 3 * xp.exp(base)  # V/(2 h^2) of the cell
    rise = xp.exp(step)  # a mass one point higher counts this much more
    shrink = xp.exp(-spacing)
    parts = (-0.5 * shrink * take / rise, 0.5 * take, 0.5 * shrink * take * rise,
             -0.5 * take * rise**2)
    around = sum(xp.pad(part, (before, 3 - before)) for before, part in enumerate(parts))
    return law + around[1:-1]


def _at_points(log_low, log_high):
    """The sum at each point of what its two cells put there."""
    none = xp.full((1,), -xp.inf, log_low.dtype)
    return xp.logaddexp(xp.concatenate([log_low, none]), xp.concatenate([none, log_high]))

