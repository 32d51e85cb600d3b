"""Derivatives by argument and parameters: forward, reverse, differences of ours, and 60-digit
differences of an oracle.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

from tests import oracles
from tests.tradeoff.checks import CATALOGUE, close, columns, draw, variants

SIZE = 16
METHODS = ("delta", "log_delta", "epsilon", "__call__", "power", "slope", "advantage")
KINDS = [("gaussian", "forward"), ("relaxed_gaussian", "forward")]
SLOW = [("relaxed_laplace", "symmetric"), ("laplace", "forward"), ("relaxed_laplace", "forward")]
SLOW += [("gaussian_limit", "forward"), ("relaxed_gaussian", "reversed")]
SLOW += [("gaussian", "subsampled"), ("relaxed_laplace", "subsampled reversed"),
         ("gaussian", "mixture")]
SLOW += [("relaxed_gaussian", "symmetric")]
KINDS += [pytest.param(*kind, marks=pytest.mark.slow) for kind in SLOW]
MOVES = np.array([-3, -2, -1, 1, 2, 3])
WEIGHTS = np.array([-1, 9, -45, 45, -9, 1]) / 60  # sixth order


def inputs(name, method, seed=2):
    """(argument or none, parameters), moderate:
    no underflow and away from both ends of a bounded loss.
    """
    rng = np.random.default_rng(seed)
    parameters = draw(name, seed, SIZE)
    parameters[0] = np.clip(parameters[0], 0.7, 2.5)
    if len(parameters) > 1:
        parameters[1] = np.clip(parameters[1], 1.5, 40)
    if name == "gaussian_limit":
        parameters = [parameters[0] + 2, parameters[1]]
    first = (
        rng.uniform(0.03, 0.12, SIZE)
        if method in ("delta", "log_delta")
        else rng.uniform(0.03, 0.3, SIZE)
    )
    first = rng.uniform(0.005, 0.02, SIZE) if method == "epsilon" else first
    return [*([] if method == "advantage" else [first]), *parameters]


def function(name, kind, method):
    """(argument, *parameters) -> value."""
    make = variants(CATALOGUE[name].make)[kind]
    if method == "advantage":
        return lambda *p: make(*p).advantage()
    return lambda first, *p: getattr(make(*p), method)(first)


@functools.lru_cache(None)
def compiled(name, kind, method):
    """Value, forward along tangents, and all reverse derivatives."""
    f = function(name, kind, method)

    def both(args, tangents):
        value, push = jax.linearize(f, *args)
        return value, push(*tangents), jax.linear_transpose(push, *args)(jnp.ones_like(value))

    return jax.jit(both)


CASES = [
    pytest.param(*getattr(kind, "values", kind), method, marks=getattr(kind, "marks", ()))
    for kind in KINDS
    for method in METHODS
]
QUICK = ("delta", "__call__")  # of the chi-square pair, whose derivatives take long to compile
CASES = [
    pytest.param(*c.values, marks=pytest.mark.slow)
    if c.values[0] == "relaxed_gaussian" and c.values[2] not in QUICK
    else c
    for c in CASES
]


@pytest.mark.parametrize(("name", "kind", "method"), CASES)
def test_forward_reverse_and_differences(name, kind, method):
    """All three agree in every argument."""
    args = [jnp.asarray(a) for a in inputs(name, method)]
    run = compiled(name, kind, method)
    none = tuple(jnp.zeros(SIZE) for _ in args)
    for i in range(len(args)):
        unit = tuple(jnp.full(SIZE, float(i == j)) for j in range(len(args)))
        value, forward, backward = run(tuple(args), unit)
        step = 2e-3 * np.asarray(args[i])

        def moved(m, i=i, step=step):
            return np.asarray(
                run(tuple(a + m * step if j == i else a for j, a in enumerate(args)), none)[0]
            )

        want = sum(w * moved(m) for w, m in zip(WEIGHTS, MOVES, strict=True)) / step
        label = f"{name} {kind}.{method} by {i}"
        assert not np.isnan(value).any()
        close(label + " backward", backward[i], forward, 1e-11 * np.abs(forward) + 1e-14, args)
        scale = np.abs(want) + np.abs(np.asarray(value) / args[i])
        close(label + " forward", forward, want, 3e-7 * scale + 1e-9, args)


def log_delta_oracle(name, eps, *parameters):
    """log delta forward in 60 digits, the threshold by bisection."""
    tails = {
        "gaussian": (oracles.norm, lambda t: oracles.norm(t - parameters[0])),
        "relaxed_gaussian": (
            lambda t: oracles.chi2(t, parameters[1]),
            lambda t: oracles.ncx2(t, parameters[1], parameters[0] ** 2),
        ),
        "relaxed_laplace": (oracles.expon, lambda t: oracles.foldlaplace(t, parameters[0])),
    }[name]

    def excess(t):
        return mp.log(tails[1](t).pdf / tails[0](t).pdf) - eps

    start = {
        "gaussian": eps / parameters[0] + parameters[0] / 2,
        "relaxed_laplace": parameters[0] / 2,
    }.get(name, mpf(4))
    t = start if name == "gaussian" else mp.findroot(excess, start, tol=mpf(10) ** -50)
    return mp.log(tails[1](t).sf - mp.exp(eps) * tails[0](t).sf)


@functools.lru_cache(None)
def differences(name, args):
    """(gradient, diagonal of the Hessian)
    of the oracle by central differences with a step of 1e-16.
    """
    at = [mpf(a) for a in args]
    step = mpf(10) ** -16
    middle = log_delta_oracle(name, *at)
    first, second = [], []
    for i in range(len(at)):
        up, down = (
            log_delta_oracle(name, *[a + s * step if j == i else a for j, a in enumerate(at)])
            for s in (1, -1)
        )
        first.append(float((up - down) / (2 * step)))
        second.append(float((up - 2 * middle + down) / step**2))
    return first, second


ROWS = {
    "gaussian": [(0.3, 1.0), (2.0, 0.7), (-0.4, 2.5)],
    "relaxed_laplace": [(0.1, 1.2), (0.3, 2.5), (-0.2, 0.8)],
    "relaxed_gaussian": [(0.3, 1.0, 1.2), (0.5, 2.5, 7.0), (-0.1, 1.5, 30.0)],
}


@pytest.mark.parametrize(
    "name",
    ["gaussian", "relaxed_laplace", pytest.param("relaxed_gaussian", marks=pytest.mark.slow)],
)
def test_log_delta_against_60_digits(name):
    """First derivatives to 1e-9 and second ones to 1e-7, by epsilon and every parameter."""
    args = [jnp.asarray(a) for a in columns(ROWS[name])]
    f = function(name, "forward", "log_delta")
    for i in range(len(args)):

        def along(x, i=i):
            return f(*[x if j == i else a for j, a in enumerate(args)])

        ones = jnp.ones_like(args[i])

        def slope(x, along=along, ones=ones):
            return jax.jvp(along, (x,), (ones,))[1]

        first, second = jax.jvp(slope, (args[i],), (ones,))
        want = np.array([differences(name, row)[0][i] for row in ROWS[name]])
        close(f"{name}.dlog_delta by {i}", first, want, 1e-9 * np.abs(want), args)
        want = np.array([differences(name, row)[1][i] for row in ROWS[name]])
        close(f"{name}.d2log_delta by {i}", second, want, 1e-7 * (1 + np.abs(want)), args)


@pytest.mark.parametrize(
    "name",
    ["gaussian", "relaxed_laplace", pytest.param("relaxed_gaussian", marks=pytest.mark.slow)],
)
def test_second_derivatives_of_log_delta(name):
    """Forward over reverse is the difference of the first derivative,
    and mixed derivatives commute.
    """
    args = [jnp.asarray(a) for a in columns(ROWS[name])]
    f = function(name, "forward", "log_delta")
    gradient = jax.jit(jax.grad(lambda *a: jnp.sum(f(*a)), argnums=tuple(range(len(args)))))
    hessian = []
    for i in range(len(args)):
        unit = tuple(jnp.full_like(a, float(i == j)) for j, a in enumerate(args))
        hessian.append(np.array(jax.jvp(gradient, tuple(args), unit)[1]))
        h = 1e-4
        sides = [
            gradient(*[a + s * h if j == i else a for j, a in enumerate(args)]) for s in (1, -1)
        ]
        want = (np.array(sides[0]) - np.array(sides[1])) / (2 * h)
        close(f"{name}.hessian row {i}", hessian[i], want, 1e-5 * (1 + np.abs(want)))
    close(f"{name}.hessian", np.swapaxes(hessian, 0, 1), hessian, 1e-9 * (1 + np.abs(hessian)))


@pytest.mark.slow
def test_derivatives_at_the_ends_are_numbers():
    """No NaN at eps where delta is 0, at delta 0 and 1, alpha 0 and 1, and with no signal."""
    for name in ("gaussian", "laplace", "relaxed_laplace"):
        for method, values in (("delta", [0.0, 50.0, 800.0, -800.0]), ("epsilon", [1.0, 0.9]),
                               ("__call__", [0.0, 1.0])):
            f = function(name, "forward", method)
            for parameter in (0.0, 1.0):
                first = jnp.asarray(values)
                both = jax.grad(lambda a, p, f=f: jnp.sum(f(a, p)), (0, 1))(
                    first, jnp.full_like(first, parameter)
                )
                assert not np.isnan(both[0]).any(), (name, method, parameter, both[0])
                assert not np.isnan(both[1]).any(), (name, method, parameter, both[1])


@pytest.mark.slow
def test_gradient_through_a_curve():
    """By the leaves of the curve itself, and by the rate of sub-sampling."""
    curve = CATALOGUE["gaussian"].make(jnp.asarray(1.2))
    leaf = jax.tree.leaves(jax.grad(lambda c: c.delta(0.5))(curve))[0]
    by_mu = jax.grad(lambda mu: CATALOGUE["gaussian"].make(mu).delta(0.5))(1.2)
    close("curve.gradient", leaf, by_mu, 1e-14)
    by_rate = jax.jit(jax.value_and_grad(lambda rate: curve.subsample(rate).delta(0.05)))
    up, down = by_rate(0.3 + 1e-5)[0], by_rate(0.3 - 1e-5)[0]
    close("rate.gradient", by_rate(0.3)[1], (up - down) / 2e-5, 1e-8)
