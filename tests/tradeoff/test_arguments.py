"""Arguments: NaN, what lies outside the range, float32, and extreme values."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import relaxed, worst_case
from tests.tradeoff.checks import (
    CATALOGUE,
    EPSILON_METHODS,
    LEVEL_METHODS,
    SIZE,
    TINY,
    close,
    draw,
    evaluate,
    variants,
)

UNIT, POSITIVE, NONNEGATIVE = "[0, 1]", "(0, inf)", "[0, inf)"
RATE, AT_LEAST_ONE = "(0, 1]", "[1, inf)"
METHODS = dict.fromkeys(EPSILON_METHODS, ("epsilon", "[-inf, inf]", ()))
METHODS |= {
    m: ("beta" if m == "inverse" else "alpha", UNIT, (-0.1, 1.1, math.inf)) for m in LEVEL_METHODS
}
METHODS |= dict.fromkeys(("epsilon", "epsilon_bounds"), ("delta", UNIT, (-1e-09, 1.5, -math.inf)))
PARAMETERS = {"mu": (NONNEGATIVE, (-0.5, math.inf)), "ratio": (NONNEGATIVE, (-1.0, math.inf)),
              "dim": (AT_LEAST_ONE, (0.0, 0.99))}
METHODS_OF_ONE = (*METHODS, "log_delta_bounds", "beta_bounds")
EVERY_METHOD = (*METHODS_OF_ONE, "advantage", "auc", "gdp_mu", "advantage_bounds", "gdp_mu_bounds")
RELEASES = {"gaussian": (1.25,), "laplace": (1.25,), "relaxed_gaussian": (1.25, 3.0),
            "relaxed_laplace": (1.25,)}
CHEAP = {"gaussian": (1.3,), "relaxed_laplace": (1.3,)}
SOME = [
    "forward",
    *(
        pytest.param(kind, marks=pytest.mark.slow)
        for kind in ("symmetric", "subsampled", "mixture")
    ),
]


def curve(name="gaussian", kind="forward", *parameters):
    """A cheap curve."""
    return variants(CATALOGUE[name].make)[kind](*(parameters or [np.array(v) for v in CHEAP[name]]))


@pytest.mark.parametrize("method", METHODS)
def test_bad_argument_raises(method):
    """Scalars and single entries of arrays, positional and named,
    with a message that says the range.
    """
    name, text, values = METHODS[method]
    for value in values:
        for given in (value, np.array([0.5, value]), jnp.array([[value], [0.5]])):
            for call in (lambda f, v: f(v), lambda f, v: f(**{name: v})):
                with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
                    call(getattr(curve(), method), given)
                assert text in str(caught.value)
                assert str(value) in str(caught.value)
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        getattr(curve(), method)("much")


@pytest.mark.parametrize("name", CATALOGUE)
def test_bad_parameter_raises(name):
    entry = CATALOGUE[name]
    for i, parameter in enumerate(entry.names):
        text, values = PARAMETERS[parameter]
        for value in values:
            for bad in (value, np.array([1.0, value]), jnp.array([value])):
                with pytest.raises(ValueError, match=rf"\b{parameter}\b") as caught:
                    entry.make(*[bad if j == i else 1.0 for j in range(len(entry.names))])
                assert text in str(caught.value)
                assert str(value) in str(caught.value)


@pytest.mark.parametrize(
    ("call", "name", "text"),
    [(lambda: curve().subsample(0.0), "rate", RATE),
     (lambda: curve().subsample(1.5), "rate", RATE),
     (lambda: curve().compose(-1), "n", NONNEGATIVE),
     (lambda: curve().compose(math.inf), "n", NONNEGATIVE),
     (lambda: jaxpriv.mixture([curve(), curve()], [0.5, 0.6]), "weights", "1"),
     (lambda: jaxpriv.mixture([curve(), curve()], [-0.5, 1.5]), "weights", NONNEGATIVE),
     (lambda: jaxpriv.mixture([curve()], [0.5, 0.5]), "curves", "2"),
     (lambda: jaxpriv.mixture([], []), "(weights|curves)", ""),
     (lambda: worst_case.gaussian_releases([-1.0], [1.0]), "sensitivities", NONNEGATIVE),
     (lambda: worst_case.gaussian_releases([1.0], [0.0]), "noise_stds", POSITIVE),
     (lambda: relaxed.gaussian_releases([1.0], [1.0], dim=0), "dim", AT_LEAST_ONE),
     (lambda: relaxed.gaussian_releases([1.0], [1.0], averaging="median"), "averaging", "'mean'"),
     (lambda: relaxed.gaussian_limit_mu(-1.0, 3.0), "mu", NONNEGATIVE),
     (lambda: relaxed.gaussian_limit_mu(1.0, 0.0), "dim", AT_LEAST_ONE)],
)
def test_bad_input_of_the_builders_raises(call, name, text):
    with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
        call()
    assert text in str(caught.value)


def leaves_nan(value):
    """Is every result NaN, shape kept?"""
    return [np.isnan(np.asarray(leaf)).tolist() for leaf in jax.tree.leaves(value)]


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("method", METHODS)
def test_nan_argument_is_nan_out(method, kind):
    """Beside a good neighbour, which keeps its value."""
    arguments = np.array([math.nan, 0.3])
    got = getattr(curve("relaxed_laplace", kind), method)(arguments)
    assert all(row == [True, False] for row in leaves_nan(got))


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("method", [*METHODS, "advantage", "gdp_mu", "auc"])
def test_nan_parameter_is_nan_out(method, kind):
    given = [0.3] if method in METHODS else []
    bad = variants(worst_case.gaussian)[kind](np.array([math.nan, 1.0]))
    got = getattr(bad, method)(*given)
    assert all(row == [True, False] for row in leaves_nan(got))


@pytest.mark.parametrize("method", METHODS)
def test_bad_argument_is_nan_under_jit(method):
    values = METHODS[method][2]
    arguments = np.array([*values, 0.3])
    got = jax.jit(lambda a: getattr(curve(), method)(a))(arguments)
    assert all(row == [True] * len(values) + [False] for row in leaves_nan(got))


@pytest.mark.parametrize("name", CATALOGUE)
def test_bad_parameter_is_nan_under_jit(name):
    entry = CATALOGUE[name]
    rows, bad = [[1.0] * len(entry.names)], [False]
    for i, parameter in enumerate(entry.names):
        for value in PARAMETERS[parameter][1]:
            rows.append([value if j == i else 1.0 for j in range(len(entry.names))])
            bad.append(True)
    got = jax.jit(lambda *p: entry.make(*p).delta(0.3))(*np.array(rows).T)
    assert np.isnan(got).tolist() == bad


def test_bad_rate_and_weights_under_jit():
    got = jax.jit(lambda rate: curve().subsample(rate).delta(0.3))(
        np.array([0.0, -0.1, 1.5, math.nan, 0.5])
    )
    assert np.isnan(got).tolist() == [True, True, True, True, False]
    assert np.isnan(
        jax.jit(lambda n: curve().compose(n).delta(0.3))(np.array([-1.0, math.inf]))
    ).all()
    broken = jax.jit(lambda w: jaxpriv.mixture([curve(), curve()], w).delta(0.3))
    assert np.isnan(broken(np.array([-0.5, 1.5])))
    assert np.isnan(broken(np.array([math.nan, 0.5])))


def test_wrong_number_of_arguments():
    for call in (lambda: curve().delta(), lambda: curve().delta(1.0, 2.0),
                 lambda: curve().delta(x=1.0)):
        with pytest.raises(TypeError):
            call()


def single(name, kind, method, argument, parameters):
    """float32 results beside those of float64 at the same rounded inputs."""
    rounded = [np.asarray(v, np.float32).astype(np.float64) for v in (argument, *parameters)]
    make = (
        variants(CATALOGUE[name].make)[kind]
        if "sub" not in kind and "mix" not in kind
        else thirds(name, kind)
    )
    want = evaluate(make, method, *rounded)
    got = evaluate(make, method, argument, *parameters, dtype=np.float32)
    assert got.dtype == np.float32
    assert not np.isnan(got).any(), (name, kind, method, argument[np.isnan(got)][:3])
    return got.astype(np.float64), want


def thirds(name, kind):
    """Sub-sampled and mixed, with rates and weights of the dtype of the parameters."""

    def make(*p):
        base = CATALOGUE[name].make(*p)
        if kind == "subsampled":
            return base.subsample(jnp.full_like(p[0], 0.25))
        weights = jnp.stack([jnp.full_like(p[0], 0.25), jnp.full_like(p[0], 0.75)], -1)
        return jaxpriv.mixture([base, CATALOGUE[name].make(2 * p[0], *p[1:])], weights)

    return make


SINGLE = [(name, "forward") for name in CATALOGUE]
SLOW = [("gaussian", "subsampled"), ("laplace", "mixture"), ("relaxed_laplace", "symmetric")]
SLOW += [("relaxed_gaussian", kind) for kind in ("reversed", "symmetric")]
SINGLE += [pytest.param(*kind, marks=pytest.mark.slow) for kind in SLOW]


@pytest.mark.parametrize(("name", "kind"), SINGLE)
def test_single_precision(name, kind):
    """float32 in, float32 out, without NaN;
    log delta to 4e-6 of max(1, |log delta|) or to what 4e-6 of epsilon change in it (of 150 000
    random relaxed curves none was further away, with two versions of XLA; 0.3% are without the
    second), errors to 4e-6.
    """
    rng = np.random.default_rng(5)
    parameters = [np.maximum(p, 0.3) for p in draw(name, 5)]
    eps = rng.uniform(-1.5, 2.5, SIZE)
    got, want = single(name, kind, "log_delta", eps, parameters)
    both = np.isfinite(want) & (want > -80)
    beside = [single(name, kind, "log_delta", eps + step, parameters)[1] for step in (-1e-5, 1e-5)]
    with np.errstate(invalid="ignore"):
        steep = np.abs(beside[1] - beside[0]) / 2e-5
    steep = np.where(np.isfinite(steep), steep, 0.0)
    bound = 4e-6 * np.maximum(steep, np.maximum(1, np.abs(want)))
    ends = ~both | (got == -np.inf)  # where delta vanishes at the end of a bounded loss
    close(f"{name} {kind}.log_delta in float32", np.where(ends, want, got), want,
          np.where(ends, 1, bound), (eps, *parameters))
    assert np.all(np.exp(want[ends & both]) < 1e-4)
    alpha = rng.uniform(1e-3, 0.999, SIZE)
    for method in ("__call__", "power"):
        got, want = single(name, kind, method, alpha, parameters)
        close(f"{name} {kind}.{method} in float32", got, want, 4e-6, (alpha, *parameters))
    delta = 10 ** rng.uniform(-5, -0.5, SIZE)
    got, want = single(name, kind, "epsilon", delta, parameters)
    close(f"{name} {kind}.epsilon in float32", got, want, 2e-4 * (1 + want), (delta, *parameters))


def arrays_of(value):
    """The arrays or numbers of a result."""
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_numpy_in_numpy_out(method):
    """NumPy arrays of any dtype are the float64 numbers that they hold; so are Python's;
    one number comes back as one.
    """
    for name, parameters in RELEASES.items():
        make, given = CATALOGUE[name].make, [0.25] if method in METHODS_OF_ONE else []
        want = arrays_of(getattr(make(*parameters), method)(*given))
        assert all(isinstance(value, np.float64) for value in want)
        for dtype in (np.float16, np.float32, np.float64):
            batch = make(*(np.full(2, p, dtype) for p in parameters))
            single = make(*(np.asarray(p, dtype) for p in parameters))
            got = arrays_of(getattr(batch, method)(*(np.full(2, v, dtype) for v in given)))
            one = arrays_of(getattr(single, method)(*(dtype(v) for v in given)))
            assert all(type(value) is np.ndarray and value.dtype == np.float64 for value in got)
            assert all(isinstance(value, np.float64) for value in one)
            for values in (got, one):
                for value, exact in zip(values, want, strict=True):
                    np.testing.assert_allclose(value, exact, rtol=1e-13, err_msg=f"{name}.{method}")


@pytest.mark.slow
def test_jax_anywhere_is_jax_out():
    """A JAX array as parameter or as argument: a JAX array in the promoted dtype;
    Python numbers do not widen it.
    """
    single, one = jnp.asarray(1.0, jnp.float32), np.float32(1.0)
    for mu, eps, dtype in (
        (single, 0.5, jnp.float32),
        (1.0, jnp.asarray(0.5, jnp.float32), jnp.float32),
        (single, np.float32(0.5), jnp.float32),
        (one, jnp.asarray(0.5, jnp.float32), jnp.float32),
        (np.ones(2), jnp.asarray(0.5, jnp.float32), jnp.float64),
        (single, np.full(2, 0.5), jnp.float64),
        (one, jnp.asarray(0.5, jnp.float64), jnp.float64),
    ):
        got = worst_case.gaussian(mu).delta(eps)
        assert isinstance(got, jax.Array)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, worst_case.gaussian(1.0).delta(0.5), rtol=4e-6)
    for curve in (worst_case.gaussian(single), worst_case.gaussian(1.0).subsample(single / 4)):
        assert isinstance(curve.advantage(), jax.Array)
        assert curve.advantage().dtype == jnp.float32
        assert all(isinstance(end, np.float64) for end in curve.delta_bounds(jnp.float32(0.5)))
    inside = jax.jit(lambda mu: worst_case.gaussian(mu).delta_bounds(0.5))(single)
    assert all(isinstance(end, jax.Array) and end.dtype == jnp.float64 for end in inside)


@pytest.mark.slow
def test_promotion():
    """The result has the promoted dtype; concrete bounds are NumPy float64 whatever comes in,
    and so are Python numbers.
    """
    mu = {
        d: worst_case.gaussian(jnp.asarray(1.0, d))
        for d in (jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64)
    }
    for dtype, one in mu.items():
        assert one.delta(jnp.asarray(0.5, dtype)).dtype == dtype
        assert one.delta(0.5).dtype == dtype
        assert one.advantage().dtype == dtype
        assert one.delta_bounds(0.5)[0].dtype == jnp.float64
        assert isinstance(one.delta_bounds(0.5)[0], np.float64)
        assert all(isinstance(value, jax.Array) for value in (one.delta(0.5), one.advantage()))
    assert mu[jnp.float32].delta(jnp.float64(0.5)).dtype == jnp.float64
    assert worst_case.gaussian(1).delta(1).dtype == jnp.float64
    assert isinstance(worst_case.gaussian(1).delta(1), np.float64)
    with jax.enable_x64(False):
        assert worst_case.gaussian(jnp.asarray(1.0)).delta(0.5).dtype == jnp.float32
        assert worst_case.gaussian(1.0).delta(jnp.asarray(0.5)).dtype == jnp.float32
        assert isinstance(worst_case.gaussian(1.0).delta(0.5), np.float64)
        low, high = worst_case.gaussian(1.0).delta_bounds(0.1)
        assert low.dtype == jnp.float64
    want = float(worst_case.gaussian(1.0).delta(0.1))
    assert float(low) <= want <= float(high)


EXTREME = {"gaussian": [(0.0,), (1e-6,), (100.0,)], "laplace": [(0.0,), (1e-6,), (100.0,)]}
EXTREME |= {
    "relaxed_laplace": EXTREME["laplace"],
    "gaussian_limit": [(0.0, 5.0), (1e-6, 5.0), (100.0, 1e6)],
}
EXTREME |= {"relaxed_gaussian": [(0.0, 3.0), (1e-6, 1.0), (100.0, 1.0), (100.0, 1e6), (1e-6, 1e6)]}
EXTREMES = [(name, kind) for name in CATALOGUE
            for kind in ("forward", "reversed", "subsampled", "symmetric")]
QUICK = [(name, "forward") for name in CATALOGUE if name != "relaxed_gaussian"] + [
    ("gaussian_limit", "reversed")
]
EXTREMES = [pytest.param(*e, marks=[] if e in QUICK else pytest.mark.slow) for e in EXTREMES]


def grid(name, kind, method, argument):
    """Values at all extreme parameters (rows) and arguments (columns)."""
    parameters = [np.array(p)[:, None] for p in zip(*EXTREME[name], strict=True)]
    values = evaluate(variants(CATALOGUE[name].make)[kind], method, argument, *parameters)
    return jax.tree.map(lambda v: v.reshape(len(EXTREME[name]), -1), values)


@pytest.mark.parametrize(("name", "kind"), EXTREMES)
def test_extreme_values(name, kind):
    """No NaN, everything in its range, and exact ends."""
    alpha = np.array([0.0, TINY, 1e-12, 0.5, 1 - 1e-12, 1.0])
    for method in ("__call__", "power", "inverse"):
        value = grid(name, kind, method, alpha)
        assert np.all((value >= 0) & (value <= 1)), (method, value)
        ends = (0, 1) if method == "power" else (1, 0)
        assert np.all(value[:, 0] == ends[0]), (method, value[:, 0])
        assert np.all(value[:, -1] == ends[1]), (method, value[:, -1])
    eps = np.array([-np.inf, -700.0, -1.0, 0.0, 1e-300, 1.0, 700.0, np.inf])
    delta = grid(name, kind, "delta", eps)
    assert np.all((delta >= 0) & (delta <= 1)), delta
    assert np.all(delta[:, 0] == 1)
    assert np.all(delta[:, -1] == 0)
    assert np.all(np.diff(delta) <= 1e-12)
    low, high = grid(name, kind, "delta_bounds", eps)
    assert np.all((low <= delta) & (delta <= high) & (low >= 0) & (high <= 1)), (low, delta, high)
    budget = np.array([0.0, TINY, 1e-9, 0.3, 1.0])
    value = grid(name, kind, "epsilon", budget)
    assert np.all(value >= 0), value
    assert np.all(value[:, -1] == 0)
    assert np.all(np.diff(value[:, 1:]) <= 0)
    lower, upper = grid(name, kind, "epsilon_bounds", budget)
    assert np.all((lower <= value) & (value <= upper)), (lower, value, upper)


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize(
    "name", ["gaussian", pytest.param("relaxed_laplace", marks=pytest.mark.slow)]
)
def test_no_signal_is_no_leak(name, kind):
    """With parameter 0 the curve is the diagonal, the profile max(0, 1 - e^eps)."""
    first = np.zeros(SIZE)
    alpha, eps = np.linspace(0, 1, SIZE), np.linspace(-3, 3, SIZE)
    make = variants(CATALOGUE[name].make)[kind]
    close(f"{name} {kind}.__call__", evaluate(make, "__call__", alpha, first), 1 - alpha, 1e-14)
    close(f"{name} {kind}.delta", evaluate(make, "delta", eps, first),
          np.maximum(0, -np.expm1(eps)), 1e-14)
    close(f"{name} {kind}.epsilon", evaluate(make, "epsilon", alpha, first), 0.0, 0.0)
    for method, want in (("advantage", 0.0), ("gdp_mu", 0.0), ("auc", 0.5)):
        close(f"{name} {kind}.{method}", getattr(make(np.zeros(3)), method)(), want, 1e-12)


@pytest.mark.parametrize("kind", ["forward", "reversed"])
def test_tiny_signal(kind):
    """To first order in nc the advantage is nc times the chi-square density at its mean,
    in both directions.
    """
    mu, dim = np.array([1e-3, 1e-4, 1e-5, 1e-6])[:, None], np.array([1.0, 5.0, 1e4])
    want = mu**2 * scipy.stats.chi2.pdf(dim, dim)
    make = variants(relaxed.gaussian)[kind]
    low, high = (b.reshape(want.shape) for b in evaluate(make, "delta_bounds", 0.0, mu, dim))
    assert np.all((low <= want * (1 + mu**2)) & (want * (1 - mu**2) <= high)), (
        kind,
        low / want,
        high / want,
    )
    got = evaluate(make, "delta", 0.0, mu, dim).reshape(want.shape)
    close(f"relaxed_gaussian {kind}.delta", got, want, 1e-5 * want, (mu, dim))


def test_hardly_any_difference_at_negative_epsilon():
    """Where epsilon over mu is no number the profile is that of no difference, and was infinite."""
    found = worst_case.gaussian(np.array([5e-324, 1e-310, 1e-300])).log_delta(-0.1)
    np.testing.assert_allclose(found, math.log(-math.expm1(-0.1)), rtol=1e-13)
