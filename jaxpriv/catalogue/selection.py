"""Private selection: the best of several candidates by noisy scores."""

from jaxpriv._checks import NONNEGATIVE, UNIT, as_parameter
from jaxpriv._derived import derived
from jaxpriv._types import Numbers
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.logistic_pair import LogisticShift
from jaxpriv.tradeoff.response import BlackBox


def _half(epsilon):
    return epsilon / 2


def _range(epsilon, monotone):
    if not isinstance(monotone, bool):
        raise TypeError(f"monotone = {monotone!r} is not a bool")
    epsilon = as_parameter("epsilon", epsilon, NONNEGATIVE)
    return derived(_half, epsilon) if monotone else epsilon


def exponential_mechanism(epsilon: Numbers, monotone: bool = False) -> Curve:
    """The exponential mechanism: candidate r with probability proportional to
    e^(epsilon score(r)/(2 sensitivity)).

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf); sensitivity is the most by which one record
            moves any candidate's score.
        monotone: do all scores move in one direction when a record is added? Then losses have half
            the range: of epsilon/2.

    Returns: a `Curve`, the same in both directions: the odds of a power are e^range times those of
        alpha, f(alpha) = (1 - alpha)/(1 + (e^range - 1) alpha), range = epsilon or epsilon/2. It
        is the curve of logistic noise, smaller than that of randomised response.
    Guarantee: the pair dominates every mechanism whose losses between neighbours lie in an interval
        of this length (bounded range), whatever candidates and scores, so that compositions hold
        also for mechanisms that are chosen adaptively. At each eps it is the smallest profile that
        holds for all such mechanisms, but no mechanism attains it at all eps at once: the bounds of
        a composition bracket that of the pair, and only their upper ends hold for the mechanisms.
        Equal mechanisms that are not chosen adaptively tell a little less (Dong, Durfee, Rogers
        2020).
    Raises: ValueError if epsilon is outside its range, TypeError if monotone is no bool.
    Source: McSherry and Talwar 2007; Durfee and Rogers 2019 (arXiv:1905.04273), bounded range;
        Dong, Durfee, Rogers 2020 (arXiv:1909.13830); the pair is derived in
        `jaxpriv.tradeoff.logistic_pair`.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.exponential_mechanism(1.0)
        >>> pure = jaxpriv.worst_case.randomized_response(1.0)
        >>> print(f"{curve.compose(10).epsilon(1e-5):.3f} {pure.compose(10).epsilon(1e-5):.3f}")
        7.626 10.000
    """
    return Curve(LogisticShift(_range(epsilon, monotone)))


def report_noisy_max(epsilon: Numbers, noise: str = "gumbel", monotone: bool = False) -> Curve:
    """The candidate with the largest score + noise of scale 2 sensitivity/epsilon.

    Args:
        epsilon, monotone: as in `exponential_mechanism`.
        noise: "gumbel", which is the exponential mechanism; "exponential", which is
            permute-and-flip, or "laplace": both are pure epsilon-DP (epsilon/2 if monotone), and
            the curve is that of randomised response.

    Returns: a `Curve`, the same in both directions.
    Guarantee: as `exponential_mechanism`; of "exponential" and "laplace" the pair is a bound.
    Raises: ValueError for values outside their range, TypeError if monotone is no bool.
    Source: Durfee and Rogers 2019 (arXiv:1905.04273), Gumbel noise; McKenna and Sheldon 2020
        (arXiv:2010.12603); Ding et al. 2021 (arXiv:2105.07260); Dwork and Roth 2014, Section 3.3.

        >>> import jaxpriv
        >>> gumbel = jaxpriv.worst_case.report_noisy_max(1.0)
        >>> laplace = jaxpriv.worst_case.report_noisy_max(1.0, noise="laplace", monotone=True)
        >>> print(f"{gumbel.delta(0.5):.4f} {laplace.epsilon(0.0):.4f}")
        0.0774 0.5000
    """
    if noise not in ("gumbel", "exponential", "laplace"):
        raise ValueError(f"noise = {noise!r}; accepted: 'gumbel', 'exponential', 'laplace'")
    found = _range(epsilon, monotone)
    return Curve(
        LogisticShift(found)
        if noise == "gumbel"
        else BlackBox(found, as_parameter("delta", 0.0, UNIT))
    )
