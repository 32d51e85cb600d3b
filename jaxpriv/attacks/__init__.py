"""Attacks on membership: scores, what they need to know of other records, games and canaries."""

from jaxpriv.attacks import canaries, games, reference
from jaxpriv.attacks.gradients import clip, per_example_gradients
from jaxpriv.attacks.losses import confidence, loss_threshold, offline_lira, online_lira
from jaxpriv.attacks.scores import (
    bernoulli_likelihood_ratio,
    covariance,
    fisher,
    folded,
    glir,
    scalar_product,
)

__all__ = ["bernoulli_likelihood_ratio", "canaries", "clip", "confidence", "covariance", "fisher",
           "folded", "games", "glir", "loss_threshold", "offline_lira", "online_lira",
           "per_example_gradients", "reference", "scalar_product"]
