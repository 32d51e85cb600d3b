"""Suprema over an interval: certified by cells that are split, and estimated from values alone."""

import numpy as np

from jaxpriv import _array as xp

_SPLIT, _KEPT, _ROUNDS = 8, 12, 4  # of a program; NumPy keeps what is above, and ends when done
_DEEPEST = 10
_ROWS = 3
_COARSE, _FINE = 24, 4


def supremum(look, stop, tolerance=2e-7, least=0.0, most=10):
    """Certified (lower, upper) of the supremum of a function over [0, stop].

    look: rows of ascending points (k, n + 1), a level -> (upper bounds on the cells in between
    (k, n), a certified lower bound, the next level). A cell whose bound exceeds the level, which
    is about the largest value seen, by more than this share of it and `least`, is split, by NumPy
    at most so many in a round; what is dropped counts with its bound.
    """


    def cells(rows):
        return rows[:, :-1].ravel(), rows[:, 1:].ravel()

    ends = stop * xp.linspace(0.0, 1.0, _ROWS * _SPLIT + 1, dtype=stop.dtype)
    rows = xp.stack([ends[k * _SPLIT : (k + 1) * _SPLIT + 1] for k in range(_ROWS)])
    bounds, reached, level = look(rows, xp.zeros_like(stop))
    state = xp.zeros_like(reached), reached, level, *cells(rows), bounds.ravel()

    def above(state):
        _, _, level, _, _, bounds = state
        return bounds > level * (1 + tolerance) + least

    def split(_, state):
        settled, reached, level, left, right, bounds = state
        if xp.any_jax(bounds):
            top, index = xp.largest(bounds, _KEPT + 1)
            index, rest = index[:-1], top[-1]
        else:
            chosen = np.flatnonzero(above(state))
            index = chosen[np.argsort(-bounds[chosen])[:most]]
            rest = np.max(np.delete(bounds, index), initial=0.0)
        share = xp.linspace(0.0, 1.0, _SPLIT + 1, dtype=left.dtype)
        rows = left[index][:, None] + (right - left)[index][:, None] * share
        # the ends are kept exactly, so that cells leave no gap
        rows = xp.concatenate([left[index][:, None], rows[:, 1:-1], right[index][:, None]], 1)
        bounds, more, level = look(rows, level)
        return (
            xp.maximum(settled, rest),
            xp.maximum(reached, more),
            level,
            *cells(rows),
            bounds.ravel(),
        )

    if xp.any_jax(state):
        state = xp.fori_loop(0, _ROUNDS, split, state)
    else:
        for _ in range(_DEEPEST):
            if not above(state).any():
                break
            state = split(_, state)
    settled, reached, _, _, _, bounds = state
    return reached, xp.maximum(settled, xp.max(bounds))


def summit(height, low, high, looks=3):
    """Where height (points (k, ...) -> (k, ...)) is largest on [low, high], elementwise:
    of 25 points the best, then 9 around it, so many times, and the top of the last parabola.
    """

    def spread(count):
        return xp.linspace(0.0, 1.0, count + 1, dtype=low.dtype).reshape(
            (-1,) + (1,) * low.ndim
        )

    def best_of(points):
        values = height(points)
        index = xp.argmax(values, 0)[None]
        return points, values, index

    points, _, index = best_of(low + (high - low) * spread(_COARSE))
    width = (high - low) / _COARSE
    for _ in range(looks):
        middle = xp.take_along_axis(points, index, 0)
        start, stop = xp.maximum(middle - width, low), xp.minimum(middle + width, high)
        points, values, index = best_of(start + (stop - start) * spread(2 * _FINE))
        width = width / _FINE
    inner = xp.clip(index, 1, 2 * _FINE - 1)
    before, top, after = (xp.take_along_axis(values, inner + k, 0)[0] for k in (-1, 0, 1))
    at, step = xp.take_along_axis(points, inner, 0)[0], (points[1] - points[0])
    bend = before - 2 * top + after
    shift = xp.where(bend < 0, 0.5 * (before - after) / xp.where(bend < 0, bend, -1.0), 0.0)
    found = xp.take_along_axis(points, index, 0)[0]
    proper = (index[0] == inner[0]) & (xp.abs(shift) <= 1)
    return xp.clip(xp.where(proper, at + shift * step, found), low, high)
