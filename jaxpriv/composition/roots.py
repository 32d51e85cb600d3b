"""By NumPy: where an integral has a given result, by Newton's method along lines that are kept."""

from functools import partial

import jax
import numpy as np

from jaxpriv.composition.entrywise import entrywise
from jaxpriv.composition.frequencies import LIMIT
from jaxpriv.composition.kept import Kept
from jaxpriv.composition.line import along
from jaxpriv.composition.nearby import kept_at, worth_while

_PLACED = 12  # lines at most, until one was placed next to the root
_LINES = 200  # of many roots
_NEAR = 2.0  # times as far as a line serves are roots looked for along it


def _many(terms, values, kind):
    """Roots of one composition, from the left to the right: a line is placed at the first that is
    left, and serves all that it finds near by.
    """
    eps, target = values[0].copy(), values[1]
    good, left, found, reach = np.zeros(eps.shape, bool), np.arange(eps.size), eps.copy(), 0.0
    if not (np.isfinite(eps).all() and worth_while(terms, kind, eps)):
        return None, good
    for _ in range(_LINES):
        if not len(left):
            break
        left = left[np.argsort(eps[left])]
        center = eps[left[0]] + reach
        kept = kept_at(terms, center, kind)
        if not kept.done:
            break
        near = left[np.abs(eps[left] - center) <= _NEAR * kept.spread]
        eps[near], _, serves, logs = kept.newton(
            jax.tree.map(lambda leaf, near=near: leaf[near], target), eps[near]
        )
        met = serves & logs.followed
        # what rounding shows in on a line that was placed for another root is asked alone
        found[near[met]], good[near[met]] = eps[near[met]], logs.exact[met]
        # where a line's frequencies do not end no other one's do
        left = np.setdiff1d(left, near[serves | ~logs.followed])
        reach = 0.8 * kept.spread if serves.any() else 0.0
    return (found, good), good


@partial(entrywise, several=_many)
def root(terms, values, kind, patience):
    """From (eps, `Target`) the eps at which it is met, NaN where the frequencies do not end, and is
    what was integrated exact there?

    Newton along one line, and along another one next to the root if that was further off than the
    line serves.
    """
    eps, target = values
    done = True
    for _ in range(_PLACED):
        placed = along(terms, eps, kind)
        kept = Kept(terms, eps, kind, placed, np.zeros_like(eps), LIMIT, patience)
        done = done & kept.done
        eps, _, serves, logs = kept.newton(target)
        if np.all(serves | ~logs.followed):
            break
    return (np.where(serves & logs.followed, eps, np.nan), logs.exact), done
