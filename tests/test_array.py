"""What `jaxpriv._array` spells out where NumPy and JAX, or JAX's modes and devices, differ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import _array as xp
from jaxpriv._array import functions, loops
from tests.slips import check_is_red

RANDOM = np.random.default_rng(0)
POSITIVE = np.concatenate([2.0 ** RANDOM.uniform(-1020, 1021, 1000), [0.5, 1.0, 2.0, 1 - 2**-53]])


def check_frexp():
    """In float64 inside a float32 program, too."""
    want = np.frexp(POSITIVE)

    def inside(one):
        with jax.enable_x64(True):
            found = xp.frexp(jnp.asarray(POSITIVE) * one.astype(jnp.float64))
            return [jnp.all(part == other) for part, other in zip(found, want)]

    with jax.enable_x64(False):
        assert all(jax.jit(inside)(np.float32(1.0)))
        few = POSITIVE[(POSITIVE > 1e-37) & (POSITIVE < 1e37)].astype(np.float32)
        found = jax.jit(xp.frexp)(few)
    for part, other in zip((*xp.frexp(POSITIVE), *found), (*want, *np.frexp(few))):
        np.testing.assert_array_equal(part, other)


def test_frexp():
    check_frexp()


def test_frexp_of_the_largest_numbers():
    """Still value = 2^k m; and infinity is what it was."""
    numbers = np.array([2.0**1022, 2.0**1023, 1.7e308, np.inf])
    with jax.enable_x64(True):
        m, k = map(np.asarray, jax.jit(xp.frexp)(numbers))
    np.testing.assert_array_equal(np.ldexp(m, k), numbers)


def test_frexp_has_the_derivative_of_its_mantissa():
    assert jax.grad(lambda z: xp.frexp(z)[0])(3.0) == 0.25


def test_a_slip_in_frexp_is_noticed(monkeypatch):
    def slipped(value):
        m, k = np.frexp(value) if isinstance(value, np.ndarray) else jnp.frexp(value * 1.0)
        return m, k + 1

    check_is_red(monkeypatch, xp, "frexp", slipped, check_frexp)


def check_in_float32():
    """The numbers of a conversion there and back, where these are normal numbers."""
    numbers = np.concatenate([RANDOM.normal(size=1000), [0.0, 1.0, 0.1, 1e38, -1e-37, 1 + 2**-24]])
    want = numbers.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(xp.in_float32(numbers), want)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(xp.in_float32)(numbers), want)


def test_in_float32():
    check_in_float32()


def test_in_float32_is_noticed(monkeypatch):
    check_is_red(monkeypatch, xp, "in_float32", lambda value: value, check_in_float32)


@pytest.mark.parametrize("name", ["matmul", "tensordot"])
def test_products_are_numpy_s(name):
    one, other = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(4, 5))
    more = (1,) if name == "tensordot" else ()
    want = getattr(np, name)(one, other, *more)
    np.testing.assert_array_equal(getattr(xp, name)(one, other, *more), want)
    np.testing.assert_allclose(getattr(xp, name)(jnp.asarray(one), other, *more), want, rtol=1e-12)


def check_contracted():
    """In as many products of matrices as one thread each computes."""
    one, other = RANDOM.normal(size=(32, 1500, 2)), RANDOM.normal(size=(16, 1500, 2))
    want = np.einsum("anm,jnm->ajm", one, other)
    np.testing.assert_allclose(xp.contracted(one, other), want, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(xp.contracted(one[:, :1], other[:, :1]),
                               one[:, 0][:, None] * other[:, 0], rtol=1e-12)
    found = jax.jit(xp.contracted)(one, other)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)


def test_contracted():
    check_contracted()


def test_products_are_small_enough_for_one_thread(monkeypatch):
    sizes, true = [], np.matmul

    def counted(one, other):
        sizes.append(one.shape[-2] * one.shape[-1] * other.shape[-1])
        return true(one, other)

    monkeypatch.setattr(np, "matmul", counted)
    check_contracted()
    assert len(sizes) > 2
    assert max(sizes) < 2 * functions._OF_ONE_THREAD


def test_a_slip_in_contracted_is_noticed(monkeypatch):
    def without_the_rest(one, other):
        return np.einsum("anm,jnm->ajm", one[:, :512], other[:, :512])

    check_is_red(monkeypatch, xp, "contracted", without_the_rest, check_contracted)


def root_of_two(x, looks=None):
    if looks is not None:
        looks.append(1)
    return 0.5 * (x + 2 / x)


def check_refined():
    start, looks = np.array([1.0, 5.0, np.nan]), []
    found = xp.refined(lambda x: root_of_two(x, looks), start, 40, 1e-9)
    np.testing.assert_allclose(found, [2**0.5, 2**0.5, np.nan], rtol=1e-15)
    assert 5 <= len(looks) <= 7
    pair = xp.refined(lambda pair: (root_of_two(pair[0]), pair[1] + 1), (start[:2], 0), 40, 1e-9)
    assert pair[1] == len(looks)
    few = [xp.refined(root_of_two, make(start[:2]), 2, 1e-9) for make in (np.asarray, jnp.asarray)]
    np.testing.assert_allclose(*few, rtol=1e-15)
    assert abs(few[0][1] - 2**0.5) > 0.1
    inside = jax.jit(lambda x: xp.refined(root_of_two, x, 40, 1e-9))(start)
    np.testing.assert_allclose(inside, found, rtol=1e-15)


def test_refined():
    check_refined()


@pytest.mark.parametrize("wrong", [lambda *_: True, lambda *_: False])
def test_a_slip_in_refined_is_noticed(wrong, monkeypatch):
    check_is_red(monkeypatch, loops, "_stands", wrong, check_refined)
