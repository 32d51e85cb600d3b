"""Every public function becomes a program for CUDA and for TPU, on whatever machine it is traced;
or it is on the list of what the host computes.
"""

import inspect
import re

import jax
import pytest
from jax import export

import jaxpriv
from jaxpriv import _array as xp
from jaxpriv import filters, worst_case
from tests import lowered
from tests.public import MISSING, everything, methods
from tests.slips import check_is_red

METHODS = {f"Curve.{name}": lowered.of_method(name) for name in methods(jaxpriv.Curve)}
PROGRAMS = {**lowered.CURVES, **lowered.FUNCTIONS, **METHODS}


def lower(name):
    program, arguments = PROGRAMS[name]
    return export.export(jax.jit(program), platforms=("cuda", "tpu"))(*arguments)


def conversions_there_and_back(text):
    """float64 -> float32 -> float64: XLA leaves that out on GPUs, as if nothing were rounded."""
    found, narrow = [], set()
    for line in text.splitlines():
        if "func.func" in line:
            narrow = set()
        parts = re.search(r"(%\S+) = stablehlo.convert (%\S+) : \((\S+)\) -> (\S+)", line)
        if parts and parts[3].endswith("f64>") and parts[4].endswith("f32>"):
            narrow.add(parts[1])
        if parts and parts[2] in narrow and parts[4].endswith("f64>"):
            found.append(line.strip())
    return found


def coarse_products(text):
    """Products of matrices without a precision: of float32, accelerators take ten bits of each."""
    return [line.strip() for line in text.splitlines()
            if "stablehlo.dot_general" in line and "HIGHEST" not in line]


def check_lowers(name):
    found = lower(name)
    assert found.platforms == ("cuda", "tpu")
    assert not coarse_products(found.mlir_module())


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowers(name):
    check_lowers(name)


BOUNDS = {"delta_bounds": (1.0,), "epsilon_bounds": (1e-5,), "beta_bounds": (0.1,),
          "advantage_bounds": (), "gdp_mu_bounds": ()}  # fmt: skip


def check_rounding_stays(name):
    """Of bounds in float64 to float32, outward."""
    with jax.enable_x64(False):
        program = jax.jit(lambda mu: getattr(worst_case.gaussian(mu), name)(*BOUNDS[name]))
        found = export.export(program, platforms=("cuda", "tpu"))(1.0)
    assert [aval.dtype for aval in found.out_avals] == ["float32", "float32"]
    assert not conversions_there_and_back(found.mlir_module())


@pytest.mark.parametrize("name", BOUNDS)
def test_rounding_stays(name):
    check_rounding_stays(name)


def test_rounding_that_a_gpu_leaves_out_is_noticed(monkeypatch):
    def there_and_back(value):
        return value.astype(xp.float32).astype(xp.float64)

    def check():
        check_rounding_stays("delta_bounds")

    check_is_red(monkeypatch, xp, "in_float32", there_and_back, check)


def test_coarse_products_are_noticed(monkeypatch):
    def check():
        check_lowers("attacks.scalar_product")

    check_is_red(monkeypatch, jaxpriv.attacks.scores, "matmul", jax.numpy.matmul, check)


def test_what_is_spent_is_not_rounded_away_on_a_gpu():
    with jax.enable_x64(True):
        filtered = filters.gaussian(1.0)
        spend = jax.jit(lambda mu: filtered.spend(filtered.init(), mu))
        text = export.export(spend, platforms=("cuda",))(0.5).mlir_module()
    assert "f64" in text
    assert not conversions_there_and_back(text)


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
