"""Every public name, by `__all__` or by the functions of no private name."""

import importlib
import inspect
from importlib.util import find_spec

MODULES = ("worst_case", "relaxed", "membership", "target", "random", "datasets", "accounting",
           "correlated", "filters", "attacks", "auditing", "training", "report", "bridges", "stats")
# bridges to what need not be installed
PEERS = {"bridges.dp_accounting": "dp_accounting", "bridges.jax_privacy": "jax_privacy"}
MISSING = tuple(name for name, peer in PEERS.items() if find_spec(peer) is None)
# with names of their own, which are asked for one level down
PARTS = ("attacks.canaries", "attacks.games", "attacks.reference", "bridges.points",
         "bridges.privacy_loss", "bridges.renyi", *(name for name in PEERS if name not in MISSING),
         *(f"stats.{law}" for law in ("chi2", "expon", "foldlaplace", "foldnorm", "laplace", "ncx2",
                                      "norm")))


def public(module):
    """What a module offers."""
    if hasattr(module, "__all__"):
        return module.__all__
    return [
        name for name, value in vars(module).items()
        if inspect.isfunction(value) and not name.startswith("_")
        and value.__module__.startswith((module.__name__, "jaxpriv.catalogue"))
    ]  # fmt: skip


def everything():
    """{full name below `jaxpriv`: what it is}, modules left out; by the first of several names."""
    found = {}
    for place in ("", *MODULES, *PARTS):
        module = importlib.import_module(f"jaxpriv.{place}".rstrip("."))
        for name in public(module):
            value = getattr(module, name)
            if not inspect.ismodule(value) and not any(value is known for known in found.values()):
                found[f"{place}.{name}".lstrip(".")] = value
    return found


def methods(kind):
    """{name: function} of a public class."""
    return {
        name: value for name, value in inspect.getmembers(kind)
        if (not name.startswith("_") or name == "__call__")
        and (inspect.isfunction(value) or inspect.ismethod(value))
    }  # fmt: skip
