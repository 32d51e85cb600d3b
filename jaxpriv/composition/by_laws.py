"""By NumPy: what is lost to transforms whose frequencies do not end in time, or whose rounding
shows, from the laws of the same steps.
"""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.composition import light, line
from jaxpriv.composition.entrywise import alike
from jaxpriv.composition.estimates import unknown
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.inversion import invert, log_result
from jaxpriv.composition.line import DELTA
from jaxpriv.composition.nearby import are_few, is_long
from jaxpriv.composition.pieces import as_steps, grouped
from jaxpriv.composition.quadratic import NormalTransform
from jaxpriv.composition.stepped import Stepped
from jaxpriv.stats._logspace import log1mexp

DEEP = -300.0  # log delta below which no law follows it
_SLOW = 9.0  # log of the frequencies of a line that takes longer than laws do
_MANY, _FEWER = 16, 16  # questions to one composition of so few steps that do
_USEFUL = 1.0  # width of its bracket below which one does


def has_laws(terms):
    """No law is known of normal vectors."""
    return not any(isinstance(term.transform, NormalTransform) for term in terms)


def laws_of(terms):
    """The experiment of these `Term`s by their laws, or None."""
    if not has_laws(terms):
        return None
    return Gridded(grouped([step for term in terms for step in as_steps(term)]), np.zeros((), bool))


def followed(terms, method, values):
    """method(values) of few steps by their laws (`doubling`) where that takes less than transforms,
    NaN elsewhere; None if nowhere. Both know all digits.
    """
    if not all(isinstance(term.transform, Stepped) for term in terms):
        return None
    slow = np.broadcast_to(is_long(terms, _SLOW), values.shape)
    many = values.size >= _MANY
    few = are_few(terms) & (slow | are_few(terms, _FEWER) & many)
    if not np.any(few):
        return None

    def ask(own, values, slow):
        if slow.all() or len(values) >= _MANY:
            return own.followed(method, values)
        return unknown(method, values.shape)

    return by_laws(terms, unknown(method, values.shape), few, ask, values, slow)


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
    return by_laws(terms, (logs.result, logs.rest), lost, _told, eps, logs.result)


def _told(own, eps, value):
    """(log delta, log of one less it) of laws: to rounding, or within their brackets."""
    found = own.followed("contacts", eps)[..., 0]
    lost = np.isnan(found)
    if lost.any():
        rest = jax.tree.map(lambda leaf: leaf[lost], own)
        found[lost] = _in_bracket(rest, eps[lost], value[lost])
    return found, log1mexp(found)


def _in_bracket(own, eps, value):
    """log delta of laws where their bracket is narrow, and a value as it is elsewhere, both cut to
    the bracket.
    """
    lower, upper, _ = own.bracket(eps, eps, False)
    close = upper - lower < _USEFUL
    if close.any():
        found = own.log_delta(eps, False)
        inside = (found >= lower) & (found <= upper)
        value = np.where(close, np.where(inside, found, 0.5 * (lower + upper)), value)
    return np.clip(value, lower, upper)


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
            leaf.reshape(lost.size, *leaf.shape[lost.ndim :])[index[group]] = new
    return found
