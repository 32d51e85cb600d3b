"""What the package says about a batch of settings, in one of its modes,
by its public functions only.

"eager": lists of Python numbers, without `jit`; "scalar": one Python number after the other;
"jit32": float32 arrays inside `jax.jit`, JAX's default; "jit64": float64 arrays inside `jax.jit`
with x64 switched on.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxpriv
from tests.adversary import catalogue

MODES = ("eager", "scalar", "jit32", "jit64")
NOISE, NEAR, NARROW = (
    (0.1, 1e4),
    1e-6,
    1e-8,
)  # of calibrate; of its answer, relative; of delta's bracket
W, R = jaxpriv.worst_case, jaxpriv.relaxed


def numbers(mechanism):
    """The parameters in order."""
    if isinstance(mechanism, tuple):
        return [x for m in mechanism for x in numbers(m)]
    return [] if isinstance(mechanism, str) else [mechanism]


def curve(mechanism, take):
    """The package's curve; `take()` gives the parameters one after the other."""
    name, *p = mechanism
    if name == "gaussian":
        return W.gaussian(take())
    if name == "laplace":
        return W.laplace(take())
    if name == "randomized_response":
        return W.randomized_response(take())
    if name == "approximate_dp":
        return W.approximate_dp(take(), take())
    if name == "relaxed_gaussian":
        return R.gaussian(take(), take())
    if name == "relaxed_laplace":
        return R.laplace(take())
    if name == "membership":
        return jaxpriv.membership.sgd_step(take(), take(), take())
    if name == "subsample":
        rate = take()
        return curve(p[1], take).subsample(rate)
    if name == "mixture":
        members = [curve(m, take) for m in p[0]]
        weights = [take() for _ in p[1]]
        stack = np.stack if all(isinstance(w, float | np.ndarray) for w in weights) else jnp.stack
        return jaxpriv.mixture(members, stack(weights, -1))
    if name == "dp_sgd":
        return W.subsampled_gaussian(take(), take(), take())
    if name == "replace_one":
        how = {"adjacency": "replace_one", "sampling": "fixed_size"}
        return W.subsampled_gaussian(take(), take(), take(), **how)
    if name == "relaxed_sgd":
        return R.subsampled_gaussian(take(), take(), take(), take())
    if name == "power":
        inner = curve(p[0], take)
        return inner.compose(take())
    if name == "compose":
        return jaxpriv.compose(*(curve(m, take) for m in p))
    return catalogue.curve(name, p, take, curve)


def directed(c, direction):
    return (
        c if direction == "forward" else c.reversed() if direction == "reverse" else c.symmetric()
    )


def ask(c, method, argument):
    if method == "advantage":
        return c.advantage_bounds()
    if method == "mu":
        return c.gdp_mu_bounds()
    return getattr(c, f"{method}_bounds")(argument)


def evaluate(template, direction, method, arrays, argument):
    source = iter(arrays)
    return ask(directed(curve(template, lambda: next(source)), direction), method, argument)


PROGRAMS = {}


def program(template, direction, method, mode):
    key = (repr(shape(template)), direction, method, mode)
    if key not in PROGRAMS:
        PROGRAMS[key] = jax.jit(
            lambda arrays, argument: evaluate(template, direction, method, arrays, argument)
        )
    return PROGRAMS[key]


def shape(mechanism):
    """The structure of a mechanism without its numbers."""
    if isinstance(mechanism, tuple):
        return tuple(shape(m) for m in mechanism)
    return mechanism if isinstance(mechanism, str) else None


SPENT = [0.0]  # seconds in the package


def says(settings, mode):
    """[(lower, upper)] of settings that share structure, direction and method."""
    begun = time.monotonic()
    try:
        return answers(settings, mode)
    finally:
        SPENT[0] += time.monotonic() - begun


def answers(settings, mode):
    first = settings[0]
    if first.method == "noise":
        return [calibrated(*s.mechanism[1:], s.argument) for s in settings]
    if mode == "scalar":
        with jax.enable_x64(False):
            return [
                pair(evaluate(s.mechanism, s.direction, s.method, numbers(s.mechanism), s.argument))
                for s in settings
            ]
    rows = np.array([numbers(s.mechanism) for s in settings])
    columns = [rows[:, k] for k in range(rows.shape[1])]
    argument = np.array([s.argument for s in settings])
    if mode == "eager":
        with jax.enable_x64(False):
            low, high = evaluate(first.mechanism, first.direction, first.method, columns, argument)
            assert np.asarray(low).dtype == np.float64, np.asarray(low).dtype
    else:
        wide = mode == "jit64"
        kind = jnp.float64 if wide else jnp.float32
        with jax.enable_x64(wide):
            arrays = [
                jnp.asarray(c.astype(np.float64 if wide else np.float32), kind) for c in columns
            ]
            at = jnp.asarray(argument.astype(np.float64 if wide else np.float32), kind)
            low, high = program(first.mechanism, first.direction, first.method, mode)(arrays, at)
    low, high = np.broadcast_to(low, len(settings)), np.broadcast_to(high, len(settings))
    return list(zip(low.tolist(), high.tolist()))


def calibrated(rate, steps, delta, epsilon):
    """(lower, upper) of the smallest private noise multiplier; lower 0 where delta is wide."""

    def noisy(noise):
        return W.subsampled_gaussian(noise, rate, steps).symmetric()

    found = jaxpriv.calibrate(noisy, epsilon=epsilon, delta=delta, bracket=NOISE)
    low, high = noisy(found).delta_bounds(epsilon)
    return (found * (1 - NEAR) if high - low < NARROW * delta else 0.0), found


def pair(bounds):
    low, high = bounds
    return float(low), float(high)
