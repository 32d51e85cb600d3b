"""Derivatives of what is elementwise in a transform's parameters,
by all of them at once: one more axis.
"""

from typing import Any

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition.blocks import block_of_frequencies


def by_each(function, transform):
    """function(transform) differentiated by every real array of the transform,
    along a new first axis.

    Each entry of the result may depend on its own member's parameters alone:
    all members' are moved at once.
    """
    leaves, structure = jax.tree.flatten(transform)
    real = [k for k, leaf in enumerate(leaves) if xp.issubdtype(leaf.dtype, xp.inexact)]

    def moved(*values):
        given = dict(zip(real, values))
        return function(
            jax.tree.unflatten(structure, [given.get(k, leaf) for k, leaf in enumerate(leaves)])
        )

    at = tuple(leaves[k] for k in real)

    def along(unit):
        direction = tuple(part * xp.ones_like(leaf) for part, leaf in zip(unit, at))
        return jax.jvp(moved, at, direction)[1]

    return jax.vmap(along)(xp.like(xp.eye(len(at), dtype=at[0].dtype), at[0]))


@pytree
class ClosedSlopes:
    """d log M(c+iy)/M(c) beside log M(c+iy)/M(c) of a transform with a closed form."""

    transform: Any
    c: jax.Array
    spacing: jax.Array

    def _line(self, transform):
        return transform.tilted(self.c).line(self.spacing)

    def start(self):
        return self._line(self.transform).start()

    def advance(self, first):
        """As the line's own, with (real, imaginary) derivatives by every array behind."""
        after, ratio = self._line(self.transform).advance(first)
        return after, (*ratio, *by_each(lambda t: self._line(t).advance(first)[1], self.transform))


@pytree
class SampledSlopes:
    """The same of M(c+iy)/M(c) - 1 = sum_k w_k (e^(iy L_k) - 1), whose rows hold what moves it.

    With a_k the derivative of the log of the weights, for they are those of a law, and b_k that of
    the losses L_k of (1+u)^(s + i sign y), M(c+iy) moves, over M(c), by

        N(y) = sum_k w_k e^(iy L_k) (a_k + (s + i sign y) b_k),
        d log M(c+iy) = N(y)/(M(c+iy)/M(c)).

    N(0) = d log M(c) is known without cancellation; the differences from it are sums over
    e^(iy L_k) - 1.

    line: its rows are w, then w (a + s b) of every parameter, then w b; at_zero: N(0);
    mean: sum_k w_k b_k.
    """

    line: Any
    at_zero: jax.Array
    mean: tuple
    sign: jax.Array
    spacing: jax.Array

    def start(self):
        return self.line.start(), self.spacing / 2 + xp.zeros_like(self.sign)

    def advance(self, state):
        """As the line's own, with (real, imaginary) derivatives by every array behind."""
        walk, first = state
        y, after = block_of_frequencies(first, self.spacing)
        walk, ratio, (re, im) = self.line.rows_of(walk)
        count = len(self.at_zero)
        turn = self.sign * y
        still, moving = slice(1, 1 + count), slice(1 + count, None)
        mean_re, mean_im = (part[:, None] for part in self.mean)
        less_re, less_im = (self.at_zero[:, None] * part[:1] for part in (re, im))
        n_re = re[still] - turn * (mean_im + im[moving]) - less_re
        n_im = im[still] + turn * (mean_re + re[moving]) - less_im
        m_re, m_im = 1 + re[0], im[0]
        size = m_re * m_re + m_im * m_im + 1e-37
        by_re, by_im = (n_re * m_re + n_im * m_im) / size, (n_im * m_re - n_re * m_im) / size
        return (walk, after), (*ratio, by_re, by_im)
