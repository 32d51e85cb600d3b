"""Strategies of `jaxpriv.correlated` as a plan writes them down: in JSON, and in words."""

import jax
import numpy as np

from jaxpriv import correlated

_MAKERS: dict = {"banded_toeplitz": correlated.banded_toeplitz,
           "banded_inverse": correlated.banded_inverse,
           "buffered_toeplitz": correlated.buffered_toeplitz}
_NAMES = {correlated.BandedToeplitz: "banded_toeplitz", correlated.BandedInverse: "banded_inverse",
          correlated.BufferedToeplitz: "buffered_toeplitz"}


def settings_of(strategy):
    """{"name", and its numbers}: what `strategy_of` makes the same one of.

    >>> settings_of(correlated.banded_toeplitz([1.0, 0.5]))
    {'name': 'banded_toeplitz', 'coefficients': [1.0, 0.5]}
    """
    if type(strategy) not in _NAMES:
        raise ValueError(
            f"strategy = {type(strategy).__name__}; accepted in trainings: independent noise, "
            f"{', '.join(_NAMES.values())}"
        )
    numbers = {jax.tree_util.keystr(path, simple=True): np.asarray(leaf, float).tolist()
               for path, leaf in jax.tree.leaves_with_path(strategy)}
    return {"name": _NAMES[type(strategy)], **numbers}


def strategy_of(settings):
    """The strategy whose settings these are. Raises: ValueError for another name."""
    settings = dict(settings)
    name = settings.pop("name", None)
    if name not in _MAKERS:
        raise ValueError(f"strategy = {name!r}; accepted: {', '.join(_MAKERS)}")
    return _MAKERS[name](**settings)


def in_words(strategy):
    """What kind it is: "banded Toeplitz, 16 bands"."""
    size = len(jax.tree.leaves(strategy)[0])
    parts = "buffers" if isinstance(strategy, correlated.BufferedToeplitz) else "bands"
    name = _NAMES[type(strategy)].replace("_", " ").replace("toeplitz", "Toeplitz")
    return f"{name}, {size} {parts}"
