"""A pair of two laws with thousands of outcomes, for lattices:
what bounds a profile that is known at many points.

`above` and `below` make such pairs of brackets of D(K) = delta(log K), convex in K with slope
-alpha(K), D(0) = 1: an outcome at K has Q = the change of slope and P = K Q.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Experiment, Point


class Table:
    """Rows of pairs: outcomes of ascending `loss` (rows, n), and a `Point` of logarithms
    (rows, n + 1) of both laws' masses above and below between them.
    """

    def __init__(self, loss, between):
        self.loss, self.between = loss, between

    @staticmethod
    def of(pairs):
        """Rows of (loss, `Point`), of which the last entries are repeated."""
        size = max(len(loss) for loss, _ in pairs)

        def pad(leaf, full):
            return np.concatenate([leaf, np.full(full - len(leaf), leaf[-1])])

        return Table(
            np.stack([pad(loss, size) for loss, _ in pairs]),
            jax.tree.map(
                lambda *columns: np.stack([pad(column, size + 1) for column in columns]),
                *(between for _, between in pairs),
            ),
        )

    def reversed(self):
        return Table(
            *jax.tree.map(lambda leaf: np.flip(leaf, -1), (-self.loss, self.between.exchanged()))
        )


@jax.tree_util.register_pytree_node_class
class ManyOutcomes(Experiment):
    """A row of a `Table`, which is a part of the structure; mu: the smallest of mu-GDP of what is
    bounded.
    """

    finite = True

    def __init__(self, row: Any, mu: Any, table: Table):
        self.row, self.mu, self.table = row, mu, table

    def tree_flatten(self):
        return (self.row, self.mu), self.table

    @classmethod
    def tree_unflatten(cls, table, leaves):
        row, mu = leaves
        return cls(row, mu, table)

    def touch(self, eps, reverse):
        """The test that rejects all losses above eps, for one pair at any number of eps."""
        row = self.row.reshape(-1)[0].astype(xp.int32)
        loss = xp.gathered(self.table.loss, row)
        at = xp.searchsorted(loss, -eps if reverse else eps, side="right")
        test = Point(*(xp.gathered(column, row)[at] for column in self.table.between))
        return test.exchanged() if reverse else test

    def bracket(self, low, high, reverse):
        """P (1 - e^eps Q/P) of what lies above eps, of which the logarithms are known to 2 ulp."""
        ends = xp.stack([high, low])
        test = self.touch(ends, reverse)
        some = test.log_power > -xp.inf
        log_power = xp.where(some, test.log_power, 0.0)
        ratio = ends + xp.where(some, test.log_alpha, -xp.inf) - log_power
        size = (
            1
            + xp.abs(ends)
            + xp.abs(log_power)
            + xp.where(test.log_alpha > -xp.inf, xp.abs(test.log_alpha), 0.0)
        )
        outward = xp.asarray([1.0, -1.0]).reshape((2,) + (1,) * low.ndim)
        doubt = 16 * xp.finfo(ends.dtype).eps * size
        found = log_power + log1mexp(xp.minimum(ratio + outward * doubt, 0.0)) - outward * doubt
        found = xp.where(some, found, -xp.inf)
        rate = xp.exp(ratio[0] + log_power[0] - xp.where(found[0] > -xp.inf, found[0], 0.0))
        return found[0], xp.minimum(found[1], 0.0), rate

    def log_delta(self, eps, reverse):
        return self.bracket(eps, eps, reverse)[1]

    def log_told(self, reverse):
        """What is left beyond the last outcome, of which the logarithm is known to 2 ulp."""
        beyond, place = (
            (self.table.between.log_specificity, 0)
            if reverse
            else (self.table.between.log_power, -1)
        )
        told = xp.gathered(beyond[:, place], self.row.astype(xp.int32))
        off = 16 * xp.finfo(told.dtype).eps * xp.where(told > -xp.inf, 1 + xp.abs(told), 0.0)
        return told - off, xp.minimum(told + off, 0.0)

    def tail_mu(self):
        return self.mu

    def reversed(self):
        return ManyOutcomes(self.row, self.mu, self.table.reversed())

    def _on_lattices_only(self, *_):
        raise TypeError("many outcomes are for lattices")

    errors = slope = subsampled = _on_lattices_only


class Known(NamedTuple):
    """Brackets at ascending K = 1 + k: of E (K - M)_+ and Q(M < K) where k < 0,
    else of E (M - K)_+ and Q(M > K).
    """

    k: np.ndarray
    gain: tuple
    mass: tuple


def above(known):
    """A pair whose profile lies above: chords of the upper bounds' lower convex hull.

    On the left of K = 1 slopes are those of E (K - M)_+ = D(K) - (1 - K), which keep their digits.
    """
    k, gain = known.k, known.gain[1]
    left = k < 0
    call = np.where(left, gain - k, gain)
    put = np.where(left, gain, gain + k)
    kept: list = []

    def slope(i, j, of_put):
        if i < 0:
            found = put[j] / (1 + k[j])  # from D(0) = 1
        elif left[j]:
            found = (put[j] - put[i]) / (k[j] - k[i])
        else:
            found = (call[j] - call[i]) / (k[j] - k[i])
            return found + 1 if of_put else found
        return found if of_put else found - 1

    for j in range(len(k)):
        while kept:
            before = kept[-2] if len(kept) > 1 else -1
            of_put = bool(left[kept[-1]])
            if slope(before, kept[-1], of_put) < slope(kept[-1], j, of_put):
                break
            kept.pop()
        kept.append(j)
    changes, index = [], np.array(kept)
    for place, j in enumerate(kept):
        of_put = bool(left[j])
        before = slope(kept[place - 1] if place else -1, j, of_put)
        after = slope(j, kept[place + 1], of_put) if place + 1 < len(kept) else float(of_put)
        changes.append(after - before)
    null = np.array(changes)
    lost = max(put[kept[0]] / (1 + k[kept[0]]), 0.0)
    return _pair(k[index], null, (1 + k[index]) * null, lost, call[kept[-1]], call[index])


def below(known):
    """A pair whose profile lies below: the largest of lines that lie below.

    Through a lower bound L at K_j with the least slope alpha that is possible there: right on the
    left of K_j, and on its right too high by (most alpha - least alpha) (K - K_j) at most, until
    the line falls below 0 at K - K_j = L/alpha.
    """
    left = known.k < 0
    least, most = known.mass
    low = np.where(left, 1 - most, least)
    width = most - least
    gain = known.gain[0]
    call = np.where(left, gain - known.k, gain)
    fall = width * (call / np.maximum(low, 1e-300)) * (1 + 1e-9)
    use = (low > 0) & (gain - fall > 0)
    k, call, gain, low, left, most = (
        part[use] for part in (known.k, call - fall, gain - fall, low, left, most)
    )
    # lines as (K_j, D there, Q(M > K_j)), the first one 1 - K
    places: list = []
    slopes: list = []
    lines = [-1]

    def change(i, j):
        """Of slope, from the masses that are small."""
        if i < 0:
            return most[j] if left[j] else 1 - low[j]
        return most[j] - most[i] if left[j] and left[i] else low[i] - low[j]

    def crossing(i, j):
        """k where the lines meet."""
        drop = change(i, j)
        if not drop > 0:
            return np.nan
        if i < 0:
            # 1 - K = D_j - alpha_j (K - K_j)
            return k[j] - (gain[j] if left[j] else call[j] + k[j]) / drop
        if left[j] and left[i]:
            # puts: V_i + F_i (K - K_i) = V_j + F_j (K - K_j)
            return k[j] - (gain[j] - gain[i] - most[i] * (k[j] - k[i])) / drop
        return k[i] + (call[i] - call[j] - low[j] * (k[j] - k[i])) / drop

    for j in range(len(k)):
        while True:
            at = crossing(lines[-1], j)
            if np.isnan(at):
                break
            if not places or at > places[-1]:
                break
            lines.pop(), places.pop(), slopes.pop()
        if not np.isnan(at) and at > -1:
            slopes.append(change(lines[-1], j))
            places.append(at)
            lines.append(j)
    last = lines[-1]
    places.append(k[last] + call[last] / low[last])
    slopes.append(low[last])
    at, null = np.array(places), np.array(slopes)
    # between two outcomes the profile is a line, below the one that crosses its neighbours there
    own = np.array(lines[1:])
    values = [
        np.asarray(call[own], _LONG)
        - np.asarray(low[own], _LONG) * (np.asarray(ends, _LONG) - k[own])
        for ends in (at[:-1], at[1:])
    ]
    before = np.concatenate([[-np.asarray(at[0], _LONG)], values[1]])
    after = np.concatenate([values[0], [_LONG(0)]])
    at_most = np.maximum(np.minimum(before, after), 0)
    return _pair(at, null, (1 + at) * null, at_most=at_most)


_LONG = np.longdouble


def _sums(masses):
    """(above, below) between the outcomes, (n + 1,)."""
    masses = np.asarray(masses, _LONG)
    up = np.concatenate([np.cumsum(masses[::-1])[::-1], [_LONG(0)]])
    return up, np.concatenate([[_LONG(0)], np.cumsum(masses)])


def _pair(k, null, alternative, lost=0.0, endless=0.0, at_least=None, at_most=None):
    """(losses, `Point`) of these masses; lost: null mass at loss -inf, endless: alternative mass
    at inf.

    Its profile at the outcomes is compared with what it must bound, on both sides of each: what
    rounding took is added to `endless`, or taken from the alternative's masses.
    """
    null, alternative = np.maximum(null, 0.0), np.maximum(alternative, 0.0)
    up_q, down_q = _sums(null)
    size, shrink = 1 + np.asarray(k, _LONG), 0.0
    while True:
        up_p, down_p = _sums(alternative * (1 - shrink))
        profile = [up_p[part] - size * up_q[part] for part in (slice(1, None), slice(0, -1))]
        if at_least is not None:
            missing = np.max(np.asarray(at_least, _LONG) - np.minimum(*profile))
            endless = max(endless, float(missing), float(1 - up_p[0])) * (1 + 1e-15)
            break
        if np.all(np.maximum(*profile) <= at_most) and up_p[0] <= 1 or shrink == 1:
            break
        shrink = max(4 * shrink, 2.0**-50) if shrink < 1e-9 else 1.0
    up_p, down_q = up_p + _LONG(endless), down_q + _LONG(lost)
    with np.errstate(divide="ignore"):
        logs = [
            np.minimum(np.log(part), 0).astype(np.float64) for part in (up_q, down_q, down_p, up_p)
        ]
    return np.log1p(k), Point(*logs)
