"""What the tests of the curves share: the catalogue with its parameters,
evaluation in one shape, and `close`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxpriv
from jaxpriv import relaxed, worst_case
from tests.stats.checks import columns, table, worst

__all__ = ["CATALOGUE", "SIZE", "TINY", "Entry", "close", "columns", "draw", "evaluate", "table",
           "variants"]

# one shape for nearly everything, so that each method of each kind of curve compiles once
SIZE = 128
TINY = 1e-300
EPSILON_METHODS = ("delta", "log_delta", "delta_bounds")
LEVEL_METHODS = ("__call__", "power", "inverse", "slope")


class Entry(NamedTuple):
    """A function of parameters that makes a curve, their names,
    and the range that random ones are drawn from.
    """

    make: object
    names: tuple
    low: tuple
    high: tuple


CATALOGUE = {
    "gaussian": Entry(worst_case.gaussian, ("mu",), (0.02,), (6.0,)),
    "laplace": Entry(worst_case.laplace, ("ratio",), (0.02,), (8.0,)),
    "relaxed_gaussian": Entry(relaxed.gaussian, ("mu", "dim"), (0.05, 1.0), (6.0, 500.0)),
    "relaxed_laplace": Entry(relaxed.laplace, ("ratio",), (0.02,), (8.0,)),
    "gaussian_limit": Entry(relaxed.gaussian_limit, ("mu", "dim"), (0.3, 3.0), (6.0, 500.0)),
}


def variants(make):
    """The same curve with what can be built from it; all take the parameters of `make`."""
    return {
        "forward": make,
        "reversed": lambda *p: make(*p).reversed(),
        "symmetric": lambda *p: make(*p).symmetric(),
        "subsampled": lambda *p: make(*p).subsample(np.full(np.shape(p[0]), 0.3)),
        "subsampled reversed": lambda *p: (
            make(*p).subsample(np.full(np.shape(p[0]), 0.3)).reversed()
        ),
        "subsampled symmetric": lambda *p: (
            make(*p).subsample(np.full(np.shape(p[0]), 0.3)).symmetric()
        ),
        "mixture": lambda *p: mixed(make, *p),
        "mixture reversed": lambda *p: mixed(make, *p).reversed(),
        "mixture symmetric": lambda *p: mixed(make, *p).symmetric(),
    }


def mixed(make, first, *rest):
    """A quarter of the curve and three quarters of one with the first parameter
    1.7 times as large.
    """
    weights = np.broadcast_to([0.25, 0.75], (*np.shape(first), 2))
    return jaxpriv.mixture([make(first, *rest), make(1.7 * first, *rest)], weights)


def draw(name, seed=0, size=SIZE):
    """Log-uniform parameters of a curve of the catalogue."""
    entry, rng = CATALOGUE[name], np.random.default_rng(seed)
    return [
        np.exp(rng.uniform(np.log(a), np.log(b), size))
        for a, b in zip(entry.low, entry.high, strict=True)
    ]


def evaluate(make, method, argument, *parameters, dtype=np.float64):
    """make(*parameters).method(argument) at all points, flat, in blocks of SIZE;
    `argument` None for methods without.

    Those integrate or search: they get the curves as they are, in one block.
    """
    given = [*parameters] if argument is None else [argument, *parameters]
    flat = [np.ravel(a) for a in np.broadcast_arrays(*[np.asarray(a, dtype) for a in given])]
    size = flat[0].size
    block = size if argument is None else SIZE
    flat = [np.concatenate([a, np.repeat(a[-1:], -size % block)]) for a in flat]
    results = []
    for start in range(0, flat[0].size, block):
        part = [a[start : start + block] for a in flat]
        part = part if dtype == np.float64 else [jnp.asarray(a) for a in part]
        first, rest = ((), part) if argument is None else (part[:1], part[1:])
        results.append(jax.tree.map(np.asarray, getattr(make(*rest), method)(*first)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:size], *results)


def close(name, got, want, bound, inputs=()):
    """Assert |got - want| <= bound at all points, infinities included,
    and name the worst point where that fails.
    """
    got, want, bound, *inputs = np.broadcast_arrays(got, want, bound, *inputs)
    curve, _, method = name.rpartition(".")
    worst(curve, method, *(np.ravel(a) for a in (got, want, bound)), [np.ravel(a) for a in inputs])
