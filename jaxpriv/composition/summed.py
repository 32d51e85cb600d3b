"""Brackets of one composed law at many eps, by NumPy: from sums over its points from either end.

With x the points' losses less the law's middle, t = eps - middle and s = e^(K - c middle),

    delta(eps) = s (A - e^t B),                     A = sum_{x > t} nu e^-cx, c > 0
    1 - delta(eps) = s (sum_{x <= t} nu e^-cx + e^t B), B = sum_{x > t} nu e^-(1+c)x, -1 < c < 0

(`jaxpriv.composition.grid`): all sums are running ones, of which a call needs one pass however many
eps it asks for. Only A - e^t B cancels, by (1 + c) or so; what rounding may do to it is added.
"""

import numpy as np

from jaxpriv.composition import grid
from jaxpriv.composition.grid import BETWEEN, DOWN, UP
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import padded

_ULP = 2.0**-52
BLOCK = 512  # sums run within blocks, and over their totals
_FARTHEST = 300.0  # of (1 + |c|) |t|: exponents stay numbers
_LEAST = 1e-290  # more than all terms together that underflow, for no weight at t is below e^-300


@np.errstate(all="ignore")
def brackets(law, ends):
    """(lower, upper) of log delta at eps `ends` (k,), as `grid.bracket` says, -d log delta/d eps of
    the estimate; NaN in the law bounds nothing.
    """
    t = ends - law.middle
    far = ~((1 + abs(law.c)) * np.abs(t) < _FARTHEST)
    if far.any():
        return _one_by_one(law, ends)
    size, c = law.loss.size, float(law.c)
    inner = c < 0
    start, stop = np.searchsorted(law.loss, [np.min(t), np.max(t)], "right")
    start = max(start - 1, 0)
    masses = np.concatenate([law.nu, np.max(np.abs(law.nu), 0)[None], np.ones((1, size))])
    at = np.searchsorted(law.loss, t, "right")
    above, x = masses[:, start:], law.loss[start:]
    running = running_sums((above * np.exp(-(1 + c) * x))[:, ::-1])
    far_sum = running[:, size - at] * np.exp(t)
    level = _level(law, running[BETWEEN], at, t) * np.exp(t)
    if inner:
        x = law.loss[:stop]
        near_sum = running_sums(masses[:, :stop] * np.exp(-c * x))[:, at]
        value = near_sum + far_sum
        steep = value[3]
    else:
        near_sum = running_sums((above * np.exp(-c * x))[:, ::-1])[:, size - at]
        value = near_sum - far_sum
        steep = near_sum[3]
    reach = (1 + abs(c)) * (np.max(np.abs(t)) + abs(law.loss[-1]) + abs(law.loss[0]))
    rounding = _ULP * (2 * BLOCK + size // BLOCK + 64 + 4 * np.minimum(reach, 1000.0))
    carried = rounding * (near_sum[3:] + far_sum[3:])
    away = np.abs(t)
    out = law.out[:, None] * np.exp(np.abs(c * t) - c * t)
    blur = law.blur + 8 * _ULP * away * (1 + abs(c))
    doubt = law.doubt + 4 * _ULP * (abs(c) * away + abs(law.log_scale))
    laws = np.maximum(value[:3], 0.0)
    error = law.noise[:, None] * (np.maximum(value[4], 0.0) + carried[1]) + out
    error = error + blur * steep + carried[0] + _LEAST
    low = np.log(np.maximum(laws - error, 0.0)) + law.log_scale - doubt
    high = np.log(laws + error) + law.log_scale + doubt
    if inner:
        most = np.minimum(np.logaddexp(high[DOWN], np.log(law.below)), 0.0)
        lower, upper = padded(log1mexp(most), log1mexp(np.minimum(low[UP], 0.0)))
        delta = -np.expm1(np.minimum(np.log(laws[BETWEEN]) + law.log_scale, 0.0))
        rate = level * np.exp(law.log_scale) / delta
    else:
        lower, upper = padded(np.logaddexp(low[DOWN], law.log_endless),
                              np.logaddexp(high[UP], law.log_infinite))
        rate = level / (laws[BETWEEN] + np.exp(law.log_infinite - law.log_scale))
    lower = np.where(np.isnan(lower), -np.inf, np.minimum(lower, 0.0))
    return lower, np.where(np.isnan(upper), 0.0, upper), rate


def _level(law, running, at, t):
    """The sums above t, where masses within half a spacing of it are shared out (`grid.touch`)."""
    count, last = law.loss.size - at, len(running) - 1
    part = (law.loss[np.minimum(at, law.loss.size - 1)] - t) / law.spacing - 0.5
    own = running[count]
    after, before = running[np.maximum(count - 1, 0)], running[np.minimum(count + 1, last)]
    shared = np.where(part < 0, own - after, before - own)
    return own + np.clip(part, -0.5, 0.5) * shared


def _one_by_one(law, ends):
    found = [(*grid.bracket(law, eps), grid.steepness(law, eps)) for eps in ends]
    return tuple(np.stack(column) for column in zip(*found))


def running_sums(terms):
    """Sums of the first 0, 1, 2, ... terms of each row, each off by (`BLOCK` + their number over
    `BLOCK`) ulp of the sum of sizes at most.
    """
    rows, count = terms.shape
    blocks = -(-count // BLOCK)
    wide = np.zeros((rows, blocks * BLOCK))
    wide[:, :count] = terms
    wide = wide.reshape(rows, blocks, BLOCK)
    np.cumsum(wide, 2, out=wide)
    wide[:, 1:] += np.cumsum(wide[:, :-1, -1], 1)[:, :, None]
    found = np.zeros((rows, count + 1))
    found[:, 1:] = wide.reshape(rows, -1)[:, :count]
    return found
