"""jaxpriv: a JAX-accelerated, differentiable privacy accountant."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jaxpriv import (
    accounting,
    membership,
    random,
    relaxed,
    stats,
    target,
    tradeoff,
    worst_case,
)
from jaxpriv.accounting import calibrate, compose
from jaxpriv.curve import Curve
from jaxpriv.mixing import mixture, worst_of
from jaxpriv.resilience import detection_resilience
from jaxpriv.tradeoff.certified import WideBracket

__version__ = "0.2.0"
__all__ = ["Curve", "WideBracket", "accounting", "attacks", "auditing", "calibrate", "compose",
           "detection_resilience", "filters", "membership", "mixture", "random", "relaxed", "stats",
           "target", "tradeoff", "worst_case", "worst_of"]
# imported when first asked for: what curves do not need. Tables, trainers and loaders bring Flax
# and more; attacks and audits are a quarter of what else there is to import
_LATER = ("attacks", "auditing", "correlated", "datasets", "filters", "report", "training")
if TYPE_CHECKING:
    from jaxpriv import attacks as attacks
    from jaxpriv import auditing as auditing
    from jaxpriv import correlated as correlated
    from jaxpriv import datasets as datasets
    from jaxpriv import filters as filters
    from jaxpriv import report as report
    from jaxpriv import training as training


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f"jaxpriv.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_LATER]
