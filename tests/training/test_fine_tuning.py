"""The example that tunes adapters of a transformer: it learns, within its certificate."""

import importlib.util
import json

import jax
import numpy as np
import pytest
from flax import nnx

from tests.command import ROOT


@pytest.fixture(scope="module")
def example():
    path = ROOT / "examples" / "fine_tuning.py"
    spec = importlib.util.spec_from_file_location("fine_tuning", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_adapters_learn_within_epsilon(example, tmp_path, monkeypatch, capsys):
    models = []
    monkeypatch.setattr(example, "fine_tuned", lambda model, true=example.fine_tuned: models.extend(
        [model, true(model, seed=0)]) or models[1])
    before, after, certificate = example.main(tmp_path)
    assert before < 0.75
    assert after > before + 0.1
    assert f"{after:.1%} after" in capsys.readouterr().out
    worst = certificate["adversaries"][0]
    assert worst["adversary"] == "worst case"
    assert 2.9 < worst["epsilon"] <= 3
    assert json.loads((tmp_path / "certificate.json").read_text())["steps_counted"] == example.STEPS
    assert (tmp_path / "certificate.html").exists()
    # what is no adapter is what it was
    base = nnx.All(nnx.Param, nnx.Not(nnx.LoRAParam))
    both = models[0], models[1].model
    first, last = (jax.tree.leaves(nnx.state(model, base)) for model in both)
    assert all(np.array_equal(one, other) for one, other in zip(first, last))
    parameters = nnx.state(models[0], nnx.Param)
    adapters = nnx.state(models[0], nnx.LoRAParam)
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(state)) for state in (adapters, parameters)]
    assert [f"{size:,}" in example.__doc__ for size in sizes] == [True, True], sizes
    assert models[1].plan.dim == sizes[0]
