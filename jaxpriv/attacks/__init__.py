"""Attacks on membership: scores, what they need to know of other records, games and canaries."""

from jaxpriv.attacks import canaries, games, reference
from jaxpriv.attacks.campaign import campaign
from jaxpriv.attacks.campaign_report import Campaign, Leak
from jaxpriv.attacks.gradients import clip, per_example_gradients
from jaxpriv.attacks.losses import confidence, loss_threshold, offline_lira, online_lira
from jaxpriv.attacks.quantile import quantile_regression
from jaxpriv.attacks.rmia import rmia
from jaxpriv.attacks.scores import (
    bernoulli_likelihood_ratio,
    covariance,
    fisher,
    folded,
    glir,
    scalar_product,
)

__all__ = ["Campaign", "Leak", "bernoulli_likelihood_ratio", "campaign", "canaries", "clip",
           "confidence", "covariance", "fisher", "folded", "games", "glir", "loss_threshold",
           "offline_lira", "online_lira", "per_example_gradients", "quantile_regression",
           "reference", "rmia", "scalar_product"]
