"""What is asked for wrongly is refused with one clear error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import correlated
from jaxpriv.correlated import CyclicPoisson, MinSeparation

BLT = correlated.buffered_square_root(2, 10)
FULL = correlated.dense(np.tri(4))
REFUSED = {
    "empty": (lambda: correlated.banded_toeplitz([]), "coefficients has shape"),
    "zero": (lambda: correlated.banded_toeplitz([0.0, 1.0]), "coefficients begins with 0"),
    "nan": (lambda: correlated.banded_inverse([1.0, np.nan]), "coefficients = nan"),
    "infinite": (lambda: correlated.banded_toeplitz([np.inf]), "coefficients = inf"),
    "text": (lambda: correlated.banded_toeplitz("abc"), "is not a number"),
    "square": (lambda: correlated.banded_toeplitz(np.ones((2, 2))), "coefficients has shape"),
    "decay": (lambda: correlated.buffered_toeplitz([1.1], [0.1]), r"decay = 1.1 .* \[0, 1\]"),
    "buffers": (lambda: correlated.buffered_toeplitz([0.1], [0.1, 0.2]), "must agree"),
    "upper": (lambda: correlated.dense(np.ones((2, 2))), "not lower-triangular"),
    "singular": (lambda: correlated.dense(np.diag([1.0, 0.0])), "not lower-triangular"),
    "oblong": (lambda: correlated.dense(np.ones((2, 3))), "matrix has shape"),
    "bands": (lambda: correlated.banded_square_root(0), "bands = 0"),
    "separation": (lambda: MinSeparation(0), "separation = 0"),
    "most": (lambda: MinSeparation(1, 0), "most = 0"),
    "cycle": (lambda: CyclicPoisson(1.5, 0.1), "cycle = 1.5"),
    "rate": (lambda: CyclicPoisson(2, 0.0), r"rate = 0.0 .* \(0, 1\]"),
    "no rate": (lambda: CyclicPoisson(2, np.nan), "rate = nan"),
    "rates": (lambda: correlated.workload([1.0, -1.0]), "rates = -1.0"),
    "rates nan": (lambda: correlated.workload([np.nan]), "rates = nan"),
    "rates shape": (lambda: correlated.workload(1.0), "rates has shape"),
    "momentum": (lambda: correlated.workload(momentum=1.0), r"momentum = 1.0 .* \[0, 1\)"),
    "momenta": (lambda: correlated.workload(momentum=[0.1, 0.2]), "momentum has shape"),
    "steps": (lambda: correlated.sensitivity(BLT, 0), "steps = 0"),
    "steps half": (lambda: correlated.error(BLT, 1.5), "steps = 1.5"),
    "steps huge": (lambda: correlated.row_norms(BLT, 10**9), "steps = 1000000000"),
    "strategy": (lambda: correlated.sensitivity([1.0], 3), "accepted: those of jaxpriv.correlated"),
    "participation": (lambda: correlated.sensitivity(BLT, 3, 2), "participation = 2"),
    "workload": (lambda: correlated.row_norms(BLT, 3, [1.0]), "accepted: a correlated.workload"),
    "schedule": (lambda: correlated.row_norms(BLT, 3, correlated.workload([1.0])), "not 3"),
    "size": (lambda: correlated.sensitivity(FULL, 5), "the matrix is for 4 steps, not 5"),
    "loss": (lambda: correlated.error(BLT, 3, loss="sum"), "accepted: 'mean', 'max'"),
    "noise": (lambda: correlated.curve(BLT, 0.0, 3), "noise_multiplier = 0.0"),
    "buffered cycle": (lambda: correlated.curve(BLT, 1.0, 9, CyclicPoisson(3, 0.1)),
                       "any number of bands"),
    "inverse cycle": (lambda: correlated.sensitivity(correlated.banded_inverse([1.0, -0.5]), 9,
                                                     CyclicPoisson(3, 0.1)), "any number of bands"),
    "dense cycle": (lambda: correlated.sensitivity(FULL, 4, CyclicPoisson(3, 0.1)), "4 bands"),
    "target": (lambda: correlated.noise_multiplier(BLT, 9), "exactly one target"),
    "dense max": (lambda: correlated.optimise(FULL, 4, loss="max"), "optimised for 'mean'"),
    "dense close": (lambda: correlated.optimise(FULL, 4, MinSeparation(2)), "4 diagonals"),
    "iterations": (lambda: correlated.optimise(BLT, 4, iterations=0), "iterations = 0"),
    "batch": (lambda: correlated.plan(10, 100, 200, mu=1.0), "batch_size = 200"),
    "too many bands": (lambda: correlated.plan(10, 100, 50, bands=3, mu=1.0), "bands = 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_tracers_have_no_bounds():
    def bounds(values):
        return correlated.sensitivity_bounds(correlated.banded_toeplitz(values), 5)[1]

    with pytest.raises(ValueError, match="concrete numbers"):
        jax.jit(bounds)(jnp.ones(2))
    with pytest.raises(ValueError, match="participating once only"):
        jax.jit(lambda m: correlated.sensitivity(correlated.dense(m), 4, MinSeparation(2)))(
            jnp.asarray(np.tri(4)))


def test_traced_nonsense_is_nan():
    error = jax.jit(lambda decay: correlated.error(correlated.buffered_toeplitz(
        decay, jnp.array([0.1])), 5))
    assert np.isnan(error(jnp.array([1.5])))


def test_extremes():
    """One step; coefficients far from 1; more bands than steps; tiny decays."""
    assert correlated.error(correlated.banded_square_root(5), 1) == 1.0
    for size in (1e-150, 1e150):
        found = correlated.error(correlated.banded_toeplitz([size, size / 2]), 20)
        np.testing.assert_allclose(found, correlated.error(correlated.banded_toeplitz([1.0, 0.5]),
                                                           20), rtol=1e-12)
    np.testing.assert_allclose(correlated.sensitivity(correlated.banded_square_root(50), 3),
                               np.sqrt(1 + 0.25 + 0.375**2), rtol=1e-12)
    for size in (1e-307, 1e-200, 1e200, 1e307):
        for made in (correlated.banded_toeplitz([size, 0.75 * size]),
                     correlated.dense([[size, 0.0], [0.75 * size, size]])):
            low, high = correlated.sensitivity_bounds(made, 2)
            assert low <= 1.25 * size <= high
            assert high - low <= 1e-13 * size + 1e-322
    assert correlated.sensitivity_bounds(correlated.banded_inverse([1.0, 3.0, -7.0]), 500,
                                         MinSeparation(2, 3)) == (0.0, np.inf)
    low, high = correlated.sensitivity_bounds(correlated.buffered_toeplitz([0.0], [0.0]), 100)
    assert low <= 1 <= high < 1 + 1e-13
