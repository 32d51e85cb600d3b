"""One error per bad argument: concrete values are checked on entry,
traced ones are left to become NaN.
"""

from decimal import Decimal
from numbers import Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Domain(NamedTuple):
    """A range of accepted values, as text for the error message;
    `inside` stands in for a value that is outside.
    """

    low: float
    high: float
    text: str
    inside: float = 0.5
    open_low: bool = False
    open_high: bool = False

    def contains(self, value):
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above & below


POSITIVE = Domain(0.0, np.inf, "(0, inf)", 1.0, open_low=True, open_high=True)
AT_LEAST_ONE = Domain(1.0, np.inf, "[1, inf)", 1.0, open_high=True)
NONNEGATIVE = Domain(0.0, np.inf, "[0, inf)", 1.0, open_high=True)
UNIT = Domain(0.0, 1.0, "[0, 1]")
# of norms and noises: their products are normal numbers in float32
SCALE = Domain(1e-15, 1e15, "[1e-15, 1e15]")
OPEN_UNIT = Domain(0.0, 1.0, "(0, 1)", open_low=True, open_high=True)
BELOW_ONE = Domain(0.0, 1.0, "[0, 1)", open_high=True)
RATE = Domain(0.0, 1.0, "(0, 1]", open_low=True)
ADJACENCIES = "add_remove", "replace_one", "zero_out"


def is_traced(value):
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def check_domain(name, value, domain):
    """Raise ValueError if a concrete `value` has an entry outside `domain`;
    NaN passes (NaN in, NaN out).
    """
    if is_traced(value):
        return
    try:
        array = _real(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} = {value!r} is not a number; accepted range: {domain.text}"
        ) from None
    bad = ~(domain.contains(array) | np.isnan(array))
    if bad.any():
        worst = np.extract(bad, array)[0]
        raise ValueError(f"{name} = {worst} is outside its range {domain.text}")


def _real(value):
    """An array of real numbers; TypeError for what NumPy would turn into them: text, bytes,
    booleans, None, complex.
    """
    array = np.asarray(value)
    if array.dtype.kind == "O":  # fractions, decimals and whole numbers of more than 64 bits
        if not all(isinstance(v, (Real, Decimal)) and not isinstance(v, bool) for v in array.flat):
            raise TypeError
    elif not (jnp.issubdtype(array.dtype, np.floating) or jnp.issubdtype(array.dtype, np.integer)):
        raise TypeError
    if hasattr(value, "dtype") and array.dtype.kind in "fiu":
        return array
    return array.astype(np.float64)


def check_number(name, value, domain):
    """`check_domain` for what people enter, where NaN is an error too."""
    check_domain(name, value, domain)
    if np.any(np.isnan(np.asarray(value, np.float64))):
        raise ValueError(f"{name} = nan is outside its range {domain.text}")


def check_key(name, key):
    """Raise ValueError for anything but one new-style JAX key: old keys are plain numbers, which
    can be mixed up or reused.
    """
    if not (hasattr(key, "dtype") and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        raise ValueError(f"{name} = {key!r} is not a JAX key; accepted: jax.random.key(...)")
    if key.shape != ():
        raise ValueError(
            f"{name} has shape {key.shape}; accepted: one key, from jax.random.key(...)"
        )


def check_whole(name, value, least=1, most=10**9):
    """Raise ValueError for anything but a whole number in least ... most."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ValueError(
            f"{name} = {value!r} is outside its range {least}, {least + 1}, ... {most:,}"
        )


def check_choice(name, value, choices):
    """Raise ValueError for anything but one of these words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} = {value!r}; accepted: {', '.join(map(repr, choices))}")


def check_floating(name, tree):
    """Raise ValueError for a pytree with leaves that are not real floating-point numbers:
    a complex square is no length.
    """
    for path, leaf in jax.tree.leaves_with_path(tree):
        numeric = hasattr(leaf, "dtype") or isinstance(leaf, float)
        if not numeric or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} is {kind}; "
                "accepted: real floating-point arrays"
            )


def as_parameter(name, value, domain):
    """A checked parameter: a Python float, or an array of its own dtype;
    traced values outside the domain become NaN.

    Python numbers and lists keep their float64 digits for the bounds,
    even where JAX would round them to float32.
    """
    check_domain(name, value, domain)
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
        value = jnp.asarray(value)
        value = jnp.asarray(value, jnp.result_type(value, 0.0))
        return jnp.where(domain.contains(value), value, jnp.nan) if is_traced(value) else value
    given = getattr(value, "dtype", None)
    array = np.asarray(
        value, given if given is not None and jnp.issubdtype(given, jnp.floating) else np.float64
    )
    return float(array) if array.ndim == 0 and given is None else array
