"""DP-SGD: in pieces that stand alone (clipped gradients, noise, Poisson samples),
and whole (`DPTrainer`).
"""

from jaxpriv.training.clipping import ClippedSum, clipped_sum
from jaxpriv.training.grid import clipped_sum_on_grid, grid_bits, private_mean_on_grid
from jaxpriv.training.ledger import Ledger, spent
from jaxpriv.training.noise import NoiseState, add_noise, private_mean
from jaxpriv.training.plan import Plan, Privacy
from jaxpriv.training.planning import make_plan
from jaxpriv.training.sampling import Batch, capacity, poisson_sample
from jaxpriv.training.trainer import DPTrainer, Trained

__all__ = ["Batch", "ClippedSum", "DPTrainer", "Ledger", "NoiseState", "Plan", "Privacy", "Trained",
           "add_noise", "capacity", "clipped_sum", "clipped_sum_on_grid", "grid_bits", "make_plan",
           "poisson_sample", "private_mean", "private_mean_on_grid", "spent"]
