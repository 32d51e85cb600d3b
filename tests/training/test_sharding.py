"""Scale: the same training on one device, on eight, and on two processes, with parameters whole or
in parts; never more gradients than a microbatch's.
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


def start(path, devices, *arguments, script="sharded"):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu",
                   "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.training.{script}", str(path), *map(str, arguments)],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(*processes):
    told = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(told)


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


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
    port = free_port()
    finished(*(start(tmp_path / f"{i}.npz", 2, i, 2, port, tmp_path / "run") for i in range(2)))
    for i in range(2):
        found = np.load(tmp_path / f"{i}.npz")
        assert found["devices"] == 4
        np.testing.assert_allclose(found["model"], alone["model"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["scores"], alone["scores"], rtol=1e-5, atol=1e-6)
    assert spent(tmp_path / "run" / "ledger.jsonl")[1] == alone["spent"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "found.npz"
    finished(start(path, 1, 1, script="in_parts"))
    return np.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 4])
def test_parameters_in_parts(whole, parts, tmp_path):
    """Every kind of state, split over so many of four devices, ends as on one."""
    finished(start(tmp_path / "found.npz", 4, parts, script="in_parts"))
    found = np.load(tmp_path / "found.npz")
    assert set(found) == set(whole)
    for name in whole:
        if name.endswith("share"):
            assert whole[name] == 1
            assert found[name] < 1.1 / parts
        else:
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_parts_in_two_processes(whole, tmp_path):
    """Each process holds half of every array, and writes half of the checkpoints."""
    port = free_port()
    finished(*(start(tmp_path / f"{i}.npz", 1, 2, i, 2, port, tmp_path / "run", script="in_parts")
               for i in range(2)))
    for i in range(2):
        found = np.load(tmp_path / f"{i}.npz")
        assert found["adam: share"] < 0.55
        for name in ("adam: model", "adam: scores", "adam: releases"):
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-5, atol=1e-6)
    assert spent(tmp_path / "run" / "ledger.jsonl")[1] == 4


@pytest.mark.slow
def test_memory_is_that_of_a_microbatch():
    """The program of a step holds gradients of a microbatch:
    halving it halves what is beyond parameters and batch.
    """
    import optax

    from jaxpriv.training.clipping_settings import Clipping
    from jaxpriv.training.sharding import data_mesh
    from jaxpriv.training.step import fresh_state, make_step
    from tests.training.problems import quiet

    d, rows = 100_000, 64

    def loss(w, example, key):
        return jnp.sum(jnp.tanh(w * example))

    sizes = []
    for at_once in (64, 8):
        step = jax.jit(make_step(
            loss, optax.sgd(0.1), quiet(d), data_mesh(), Clipping(), at_once=at_once
        ), donate_argnums=0)
        state = fresh_state(jnp.zeros(d, jnp.float32), optax.sgd(0.1), quiet(d))
        program = step.lower(state, jax.random.key(0), jax.random.key(1),
                             jnp.ones(rows, jnp.float32), jnp.ones(rows, bool),
                             jnp.zeros(0, jnp.int32)).compile()
        sizes.append(program.memory_analysis().temp_size_in_bytes)
    assert sizes[0] > 60 * 4 * d
    assert sizes[1] < 20 * 4 * d


@pytest.mark.slow
def test_one_process_is_the_same_as_before():
    """The module that the processes run is that of the other tests."""
    assert train(noisy=False).releases.shape == (20, 5)
