"""Exact confidence limits of a probability from a count (Clopper-Pearson)."""

import jax
import jax.numpy as jnp
import numpy as np

_HALVINGS = 60


def beta_quantile(p, a, b):
    """The p-quantile of the Beta(a, b) law, by halving; 0 for a = 0, 1 for b = 0.

    Args:
        p: `Float[Array, "..."]` in (0, 1). a, b: `Float[Array, "..."]` in [0, inf), not both 0.

    Returns: `Float[numpy.ndarray, "..."]`, within 1e-15.

        >>> print(f"{beta_quantile(0.5, 1, 1):.3f}")
        0.500
    """
    with jax.enable_x64(True):
        p, a, b = (np.asarray(v, float) for v in np.broadcast_arrays(p, a, b))
        inside = (a > 0) & (b > 0)
        middle = _halved(p, np.where(inside, a, 1.0), np.where(inside, b, 1.0))
        return np.where(inside, middle, np.where(a > 0, 1.0, 0.0))


def beta_cdf(x, a, b):
    """The distribution function of the Beta(a, b) law, for a, b > 0: P(X <= x).

        >>> print(f"{beta_cdf(0.25, 1, 1):.3f}")
        0.250
    """
    with jax.enable_x64(True):
        return np.asarray(jax.scipy.special.betainc(*(np.asarray(v, float) for v in np.broadcast_arrays(a, b, x))))


@jax.jit
def _halved(p, a, b):
    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        left = jax.scipy.special.betainc(a, b, middle) >= p
        return jnp.where(left, low, middle), jnp.where(left, middle, high)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros_like(p), jnp.ones_like(p)))
    return (low + high) / 2


def clopper_pearson(successes, trials, miss):
    """(lower, upper): one-sided limits of a success probability, each wrong with probability at most `miss`.

    Args:
        successes: `Int[Array, "..."]` in [0, trials]. trials: in [1, inf). miss: in (0, 1).

    Source: Clopper, Pearson 1934.

        >>> low, high = clopper_pearson(0, 100, 0.05)
        >>> print(f"{low:.4f} {high:.4f}")
        0.0000 0.0295
    """
    k, n = np.asarray(successes, float), np.asarray(trials, float)
    return beta_quantile(miss, k, n - k + 1), beta_quantile(1 - np.asarray(miss), k + 1, n - k)
