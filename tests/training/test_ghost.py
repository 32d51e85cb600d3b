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
from jaxpriv.training import ghost, sharding
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
    "loop": lambda: (
        looped, {"w": normal(2, 2, WIDTH, WIDTH), "v": normal(3, WIDTH, WIDTH)}, set()),
    "custom derivative": lambda: (custom, {"w": normal(2, WIDTH, WIDTH)}, set()),
    "merged": lambda: (merged, {"a": normal(2, WIDTH, 8), "b": normal(3, 8, WIDTH)}, set()),
    "calls": lambda: (kept_again, dense_parameters(), {"['w']", "['v']"}),
    "unused": lambda: (words, {**TABLE, "other": normal(6, WIDTH, WIDTH)}, {"['table']"}),
    "transformer": lambda: (*transformer(), {
        f"['block']['{name}']['kernel'].value" for name in ("up", "down")} | {
        f"['block']['attention']['{name}']['kernel'].value"
        for name in ("query", "key", "value", "out")} | {"['embed']['embedding'].value"}),
    "linen": lambda: (*linen(), {f"['params']['layers_{i}']['kernel']" for i in (0, 3)}),
}


def hidden(loss, parameters, examples):
    """Paths of what has no per-example gradients."""
    _, uses = ghost._traced(loss, parameters, (examples, None))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(parameters)]
    return {path for path, use in zip(paths, uses) if use}


def check_same(loss, parameters, examples, key=None, tolerance=1e-4, **settings):
    found = jax.jit(lambda p, e: training.ghost_clipped_sum(loss, p, e, key, **settings))(
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_settings():
    check_settings()


@pytest.mark.parametrize("name", ["w", "v"])
def test_bfloat16(name):
    """Products of bfloat16 in float32, and sums; per-example gradients are rounded to bfloat16."""
    parameters = {**dense_parameters(), name: dense_parameters(jnp.bfloat16)[name]}
    assert hidden(dense, parameters, sequences()) == {"['w']", "['v']"}
    check_same(dense, parameters, sequences(), tolerance=0.01, clip_norm=0.5)


def test_mixed_precision():
    """Parameters in float32, layers in bfloat16: sums are in float32."""
    layer = nnx.Linear(WIDTH, 2 * WIDTH, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    graph, parameters = nnx.split(layer)

    def loss(parameters, example, key):
        out = jax.checkpoint(lambda p, x: nnx.merge(graph, p)(x))(parameters, example["x"])
        return answer(jnp.tanh(out).sum(0), example)

    assert hidden(loss, parameters, sequences()) == {"['kernel'].value"}
    check_same(loss, parameters, sequences(), tolerance=0.01, clip_norm=0.5)


@pytest.mark.parametrize("mode", ["fill", "clip", "drop"])
def test_numbers_outside_a_table(mode):
    def loss(p, example, key):
        rows = p["table"].at[example["word"] * 2 - 3].get(mode=mode, fill_value=0.5)
        return answer(jnp.tanh(rows).mean(0), example)

    assert hidden(loss, TABLE, sequences())
    check_same(loss, TABLE, sequences(), clip_norm=0.1)


def planted(p, example, key):
    """A loss whose matrix has the gradient x' g, and whose bias has h."""
    return jnp.vdot(example["x"] @ p["w"], example["g"]) + jnp.vdot(p["b"], example["h"])


ZEROS = {"w": jnp.zeros((WIDTH, WIDTH), jnp.float32), "b": jnp.zeros(2, jnp.float32)}
SCALES = [1e-30, 1e-12, 1.0, 1e18, 1e30, 3e37, 1e38, np.inf, np.nan]
SUMMED = {per_layer: jax.jit(
    lambda examples, clip_norm, per_layer=per_layer: training.ghost_clipped_sum(
        planted, ZEROS, examples, clip_norm=clip_norm, per_layer=per_layer))
    for per_layer in (False, True)}


def one_of(x, g, h=(0.0, 0.0)):
    return {name: jnp.asarray(each, jnp.float32)[None]
            for name, each in (("x", x), ("g", g), ("h", h))}


def exact(example):
    """The matrix's gradient; XLA takes numbers below the smallest normal one for 0."""
    x, g = (np.asarray(example[name][0], float) for name in ("x", "g"))
    return x.T @ np.where(np.abs(g) < np.finfo(np.float32).tiny, 0.0, g)


def length_of(found):
    return np.linalg.norm(flat(found.total).astype(np.float64))


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_no_example_counts_for_more(scale, per_layer):
    """However large or small what goes in and what comes back are, measured in float64."""
    assert hidden(planted, ZEROS, one_of(np.ones((3, WIDTH)), np.ones((3, WIDTH)))) == {"['w']"}
    for seed in range(8):
        random = np.random.default_rng(seed)
        x, g = random.normal(size=(2, 3, WIDTH))
        for up, down in ((scale, 1.0), (1.0, scale), (scale, 1e-20), (scale, 1 / scale)):
            rows = np.ones((3, 1))
            rows[seed % 3] = up
            with np.errstate(over="ignore"):
                example = one_of(x * (rows if seed % 2 else up), g * down, random.normal(size=2))
            found = SUMMED[per_layer](example, 0.7)
            assert length_of(found) <= 0.7
            if not found.non_finite:
                want = np.linalg.norm(
                    np.asarray(example["x"][0], float).T @ np.asarray(example["g"][0], float)
                )
                assert want <= found.norms[0] * (1 + 1e-5)


CANCELLING = {
    "all": lambda x, g: (np.stack([x[0], x[0], x[1]]), np.stack([g[0], -g[0], 0 * g[0]])),
    "all but little": lambda x, g: (np.stack([1e6 * x[0], 1e6 * x[0], x[1]]),
                                    np.stack([g[0], -g[0], 1e-3 * g[1]])),
    "nearly": lambda x, g: (np.stack([x[0], x[0] * (1 + 1e-4), x[1]]),
                            np.stack([g[0], -g[0], 1e-6 * g[1]])),
    "by thirds": lambda x, g: (np.stack([x[0], x[0], x[0]]) * 1e4,
                               np.stack([g[0], g[1], -g[0] - g[1]])),
    "one row each": lambda x, g: (np.stack([1e30 * x[0], x[1], x[2]]),
                                  np.stack([0 * g[0], g[1], g[2]])),
    "equal": lambda x, g: (np.full((3, WIDTH), 0.1), np.full((3, WIDTH), 0.3)),
}


def check_cancelling():
    """Rows of an example that cancel: what rounding leaves counts for no more than the norm,
    neither alone nor beside others.
    """
    for seed in range(20):
        random = np.random.default_rng(seed)
        for rows in CANCELLING.values():
            x, g = random.normal(size=(2, 3, WIDTH))
            example = one_of(*rows(x, g))
            for clip_norm in (1e-3, 1.0, 1e3):
                found = SUMMED[False](example, clip_norm)
                assert length_of(found) <= clip_norm, (seed, clip_norm)
            assert np.linalg.norm(exact(example)) <= found.norms[0] * (1 + 1e-6)


def test_cancelling_rows():
    check_cancelling()


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "width"), [(64, 512), (16, 5000)])
def test_rounding_of_long_rows(rows, width):
    """Lengths are never too small, whether all products round in one direction, or cancel."""
    random = np.random.default_rng(0)
    for x in (np.full((rows, width), 0.1), np.full((rows, width), 1 / 3),
              random.normal(size=(rows, width)), np.tile(random.normal(size=width), (rows, 1))):
        for g in (np.full((rows, width), 0.7), random.normal(size=(rows, width)),
                  np.where(np.arange(rows)[:, None] % 2, 1.0, -1.0) * np.full(width, 0.3)):
            x, g = np.float32(x), np.float32(g)
            wide_x, wide_g = x.astype(float), g.astype(float)
            shape = jax.ShapeDtypeStruct((width, width), jnp.float32)
            use = ghost._traced(lambda w, x, key: jnp.sum(x @ w), shape, (x[None], None))[1][0]
            one = jnp.asarray(x[None]), jnp.asarray(g[None])
            part = ghost._products_of(use, jnp.float32(0), *one)
            exact = np.sum((wide_x @ wide_x.T) * (wide_g @ wide_g.T))
            bound = np.sum(np.linalg.norm(x, axis=1) * np.linalg.norm(g, axis=1))
            found = float(part.lengths[0])
            # the rounding that the derivation allows, 192 of the 256 u that are added
            assert exact + 64 * 2.0**-24 * bound**2 <= found**2 * (1 + 1e-6)
            assert found**2 <= exact + (256 + 192) * 2.0**-24 * bound**2


def logs(p, example, key):
    """Not finite, or without a finite gradient, at some examples, with finite data."""
    hidden = jnp.log(example["x"] @ p["w"] + p["b"])
    return jnp.sum(hidden) + jnp.sum(jnp.sqrt(p["v"] @ example["x"][0]) * example["x"][0, 0])


def check_non_finite():
    """Examples with NaN or infinities, in the data, the loss or the gradient alone, are left out:
    what is left is the sum of the others.
    """
    examples = sequences()
    examples["x"] = jnp.abs(examples["x"]) + 0.01
    parameters = jax.tree.map(jnp.abs, dense_parameters())
    broken = examples["x"].at[0, 1, 2].set(jnp.nan).at[2, 0, 0].set(jnp.inf)
    broken = broken.at[3].set(-broken[3]).at[4].set(0.0).at[5, 2].set(1e30)
    bad = {"x": broken, "y": examples["y"]}
    for loss in (logs, dense):
        found = check_same(loss, parameters, bad, clip_norm=0.5)
        gone = np.isinf(found.norms)
        assert found.non_finite == gone.sum() >= 2
        good = jax.tree.map(lambda leaf, gone=gone: leaf[~gone], bad)
        want = jax.jit(lambda rows, loss=loss: training.ghost_clipped_sum(
            loss, parameters, rows, clip_norm=0.5))(good)
        np.testing.assert_allclose(flat(found.total), flat(want.total), rtol=1e-4, atol=1e-6)
    # padding may hold anything
    masked = jax.jit(lambda rows: training.ghost_clipped_sum(
        dense, parameters, rows, clip_norm=0.5, mask=~gone))(bad)
    np.testing.assert_allclose(flat(masked.total), flat(want.total), rtol=1e-4, atol=1e-6)
    assert masked.non_finite == 0


def check_overflow():
    """A finite loss whose derivative is not, by an exponential in between."""
    def loss(p, example, key):
        return jnp.sum(jnp.exp(example["x"] @ p["w"] * 30)) ** 2

    found = check_same(loss, dense_parameters(), sequences(), clip_norm=0.5)
    assert 0 < found.non_finite < SIZE


@pytest.mark.slow
def test_non_finite():
    check_non_finite()
    check_overflow()


@pytest.mark.slow
def test_inside_a_sharded_step():
    """As the trainer calls it: parts of the model closed over, in a mapped program."""
    mesh, everyone, split = sharding.data_mesh(), sharding.EVERYWHERE, sharding.SPLIT
    examples = sequences()
    keys = jax.random.split(jax.random.key(0), SIZE)

    @jax.jit
    def total(parameters, examples, keys):
        def local(w, frozen, examples, keys):
            def loss(w, row, _):
                return dense({**frozen, "w": w}, *row)

            return jax.lax.psum(training.ghost_clipped_sum(
                loss, w, (examples, keys), clip_norm=0.5, microbatch=3).total, sharding.BOTH)

        frozen = {name: parameters[name] * 2 for name in ("b", "v")}
        return jax.shard_map(local, mesh=mesh, in_specs=(everyone, everyone, split, split),
                             out_specs=everyone, check_vma=False)(
            parameters["w"], frozen, examples, keys)

    parameters = dense_parameters()
    want = training.clipped_sum(
        lambda w, row, _: dense({"b": parameters["b"] * 2, "v": parameters["v"] * 2, "w": w}, *row),
        parameters["w"], (examples, keys), clip_norm=0.5).total
    np.testing.assert_allclose(total(parameters, examples, keys), want, atol=1e-4)


@pytest.mark.optimized
def test_needs_less_memory():
    """No p x d matrix for each example: gradients are 64 times as large as what is kept."""
    def program(summed, count=32):
        def loss(w, x, key):
            return jnp.sum(jnp.tanh(x @ w) ** 2)

        w, x = jax.ShapeDtypeStruct((256, 256), jnp.float32), jax.ShapeDtypeStruct(
            (count, 4, 256), jnp.float32)
        call = jax.jit(lambda w, x: summed(loss, w, x, clip_norm=1.0))
        return call.lower(w, x).compile().memory_analysis().temp_size_in_bytes

    assert program(training.ghost_clipped_sum) < program(training.clipped_sum) / 8


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"clip_norm": 0.0}, "clip_norm = 0"), ({"clip_norm": np.nan}, "clip_norm = nan"),
     ({"clip_norm": 1.0, "microbatch": 4}, "microbatch = 4"),
     ({"clip_norm": 1.0, "key": jax.random.PRNGKey(0)}, "key = ")],
)
def test_errors(settings, match):
    with pytest.raises(ValueError, match=match):
        training.ghost_clipped_sum(dense, dense_parameters(), sequences(), **settings)
    with pytest.raises(ValueError, match="leading"):
        training.ghost_clipped_sum(dense, dense_parameters(), {"x": np.zeros(3), "y": np.zeros(2)},
                                clip_norm=1.0)
    with pytest.raises(ValueError, match=r"parameters\['w'\] is int"):
        training.ghost_clipped_sum(dense, {"w": np.arange(3)}, sequences(), clip_norm=1.0)


@pytest.mark.slow
def test_what_is_no_scalar_is_refused():
    with pytest.raises(TypeError, match="scalar"):
        training.ghost_clipped_sum(
            lambda p, example, key: example["x"] @ p["w"], dense_parameters(), sequences(),
            clip_norm=1.0)
