"""Optimisers made for noisy gradients, and what goes with them: each stands alone.

All but the loss wrappers see nothing but releases: what they compute is as private as these.
"""

from jaxpriv.training.optimizers.adam_bc import AdamBCState, adam_bc
from jaxpriv.training.optimizers.augmented import averaged
from jaxpriv.training.optimizers.average import AverageState, parameter_average
from jaxpriv.training.optimizers.scaled import (
    ScaleState,
    ScaleThenPrivatise,
    scaled_clipped_sum,
    unscaled,
)

__all__ = ["AdamBCState", "AverageState", "ScaleState", "ScaleThenPrivatise", "adam_bc", "averaged",
           "parameter_average", "scaled_clipped_sum", "unscaled"]
