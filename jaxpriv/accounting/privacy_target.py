"""What a mechanism has to meet: (epsilon, delta), an advantage, mu, or the power at one level."""

import math
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE, UNIT, Domain, check_domain, is_traced

_SEARCHED = 2e-11  # relative width of what `epsilon_bounds` adds by its search
_DOMAINS = {
    "epsilon": NONNEGATIVE,
    "delta": Domain(0.0, 1.0, "(0, 1]", open_low=True),
    "advantage": UNIT,
    "mu": NONNEGATIVE,
    "fpr": UNIT,
    "tpr": UNIT,
}


class Target(NamedTuple):
    """One privacy target: its numbers, what a curve exceeds it by, and what is certified of it."""

    name: str
    values: tuple

    def excess(self, curve) -> Any:
        """The estimate, in logarithms: negative if the target is met."""
        if self.name == "epsilon and delta":
            epsilon, delta = self.values
            return curve.log_delta(epsilon) - xp.log(delta)
        if self.name == "advantage":
            return xp.log(curve.advantage()) - xp.log(self.values[0])
        if self.name == "mu":
            return xp.log(curve.gdp_mu()) - xp.log(self.values[0])
        fpr, tpr = self.values
        return xp.log(curve.power(fpr)) - xp.log(tpr)

    def holds(self, curve):
        """Does the curve surely meet it?"""
        certified, allowed = self.certified(curve)
        return certified <= allowed

    def allows_all(self):
        """Is the limit a probability of 1?"""
        return self.name != "mu" and bool(np.all(np.asarray(self.values[-1]) >= 1))

    def depth(self):
        """-log of an allowed probability; None for other targets and for what allows everything."""
        allowed = {"epsilon and delta": -1, "advantage": 0, "fpr and tpr": 1}.get(self.name)
        if allowed is None or np.ndim(self.values[allowed]) or not 0 < self.values[allowed] < 1:
            return None
        return -math.log(self.values[allowed])

    def certified(self, curve) -> Any:
        """(an upper bound of what the target limits, the limit)."""
        if self.name == "epsilon and delta":
            epsilon, delta = self.values
            # a little below epsilon, so that the upper end of epsilon_bounds(delta), found by a
            # search, is not above it either
            below = xp.asarray(epsilon, xp.float64) * (1 - _SEARCHED)
            return curve.delta_bounds(below)[1], delta
        if self.name == "advantage":
            return curve.advantage_bounds()[1], self.values[0]
        if self.name == "mu":
            return curve.gdp_mu(), self.values[0]
        fpr, tpr = self.values
        return xp.minimum((1 - curve.beta_bounds(fpr)[0]) * (1 + 4e-16), 1.0), tpr

    def inside(self):
        """Are all its numbers in their ranges? Of traced ones, which cannot be refused."""
        found = True
        for key, value in zip(self.name.split(" and "), self.values):
            found = found & xp.all(_DOMAINS[key].contains(value))
        return found


def target_of(epsilon=None, delta=None, advantage=None, mu=None, fpr=None, tpr=None):
    """The one given target."""
    targets = {
        "epsilon and delta": (epsilon, delta),
        "advantage": (advantage,),
        "mu": (mu,),
        "fpr and tpr": (fpr, tpr),
    }
    given = [name for name, values in targets.items() if any(v is not None for v in values)]
    if len(given) != 1 or any(v is None for v in targets[given[0]]):
        incomplete = " incomplete" if len(given) == 1 else ""
        raise ValueError(
            f"give exactly one target of: {', '.join(targets)}; "
            f"got {', '.join(given) or 'none'}{incomplete}"
        )
    for key, value in zip(given[0].split(" and "), targets[given[0]]):
        if is_traced(value):
            continue
        check_domain(key, value, _DOMAINS[key])
        if np.any(np.isnan(value)):
            raise ValueError(f"{key} = {value} is outside its range {_DOMAINS[key].text}")
    return Target(given[0], targets[given[0]])
