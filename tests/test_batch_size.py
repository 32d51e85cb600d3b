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
@pytest.mark.optimized
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
    # 37.3: within a step, the last of which counts in part
    free, tiny = module.start_at(37.3, 2), 1e-4
    np.testing.assert_allclose(module.settings_of(free, 2), (37.3, 1.0), rtol=1e-5)
    slope = program(free, 2.0, norm, noises, public)[1]
    for at in range(2):
        aside = jnp.zeros(2).at[at].set(tiny)
        up, down = (program(free + way * aside, 2.0, norm, noises, public)[0] for way in (1, -1))
        np.testing.assert_allclose(slope[at], (up - down) / (2 * tiny), rtol=2e-2)
    searched, default, best, accuracies, certificate = module.main(tmp_path, iterations=3, seeds=1)
    assert [found["bands"] for found in searched] == [1, 2]
    assert round(default["batch"]) == module.DEFAULT
    assert best["loss"] <= default["loss"] + 1e-6
    assert min(accuracies["found"]) > 0.5
    assert certificate["private"]
    assert certificate["adversaries"][0]["epsilon"] <= module.EPSILON
    assert (tmp_path / "certificate.json").exists()
