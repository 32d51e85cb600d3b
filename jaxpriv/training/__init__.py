"""DP-SGD in pieces that stand alone: clipped gradients, noise, Poisson samples."""

from jaxpriv.training.clipping import ClippedSum, clipped_sum
from jaxpriv.training.noise import NoiseState, add_noise, private_mean
from jaxpriv.training.sampling import Batch, capacity, poisson_sample

__all__ = ["Batch", "ClippedSum", "NoiseState", "add_noise", "capacity", "clipped_sum", "poisson_sample", "private_mean"]
