"""Frozen dataclasses that pass through jit, vmap and grad."""

from dataclasses import dataclass, fields
from typing import dataclass_transform

import jax


@dataclass_transform(frozen_default=True)
def pytree(cls):
    """A frozen dataclass whose fields are all children of a pytree.

    The class is part of the tree's structure. With `jax.tree_util.register_dataclass` it is not: in
    JAX 0.10 structures of two classes with as many fields compare equal, their hashes alone differ,
    and now and then `jit` takes the program that it compiled for the other class.
    """
    cls = dataclass(frozen=True)(cls)
    names = [field.name for field in fields(cls)]
    keys = [jax.tree_util.GetAttrKey(name) for name in names]

    def flatten(value):
        return [getattr(value, name) for name in names], cls

    def flatten_with_keys(value):
        return [(key, getattr(value, name)) for key, name in zip(keys, names)], cls

    def unflatten(_, children):
        # children may be anything that JAX puts in the place of arrays,
        # so nothing is converted or checked here
        value = object.__new__(cls)
        for name, child in zip(names, children):
            object.__setattr__(value, name, child)
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
