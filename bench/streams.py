"""Correlated noise: one step of drawing it, adding it and moving the parameters, by jaxpriv's
streams and by jax-privacy's `matrix_factorization_privatizer`, in time and memory.

    pip install -e '.[bench]'
    python bench/streams.py [--repeats 9] [--parameters 1000000] [--bands 16]

Sides that do the same in each comparison, jitted, with all that changes donated: `banded`, C
banded Toeplitz; `buffered`, a BLT of 3 buffers; `independent`, no stream at all, as a measure; and
`inverse`, C^-1 banded (`BandedInverse`), where what came before is independent: its last b - 1
arrays are kept, or drawn again from their keys in every step (`redrawn`). `parts`: reading and
writing what is kept, without drawing, against drawing one step's numbers alone.

JSON lines. Milliseconds per step are medians of `repeats` rounds in which the sides take turns; a
ratio is the median of the rounds' ratios, `range` its smallest and largest. `same draws` is with
jaxpriv's normal numbers on both sides, so that it is the streams that are compared. In MiB: `state`
is what lives from step to step besides the parameters, `program` what the compiled step needs
besides its arguments and what it returns in their place.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from timing import line

STD, LEARNING_RATE, BATCH, BUFFERS = 1.0, 0.1, 256, 3
SECONDS = 0.2  # that one side's steps in one round take together, about


def tree(parameters):
    """Three arrays, as of a small network, of so many numbers together."""
    third = parameters // 3
    return {"first": jnp.zeros((third // 100, 100)), "second": jnp.zeros((third // 50, 50)),
            "last": jnp.zeros(parameters - third // 100 * 100 - third // 50 * 50)}


def moved(parameters, release):
    return jax.tree.map(lambda leaf, of: leaf - LEARNING_RATE * of, parameters, release)


def ours(strategy):
    """(start, step): step(parameters, total, (count, stream's state), key)."""
    from jaxpriv.training.noise import noisy_mean, normal_like
    from jaxpriv.training.streams import stream_of

    stream = stream_of(strategy)

    def step(parameters, total, state, key):
        count, kept = state
        drawn = normal_like(jax.random.fold_in(key, count), total)
        noise, kept = stream.noise(drawn, count, kept)
        return moved(parameters, noisy_mean(total, noise, STD, BATCH)), (count + 1, kept)

    return lambda parameters: (jnp.int32(0), stream.start(parameters)), step


def theirs(matrix, same_draws):
    """The same by jax-privacy, whose state holds a key."""
    from jax_privacy import noise_addition

    from jaxpriv.training.noise import normal_like

    if not same_draws:
        privatizer = noise_addition.matrix_factorization_privatizer(
            matrix, stddev=STD, prng_key=jax.random.key(0))

    def step(parameters, total, state, key):
        if same_draws:
            count, kept = state
            noise, kept = matrix.multiply_next(
                normal_like(jax.random.fold_in(key, count), total), kept)
            noisy = jax.tree.map(lambda leaf, of: leaf + STD * of, total, noise)
            state = count + 1, kept
        else:
            noisy, state = privatizer.update(total, state)
        return moved(parameters, jax.tree.map(lambda leaf: leaf / BATCH, noisy)), state

    if same_draws:
        return lambda parameters: (jnp.int32(0), matrix.init_multiply(parameters)), step
    return privatizer.init, step


def redrawn(strategy):
    """`ours` for a `BandedInverse`, with nothing kept but keys: z_t = sum of c_k g_(t-k)."""
    from jaxpriv.training.noise import noisy_mean, normal_like

    coefficients = jnp.asarray(strategy.coefficients, jnp.float32)

    def step(parameters, total, state, key):
        def more(k, noise):
            g = normal_like(jax.random.fold_in(key, state - k), total)
            weight = jnp.where(state >= k, coefficients[k], 0.0)
            return jax.tree.map(lambda sums, leaf: sums + weight * leaf, noise, g)

        noise = jax.lax.fori_loop(0, len(coefficients), more, jax.tree.map(jnp.zeros_like, total))
        return moved(parameters, noisy_mean(total, noise, STD, BATCH)), state + 1

    return lambda parameters: jnp.int32(0), step


def reading(strategy):
    """Only the stream, of numbers that are there."""
    from jaxpriv.training.streams import stream_of

    stream = stream_of(strategy)

    def step(parameters, total, state, key):
        noise, kept = stream.noise(total, state[0], state[1])
        return noise, (state[0] + 1, kept)

    return lambda parameters: (jnp.int32(0), stream.start(parameters)), step


def drawing():
    """Only one step's normal numbers."""
    from jaxpriv.training.noise import normal_like

    def step(parameters, total, state, key):
        return normal_like(jax.random.fold_in(key, state), total), state + 1

    return lambda parameters: jnp.int32(0), step


def mib(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / 2**20


class Side:
    """A compiled step and the state that it goes on with."""

    def __init__(self, made, parameters):
        start, step = made
        self.values = tree(parameters)
        self.state = jax.tree.map(jnp.copy, jax.jit(start)(self.values))
        self.total, self.key = tree(parameters), jax.random.key(1)
        self.step = jax.jit(step, donate_argnums=(0, 2), keep_unused=True).lower(
            self.values, self.total, self.state, self.key).compile()
        found = self.step.memory_analysis()
        self.memory = {
            "state": mib(self.state),
            "program": (found.temp_size_in_bytes + found.output_size_in_bytes
                        - found.alias_size_in_bytes) / 2**20}

    def seconds(self, count):
        start = time.perf_counter()
        for _ in range(count):
            self.values, self.state = self.step(self.values, self.total, self.state, self.key)
        jax.block_until_ready(self.values)
        return (time.perf_counter() - start) / count


def compare(what, sides, parameters, repeats):
    """One line: the first side against each of the others."""
    sides = {name: Side(made, parameters) for name, made in sides.items()}
    counts = {}
    for name, side in sides.items():
        side.seconds(2)
        counts[name] = max(1, round(SECONDS / side.seconds(3)))
    spent = {name: [] for name in sides}
    for i in range(repeats):
        for name in np.roll(list(sides), i):  # nobody always goes first
            spent[name].append(1e3 * sides[name].seconds(counts[name]))
    for name, side in sides.items():
        line(what=what, side=name, ms=f"{statistics.median(spent[name]):.3g}",
             **{f"MiB {of}": f"{value:.3g}" for of, value in side.memory.items()})
    first, *others = sides
    for other in others:
        ratios = [mine / its for mine, its in zip(spent[first], spent[other])]
        line(what=what, time=f"{first}/{other}", ratio=f"{statistics.median(ratios):.3g}",
             range=f"{min(ratios):.3g} ... {max(ratios):.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--parameters", type=int, default=10**6)
    parser.add_argument("--bands", type=int, default=16)
    options = parser.parse_args()
    from jax_privacy.matrix_factorization import toeplitz
    from jax_privacy.matrix_factorization.buffered_toeplitz import BufferedToeplitz

    from jaxpriv import correlated

    banded = correlated.banded_square_root(options.bands)
    matrix = toeplitz.inverse_as_streaming_matrix(jnp.asarray(banded.coefficients, jnp.float32))
    blt = correlated.buffered_square_root(BUFFERS, 1000)
    buffers = BufferedToeplitz.build(blt.decay, blt.scale, dtype=jnp.float32)
    inverse = correlated.banded_inverse_square_root(options.bands)
    plain = {"independent": ours(correlated.Identity())}
    for what, strategy, their in (("banded", banded, matrix),
                                  ("buffered", blt, buffers.inverse_as_streaming_matrix())):
        compare(what, {"ours": ours(strategy), "jax_privacy": theirs(their, False),
                       "jax_privacy, same draws": theirs(their, True), **plain},
                options.parameters, options.repeats)
    compare("inverse", {"kept": ours(inverse), "redrawn": redrawn(inverse), **plain},
            options.parameters, options.repeats)
    compare("parts", {"reading": reading(inverse), "drawing": drawing()},
            options.parameters, options.repeats)


if __name__ == "__main__":
    main()
