"""Scale: the same training on one device, on eight, and on two processes;
never more gradients than a microbatch's.
"""

import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv.training import spent
from tests.command import ROOT
from tests.training.sharded import train


def start(path, devices, *arguments):
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
                   "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.sharded", str(path), *map(str, arguments)],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(*processes):
    told = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(told)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone") / "found.npz"
    finished(start(path, 1))
    return np.load(path)


@pytest.mark.slow
def test_eight_devices(alone, tmp_path):
    """Samples and noise are the same, sums the same up to rounding."""
    finished(start(tmp_path / "found.npz", 8))
    found = np.load(tmp_path / "found.npz")
    assert (alone["devices"], found["devices"]) == (1, 8)
    for name in ("model", "releases", "scores"):
        np.testing.assert_allclose(found[name], alone[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["members"], alone["members"])


@pytest.mark.slow
def test_two_processes(alone, tmp_path):
    """Through jax.distributed, with one ledger and one set of checkpoints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    finished(*(start(tmp_path / f"{i}.npz", 2, i, 2, port, tmp_path / "run") for i in range(2)))
    for i in range(2):
        found = np.load(tmp_path / f"{i}.npz")
        assert found["devices"] == 4
        np.testing.assert_allclose(found["model"], alone["model"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["scores"], alone["scores"], rtol=1e-5, atol=1e-6)
    assert spent(tmp_path / "run" / "ledger.jsonl")[1] == alone["spent"]


def test_memory_is_that_of_a_microbatch():
    """The program of a step holds gradients of a microbatch:
    halving it halves what is beyond parameters and batch.
    """
    import optax

    from jaxpriv.training.clipping_settings import Clipping
    from jaxpriv.training.step import compiled_step, data_mesh, fresh_state, make_step
    from tests.training.problems import quiet

    d, rows = 100_000, 64

    def loss(w, example, key):
        return jnp.sum(jnp.tanh(w * example))

    sizes = []
    for at_once in (64, 8):
        step = compiled_step(make_step(
            loss, optax.sgd(0.1), quiet(d), data_mesh(), Clipping(), at_once=at_once
        ), data_mesh())
        state = fresh_state(jnp.zeros(d, jnp.float32), optax.sgd(0.1), quiet(d))
        program = step.lower(state, jax.random.key(0), jax.random.key(1),
                             jnp.ones(rows, jnp.float32), jnp.ones(rows, bool),
                             jnp.zeros(0, jnp.int32)).compile()
        sizes.append(program.memory_analysis().temp_size_in_bytes)
    assert sizes[0] > 60 * 4 * d
    assert sizes[1] < 20 * 4 * d


def test_one_process_is_the_same_as_before():
    """The module that the processes run is that of the other tests."""
    assert train(noisy=False).releases.shape == (20, 5)
