"""The pytrees of the package: jit must never take the program of one class for another."""

import dataclasses
import inspect

import jax
import pytest

from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.laws import Law


def concrete(base):
    """All classes below `base` that are pytrees."""
    below = [c for child in base.__subclasses__() for c in (child, *concrete(child))]
    return [c for c in below if dataclasses.is_dataclass(c) and not inspect.isabstract(c)]


@pytest.mark.parametrize("base", [Experiment, Law])
def test_structures_differ(base):
    """JAX 0.10 compares structures from `register_dataclass` as equal if only the classes differ,
    and its caches rely on it.
    """
    classes = concrete(base)
    assert len(classes) >= 5
    for size in {len(dataclasses.fields(c)) for c in classes}:
        alike = [c for c in classes if len(dataclasses.fields(c)) == size]
        structures = [jax.tree.structure(c(*[0.0] * size)) for c in alike]
        for i, one in enumerate(structures):
            assert [one == other for other in structures] == [i == j for j in range(len(alike))]


def test_a_pytree_keeps_its_names_and_takes_anything():
    """Paths name the fields; defaults and fields without arrays survive;
    an instance cannot be changed.
    """

    @pytree
    class Point:
        x: object
        y: object = 2.0

    point = Point(1.0)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(point)]
    assert paths == [".x", ".y"]
    assert jax.tree.map(lambda v: v + 1, point) == Point(2.0, 3.0)
    assert jax.tree.map(lambda _: None, Point(None)) == Point(None, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3.0
