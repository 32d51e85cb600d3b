"""Sums of clipped per-example gradients: the query of DP-SGD,
whose L2 sensitivity is the clipping norm.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import SCALE, check_floating, check_key, check_number, is_traced
from jaxpriv._types import Numbers
from jaxpriv.attacks.gradients import l2_norm
from jaxpriv.training.groups import Groups

# gradients end this share inside the clipping norm:
# more than a float32 norm of 1e9 entries is off by
MARGIN = 1e-5
_MANY = 192  # rows, from which on a CPU measures one after the other


class ClippedSum(NamedTuple):
    """What `clipped_sum` returns. Only `total`, with noise, is a private release; the rest is for
    those who hold the data.

    total: pytree like the parameters, in float32 at least: the sum of clipped gradients.
    norms: `Float[Array, "batch"]`, before clipping; 0 for padding, inf where a gradient is not
    finite. losses: `Float[Array, "batch"]`; 0 for padding.
    non_finite: `Int[Array, ""]`, how many gradients were not finite and counted as zero.
    """

    total: Any
    norms: jax.Array
    losses: jax.Array
    non_finite: jax.Array


def clipped_sum(
    loss: Callable[..., Any], parameters: Any, examples: Any, key: jax.Array | None = None, *,
    clip_norm: float | jax.Array, mask: Numbers | None = None, microbatch: int | None = None,
    per_layer: bool = False,
) -> ClippedSum:
    """The sum over examples of g min(1, clip_norm/|g|), g the gradient of the loss at one example.

    Args:
        loss: (parameters, example, key) -> scalar, for a single example without a batch axis.
        parameters: a pytree of real floating-point arrays.
        examples: a pytree of arrays with one leading axis, the batch.
        key: a JAX key, of which every example gets its own; None is handed on as None.
        clip_norm: in [1e-15, 1e15].
        mask: `Bool[Array, "batch"]`, False for padding, which counts nothing;
            all True unless given.
        microbatch: examples at once, a divisor of the batch; all of them unless given. No more
            gradients are in memory.
        per_layer: True: clip each of the L arrays of the parameters to clip_norm/L^1/2, instead of
            all together; `Groups`: clip each group of arrays to its share of clip_norm.

    Returns: a `ClippedSum`.
    Guarantee: adding or removing one example, whatever it is, moves `total` by at most clip_norm in
        L2 norm, up to the rounding of the sum; gradients that are not finite (in float32: with an
        entry or a length of 2^127 or more) count as zero.
    Raises: ValueError for clip_norm outside its range, other parameters, examples without a common
        axis, a microbatch that does not divide it, and old-style keys.
    Source: Abadi et al. 2016, Algorithm 1.

        >>> import jax.numpy as jnp
        >>> def loss(w, x, key):
        ...     return w @ x
        >>> found = clipped_sum(loss, jnp.zeros(2),
        ...                     jnp.array([[3.0, 4.0], [0.1, 0.0], [jnp.nan, 1.0]]), clip_norm=1.0)
        >>> print(f"{found.total[0]:.3f} {found.total[1]:.3f}", int(found.non_finite))
        0.700 0.800 1
    """
    if not is_traced(clip_norm):
        check_number("clip_norm", clip_norm, SCALE)
    groups, shares = as_groups(per_layer).limits(parameters)

    def summed(leaves, present):
        return clipped(list(map(rows_of, leaves)), present, clip_norm, groups, shares)

    some = per_example(loss, parameters, summed)
    return in_microbatches(some, parameters, examples, key, mask, microbatch)


def per_example(loss, parameters, summed):
    """some(examples, mask, keys) -> the `ClippedSum` of a microbatch, by gradients in memory.

    summed: (arrays of gradients with a leading axis, which of them count) -> (their sums, norms).
    """
    def some(examples, present, keys):
        values, gradients = jax.vmap(jax.value_and_grad(loss), (None, 0, 0))(
            parameters, examples, keys
        )
        leaves, structure = jax.tree.flatten(gradients)
        sums, norms = summed(leaves, present)
        return found_in(jax.tree.unflatten(structure, sums), norms, values, present)

    return some


def in_microbatches(some, parameters, examples, key, mask, microbatch, dtype=None):
    """The `ClippedSum` of a batch, from that of a microbatch: some(examples, mask, keys).

    dtype: of the sums, `wide` of the parameters unless given.
    """
    if key is not None:
        check_key("key", key)
    check_floating("parameters", parameters)
    sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(examples)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            f"examples has leading axes {sorted(sizes)}; accepted: one common leading axis"
        )
    ((size,),) = sizes
    microbatch = size if microbatch is None else microbatch
    if microbatch < 1 or size % microbatch:
        raise ValueError(f"microbatch = {microbatch} does not divide the batch of {size}")
    mask = jnp.ones(size, bool) if mask is None else jnp.asarray(mask, bool)
    keys = None if key is None else jax.random.split(key, size)
    if microbatch == size:  # outside a loop XLA compiles some convolutions to faster code
        return some(examples, mask, keys)

    def add(total, rows):
        found = some(*rows)
        return jax.tree.map(jnp.add, total, found.total), found._replace(total=None)

    zero = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), dtype or wide(leaf)), parameters)
    rows = jax.tree.map(
        lambda leaf: jnp.reshape(leaf, (size // microbatch, microbatch, *jnp.shape(leaf)[1:])),
        (examples, mask, keys),
    )
    total, found = jax.lax.scan(add, zero, rows)
    return ClippedSum(
        total, found.norms.reshape(size), found.losses.reshape(size), jnp.sum(found.non_finite)
    )


def found_in(total, norms, values, present):
    """The `ClippedSum` of a microbatch."""
    return ClippedSum(total, jnp.where(present, norms, 0.0),
                      jnp.where(present, values.astype(norms.dtype), 0.0),
                      jnp.sum(present & ~jnp.isfinite(norms)))


def wide(*leaves):
    """At least float32: sums of thousands of gradients in bfloat16 would lose the small ones."""
    return jnp.promote_types(jnp.result_type(*leaves), jnp.float32)


def as_groups(per_layer):
    """One group for each array, or for all of them, or those that were given."""
    if isinstance(per_layer, Groups):
        return per_layer
    if per_layer not in (True, False):
        raise ValueError(f"per_layer = {per_layer!r}; accepted: True, False, Groups")
    return Groups((lambda path: path) if per_layer else (lambda path: ""))


class Part(NamedTuple):
    """The gradients of one array of the parameters: their lengths, `Float[Array, "batch"]`, inf
    where one is not finite, and summed(scales), the sum of the gradients times these factors, which
    are 0 where a gradient is not finite.
    """

    lengths: jax.Array
    summed: Callable


def rows_of(gradients):
    """The `Part` of per-example gradients, in float32 at least."""
    # one row per example: norm and sum then read the same array, and it is the only one of its size
    rows = finite(gradients.astype(wide(gradients)).reshape(len(gradients), -1))

    def summed(scales):
        # full precision: accelerators would round the factors to less than the margin
        flat = jnp.matmul(scales.astype(rows.dtype), rows, precision="highest")
        return flat.reshape(gradients.shape[1:])

    return Part(below_top(of_each(l2_norm, rows)), summed)


def of_each(length, rows):
    """length(rows), of each row. XLA's code for many rows at once takes several times as long on a
    CPU as one row after the other (`bench/clipping.py`); an accelerator has no use for such a loop.
    """
    if len(rows) <= _MANY:
        return length(rows)
    return jax.lax.platform_dependent(
        rows, cpu=lambda rows: jax.lax.map(length, rows), default=length)


def clipped(parts, present, clip_norm, groups, shares):
    """(for each part the sum of its gradients scaled into the norm, the gradients' norms; inf where
    one is not finite).
    """
    lengths = jnp.stack([part.lengths for part in parts], -1)
    each, norms = factors(lengths, l2_norm, present, clip_norm, groups, shares)
    return [part.summed(scale) for part, scale in zip(parts, each)], norms


def factors(lengths, length, present, clip_norm, groups, shares):
    """(of each array what part of the gradients counts, the gradients' norms; inf where one is not
    finite).

    lengths: `Float[Array, "examples arrays"]` from `below_top`; length(array) is theirs together.
    groups: of each array; shares: of the norm, of each group.
    """
    norms = jnp.where(jnp.all(jnp.isfinite(lengths), -1), length(lengths), jnp.inf)
    bound, counts = (1 - MARGIN) * clip_norm, present & jnp.isfinite(norms)

    def factor(measured, limit):
        over = measured > limit
        found = jnp.where(over, limit / jnp.where(over, measured, 1.0), 1.0)
        # no limit is no limit that nothing is above
        found = jnp.where(jnp.isnan(limit), jnp.nan, found)
        # a subnormal one has so few digits that what is left could be too long
        return jnp.where(counts & ~(found < jnp.finfo(found.dtype).tiny), found, 0.0)

    together = norms[:, None] if len(shares) == 1 else jnp.stack(
        [length(lengths[:, np.equal(groups, group)]) for group in range(len(shares))], -1
    )
    return [factor(together[:, group], bound * shares[group]) for group in groups], norms


def top(array):
    """What counts as not finite from here on: a power of two, which is finite in bfloat16 too."""
    return 2.0 ** (jnp.finfo(array.dtype).maxexp - 1)


def below_top(lengths):
    """inf for what is too long."""
    return jnp.where(lengths < top(lengths), lengths, jnp.inf)


def finite(array):
    """NaN and infinities become `top`: their gradient's length shows them,
    and 0 times it is 0, not NaN.
    """
    return jnp.where(jnp.abs(array) < top(array), array, top(array))
