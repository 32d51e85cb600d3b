"""Sums of clipped gradients without per-example gradients of matrices: their lengths from what goes
into a layer and the cotangent of what comes out ("ghost" clipping).
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxpriv._checks import SCALE, check_floating, check_number, is_traced
from jaxpriv._types import Numbers
from jaxpriv.attacks.gradients import l2_norm
from jaxpriv.training.clipping import (
    ClippedSum,
    Part,
    as_groups,
    clipped,
    found_in,
    in_microbatches,
    rows_of,
    top,
    wide,
)
from jaxpriv.training.groups import Groups
from jaxpriv.training.uses import laid_open, uses_of

# entries of a row that are multiplied and added in one go: see `_squared`
_PIECE = 128


def ghost_clipped_sum(
    loss: Callable[..., Any], parameters: Any, examples: Any, key: jax.Array | None = None, *,
    clip_norm: Numbers, mask: Any = None, microbatch: int | None = None,
    per_layer: bool | Groups = False,
) -> ClippedSum:
    """`clipped_sum` without per-example gradients of matrices in memory ("ghost clipping").

    A matrix that is multiplied once by what depends on the example (dense layers, the projections
    of attention), or a table that is looked up once (embeddings), has a gradient of p d entries
    that is a sum of t products of what goes in, p numbers, and the cotangent of what comes out, d:
    where t (p + d) < p d, only those are kept. All else has ordinary per-example gradients: small
    matrices (adapters), biases, convolutions, what is used more than once (tied weights), in loops,
    or in functions with derivatives of their own.

    Args: as `clipped_sum`.
    Returns: a `ClippedSum`, that of `clipped_sum` up to rounding and to two differences. Norms are
        too large, never too small: n by up to 1.4e-5 S^2/n of each such layer's gradient, S the sum
        of the t products' lengths, S^2 about t n^2 for rows without a common direction (float32; in
        float64 3e-14). And such a layer's rows of length 2^126 or more count as not finite.
    Guarantee: as of `clipped_sum`. One backward pass gives norms and sum, from the same numbers.
    Raises: ValueError as `clipped_sum`; TypeError for a loss that is no scalar.
    Source: Goodfellow 2015; Lee and Kifer 2021; Li et al. 2022, section 4; Bu et al. 2023, who use
        one backward pass.

        >>> import jax, jax.numpy as jnp
        >>> def loss(w, x, key):
        ...     return jnp.sum((x @ w)[0])
        >>> x = jnp.array([[3.0, 4.0], [0.1, 0.0], [jnp.nan, 1.0]])
        >>> found = ghost_clipped_sum(loss, jnp.zeros((2, 5)), x, clip_norm=1.0)
        >>> print(f"{found.total[0, 0]:.3f} {found.total[1, 0]:.3f}", int(found.non_finite))
        0.700 0.800 1
    """
    if not is_traced(clip_norm):
        check_number("clip_norm", clip_norm, SCALE)
    check_floating("parameters", parameters)
    leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, parameters))
    groups, shares = as_groups(per_layer).limits(parameters)

    def some(examples, present, keys):
        traced, uses = _traced(loss, parameters, (examples, keys))
        hidden = [use for use in uses if use]
        operands = {use.path: use.operand for use in hidden}

        # what layers compute between products is computed again, not kept
        @functools.partial(
            jax.checkpoint, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        )
        def opened(ordinary, tokens, example, its_key):
            rest = iter(ordinary)
            given = [leaf if use else next(rest) for leaf, use in zip(leaves, uses)]
            results, met = laid_open(traced.jaxpr, traced.consts,
                                     jax.tree.leaves((given, example, its_key)), operands,
                                     dict(zip(operands, tokens)))
            # what is no scalar gets the error of `jax.value_and_grad`
            return results[0] if len(results) == 1 else results, [met[path] for path in operands]

        ordinary = [leaf for leaf, use in zip(leaves, uses) if not use]
        out = [use.equation.outvars[0].aval for use in hidden]
        tokens = [jnp.zeros(each.shape, each.dtype) for each in out]
        (values, met), (gradients, deltas) = jax.vmap(
            jax.value_and_grad(opened, (0, 1), has_aux=True), (None, None, 0, 0)
        )(ordinary, tokens, examples, keys)
        rows, products = map(rows_of, gradients), zip(met, deltas)
        parts = [_products_of(use, leaf, *next(products)) if use else next(rows)
                 for leaf, use in zip(leaves, uses)]
        sums, norms = clipped(parts, present, clip_norm, groups, shares)
        return found_in(jax.tree.unflatten(structure, sums), norms, values, present)

    return in_microbatches(some, parameters, examples, key, mask, microbatch)


def _traced(loss, parameters, rows):
    """(the jaxpr of the loss at one example, for each parameter its `Use` or None where it gets
    ordinary gradients). rows: (examples, keys).
    """
    one = jax.eval_shape(lambda rows: jax.tree.map(lambda leaf: leaf[0], rows), rows)
    traced = jax.make_jaxpr(loss)(parameters, *one)
    uses = uses_of(traced.jaxpr, len(jax.tree.leaves(parameters)))
    return traced, [use if use and _pays(use) else None for use in uses]


def _pays(use):
    """Whether rows and cotangents are smaller than the gradient.

    They are where t (p + d) < p d. Then t < p d/(p + d), so that t^2 <= p d/4: the two t x t
    matrices of `_squared` take at most half the gradient's memory, too, and t^2 (p + d) < t p d
    multiplications.
    """
    t, p, d = use.sizes()
    return t * (1 + d) < p * d if use.is_table else t * (p + d) < p * d


def _products_of(use, leaf, met, deltas):
    """The `Part` of gradients that are a sum over rows, g = sum_t x_t delta_t'.

    Each row's length |x_t| |delta_t| is a weight w_t of unit vectors; weights are relative to the
    largest, W: nothing overflows, and what underflows is 1e-19 of W and less, covered as below.

    The squared length n^2 = sum_ts w_t w_s (x_t.x_s)(g_t.g_s) has terms of both signs that add up
    to S^2 = (sum_t w_t)^2 at most in size. Its rounding is e S^2 with |e| <= 192 u, u half the
    dtype's eps (`_squared`), so that c S^2 is added, c = 256 u. The factor f then has
    f^2 (n^2 + (c - |e|) S^2) <= C^2, C the norm clipped to. The sum over examples rounds this
    one's terms by r f S, r <= 128 u up to 128 rows, or more where not all are rounded in one
    direction. Its share is at most f n + r f S <= C (1 + r^2/(c - |e|))^1/2 <= C (1 + 128 u), by
    Cauchy and Schwarz: within the margin, however much rows cancel.
    """
    rows, deltas = jax.vmap(use.rows)(met, deltas)
    dtype = wide(leaf, deltas) if use.is_table else wide(leaf, rows, deltas)
    deltas = deltas.astype(dtype)
    its, lengths = jnp.ones((), dtype), l2_norm(deltas)
    if not use.is_table:
        rows = rows.astype(dtype)
        its = l2_norm(rows)
        rows = _units(rows, its)
    limit = top(deltas) / 2  # 1/length is a normal number
    weights = its * lengths
    good = (its < limit) & (lengths < limit) & (weights < limit)
    weights = jnp.where(good, weights, 0.0)
    largest = jnp.max(weights, -1, initial=0.0)
    weights = weights / jnp.where(largest > 0, largest, 1.0)[:, None]
    deltas = _units(deltas, lengths) * weights[..., None]
    squares = jax.vmap(_squared)(rows, deltas) + (
        128 * jnp.finfo(dtype).eps * jnp.sum(weights, -1) ** 2
    )

    def summed(scales):
        scaled = deltas * (scales.astype(dtype) * largest)[:, None, None]
        if use.is_table:
            _, p, d = use.sizes()
            matrix = jnp.zeros((p, d), dtype).at[rows].add(scaled, mode="drop")
        else:
            matrix = jnp.einsum("btp,btd->pd", rows, scaled, precision="highest")
        return use.operand_gradient(matrix).astype(wide(leaf))

    return Part(jnp.where(jnp.all(good, -1), largest * jnp.sqrt(squares), jnp.inf), summed)


def _units(rows, lengths):
    """Rows of length 1; zeros for those that are not finite or hardly a number."""
    fits = (lengths >= jnp.finfo(rows.dtype).tiny) & (lengths < top(rows) / 2)
    return jnp.where(fits[..., None], rows / jnp.where(fits, lengths, 1.0)[..., None], 0.0)


def _squared(rows, deltas):
    """|sum_t x_t delta_t'|^2 = sum_ts (x_t.x_s)(delta_t.delta_s), of one example; not negative.

    Sums of at most 128 products, then sums of those: with equal terms, all of which round in one
    direction, each gram errs by 64 u of its terms' sizes; otherwise by a few u. As many are left
    for the sums of sums.
    """
    same = rows[:, None] == rows[None, :] if rows.ndim == 1 else _gram(rows)
    return jnp.maximum(jnp.sum(same * _gram(deltas)), 0.0)


def _gram(rows):
    """All products of two rows."""
    def add(i, total):
        some = jax.lax.dynamic_slice_in_dim(rows, rest + i * _PIECE, _PIECE, 1)
        return total + jnp.matmul(some, some.T, precision="highest")

    pieces, rest = divmod(rows.shape[1], _PIECE)
    first = jnp.matmul(rows[:, :rest], rows[:, :rest].T, precision="highest")
    return jax.lax.fori_loop(0, pieces, add, first) if pieces else first
