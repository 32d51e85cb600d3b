"""Campaigns: shadow trainings in one vmap, and one after the other in one program, against a
Python loop of the same compiled training; RMIA's sorted scores against the table of ratios.

    python bench/campaign.py [--models 8 64 256] [--repeats 5]

Both sides of a ratio run in one process on the same arrays; medians of `repeats`, the first call
(which compiles) not counted. A training: 200 steps of Adam over 400 records, 20 numbers each, half
of them members, on a tanh layer of 32; the loop calls one compiled program for each model and waits
for all of them at the end. RMIA: 64 reference models, as many queries as population records, in
float32; the table is NumPy's.
"""

import argparse

import numpy as np
from timing import line, median_seconds

RECORDS, DIMS, WIDTH, STEPS = 400, 20, 32, 200


def training():
    """A pure function (key, member) -> answers of the trained model on all records."""
    import jax
    import jax.numpy as jnp
    import optax

    from jaxpriv.attacks import confidence

    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (RECORDS, DIMS))
    y = jax.random.bernoulli(keys[1], 0.5, (RECORDS,)).astype(int)
    adam = optax.adam(1e-2)

    def logits(weights):
        return jnp.tanh(x @ weights[0]) @ weights[1]

    def train(key, member):
        one, other = jax.random.split(key)
        start = (jax.random.normal(one, (DIMS, WIDTH)) / 5,
                 jax.random.normal(other, (WIDTH, 2)) / 6)

        def loss(weights):
            losses = optax.softmax_cross_entropy_with_integer_labels(logits(weights), y)
            return jnp.sum(member * losses) / jnp.sum(member)

        def step(_, state):
            change, momentum = adam.update(jax.grad(loss)(state[0]), state[1])
            return optax.apply_updates(state[0], change), momentum

        weights, _ = jax.lax.fori_loop(0, STEPS, step, (start, adam.init(start)))
        return confidence(logits(weights), y)

    return train


def shadows(models, repeats):
    import jax

    train = training()
    alone, together = jax.jit(train), jax.jit(jax.vmap(train))
    in_turn = jax.jit(lambda keys, member: jax.lax.map(lambda pair: train(*pair), (keys, member)))
    for count in models:
        keys = jax.random.split(jax.random.key(1), count)
        member = jax.random.bernoulli(jax.random.key(2), 0.5, (count, RECORDS))
        pairs = [(keys[i], member[i]) for i in range(count)]
        seconds = {
            "vmap": median_seconds(lambda k=keys, m=member: together(k, m).block_until_ready(),
                                   repeats),
            "map": median_seconds(lambda k=keys, m=member: in_turn(k, m).block_until_ready(),
                                  repeats),
            "loop": median_seconds(
                lambda p=pairs: jax.block_until_ready([alone(*pair) for pair in p]), repeats),
        }  # fmt: skip
        gap = np.max(np.abs(together(keys, member)[0] - alone(*pairs[0])))
        line(what="shadow trainings", models=count, gap=float(f"{gap:.2g}"),
             **{side: round(spent, 4) for side, spent in seconds.items()},
             loop_to_vmap=round(seconds["loop"] / seconds["vmap"], 2),
             loop_to_map=round(seconds["loop"] / seconds["map"], 2))


def table_of_ratios(log_p, reference, population, population_reference, a=0.3):
    def gain(seen, unseen):
        return np.exp(seen) / (((1 + a) * np.exp(unseen).mean(0) + 1 - a) / 2)

    queries, others = gain(log_p, reference), gain(population, population_reference)
    return (queries[:, None] / others >= 1).mean(1)


def rmia(repeats):
    import jax.numpy as jnp

    from jaxpriv.attacks import rmia as sorted_scores

    random = np.random.default_rng(0)
    for count in (1000, 10_000):
        given = [np.log(random.uniform(0.01, 1, shape)).astype(np.float32)
                 for shape in (count, (64, count), count, (64, count))]
        arrays = [jnp.asarray(array) for array in given]
        ours = median_seconds(lambda a=arrays: sorted_scores(*a).block_until_ready(), repeats)
        table = median_seconds(lambda g=given: table_of_ratios(*g), repeats)
        line(what="RMIA", queries=count, sorted=round(ours, 5), table=round(table, 5),
             ratio=round(table / ours, 1))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    shadows(arguments.models, arguments.repeats)
    rmia(arguments.repeats)


if __name__ == "__main__":
    main()
