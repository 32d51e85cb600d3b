"""Memory and time of `ghost_clipped_sum` against `clipped_sum`: gradients of a transformer.

    python bench/ghost.py [--length 64] [--batch 64] [--width 512] [--repeats 3]

An NNX transformer of 1.05e7 parameters (three blocks of width 512 with 8 heads, 1000 words) that
predicts the next word, all examples at once, or `--microbatch` of them. JSON lines. `program` is
what the compiled sum needs besides its arguments (temporaries and outputs), in MiB; `resident` is
what one sum adds to the resident set of a new process at its largest, in MiB. Seconds are medians
of `repeats` rounds in which the sides take turns. `norms` is the largest relative difference of
norms, `sum` that of the sums, by their lengths. Two CPU cores shared with others, memory as ratio:
0.248 (64 words), 0.317 (64 words, --microbatch 16), 0.527 (128 words, --microbatch 32).
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from timing import line

SIDES = ("ghost", "gradients")
WORDS, BLOCKS, HEADS = 1000, 3, 8


def model_of(width, length):
    """(loss, parameters)."""
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.first, self.second = (nnx.LayerNorm(width, rngs=rngs) for _ in range(2))
            self.attention = nnx.MultiHeadAttention(HEADS, width, rngs=rngs, decode=False)
            self.up = nnx.Linear(width, 4 * width, rngs=rngs)
            self.down = nnx.Linear(4 * width, width, rngs=rngs)

        def __call__(self, x):
            x = x + self.attention(self.first(x), mask=nnx.make_causal_mask(x[:, 0]))
            return x + self.down(nnx.gelu(self.up(self.second(x))))

    class Transformer(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(WORDS, width, rngs=rngs)
            self.places = nnx.Embed(length, width, rngs=rngs)
            self.blocks = nnx.List([Block(rngs) for _ in range(BLOCKS)])
            self.norm = nnx.LayerNorm(width, rngs=rngs)
            self.head = nnx.Linear(width, WORDS, rngs=rngs)

        def __call__(self, words):
            x = self.embed(words) + self.places(jnp.arange(length))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    graph, parameters, rest = nnx.split(Transformer(nnx.Rngs(0)), nnx.Param, ...)

    def loss(parameters, words, key):
        logits = nnx.merge(graph, parameters, rest)(words[:-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, words[1:]).mean()

    return loss, parameters


def compiled_sum(side, options):
    """(the compiled sum, its arguments)."""
    import jax

    from jaxpriv.training import clipped_sum, ghost_clipped_sum

    loss, parameters = model_of(options.width, options.length)
    random = np.random.default_rng(0)
    words = random.integers(0, WORDS, (options.batch, options.length + 1)).astype(np.int32)
    summed = ghost_clipped_sum if side == "ghost" else clipped_sum
    call = jax.jit(lambda parameters, words: summed(loss, parameters, words, clip_norm=1.0,
                                                    microbatch=options.microbatch))
    words = jax.device_put(words)
    return call.lower(parameters, words).compile(), (parameters, words)


def resident(side):
    """What one sum adds to this script's resident set, in a new process."""
    command = [sys.executable, __file__, *sys.argv[1:], "--child", side]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def child(side, options):
    import jax

    def status(what):
        found = re.search(rf"{what}:\s*([0-9]+)", Path("/proc/self/status").read_text())
        return int(found[1]) / 1024

    call, arguments = compiled_sum(side, options)
    jax.block_until_ready(arguments)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
    jax.block_until_ready(call(*arguments))
    print(json.dumps(status("VmHWM") - before))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=64, help="words of a sequence")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--microbatch", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options)
        return
    import jax
    from jax.flatten_util import ravel_pytree

    compiled = {side: compiled_sum(side, options) for side in SIDES}
    about = {"length": options.length, "batch": options.batch, "microbatch": options.microbatch,
             "parameters": sum(leaf.size for leaf in jax.tree.leaves(compiled["ghost"][1][0]))}
    program, found, seconds = {}, {}, {side: [] for side in SIDES}
    for side, (call, _) in compiled.items():
        memory = call.memory_analysis()
        program[side] = (memory.temp_size_in_bytes + memory.output_size_in_bytes) / 2**20
    for _ in range(options.repeats + 1):
        for side, (call, arguments) in compiled.items():
            start = time.perf_counter()
            found[side] = jax.block_until_ready(call(*arguments))
            seconds[side].append(time.perf_counter() - start)
    medians = {side: statistics.median(each[1:]) for side, each in seconds.items()}
    norms, sums = ([np.asarray(ravel_pytree(getattr(found[side], name))[0]) for side in SIDES]
                   for name in ("norms", "total"))
    added = {side: resident(side) for side in SIDES}
    for what, row in (("MiB: program", program), ("MiB: resident", added), ("seconds", medians)):
        line(what=what, **about, **{side: round(each, 3) for side, each in row.items()},
             ratio=round(row["ghost"] / row["gradients"], 3))
    line(what="difference", **about, norms=float(np.max(np.abs(norms[0] / norms[1] - 1))),
         sum=float(np.linalg.norm(sums[0] - sums[1]) / np.linalg.norm(sums[1])))


if __name__ == "__main__":
    main()
