"""Membership inference by one who knows the law of the data but not the other records:
training itself hides a record.

The adversary of Leemann et al. 2023 (arXiv:2306.07273) sees the mean of a batch's gradients, knows
the gradient of the record in question, and the mean and covariance of all others, which are drawn
anew: what is protected is a record from this law, not one that somebody crafted. A number from here
is no differential privacy guarantee: quote it beside `jaxpriv.worst_case`.
"""

import math

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import AT_LEAST_ONE, NONNEGATIVE, POSITIVE, Domain, as_parameter
from jaxpriv._derived import number
from jaxpriv._types import Answer, Numbers
from jaxpriv.composition.steps import normal_vectors
from jaxpriv.curve import Curve
from jaxpriv.mixing import mixture
from jaxpriv.stats import chi2, norm
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.mean_pair import MeanShift

__all__ = ["average_sgd_step", "effective_batch_size", "gdp_from_gmip", "gdp_mu_step",
           "gmip_from_gdp", "mixture", "sgd", "sgd_step", "sgd_step_of"]

ASSUMPTION = (
    "The adversary knows the law of the gradients, the record and the mean gradient, "
    "but not the other records."
)

_BATCH = Domain(1.0, np.inf, "(1, inf)", 2.0, open_low=True, open_high=True)
_CLIP = Domain(0.0, np.inf, "(0, inf]", 1.0, open_low=True)


def effective_batch_size(
    batch_size: Numbers, noise_std: Numbers = 0.0, clip_norm: Numbers = math.inf
) -> Answer:
    """n + (noise_std n/clip_norm)^2: the batch without noise whose mean hides a record as well.

    Args:
        batch_size: `Float[Array, "..."]` in (1, inf).
        noise_std: `Float[Array, "..."]` in [0, inf):
            of the noise on the mean gradient, per coordinate.
        clip_norm: `Float[Array, "..."]` in (0, inf]: L2 bound of a gradient; noise counts relative
            to it, so not at all for inf.

    Raises: ValueError for values outside their range. Source: Leemann et al. 2023
    (arXiv:2306.07273), Theorem 5.1 (for gradients of covariance clip_norm^2 I).

        >>> print(effective_batch_size(100, 0.5, 10.0))
        125.0
    """
    return number(_effective(batch_size, noise_std, clip_norm))


def _effective(batch_size, noise_std, clip_norm):
    n = as_parameter("batch_size", batch_size, _BATCH)
    noise = as_parameter("noise_std", noise_std, NONNEGATIVE)
    return n + (noise * n / as_parameter("clip_norm", clip_norm, _CLIP)) ** 2


def sgd_step(
    dim: Numbers, batch_size: Numbers, susceptibility: Numbers, noise_std: Numbers = 0.0,
    clip_norm: Numbers = math.inf,
) -> Curve:
    """One step of (noisy) SGD: whether a gradient was part of the batch, from the batch's mean.

    Args:
        dim: `Float[Array, "..."]` in [1, inf): parameters d.
        batch_size: `Float[Array, "..."]` in (1, inf): n.
        susceptibility: `Float[Array, "..."]` in [0, inf): K = |Sigma^-1/2 (g - mean)|^2 of the
            record's gradient g, d for a typical record; the largest one bounds all.
        noise_std, clip_norm: as in `effective_batch_size`.

    Returns: the `Curve` beta(alpha) = 1 - F_((n-1)K)(n/(n-1) F_(nK)^-1(alpha)), F_nc the noncentral
        chi-square cdf with d degrees of freedom, n the effective batch size; `symmetric()`
        covers both directions.
    Guarantee: exact for normal gradients, the limit of large batches for others;
        none for differential privacy.
    Raises: ValueError for values outside their range. Source: Leemann et al. 2023
    (arXiv:2306.07273), Theorem 5.1.

        >>> print(f"{sgd_step(dim=650, batch_size=500, susceptibility=650).power(0.1):.4f}")
        0.4440
    """
    dim = as_parameter("dim", dim, AT_LEAST_ONE)
    susceptibility = as_parameter("susceptibility", susceptibility, NONNEGATIVE)
    return Curve(
        MeanShift(dim, _effective(batch_size, noise_std, clip_norm), susceptibility)
    ).reversed()


def sgd_step_of(
    gradient: Numbers, mean: Numbers, covariance: Numbers, batch_size: Numbers,
    noise_std: Numbers = 0.0,
) -> Curve:
    """`sgd_step` of one known gradient where the covariance of the others is given: the mean has
    covariance C/n + noise_std^2 I.

    The likelihood ratio of N(0, C/n + noise_std^2 I) and N((g - mean)/n, (n-1) C/n^2 + noise_std^2
    I): in the eigenvectors of C a sum of independent losses, whose law is a generalised chi-square.
    `sgd_step` is the case C = clip_norm^2 I; without noise C does not matter beyond
    the susceptibility.

    Args:
        gradient, mean: `Float[Array, "... d"]`.
        covariance: `Float[Array, "d d"]`, symmetric, positive definite, or `Float[Array, "d"]`,
            variances of independent entries.
        batch_size: `Float[Array, "..."]` in (1, inf): n. noise_std: `Float[Array, "..."]`
            in [0, inf): per coordinate.

    Returns: the forward `Curve`, by inversion of its privacy-loss transform;
        it composes with others of its kind.
    Guarantee: exact for normal gradients; none for differential privacy. `delta_bounds` and
        `epsilon_bounds` are certified.
    Raises: ValueError for values outside their range. Source: Leemann et al. 2023
    (arXiv:2306.07273), Theorem 5.1's proof, corrected (docs/references.md).

        >>> import numpy as np
        >>> curve = sgd_step_of(np.full(50, 2.0), np.zeros(50), np.linspace(0.5, 2.0, 50),
        ...                     batch_size=100, noise_std=0.05)
        >>> print(f"{curve.power(0.1):.3f}")
        0.473
    """
    n = as_parameter("batch_size", batch_size, _BATCH)
    noise = as_parameter("noise_std", noise_std, NONNEGATIVE)
    n, noise = xp.asarray(n)[..., None], xp.asarray(noise)[..., None]
    away, variances = xp.asarray(gradient) - xp.asarray(mean), xp.asarray(covariance)
    if variances.ndim == 2:
        variances, vectors = xp.linalg.eigh(variances)
        away = xp.matmul(away, vectors)
    variances = xp.where(variances > 0, variances, xp.nan)
    absent = variances / n + noise**2
    return Curve(normal_vectors(away / (n * xp.sqrt(absent)), variances / (n * n * absent)))


def average_sgd_step(
    dim: Numbers, batch_size: Numbers, noise_std: Numbers = 0.0, clip_norm: Numbers = math.inf
) -> Curve:
    """`sgd_step` for a record drawn from the law of the data:
    K follows chi-square with `dim` degrees of freedom.

    The privacy profile is the average over K (stochastic composition), here at 65 values of K,
    evenly spaced in the normal quantile of their probability up to 8.2:
    the trapezoidal rule, to rounding.

    Args and errors: as `sgd_step`; dim, batch_size,
        noise_std and clip_norm are numbers or arrays of one shape.
    Source: Leemann et al. 2023 (arXiv:2306.07273), Definition 4.1 and Remark 5.1, corrected
    (docs/references.md).

        >>> print(f"{average_sgd_step(dim=650, batch_size=500).power(0.1):.4f}")
        0.4438
    """
    dim = as_parameter("dim", dim, AT_LEAST_ONE)
    z = np.linspace(-8.2, 8.2, 65)
    weights = np.exp(-(z**2) / 2)
    susceptibility = chi2.isf_exp(norm.logsf(z), xp.asarray(dim)[..., None])
    n = xp.asarray(_effective(batch_size, noise_std, clip_norm))[..., None]
    n, dims, susceptibility = xp.broadcast_arrays(n, xp.asarray(dim)[..., None], susceptibility)
    return mixture(Curve(MeanShift(dims, n, susceptibility)).reversed(), weights / np.sum(weights))


def gdp_mu_step(
    dim: Numbers, batch_size: Numbers, susceptibility: Numbers, noise_std: Numbers = 0.0,
    clip_norm: Numbers = math.inf,
) -> Answer:
    """mu of the Gaussian curve that `sgd_step` approaches for large dim and batches,
    (d + (2n-1)K)/(n (2d + 4nK)^1/2).

    An approximation, no guarantee: the exact curve lies below it at large alpha,
    and for d >> n everywhere.

    Args and errors: as `sgd_step`. Source: Leemann et al. 2023 (arXiv:2306.07273), Corollary 5.1,
    Eq. (9), corrected (docs/references.md).

        >>> print(f"{gdp_mu_step(dim=650, batch_size=500, susceptibility=650):.4f}")
        1.1396
    """
    dim = as_parameter("dim", dim, AT_LEAST_ONE)
    susceptibility = as_parameter("susceptibility", susceptibility, NONNEGATIVE)
    n = _effective(batch_size, noise_std, clip_norm)
    return number(
        (dim + (2 * n - 1) * susceptibility) / (n * (2 * dim + 4 * n * susceptibility) ** 0.5)
    )


def sgd(mu_step: Numbers, batch_size: Numbers, dataset_size: Numbers, steps: Numbers) -> Curve:
    """The whole training: the Gaussian curve of many steps of mu_step each, on random batches,
    batch_size steps^1/2 = c N.

    mu = 2^1/2 c (e^(m^2) Phi(1.5 m) + 3 Phi(-m/2) - 2)^1/2, m = mu_step.
    An approximation, no guarantee.

    Args:
        mu_step: `Float[Array, "..."]` in [0, inf), from `gdp_mu_step`,
            or 1/noise multiplier for differential privacy.
        batch_size: `Float[Array, "..."]` in (1, inf); dataset_size: in (0, inf);
            steps: in [0, inf).

    Returns: a `Curve`, that of `worst_case.gaussian(mu)`.
    Raises: ValueError for values outside their range. Source: Leemann et al. 2023
    (arXiv:2306.07273), Lemma 5.1, Eq. (10); Dong, Roth, Su 2022, Corollary 5.4.

        >>> print(f"{sgd(0.5, batch_size=400, dataset_size=48000, steps=1200).gdp_mu():.4f}")
        0.1812
    """
    m = as_parameter("mu_step", mu_step, NONNEGATIVE)
    batch = as_parameter("batch_size", batch_size, _BATCH)
    records = as_parameter("dataset_size", dataset_size, POSITIVE)
    steps = as_parameter("steps", steps, NONNEGATIVE)

    return Curve(NormalShift(xp.evaluate(_mu_of_training, m, batch / records, steps)))


def _mu_of_training(m, share, steps):
    def over_half(x):
        """Phi(x) - 1/2."""
        return 0.5 * xp.erf(x * math.sqrt(0.5))

    square = xp.expm1(m * m) * norm.cdf(1.5 * m) + over_half(1.5 * m) - 3 * over_half(0.5 * m)
    inside = square > 0
    root = xp.where(inside, xp.sqrt(xp.where(inside, square, 1.0)), 0.0)
    return math.sqrt(2.0) * share * steps**0.5 * root


def gmip_from_gdp(mu_dp: Numbers, dim: Numbers, batch_size: Numbers) -> Answer:
    """mu of membership inference privacy of a noisy step that is mu_dp-GDP,
    for K = dim: never more than mu_dp.

    min((d/(n + 4/mu_dp^2 + 1/2))^1/2, mu_dp). The paper prints 4 C^2/mu_dp^2:
    C cancels in the noise 2C/(n mu_dp).

    Args:
        mu_dp: `Float[Array, "..."]` in (0, inf); dim: in [1, inf); batch_size: in (1, inf).

    Raises: ValueError for values outside their range. Source: Leemann et al. 2023
    (arXiv:2306.07273), Corollary F.1(1), corrected (docs/references.md).

        >>> print(f"{gmip_from_gdp(2.0, dim=650, batch_size=500):.4f}")
        1.1385
    """
    mu_dp = as_parameter("mu_dp", mu_dp, POSITIVE)
    dim, n = as_parameter("dim", dim, AT_LEAST_ONE), as_parameter("batch_size", batch_size, _BATCH)
    return number(xp.minimum(xp.sqrt(dim / (n + 4 / mu_dp**2 + 0.5)), mu_dp))


def gdp_from_gmip(mu_mip: Numbers, dim: Numbers, batch_size: Numbers) -> Answer:
    """mu of differential privacy of the noisy step that is just mu_mip-GMIP, for K = dim;
    inf where that needs no noise.

    2/(d/mu_mip^2 - n - 1/2)^1/2 for mu_mip^2 < 2d/(2n+1).

    Args:
        mu_mip: `Float[Array, "..."]` in (0, inf); dim: in [1, inf); batch_size: in (1, inf).

    Raises: ValueError for values outside their range. Source: Leemann et al. 2023
    (arXiv:2306.07273), Corollary F.1(2).

        >>> print(f"{gdp_from_gmip(1.0, dim=650, batch_size=500):.4f}")
        0.1636
    """
    mu_mip = as_parameter("mu_mip", mu_mip, POSITIVE)
    dim, n = as_parameter("dim", dim, AT_LEAST_ONE), as_parameter("batch_size", batch_size, _BATCH)
    noise = dim / mu_mip**2 - n - 0.5
    return number(xp.where(noise > 0, 2 / xp.sqrt(xp.where(noise > 0, noise, 1.0)), xp.inf))
