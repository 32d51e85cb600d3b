"""Per-example gradients of any model as rows of a matrix: what white-box attacks are made of."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxpriv._checks import POSITIVE, as_parameter
from jaxpriv._types import Numbers


def per_example_gradients(
    loss: Callable[..., Any], model: Any, examples: Any, *,
    keep: Callable[[str], bool] | None = None, clip_norm: float | None = None, chunk_size: int = 64,
) -> jax.Array:
    """One gradient per example, flattened, as `Float[Array, "examples d"]`.

    Args:
        loss: (model, example) -> scalar.
        model: a Flax NNX module, whose parameters are its `nnx.Param`s, or any pytree of parameters
            (those of a Linen module or of a plain function).
        examples: a pytree of arrays with a leading axis.
        keep: (path) -> bool, of paths such as "['dense']['kernel']" or "['layers'][2]['bias']": the
            parameters that count; all unless given. The last layer alone often tells enough (Azize
            and Basu 2025, section 6).
        clip_norm: in (0, inf): gradients are scaled by min(1, clip_norm/norm), as training did.
        chunk_size: examples at once.

    Returns: columns in the order of the pytree's leaves,
        as `jax.flatten_util.ravel_pytree` has them.
    Raises: ValueError for examples without a common leading axis, a `keep` that leaves nothing,
        clip_norm outside its range.
    Source: Leemann et al. 2023 (arXiv:2306.07273), Algorithm 2 (which prints max for min: a slip).

        >>> import jax.numpy as jnp
        >>> def loss(parameters, example):
        ...     return (parameters["w"] @ example["x"] - example["y"]) ** 2 / 2
        >>> examples = {"x": jnp.eye(2), "y": jnp.array([1.0, 2.0])}
        >>> print(per_example_gradients(loss, {"w": jnp.zeros(2)}, examples).sum(1))
        [-1. -2.]
    """
    loss, parameters = as_function(loss, model)
    sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(examples)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            f"examples has leading axes {sorted(sizes)}; accepted: one common leading axis"
        )
    chosen, restored = split(parameters, keep)
    gradient = jax.grad(lambda some, example: loss(restored(some), example))

    def row(example):
        flat = ravel_pytree(gradient(chosen, example))[0]
        return flat if clip_norm is None else clip(flat, clip_norm)

    return jax.lax.map(row, examples, batch_size=chunk_size)


def as_function(loss, model):
    """(loss of a pytree of parameters, that pytree): an NNX module is taken apart,
    everything else is its own parameters.
    """
    parameters, merged = taken_apart(model)
    return lambda values, *rest: loss(merged(values), *rest), parameters


def taken_apart(model):
    """(the parameters of an NNX module, the function that makes it of others, a pytree itself);
    any other pytree is its own parameters.
    """
    if not is_module(model):
        return model, jax.tree_util.Partial(_same)
    from flax import nnx

    graph, parameters, *others = nnx.split(model, nnx.Param, ...)
    return parameters, jax.tree_util.Partial(module_of, graph, others)


def _same(parameters):
    return parameters


def module_of(graph, others, parameters):
    """The NNX module of the parts that `nnx.split` made."""
    return sys.modules["flax.nnx"].merge(graph, parameters, *others)


def is_module(model):
    """Whether it is an NNX module: whoever has one has imported Flax; others need not wait."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(model, nnx.Module)


def split(parameters, keep, name="keep"):
    """The leaves that count, and the function that puts them back among the others, a pytree of
    these. name: of the test in errors.
    """
    if keep is None:
        return parameters, lambda chosen: chosen
    paths, structure = jax.tree.flatten_with_path(parameters)
    names, leaves = [jax.tree_util.keystr(path) for path, _ in paths], [leaf for _, leaf in paths]
    marks = [bool(keep(path)) for path in names]
    if not any(marks):
        raise ValueError(
            f"{name} leaves no parameter; accepted: a test that holds for some of "
            + ", ".join(names)
        )
    chosen = [leaf for leaf, mark in zip(leaves, marks) if mark]
    others = [leaf for leaf, mark in zip(leaves, marks) if not mark]
    return chosen, jax.tree_util.Partial(partial(_restored, structure, marks), others)


def _restored(structure, marks, others, chosen):
    chosen, others = iter(chosen), iter(others)
    return jax.tree.unflatten(structure, [next(chosen if mark else others) for mark in marks])


def clip(gradient: Numbers, norm: Numbers) -> jax.Array:
    """A vector of at most this norm in the same direction: g min(1, norm/|g|).

    Args:
        gradient: `Float[Array, "... d"]`. norm: `Float[Array, "..."]` in (0, inf).

    Returns: the same shape; a vector of zeros stays.
        Raises: ValueError for a norm outside its range.
    Source: Leemann et al. 2023 (arXiv:2306.07273), Algorithm 2 (which prints max for min: a slip).

        >>> import numpy as np
        >>> print(clip(np.array([3.0, 4.0]), 1.0), clip(np.array([0.3, 0.4]), 1.0))
        [0.6 0.8] [0.3 0.4]
    """
    gradient, norm = jnp.asarray(gradient), jnp.asarray(as_parameter("norm", norm, POSITIVE))
    length = l2_norm(gradient)
    factor = jnp.where(length > norm, norm / jnp.where(length > norm, length, 1.0), 1.0)
    return gradient * factor[..., None].astype(gradient.dtype)


def l2_norm(array):
    """The L2 norm along the last axis, without overflow or underflow of the squares."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(array), axis=-1, initial=0.0, keepdims=True))
    # below the largest numbers: XLA multiplies by 1/unit,
    # which for those is subnormal and flushed to 0
    unit = jnp.where((largest > 0) & (largest < jnp.inf),
                     jnp.minimum(largest, 2.0 ** (jnp.finfo(array.dtype).maxexp - 4)), 1.0)
    return unit[..., 0] * jnp.sqrt(jnp.sum((array / unit) ** 2, -1))
