"""What the tests of the laws share: their names and shapes, reference points,
evaluation in one shape, and `check`.
"""

import contextlib
import functools
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from mpmath import mp, mpf

from jaxpriv import stats
from tests import oracles

SHAPES = {
    "norm": (),
    "laplace": (),
    "expon": (),
    "chi2": ("df",),
    "ncx2": ("df", "nc"),
    "foldnorm": ("c",),
    "foldlaplace": ("c",),
}
LAWS = tuple(SHAPES)
LOGS = ("logpdf", "logcdf", "logsf")
PLAIN = ("pdf", "cdf", "sf")
QUANTILES = ("ppf", "isf", "ppf_exp", "isf_exp")
OPS = LOGS + PLAIN + QUANTILES
EVERY = [(law, op) for law in LAWS for op in OPS]
TINY = float(np.finfo(np.float64).tiny)  # XLA flushes what is smaller to zero
SIZE = 512  # one shape for nearly everything, so that each function compiles once
DATA = Path(__file__).parents[1] / "data"


def function(law, op):
    """The function under test."""
    return getattr(getattr(stats, law), op)


def names(law, op):
    """Its parameters: the variable, the shapes, loc and scale."""
    variable = {"ppf": "p", "isf": "p", "ppf_exp": "logp", "isf_exp": "logp"}.get(op, "x")
    return (variable, *SHAPES[law], "loc", "scale")


def blocks(args, dtype=np.float64):
    """Broadcast, flatten, and cut into blocks of SIZE;
    the last is filled up with its last element.
    """
    flat = [np.ravel(a) for a in np.broadcast_arrays(*[np.asarray(a, dtype) for a in args])]
    size = flat[0].size
    fill = -size % SIZE
    flat = [np.concatenate([a, np.repeat(a[-1:], fill)]) for a in flat]
    return size, [[a[i : i + SIZE] for a in flat] for i in range(0, size + fill, SIZE)]


def full(law, args):
    """The arguments with loc = 0 and scale = 1 added where they are missing."""
    missing = len(SHAPES[law]) + 3 - len(args)
    return (*args, *(0.0, 1.0)[2 - missing :])


def evaluate(f, law, *args, dtype=np.float64):
    """f(*args, loc, scale) on all points at once, as one flat NumPy array;
    by NumPy in float64, by JAX in other dtypes.
    """
    size, parts = blocks(full(law, args), dtype)
    given = parts if dtype == np.float64 else [[jnp.asarray(a) for a in part] for part in parts]
    return np.concatenate([np.asarray(f(*part)) for part in given])[:size]


def by_jax(f, law, *args):
    """`evaluate` in float64, of JAX arrays: compiled once for each function."""
    size, parts = blocks(full(law, args))
    values = [f(*(jnp.asarray(a) for a in part)) for part in parts]
    assert all(isinstance(value, jax.Array) and value.dtype == jnp.float64 for value in values)
    return np.concatenate([np.asarray(value) for value in values])[:size]


@contextlib.contextmanager
def compilations():
    """The list of what JAX traces, lowers and compiles inside the block,
    by the names of JAX's own events.
    """
    found = []

    def listen(event, *_, **__):
        if "compile" in event:
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@functools.lru_cache(None)
def compiled(law, op):
    """Value, forward derivative along given tangents, and all reverse derivatives,
    in one jitted function.

    One linearization serves both: it halves the time to compile,
    and is what jax.jvp and jax.grad do.
    """
    f = function(law, op)

    def both(args, tangents):
        value, push = jax.linearize(f, *args)
        return value, push(*tangents), jax.linear_transpose(push, *args)(jnp.ones_like(value))

    return jax.jit(both)


def differentiate(law, op, *args):
    """The jitted value (n,), and the derivatives in every argument, forward and reverse:
    (n, arguments) each.
    """
    size, parts = blocks(full(law, args))
    values, forwards, backwards = [], [], []
    for part in parts:
        columns = []
        for i in range(len(part)):
            tangents = tuple(np.full(SIZE, float(i == j)) for j in range(len(part)))
            value, forward, backward = compiled(law, op)(tuple(part), tangents)
            columns.append(np.asarray(forward))
        values.append(np.asarray(value))
        forwards.append(np.stack(columns, 1))
        backwards.append(np.stack([np.asarray(b) for b in backward], 1))
    return [np.concatenate(a)[:size] for a in (values, forwards, backwards)]


@functools.lru_cache(None)
def table(name):
    """The entries of a table in tests/data."""
    return json.loads((DATA / f"{name}.json").read_text())["entries"]


@functools.lru_cache(None)
def references(law):
    """(arguments, logs): a list of float tuples (x, *shapes),
    and the mpmath triples (log pdf, log cdf, log sf).
    """
    if law in ("chi2", "ncx2"):
        golden = [
            ((e["x"], e["d"], e["lam"]), [e["log_pdf"], e["log_cdf"], e["log_sf"]])
            for e in table("ncx2")
        ]
        extreme = [
            ((e["x"], e["df"], e["nc"]), [e[name] for name in LOGS]) for e in table("ncx2_extreme")
        ]
        rows = [(args, [mpf(v) for v in logs]) for args, logs in golden + extreme]
        if law == "chi2":
            rows = [(args[:2], logs) for args, logs in rows if args[2] == 0]
    else:
        rows = [(args, list(oracles.log_of(getattr(oracles, law)(*args)))) for args in points(law)]
    return [row[0] for row in rows], [row[1] for row in rows]


def points(law):
    """Hand-picked points of the laws with a closed form, into both tails."""
    if law in ("norm", "laplace"):
        side = [1e-3, 0.2, 1.0, 1.5, 2.7, 5.0, 8.3, 12.0, 26.0, 37.9, 60.0, 130.0, 440.0]
        if law == "laplace":
            side += [700.0, 2e4, 1e5]
        return [(x,) for x in [-x for x in side] + side]
    small = [1e-300, 1e-100, 1e-20, 1e-10, 1e-4, 0.1, 0.9, 1.0, 2.0, 3.5]
    if law == "expon":
        return [(x,) for x in [*small, 10.0, 36.5, 37.5, 200.0, 745.0, 1e4, 1e5]]
    far = (20.0, 38.0, 120.0, 440.0) if law == "foldnorm" else (20.0, 38.0, 700.0, 1e5)
    near = (-440.0, -38.0, -6.0, -1.5, -0.1, -1e-6, 1e-6, 0.1, 1.5, 6.0, *far)
    chosen = []
    for c in (0.0, 1e-300, 1e-8, 1e-3, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4):
        chosen += [(x, c) for x in small] + [(c + k, c) for k in near if c + k > 0]
        if c >= 1e-8:
            chosen += [(c, c)]
    return chosen


def columns(rows):
    """A list of tuples as one array per argument."""
    return [np.array(column) for column in zip(*rows, strict=True)]


@functools.lru_cache(None)
def quantile_references(law, op):
    """(probabilities, shapes, x): the rounded probability of each reference point and the exact
    quantile of *that*.

    The rounding moves the quantile by its size over the density, first order being enough:
    it is 1e-16 of the tail.
    """
    chosen = []
    for args, (log_pdf, log_cdf, log_sf) in zip(*references(law), strict=True):
        log_tail, log_other, sign = (
            (log_cdf, log_sf, 1) if op.startswith("ppf") else (log_sf, log_cdf, -1)
        )
        if op.endswith("_exp"):
            probability = float(log_tail)
            usable = -1e6 < probability < -1e-290
            shift = (probability - log_tail) * mp.exp(log_tail - log_pdf) if usable else 0
        else:
            probability = float(mp.exp(log_tail))
            usable = probability > 1e-300 and log_other > mp.log(1e-4)
            shift = (probability - mp.exp(log_tail)) * mp.exp(-log_pdf) if usable else 0
        if usable:
            chosen.append((probability, *args[1:], float(args[0] + sign * shift)))
    *inputs, quantile = columns(chosen)
    return inputs, quantile


def worst(law, op, got, want, bound, inputs):
    """Assert |got - want| <= bound and name the worst point where that fails; NaN fails."""
    with np.errstate(all="ignore"):
        gap = np.where(got == want, 0.0, np.abs(got - want) / bound)
    bad = ~(gap <= 1)
    if bad.any():
        k = int(np.argmax(np.where(np.isnan(gap), math.inf, gap)))
        point = ", ".join(
            f"{float(v)!r}" for v in (np.broadcast_to(a, got.shape)[k] for a in inputs)
        )
        message = f"{law}.{op}({point}) = {float(got[k])!r}, want {float(want[k])!r}"
        raise AssertionError(
            f"{message}: {gap[k]:.3g} of the bound; {bad.sum()} of {bad.size} points fail"
        )


def check(law, op, f, tolerance=1e-11):
    """Assert that f is the function `op` of `law` at every reference point.

    Logarithms within `tolerance` of max(1, |log p|); probabilities and densities within the same,
    relative to themselves; quantiles within 1e-9 of themselves.
    """
    if op in QUANTILES:
        inputs, want = quantile_references(law, op)
        bound = 1e-9 * np.abs(want)
    else:
        rows, logs = references(law)
        inputs = columns(rows)
        exact = [row[(LOGS if op in LOGS else PLAIN).index(op)] for row in logs]
        log = np.array([float(v) for v in exact])
        with np.errstate(over="ignore"):
            want = log if op in LOGS else np.array([float(mp.exp(v)) for v in exact])
        want = np.where(np.abs(want) < TINY, 0.0, want)
        size = np.where(np.isinf(log), 1, np.maximum(1, np.abs(log)))
        bound = tolerance * size * (1 if op in LOGS else want) + TINY
    worst(law, op, evaluate(f, law, *inputs), want, bound, inputs)
