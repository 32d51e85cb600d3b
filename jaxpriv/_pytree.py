"""Frozen dataclasses that pass through jit, vmap and grad."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def pytree(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are children of a pytree, but for those with the metadata
    {"static": True}, which are part of its structure.

    So is the class. With `jax.tree_util.register_dataclass` it is not: in
    JAX 0.10 structures of two classes with as many fields compare equal, their hashes alone differ,
    and now and then `jit` takes the program that it compiled for the other class.
    """
    made: Any = dataclass(frozen=True)(cls)
    names = [field.name for field in fields(made) if not field.metadata.get("static")]
    fixed = [field.name for field in fields(made) if field.metadata.get("static")]
    keys = [jax.tree_util.GetAttrKey(name) for name in names]

    def structure(value):
        return made, *(getattr(value, name) for name in fixed)

    def flatten(value):
        return [getattr(value, name) for name in names], structure(value)

    def flatten_with_keys(value):
        return [(key, getattr(value, name)) for key, name in zip(keys, names)], structure(value)

    def unflatten(known, children):
        # children may be anything that JAX puts in the place of arrays,
        # so nothing is converted or checked here
        value = object.__new__(made)
        for name, child in zip(fixed, known[1:]):
            object.__setattr__(value, name, child)
        for name, child in zip(names, children):
            object.__setattr__(value, name, child)
        return value

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    return made
