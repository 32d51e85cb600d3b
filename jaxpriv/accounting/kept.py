"""By NumPy: a line's frequencies are kept, and serve every eps near the one for which the line was placed."""

import numpy as np

from jaxpriv.accounting.entrywise import entrywise
from jaxpriv.accounting.frequencies import LIMIT, follow, summed
from jaxpriv.accounting.inversion import logs_of
from jaxpriv.accounting.line import along, log_factor

_PLACED = 8  # lines at most, until one was placed next to the root
_NEWTON = 12
_SETTLED = 1e-12  # of eps: after so small a step there is no other


class Kept:
    """log (M(c+iy)/M(c)) of all steps along one line, up to where it is negligible and to `stop`."""

    def __init__(self, terms, eps, kind, line, tilts, stop, limit, patience):
        def keep(blocks, block):
            return [*blocks, (block.y, block.log_size, block.angle, block.ulps)]

        blocks, sums, self.done = follow(terms, eps, kind, line, tilts, keep, [], stop, limit, patience)
        self._blocks = [np.concatenate(column) for column in zip(*blocks)]
        self._kind, self._line = kind, line
        self.reach = sums.reach

    def sums(self, eps):
        """The `Sums` at eps, of the shape of the line's own or with further axes before it."""
        more = eps.ndim - self.reach.ndim
        blocks = (part.reshape((-1,) + (1,) * more + part.shape[1:]) for part in self._blocks)
        found, _ = summed(self._kind, self._line.side * self._line.d, eps, *blocks)
        return found._replace(reach=self.reach)


@entrywise
def root(terms, values, kind, patience):
    """The eps at which log of an integral's result, or of one less it, is what is asked for; NaN where that fails.

    values: (eps to start from, the least eps, log of the result, log of one less it, is it the result that is small?).
    Newton along one line, and along another one next to the root if that was further off than the line serves.
    """
    eps, least, log_result, log_rest, small = values
    done = True
    for _ in range(_PLACED):
        line, tilts, height = along(terms, eps, kind)
        kept = Kept(terms, eps, kind, line, tilts, np.zeros_like(eps), LIMIT, patience)
        done = done & kept.done
        total, placed = height - log_factor(kind, line.side, line.d, eps), eps
        for _ in range(_NEWTON):
            logs = logs_of(line, total + log_factor(kind, line.side, line.d, eps), kept.sums(eps))
            over = np.where(small, logs.result - log_result, log_rest - logs.rest)
            rate = logs.slope * np.where(small, 1.0, np.exp(logs.result - logs.rest))
            change = np.where(np.isfinite(over / rate), -over / rate, 0.0)
            eps = np.clip(eps + change, placed - 2 * line.spread, placed + 2 * line.spread)
            eps = np.maximum(eps, least)
            if np.all(np.abs(change) <= _SETTLED * (1e-3 + np.abs(eps))):
                break
        serves = np.abs(eps - placed) <= line.spread
        if np.all(serves | ~logs.followed):
            break
    return np.where(serves & logs.followed, eps, np.nan), done
