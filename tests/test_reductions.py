"""NumPy's reductions through `_array`, whichever way they are computed."""

import numpy as np
import pytest

from jaxpriv import _array as xp

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("shape", [(300,), (300, 2), (3, 300, 2, 1), (31, 2), (5000, 2), (300, 17),
                                   (300, 0), (0, 3), (64, 2, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "any", "all"])
def test_are_those_of_numpy(name, shape):
    values = RANDOM.normal(size=shape) * 10.0 ** RANDOM.integers(-8, 8, size=shape)
    wide = np.broadcast_to(values, (2, *shape))
    for given in (values, np.asfortranarray(values), values > 0, wide):
        for axis in (*range(-given.ndim, given.ndim), None):
            if name in ("max", "min") and given.size == 0:
                continue
            got, want = getattr(xp, name)(given, axis), getattr(np, name)(given, axis)
            assert np.shape(got) == np.shape(want)
            scale = np.sum(np.abs(given), axis) if name == "sum" else 0.0
            assert np.all(np.abs(got * 1.0 - want * 1.0) <= 1e-13 * scale)


def test_what_is_no_number_stays_one():
    values = np.ones((100, 3))
    values[7, 0], values[8, 1], values[9, 1] = np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(xp.sum(values, 0), [np.inf, np.nan, 100.0])


def test_options_are_heeded():
    values = RANDOM.normal(size=(100, 2))
    assert xp.sum(values, 0, keepdims=True).shape == (1, 2)
    assert xp.sum([1.5, 2.5]) == 4.0
    assert xp.sum(values, axis=(0, 1)) == pytest.approx(values.sum())
