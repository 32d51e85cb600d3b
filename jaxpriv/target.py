"""Leakage of one fixed target: who tests whether it is in the data set,
from a mean of records whose law is known.

Azize and Basu 2025 (AISTATS): as the number n of records and their dimension d grow together, the
likelihood ratio of the best attack is normal, and one number decides how hard the game is, the
leakage score m* of the target. Different targets leak differently from the same mechanism. A number
from here is no differential privacy guarantee: quote it beside `jaxpriv.worst_case`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.flatten_util import ravel_pytree

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE, POSITIVE, RATE, Domain, as_parameter
from jaxpriv._types import Answer, Numbers
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.gaussian_pairs import NormalShift

__all__ = ["empirical_mean", "estimator_score", "leakage_score", "misspecified", "noisy_mean",
           "subsampled_mean"]

ASSUMPTION = (
    "The adversary knows the law of the records, the target and the released mean, "
    "but not the other records."
)


def leakage_score(target: Numbers, mean: Numbers, covariance: Numbers, n: Numbers) -> Answer:
    """m* = (z - mean)^T C^-1 (z - mean)/n: how far the target lies from the law of the
    records, in its own units.

    Args:
        target: `Float[Array, "... d"]`; mean: `Float[Array, "... d"]`.
        covariance: `Float[Array, "... d d"]`, positive definite, or `Float[Array, "d"]`, the
            variances of independent columns.
        n: `Float[Array, "..."]` in (0, inf): number of records.

    Returns: `Float[Array, "..."]`; NaN for a matrix that is not positive definite.
        d/n on average over targets.
    Raises: ValueError for n outside its range. Source: Azize and Basu 2025 (AISTATS), Theorem 3.1.

        >>> import numpy as np
        >>> print(leakage_score(np.ones(500), np.full(500, 0.5), np.full(500, 0.25), n=100))
        5.0
    """
    n = as_parameter("n", n, POSITIVE)
    covariance = xp.asarray(covariance)
    away = xp.asarray(target) - xp.asarray(mean)
    if covariance.ndim == 1:
        return xp.sum(away * away / covariance, -1) / n
    whitened = xp.whitened(covariance, away)
    return xp.sum(whitened * whitened, -1) / n


def estimator_score(loss: Callable[..., Any], parameters: Any, target: Any, records: Any) -> Answer:
    """The leakage score of a target in an estimator that minimises the mean loss over the records.

    Such an estimate is a mean of influences V^-1 g up to smaller terms, g the gradient of the loss
    at one record and V the mean Hessian, which the Mahalanobis distance does not see:
    m* = g(z)^T (mean of g g^T)^-1 g(z)/n.

    Args:
        loss: (parameters, record) -> scalar.
        parameters: any pytree, a minimiser for these records, or the true one.
        target: one record; records: the same pytree with a leading axis of
            n > number of parameters.

    Returns: a scalar. Raises: ValueError for fewer records than parameters.
    Source: Azize and Basu 2025 (AISTATS), Section 3 (Z-estimators); van der Vaart 1998, Theorem
    5.21.

        >>> import jax.numpy as jnp
        >>> records = xp.array([-1.0, 1.0, 2.0, -2.0])
        >>> print(f"{estimator_score(lambda mean, z: (z - mean) ** 2, 0.0, 3.0, records):.4f}")
        0.9000
    """
    flat, unflatten = ravel_pytree(parameters)
    gradient = jax.grad(lambda p, record: loss(unflatten(p), record))
    scores = jax.vmap(gradient, (None, 0))(flat, records)
    n, d = scores.shape
    if n < d:
        raise ValueError(f"records has {n} entries for {d} parameters; accepted: at least as many")
    return leakage_score(
        gradient(flat, target), xp.zeros_like(flat), xp.matmul(scores.T, scores) / n, n
    )


def _gaussian(square):
    """G_mu with mu^2 = square, and a zero derivative instead of NaN at 0."""
    square = xp.asarray(square)
    some = square > 0
    return Curve(NormalShift(xp.where(some, xp.sqrt(xp.where(some, square, 1.0)),
                                      xp.where(square == 0, 0.0, xp.nan))))


def empirical_mean(score: Numbers) -> Curve:
    """The exact mean of the records: power = Phi(Phi^-1(alpha) + m*^1/2),
    the Gaussian curve with mu = m*^1/2.

    The mean hides its records without any noise, inherently,
    from an adversary who does not know the others.

    Args:
        score: `Float[Array, "..."]` in [0, inf): m*, from `leakage_score`.

    Returns: a `Curve`, the same in both directions;
        `gdp_mu()` and `epsilon(delta)` are the inherent ones.
    Guarantee: the limit of large n and d; none for differential privacy.
    Raises: ValueError for a score outside its range. Source: Azize and Basu 2025 (AISTATS), Theorem
    3.1, Eqs. (3)-(4).

        >>> print(f"{empirical_mean(5.0).advantage():.4f}")
        0.7364
    """
    return _gaussian(as_parameter("score", score, NONNEGATIVE))


def noisy_mean(
    target: Numbers, mean: Numbers, covariance: Numbers, n: Numbers, noise_std: Numbers
) -> Curve:
    """The mean of the records with normal noise: `empirical_mean` of the score with n noise_std^2
    added to the variances.

    Args:
        target, mean, covariance, n: as in `leakage_score`.
        noise_std: `Float[Array, "..."]` in [0, inf): of the noise on the mean, per coordinate.

    Returns, guarantee, errors: as `empirical_mean`.
    Source: Azize and Basu 2025 (AISTATS), Theorem 4.1, whose C_gamma is n noise_std^2.

        >>> import numpy as np
        >>> z, p = np.ones(500), np.full(500, 0.5)
        >>> print(f"{noisy_mean(z, p, p * (1 - p), n=100, noise_std=0.05).gdp_mu():.4f}")
        1.5811
    """
    variance = (
        as_parameter("n", n, POSITIVE) * as_parameter("noise_std", noise_std, NONNEGATIVE) ** 2
    )
    covariance = xp.asarray(covariance)
    added = variance if covariance.ndim == 1 else variance * xp.eye(covariance.shape[-1])
    return _gaussian(leakage_score(target, mean, covariance + added, n))


def subsampled_mean(score: Numbers, rate: Numbers) -> Curve:
    """The mean of a random part of the records: power = (1-rate) alpha + rate
    Phi(Phi^-1(alpha) + (m*/rate)^1/2).

    With probability 1 - rate the target is not even among them, so no advantage exceeds rate. (The
    paper's Theorem 4.2, a Gaussian curve with mu^2 = rate m*, treats the coordinates as if each
    were sampled on its own: a slip.)

    Args:
        score: `Float[Array, "..."]` in [0, inf): m* in the whole data set.
        rate: `Float[Array, "..."]` in (0, 1]: size of the part over that of the whole.

    Returns: the forward `Curve`; `symmetric()` covers both directions.
    Guarantee and errors: as `empirical_mean`. Source: derived here, and met by simulation; Azize
    and Basu 2025, Theorem 4.2 prints another curve, which cannot hold (docs/references.md).

        >>> print(f"{subsampled_mean(8.83, 0.3).power(0.1):.3f}")
        0.370
    """
    score, rate = as_parameter("score", score, NONNEGATIVE), as_parameter("rate", rate, RATE)
    return _gaussian(score / rate).subsample(rate)


def misspecified(score_target: Numbers, score_inner: Numbers) -> Curve:
    """An adversary whose test is made for another record: the Gaussian curve with
    mu = |m_scal|/m_targ^1/2.

    At most `empirical_mean` of the true target's score (Cauchy-Schwarz). (The paper's appendix
    prints m*^1/2 below the line.)

    Args:
        score_target: `Float[Array, "..."]` in (0, inf): m_targ, the leakage score of the record
            that the test is made for.
        score_inner: `Float[Array, "..."]`, any real number: m_scal = (z_targ - mean)^T C^-1
            (z - mean)/n, z the true target.

    Returns, guarantee, errors: as `empirical_mean`. Source: Azize and Basu 2025 (AISTATS), Theorem
    4.3.

        >>> print(f"{misspecified(4.0, 3.0).gdp_mu():.2f} {empirical_mean(4.0).gdp_mu():.2f}")
        1.50 2.00
    """
    score = as_parameter("score_target", score_target, POSITIVE)
    inner = as_parameter("score_inner", score_inner,
                         Domain(-math.inf, math.inf, "(-inf, inf)", open_low=True, open_high=True))
    return _gaussian(inner * inner / score)
