"""Normal laws of gradients in three forms: `Full` (Cholesky factor, d x d), `LowRank` (span of the
reference gradients and one variance for the rest of the space: nothing d x d is formed),
`Diagonal`. Each has two methods: `of_mean`, the law of a mean of such gradients plus noise, and
`products`, inner products under C^-1. Every score needs no more.
"""

from abc import ABC, abstractmethod

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._array import matmul
from jaxpriv._checks import NONNEGATIVE, POSITIVE, as_parameter, is_traced
from jaxpriv._pytree import pytree

_BLOCK = 8192


class NormalLaw(ABC):
    """N(mean, C) in one of its forms; a form has `mean`, `_of_mean` and `products`."""

    mean: jax.Array

    def of_mean(self, batch_size, noise_std=0.0):
        """The law of the mean of `batch_size` such gradients plus normal noise:
        N(mean, C/n + noise_std^2 I).
        """
        return self._of_mean(
            as_parameter("batch_size", batch_size, POSITIVE),
            as_parameter("noise_std", noise_std, NONNEGATIVE),
        )

    @abstractmethod
    def _of_mean(self, n, noise):
        """`of_mean`, of arguments that are checked."""

    @abstractmethod
    def products(self, x, y):
        """x^T C^-1 x, x^T C^-1 y, y^T C^-1 y for `Float[Array, "q d"]`, row by row;
        y may be one vector for all rows.
        """


@pytree
class Full(NormalLaw):
    """N(mean, L L^T): `Float[Array, "d"]` and the lower factor `Float[Array, "d d"]`."""

    mean: jax.Array
    factor: jax.Array

    def _of_mean(self, n, noise):
        factor = self.factor / jnp.sqrt(n)
        if is_traced(noise) or np.any(noise > 0):
            factor = jnp.linalg.cholesky(
                matmul(factor, factor.T) + noise**2 * jnp.eye(len(self.mean), dtype=factor.dtype)
            )
        return Full(self.mean, factor)

    def products(self, x, y):
        x, y = (
            jax.lax.linalg.triangular_solve(
                self.factor, jnp.atleast_2d(v), transpose_a=True, lower=True
            ).reshape(v.shape)
            for v in (x, y)
        )  # v L^-T: from the right, where nothing has to be transposed
        return jnp.sum(x * x, -1), jnp.sum(x * y, -1), jnp.sum(y * y, -1)


@pytree
class LowRank(NormalLaw):
    """N(mean, C) with C = U^T diag(variances) U + rest (I - U^T U),
    the rows of U = rotation^T centred orthonormal.

    U is not stored: `centred`, `Float[Array, "n d"]`, holds the reference gradients less their
    mean, `rotation`, `Float[Array, "n n"]`, what makes their span orthonormal.
    """

    mean: jax.Array
    centred: jax.Array
    rotation: jax.Array
    variances: jax.Array
    rest: jax.Array

    def _of_mean(self, n, noise):
        return type(self)(
            self.mean, self.centred, self.rotation, self.variances / n + noise**2,
            self.rest / n + noise**2,
        )

    def products(self, x, y):
        a, b = (matmul(self.inner(v, self.centred), self.rotation) for v in (x, y))

        def product(v, w, in_v, in_w):
            inside = in_v * in_w
            return (
                jnp.sum(inside / self.variances, -1)
                + (jnp.sum(v * w, -1) - jnp.sum(inside, -1)) / self.rest
            )

        return product(x, x, a, a), product(x, y, a, b), product(y, y, b, b)

    @staticmethod
    def inner(x, rows):
        """x rows^T, block by block of columns: for the whole product at once XLA copies the rows
        transposed, all gigabytes.
        """
        d = x.shape[-1]
        blocks = d // _BLOCK
        if blocks < 2:
            return matmul(x, rows.T)

        def add(i, total):
            some, others = (
                jax.lax.dynamic_slice_in_dim(v, i * _BLOCK, _BLOCK, -1) for v in (x, rows)
            )
            return total + matmul(some, others.T)

        rest = matmul(x[..., blocks * _BLOCK :], rows[:, blocks * _BLOCK :].T)
        return jax.lax.fori_loop(0, blocks, add, rest)


@pytree
class ShardedLowRank(LowRank):
    """A `LowRank` whose columns lie on several devices:
    a product is a sum over them, and XLA splits it.
    """

    @staticmethod
    def inner(x, rows):
        """x rows^T."""
        return matmul(x, rows.T)


@pytree
class Diagonal(NormalLaw):
    """N(mean, diag(variances)): `Float[Array, "d"]` twice."""

    mean: jax.Array
    variances: jax.Array

    def _of_mean(self, n, noise):
        return Diagonal(self.mean, self.variances / n + noise**2)

    def products(self, x, y):
        return tuple(jnp.sum(v * w / self.variances, -1) for v, w in ((x, x), (x, y), (y, y)))
