"""The full (Neyman-Pearson optimal) adversary:
knows everything but whether the record took part.
"""

import numpy as np

from jaxpriv._checks import (
    NONNEGATIVE,
    UNIT,
    as_parameter,
    check_number,
    is_traced,
)
from jaxpriv._derived import combined_signal, number
from jaxpriv._types import Answer, Numbers
from jaxpriv.catalogue.dealt import random_allocation as random_allocation
from jaxpriv.catalogue.dealt import shuffled_gaussian as shuffled_gaussian
from jaxpriv.catalogue.local import k_ary_randomized_response as k_ary_randomized_response
from jaxpriv.catalogue.local import rappor as rappor
from jaxpriv.catalogue.local import unary_encoding as unary_encoding
from jaxpriv.catalogue.noise import discrete_gaussian as discrete_gaussian
from jaxpriv.catalogue.noise import discrete_laplace as discrete_laplace
from jaxpriv.catalogue.sampled import subsampled_gaussian as subsampled_gaussian
from jaxpriv.catalogue.sampled import truncated_gaussian as truncated_gaussian
from jaxpriv.catalogue.sampled import user_level as user_level
from jaxpriv.catalogue.selection import exponential_mechanism as exponential_mechanism
from jaxpriv.catalogue.selection import report_noisy_max as report_noisy_max
from jaxpriv.curve import Curve
from jaxpriv.mixing import as_weights
from jaxpriv.tradeoff.gaussian_mixture import GaussianMixture
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.laplace_pairs import LaplaceShift
from jaxpriv.tradeoff.response import BlackBox
from jaxpriv.tradeoff.shifts import Components

ASSUMPTION = (
    "The adversary knows every other record, the query and the noise, "
    "and tests the exact likelihoods."
)


def gaussian(mu: Numbers) -> Curve:
    """Gaussian noise: G_mu(alpha) = Phi(Phi^-1(1-alpha) - mu), whatever the query's dimension.

    Args:
        mu: `Float[Array, "..."]` in [0, inf): L2 sensitivity over noise standard deviation, sqrt(n)
            times that for n releases.

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if mu is outside its range. Source: Dong, Roth, Su 2022, Theorem 2.7; Kaissis
    et al. 2022 (arXiv:2210.13028), Eq. (19).

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.gaussian(0.5).epsilon(1e-4):.4f}")
        1.6981
    """
    return Curve(NormalShift(as_parameter("mu", mu, NONNEGATIVE)))


def laplace(ratio: Numbers) -> Curve:
    """Laplace noise: pure eps-DP with eps = ratio, and the smaller profile
    delta(eps) = 1 - exp((eps - ratio)/2) below.

    Args:
        ratio: `Float[Array, "..."]` in [0, inf): L1 sensitivity over noise scale b, of one number
            or of several with independent noise on each.

    Returns: a `Curve`, the same in both directions.
    Guarantee: all bounds. A record that moves one number by all of the sensitivity is the worst
        (`jaxpriv.tradeoff.laplace_pairs`).
    Raises: ValueError if ratio is outside its range. Source: Dong, Roth, Su 2022, Lemma A.6.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.laplace(1.0).delta(0.5):.4f}")
        0.2212
    """
    return Curve(LaplaceShift(as_parameter("ratio", ratio, NONNEGATIVE)))


def randomized_response(epsilon: Numbers) -> Curve:
    """Randomised response, the pure epsilon-DP mechanism: the truth with probability
    e^epsilon/(1 + e^epsilon), else the lie.

    Every epsilon-DP mechanism is at least as private, also in composition.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if epsilon is outside its range.
        Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.randomized_response(1.0).advantage():.4f}")
        0.4621
    """
    return approximate_dp(epsilon, 0.0)


def approximate_dp(epsilon: Numbers, delta: Numbers) -> Curve:
    """A mechanism of which only (epsilon, delta)-DP is known:
    the worst one there is, a black box to compose with others.

    With probability delta it tells everything, else it is randomised response.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).
        delta: `Float[Array, "..."]` in [0, 1].

    Returns: the `Curve` f(alpha) = max(0, 1 - delta - e^epsilon alpha, e^-epsilon
        (1 - delta - alpha)), the same both ways.
    Raises: ValueError for values outside their range. Source: Wasserman and Zhou 2010;
        Kairouz, Oh, Viswanath 2015.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.approximate_dp(0.1, 1e-6).compose(10).delta(1.0):.3g}")
        1e-05
    """
    return Curve(
        BlackBox(as_parameter("epsilon", epsilon, NONNEGATIVE), as_parameter("delta", delta, UNIT))
    )


def gaussian_mixture(shifts: Numbers, weights: Numbers) -> Curve:
    """One step whose sum the record moves by a random amount: sum_k w_k N(s_k, 1) against N(0, 1).

    In units of the noise. Poisson sub-sampling is shifts (0, 1/noise multiplier) and weights
    (1 - rate, rate). A step that moves a sum of vectors by random vectors of norms s_k, whatever
    their directions, is covered: this pair dominates (docs/certified.md).

    Args:
        shifts: `Float[Array, "... components"]` in [0, inf), sensitivities over the noise's
            standard deviation. Negative ones are refused: the likelihood ratio would not grow.
        weights: `Float[Array, "... components"]` >= 0 with as many components, their probabilities;
            they sum to 1 (to 1e-6) along the last axis, and are divided by their sum.

    Returns: the `Curve` of a record that is there against one that is not (remove); `reversed()`
        adds one, `symmetric()` covers both. `compose(n)` and `jaxpriv.compose` take it to many
        steps by its privacy-loss transform, at a cost that does not depend on n.
    Guarantee: all bounds, see docs/certified.md.
    Raises: ValueError for values outside their range, weights that do not sum to 1, and arguments
        with different numbers of components.
    Source: Choquette-Choo, Ganesh, Steinke, Thakurta 2024 (arXiv:2310.15526), the mixture of
        Gaussians mechanism.

        >>> import jaxpriv
        >>> step = jaxpriv.worst_case.gaussian_mixture([0.0, 1.0, 2.0], [0.9, 0.08, 0.02])
        >>> print(f"{step.compose(100).symmetric().epsilon(1e-5):.3f}")
        13.160
    """
    if not is_traced(shifts):
        check_number("shifts", shifts, NONNEGATIVE)
    shifts, weights = as_parameter("shifts", shifts, NONNEGATIVE), as_weights(weights)
    sizes = [np.shape(value) for value in (shifts, weights)]
    counts = [size[-1] if size else 0 for size in sizes]
    if counts[0] != counts[1] or not counts[0]:
        raise ValueError(
            f"shifts has {counts[0]} components along its last axis, weights {counts[1]}; "
            "they must agree"
        )
    try:
        np.broadcast_shapes(*sizes)
    except ValueError:
        raise ValueError(
            f"shifts has shape {sizes[0]}, weights {sizes[1]}; they must agree"
        ) from None
    each = (tuple(value[..., k] for k in range(counts[0])) for value in (shifts, weights))
    return Curve(GaussianMixture(Components(*each)))


def gaussian_releases(sensitivities: Numbers, noise_stds: Numbers) -> Curve:
    """Unequal Gaussian releases seen together: mu^2 = sum_i (sensitivity_i/noise_std_i)^2.

    Args:
        sensitivities: `Float[Array, "... releases"]` in [0, inf), L2, one for each release.
        noise_stds: `Float[Array, "... releases"]` in (0, inf).

    Raises: ValueError for values outside their range. Source: Dong, Roth, Su 2022, Corollary 3.3.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.gaussian_releases([3.0, 4.0], [1.0, 1.0]).gdp_mu():.4f}")
        5.0000
    """
    return Curve(NormalShift(combined_signal(sensitivities, noise_stds, "optimal")))


def signal(sensitivities: Numbers, noise_stds: Numbers, averaging: str = "optimal") -> Answer:
    """mu of several Gaussian releases to an adversary who adds them up.

    "optimal" weights release i by sensitivity_i/noise_std_i^2,
    mu^2 = sum (sensitivity/noise_std)^2; "mean" is the plain average of Kaissis et al. 2022,
    Theorem 2 and Kaissis et al. 2023, Lemma 8, mu^2 = (sum sensitivity)^2/sum noise_std^2,
    never larger (Cauchy-Schwarz) and equal for equal releases.

        >>> print(f"{signal([1.0, 1.0], [1.0, 2.0]):.4f} "
        ...       f"{signal([1.0, 1.0], [1.0, 2.0], averaging='mean'):.4f}")
        1.1180 0.8944
    """
    found = combined_signal(sensitivities, noise_stds, averaging)
    return number(found)
