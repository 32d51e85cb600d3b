"""Where the arrays of a training lie: records over all devices; parameters, and all that is kept in
their shape, over the second axis of the mesh.

As in fully sharded data parallelism (FSDP): between steps a device holds its part of parameters,
optimiser state and earlier noise; a step gathers the parameters, and of the sums of clipped
gradients each device keeps its part, which alone gets noise and an update there.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxpriv.training.processes import placed

# names that no model has: one that takes means over such an axis would mix examples
_RECORDS, _PARTS = "jaxpriv.records", "jaxpriv.parameters"
BOTH = (_RECORDS, _PARTS)
EVERYWHERE, SPLIT = PartitionSpec(), PartitionSpec(BOTH)


def data_mesh(devices=None):
    """A mesh of devices (all of all processes, unless given), over which records are split, and
    parameters over the second axis of `devices`, if there is one.

    Raises: ValueError for devices along more than two axes.
    """
    devices = np.asarray(jax.devices() if devices is None else devices)
    if devices.ndim not in (1, 2):
        raise ValueError(f"mesh has {devices.ndim} axes; accepted: one, or two")
    return Mesh(devices.reshape(len(devices), -1), BOTH)


def part_axis(shape, mesh):
    """The axis along which an array is split over the second axis of the mesh: the longest that
    goes evenly (the last of several); None where none does, or where there is nothing to split.
    """
    parts = mesh.shape[_PARTS]
    even = [(size, axis) for axis, size in enumerate(shape) if size and size % parts == 0]
    return max(even)[1] if even and parts > 1 else None


def part_spec(shape, mesh):
    """The `PartitionSpec` of `part_axis`."""
    axis = part_axis(shape, mesh)
    return EVERYWHERE if axis is None else PartitionSpec(*(None,) * axis, _PARTS)


def part_specs(tree, mesh):
    """`part_spec` of each array."""
    return jax.tree.map(lambda leaf: part_spec(leaf.shape, mesh), tree)


def sum_of_parts(tree, mesh):
    """Within a mapped program: the sums over all devices, of which each has its part."""
    def total(leaf):
        axis = part_axis(leaf.shape, mesh)
        if axis is None:
            return jax.lax.psum(leaf, BOTH)
        part = jax.lax.psum_scatter(leaf, _PARTS, scatter_dimension=axis, tiled=True)
        return jax.lax.psum(part, _RECORDS)

    return jax.tree.map(total, tree)


def kept_in_parts(tree, mesh):
    """The same within a compiled program, each array where it belongs."""
    def kept(leaf):
        if _is_key(leaf):
            return leaf
        where = NamedSharding(mesh, part_spec(leaf.shape, mesh))
        return jax.lax.with_sharding_constraint(leaf, where)

    return jax.tree.map(kept, tree)


def put_in_parts(tree, mesh):
    """The same outside of programs: copies on the devices of the mesh, of all processes."""
    def put(leaf):
        if _is_key(leaf):
            words = jax.random.key_data(leaf)
            return jax.random.wrap_key_data(put_at(words, NamedSharding(mesh, EVERYWHERE)),
                                            impl=jax.random.key_impl(leaf))
        return put_at(leaf, NamedSharding(mesh, part_spec(np.shape(leaf), mesh)))

    def put_at(leaf, where):
        if mesh.size == 1:
            return jax.device_put(leaf, where)
        return placed(np.asarray(leaf), where)

    return jax.tree.map(put, tree)


def _is_key(leaf):
    return jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
