"""Fine-tune a small transformer with LoRA adapters under epsilon = 3, with its certificate.

The base model is trained here, on public sequences: is the sum of the words' values positive? In
the private ones a third of the words have the opposite value. Only the adapters are trained on
them: 4,608 of 32,002 numbers. Run it from the repository, in about a minute:

    python examples/fine_tuning.py [folder for the certificate]
"""

import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from rich.console import Console

from jaxpriv.report.training import certify_training, render_training
from jaxpriv.training import DPTrainer, Privacy

WORDS, LENGTH, WIDTH, RANK = 60, 12, 32, 4
RECORDS, BATCH, STEPS = 6000, 500, 60


class Block(nnx.Module):
    """Attention with one head, and two dense layers; adapters beside every matrix."""

    def __init__(self, rngs):
        def linear(fan_in, fan_out):
            return nnx.LoRALinear(fan_in, fan_out, lora_rank=RANK, rngs=rngs)

        self.first, self.second = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.query, self.key, self.value = (linear(WIDTH, WIDTH) for _ in range(3))
        self.out = linear(WIDTH, WIDTH)
        self.up, self.down = linear(WIDTH, 4 * WIDTH), linear(4 * WIDTH, WIDTH)

    def __call__(self, x):
        y = self.first(x)
        weights = jax.nn.softmax(self.query(y) @ self.key(y).T / WIDTH**0.5)
        x = x + self.out(weights @ self.value(y))
        return x + self.down(jax.nn.gelu(self.up(self.second(x))))


class Transformer(nnx.Module):
    """Logits of two classes of a sequence of words."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.head = nnx.Linear(WIDTH, 2, rngs=rngs)

    def __call__(self, words):
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(0))


def sequences(seed, count, flipped):
    """Words, and whether their values add up to more than 0."""
    values = np.random.default_rng(0).normal(size=WORDS)
    values[:flipped] *= -1
    words = np.random.default_rng(seed).integers(0, WORDS, (count, LENGTH)).astype(np.int32)
    return {"x": words, "y": (values[words].sum(1) > 0).astype(np.int32)}


PUBLIC, PRIVATE, HELD_OUT = (1, 4000, 0), (2, RECORDS, WORDS // 3), (3, 2000, WORDS // 3)


def loss(model, example, key):
    del key
    return optax.softmax_cross_entropy_with_integer_labels(model(example["x"]), example["y"])


def accuracy(model, data):
    graph, state = nnx.split(model)
    logits = jax.jit(jax.vmap(lambda words: nnx.merge(graph, state)(words)))(data["x"])
    return float(np.mean(np.argmax(logits, -1) == data["y"]))


def pretrained(steps=200):
    """A model trained on the public sequences; its adapters add nothing yet."""
    model, data = Transformer(nnx.Rngs(0)), sequences(*PUBLIC)
    base = nnx.All(nnx.Param, nnx.Not(nnx.LoRAParam))
    graph, parameters, rest = nnx.split(model, base, ...)
    optimizer = optax.adam(3e-3)

    @jax.jit
    def step(carry, rows):
        def mean(parameters):
            model = nnx.merge(graph, parameters, rest)
            return jnp.mean(jax.vmap(lambda row: loss(model, row, None))(rows))

        parameters, state = carry
        updates, state = optimizer.update(jax.grad(mean)(parameters), state)
        return optax.apply_updates(parameters, updates), state

    carry = parameters, optimizer.init(parameters)
    random = np.random.default_rng(0)
    for _ in range(steps):
        some = random.integers(0, len(data["y"]), 128)
        carry = step(carry, jax.tree.map(lambda leaf, some=some: leaf[some], data))
    return nnx.merge(graph, carry[0], rest)


def fine_tuned(model, seed=None):
    """A `Trained`: adapters from the private sequences, under epsilon = 3."""
    trainer = DPTrainer(loss, model, optax.adam(1e-2), Privacy(epsilon=3.0), batch_size=BATCH,
                        steps=STEPS, clip_norm=1.0, trainable=nnx.LoRAParam)
    return trainer.fit(sequences(*PRIVATE), seed=seed)


def main(folder):
    """Train, tune, and write the certificate. Returns (accuracy before, after, the certificate)."""
    model, held_out = pretrained(), sequences(*HELD_OUT)
    trained = fine_tuned(model)
    before, after = accuracy(model, held_out), accuracy(trained.model, held_out)
    certificate = certify_training(trained, folder, settings={"adapters": "LoRA", "rank": RANK})
    console = Console(highlight=False)
    console.print(render_training(certificate))
    console.print(f"Accuracy on held-out sequences: {before:.1%} before, {after:.1%} after.")
    console.print(f"Certificate: {folder}/certificate.html")
    return before, after, certificate


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
