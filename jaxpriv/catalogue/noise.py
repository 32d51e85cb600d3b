"""Noise on whole numbers, for data that is whole: exact on a computer, where real noise is not."""

from jaxpriv._checks import Domain, as_parameter, check_whole
from jaxpriv._types import Numbers
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.discrete_noise import DiscreteGaussian, DiscreteLaplace

SPREAD = Domain(1e-3, 1e6, "[1e-3, 1e6]", 1.0)
_MOST = 10**6


def discrete_gaussian(sigma: Numbers, sensitivity: int = 1) -> Curve:
    """Discrete Gaussian noise on a whole number: N_Z(0, sigma^2) against N_Z(sensitivity, sigma^2),
    masses proportional to e^(-x^2/2 sigma^2) at whole x.

    Args:
        sigma: `Float[Array, "..."]` in [1e-3, 1e6]. It is the standard deviation of a normal law;
            that of the noise is a little less, and much less for sigma below 1/2.
        sensitivity: whole, 1 ... 10^6: by how much one record moves the one number that is
            released, at most. Of a vector with independent noise on each coordinate (the
            multivariate discrete Gaussian) this covers a record that moves a single coordinate,
            whichever. One that moves several by known whole amounts v_i is
            `jaxpriv.compose(*[discrete_gaussian(sigma, v) for v in ...])`. A bound of the L2
            length alone is not covered: which vector of that length is the worst is not known,
            and lengths that are not whole belong to none in one coordinate.

    Returns: a `Curve`, the same in both directions. Losses lie sensitivity/sigma^2 apart, so the
        curve is a polygon; for large sigma it is that of Gaussian noise. For small sigma it leaks
        more: at sigma = 0.3 delta(0) is 0.992, where Gaussian noise has 0.904.
    Guarantee: all bounds; tails are summed to rounding, with nothing cut off, and the pair
        dominates those of all smaller whole shifts (`jaxpriv.tradeoff.whole_noise`). Exception:
        without slack `gdp_mu` is infinite, for none is known that holds at every alpha. In float32,
        inside a program, estimates are of use for sigma up to 1e3.
    Raises: ValueError if sigma is outside its range or sensitivity is not whole.
    Source: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Definition 1 and Theorem 7.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.discrete_gaussian(1.0)
        >>> print(f"{curve.delta(1.0):.6f} {curve.compose(10).epsilon(1e-5):.4f}")
        0.141351 17.8656
    """
    check_whole("sensitivity", sensitivity, most=_MOST)
    return Curve(DiscreteGaussian(as_parameter("sigma", sigma, SPREAD), int(sensitivity)))


def discrete_laplace(scale: Numbers, sensitivity: int = 1) -> Curve:
    """Discrete Laplace (two-sided geometric) noise on a whole number: masses proportional to
    e^(-|x|/scale) at whole x, moved by `sensitivity`.

    Args:
        scale: `Float[Array, "..."]` in [1e-3, 1e6].
        sensitivity: whole, 1 ... 10^6: by how much one record moves the number that is released;
            of several numbers with independent noise on each, all of them together (L1).

    Returns: a `Curve`, the same in both directions: pure epsilon-DP with epsilon =
        sensitivity/scale, and for sensitivity 1 randomised response with that epsilon.
    Guarantee: all bounds, in closed form; a record that moves one number by all of the sensitivity
        is the worst (`jaxpriv.tradeoff.discrete_noise`).
    Raises: ValueError if scale is outside its range or sensitivity is not whole.
    Source: Ghosh, Roughgarden, Sundararajan 2012 (arXiv:0811.2841); profile derived in
        `jaxpriv.tradeoff.discrete_noise`.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.discrete_laplace(2.0, sensitivity=3)
        >>> print(f"{curve.epsilon(0.0):.4f} {curve.delta(0.5):.6f}")
        1.5000 0.393469
    """
    check_whole("sensitivity", sensitivity, most=_MOST)
    return Curve(DiscreteLaplace(as_parameter("scale", scale, SPREAD), int(sensitivity)))
