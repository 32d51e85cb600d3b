"""What an attacker knows of the other records: mean and covariance of their gradients, given or
estimated, as one of the `jaxpriv.attacks.normal_laws`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._array import matmul
from jaxpriv._checks import is_traced
from jaxpriv._types import Numbers
from jaxpriv.attacks.normal_laws import Diagonal, Full, LowRank, NormalLaw, ShardedLowRank

_RULES = ("ledoit_wolf", "oas")
_FORMS = ("auto", "full", "low_rank", "diagonal")
_MAX_FULL = 4096  # "auto": beyond it a d x d factor costs more than it tells


def known(mean: Numbers, covariance: Numbers) -> Full | Diagonal:
    """Reference statistics that are known, not estimated.

    Args:
        mean: `Float[Array, "d"]`.
        covariance: `Float[Array, "d d"]`, positive definite, or `Float[Array, "d"]`,
            the variances of independent columns.

    Returns: a `Full` or a `Diagonal`. A matrix that is not positive definite gives NaN scores.
    Raises: ValueError where shapes do not match.

        >>> import numpy as np
        >>> type(known(np.zeros(3), np.ones(3))).__name__
        'Diagonal'
    """
    mean, covariance = jnp.asarray(mean), jnp.asarray(covariance)
    d = mean.shape[-1]
    if covariance.shape not in ((d,), (d, d)):
        raise ValueError(
            f"covariance has shape {covariance.shape}; accepted: ({d},) or ({d}, "
            f"{d}), as mean has {d} entries"
        )
    if covariance.ndim == 1:
        return Diagonal(mean, covariance)
    return Full(mean, jnp.linalg.cholesky(covariance))


def estimate(
    gradients: Any, form: str = "auto", shrinkage: str | float = "ledoit_wolf"
) -> NormalLaw:
    """Reference statistics of the law that these gradients are drawn from.

    Args:
        gradients: `Float[Array, "n d"]`, or an iterable of such chunks, seen once ("full" and
            "diagonal" keep no chunk). An array that is sharded over devices along d stays so: every
            product is then a sum over devices.
        form: "full", "low_rank", "diagonal", or "auto": "full" for n > d <= 4096, else "low_rank";
            "auto" keeps the chunks.
        shrinkage: the share s of a multiple of the identity in C = (1-s) S + s tr(S)/d I, S the
            centred covariance (over n): "ledoit_wolf", "oas" (oracle approximating), or a number
            in [0, 1]. "diagonal", whose entries are well estimated, shrinks only by a number.

    Returns: a `Full`, `LowRank` or `Diagonal`.
    Raises: ValueError for fewer than two gradients, non-finite ones, unknown names, or s = 0 where
        n <= d or, of "diagonal", a coordinate never changes (C is singular then).
    Source: Leemann et al. 2023 (arXiv:2306.07273), Algorithm 1, lines 6-7; Azize and Basu 2025
    (AISTATS), Algorithm 3 (with the covariance centred); Ledoit, Wolf 2004;
        Chen, Wiesel, Eldar, Hero 2010.

        >>> import numpy as np
        >>> gradients = np.random.default_rng(0).normal(size=(50, 200))
        >>> type(estimate(gradients)).__name__, type(estimate(gradients.T)).__name__
        ('LowRank', 'Full')
    """
    if form not in _FORMS:
        raise ValueError(f"form = {form!r}; accepted: {', '.join(_FORMS)}")
    if isinstance(shrinkage, str):
        if shrinkage not in _RULES:
            raise ValueError(
                f"shrinkage = {shrinkage!r}; accepted: {', '.join(_RULES)}, or a number in [0, 1]"
            )
    elif not 0 <= shrinkage <= 1:
        raise ValueError(f"shrinkage = {shrinkage} is outside its range [0, 1]")
    is_array = hasattr(gradients, "shape")
    if form in ("auto", "low_rank"):
        # the second is nobody else's, and NumPy's
        gradients = jnp.asarray(gradients) if is_array else _gathered(gradients)
        if gradients.ndim != 2:
            raise ValueError(f"gradients has shape {gradients.shape}; accepted: (n, d)")
        if form == "auto":
            n, d = gradients.shape
            form = "full" if d <= _MAX_FULL and n > d else "low_rank"
        if form == "low_rank":
            return _low_rank(gradients, shrinkage)
        is_array = True
    sums = _Sums(form == "full")
    for chunk in [gradients] if is_array else gradients:
        sums.add(jnp.asarray(chunk))
    return sums.full(shrinkage) if form == "full" else sums.diagonal(shrinkage)


def _gathered(chunks):
    """One array of all chunks; never more than one chunk beside it."""
    rows, used = None, 0
    for chunk in chunks:
        chunk = np.asarray(chunk)
        if rows is None:
            rows = np.empty((max(2 * len(chunk), 16), chunk.shape[1]), chunk.dtype)
        if used + len(chunk) > len(rows):
            # memory untouched until filled
            rows.resize((max(2 * len(rows), used + len(chunk)), rows.shape[1]), refcheck=False)
        rows[used : used + len(chunk)] = chunk
        used += len(chunk)
    if rows is None:
        raise ValueError("gradients is empty; accepted: at least 2 gradients")
    rows.resize((used, rows.shape[1]), refcheck=False)
    return rows


def _check(n, finite):
    if n < 2:
        raise ValueError(f"gradients has {n} rows; accepted: at least 2")
    if not is_traced(finite) and not bool(finite):
        raise ValueError("gradients has entries that are not finite; accepted: finite numbers")


def _share(rule, n, d, trace, square, fourth):
    """The share of the identity, from tr S,
    |S|_F^2 and sum_i |x_i|^4/n of the centred gradients x_i.

    Ledoit-Wolf: min(b, a)/a with a = |S - m I|^2 = |S|^2 - d m^2, m = tr S/d, b = the mean of
    |x x^T - S|^2 over n. Oracle approximating: (|S|^2/d^2 + m^2)/((n+1) (|S|^2/d^2 - m^2/d)).
    """
    if rule == "ledoit_wolf":
        distance = square - trace**2 / d
        noise = (fourth - square) / n
        return jnp.where(
            distance > 0, jnp.clip(noise / jnp.where(distance > 0, distance, 1.0), 0.0, 1.0), 1.0
        )
    if rule == "oas":
        mean_square, mean = square / d**2, trace / d
        below = (n + 1) * (mean_square - mean**2 / d)
        return jnp.where(
            below > 0,
            jnp.clip((mean_square + mean**2) / jnp.where(below > 0, below, 1.0), 0.0, 1.0),
            1.0,
        )
    return rule


def _refuse_singular(share, n, d):
    if not is_traced(share) and float(share) == 0 and n <= d:
        raise ValueError(
            f"shrinkage = 0 with {n} gradients in {d} dimensions: their covariance is singular; "
            "accepted: a rule, or a positive number"
        )


@jax.jit
def _centre(gradients):
    mean = jnp.mean(gradients, 0)
    return mean, gradients - mean


def _centre_in_place(rows):
    """Without a second array as large."""
    mean = rows.mean(0, dtype=np.float64).astype(rows.dtype)
    rows -= mean
    return jnp.asarray(mean), jax.device_put(rows)  # jnp.asarray makes two copies


# a program of its own: where the centred gradients are an output as well, XLA copies them
@jax.jit(static_argnums=1)
def _gram(centred, form):
    return form.inner(centred, centred) / len(centred)


def _low_rank(gradients, shrinkage):
    """By the eigenvectors of the Gram matrix G = X X^T/n = W diag(v) W^T:
    the rows of (n v)^-1/2 W^T X are those of S.
    """
    n, d = gradients.shape
    _check(n, True)
    own = isinstance(gradients, np.ndarray)
    mean, centred = _centre_in_place(gradients) if own else _centre(gradients)
    _check(n, jnp.all(jnp.isfinite(mean)))
    form = (
        ShardedLowRank
        if not is_traced(centred) and len(centred.sharding.device_set) > 1
        else LowRank
    )
    gram = _gram(centred, form)
    trace, square, fourth = jnp.trace(gram), jnp.sum(gram**2), n * jnp.sum(jnp.diagonal(gram) ** 2)
    share = _share(shrinkage, n, d, trace, square, fourth)
    _refuse_singular(share, n, d)
    values, vectors = jnp.linalg.eigh(gram)
    # centring loses one direction, equal gradients more
    some = values > values[-1] * n * jnp.finfo(values.dtype).eps
    rotation = jnp.where(some, vectors / jnp.sqrt(n * jnp.where(some, values, 1.0)), 0.0)
    rest = share * trace / d
    return form(mean, centred, rotation, (1 - share) * jnp.where(some, values, 0.0) + rest, rest)


class _Sums:
    """Moments of gradients that come in chunks, about the mean of the first chunk,
    which takes the cancellation out.
    """

    def __init__(self, full):
        self.full_form = full
        self.n = 0

    def add(self, chunk):
        if chunk.ndim != 2:
            raise ValueError(f"gradients has shape {chunk.shape}; accepted: (n, d)")
        if self.n == 0:
            self.origin = jnp.mean(chunk, 0)
            self.moments = jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
                jax.eval_shape(
                    lambda rows, origin: _moments(rows, origin, self.full_form), chunk, self.origin
                ),
            )
        self.moments = _added(self.moments, chunk, self.origin, self.full_form)
        self.n += len(chunk)

    def _finished(self):
        """(mean, shift of the mean from the origin, moments per gradient)."""
        if self.n == 0:
            raise ValueError("gradients is empty; accepted: at least 2 gradients")
        first, *rest = (moment / self.n for moment in self.moments)
        _check(self.n, jnp.all(jnp.isfinite(first)))
        return self.origin + first, first, rest

    def full(self, shrinkage):
        mean, shift, (second, cubes, fourth) = self._finished()
        d = len(mean)
        scatter = second - jnp.outer(shift, shift)
        # E|x-s|^4 = E(|x|^2 - 2 x.s + |s|^2)^2, s = E x
        size, s2 = jnp.trace(second), matmul(shift, shift)
        along, across = matmul(cubes, shift), matmul(matmul(shift, second), shift)
        about = fourth - 4 * along + 4 * across + 2 * s2 * size - 3 * s2**2
        trace = jnp.trace(scatter)
        share = _share(shrinkage, self.n, d, trace, jnp.sum(scatter**2), about)
        _refuse_singular(share, self.n, d)
        return Full(
            mean,
            jnp.linalg.cholesky(
                (1 - share) * scatter + share * trace / d * jnp.eye(d, dtype=scatter.dtype)
            ),
        )

    def diagonal(self, shrinkage):
        mean, shift, (second,) = self._finished()
        variances = second - shift**2
        share = 0.0 if isinstance(shrinkage, str) else shrinkage
        variances = (1 - share) * variances + share * jnp.mean(variances)
        if not is_traced(variances) and not bool(jnp.all(variances > 0)):
            raise ValueError(
                f"gradients has no variance at {int(jnp.sum(variances <= 0))} of its "
                f"{variances.size} coordinates; accepted: some at each, or a shrinkage in (0, 1] "
                "where some have any"
            )
        return Diagonal(mean, variances)


def _moments(chunk, origin, full):
    """Sums of x, x x^T, |x|^2 x and |x|^4 over the rows x of a chunk less the origin;
    of x and x^2 for a diagonal.
    """
    x = chunk - origin
    if not full:
        return jnp.sum(x, 0), jnp.sum(x**2, 0)
    squares = jnp.sum(x**2, 1)
    return jnp.sum(x, 0), matmul(x.T, x), matmul(squares, x), jnp.sum(squares**2)


@jax.jit(static_argnums=3, donate_argnums=0)
def _added(moments, chunk, origin, full):
    return jax.tree.map(jnp.add, moments, _moments(chunk, origin, full))
