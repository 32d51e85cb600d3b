"""The full (Neyman-Pearson optimal) adversary: knows everything but whether the record took part."""


from jaxpriv._checks import NONNEGATIVE, POSITIVE, UNIT, as_parameter
from jaxpriv._derived import combined_signal, derived, number, reciprocal
from jaxpriv.tradeoff import Curve
from jaxpriv.tradeoff.discrete import BlackBox
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.laplace_pairs import LaplaceShift

ASSUMPTION = "The adversary knows every other record, the query and the noise, and tests the exact likelihoods."


def gaussian(mu):
    """Gaussian noise: G_mu(alpha) = Phi(Phi^-1(1-alpha) - mu), whatever the query's dimension.

    Args:
        mu: `Float[Array, "..."]` in [0, inf): L2 sensitivity over noise standard deviation, sqrt(n) times that for n releases.

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if mu is outside its range. Source: Dong, Roth, Su 2022, Theorem 2.7; Kaissis
    et al. 2022 (arXiv:2210.13028), Eq. (19).

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.gaussian(0.5).epsilon(1e-4):.4f}")
        1.6981
    """
    return Curve(NormalShift(as_parameter("mu", mu, NONNEGATIVE)))


def laplace(ratio):
    """Laplace noise: pure eps-DP with eps = ratio, and the smaller profile delta(eps) = 1 - exp((eps - ratio)/2) below.

    Args:
        ratio: `Float[Array, "..."]` in [0, inf): L1 sensitivity over noise scale b.

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if ratio is outside its range. Source: Dong, Roth, Su 2022, Lemma A.6.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.laplace(1.0).delta(0.5):.4f}")
        0.2212
    """
    return Curve(LaplaceShift(as_parameter("ratio", ratio, NONNEGATIVE)))


def randomized_response(epsilon):
    """Randomised response, the pure epsilon-DP mechanism: the truth with probability e^epsilon/(1 + e^epsilon), else the lie.

    Every epsilon-DP mechanism is at least as private, also in composition.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if epsilon is outside its range. Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.randomized_response(1.0).advantage():.4f}")
        0.4621
    """
    return approximate_dp(epsilon, 0.0)


def approximate_dp(epsilon, delta):
    """A mechanism of which only (epsilon, delta)-DP is known: the worst one there is, a black box to compose with others.

    With probability delta it tells everything, else it is randomised response.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).
        delta: `Float[Array, "..."]` in [0, 1].

    Returns: the `Curve` f(alpha) = max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)), the same both ways.
    Raises: ValueError for values outside their range. Source: Wasserman and Zhou 2010; Kairouz, Oh, Viswanath 2015.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.approximate_dp(0.1, 1e-6).compose(10).delta(1.0):.3g}")
        1e-05
    """
    return Curve(BlackBox(as_parameter("epsilon", epsilon, NONNEGATIVE), as_parameter("delta", delta, UNIT)))


def subsampled_gaussian(noise_multiplier, sampling_rate, steps, *, adjacency="add_remove", sampling="poisson"):
    """DP-SGD: `steps` Gaussian steps, each on a sample of the records.

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf): noise standard deviation over the clipping norm.
        sampling_rate: `Float[Array, "..."]` in (0, 1]: probability that a record takes part in a step; for samples of fixed
            size that size over the number of records (the smaller number, if they differ).
        steps: `Float[Array, "..."]` in [0, inf); the cost does not depend on it. Estimates follow a fractional number
            continuously, bounds hold for both whole numbers next to it (at rate 1 for the number itself).
        adjacency: "add_remove" one record, or "replace_one".
        sampling: "poisson", each record on its own; or "fixed_size", without replacement, anew in each step.

    Returns: add/remove: the forward `Curve` (remove one record, the larger profile at epsilon >= 0); `reversed()` adds one,
        `symmetric()` covers both. Replace-one: the curve of both orders, its own reverse.
    Guarantee: `epsilon_bounds` and `delta_bounds` are certified, see `jaxpriv.compose`, for pairs that dominate: exactly
        for add/remove by Poisson. Else a record moves a sum by two clipping norms, for another one has its place; the pairs
        are bounds (attained by a single step of fixed size, replace-one), composed step by step on a lattice if replace-one.
    Raises: ValueError for values outside their range, and for shuffled batches, of which no such bound is known.
    Source: Abadi et al. 2016; Zhu, Dong and Wang 2022; for samples of fixed size, `Curve.subsample`.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000).epsilon(1e-5):.3f}")
        1.828
    """
    noise_multiplier = as_parameter("noise_multiplier", noise_multiplier, POSITIVE)
    if sampling not in ("poisson", "fixed_size"):
        why = "; batches of a shuffled data set have no known bound, and Poisson's does not hold for them (Chua et al. 2024)"
        raise ValueError(f"sampling = {sampling!r}; accepted: 'poisson', 'fixed_size'{why if sampling == 'shuffle' else ''}")
    norms = 1 if (adjacency, sampling) == ("add_remove", "poisson") else 2
    pair = NormalShift(derived(reciprocal if norms == 1 else _both_norms, noise_multiplier))
    return Curve(pair).subsample(sampling_rate, adjacency).compose(steps)


def _both_norms(noise_multiplier):
    return 2 / noise_multiplier


def gaussian_releases(sensitivities, noise_stds):
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


def signal(sensitivities, noise_stds, averaging="optimal"):
    """mu of several Gaussian releases to an adversary who adds them up.

    "optimal" weights release i by sensitivity_i/noise_std_i^2, mu^2 = sum (sensitivity/noise_std)^2; "mean" is the plain
    average of Kaissis et al. 2022, Theorem 2 and Kaissis et al. 2023, Lemma 8, mu^2 = (sum
    sensitivity)^2/sum noise_std^2, never larger
    (Cauchy-Schwarz) and equal for equal releases.

        >>> print(f"{signal([1.0, 1.0], [1.0, 2.0]):.4f} {signal([1.0, 1.0], [1.0, 2.0], averaging='mean'):.4f}")
        1.1180 0.8944
    """
    found = combined_signal(sensitivities, noise_stds, averaging)
    return number(found)
