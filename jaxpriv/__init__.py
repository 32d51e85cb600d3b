"""jaxpriv: a JAX-accelerated, differentiable privacy accountant."""

from jaxpriv import accounting, attacks, auditing, membership, random, relaxed, stats, target, tradeoff, worst_case
from jaxpriv.accounting import calibrate, compose
from jaxpriv.tradeoff import Curve, detection_resilience, mixture

__version__ = "0.1.0"
__all__ = ["Curve", "accounting", "attacks", "auditing", "calibrate", "compose", "detection_resilience", "membership", "mixture",
           "random", "relaxed", "stats", "target", "tradeoff", "worst_case"]
