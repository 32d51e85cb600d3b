"""Small trainings of a network whose parameters are split over `PARTS` of the devices there are:
`python -m tests.training.in_parts FILE PARTS [PROCESS COUNT PORT FOLDER]`.

Each is named after what it adds: to a state that has to be split, or to what a step does with it.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh

from jaxpriv import correlated, training
from jaxpriv.training import sampling
from jaxpriv.training.adaptive_clipping import AdaptiveClipping
from jaxpriv.training.processes import gathered
from tests.compiling import compile_fast
from tests.training.problems import Quiet

STEPS, RECORDS = 4, 40
DIM = 8 * 12 + 12 + 12 * 1 + 1  # of the network


class Network(nnx.Module):
    """With dropout, so that it has keys beside its parameters, and adapters of rank two."""

    def __init__(self, rngs, rank=0):
        self.first = nnx.Linear(8, 12, rngs=rngs)
        self.adapter = nnx.LoRA(8, rank, 12, rngs=rngs) if rank else None
        self.last = nnx.Linear(12, 1, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x, rngs):
        more = self.adapter(x) if self.adapter else 0.0
        return self.last(self.dropout(jax.nn.tanh(self.first(x) + more), rngs=rngs))[0]


def loss(model, example, key):
    return jnp.square(model(example["x"], nnx.Rngs(key)) - example["y"])


def plain(w, example, key):
    """Without a module, for the clipping that knows matrices by their products."""
    del key
    hidden = jnp.tanh(example["x"] @ w["first"] + w["b"])
    return jnp.square(jnp.sum(hidden @ w["last"]) - example["y"])


WEIGHTS = {"first": np.full((8, 12), 0.1, np.float32), "b": np.zeros(12, np.float32),
           "last": np.linspace(-1, 1, 12, dtype=np.float32)[:, None]}

TRAININGS = {
    "adam": {"optimizer": optax.adam(1e-2)},
    "banded": {"noise": correlated.banded_toeplitz([1.0, 0.5, 0.25]),
               "sampler": sampling.CyclicPoisson(4)},
    "buffered, by layers": {"noise": correlated.buffered_toeplitz([0.5, 0.8], [0.4, 0.2]),
                            "sampler": sampling.InOrder(), "per_layer": True},
    "grid": {"noise": "discrete"},
    "ghost, frozen": {"ghost": True, "loss": plain, "model": WEIGHTS,
                      "trainable": lambda path: "last" not in path},
    "adapters": {"rank": 2, "trainable": nnx.LoRAParam},
    "scaled, moving norm": {"adaptive_clipping": AdaptiveClipping(3.0, 10),
                            "scaling": training.optimizers.ScaleThenPrivatise()},
}


def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(RECORDS, 8)).astype(np.float32)
    return {"x": x, "y": np.sin(x[:, 0])}


def trained(name, parts, folder=None):
    """What `DPTrainer.fit` returns, with its mesh of (devices/parts, parts)."""
    settings = {"loss": loss, "optimizer": optax.sgd(0.1), **TRAININGS[name]}
    model = Network(nnx.Rngs(0), settings.pop("rank", 0))
    mesh = Mesh(np.reshape(jax.devices(), (-1, parts)), ("batch", "parts"))
    made = training.DPTrainer(
        settings.pop("loss"), settings.pop("model", model), settings.pop("optimizer"),
        training.Privacy(epsilon=100.0, delta=1e-5), batch_size=10, steps=STEPS,
        noise_multiplier=1.0, mesh=mesh, microbatch=3, **settings)
    return made.fit(data(), seed=7, canaries=5, folder=folder, record_releases=True)


def stepped(parts):
    """The state after some private steps of one's own loop."""
    mesh = Mesh(np.reshape(jax.devices(), (-1, parts)), ("batch", "parts"))
    plan = Quiet(RECORDS, 10, (1.0,) * STEPS, DIM)
    run = training.private(loss, optax.adam(1e-2), plan, microbatch=3, mesh=mesh)
    state = run.init(Network(nnx.Rngs(0)), seed=7)
    for _ in range(STEPS):
        state = run.step(state, data())
    return state


def flat(tree):
    return np.concatenate([np.ravel(gathered(leaf)) for leaf in jax.tree.leaves(tree)])


def share(tree):
    """The largest part of a tree that a device of this process holds."""
    leaves = jax.tree.leaves(tree)
    held = sum(max(part.data.size for part in leaf.addressable_shards) for leaf in leaves)
    return held / sum(leaf.size for leaf in leaves)


def parameters(model):
    return nnx.state(model, nnx.Param) if isinstance(model, nnx.Module) else model


if __name__ == "__main__":
    compile_fast()
    path, parts = sys.argv[1], int(sys.argv[2])
    folder, names = None, TRAININGS
    if len(sys.argv) > 3:
        process, count, port, folder = sys.argv[3:]
        jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
        names = ["adam"]
    found = {}
    for name in names:
        run = trained(name, parts, folder)
        weights = parameters(run.model)
        found |= {f"{name}: model": flat(weights), f"{name}: scores": run.canary_scores,
                  f"{name}: releases": run.releases, f"{name}: share": share(weights)}
    if folder is None:
        state = stepped(parts).state
        found |= {"private: model": flat(state.parameters), "private: share": share(state)}
    np.savez(path, **found)
