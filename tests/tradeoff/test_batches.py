"""Batches equal their elements, whether by broadcasting, jit or vmap, and curves are pytrees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import relaxed, worst_case
from tests.tradeoff.checks import CATALOGUE, close, variants


@pytest.mark.parametrize(
    "kind",
    ["forward", *(pytest.param(k, marks=pytest.mark.slow) for k in ("symmetric", "subsampled"))],
)
def test_batch_equals_loop(kind):
    """Elements alone, in a batch, by vmap and under jit give the same; and shapes broadcast."""
    ratio, eps, alpha = (
        np.array([0.3, 1.0, 2.5]),
        np.array([0.1, 0.7, 1.2]),
        np.array([0.01, 0.3, 0.8]),
    )
    make = variants(CATALOGUE["relaxed_laplace"].make)[kind]
    for method, argument in (("delta", eps), ("epsilon", alpha / 3), ("__call__", alpha),
                             ("power", alpha), ("inverse", alpha)):

        def value(ratio, argument, method=method):
            return getattr(make(ratio), method)(argument)

        batch = np.asarray(value(ratio, argument))
        loop = [
            float(value(np.array(r), np.array(a))) for r, a in zip(ratio, argument, strict=True)
        ]
        close(f"{kind} loop.{method}", loop, batch, 1e-13)
        close(f"{kind} jit.{method}", jax.jit(value)(ratio, argument), batch, 1e-13)
        close(f"{kind} vmap.{method}", jax.vmap(value)(jnp.asarray(ratio), jnp.asarray(argument)),
              batch, 1e-13)
        table = value(ratio[:, None], argument)
        assert table.shape == (3, 3)
        close(f"{kind} table.{method}", np.diag(table), batch, 1e-13)


@pytest.mark.slow
def test_curve_is_a_pytree():
    """A curve passes through jit, vmap and tree.map; its leaves are its parameters."""
    curve = relaxed.gaussian(np.array([0.5, 1.0]), np.array([1.0, 4.0]))
    assert len(jax.tree.leaves(curve)) == 2
    want = np.asarray(curve.delta(0.3))
    close("pytree jit.delta", jax.jit(lambda c: c.delta(0.3))(curve), want, 1e-13)
    close("pytree vmap.delta", jax.vmap(lambda c: c.delta(0.3))(jax.tree.map(jnp.asarray, curve)),
          want, 1e-13)
    single = jax.tree.map(lambda leaf: leaf[1], curve)
    close("pytree leaf.delta", single.delta(0.3), want[1], 1e-13)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, worst_case.gaussian(1.5))
    close("pytree map.gdp_mu", doubled.gdp_mu(), 3.0, 1e-14)
    assert jax.jit(lambda mu: relaxed.gaussian(mu, 3.0).symmetric())(1.0).experiment is not None
