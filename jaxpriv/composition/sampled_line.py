"""Along a vertical line: the transform of a sampled mechanism from its nodes, frequency by
frequency.
"""

import math
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree


@pytree
class SampledLine:
    """M(c+iy)/M(c) - 1 = sum_k weight_k (e^(iy L_k) - 1), some blocks of frequencies at a time as a
    product of matrices.

    first: the brackets e^(iy L_k) - 1 at the first y; turns: (row, nodes, ...), those at the
    differences within a row of frequencies; rows: (rows, nodes, ...), those at the rows'
    differences; turn: at what all rows go on by; always: the line at rate 1, and whether it is
    that.
    """

    weight: tuple
    first: tuple
    turns: tuple
    rows: tuple
    turn: tuple
    always: Any

    def start(self):
        """The brackets at the first y, the angle of M there before, with how often it has turned;
        and the start of `always`.
        """
        zero = xp.zeros_like(self.weight[0][0, 0])
        return self.first, zero, zero, () if self.always is None else self.always[0].start()

    def wider(self, times):
        """The same path by so many times as many rows at a time, a power of 2; by NumPy."""
        turn, rows = self.turn, self.rows
        while len(rows[0]) < times * len(self.rows[0]):
            turn, rows = compounded(turn, turn), _both(rows, compounded(rows, turn))
        always = self.always and (self.always[0].wider(times), self.always[1])
        return replace(self, rows=rows, turn=turn, always=always)

    def advance(self, state):
        """(the next rows' start, (log modulus, angle) at these frequencies);
        the angle follows M continuously.
        """
        return self.rows_of(state)[:2]

    def rows_of(self, state):
        """The same, and the sums of all rows of weights times e^(iy L_k) - 1: (re, im) of
        (rows, frequencies, ...).
        """
        start, before, turned, walk = state
        wr, wi = (part[:, None] for part in self.weight)
        er, ei = compounded(start, self.rows)
        at_start = wr * er - wi * ei, wr * ei + wi * er
        shape = at_start[0].shape  # rows of weights, rows of frequencies, nodes, ...
        weights = xp.concatenate(
            [(at + w).reshape((-1, *shape[2:])) for at, w in zip(at_start, (wr, wi))]
        )
        by_re, by_im = (xp.contracted(weights, part) for part in self.turns)
        count = shape[0] * shape[1]
        of_rows = (by_re[:count] - by_im[count:], by_re[count:] + by_im[:count])
        re, im = (
            (xp.sum(at, 2).reshape((count, 1, *shape[3:])) + part).reshape(
                (shape[0], -1, *shape[3:])
            )
            for at, part in zip(at_start, of_rows)
        )
        size, angle = _log_one_and(re[0], im[0])
        jumps = xp.diff(xp.stop_gradient(angle), axis=0, prepend=before[None])
        turns = turned - xp.cumsum(xp.round(jumps / (2 * math.pi)), 0)
        followed = angle + 2 * math.pi * turns
        if self.always is not None:
            walk, always = self.always[0].advance(walk)
            size, followed = (
                xp.where(self.always[1], exact, value)
                for exact, value in zip(always, (size, followed))
            )
        after = xp.stop_gradient(angle[-1])
        return (compounded(start, self.turn), after, turns[-1], walk), (size, followed), (re, im)


def _log_one_and(re, im):
    """(log modulus, angle) of 1 + re + i im."""
    less = re * (2 + re) + im * im  # its square's modulus, less 1
    near = less > -0.3
    far = xp.log((1 + re) ** 2 + im * im + 1e-37)
    return 0.5 * xp.where(near, xp.log1p(xp.where(near, less, 0.0)), far), xp.arctan2(im, 1 + re)


def compounded(one, other):
    """(1 + a)(1 + b) - 1 of complex numbers."""
    (ar, ai), (br, bi) = one, other
    return ar + br + ar * br - ai * bi, ai + bi + ar * bi + ai * br


def product(one, other):
    """(re, im) of complex numbers."""
    (ar, ai), (br, bi) = one, other
    return ar * br - ai * bi, ar * bi + ai * br


def powers(one, count):
    """((1 + a)^count - 1, [(1 + a)^k - 1 for k < count]) of a complex number a, count a power of 2:
    in a program one by one, by NumPy twice as many each time.
    """
    none = jax.tree.map(xp.zeros_like, one)
    if count == 1:
        return one, jax.tree.map(lambda part: part[None], none)
    if xp.any_jax(one):
        return xp.scan(lambda power, _: (compounded(power, one), power), none, length=count)
    turn, found = one, jax.tree.map(lambda part: part[None], none)
    while len(found[0]) < count:
        more = compounded(found, turn)
        turn, found = compounded(turn, turn), _both(found, more)
    return turn, found


def _both(one, other):
    """Two stacks of complex numbers as one."""
    return tuple(map(np.concatenate, zip(one, other)))


def expm1_i(y, re, im):
    """e^(iy (re + i im)) - 1."""
    shrink = -y * im
    turn = y * re
    return xp.expm1(shrink) * xp.cos(turn) - 2 * xp.sin(turn / 2) ** 2, xp.exp(shrink) * xp.sin(
        turn
    )
