"""Programs for the processor of a machine that has an accelerator, too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import worst_case
from jaxpriv.composition import entrywise
from tests.slips import check_is_red

NOISES = np.linspace(0.8, 1.6, 48)


def log_delta(noise):
    return worst_case.subsampled_gaussian(noise, 0.01, 100).log_delta(1.0)


def program(function, noises, backend, monkeypatch):
    """Compiled for this processor, where JAX's default is `backend`."""
    jax.devices()
    jax.clear_caches()
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: backend)
        return jax.jit(function).lower(jnp.asarray(noises)).compile()


def check_in_turn(monkeypatch):
    """One entry after the other, whatever the default is: memory does not grow with their number,
    and no entry waits for the slowest.
    """
    few, many = (
        program(log_delta, NOISES[:count], "gpu", monkeypatch).memory_analysis().temp_size_in_bytes
        for count in (6, 48)
    )
    assert many < 2 * few


@pytest.mark.slow
def test_in_turn(monkeypatch):
    check_in_turn(monkeypatch)

    def together(given, *, cpu, default):
        del cpu
        return default(given)

    check_is_red(monkeypatch, entrywise.jax.lax, "platform_dependent", together,
                 lambda: check_in_turn(monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("function", [
    log_delta, jax.vmap(jax.value_and_grad(log_delta)), jax.vmap(jax.jacfwd(log_delta)),
    jax.vmap(lambda noise: worst_case.subsampled_gaussian(noise, 0.01, 100).epsilon_bounds(1e-5)),
], ids=["batch", "reverse", "forward", "bounds"])  # fmt: skip
def test_same_numbers(function, monkeypatch):
    """As on a machine without an accelerator."""
    found, expected = (
        program(function, NOISES[::12], backend, monkeypatch)(NOISES[::12])
        for backend in ("gpu", "cpu")
    )
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
