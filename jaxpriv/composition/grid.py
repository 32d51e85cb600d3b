"""Composition on a lattice of privacy losses:
for any mechanism and for few steps, bounded on both sides.

The law of each step is moved onto a lattice (`jaxpriv.composition.lattice`), tilted by e^(c l) so
that the total loss lies around eps, and convolved by Fourier transforms of static size; the spacing
follows from how far the total reaches. With nu the tilted law of the total and K = sum n_i
log M_i(c) of the lattice laws,

    delta(eps) = e^(K - c eps) sum_{l > eps} nu(l) e^(-c (l - eps)) (1 - e^(eps - l)),      c > 0
    1 - delta(eps) = e^(K - c eps) sum_l nu(l) e^(-c (l - eps)) min(1, e^(eps - l)),  -1 < c < 0

in which all terms are positive and nothing is small compared with the result: probabilities of
1e-100 cost no digits. To the error of the lattice bounds add: what lies beyond the window and comes
back into it (Chernoff), the rounding of the transforms (each output within 4 log2 N ulp of the l1
norm, to the power of the steps), and that of exponents.
"""

from typing import NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition import lattice, spectrum
from jaxpriv.composition.line import DELTA, Term, at_smallest, place
from jaxpriv.composition.spectrum import Spectrum
from jaxpriv.composition.tables import cumulants
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import padded
from jaxpriv.tradeoff.pair import safe_log

SIZE = 1 << 18  # points of the total's lattice
SIZES = tuple(1 << bits for bits in range(12, 19))  # NumPy's brackets begin with few
LARGER = (1 << 19, 1 << 20)  # where a width is asked for
_SHARE = 4  # a single step's has this many times fewer
_NEGLIGIBLE = 34.0
UP, BETWEEN, DOWN = range(3)


class Grid(NamedTuple):
    """Where the lattices lie: points of the total's; tilt, spacing, ends of the window from eps;
    a further tilt for each end, from c; log of about what is summed, relative to all tilted mass.
    """

    size: int
    c: jax.Array
    spacing: jax.Array
    under: jax.Array
    over: jax.Array
    shifts: jax.Array
    log_sum: jax.Array


def locate(terms, spans, eps, size):
    """The `Grid` of so many points for one eps (scalar) from `Term`s of tables.

    spans: distances between atoms of the members' laws;
    a whole number of spacings makes the largest.
    """
    line = place(terms, eps, DELTA)
    # a tilt that tells losses apart by a thousandth of a step's range is as good as any larger one,
    # for eps above all losses too
    ranges = [xp.max(term.transform.edges[:, -1] - term.transform.edges[:, 0]) for term in terms]
    steepest = 4096.0 / xp.max(xp.stack(ranges))
    over_all = steepest * (cumulants(terms, steepest)[1] - eps) < 2  # the saddle lies beyond
    c = xp.where(over_all, steepest, xp.minimum(line.side * line.d, steepest))
    total, _, variance = cumulants(terms, c)
    log_sum = xp.where(over_all, 0.0, xp.minimum(line.estimate - (total - c * eps), 0.0))
    shifts = xp.concatenate(
        [2.0 ** xp.arange(-2.0, 5.0, dtype=eps.dtype) / xp.sqrt(variance + 1e-300),
         xp.abs(c) * 2.0 ** xp.arange(-6.0, 5.0, dtype=eps.dtype)]
    )
    shifts = xp.minimum(shifts, steepest)

    def reach(shifts, decay):
        """How far from eps the tilted total's tail is negligible,
        by the best of Chernoff's bounds at c + shift.
        """
        excess = (
            xp.each(lambda s: cumulants(terms, c + s)[0], shifts)
            - total
            - shifts * eps
            - log_sum
            + _NEGLIGIBLE
        )
        distance = excess / decay
        distance = xp.where(xp.isnan(distance), xp.inf, xp.maximum(distance, 0.0))
        return xp.min(distance), at_smallest(distance, shifts)

    over, further = reach(shifts, shifts + xp.maximum(c, 0.0))
    under, back = reach(-shifts, shifts)
    width = xp.max(
        xp.stack([xp.max(high - low)
                  for low, high in (extent(t.transform, c, t.count, log_sum) for t in terms)])
    )
    spacing = xp.maximum((over + under) / (size - 16), width / (size // _SHARE - 8))
    span = xp.max(xp.concatenate(spans))
    parts = xp.floor(span / spacing)
    spacing = xp.where(parts >= 1, span / xp.where(parts >= 1, parts, 1.0), spacing)
    under = under / (over + under) * spacing * size
    shifts = xp.stack([further, back])
    return Grid(size, c, spacing, under, spacing * size - under, shifts, log_sum)


def extent(table, c, count, log_sum):
    """(lowest, highest) loss of a single step that counts under the tilt."""
    exponent = table.log_mass + c * table.loss
    weight = xp.exp(exponent - xp.logsumexp(exponent, -1, keepdims=True)) * count[..., None]
    small = xp.exp(log_sum - _NEGLIGIBLE)
    from_above = xp.flip(xp.cumsum(xp.flip(weight, -1), -1), -1) > small
    from_below = xp.cumsum(weight, -1) > small
    last = xp.max(xp.where(from_above, table.edges[..., 1:], -xp.inf), -1)
    first = xp.min(xp.where(from_below, table.edges[..., :-1], xp.inf), -1)
    return xp.minimum(first, last), last


def points_of(grid, table, count, lowest):
    """How many points a single step's lattice has from its lowest on: by NumPy no more than up to
    the highest loss that counts, for only the shapes of a program are given.
    """
    most = grid.size // _SHARE
    if xp.any_jax(lowest):
        return most
    highest = extent(table, grid.c, count, grid.log_sum)[1]
    needed = np.ceil((highest - lowest) / grid.spacing) + 3
    return int(needed) if needed < most else most


def centre(table, spacing):
    """Where to put a lattice point: so that what lies within one spacing on both sides merges
    to that very loss.
    """
    mass = xp.exp(table.log_mass)
    log_null = table.log_mass - table.loss
    upper_p = xp.concatenate([xp.zeros_like(mass[:1]), xp.cumsum(mass)])
    upper_q = xp.concatenate([xp.zeros_like(mass[:1]), xp.cumsum(xp.exp(log_null))])

    def merged(_, at):
        ends = xp.stack([at - spacing, at + spacing])
        p, q = (xp.diff(xp.interp(ends, table.edges, upper))[0] for upper in (upper_p, upper_q))
        some = (p > 0) & (q > 0)
        return xp.clip(
            xp.where(some, xp.log(xp.where(some, p, 1.0)) - xp.log(xp.where(some, q, 1.0)), at),
            *ends,
        )

    return xp.fori_loop(
        0, 8, merged, xp.min(xp.where(upper_p[1:] > 0.5, table.loss, table.loss[-1]))
    )


class Totals(NamedTuple):
    """Sums over the steps of what their lattice laws contribute,
    filled by `lay` one mechanism at a time.

    The spectrum. (ends,): shifted, K at c + shifts. (laws,): tail, tilted mass that is not on the
    lattices. Scalars: value, K; origin of the total's lattice; far, bound of sum n |l|; doubt,
    relative error of e^K; log_finite, log P(|L| < inf) at least, log_ending, at most; below, P of
    losses under the tables.
    """

    spectrum: Spectrum
    shifted: jax.Array
    value: jax.Array
    origin: jax.Array
    far: jax.Array
    tail: jax.Array
    doubt: jax.Array
    log_finite: jax.Array
    log_ending: jax.Array
    below: jax.Array


def lay(grid, totals, reverse, experiment, count, table, atom):
    """Add `count` steps of one mechanism (scalar parameters) to the totals; `atom`:
    a loss with positive mass, or NaN.
    """
    size, c, spacing, *_ = grid
    dtype = spacing.dtype
    ulp = xp.finfo(dtype).eps
    frozen = xp.stop_gradient
    anchor = xp.where(xp.isnan(atom), centre(table, spacing), atom - 1e-6 * spacing)
    _, mean, _ = table.cumulants(c)
    origin = frozen(anchor + xp.round((mean - anchor) / spacing) * spacing)
    first = xp.floor((extent(table, c, count, 0.0)[0] - origin) / spacing) - 1
    share = points_of(grid, table, count, origin + first * spacing)
    points = frozen(origin + (first + xp.arange(share, dtype=dtype)) * spacing)
    found = lattice.cells(experiment, points, reverse)
    # what the table leaves out counts as infinite: were it on the lattice, a tilt that the table
    # chose might weigh it most
    known = (points[:-1] < table.edges[-1]) & (points[1:] > table.edges[0])
    above = xp.where(
        points[-1] <= table.edges[-1], xp.maximum(found.above - table.endless, 0.0), 0.0
    )
    found = found._replace(log_mass=xp.where(known, found.log_mass, -xp.inf),
                           unseen=xp.where(known, found.unseen, -xp.inf), above=above)
    up = lattice.upwards(found, spacing)
    down, waste, fallen = frozen(lattice.downwards(found, spacing))
    value = frozen(xp.logsumexp(up + c * points))
    weight = c * points - value
    masses = xp.stack([frozen(xp.exp(up + weight)), lattice.between(found, spacing, weight),
                       xp.exp(down + weight)])
    # each entry has the rounding of its exponent
    sizes = xp.where(masses[UP] > 0, xp.abs(up), 0.0) + xp.abs(c * points)
    entry = frozen(ulp * (8 + xp.sum(masses[UP] * sizes) + xp.abs(value)))
    own = spectrum.of_step(masses, first, size, totals.spectrum, entry)
    heavier = xp.maximum(c * table.edges[:-1], c * table.edges[1:])
    outside = (table.edges[1:] > points[-1]) | (table.edges[:-1] < points[0])
    tail = xp.sum(xp.where(outside, xp.exp(table.log_mass + heavier - value), 0.0))
    # one less delta is a sum over all of a law, of which the upper one has this much too much,
    # the lower one too little
    rounded = frozen(xp.sum(xp.exp(waste + xp.maximum(weight[1:], weight[:-1]))))
    tail = xp.stack([tail + rounded, tail, tail + rounded + frozen(xp.exp(fallen + weight[0]))])
    shifted = xp.stack(
        [xp.logsumexp(law + (c + shift) * points) for law in (up, down) for shift in grid.shifts]
    )
    shifted = frozen(xp.max(shifted.reshape(2, 2), 0))
    out = table.above + table.below  # upper bounds take both for infinite losses
    log_finite = xp.where(out < 1, xp.log1p(-xp.minimum(out, 1 - ulp)), -xp.inf)
    doubt = entry + 4 * ulp * (1 + xp.abs(value))
    log_ending = xp.log1p(-xp.minimum(table.endless, 1 - ulp))
    steps = Totals(own, shifted, value, origin, xp.maximum(xp.abs(origin), xp.abs(anchor)), tail,
                   doubt, log_finite, log_ending, table.below)
    totals = jax.tree.map(
        lambda sums, one: sums + xp.where(count > 0, count * one, 0.0), totals, steps
    )
    return totals._replace(spectrum=spectrum.audible(totals.spectrum))


class Law(NamedTuple):
    """The tilted laws (laws, size) of the total loss, and what bounds need to know of them.

    loss of the entries less eps, the middle; log_scale: K - c eps; noise of each entry (laws,);
    out: of mass beyond the window and come back; blur: rounding of losses; doubt: of the scale;
    log_infinite, log_endless: log P(L = inf) at most and at least; below: P(L = -inf) at most.
    """

    nu: jax.Array
    loss: jax.Array
    middle: jax.Array
    spacing: jax.Array
    c: jax.Array
    log_scale: jax.Array
    noise: jax.Array
    out: jax.Array
    blur: jax.Array
    doubt: jax.Array
    log_infinite: jax.Array
    log_endless: jax.Array
    below: jax.Array


def composed(steps, tables, atoms, eps, reverse, size=SIZE):
    """The `Law` of all steps around one eps (scalar), of so many points.

    atoms: (lowest, highest) loss with positive mass of each, or NaN."""
    dtype = eps.dtype
    frozen_steps, eps = xp.stop_gradient((steps, eps))
    terms = tuple(Term(table, step.count) for table, step in zip(tables, frozen_steps))
    spans = [xp.nan_to_num(high - low) for low, high in atoms]
    grid = locate(terms, spans, eps, size)
    grid = Grid(size, *xp.stop_gradient(tuple(grid[1:])))
    zero = xp.zeros((), dtype)
    totals = Totals(spectrum.flat(3, size, dtype), xp.zeros(2, dtype), zero, zero, zero,
                    xp.zeros(3, dtype), zero, zero, zero, zero)
    for step, table, (low, _) in zip(steps, tables, atoms):

        def add(totals, member):
            return lay(grid, totals, reverse, *member), None

        totals = xp.scan(add, totals, (step.experiment, step.count, table, xp.stop_gradient(low)))[
            0
        ]
    return _back(grid, totals, eps)


def _back(grid, totals, eps):
    """From the transform of the total to its law."""
    size, c, spacing, under, over, shifts, _ = grid
    ulp = xp.finfo(eps.dtype).eps
    nu, noise = spectrum.back(totals.spectrum, size)
    start = xp.ceil((eps - under - totals.origin) / spacing)
    nu = xp.roll(nu, -xp.mod(start, size).astype(xp.int32), 1)
    loss = totals.origin - eps + (start + xp.arange(size, dtype=eps.dtype)) * spacing

    def beyond(end, distance, weight):
        """Chernoff's bound of the tilted mass beyond eps + distance, times e^-weight."""
        bound = totals.shifted[end] - totals.value - shifts[end] * (eps + distance)
        return xp.where(xp.isnan(bound), 1.0, xp.exp(xp.minimum(bound, 0.0) - weight))

    out = (
        beyond(0, over, xp.maximum(c, 0.0) * over)
        + beyond(0, spacing * size, 0.0)
        + beyond(1, -under, 0.0)
    )
    scale = totals.value - c * eps
    blur = 4 * ulp * (totals.far + xp.abs(start * spacing) + xp.abs(eps)) * (1 + xp.abs(c))
    doubt = totals.doubt + ulp * (64 + 2 * xp.abs(scale))
    infinite = safe_log(-xp.expm1(totals.log_finite))
    endless = safe_log(-xp.expm1(totals.log_ending) * (1 - 64 * ulp))
    return Law(nu, loss, eps, spacing, c, scale, noise, out + totals.tail, blur, doubt, infinite,
               endless, totals.below)


def _weights(law, eps):
    """(loss above eps, log of the scale at eps, is one less delta summed?,
    the weights of delta or of one less it).
    """
    loss = law.loss + (law.middle - eps)
    inner = law.c < 0
    above = loss > 0
    up, down = xp.where(above, loss, 0.0), xp.where(above, 0.0, loss)
    outer = xp.where(above, xp.exp(-law.c * up) * -xp.expm1(-up), 0.0)
    both = xp.where(above, xp.exp(-(1 + law.c) * up), xp.exp(-law.c * down))
    return loss, law.log_scale + law.c * (law.middle - eps), inner, xp.where(inner, both, outer)


def _log_sum(terms):
    """log of a sum of estimates, a few of which may be negative."""
    return safe_log(xp.maximum(xp.sum(terms), 0.0))


def log_delta(law, eps):
    """The estimate of log delta at an eps near the middle."""
    _, scale, inner, weight = _weights(law, eps)
    value = _log_sum(law.nu[BETWEEN] * weight) + scale
    outer = xp.minimum(xp.logaddexp(value, law.log_infinite), 0.0)
    return xp.where(inner, log1mexp(xp.minimum(xp.where(inner, value, -1.0), -1e-300)), outer)


def steepness(law, eps):
    """-d log delta/d eps = e^eps alpha/delta at an eps near the middle, an estimate."""
    return xp.exp(eps + touch(law, eps)[0] - log_delta(law, eps))


def bracket(law, eps):
    """Certified (lower, upper) of log delta at an eps near the middle, at a distance t: what comes
    from beyond the window grows by e^|c t| at most, for e^(c eps) of the scale is all of its factor
    that knows eps.
    """
    loss, scale, inner, weight = _weights(law, eps)
    away, ulp = xp.abs(eps - law.middle), xp.finfo(eps.dtype).eps
    out = law.out * xp.exp(xp.abs(law.c) * away)
    blur = law.blur + 8 * ulp * away * (1 + xp.abs(law.c))
    doubt = law.doubt + 4 * ulp * xp.abs(law.c) * away
    value = xp.maximum(xp.sum(law.nu * weight, 1), 0.0)
    slope = xp.sum(
        xp.abs(law.nu) * xp.where(loss > 0, xp.exp(-law.c * xp.maximum(loss, 0.0)), weight), 1
    )
    error = law.noise * xp.sum(weight) + out + blur * slope
    low = safe_log(xp.maximum(value - error, 0.0)) + scale - doubt
    high = safe_log(value + error) + scale + doubt
    # of one less delta an upper law is the lower bound
    most = xp.logaddexp(high[DOWN], safe_log(law.below))
    rest_high, rest_low = (
        log1mexp(xp.minimum(xp.where(inner, end, -1.0), 0.0)) for end in (low[UP], most)
    )
    lower, upper = padded(xp.where(inner, rest_low, xp.logaddexp(low[DOWN], law.log_endless)),
                          xp.where(inner, rest_high, xp.logaddexp(high[UP], law.log_infinite)))
    # whatever could not be computed bounds nothing
    return xp.where(xp.isnan(lower), -xp.inf, xp.minimum(lower, 0.0)), xp.where(
        xp.isnan(upper), 0.0, upper
    )


def touch(law, eps):
    """(log alpha, log power, log beta) of rejecting above eps;
    masses within half a spacing of it are shared out.
    """
    loss, scale, inner, _ = _weights(law, eps)
    nu, c = law.nu[BETWEEN], law.c
    ramp = xp.clip(loss / law.spacing + 0.5, 0.0, 1.0)
    near = xp.maximum(loss, -law.spacing)
    alpha = _log_sum(nu * ramp * xp.exp(-(1 + c) * near)) + scale - eps
    power = _log_sum(nu * ramp * xp.exp(-xp.maximum(c, 0.0) * near)) + scale
    beta = (
        _log_sum(nu * (1 - ramp) * xp.exp(-xp.minimum(c, 0.0) * xp.minimum(loss, law.spacing)))
        + scale
    )
    power = xp.minimum(xp.logaddexp(power, law.log_infinite), 0.0)
    beta = xp.minimum(beta, 0.0)
    log_power = xp.where(inner, log1mexp(xp.minimum(xp.where(inner, beta, -1.0), -1e-300)), power)
    log_beta = xp.where(inner, beta, log1mexp(xp.minimum(xp.where(inner, -1.0, power), -1e-300)))
    return xp.minimum(alpha, 0.0), log_power, log_beta
