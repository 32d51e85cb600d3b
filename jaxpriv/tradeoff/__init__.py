"""Trade-off curves: the dominating pair, its conjugate, and the combinators."""

from jaxpriv.tradeoff.curve import Curve
from jaxpriv.tradeoff.mixing import mixture
from jaxpriv.tradeoff.resilience import Resilience, detection_resilience

__all__ = ["Curve", "Resilience", "detection_resilience", "mixture"]
