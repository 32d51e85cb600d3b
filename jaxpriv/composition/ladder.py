"""By NumPy: lines at fixed places, which all questions to one composition share, whatever was asked
first.
"""

import numpy as np

from jaxpriv._stored import Store, key_of, store
from jaxpriv.composition.line import DELTA, cumulants, place, stacked
from jaxpriv.composition.nearby import served

# of the standard deviation: the first eps of a table; how many to an octave, and all
_FIRST, _OCTAVE, _TABLE = 1 / 16, 3, 64
_SHARE = 1.0  # of how far a line serves, from where to where it is asked
_STEP = 1.5 * _SHARE  # between lines, in the integral of d eps over how far they serve
_KEPT, _LINES = 192, 96  # lines of 20 to 500 KB; of what is asked at once
_ladders = store(16)


def ladder_of(terms, line_for):
    """The `Ladder` of scalar terms, for the line's kind that `line_for` makes."""
    return _ladders.get(key_of(terms), lambda: Ladder(terms, line_for))


class Ladder:
    """Lines for eps >= 0; line_for: (terms, eps) -> what is kept of the line for it."""

    def __init__(self, terms, line_for):
        self._terms, self._line_for, self._lines = terms, line_for, Store(_KEPT)
        _, _, variance = cumulants(terms, np.zeros(()))
        first = _FIRST * np.sqrt(np.maximum(variance, 1e-200))
        self._eps = np.append(0.0, first * 2.0 ** (np.arange(_TABLE) / _OCTAVE))
        spread = place(stacked(terms, self._eps.size), self._eps, DELTA).spread
        dense = 1 / np.where(spread > 0, spread, np.inf)
        steps = 0.5 * (dense[1:] + dense[:-1]) * np.diff(self._eps)
        # rises, also where nothing is known of a line
        self._passed = np.append(0.0, np.cumsum(np.maximum(np.nan_to_num(steps), 1e-9)))

    def __len__(self):
        return len(self._lines.made)

    def serving(self, eps):
        """(indices, a line that serves the eps there), in rising order; so many lines at most."""
        rung = np.floor(np.interp(eps, self._eps, self._passed) / _STEP)
        left = np.zeros(eps.shape, bool)
        for one in np.unique(rung)[:_LINES]:
            here = np.flatnonzero(rung == one)
            at = np.interp((one + 0.5) * _STEP, self._passed, self._eps)
            line = self._lines.get(one, lambda at=at: self._line_for(self._terms, at))
            near = np.abs(eps[here] - line.center) <= _SHARE * line.spread
            left[here[~near]] = True
            if near.any():
                yield here[near], line
        # where a table does not tell how far they serve
        (left,) = np.nonzero(left)
        for index, line in served(eps[left], lambda at: self._line_for(self._terms, at)):
            yield left[index], line
