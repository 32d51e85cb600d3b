"""The example that finds a batch size by gradients: its slopes, its settings, its certificate."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.command import ROOT


def example():
    spec = importlib.util.spec_from_file_location("batch_size", ROOT / "examples" / "batch_size.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_slopes_and_certificate(tmp_path, monkeypatch):
    """The slope of the loss is that of differences, through the calibrated noise as well; what is
    trained keeps the target.
    """
    module = example()
    monkeypatch.setattr(module, "BANDS", (1, 2))
    monkeypatch.setattr(module, "EPOCHS", 3)
    monkeypatch.setattr(module, "MOST", 94)
    _, public, _ = module.records()
    _, norm, noises = module.noise_of(2)
    program = jax.jit(jax.value_and_grad(module.validation_loss))
    # differences between whole numbers of turns, to which the accountant rounds them up
    noise = jax.jit(jax.value_and_grad(lambda steps: module.noise_for(3 / steps, steps, 2.0, norm)))
    (under, left), (over, right) = noise(78.0), noise(82.0)
    np.testing.assert_allclose((over - under) / 4, (left + right) / 2, rtol=0.01)
    free, tiny = module.start_at(37.3, 2), jnp.array([0.0, 1e-4])
    slope = program(free, 2.0, norm, noises, public)[1]
    up, down = (program(free + way * tiny, 2.0, norm, noises, public)[0] for way in (1, -1))
    np.testing.assert_allclose(slope[1], (up - down) / 2e-4, rtol=1e-3)
    searched, default, best, accuracies, certificate = module.main(tmp_path, iterations=3, seeds=1)
    assert [found["bands"] for found in searched] == [1, 2]
    assert round(default["batch"]) == module.DEFAULT
    assert best["loss"] <= default["loss"] + 1e-6
    assert min(accuracies["found"]) > 0.5
    assert certificate["private"]
    assert certificate["adversaries"][0]["epsilon"] <= module.EPSILON
    assert (tmp_path / "certificate.json").exists()
