"""Ghost clipping against per-example gradients: the same sums in every kind of network,
and no example counts for more than the norm.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxpriv import training
from jaxpriv.training import ghost
from tests.training.test_clipping import flat

SIZE, LENGTH, WIDTH, WORDS = 6, 3, 16, 24
# 128 eps LENGTH/2 of a length for rows without a common direction; rows with one do less
ROUNDING = {jnp.float32: 1e-4, jnp.float64: 1e-12}


def normal(seed, *shape, dtype=jnp.float32, scale=0.3):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) * scale, dtype)


def sequences(dtype=jnp.float32):
    """Rows of very different sizes, words, and a label."""
    random = np.random.default_rng(0)
    sizes = np.geomspace(0.05, 20, SIZE)[:, None, None]
    return {"x": normal(1, SIZE, LENGTH, WIDTH, dtype=dtype, scale=1.0) * jnp.asarray(sizes, dtype),
            "word": jnp.asarray(random.integers(0, WORDS, (SIZE, LENGTH)).astype(np.int32)),
            "y": jnp.asarray(random.integers(0, WIDTH, SIZE))}


def answer(logits, example):
    return -jax.nn.log_softmax(logits.astype(jnp.float32))[example["y"]]


def dense(p, example, key):
    x = example["x"].astype(p["w"].dtype)
    if key is not None:
        x = x * jax.random.bernoulli(key, 0.7, x.shape)
    hidden = jnp.tanh(jnp.einsum("tp,pd->td", x, p["w"]) + p["b"])
    return answer((hidden @ p["v"].T).sum(0), example)


def dense_parameters(dtype=jnp.float32):
    return {"w": normal(2, WIDTH, WIDTH, dtype=dtype), "b": normal(3, WIDTH, dtype=dtype),
            "v": normal(4, WIDTH, WIDTH, dtype=dtype)}


def left(p, example, key):
    """The matrix on the left, in three axes, of which the first and the last are summed over."""
    out = jnp.einsum("phq,tqp->ht", p["w"].reshape(4, WIDTH, 4), example["x"].reshape(-1, 4, 4))
    return answer(jnp.tanh(out).sum(1), example)


def words(p, example, key):
    at = {"jumps": example["word"] * 2 - 3}.get(key, example["word"])
    return answer(jnp.tanh(p["table"][at]).mean(0), example)


def tied(p, example, key):
    hidden = jnp.tanh(p["table"][example["word"]]).mean(0)
    return -jax.nn.log_softmax(hidden @ p["table"].T)[example["y"]]


def twice(p, example, key):
    return answer(jnp.tanh(jnp.tanh(example["x"] @ p["w"]) @ p["w"]).sum(0), example)


def looped(p, example, key):
    def layer(x, w):
        return jnp.tanh(x @ w), None

    x, _ = jax.lax.scan(layer, example["x"], p["w"])
    return answer(jax.lax.fori_loop(0, 2, lambda i, x: x @ p["v"] / 4, x).sum(0), example)


def custom(p, example, key):
    """A product whose derivative is its own."""
    @jax.custom_vjp
    def product(x, w):
        return x @ w

    product.defvjp(lambda x, w: (x @ w, (x, w)),
                   lambda kept, g: (g @ kept[1].T, 2 * kept[0].T @ g))
    return answer(product(example["x"], p["w"]).sum(0), example)


def merged(p, example, key):
    """LoRA added to a matrix first: the product of two parameters."""
    return answer((example["x"] @ (jnp.eye(WIDTH) + p["a"] @ p["b"])).sum(0), example)


def kept_again(p, example, key):
    """Calls within calls, one of which computes again what it needs."""
    @jax.jit
    def layer(x, w):
        return jax.checkpoint(lambda x, w: jnp.tanh(x @ w.astype(jnp.float32)))(x, w)

    return answer(layer(layer(example["x"], p["w"]), p["v"]).sum(0), example)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, WIDTH, rngs=rngs, decode=False)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(nnx.gelu(self.up(x)))


class Transformer(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.block = Block(rngs)

    def __call__(self, words):
        return self.block(self.embed(words)).mean(0)


def transformer():
    graph, parameters, rest = nnx.split(Transformer(nnx.Rngs(0)), nnx.Param, ...)

    def loss(parameters, example, key):
        return answer(nnx.merge(graph, parameters, rest)(example["word"]), example)

    return loss, parameters


def linen():
    network = nn.Sequential([nn.Dense(2 * WIDTH), nn.tanh, nn.Conv(4, (2,)), nn.Dense(WIDTH)])
    parameters = jax.jit(network.init)(jax.random.key(0), jnp.zeros((LENGTH, WIDTH)))

    def loss(parameters, example, key):
        return answer(network.apply(parameters, example["x"]).sum(0), example)

    return loss, parameters


# (loss, parameters, those without per-example gradients)
TABLE = {"table": normal(5, WORDS, WIDTH)}
PROBLEMS = {
    "dense": lambda: (dense, dense_parameters(), {"['w']", "['v']"}),
    "left": lambda: (left, {"w": normal(2, 4 * WIDTH, 4)}, {"['w']"}),
    "table": lambda: (words, TABLE, {"['table']"}),
    "tied": lambda: (tied, TABLE, set()),
    "twice": lambda: (twice, {"w": normal(2, WIDTH, WIDTH)}, set()),
    "loop": lambda: (looped, {"w": normal(2, 2, WIDTH, WIDTH), "v": normal(3, WIDTH, WIDTH)}, set()),
    "custom derivative": lambda: (custom, {"w": normal(2, WIDTH, WIDTH)}, set()),
    "merged": lambda: (merged, {"a": normal(2, WIDTH, 8), "b": normal(3, 8, WIDTH)}, set()),
    "calls": lambda: (kept_again, dense_parameters(), {"['w']", "['v']"}),
    "unused": lambda: (words, {**TABLE, "other": normal(6, WIDTH, WIDTH)}, {"['table']"}),
    "transformer": lambda: (*transformer(), {
        f"['block']['{name}']['kernel'].value" for name in ("up", "down")} | {
        f"['block']['attention']['{name}']['kernel'].value"
        for name in ("query", "key", "value", "out")} | {"['embed']['embedding'].value"}),
    "linen": lambda: (*linen(), {"['params']['layers_0']['kernel']"}),
}


def hidden(loss, parameters, examples):
    """Paths of what has no per-example gradients."""
    _, uses = ghost._traced(loss, parameters, (examples, None))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(parameters)]
    return {path for path, use in zip(paths, uses) if use}


def check_same(loss, parameters, examples, key=None, tolerance=1e-4, **settings):
    found = jax.jit(lambda p, e: ghost.ghost_clipped_sum(loss, p, e, key, **settings))(
        parameters, examples
    )
    want = jax.jit(lambda p, e: training.clipped_sum(loss, p, e, key, **settings))(
        parameters, examples
    )
    assert jax.tree.structure(found.total) == jax.tree.structure(want.total)
    for one, other in zip(jax.tree.leaves(found.total), jax.tree.leaves(want.total)):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    gap = np.linalg.norm(flat(found.total) - flat(want.total))
    assert gap <= tolerance * np.linalg.norm(flat(want.total)), gap
    np.testing.assert_allclose(found.norms, want.norms, rtol=tolerance)
    np.testing.assert_allclose(found.losses, want.losses, rtol=1e-5)
    assert found.non_finite == want.non_finite
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_is_clipped_sum(name):
    loss, parameters, without = PROBLEMS[name]()
    examples = sequences()
    assert hidden(loss, parameters, examples) == without
    check_same(loss, parameters, examples, clip_norm=0.5)


def check_settings():
    """Of the one with matrices and a bias, in float64 to all digits."""
    parameters, examples = dense_parameters(jnp.float64), sequences(jnp.float64)
    mask = np.arange(SIZE) % 3 != 1
    for settings in ({"per_layer": True}, {"microbatch": 2, "mask": mask},
                     {"key": jax.random.key(3), "microbatch": 3}, {"microbatch": 1}):
        check_same(dense, parameters, examples, tolerance=1e-11, clip_norm=0.5, **settings)


def test_settings():
    check_settings()


@pytest.mark.parametrize("name", ["w", "v"])
def test_bfloat16(name):
    """Products of bfloat16 in float32, and sums; per-example gradients are rounded to bfloat16."""
    parameters = {**dense_parameters(), name: dense_parameters(jnp.bfloat16)[name]}
    assert hidden(dense, parameters, sequences()) == {"['w']", "['v']"}
    check_same(dense, parameters, sequences(), tolerance=0.01, clip_norm=0.5)


@pytest.mark.parametrize("mode", ["fill", "clip", "drop"])
def test_numbers_outside_a_table(mode):
    def loss(p, example, key):
        rows = p["table"].at[example["word"] * 2 - 3].get(mode=mode, fill_value=0.5)
        return answer(jnp.tanh(rows).mean(0), example)

    assert hidden(loss, TABLE, sequences())
    check_same(loss, TABLE, sequences(), clip_norm=0.1)
