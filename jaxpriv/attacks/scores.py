"""Scores of membership from a released mean of gradients:
one number per query, higher means member.

An attack takes the release, the gradients of the queries and the reference statistics of all other
gradients (`jaxpriv.attacks.reference`). Gradients of a clipped training are clipped alike for
queries and reference.
"""

import jax
import jax.numpy as jnp

from jaxpriv._array import matmul
from jaxpriv._checks import NONNEGATIVE, POSITIVE, as_parameter
from jaxpriv._types import Answer, Numbers
from jaxpriv.attacks.normal_laws import NormalLaw
from jaxpriv.stats import chi2, ncx2

# of queries at once: enough for matrix products at full speed,
# few enough to leave no second copy of them all
_ENTRIES = 2**27


def in_chunks(queries, function):
    """`function` of the rows of `queries`, some at a time, from where they lie: the last chunk
    overlaps the one before.
    """
    count, size = len(queries), min(len(queries), max(_ENTRIES // queries.shape[1], 1))
    if count == size:
        return function(queries)
    starts = jnp.minimum(jnp.arange(0, count, size), count - size)
    parts = jax.lax.map(
        lambda start: function(jax.lax.dynamic_slice_in_dim(queries, start, size)), starts
    )
    rows = jnp.arange(count)
    last = rows >= (len(starts) - 1) * size
    return jax.tree.map(
        lambda part: jnp.where(
            last, part[-1, rows - (count - size)], part[rows // size, rows % size]
        ),
        parts,
    )


def _distances(release, queries, law):
    """|g|^2 and g.m of queries g, and |m|^2 of the release m,
    about the law's mean and in its units.
    """
    release, queries = jnp.asarray(release), jnp.asarray(queries)
    d = law.mean.shape[-1]
    if queries.ndim != 2 or queries.shape[1] != d:
        raise ValueError(f"queries has shape {queries.shape}; accepted: (queries, {d})")
    if release.shape != (d,):
        raise ValueError(f"release has shape {release.shape}; accepted: ({d},)")
    moved = release - law.mean

    def of(rows):
        queried, shared, released = law.products(rows - law.mean, moved)
        return queried, shared, jnp.broadcast_to(released, queried.shape)

    return in_chunks(queries, of)


@jax.jit
def _glir(release, queries, law):
    queried, shared, released = _distances(release, queries, law)
    return -ncx2.logcdf(
        jnp.maximum(released - 2 * shared + queried, 0.0), law.mean.shape[-1] * 1.0, queried
    )


def glir(
    release: Numbers, queries: Numbers, reference: NormalLaw, batch_size: Numbers,
    noise_std: Numbers = 0.0,
) -> jax.Array:
    """The gradient likelihood ratio attack:
    minus the log p-value of "the query is not in the batch".

    With V = C/n + noise_std^2 I, the squared distance |m - g|^2 under V^-1 of release m and query g
    is noncentral chi-square with d degrees of freedom and nc = |g - mean|^2 under V^-1 where g took
    no part, and smaller where it did. (The paper prints the factor n-1 for n, and the inverse of
    the distribution function for the function itself: slips.)

    Args:
        release: `Float[Array, "d"]`: mean gradient of the batch, with its noise.
        queries: `Float[Array, "queries d"]`: their gradients at the same parameters.
        reference: from `jaxpriv.attacks.reference`.
        batch_size: in (0, inf): n. noise_std: in [0, inf):
            of the noise on the mean, per coordinate.

    Returns: `Float[Array, "queries"]`, in [0, inf): e^-score is the p-value, uniform for normal
        gradients of known law; never cut off or tied.
    Raises: ValueError for values outside their range and shapes that do not match.
    Source: Leemann et al. 2023 (arXiv:2306.07273), Algorithm 1 and Theorem 5.1, corrected
    (docs/references.md).

        >>> import numpy as np
        >>> from jaxpriv.attacks.reference import known
        >>> batch = np.random.default_rng(0).normal(size=(10, 100))
        >>> member, other = glir(batch.mean(0), np.stack([batch[0], -batch[0]]),
        ...                      known(np.zeros(100), np.ones(100)), 10)
        >>> bool(member > 5 > other)
        True
    """
    return _glir(release, queries, reference.of_mean(batch_size, noise_std))


@jax.jit
def _covariance(release, queries, law, n):
    queried, shared, _ = _distances(release, queries, law)
    return shared / n - queried / (2 * n**2)


def covariance(
    release: Numbers, queries: Numbers, reference: NormalLaw, batch_size: Numbers,
    noise_std: Numbers = 0.0,
) -> jax.Array:
    """The covariance attack: the log likelihood ratio of a mean that the query moves by
    (g - mean)/n, to first order.

    (g-mean)^T (C + n noise_std^2 I)^-1 (m-mean) - |g-mean|^2/(2n) in the same metric.

    Args, errors: as `glir`. Returns: `Float[Array, "queries"]`, any real number; 0 is indifferent.
    Source: Azize and Basu 2025 (AISTATS), Eq. (5) and Algorithm 4; the gradient of a batch is
    (theta_t - theta_t+1)/learning rate, printed with the other sign.

        >>> import numpy as np
        >>> from jaxpriv.attacks.reference import known
        >>> print(covariance(np.ones(4), np.eye(4)[:1], known(np.zeros(4), np.ones(4)),
        ...                  batch_size=2))
        [0.75]
    """
    return _covariance(release, queries, reference.of_mean(batch_size, noise_std), batch_size)


def scalar_product(
    release: Numbers, queries: Numbers, reference: NormalLaw | None = None
) -> jax.Array:
    """The scalar product attack: how far release and query point the same way,
    less what a typical gradient does.

    (g - mean)^T m; without a reference g^T m. Blind to the covariance.

    Args, errors: as `glir`. Returns: `Float[Array, "queries"]`, any real number.
    Source: Dwork, Smith, Steinke, Ullman, Vadhan 2015; Azize and Basu 2025 (AISTATS), section 3.

        >>> import numpy as np
        >>> print(scalar_product(np.ones(4), np.eye(4)[:2]))
        [1. 1.]
    """
    release, queries = jnp.asarray(release), jnp.asarray(queries)
    product = matmul(queries, release)
    return product if reference is None else product - matmul(reference.mean, release)


def bernoulli_likelihood_ratio(release: Numbers, queries: Numbers, mean: Numbers) -> jax.Array:
    """The likelihood ratio of a mean m of Bernoulli records:
    sum of z log(m/p) + (1-z) log((1-m)/(1-p)).

    Args:
        release: `Float[Array, "d"]` in [0, 1]. queries: `Float[Array, "queries d"]`, zeros and
            ones. mean: `Float[Array, "d"]` in (0, 1): p, of the law.

    Returns: `Float[Array, "queries"]`; -inf where the release rules the query out.
    Source: Azize and Basu 2025 (AISTATS), Eq. (11); Sankararaman, Obozinski, Jordan, Halperin 2009.
    Exact: of k = n m ones, a member with z = 1
        leaves k-1 to the n-1 others, and C(n-1, k-1) p^(k-1)/(C(n, k) p^k) = m/p.

        >>> import numpy as np
        >>> print(bernoulli_likelihood_ratio(np.array([0.5, 1.0]), np.array([[1, 1], [1, 0]]),
        ...                                  np.full(2, 0.5)))
        [0.6931472      -inf]
    """
    release, queries, mean = jnp.asarray(release), jnp.asarray(queries), jnp.asarray(mean)
    one, zero = jnp.log(release) - jnp.log(mean), jnp.log1p(-release) - jnp.log1p(-mean)
    return jnp.sum(jnp.where(queries > 0.5, one, zero), -1)


def folded(release: Numbers, noise_std: Numbers) -> jax.Array:
    """The score of the relaxed adversary, who does not know the query: the squared length of the
    release in units of its noise.

    Args:
        release: `Float[Array, "... d"]`, less what all other records contribute.
            noise_std: in (0, inf).

    Returns: `Float[Array, "..."]`. Its law is central or noncentral
        chi-square: `jaxpriv.relaxed.gaussian`.
    Raises: ValueError for noise_std outside its range. Source: Kaissis et al. 2022
    (arXiv:2210.13028), Theorem 1.

        >>> import numpy as np
        >>> print(folded(np.array([3.0, 4.0]), 1.0))
        25.0
    """
    release = jnp.asarray(release) / as_parameter("noise_std", noise_std, POSITIVE)
    return jnp.sum(release * release, -1)


def fisher(scores: Numbers) -> Answer:
    """The log p-values of several steps as one, by Fisher's law:
    -2 times their sum is chi-square with 2 steps degrees.

    Args:
        scores: `Float[Array, "steps ..."]` in [0, inf):
            minus log p-values of independent releases, from `glir`.

    Returns: `Float[Array, "..."]`: minus the log p-value of all steps. It ranks as the plain sum
        does, which is the other way to combine scores.
    Raises: ValueError for scores outside their range, or none.

        >>> import numpy as np
        >>> print(fisher(np.array([[3.0], [4.0]])))
        [4.9205585]
    """
    scores = jnp.asarray(as_parameter("scores", scores, NONNEGATIVE))
    if scores.ndim == 0 or len(scores) == 0:
        raise ValueError(
            f"scores has shape {scores.shape}; accepted: (steps, ...), at least one step"
        )
    return -chi2.logsf(2 * jnp.sum(scores, 0), 2.0 * len(scores))
