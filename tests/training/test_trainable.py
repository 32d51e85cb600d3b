"""Models taken apart into what is trained and the rest."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxpriv import training
from jaxpriv.attacks import per_example_gradients
from tests.training.test_clipping import flat

X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)


class Adapted(nnx.Module):
    def __init__(self, rngs):
        self.base = nnx.LoRALinear(5, 8, lora_rank=2, rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(jnp.tanh(self.norm(self.base(x))))


def names(parameters):
    return {jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value"): leaf
            for path, leaf in jax.tree.leaves_with_path(parameters)}


LORA = {"base/lora/lora_a", "base/lora/lora_b"}
FILTERS = {
    "LoRA": (nnx.LoRAParam, LORA),
    "path": (nnx.PathContains("head"), {"head/kernel", "head/bias"}),
    "function": (lambda path, value: path[-1] == "bias",
                 {"head/bias", "base/bias", "norm/bias"}),
    "either": ([nnx.LoRAParam, nnx.PathContains("head")], LORA | {"head/kernel", "head/bias"}),
    # neither statistics nor the state of random numbers are parameters
    "not the norm": (nnx.Not(nnx.PathContains("norm")),
                     LORA | {"head/kernel", "head/bias", "base/kernel", "base/bias"}),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name):
    which, want = FILTERS[name]
    parameters, _ = training.trainable(Adapted(nnx.Rngs(0)), which)
    assert set(names(parameters)) == want


def check_parts():
    """Put back it is the same model; changed, only what was chosen is another."""
    model = Adapted(nnx.Rngs(0))
    parameters, merged = training.trainable(model, nnx.LoRAParam)
    np.testing.assert_array_equal(merged(parameters)(X), model(X))
    other = merged(jax.tree.map(lambda leaf: leaf + 1, parameters))
    before, after = names(nnx.state(model, nnx.Param)), names(nnx.state(other, nnx.Param))
    assert {name for name in before if not np.array_equal(before[name], after[name])} == LORA
    tree = {"first": [jnp.ones((2, 3)), jnp.zeros(3)], "last": {"w": jnp.ones(3)}}
    last, merged = training.trainable(tree, lambda path: path.startswith("['last']"))
    assert len(last) == 1
    changed = merged([last[0] + 1])
    assert jax.tree.structure(changed) == jax.tree.structure(tree)
    np.testing.assert_array_equal(changed["last"]["w"], 2)
    np.testing.assert_array_equal(changed["first"][0], tree["first"][0])


def test_parts():
    check_parts()


def test_everything_unless_chosen():
    model = Adapted(nnx.Rngs(0))
    assert set(names(training.trainable(model)[0])) == set(names(nnx.state(model, nnx.Param)))
    tree = {"w": jnp.ones(3)}
    assert training.trainable(tree)[0] is tree


@pytest.mark.slow
@pytest.mark.parametrize("summed", [training.clipped_sum, training.ghost_clipped_sum])
def test_gradients_are_those_of_the_part(summed):
    """Of a Linen network: the chosen columns of all gradients, and clipping by their length."""
    network = nn.Sequential([nn.Dense(16), nn.tanh, nn.Dense(16)])
    parameters = network.init(jax.random.key(0), X[0])

    def loss(parameters, x, key=None):
        return jnp.sum(network.apply(parameters, x) ** 2)

    part, merged = training.trainable(parameters, lambda path: "layers_2" in path)
    found = summed(lambda values, x, key: loss(merged(values), x), part, X, clip_norm=0.5)
    rows = per_example_gradients(
        loss, parameters, X, keep=lambda path: "layers_2" in path, clip_norm=0.5
    )
    np.testing.assert_allclose(flat(found.total), rows.sum(0), rtol=2e-4, atol=1e-4)


@pytest.mark.slow
def test_trains_the_part_alone():
    """As the trainer's model, with the loss of the whole."""
    model = Adapted(nnx.Rngs(0))
    parameters, merged = training.trainable(model, nnx.LoRAParam)
    data = {"x": X, "y": (X[:, 0] > 0).astype(np.int32)}

    def loss(values, example, key):
        logits = merged(values)(example["x"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])

    trainer = training.DPTrainer(loss, parameters, optax.sgd(1.0), training.Privacy(mu=1.0),
                                 batch_size=40, steps=2)
    assert trainer.dim == 26
    trained = merged(trainer.fit(data, seed=0).model)
    assert not np.array_equal(trained.base.lora.lora_b, model.base.lora.lora_b)
    np.testing.assert_array_equal(trained.head.kernel, model.head.kernel)


TREE = {"w": jnp.ones(2), "n": jnp.arange(3)}


@pytest.mark.parametrize(
    ("model", "which", "match"),
    [(Adapted, nnx.Cache, "leaves no parameter"), (Adapted, 3, "trainable = 3; accepted"),
     (TREE, nnx.LoRAParam, "a function of the path"), (TREE, "w", "a function of the path"),
     (TREE, lambda path: "v" in path, r"trainable leaves no parameter.*\['w'\]"),
     (TREE, lambda path: "n" in path, "model.* is int"), (TREE, None, r"model\['n'\] is int")],
)
def test_errors(model, which, match):
    model = model(nnx.Rngs(0)) if model is Adapted else model
    with pytest.raises(ValueError, match=match):
        training.trainable(model, which)
