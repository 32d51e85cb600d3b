"""DP-SGD in whole numbers: clipped gradients rounded to a grid, and normal noise rounded to it.

The grid is that of the noise: its standard deviation, clip_norm noise_multiplier, is 2^bits of it.
So sums are exact, in whichever order, and the release is floor(S + 2^bits N) for whole S: the
Gaussian mechanism's release on S, rounded. One example moves S by a vector k with

    |k| <= 2^bits/noise_multiplier  in exact arithmetic,

for it is rounded towards zero. Lengths are summed in float64, off by at most n 2^-53 for n squares
in any order, 1.2e-7 up to 1e9; a dozen operations in float32 follow, each off by at most 2^-22
(where a factor would be subnormal it is zero): together 3e-6, less than `clipping.MARGIN`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import POSITIVE, SCALE, check_number, check_whole, is_traced
from jaxpriv._types import Numbers
from jaxpriv.random_grid import BITS, EDGE, rounded_normal
from jaxpriv.training.clipping import (
    ClippedSum,
    as_groups,
    below_top,
    factors,
    in_microbatches,
    of_each,
    per_example,
)
from jaxpriv.training.groups import Groups

_LOST = 1 / 8  # most of clip_norm that rounding may take from a gradient
_TOP = 2**31 - 1


def grid_bits(noise_multipliers: Numbers, capacity: int, dim: int) -> int:
    """The finest grid on which a sum and its noise fit into 32 bits, whatever the gradients are.

    Args:
        noise_multipliers: in [1e-15, 1e15], of one step or of all.
        capacity: rows of the physical batch, in 1 ... 10^9. dim: number of parameters.

    Returns: an int in 0 ... 24: the noise's standard deviation is 2^bits of the grid.
    Guarantee: (capacity/noise + 12) 2^bits < 2^31, and rounding shortens no gradient by more than
        sqrt(dim) noise 2^-bits <= 1/8 of clip_norm, for each noise.
    Raises: ValueError for values outside their range, and where no grid does both.

        >>> grid_bits(1.0, 256, 10**6), grid_bits((0.5, 2.0), 4096, 10**6)
        (22, 17)
    """
    check_number("noise_multipliers", noise_multipliers, SCALE)
    check_whole("capacity", capacity)
    check_whole("dim", dim, most=2**32 - 1)
    noises = np.asarray(noise_multipliers)
    least, most = float(np.min(noises)), float(np.max(noises))
    bits = min(BITS, math.floor(math.log2(_TOP / (capacity / least + EDGE + 1))))
    lost = math.sqrt(dim) * most * 2.0**-bits
    if bits < 0 or lost > _LOST:
        raise ValueError(
            f"capacity = {capacity:,} rows leave {bits} bits below noise of multiplier {least:.3g}:"
            f" rounding could take {lost:.2g} of clip_norm from a gradient of {dim:,} entries; "
            "accepted: fewer rows or parameters, or noise multipliers closer to each other, so "
            "that it takes at most 1/8"
        )
    return bits


def clipped_sum_on_grid(
    loss: Callable[..., Any], parameters: Any, examples: Any, key: jax.Array | None = None, *,
    clip_norm: Any, noise_multiplier: Any, bits: int, mask: Any = None,
    microbatch: int | None = None, per_layer: bool | Groups = False,
) -> ClippedSum:  # fmt: skip
    """The sum over examples of g min(1, clip_norm/|g|), each rounded towards zero to the grid.

    Args:
        loss, parameters, examples, key, mask, microbatch, per_layer: as of `clipped_sum`; gradients
            are read in float32.
        clip_norm: in [1e-15, 1e15]. noise_multiplier: in [1e-15, 1e15], that of
            `private_mean_on_grid`. bits: in 0 ... 24, from `grid_bits`.

    Returns: a `ClippedSum`, whose total has whole numbers, int32, in units of
        clip_norm noise_multiplier 2^-bits.
    Guarantee: adding or removing one example, whatever it is, adds one vector of whole numbers to
        the total (modulo 2^32) or takes it away, of length at most 2^bits/noise_multiplier, in
        exact arithmetic; for arrays of at most 1e9 entries. Gradients that are not finite (with an
        entry or a length of 2^127 or more) count as zero.
    Raises: as `clipped_sum`, and ValueError for other noise multipliers and bits, and for sums that
        32 bits may not hold.
    Source: Abadi et al. 2016, Algorithm 1; rounded as in Kairouz et al. 2021 (arXiv:2102.06387),
        but towards zero.

        >>> import jax.numpy as jnp
        >>> found = clipped_sum_on_grid(lambda w, x, key: w @ x, jnp.zeros(2),
        ...                             jnp.array([[3.0, 4.0], [0.1, jnp.nan]]),
        ...                             clip_norm=1.0, noise_multiplier=2.0, bits=10)
        >>> print(found.total, int(found.non_finite))
        [307 409] 1
    """
    _check(clip_norm, noise_multiplier, bits)
    rows = max((jnp.shape(leaf)[0] for leaf in jax.tree.leaves(examples) if jnp.shape(leaf)),
               default=1)
    if not is_traced(noise_multiplier) and rows * 2.0**bits / noise_multiplier > _TOP:
        raise ValueError(f"bits = {bits}: the sum of {rows:,} examples may not fit into 32 bits; "
                         "accepted: those of grid_bits")
    # from a unit of length to the grid's
    per_unit = jnp.asarray(2.0**bits / noise_multiplier, jnp.float32) / clip_norm

    groups, shares = as_groups(per_layer).limits(parameters)

    def summed(leaves, present):
        flat = [leaf.astype(jnp.float32).reshape(len(leaf), -1) for leaf in leaves]
        lengths = jnp.stack([below_top(of_each(_length, rows)) for rows in flat], -1)
        each, norms = factors(lengths, _length, present, clip_norm, groups, shares)
        scale = (jnp.stack(each, -1) * per_unit).astype(jnp.float32)
        scale = jnp.where(scale < jnp.finfo(jnp.float32).tiny, 0.0, scale)

        totals = jax.lax.platform_dependent(flat, scale, cpu=_sum_by_rows, default=_sum_at_once)
        return [total.reshape(leaf.shape[1:]) for total, leaf in zip(totals, leaves)], norms

    some = per_example(loss, parameters, summed)
    return in_microbatches(some, parameters, examples, key, mask, microbatch, jnp.int32)


def private_mean_on_grid(
    words: jax.Array, total: Any, *, clip_norm: Any, noise_multiplier: Any, bits: int,
    expected_batch_size: Any,
) -> Any:
    """The release of DP-SGD: (total + floor(2^bits N) + 1/2), in units of clip_norm, over the
    expected batch size.

    Args:
        words: `UInt32[Array, "4"]`, a key as of `jaxpriv.random.rounded_normal`, used once.
        total: a pytree of int32, from `clipped_sum_on_grid`, summed over all devices, with the same
            clip_norm, noise_multiplier and bits.
        expected_batch_size: in (0, inf): sampling rate times number of records.

    Returns: a pytree like `total`, in float32: what is rounded after the noise tells nothing more.
    Guarantee: one step of `jaxpriv.worst_case.subsampled_gaussian` with this noise multiplier, for
        a batch sampled so, up to what `grid_delta` adds; not up to any rounding.
    Raises: ValueError for values outside their range, other keys and totals.
    Source: Abadi et al. 2016, Algorithm 1.

        >>> import jax.numpy as jnp
        >>> mean = private_mean_on_grid(
        ...     jnp.zeros(4, jnp.uint32), jnp.array([2048, 0], jnp.int32), clip_norm=1.0,
        ...     noise_multiplier=1.0, bits=10, expected_batch_size=1)
        >>> print(mean)  # 2 and 0, with noise of -761 and 373, of 1024
        [1.2573242 0.3647461]
    """
    _check(clip_norm, noise_multiplier, bits)
    if not is_traced(expected_batch_size):
        check_number("expected_batch_size", expected_batch_size, POSITIVE)
    leaves, structure = jax.tree.flatten(total)
    for leaf in leaves:
        if getattr(leaf, "dtype", None) != jnp.int32:
            raise ValueError(f"total has {getattr(leaf, 'dtype', type(leaf).__name__)}; "
                             "accepted: int32, from clipped_sum_on_grid")
    sizes = [leaf.size for leaf in leaves]
    noise = jnp.split(rounded_normal(words, sum(sizes), bits), np.cumsum(sizes)[:-1])
    unit = jnp.asarray(clip_norm * noise_multiplier, jnp.float32) * 2.0**-bits

    def noisy(leaf, own):
        whole = leaf + own.reshape(leaf.shape)
        return (whole.astype(jnp.float32) + 0.5) * unit / jnp.float32(expected_batch_size)

    return jax.tree.unflatten(structure, list(map(noisy, leaves, noise)))


def _check(clip_norm, noise_multiplier, bits):
    for name, value in (("clip_norm", clip_norm), ("noise_multiplier", noise_multiplier)):
        if not is_traced(value):
            check_number(name, value, SCALE)
    check_whole("bits", bits, 0, BITS)


def _rounded(row, scale):
    """Towards zero, so never longer; nothing of a row that is not finite, whose scale is 0."""
    return jnp.where(scale > 0, row * scale, 0.0).astype(jnp.int32)


def _sum_at_once(flat, scale):
    """The sums over rows of some arrays (rows, entries), rounded with the scales (rows, arrays)."""
    return [jnp.sum(_rounded(rows, scale[:, place, None]), 0, dtype=jnp.int32)
            for place, rows in enumerate(flat)]


def _sum_by_rows(flat, scale):
    """The same, row by row: XLA on CPUs makes a reduction of rounded rows from a second array of
    all.
    """
    def add(i, totals):
        return [total + _rounded(rows[i], scale[i, place])
                for place, (total, rows) in enumerate(zip(totals, flat))]

    zeros = [jnp.zeros(rows.shape[1], jnp.int32) for rows in flat]
    return jax.lax.fori_loop(0, len(scale), add, zeros, unroll=min(4, len(scale)))


def _length(rows):
    """The L2 norm along the last axis: squares in float64 neither overflow nor depend, up to
    n 2^-53, on the order in which n of them are added.
    """
    with jax.enable_x64(True):
        squares = jnp.sum(jnp.square(rows.astype(jnp.float64)), -1)
        return jnp.sqrt(squares).astype(jnp.float32)
