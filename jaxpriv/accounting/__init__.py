"""What privacy costs: composition of mechanisms, and the parameters that meet a target."""

from jaxpriv.accounting.calibrate import calibrate
from jaxpriv.accounting.composition import compose

__all__ = ["calibrate", "compose"]
