"""The part of a model that is trained: adapters, the last layers."""

from collections.abc import Callable
from typing import Any

import jax

from jaxpriv._checks import check_floating
from jaxpriv.attacks.gradients import is_module, module_of, split, taken_apart


def trainable(model: Any, which: Any = None) -> tuple[Any, Callable[[Any], Any]]:
    """Take a model apart into what is trained and what stays as it is.

    Args:
        model: a Flax NNX module, or any pytree of parameters (those of a Linen module or of a plain
            function).
        which: of an NNX module: any NNX filter, such as `nnx.LoRAParam`, `nnx.PathContains("head")`
            or a list of filters, of which one has to hold; only `nnx.Param`s are trained. Of a
            pytree: (path) -> bool, of paths such as "['dense']['kernel']". Everything that
            is a parameter unless given.

    Returns: (parameters, merged): a pytree of what is trained (of a pytree with `which`: the list
        of those leaves), and (parameters) -> model, which puts it among the rest. The rest is
        constant: it gets no gradient, no noise, and no share of the clipping norm.
    Raises: ValueError for a `which` of the other kind, that holds for nothing, or for what is not a
        real floating-point array.

        >>> import jax, jax.numpy as jnp
        >>> from flax import nnx
        >>> model = nnx.LoRALinear(5, 8, lora_rank=2, rngs=nnx.Rngs(0))
        >>> adapters, merged = trainable(model, nnx.LoRAParam)
        >>> [leaf.shape for leaf in jax.tree.leaves(adapters)], merged(adapters)(jnp.ones(5)).shape
        ([(5, 2), (2, 8)], (8,))
        >>> network = {"first": {"w": jnp.ones(3)}, "last": {"w": jnp.ones(2)}}
        >>> last, merged = trainable(network, lambda path: "last" in path)
        >>> print(merged([2 * last[0]])["last"]["w"], merged(last)["first"]["w"])
        [2. 2.] [1. 1. 1.]
    """
    if which is None:
        parameters, whole = taken_apart(model)
    elif is_module(model):
        parameters, whole = _module(model, which)
    elif not callable(which) or isinstance(which, type):
        raise ValueError(
            f"trainable = {which!r}; accepted for a pytree of parameters: a function of the path"
        )
    else:
        parameters, whole = split(model, which, "trainable")
    check_floating("model", parameters)
    return parameters, whole


def _module(model, which):
    from flax import nnx

    try:
        nnx.filterlib.to_predicate(which)
    except (TypeError, ValueError):
        raise ValueError(
            f"trainable = {which!r}; accepted for an NNX module: an NNX filter"
        ) from None
    graph, parameters, *rest = nnx.split(model, nnx.All(nnx.Param, which), ...)
    if not jax.tree.leaves(parameters):
        names = [jax.tree_util.keystr(path)
                 for path, _ in jax.tree.leaves_with_path(nnx.state(model, nnx.Param))]
        raise ValueError(
            f"trainable = {which!r} leaves no parameter; accepted: a filter that holds for some of "
            + ", ".join(names)
        )
    return parameters, jax.tree_util.Partial(module_of, graph, rest)


def refuse_batch_statistics(model):
    """Raise ValueError for layers that mix examples."""
    from flax import nnx

    if isinstance(model, nnx.Module) and jax.tree.leaves(nnx.state(model, nnx.BatchStat)):
        raise ValueError(
            "model has batch statistics, which mix examples: gradients of single examples do not "
            "exist; use group or layer normalisation"
        )
