"""What privacy costs: composition of mechanisms, and the parameters that meet a target."""

from jaxpriv.accounting.calibrate import calibrate
from jaxpriv.accounting.composition import compose
from jaxpriv.accounting.renyi import renyi_divergence, renyi_epsilon

__all__ = ["calibrate", "compose", "renyi_divergence", "renyi_epsilon"]
