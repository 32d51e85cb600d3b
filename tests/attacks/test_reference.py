"""Reference statistics: the three forms against linear algebra in full,
scikit-learn's shrinkage, and each other.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv.attacks import normal_laws, reference
from jaxpriv.attacks.reference import Full, LowRank

sklearn = pytest.importorskip("sklearn.covariance")


def gradients(n, d, seed=0):
    """Correlated, with a mean: rows of a law that is far from round."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) @ random.normal(size=(d, d)) / np.sqrt(d) * np.geomspace(
        0.1, 3, d
    ) + np.linspace(-1, 2, d)


def vectors(d, count=4, seed=1):
    return np.random.default_rng(seed).normal(size=(2, count, d))


def dense(data, shrinkage):
    """C = (1-s) S + s tr(S)/d I by numpy, with the share of scikit-learn."""
    centred = data - data.mean(0)
    scatter = centred.T @ centred / len(data)
    if shrinkage == "ledoit_wolf":
        shrinkage = sklearn.ledoit_wolf(data)[1]
    elif shrinkage == "oas":
        shrinkage = sklearn.oas(data)[1]
    return (1 - shrinkage) * scatter + shrinkage * np.trace(scatter) / data.shape[1] * np.eye(
        data.shape[1]
    )


def check_products(law, covariance, rtol=1e-9):
    x, y = vectors(len(covariance))
    inverse = np.linalg.inv(covariance)
    for got, (v, w) in zip(law.products(x, y), ((x, x), (x, y), (y, y)), strict=True):
        np.testing.assert_allclose(got, np.einsum("ij,jk,ik->i", v, inverse, w), rtol=rtol)


@pytest.mark.parametrize("d", [16, 20, 31])
def test_blocks_of_columns(monkeypatch, d):
    """Products of long vectors, block by block, with and without a rest, are the products;
    a vector stands for equal rows.
    """
    monkeypatch.setattr(normal_laws, "_BLOCK", 5)
    data = gradients(12, d)
    law = reference.estimate(data, "low_rank", 0.1)
    check_products(law, dense(data, 0.1))
    x, y = vectors(d)
    for got, want in zip(
        law.products(x, y[0]), law.products(x, np.broadcast_to(y[0], x.shape)), strict=True
    ):
        np.testing.assert_allclose(got, want if got.ndim else want[0], rtol=1e-12)


@pytest.mark.parametrize("shrinkage", ["ledoit_wolf", "oas", 0.2])
@pytest.mark.parametrize("form", ["full", "low_rank"])
@pytest.mark.parametrize(("n", "d"), [(60, 12), (12, 60), (3, 30)])
def test_estimates(n, d, form, shrinkage):
    """Both forms are the dense matrix, in many dimensions and in few;
    the low rank equals the dense one.
    """
    data = gradients(n, d)
    law = reference.estimate(data, form, shrinkage)
    assert isinstance(law, Full if form == "full" else LowRank)
    np.testing.assert_allclose(law.mean, data.mean(0), atol=1e-12)
    covariance = dense(data, shrinkage)
    if np.linalg.cond(covariance) < 1e12:
        check_products(law, covariance)
        check_products(law.of_mean(5, 0.3), covariance / 5 + 0.09 * np.eye(d))
        check_products(law.of_mean(5), covariance / 5)


def test_two_gradients_shrink_to_what_scikit_learn_says():
    law = reference.estimate(gradients(2, 30), "low_rank", "oas")
    np.testing.assert_allclose(
        law.rest,
        sklearn.oas(gradients(2, 30))[1] * np.var(gradients(2, 30), axis=0).mean(),
        rtol=1e-12,
    )


def test_full_rank_without_shrinkage():
    data = gradients(60, 12)
    law = reference.estimate(data, shrinkage=0)
    assert isinstance(law, Full)
    check_products(law, dense(data, 0))


def test_diagonal():
    data = gradients(60, 12)
    law = reference.estimate(data, "diagonal")
    np.testing.assert_allclose(law.variances, data.var(0), rtol=1e-12)
    check_products(law.of_mean(3, 0.5), np.diag(data.var(0) / 3 + 0.25))
    assert reference.estimate(data, "diagonal", 1.0).variances == pytest.approx(data.var(0).mean())


def test_known():
    covariance = dense(gradients(60, 12), 0)
    check_products(reference.known(np.zeros(12), covariance), covariance)
    check_products(reference.known(np.zeros(12), np.diag(covariance)), np.diag(np.diag(covariance)))


@pytest.mark.parametrize("form", ["full", "low_rank", "diagonal", "auto"])
def test_chunks_are_one_array(form):
    """In any sizes, and far from the origin, where sums of squares would lose all digits."""
    data = gradients(60, 12) + 1e6
    whole = reference.estimate(data, form)
    chunked = reference.estimate((chunk for chunk in np.split(data, [1, 17, 20, 51])), form)
    x, y = vectors(12)
    for got, want in zip(chunked.products(x, y), whole.products(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    for got, want in zip(whole.products(x, y),
                         reference.estimate(gradients(60, 12), form).products(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_auto():
    assert isinstance(reference.estimate(gradients(60, 12)), Full)
    assert isinstance(reference.estimate(gradients(12, 60)), LowRank)


def test_equal_gradients_count_once():
    """Repeated rows leave the span smaller than their number."""
    data = np.repeat(gradients(6, 40), 3, 0)
    check_products(reference.estimate(data, "low_rank", 0.1), dense(data, 0.1))


@pytest.mark.slow
def test_float32():
    data = gradients(40, 300).astype(np.float32)
    law = reference.estimate(data)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(law))
    x, y = vectors(300)
    for got, want in zip(law.products(x.astype(np.float32), y.astype(np.float32)),
                         reference.estimate(data.astype(float)).products(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3 * np.max(np.abs(want)))


def test_under_jit_and_vmap():
    data = jnp.asarray(gradients(12, 60))
    x, y = vectors(60)
    want = reference.estimate(data).of_mean(4, 0.1).products(x, y)
    got = jax.jit(
        lambda data, n, noise: reference.estimate(data, "low_rank").of_mean(n, noise).products(x, y)
    )(data, 4, 0.1)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    full = reference.estimate(gradients(60, 12))
    x, y = vectors(12)
    got = jax.vmap(lambda noise: full.of_mean(4, noise).products(x, y)[1])(jnp.array([0.0, 0.2]))
    np.testing.assert_allclose(got[1], full.of_mean(4, 0.2).products(x, y)[1], rtol=1e-12)


SHARDED = """
import json, jax, numpy as np
jax.config.update("jax_enable_x64", True)
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxpriv.attacks import covariance, glir, reference
random = np.random.default_rng(0)
data, queries = random.normal(size=(20, 640)), random.normal(size=(300, 640))
release = data[:5].mean(0)
mesh = Mesh(np.array(jax.devices()), ("d",))
put = lambda array, *axes: jax.device_put(array, NamedSharding(mesh, P(*axes)))
found = []
for place in (lambda array, *axes: jax.numpy.asarray(array), put):
    law = reference.estimate(place(data, None, "d"), "low_rank")
    rows, mean = place(queries, None, "d"), place(release, "d")
    found.append([np.asarray(glir(mean, rows, law, 5, 0.1)), \
np.asarray(covariance(mean, rows, law, 5))])
gap = max(float(np.max(np.abs(a - b))) for a, b in zip(*found))
print(json.dumps({"devices": len(law.centred.sharding.device_set), "gap": gap}))
"""


@pytest.mark.slow
def test_scores_do_not_depend_on_the_sharding():
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
           "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["devices"] == 8
    assert told["gap"] < 1e-9


@pytest.mark.parametrize(("call", "match"), [
    (lambda: reference.estimate(gradients(9, 3), "sparse"), "form = 'sparse'"),
    (lambda: reference.estimate(gradients(9, 3), shrinkage="ledoit"), "shrinkage = 'ledoit'"),
    (lambda: reference.estimate(gradients(9, 3), shrinkage=1.5), "shrinkage = 1.5"),
    (lambda: reference.estimate(gradients(3, 9), shrinkage=0), "singular"),
    (lambda: reference.estimate(gradients(3, 9), "full", 0), "singular"),
    (lambda: reference.estimate(gradients(9, 3) * [1, 0, 1], "diagonal"), "variance at 1 of its 3"),
    (lambda: reference.estimate(np.ones((9, 3)), "diagonal", 0.5), "variance at 3 of its 3"),
    (lambda: reference.estimate(gradients(1, 9)), "1 rows"),
    (lambda: reference.estimate(gradients(1, 9), "full"), "1 rows"),
    (lambda: reference.estimate(iter([])), "empty"),
    (lambda: reference.estimate(iter([]), "diagonal"), "empty"),
    (lambda: reference.estimate(np.zeros(5)), r"shape \(5,\)"),
    (lambda: reference.estimate(np.zeros(5), "full"), r"shape \(5,\)"),
    (lambda: reference.estimate(np.full((5, 2), np.nan)), "not finite"),
    (lambda: reference.estimate(np.full((5, 9), np.inf)), "not finite"),
    (lambda: reference.known(np.zeros(3), np.ones((2, 2))), "covariance has shape"),
    (lambda: reference.known(np.zeros(3), np.ones(3)).of_mean(0), "batch_size = 0"),
    (lambda: reference.known(np.zeros(3), np.ones(3)).of_mean(2, -1), "noise_std = -1"),
])
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
