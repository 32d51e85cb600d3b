"""Certified brackets of few steps from their laws at unevenly spaced losses, by NumPy."""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition.uneven import LEAST, ULP, Law, Sides, aimed, one_step, together
from jaxpriv.tradeoff.stepping import stepped_out
from jaxpriv.tradeoff.subsampled import Reversed, Subsampled

_FIRST, _FINEST = 256, 1024  # points
_NARROW = 1e-5  # of log delta
_RARE = 0.3  # steps with the record, on average
_MOST = 1 << 17  # steps
_COARSE = 200  # points of a first look


class Chain:
    """Steps [(experiment with scalar parameters in float64, whole number)] of one direction."""

    def __init__(self, steps, reverse):
        self.reverse = reverse
        (self.last, count), *others = steps
        self.steps = [(self.last, count - 1), *others]

    @np.errstate(all="ignore")
    def composed(self, aim, size, floor):
        """The `Sides` of all steps but the last; by squaring."""
        nothing = Law(np.zeros(1), np.ones(1), 0.0)
        total = Sides(nothing, nothing, True)
        for experiment, count in self.steps:
            if not count:
                continue
            power = one_step(experiment, self.reverse, aim, size, floor)
            while True:
                if count % 2:
                    empty = total.upper is nothing
                    total = power if empty else together(total, power, aim, size, floor)
                count //= 2
                if not count:
                    break
                power = together(power, power, aim, size, floor)
        return total

    @np.errstate(all="ignore")
    def bracket(self, sides, eps):
        """(lower, upper) of log delta at eps (any shape), and -d log delta/d eps."""
        upper, rate = self._summed(sides.upper, eps, 1)
        lower, _ = self._summed(sides.lower, eps, -1)
        return lower, upper, rate

    def _summed(self, law, eps, sign):
        rest = eps[..., None] - law.loss
        doubt = 4 * ULP * (np.abs(eps)[..., None] + np.abs(law.loss))
        last = jax.tree.map(lambda leaf: np.asarray(leaf)[(None,) * rest.ndim], self.last)
        last = last.aligned(rest.shape, np.float64)
        lower, upper, rate = last.bracket(rest - doubt, rest + doubt, self.reverse)
        parts = law.mass * np.exp(upper if sign > 0 else lower)
        total = np.sum(parts, -1)
        rate = np.sum(parts * np.where(parts > 0, rate, 0.0), -1) / total
        value = (total + law.endless) * (1 + sign * 1e-12) + (LEAST if sign > 0 else 0.0)
        return np.log(np.clip(value, 0.0, 1.0)), rate


def chain_of(steps, flipped):
    """(the `Chain` of `Step`s with scalar parameters and members along one axis, or None where they
    are too many or have atoms; are heavy ones so rare that an even lattice is no good?)
    """
    parts, heavy = [], 0.0
    for step in steps:
        for member in np.flatnonzero(step.count > 0):
            experiment, count = xp.row(step.experiment, member), int(step.count[member])
            if not (experiment.finite or np.all(np.isnan(experiment.atoms(False)))):
                return None, False
            forward = experiment.base if isinstance(experiment, Reversed) else experiment
            rate = float(forward.rate) if isinstance(forward, Subsampled) else 1.0
            parts.append((experiment, count))
            heavy += rate * count
    if not parts or sum(count for _, count in parts) > _MOST:
        return None, False
    return Chain(parts, bool(flipped)), heavy <= _RARE


def bracket(chain, eps):
    """(lower, upper) of log delta at one eps and -d log delta/d eps."""
    law = chain.composed(None, _COARSE, LEAST)
    lower, upper, rate = chain.bracket(law, np.asarray(eps))
    size = 0 if law.plain else _FIRST
    while size:
        law = _finer(chain, law, eps, lower, size)
        low, high, rate = chain.bracket(law, np.asarray(eps))
        lower, upper = np.fmax(lower, low), np.fmin(upper, high)
        size = _needed(size, high - low)
    return lower, upper, rate


def _needed(size, width):
    """How many points make a bracket of log delta narrow, whose width goes with their square; none
    more where it is, or where there are so many already.
    """
    if width <= _NARROW or size >= _FINEST:
        return 0
    return int(min(max(2 * size, 1.2 * size * np.sqrt(width / _NARROW)), _FINEST))


def _finer(chain, law, eps, log_delta, size):
    """The `Sides` aimed at eps, where delta is about this, from a first look."""
    floor = max(float(np.exp(log_delta)), LEAST) * 1e-9
    return chain.composed(aimed(law.upper, eps), size, floor)


def epsilon_bracket(chain, lowest, log_delta):
    """Certified (lower, upper) of eps for log delta between `lowest` and `log_delta`."""
    law = chain.composed(None, _COARSE, LEAST)
    sizes = np.append(
        0.0, 2 * (np.max(law.upper.loss, initial=0.0) + 1) * 2.0 ** np.arange(-60.0, 1.0)
    )
    above = np.flatnonzero(_middle(*chain.bracket(law, sizes)[:2]) > log_delta)
    eps = _met(chain, law, log_delta, sizes[above[-1]] if above.size else 0.0)
    size = 0 if law.plain else _FIRST
    while size:
        law = _finer(chain, law, eps, log_delta, size)
        before, eps = eps, _met(chain, law, log_delta, eps)
        lower, upper, rate = chain.bracket(law, np.asarray(eps))
        # the first look may have been of another eps
        away = size == _FIRST and abs(eps - before) * rate > 1
        size = size + 1 if away else _needed(size, upper - lower)
    return stepped_out(
        np.asarray(eps), lambda ends: chain.bracket(law, ends),
        np.asarray(lowest), np.asarray(log_delta))


def _middle(lower, upper):
    return 0.5 * (np.maximum(lower, upper - 5.0) + upper)


def _met(chain, law, log_delta, eps):
    """The eps at which the middle of the bracket is log_delta, by Newton from below, where the
    slope is flatter.
    """
    for _ in range(30):
        lower, upper, rate = chain.bracket(law, np.asarray(eps))
        change = (_middle(lower, upper) - log_delta) / rate
        if not np.isfinite(change):
            break
        before, eps = eps, float(np.clip(eps + change, 0.5 * eps, 2 * eps + 1e-9))
        if abs(eps - before) <= 1e-7 * eps:
            break
    return eps
