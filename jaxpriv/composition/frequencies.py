"""Along a vertical line: the integrand of an inverse transform, frequency by frequency, until it is
negligible.
"""

from typing import Any, NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv.composition.blocks import BLOCK, LONG, TIMES, blocks_at_once
from jaxpriv.composition.line import on_axis, over_steps

LIMIT = 4096  # blocks of frequencies
_LOOK = 64  # blocks after which it shows whether the frequencies will end


class Sums(NamedTuple):
    """What the frequencies add up to, relative to the integrand at y = 0.

    value; slope: the integrand times t - pole; size: of moduli times their relative rounding errors
    in ulp; rest, alive: the largest modulus in the last block, with the kernel and without; reach:
    the frequency reached.
    """

    value: jax.Array
    slope: jax.Array
    size: jax.Array
    rest: jax.Array
    alive: jax.Array
    reach: jax.Array


class Block(NamedTuple):
    """Some frequencies y and there log (M(c+iy)/M(c)) of all steps; what is known of its rounding,
    in ulp, but for eps.

    integrand: (re, im) with the kernel and e^(-eps t); ratios: for every term what its path gives,
    (log modulus, angle, ...) of its members.
    """

    y: jax.Array
    log_size: jax.Array
    angle: jax.Array
    ulps: jax.Array
    integrand: tuple
    ratios: Any


def kernel(kind, a, y):
    """The kernel over its value at y = 0: a/(a+iy), times (1+a)/(1+a+iy) where it is double."""
    size = a / (a * a + y * y)
    re, im = a * size, -y * size
    b = 1 + a
    other = b / (b * b + y * y)
    both = b * re * other + im * y * other, b * im * other - re * y * other
    return xp.where(kind.double, both[0], re), xp.where(kind.double, both[1], im)


def summed(kind, a, eps, y, log_size, angle, ulps):
    """(`Sums` of these frequencies, whose last block is negligible or not; the integrand)."""
    angle = angle - eps * y
    kr, ki = kernel(kind, a, y)
    size = xp.exp(log_size)
    cos, sin = size * xp.cos(angle), size * xp.sin(angle)
    re, im = cos * kr - sin * ki, cos * ki + sin * kr
    modulus = size * xp.sqrt(kr * kr + ki * ki)
    ulps = ulps + 2 * xp.abs(angle) + 2 * xp.abs(eps * y)
    value, slope, rounding = (xp.sum(part, 0) for part in (re, re * a - im * y, modulus * ulps))
    last = slice(-BLOCK, None)
    rest, alive = xp.max(modulus[last], 0), xp.max(size[last], 0)
    return Sums(value, slope, rounding, rest, alive, y[-1]), (re, im)


def plain_paths(tilts, line):
    """What `follow` goes along where no derivative is wanted."""
    return [tilt.line(line.spacing[..., None]) for tilt in tilts]


def follow(terms, eps, kind, line, tilts, paths, visit, start, stop, limit=LIMIT, patience=None):
    """Loop over the frequencies until the integrand is negligible and y >= stop: `visit` folds into
    its state.

    visit(state, `Block`) for every block of frequencies, along the first axis. Returns (state,
    Sums, done): not done where only `patience` ended the loop.
    """
    a = line.side * line.d
    doubt = over_steps(terms, [tilt.doubt() for tilt in tilts])
    far = xp.abs(on_axis(kind, line.side, line.d)) + 1
    zero = xp.zeros_like(eps)

    def going(paths, at_once):
        """A turn of the loop, by so many blocks."""
        steps = xp.arange(BLOCK * at_once, dtype=eps.dtype).reshape((-1,) + (1,) * eps.ndim)

        def turn(carry):
            index, walks, sums, apart, state = carry
            y = (BLOCK * index + steps + 0.5) * line.spacing
            walks, ratios = zip(*(path.advance(walk) for path, walk in zip(paths, walks)))
            log_size, angle = (over_steps(terms, one) for one in list(zip(*ratios))[:2])
            # rounding of M(c+iy)/M(c): E|e^(iyL) - 1| <= (2 E(1 - cos yL))^1/2 for each step, at
            # this frequency and at those whose turns it is made of, and as many roundings as the
            # brackets have been carried on from one block to the next
            farthest = [_farthest(most, _apart(one)) for most, one in zip(apart, ratios)]
            unrest = over_steps(terms, list(map(_unrest, farthest, ratios)))
            ulps = 16 + (32 + 2 * index) * unrest + doubt * (far + y)
            more, integrand = summed(kind, a, eps, y, log_size, angle, ulps)
            sums = Sums(
                sums.value + more.value,
                sums.slope + more.slope,
                sums.size + more.size,
                more.rest,
                more.alive,
                more.reach + 0.5 * line.spacing,
            )
            state = visit(state, Block(y, log_size, angle, ulps, integrand, ratios))
            return index + at_once, walks, sums, tuple(one[-1] for one in farthest), state

        return turn

    def unfinished(index, sums):
        goes_on = (sums.rest > 1e-17 * xp.abs(sums.value)) | (sums.reach < stop)
        # what falls as slowly as this, though it were as fast as a normal law's, would not be done
        # in the end
        hopeless = (index >= _LOOK) & (xp.log(sums.alive) * (limit / index) ** 2 > -18.0)
        return goes_on & ~hopeless

    def up_to(end):
        return lambda carry: (carry[0] < end) & xp.any(unfinished(carry[0], carry[2]))

    most = limit if patience is None else patience
    sums = Sums(zero, zero, zero, zero + xp.inf, zero + 1, zero)
    apart = tuple(xp.zeros_like(term.count) for term in terms)
    carry = (xp.zeros((), eps.dtype), tuple(path.start() for path in paths), sums, apart, start)
    at_once = blocks_at_once(line.spacing)
    # a program has one loop, and paths with derivatives have none that goes on by more
    if not xp.any_jax(carry, line, terms) and all(hasattr(path, "wider") for path in paths):
        carry = xp.while_loop(up_to(min(LONG, most)), going(paths, at_once), carry)
        if up_to(most)(carry):
            paths, at_once = [path.wider(TIMES) for path in paths], TIMES * at_once
    index, _, sums, _, state = xp.while_loop(up_to(most), going(paths, at_once), carry)
    return state, sums, ~unfinished(index, sums)


def _apart(ratio):
    """(2 Re(1 - phi))^1/2 from log phi."""
    log_size, angle, *_ = ratio
    return xp.sqrt(2 * (-xp.expm1(xp.minimum(log_size, 0.0)) + 2 * xp.sin(angle / 2) ** 2))


def _farthest(before, apart):
    """For every frequency the largest up to its block's end, `before` included."""
    blocks = xp.max(apart.reshape((-1, BLOCK, *apart.shape[1:])), 1)
    return xp.repeat(xp.running_max(xp.maximum(blocks, before)), BLOCK, 0)


def _unrest(apart, ratio):
    """What an error of `apart` in phi is in log phi, and |log phi|, whose own rounding it has."""
    log_size, *_ = ratio
    return apart * xp.exp(-xp.maximum(log_size, -40.0)) + xp.minimum(xp.abs(log_size), 50.0)
