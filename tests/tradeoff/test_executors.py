"""The two executors agree: every method of every kind of curve by NumPy and by JAX;
and NumPy compiles nothing.

Both run the same text on IEEE numbers; what differs is the last bits of exp, log, log1p, erf and
fused multiplications, and that XLA takes numbers below the smallest normal one for zero. Concrete
bounds are NumPy's; JAX's are those inside `jit`.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxpriv
from jaxpriv import detection_resilience, relaxed, worst_case
from tests.stats.checks import TINY, compilations
from tests.tradeoff.checks import CATALOGUE, SIZE, close, draw, variants

pytestmark = pytest.mark.optimized  # what is compared is what users run

EPSILON = ("delta", "log_delta", "delta_bounds", "log_delta_bounds")
LEVEL = ("__call__", "power", "inverse", "slope", "beta_bounds")
BUDGET = ("epsilon", "epsilon_bounds")
NOTHING = ("advantage", "auc", "gdp_mu", "advantage_bounds", "gdp_mu_bounds")
METHODS = (*EPSILON, *LEVEL, *BUDGET, *NOTHING)
# and losses, which are some
LOGARITHMS = ("log_delta", "log_delta_bounds", "slope", "epsilon", "epsilon_bounds")
SEARCHED = ("gdp_mu", "gdp_mu_bounds")
VALUES = [method for method in METHODS if not method.endswith("_bounds") and method not in SEARCHED]
BOUNDS = [method for method in METHODS if method.endswith("_bounds") and method not in SEARCHED]
MAKERS = {name: entry.make for name, entry in CATALOGUE.items()} | {
    "approximate_dp": worst_case.approximate_dp
}
# no difference, hardly any, and a large one
EXTREME = {"gaussian": [0.0, 1e-6, 100.0], "laplace": [0.0, 1e-6, 100.0],
           "relaxed_laplace": [0.0, 1e-6, 100.0]}
CHEAP = [("gaussian", "forward"), ("laplace", "forward"), ("relaxed_laplace", "forward"),
         ("gaussian_limit", "forward"), ("approximate_dp", "forward")]
BUILT = [("gaussian", "subsampled"), ("gaussian", "mixture"), ("relaxed_laplace", "symmetric"),
         ("relaxed_gaussian", "forward")]
CASES = [*CHEAP, *BUILT]
BRACKETS = [*CHEAP, *(pytest.param(*case, marks=pytest.mark.slow) for case in BUILT)]
SEARCHES = [("gaussian", "forward"), ("laplace", "forward"), ("approximate_dp", "forward")]
SEARCHES += [pytest.param("laplace", "subsampled", marks=pytest.mark.slow)]


def parameters_of(name, seed):
    """Random parameters, the extreme ones first."""
    if name == "approximate_dp":
        rng = np.random.default_rng(seed)
        epsilon, delta = np.exp(rng.uniform(-6, 3, SIZE)), 10 ** rng.uniform(-15, -0.5, SIZE)
        epsilon[:3], delta[2:5] = [0.0, 1e-6, 30.0], [0.0, 1e-300, 1.0]
        return [epsilon, delta]
    found = draw(name, seed)
    extreme = EXTREME.get(name, [])
    found[0][: len(extreme)] = extreme
    return found


def arguments_of(method, seed):
    """Ends, tails to e^-5000 and further, and the bulk, in an order that meets every parameter;
    none for some methods.
    """
    rng = np.random.default_rng(seed + 1)
    if method in NOTHING:
        return []
    if method in EPSILON:
        ends = [-np.inf, -700.0, -1e-300, 0.0, 1e-300, 700.0, np.inf]
        middle = np.exp(rng.uniform(-20, 5, 50))
        bulk = rng.uniform(-8, 8, SIZE - 57)
    else:
        ends, middle = [0.0, 1e-300, 1e-100, 1e-12, 0.5, 1 - 1e-12, 1.0], rng.uniform(0, 1, 50)
        bulk = 10 ** rng.uniform(-30, 0, SIZE - 57)
    return [rng.permutation(np.concatenate([ends, middle, bulk]))]


def pairs(value):
    """A value, or both ends of a bracket."""
    return [np.asarray(v) for v in value] if isinstance(value, tuple) else [np.asarray(value)]


def agree(name, kind, method, by_numpy, by_jax, parameters):
    """1e-13 of max(1, |log value|) in the logarithm.

    The relaxed Gaussian pair's two laws are mu^2/sqrt(2 dim) standard deviations apart, and delta
    is the difference of their tails: of a few ulp of these, or one of a far tail's exponent, that
    multiple is left. What a search found, mu, is taken to 1e-12, and to 1e-14 next to 0, which the
    rounding of alpha + beta = 1 does not tell from it; the area under a convex hull, where a
    straight piece ends at a level that was searched for, to 1e-8, as the method says. A bracket of
    beta has ends made of differences of brackets of delta, known to their widths.
    """
    found, other = pairs(by_numpy), pairs(by_jax)
    lost = 0.0
    if name == "relaxed_gaussian" and ("delta" in method or "advantage" in method):
        lost = np.sqrt(2 * parameters[1]) / parameters[0] ** 2
    least = (
        found[-1] - found[0] if method == "beta_bounds" else 1e-14 if method in SEARCHED else 0.0
    )
    least = 1e-8 if (method, kind) == ("auc", "symmetric") else least
    for want, got in zip(found, other, strict=True):
        with np.errstate(divide="ignore"):
            log = np.abs(want if method in LOGARITHMS else np.log(want))
        size = np.where(np.isfinite(log), np.maximum(1, log), 1.0)
        bound = (1e-12 if method in SEARCHED else 1e-13) * size
        bound = bound + lost * np.maximum(4e-15, 2.2e-16 * size)
        bound = bound * (1.0 if method in LOGARITHMS else want) + least
        tiny = (
            (np.abs(got) <= TINY) & (np.abs(want) <= TINY)
            if method not in LOGARITHMS
            else np.zeros(want.shape, bool)
        )
        close(f"{name} {kind}.{method}", *(np.where(tiny, 0.0, v) for v in (got, want)), bound,
              parameters)
    if len(found) == 2:
        assert np.all((found[0] <= other[1]) & (other[0] <= found[1]))


def compare(name, kind, methods, seed, size=SIZE, inside=False):
    """The methods of a batch of curves, by NumPy and by JAX; `inside` one compiled program."""
    make, parameters = variants(MAKERS[name])[kind], [p[:size] for p in parameters_of(name, seed)]
    arguments = {method: [a[:size] for a in arguments_of(method, seed)] for method in methods}

    def values(parameters, arguments):
        return {
            method: getattr(make(*parameters), method)(*arguments[method]) for method in methods
        }

    by_numpy = values(parameters, arguments)
    by_jax = (jax.jit(values) if inside else values)(
        *jax.tree.map(jnp.asarray, (parameters, arguments))
    )
    assert all(
        type(leaf) is np.ndarray and leaf.dtype == np.float64 for leaf in jax.tree.leaves(by_numpy)
    )
    assert all(
        isinstance(leaf, jax.Array) and leaf.dtype == jnp.float64
        for leaf in jax.tree.leaves(by_jax)
    )
    for method in methods:
        agree(name, kind, method, by_numpy[method], by_jax[method], parameters)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_values_agree(name, kind):
    """Estimates, of JAX arrays as a user calls them."""
    compare(name, kind, VALUES, 7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), BRACKETS)
def test_bounds_agree(name, kind):
    """Certified bounds, of tracers."""
    compare(name, kind, BOUNDS, 8, inside=True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), SEARCHES)
def test_mu_agrees(name, kind):
    compare(name, kind, SEARCHED, 9, size=8, inside=True)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.sampled_from(CHEAP), st.sampled_from([m for m in VALUES if m != "auc"]),
       st.integers(0, 10**6))
def test_executors_agree_anywhere(case, method, seed):
    """A random method of a random batch of curves."""
    compare(*case, [method], seed)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_one_step_agrees(adjacency):
    """What is built from curves, by its own parameters: rates as JAX arrays, the curve by NumPy."""
    rate, eps = np.array([1e-4, 0.1, 1.0]), np.array([0.1, 0.7, 2.0])
    curve = worst_case.gaussian(1.3)
    want = curve.subsample(rate, adjacency).symmetric().log_delta(eps)
    got = curve.subsample(jnp.asarray(rate), adjacency).symmetric().log_delta(eps)
    assert isinstance(got, jax.Array)
    close(f"{adjacency}.subsample", got, want, 1e-13 * np.maximum(1, np.abs(want)))


@pytest.mark.slow
def test_functions_agree():
    """Every other public function that takes numbers."""
    numbers = np.array([0.4, 1.3]), np.array([0.7, 2.0])
    for name, function in (
        ("signal", worst_case.signal),
        ("mean signal", lambda s, n: worst_case.signal(s, n, "mean")),
        ("limit mu", lambda s, n: relaxed.gaussian_limit_mu(s, 5 * n)),
        ("randomized_response", lambda s, n: worst_case.randomized_response(s).delta(n)),
        ("worst releases", lambda s, n: worst_case.gaussian_releases(s, n).log_delta(0.3)),
        ("relaxed releases", lambda s, n: relaxed.gaussian_releases(s, n, 3.0).gdp_mu()),
        (
            "mixture",
            lambda s, n: jaxpriv.mixture(
                [worst_case.laplace(s), worst_case.laplace(n)], [0.25, 0.75]
            ).log_delta(0.1),
        ),
    ):
        want, got = function(*numbers), function(*map(jnp.asarray, numbers))
        assert isinstance(want, (np.ndarray, float)), name
        assert isinstance(got, jax.Array), name
        close(f"functions.{name}", got, want, 1e-13 * np.maximum(1, np.abs(want)))


@pytest.mark.slow
def test_resilience_agrees():
    """The grids of both executors find the same gap;
    where it is flat the level is known to the root of rounding.
    """
    mu = np.array([0.5, 1.0])
    want, got = (
        detection_resilience(worst_case.gaussian(m), worst_case.gaussian(1.1 * m))
        for m in (mu, jnp.asarray(mu))
    )
    assert isinstance(want.gap, np.ndarray)
    assert isinstance(got.gap, jax.Array)
    assert np.asarray(want.holds).tolist() == np.asarray(got.holds).tolist() == [True, True]
    close("resilience.gap", got.gap, want.gap, 1e-13)
    close("resilience.alpha", got.alpha, want.alpha, 1e-6)


CURVES = {
    "gaussian": lambda: worst_case.gaussian(1.3),
    "laplace": lambda: worst_case.laplace(1.3),
    "approximate_dp": lambda: worst_case.approximate_dp(0.7, 1e-6),
    "relaxed gaussian": lambda: relaxed.gaussian(1.3, 7),
    "relaxed laplace": lambda: relaxed.laplace(1.3),
    "mixture": lambda: jaxpriv.mixture(
        [worst_case.gaussian(0.5), worst_case.gaussian(1.5)], [0.25, 0.75]
    ),
}


@pytest.mark.parametrize("name", CURVES)
def test_numpy_compiles_nothing(name):
    """No method traces or compiles for NumPy arrays, Python numbers or lists,
    nor does NumPy warn of infinities.
    """
    with compilations() as found, warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = CURVES[name]()
        for built in (curve, curve.reversed(), curve.symmetric(), curve.subsample(np.float32(0.3))):
            for method in METHODS:
                argument = arguments_of(method, 4)
                if argument:
                    getattr(built, method)(argument[0][::4])
                    getattr(built, method)(np.float32(0.25) if built is curve else [0.25, 0.5])
                values = getattr(built, method)(*([0.25] if argument else []))
                assert all(
                    isinstance(value, np.float64)
                    for value in (values if isinstance(values, tuple) else [values])
                )
        assert not found, set(found)


@pytest.mark.slow
def test_tiny_levels_on_a_straight_piece():
    """Below its corner the curve of Laplace noise is 1 - e^ratio alpha:
    the power keeps its digits at any level.
    """
    alpha = np.array([1e-3, 1e-20, 1.86e-30, 1e-100])
    for ratio in (0.5, 0.0285):
        want = np.exp(ratio) * alpha
        np.testing.assert_allclose(
            worst_case.laplace(ratio).symmetric().power(alpha), want, rtol=1e-12
        )
        np.testing.assert_allclose(
            worst_case.laplace(jnp.float64(ratio)).symmetric().power(alpha), want, rtol=1e-12
        )
