"""The Gaussian curve to which a composition of many sub-sampled Gaussian steps at
small rates tends.
"""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE, as_parameter
from jaxpriv._derived import resolved
from jaxpriv.composition.steps import directions
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.gaussian_pairs import NormalShift


def gaussian_limit(curve: Curve) -> Curve:
    """The central limit of a composition: G_mu with mu^2 = sum over the steps of rate^2
    (e^(1/noise_multiplier^2) - 1).

    The limit is that of ever more steps at ever smaller rates, steps * rate^2 fixed; it is the same
    in both directions. A step at rate 1 is Gaussian already and adds 1/noise_multiplier^2, with
    which the limit of plain releases is exact; the term above would add
    e^(1/noise_multiplier^2) - 1, so mu jumps down where a rate reaches 1.

    Args:
        curve: from Gaussian noise, sub-sampled or not, and compositions of it;
            `reversed()` and `symmetric()` of them.

    Returns: a `Curve`, that of `worst_case.gaussian(mu)`.
    Guarantee: none, an approximation, and on the unsafe side:
        of DP-SGD's epsilon at delta = 1e-3, 1e-5, 1e-9 it misses

        (noise multiplier, rate, steps)   (1, 0.01, 1000)    7.0%, 11.5%, 20.3%
                                          (1, 0.001, 1e6)    0.2%,  0.3%,  0.5%
                                          (0.5, 0.001, 1e4)   26%,   41%,   54%
                                          (4, 0.1, 5000)     0.2%,  0.4%,  0.7%
                                          (2, 0.3, 50)       3.7%,  6.7%, 10.7%

        At small epsilon it errs the other way: delta(0) of these is 0.3 to 18% too large. Quote
        `epsilon_bounds`.
    Raises: ValueError for curves whose steps are not known, and where mu overflows (noise
        multipliers below 0.04).
    Source: Dong, Roth, Su 2022, Theorem 3.4; Bu, Dong, Long, Su 2020, Corollary 5.4. Leemann et al.
        2023, Eq. (10) is another limit: that of
        steps which are symmetrised one by one, with a larger mu; it is no guarantee either.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000)
        >>> limit = jaxpriv.accounting.gaussian_limit(curve)
        >>> print(f"{limit.epsilon(1e-5):.3f} {curve.epsilon(1e-5):.3f}")
        1.618 1.828
    """
    terms = directions(curve.experiment)[0]
    square = _square(resolved(terms, xp.result_type(*jax.tree.leaves(terms))))
    leaks = square > 0  # with zero gradient instead of NaN where nothing does
    mu = xp.where(leaks, xp.sqrt(xp.where(leaks, square, 1.0)), 0.0)
    return Curve(NormalShift(as_parameter("mu of the Gaussian limit", mu, NONNEGATIVE)))


def _square(terms):
    """The sum of mu_i^2 over all steps: of the variances of (q/p) under P, which is that of the
    loss as the rate vanishes.

    For u = q/p - 1 = rate (e^(mu z - mu^2/2) - 1), E_P[u] = 0 and E_P[u^2] = rate^2 (e^(mu^2) - 1);
    the loss log(1+u) has mean -E[u^2]/2 without the record and +E[u^2]/2 with it, and variance
    E[u^2]: N(0, 1) against N(mu_i, 1).
    """
    total = 0.0
    for term in terms:
        mu = term.transform.mu
        each = mu * mu
        if not isinstance(term.transform, GaussianTransform):
            with np.errstate(over="ignore"):
                each = xp.where(
                    term.transform.rate < 1, term.transform.rate**2 * xp.expm1(each), each
                )
        total = total + xp.sum(term.count * each, -1)
    return total
