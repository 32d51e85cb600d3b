"""Accuracy by correlated noise against independent noise at equal certified epsilon, in equal steps
of equal batches.

    pip install -e '.[bench]'
    python bench/correlated_training.py [--seeds 5] [--epsilons 1 3 8] [--data digits images]

Ways: `independent`, Poisson batches; `banded`, noise of as many bands as a cyclic sampler has
groups, of which `correlated.plan` chooses how many, and with 4 (where it chooses one it is the
independent way and not trained again); `buffered`, a BLT of 3 buffers with batches in order, which
no sampling amplifies. Data: `digits`, scikit-learn's, 8x8, an MLP of 2,410 parameters; `images`,
10,000 of 28x28 in 10 classes, made here (random smooth patterns, shifted and noisy, some labels
wrong; the size of Fashion-MNIST, not its content), an MLP of 25,450. Learning rates are the best of
three for each way and epsilon, on a seed that is none of those told.

JSON lines: mean and standard error of the accuracy on held-out records over the seeds; `gain`: of
the difference from `independent`, seed by seed. Noise differs from run to run by fixed seeds, so
these runs are not private. About eight minutes of CPU: two for `digits`, six for `images`.
"""

import argparse
import math
import statistics

import jax
import jax.numpy as jnp
import numpy as np
import optax
from timing import line

DELTA, CLIP_NORM, TUNING_SEED = 1e-5, 1.0, 1000
LEARNING_RATES = (0.01, 0.025, 0.06, 0.15)  # with momentum
SETTINGS = {"digits": {"batch_size": 64, "steps": 320, "hidden": 32},
            "images": {"batch_size": 128, "steps": 256, "hidden": 32}}


def digits():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 8 - 1).astype(np.float32), y[order].astype(np.int32)
    return {"x": x[:1440], "y": y[:1440]}, {"x": x[1440:], "y": y[1440:]}


def images(count=12_000, train=10_000):
    random = np.random.default_rng(0)
    waves = np.fft.fftfreq(28)
    smooth = np.exp(-(waves[:, None] ** 2 + waves**2) * 60)
    patterns = np.fft.ifft2(np.fft.fft2(random.normal(size=(10, 3, 28, 28))) * smooth).real
    patterns /= patterns.std((-1, -2), keepdims=True)
    y, kind = random.integers(0, 10, count), random.integers(0, 3, count)
    shifts = random.integers(-2, 3, (count, 2))
    x = np.stack([np.roll(patterns[label, of], shift, (0, 1))
                  for label, of, shift in zip(y, kind, shifts)])
    x = (x + random.normal(size=x.shape)).reshape(count, -1).astype(np.float32) / 2
    seen = np.where(random.random(count) < 0.05, random.integers(0, 10, count), y).astype(np.int32)
    return ({"x": x[:train], "y": seen[:train]},
            {"x": x[train:], "y": y[train:].astype(np.int32)})


def network(inputs, hidden, seed):
    first, second = jax.random.split(jax.random.key(seed))
    return {"w": jax.random.normal(first, (inputs, hidden)) / math.sqrt(inputs),
            "b": jnp.zeros(hidden),
            "v": jax.random.normal(second, (hidden, 10)) / math.sqrt(hidden), "c": jnp.zeros(10)}


def scores(parameters, x):
    return jax.nn.relu(x @ parameters["w"] + parameters["b"]) @ parameters["v"] + parameters["c"]


def loss(parameters, example, key):
    return optax.softmax_cross_entropy_with_integer_labels(scores(parameters, example["x"]),
                                                           example["y"])


def plans(epsilon, records, dim, batch_size, steps):
    """{way: plan}, each certified for the same epsilon."""
    from jaxpriv.training import Privacy, make_plan, sampling

    def plan(**how):
        return make_plan(Privacy(epsilon=epsilon, delta=DELTA), records, dim,
                         batch_size=batch_size, steps=steps, **how)

    found = {"independent": plan(), "banded": plan(noise="banded"),
             "banded, 4": plan(noise="banded", sampler=sampling.CyclicPoisson(4)),
             "buffered": plan(noise="buffered", sampler=sampling.InOrder())}
    if found["banded"].sampler in (found["independent"].sampler, found["banded, 4"].sampler):
        del found["banded"]
    return found


def trained(plan, data, held_out, hidden):
    """call(learning rate, seed) -> accuracy: the whole training in one program."""
    from jaxpriv.training import private

    def optimizer(learning_rate):
        return optax.sgd(learning_rate, momentum=0.9)

    def run(learning_rate, start, test):
        made = private(loss, optimizer(learning_rate), plan, clip_norm=CLIP_NORM)
        end = jax.lax.fori_loop(0, plan.steps, lambda _, state: made.update(state, data), start)
        return jnp.mean(scores(end.model, test["x"]).argmax(-1) == test["y"]), end.overflowed

    starter, program = private(loss, optimizer(1.0), plan, clip_norm=CLIP_NORM), jax.jit(run)

    def call(learning_rate, seed):
        start = starter.init(network(data["x"].shape[1], hidden, seed), seed=seed)
        accuracy, overflowed = program(learning_rate, start, held_out)
        assert not overflowed
        return float(accuracy)

    return call


def mean_and_error(values):
    return {"mean": f"{statistics.mean(values):.4f}",
            "standard error": f"{statistics.stdev(values) / math.sqrt(len(values)):.4f}"}


def compare(name, epsilon, seeds):
    batch_size, steps, hidden = (SETTINGS[name][key] for key in ("batch_size", "steps", "hidden"))
    data, held_out = {"digits": digits, "images": images}[name]()
    data, held_out = jax.device_put((data, held_out))
    records, inputs = data["x"].shape
    dim = sum(leaf.size for leaf in jax.tree.leaves(network(inputs, hidden, 0)))
    found = {}
    for way, plan in plans(epsilon, records, dim, batch_size, steps).items():
        call = trained(plan, data, held_out, hidden)
        rate = max(LEARNING_RATES, key=lambda rate: call(rate, TUNING_SEED))
        found[way] = [call(rate, seed) for seed in range(seeds)]
        gains = [mine - its for mine, its in zip(found[way], found["independent"])]
        gain = {} if way == "independent" else {
            f"gain {of}": value for of, value in mean_and_error(gains).items()}
        line(data=name, epsilon=epsilon, way=way,
             bands=plan.strategy.bands() if hasattr(plan.strategy, "bands") else None,
             noise=f"{plan.noise_multipliers[0]:.4g}", learning_rate=rate,
             certified=f"{plan.profile().epsilon(DELTA)[1]:.6g}", **mean_and_error(found[way]),
             **gain)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--data", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    options = parser.parse_args()
    for name in options.data:
        for epsilon in options.epsilons:
            compare(name, epsilon, options.seeds)


if __name__ == "__main__":
    main()
