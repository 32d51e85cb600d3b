"""What the frequencies along a line say of an integral's result, in logarithms."""

import math
from typing import NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv.composition.transforms import UNKNOWN
from jaxpriv.stats._logspace import log1mexp

_ROUGH, _EXACT = 1e-2, 1e-6  # of the result, what may be left out
_NOISE = 0.01  # of the result, rounding beyond which other approximations are better
# of `Sums.size`, a bound, what rounding makes up: so none of 231 random settings that counted as
# exact was further off than its bracket is wide, and 2 that were exact did not count
_SEEN = 1 / 300


class Logs(NamedTuple):
    """log of an integral's result and of one less it; slope: d log result/d eps; followed: to where
    hardly anything is left out, and not down to rounding?; exact: can neither be seen?
    """

    result: jax.Array
    rest: jax.Array
    slope: jax.Array
    followed: jax.Array
    exact: jax.Array


def logs_of(line, height, sums, rare=UNKNOWN, rare_slope=0.0):
    """The `Logs` of what the frequencies add up to,
    `height` being log of the integrand at y = 0.
    """
    result, rest, seldom, followed, exact = side_of(line, height, sums, rare)
    # of a relative change of what was integrated
    share = xp.where(line.side > 0, 1.0, -xp.exp(rest - result))
    slope = xp.where(seldom, rare_slope, -share * sums.slope / sums.value)
    return Logs(result, rest, slope, followed, exact)


def side_of(line, height, sums, rare):
    """(log result, log of one less it, was `rare` taken?,
    were the frequencies followed to their end?, can neither what is left out nor
    rounding be seen?)

    Where the frequencies that were left out may be more than 1%, or it is mostly rounding, it is
    the saddle-point approximation, and next to the pole on the right, where that is no good if
    hardly a step tells anything, `rare`.
    """
    error = xp.abs(sums.rest / sums.value) * (sums.reach / line.spacing)
    noise = xp.abs(sums.size / sums.value) * (_SEEN * xp.finfo(sums.size.dtype).eps)
    good = (sums.value > 0) & (error < _ROUGH) & (noise < _NOISE)
    seldom = ~good & (line.side > 0) & (rare > 0.5 * UNKNOWN)
    log_value = height + xp.log(xp.where(good, sums.value, 1.0) * line.spacing / math.pi)
    value = xp.minimum(xp.where(good, log_value, xp.where(seldom, rare, line.estimate)), 0.0)
    other = log1mexp(value)
    return (
        xp.where(line.side > 0, value, other),
        xp.where(line.side > 0, other, value),
        seldom,
        good,
        good & (error + noise < _EXACT) & ~xp.isnan(value),
    )
