"""By NumPy: what is lost to transforms whose frequencies do not end in time, or whose rounding
shows, from the laws of the same steps.
"""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition import light, line
from jaxpriv.composition.entrywise import alike
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.inversion import invert, log_result
from jaxpriv.composition.line import DELTA
from jaxpriv.composition.pieces import as_steps, grouped
from jaxpriv.composition.quadratic import NormalTransform
from jaxpriv.stats._logspace import log1mexp

DEEP = -300.0  # log delta below which no law follows it
_USEFUL = 1.0  # width of its bracket below which one does


def has_laws(terms):
    """No law is known of normal vectors."""
    return not any(isinstance(term.transform, NormalTransform) for term in terms)


def laws_of(terms):
    """The experiment of these `Term`s by their laws, or None."""
    if not has_laws(terms):
        return None
    return Gridded(grouped([step for term in terms for step in as_steps(term)]), np.zeros((), bool))


def log_delta(terms, eps, deep):
    """(log delta, log of one less it), differentiable; by NumPy from a lattice where the
    frequencies do not end in time, or rounding shows; but what is below e^deep as the transforms
    have it.
    """
    if xp.any_jax(terms, eps):
        return log_result(terms, eps, DELTA)
    inner = line.before_largest(terms, eps)
    logs = invert(terms, inner, DELTA)
    logs = light.inverted(terms, inner, DELTA, logs, ~logs.exact)
    lost = ~logs.exact & (eps < line.loss_bound(terms)) & ~(logs.result <= deep)
    return by_laws(terms, (logs.result, logs.rest), lost, _in_bracket, eps, logs.result)


def _in_bracket(own, eps, value):
    """(log delta, log of one less it): of laws where their bracket is narrow, and a value as it is
    elsewhere, both cut to the bracket.
    """
    lower, upper, _ = own.bracket(eps, eps, False)
    close = upper - lower < _USEFUL
    if close.any():
        found = own.log_delta(eps, False)
        inside = (found >= lower) & (found <= upper)
        value = np.where(close, np.where(inside, found, 0.5 * (lower + upper)), value)
    value = np.clip(value, lower, upper)
    return value, log1mexp(value)


def by_laws(terms, found, lost, ask, *values):
    """By NumPy `found`, a pytree of arrays, in which what is lost is ask(the same experiment by its
    laws, *values), if any are known.
    """
    if not np.any(lost):
        return found
    found = jax.tree.map(np.array, found)
    flat = jax.tree.map(lambda leaf: leaf[lost], (terms, values))
    index = np.flatnonzero(lost)
    for first, group in alike(jax.tree.leaves(flat[0]), index.size):
        own = laws_of(xp.row(flat[0], first))
        if own is None:
            continue
        asked = [value[group] for value in flat[1]]
        part = ask(own.aligned(group.shape, asked[0].dtype), *asked)
        for leaf, new in zip(jax.tree.leaves(found), jax.tree.leaves(part)):
            leaf.reshape(-1)[index[group]] = new
    return found
