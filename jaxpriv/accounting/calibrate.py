"""The parameter at which a curve just meets a target, found by bisection and left on the private side."""

import math

import jax
import numpy as np

from jaxpriv._checks import NONNEGATIVE, UNIT, Domain, check_domain

_STEPS = 200


def calibrate(make_curve, *, epsilon=None, delta=None, advantage=None, mu=None, fpr=None, tpr=None, bracket=(1e-3, 1e3)):
    """The parameter for which a mechanism just meets one privacy target, against both directions.

    Exactly one target: (epsilon, delta), or advantage, or mu, or (fpr, tpr).

    Args:
        make_curve: parameter (a float) -> `Curve`, more private towards one end of the bracket (noise upwards, or
            sampling rate downwards: found out by trying).
        epsilon: >= 0, with delta in (0, 1]: the curve must support (epsilon, delta).
        advantage: in [0, 1]: the largest power - alpha.
        mu: >= 0: the smallest Gaussian curve below must be G_mu.
        fpr, tpr: in [0, 1]: the power at level fpr must not exceed tpr.
        bracket: (low, high) > 0 with the answer in between.

    Returns: a float, within 1e-9 relative of the boundary.
    Guarantee: the target holds at the returned parameter by its upper bound (`delta_bounds`, `gdp_mu`), which is evaluated
        there before returning. Runs in float64 whatever the mode.
    Raises: ValueError for a missing, double or impossible target and for a bracket on whose ends the target both holds or
        both fails.

        >>> import jaxpriv
        >>> noise = jaxpriv.calibrate(lambda std: jaxpriv.worst_case.gaussian(1 / std), epsilon=1.0, delta=1e-5)
        >>> print(f"{noise:.4f}")
        3.7306
    """
    meets = _target(epsilon, delta, advantage, mu, fpr, tpr)
    low, high = (float(end) for end in bracket)
    if not 0 < low < high < math.inf:
        raise ValueError(f"bracket = {bracket} is not 0 < low < high < inf")

    def private(parameter):
        with jax.enable_x64(True):
            return bool(np.all(meets(make_curve(parameter).symmetric())))

    at_low, at_high = private(low), private(high)
    if at_low == at_high:
        verb = "holds" if at_low else "fails"
        raise ValueError(f"the target {verb} at both ends of bracket = ({low:g}, {high:g}); widen it to enclose the answer")
    good, bad = (low, high) if at_low else (high, low)
    for _ in range(_STEPS):
        if abs(good - bad) <= 1e-9 * good:
            break
        middle = math.sqrt(good * bad)
        good, bad = (middle, bad) if private(middle) else (good, middle)
    return good


def _target(epsilon, delta, advantage, mu, fpr, tpr):
    """The predicate of a curve that the one given target stands for."""
    targets = {"epsilon and delta": (epsilon, delta), "advantage": (advantage,), "mu": (mu,), "fpr and tpr": (fpr, tpr)}
    given = [name for name, values in targets.items() if any(v is not None for v in values)]
    if len(given) != 1 or any(v is None for v in targets[given[0]]):
        raise ValueError(f"give exactly one target of: {', '.join(targets)}; got {', '.join(given) or 'none'}"
                         + (" incomplete" if len(given) == 1 else ""))
    name = given[0]
    domains = {"epsilon": NONNEGATIVE, "delta": Domain(0.0, 1.0, "(0, 1]", open_low=True), "advantage": UNIT,
               "mu": NONNEGATIVE, "fpr": UNIT, "tpr": UNIT}
    values = {"epsilon": epsilon, "delta": delta, "advantage": advantage, "mu": mu, "fpr": fpr, "tpr": tpr}
    for key, value in values.items():
        if value is not None:
            check_domain(key, value, domains[key])
            if np.any(np.isnan(value)):
                raise ValueError(f"{key} = {value} is outside its range {domains[key].text}")
    if name == "epsilon and delta":
        return lambda curve: curve.delta_bounds(epsilon)[1] <= delta
    if name == "advantage":
        return lambda curve: curve.delta_bounds(0.0)[1] <= advantage
    if name == "mu":
        return lambda curve: curve.gdp_mu() <= mu
    return lambda curve: curve.power(fpr) * (1 + 1e-11) <= tpr
