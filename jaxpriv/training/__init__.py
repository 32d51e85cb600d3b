"""DP-SGD: in pieces that stand alone (clipped gradients, noise, Poisson samples),
and whole (`DPTrainer`).
"""

from jaxpriv.training.clipping import ClippedSum, clipped_sum
from jaxpriv.training.groups import Groups
from jaxpriv.training.ledger import Ledger, spent
from jaxpriv.training.noise import NoiseState, add_noise, private_mean
from jaxpriv.training.plan import Plan, Privacy
from jaxpriv.training.planning import make_plan
from jaxpriv.training.sampling import Batch, capacity, poisson_sample
from jaxpriv.training.trainer import DPTrainer, Trained

__all__ = ["Batch", "ClippedSum", "DPTrainer", "Groups", "Ledger", "NoiseState", "Plan", "Privacy",
           "Trained", "add_noise", "capacity", "clipped_sum", "make_plan", "poisson_sample",
           "private_mean", "spent"]
