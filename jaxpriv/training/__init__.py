"""DP-SGD: in pieces that stand alone (clipped gradients, noise, samples), as a step for a loop that
is there (`private`), and whole (`DPTrainer`).
"""

from jaxpriv.training import sampling
from jaxpriv.training.best import Best, best_of
from jaxpriv.training.clipping import ClippedSum, clipped_sum
from jaxpriv.training.ghost import ghost_clipped_sum
from jaxpriv.training.grid import clipped_sum_on_grid, grid_bits, private_mean_on_grid
from jaxpriv.training.groups import Groups
from jaxpriv.training.ledger import Ledger, spent
from jaxpriv.training.memory import microbatch_that_fits
from jaxpriv.training.noise import NoiseState, add_noise, private_mean
from jaxpriv.training.plan import Plan, Privacy
from jaxpriv.training.planning import make_plan
from jaxpriv.training.private import Private, private
from jaxpriv.training.sampling import Batch, capacity, limit_records, poisson_sample
from jaxpriv.training.selection import Selection
from jaxpriv.training.trainable import trainable
from jaxpriv.training.trainer import DPTrainer, Trained

__all__ = ["Batch", "Best", "ClippedSum", "DPTrainer", "Groups", "Ledger", "NoiseState", "Plan",
           "Privacy", "Private", "Selection", "Trained", "add_noise", "best_of", "capacity",
           "clipped_sum", "clipped_sum_on_grid", "ghost_clipped_sum", "grid_bits", "limit_records",
           "make_plan", "microbatch_that_fits", "poisson_sample", "private", "private_mean",
           "private_mean_on_grid", "sampling", "spent", "trainable"]
