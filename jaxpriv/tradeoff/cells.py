"""Suprema over an interval: certified by cells that are split, and estimated from values alone."""

import numpy as np

from jaxpriv import _array as xp

_SPLIT = 8
# of a program; NumPy begins with few cells, splits those that are too high, and ends when none is
_KEPT, _ROUNDS = 12, 5
_FIRST, _DEEPEST = 3, 11
_PATIENT = 2  # rounds in which the highest bound has to fall
_TOLERANCE = 2e-7  # relative, by which a bound may exceed the level
_ROUGH = 1e-3  # the same of rough bounds
_POINTS = 17
_CORNERS = 257  # points of a look for the highest of many corners


def supremum(look, stop, least=0.0, most=10, first=None):
    """Certified (lower, upper) of the supremum of a function >= 0 over [0, stop].

    look: rows of ascending points (k, n + 1), a level -> (upper bounds on the cells in between
    (k, n), a certified lower bound, the next level). A cell whose bound exceeds the level, which
    is about the largest value seen, by more than a share of it and `least`, is split, by NumPy
    at most so many in a round, the highest first; what is not split counts with its bound.

    first: a `look` that takes less and tells less, whose levels are certified; by NumPy it finds
    the cells that `look` is asked about.
    """
    program = xp.any_jax(stop)
    count, entries = (_KEPT, _KEPT * _SPLIT) if program else (_FIRST, _FIRST)
    ends = stop * xp.linspace(0.0, 1.0, count + 1, dtype=stop.dtype)
    none = xp.zeros((entries - count,), stop.dtype)
    left, right = (xp.concatenate([some, none]) for some in (ends[:-1], ends[1:]))
    bounds = xp.concatenate([xp.full_like(ends[1:], xp.inf), none])
    zero = xp.zeros_like(stop)

    def above(state, tolerance=_TOLERANCE):
        _, _, level, _, _, bounds = state
        return bounds > level * (1 + tolerance) + least

    def split(look, state, tolerance=_TOLERANCE):
        settled, reached, level, left, right, bounds = state
        if program:
            top, index = xp.largest(bounds, _KEPT + 1)
            index, rest, later = index[:-1], top[-1], slice(0)
        else:
            # those that are only a little too high wait for a look that tells more
            high, split_now = above(state), np.sum(above(state, tolerance))
            index, later = np.split(
                np.argsort(-bounds)[: np.sum(high)], [np.minimum(split_now, most)]
            )
            rest = np.max(bounds[~high], initial=0.0)
        waiting = left[later], right[later], bounds[later]
        left, right = left[index][:, None], right[index][:, None]
        inner = left + (right - left) * xp.linspace(0.0, 1.0, _SPLIT + 1, dtype=left.dtype)[1:-1]
        # the ends are kept exactly, so that cells leave no gap
        rows = xp.concatenate([left, inner, right], 1)
        bounds, more, level = look(rows, level)
        cells = rows[:, :-1].ravel(), rows[:, 1:].ravel(), bounds.ravel()
        cells = [xp.concatenate(both) for both in zip(cells, waiting)]
        return xp.maximum(settled, rest), xp.maximum(reached, more), level, *cells

    def divided(look, state, tolerance):
        """Until no bound is above the level, or none falls any more."""
        highest = [np.inf] * (_PATIENT + 1)
        for _ in range(_DEEPEST):
            # where brackets stay as wide as they are, smaller cells are of no use
            stuck = highest[-1] > highest[-1 - _PATIENT] * (1 - tolerance)
            if stuck or not above(state, tolerance).any():
                break
            state = split(look, state, tolerance)
            highest.append(np.max(state[-1]))
        return state

    state = zero, zero, zero, left, right, bounds
    if program:
        state = xp.fori_loop(0, _ROUNDS, lambda _, state: split(look, state), state)
    else:
        if first is not None:
            state = divided(first, state, _ROUGH)
        state = divided(look, state, _TOLERANCE)
    settled, reached, _, _, _, bounds = state
    return reached, xp.maximum(settled, xp.max(bounds))


def summit(height, high, corners):
    """Where height (points (k, ...) -> (k, ...)) is largest on [0, high], elementwise: of 17 points
    the best, then of 17 between its neighbours, and so on; at last the top of the parabola.

    corners: is it the largest of many, and at a corner? Then of more points, and no parabola helps.
    """
    count, looks = (_CORNERS, 6) if corners else (_POINTS, 4)
    offsets = xp.linspace(-1.0, 1.0, count, dtype=high.dtype)
    offsets = offsets.reshape((-1,) + (1,) * high.ndim)

    def look(_, state):
        middle, width, *_ = state
        start, stop = xp.maximum(middle - width, 0.0), xp.minimum(middle + width, high)
        points = 0.5 * (start + stop) + 0.5 * (stop - start) * offsets
        values = height(points)
        index = xp.argmax(values, 0)[None]
        best = xp.take_along_axis(points, index, 0)[0]
        inner = xp.clip(index, 1, count - 2)
        before, top, after = (xp.take_along_axis(values, inner + k, 0)[0] for k in (-1, 0, 1))
        bend = before - 2 * top + after
        shift = xp.where(bend < 0, 0.5 * (before - after) / xp.where(bend < 0, bend, -1.0), 0.0)
        proper = (index == inner)[0] & (xp.abs(shift) <= 1)
        step = points[1] - points[0]
        found = xp.where(proper, xp.clip(best + shift * step, 0.0, high), best)
        return best, step, found

    start = 0.5 * high, 0.5 * high, high
    return xp.fori_loop(0, looks, look, start)[2]
