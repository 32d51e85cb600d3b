"""The relaxed (GLRT, offline) adversary: knows the data set without the record,
the query and the noise, not the record.

Without the record the direction of its effect is unknown, so the best statistic is the magnitude of
the release. A number from here is no differential privacy guarantee: quote it beside
`jaxpriv.worst_case`, which no adversary beats.
"""


from jaxpriv import _array as xp
from jaxpriv._checks import AT_LEAST_ONE, NONNEGATIVE, POSITIVE, as_parameter
from jaxpriv._derived import combined_signal, derived, number, reciprocal, square
from jaxpriv._types import Answer, Numbers
from jaxpriv.catalogue import local
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.gaussian_pairs import ChiSquareShift, NormalLimit
from jaxpriv.tradeoff.laplace_pairs import FoldedLaplaceShift

k_ary_randomized_response = local.k_ary_other_value
unary_encoding = local.unary_other_value

ASSUMPTION = (
    "The adversary knows the query, the noise and all other records but not the "
    "record, and tests magnitudes."
)


def gaussian(mu: Numbers, dim: Numbers = 1) -> Curve:
    """Gaussian noise: chi-square with `dim` degrees of freedom against noncentral
    chi-square with nc = mu^2.

    Args:
        mu: `Float[Array, "..."]` in [0, inf): L2 sensitivity over noise standard deviation, sqrt(n)
            times that for n releases.
        dim: `Float[Array, "..."]` in [1, inf): the dimension that the record can move;
            1 is the adversary's best case.

    Returns: the forward `Curve` R (as j = 1 - R); `symmetric()` covers both directions.
    Raises: ValueError for values outside their range.
    Source: Kaissis et al. 2022 (arXiv:2210.13028), Theorem 1; Kaissis et al. 2023 (NeurIPS 36),
    Theorem 2. (Figure 1 of the former prints Delta/sigma = 0.5 for values at 0.3.)

        >>> import jaxpriv
        >>> print(f"{jaxpriv.relaxed.gaussian(1.0, dim=30).symmetric().epsilon(1e-4):.4f}")
        0.4612
    """
    mu, dim = as_parameter("mu", mu, NONNEGATIVE), as_parameter("dim", dim, AT_LEAST_ONE)
    return Curve(ChiSquareShift(dim, derived(square, mu)))


def laplace(ratio: Numbers) -> Curve:
    """Laplace noise: the exponential law against the folded Laplace law.

    j(alpha) = e^-L (1/alpha - alpha)/2 for alpha >= e^-L and 1 - alpha cosh L below; pure log cosh
    L forward, L in reverse.

    Args:
        ratio: `Float[Array, "..."]` in [0, inf): L = L1 sensitivity over noise scale b.

    Returns: the forward `Curve` j; quote `symmetric()`.
    Raises: ValueError if ratio is outside its range. Source: Kaissis et al. 2023 (NeurIPS 36),
    Theorem 1, its constants corrected (docs/references.md).

        >>> import jaxpriv
        >>> print(f"{jaxpriv.relaxed.laplace(1.0).epsilon(0.0):.4f}")
        0.4338
    """
    return Curve(FoldedLaplaceShift(as_parameter("ratio", ratio, NONNEGATIVE)))


def gaussian_releases(
    sensitivities: Numbers, noise_stds: Numbers, dim: Numbers = 1, averaging: str = "optimal"
) -> Curve:
    """Several Gaussian releases with the same direction, seen together.

    Args:
        sensitivities: `Float[Array, "... releases"]` in [0, inf), L2.
        noise_stds: `Float[Array, "... releases"]` in (0, inf).
        dim: as in `gaussian`.
        averaging: "optimal" (default; nc = sum (sensitivity/noise_std)^2) or "mean", the weaker
        adversary of Kaissis et al. 2022,
            Theorem 2 and Kaissis et al. 2023, Lemma 8 (nc = (sum sensitivity)^2/sum noise_std^2).

    Raises: ValueError for values outside their range.

        >>> import jaxpriv
        >>> curve = jaxpriv.relaxed.gaussian_releases([1.0, 1.0], [1.0, 2.0], dim=5,
        ...                                           averaging="mean")
        >>> print(f"{curve.advantage():.4f}")
        0.0923
    """
    signal = combined_signal(sensitivities, noise_stds, averaging)
    return Curve(ChiSquareShift(as_parameter("dim", dim, AT_LEAST_ONE), derived(square, signal)))


def subsampled_gaussian(
    noise_multiplier: Numbers, sampling_rate: Numbers, steps: Numbers, dim: Numbers = 1
) -> Curve:
    """DP-SGD against the relaxed adversary, who sees of each step the magnitude of what the
    record may have moved.

    In a step chi-square against (1-q) chi-square + q noncentral chi-square,
    nc = 1/noise_multiplier^2; the steps compose by their magnitudes
    (Kaissis et al. 2022, Figure 7). An adversary who adds releases up
    (Kaissis et al. 2022, Theorem 2) is not covered, for the record's gradient turns and its steps
    are random; at rate 1 and with a fixed direction that one sees
    more: `gaussian(mu).compose(steps)`.

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf):
            noise standard deviation over the clipping norm.
        sampling_rate: `Float[Array, "..."]` in (0, 1]:
            probability that a record takes part in a step.
        steps: `Float[Array, "..."]` in [0, inf).
        dim: `Float[Array, "..."]` in [1, inf): the dimension of the gradient.

    Returns: the forward `Curve`; quote `symmetric()`,
        beside `jaxpriv.worst_case.subsampled_gaussian`.
    Guarantee: none for differential privacy; `epsilon_bounds` and `delta_bounds` bracket this
        adversary's numbers.
    Raises: ValueError for values outside their range. Source: Kaissis et al. 2022
    (arXiv:2210.13028), Section 5; Kaissis et al. 2023 (NeurIPS 36), Lemma 9.

        >>> import jaxpriv
        >>> relaxed = jaxpriv.relaxed.subsampled_gaussian(1.0, 0.1, 20, dim=10)
        >>> worst = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.1, 20)
        >>> print(f"{relaxed.advantage():.3f} {worst.advantage():.3f}")
        0.040 0.203
    """
    noise_multiplier = as_parameter("noise_multiplier", noise_multiplier, POSITIVE)
    signal = derived(square, derived(reciprocal, noise_multiplier))
    pair = ChiSquareShift(as_parameter("dim", dim, AT_LEAST_ONE), signal)
    return Curve(pair).subsample(sampling_rate).compose(steps)


def gaussian_limit(mu: Numbers, dim: Numbers) -> Curve:
    """The relaxed Gaussian curve for large dim: N(0, 1) against N(m, s^2), m = mu^2/sqrt(2 dim),
    s^2 = 1 + 2 mu^2/dim.

    An approximation, not a guarantee: compare with `gaussian(mu, dim)`, whose beta it meets to
    about 0.2/sqrt(dim). Where the printed formula falls above the diagonal (one end) the diagonal
    is returned. For mu^2 << dim it is the Gaussian curve of `gaussian_limit_mu`.

    Args and errors: as `gaussian`. Source: Kaissis et al. 2022 (arXiv:2210.13028), Theorem 3, Eq.
    (35) (in (42)-(43) a spurious beta is printed);
    Kaissis et al. 2023 (NeurIPS 36), Theorem 3.

        >>> import jaxpriv
        >>> exact = jaxpriv.relaxed.gaussian(5.0, dim=1000)
        >>> limit = jaxpriv.relaxed.gaussian_limit(5.0, 1000)
        >>> print(f"{exact(0.1):.4f} {limit(0.1):.4f}")
        0.7647 0.7596
    """
    mu, dim = as_parameter("mu", mu, NONNEGATIVE), as_parameter("dim", dim, AT_LEAST_ONE)
    return Curve(NormalLimit(derived(_limit_shift, mu, dim), derived(_limit_std, mu, dim)))


def _limit_shift(mu, dim):
    return mu * mu / xp.sqrt(2 * dim)


def _limit_std(mu, dim):
    return xp.sqrt(1 + 2 * mu * mu / dim)


def gaussian_limit_mu(mu: Numbers, dim: Numbers) -> Answer:
    """mu of the Gaussian curve that `gaussian_limit` approaches for mu^2 << dim: mu^2/sqrt(2 dim).

    Source: Kaissis et al. 2022 (arXiv:2210.13028), Eq. (37).

    >>> print(f"{gaussian_limit_mu(5.0, 1000):.4f}")
    0.5590
    """
    mu, dim = as_parameter("mu", mu, NONNEGATIVE), as_parameter("dim", dim, AT_LEAST_ONE)
    return number(derived(_limit_shift, mu, dim))
