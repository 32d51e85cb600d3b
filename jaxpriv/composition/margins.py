"""The errors of an inverse transform that is summed along a vertical line, each bounded: aliases of
the midpoint rule, frequencies that are not followed, the quadrature of each transform, rounding.

docs/certified.md has the proofs.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.blocks import BLOCK
from jaxpriv.composition.frequencies import LIMIT
from jaxpriv.composition.line import (
    at_smallest,
    bound_far,
    log_factor,
    on_axis,
    over_steps,
)
from jaxpriv.composition.on_paths import FEW, MANY
from jaxpriv.composition.sampled import TiltedSampled
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import padded

_MANY_NODES = 1024
_LOST = 1e100  # a rule's error that says that nothing is known (`sampled.UNSEEN`, times some steps)
_LITTLE = 30.0  # -log of the share of an integral that need not be followed
# log of how many frequencies there may be; parts of that range, and how often it is divided
_FARTHEST, _PARTS, _DIVISIONS = 20.0, 8, 3
_SOON = 512, 32768  # frequencies to which one path is enough, and few


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


def margins_of(terms, kind, line, tilts):
    """The `Margins` of the terms along a line, of which `tilts` are the transforms."""

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


def enclosed(margins, sums, log_left_out, eps):
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
