"""Every public function becomes a program for CUDA and for TPU, on whatever machine it is traced;
or it is on the list of what the host computes.
"""

import inspect

import jax
import pytest
from jax import export

import jaxpriv
from jaxpriv import worst_case
from tests import lowered
from tests.public import MISSING, everything, methods
from tests.slips import check_is_red

METHODS = {f"Curve.{name}": lowered.of_method(name) for name in methods(jaxpriv.Curve)}
PROGRAMS = {**lowered.CURVES, **lowered.FUNCTIONS, **METHODS}


def lower(name):
    program, arguments = PROGRAMS[name]
    return export.export(jax.jit(program), platforms=("cuda", "tpu"))(*arguments)


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowers(name):
    assert lower(name).platforms == ("cuda", "tpu")


def check_table():
    """Each public function has its place, and one only."""
    host = [name for names in lowered.HOST.values() for name in names
            if not name.startswith(MISSING)]  # fmt: skip
    offered = {name for name, value in everything().items()
               if callable(value) and not inspect.isclass(value)
               and not name.startswith("stats.")}  # fmt: skip
    placed = [*lowered.CURVES, *lowered.FUNCTIONS, *host]
    assert sorted(placed) == sorted(offered)


def test_every_public_function_has_a_place():
    check_table()


def test_a_new_function_is_noticed(monkeypatch):
    more = [*jaxpriv.membership.__all__, "new"]
    monkeypatch.setattr(jaxpriv.membership, "new", lambda curve: curve, raising=False)
    check_is_red(monkeypatch, jaxpriv.membership, "__all__", more, check_table)


def test_a_call_of_the_host_is_noticed(monkeypatch):
    """What turns a tracer into a number does not lower."""
    monkeypatch.setattr(jaxpriv.Curve, "auc", lambda self: float(self.experiment.mu))
    jax.clear_caches()
    with pytest.raises(jax.errors.ConcretizationTypeError):
        lower("Curve.auc")


@pytest.mark.parametrize("law", jaxpriv.stats.__all__)
def test_laws_lower(law):
    """All ten functions of a law in one program."""
    from jaxpriv.stats._family import OPERATIONS

    module = getattr(jaxpriv.stats, law)
    count = len(inspect.signature(module.cdf).parameters) - 3  # x, loc and scale

    def program(x):
        return [getattr(module, name)(-x if name.endswith("exp") else x, *[2.0] * count)
                for name in OPERATIONS]  # fmt: skip

    found = export.export(jax.jit(program), platforms=("cuda", "tpu"))(0.5)
    assert found.platforms == ("cuda", "tpu")


def test_a_function_of_both_modes_lowers():
    """Bounds are programs in float64, whatever the mode."""
    with jax.enable_x64(True):
        found = export.export(
            jax.jit(lambda mu: worst_case.gaussian(mu).epsilon_bounds(1e-5)),
            platforms=("cuda", "tpu"),
        )(1.0)
    assert [aval.dtype for aval in found.out_avals] == ["float64", "float64"]
