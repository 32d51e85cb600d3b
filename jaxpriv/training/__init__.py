"""DP-SGD: in pieces that stand alone (clipped gradients, noise, samples), as a step for a loop that
is there (`private`), and whole (`DPTrainer`).
"""

from jaxpriv.training import sampling
from jaxpriv.training.clipping import ClippedSum, clipped_sum
from jaxpriv.training.ghost import ghost_clipped_sum
from jaxpriv.training.groups import Groups
from jaxpriv.training.ledger import Ledger, spent
from jaxpriv.training.memory import microbatch_that_fits
from jaxpriv.training.noise import NoiseState, add_noise, private_mean
from jaxpriv.training.plan import Plan, Privacy
from jaxpriv.training.planning import make_plan
from jaxpriv.training.private import Private, private
from jaxpriv.training.sampling import Batch, capacity, limit_records, poisson_sample
from jaxpriv.training.trainable import trainable
from jaxpriv.training.trainer import DPTrainer, Trained

__all__ = ["Batch", "ClippedSum", "DPTrainer", "Groups", "Ledger", "NoiseState", "Plan", "Privacy",
           "Private", "Trained", "add_noise", "capacity", "clipped_sum", "ghost_clipped_sum",
           "limit_records", "make_plan", "microbatch_that_fits", "poisson_sample", "private",
           "private_mean", "sampling", "spent", "trainable"]
