"""What privacy costs: composition of mechanisms, and the parameters that meet a target."""

from jaxpriv.accounting.calibrate import calibrate
from jaxpriv.accounting.compose import compose
from jaxpriv.accounting.limits import gaussian_limit
from jaxpriv.accounting.renyi import renyi_divergence, renyi_epsilon
from jaxpriv.accounting.schedule import Schedule, optimise_schedule
from jaxpriv.accounting.selection import selection_epsilon
from jaxpriv.accounting.tries import NegativeBinomialTries, PoissonTries

__all__ = ["NegativeBinomialTries", "PoissonTries", "Schedule", "calibrate", "compose",
           "gaussian_limit", "optimise_schedule", "renyi_divergence", "renyi_epsilon",
           "selection_epsilon"]
