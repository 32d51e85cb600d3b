"""Properties that hold for every curve: its shape, round trips, order,
and batches that equal their elements.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxpriv
from jaxpriv import relaxed, worst_case
from tests.tradeoff.checks import CATALOGUE, SIZE, close, draw, evaluate, variants

KINDS = [(name, "forward") for name in CATALOGUE] + [
    ("relaxed_laplace", "reversed"),
    ("gaussian_limit", "reversed"),
]
KINDS += [("laplace", "subsampled reversed"), ("gaussian", "mixture")]
SLOW = [("relaxed_laplace", "symmetric")]
SLOW += [("relaxed_gaussian", kind) for kind in ("reversed", "symmetric")] + [
    ("gaussian", "reversed"),
    ("laplace", "reversed"),
]
SLOW += [("gaussian", "symmetric"), ("laplace", "symmetric"), ("gaussian", "subsampled")]
SLOW += [("laplace", "mixture symmetric"), ("relaxed_laplace", "mixture reversed"),
         ("relaxed_laplace", "subsampled symmetric")]
KINDS += [pytest.param(*kind, marks=pytest.mark.slow) for kind in SLOW]
SEEDS = st.integers(0, 10**6)
PAIRS = [name for name in CATALOGUE if name != "gaussian_limit"]


def examples(count):
    """A decorator for a few random parameter sets."""
    return lambda test: settings(max_examples=count)(given(SEEDS)(test))


def maker(name, kind):
    """The function of parameters."""
    return variants(CATALOGUE[name].make)[kind]


def levels(seed, size=SIZE):
    """Increasing levels from 1e-6 to 1 - 1e-6, denser at the ends."""
    inner = np.sort(np.random.default_rng(seed).uniform(size=size - 2))
    return np.concatenate([[0.0], 0.5 * (1 + np.tanh(14 * (inner - 0.5)) / np.tanh(7.0)), [1.0]])


def epsilons(seed, low=-6.0, high=6.0):
    """Increasing epsilons."""
    return np.sort(np.random.default_rng(seed).uniform(low, high, SIZE))


def one(name, seed):
    """One curve's parameters, repeated."""
    return [np.full(SIZE, p[0]) for p in draw(name, seed, 1)]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_shape_of_the_curve(name, kind):
    """Decreasing, convex, from (0, 1) to (1, 0), below the diagonal; power is the complement."""

    @examples(4)
    def run(seed):
        alpha, parameters = levels(seed), one(name, seed)
        beta = evaluate(maker(name, kind), "__call__", alpha, *parameters)
        assert (beta[0], beta[-1]) == (1, 0)
        assert np.all(beta <= 1 - alpha + 1e-14)
        assert np.all(np.diff(beta) <= 1e-14)
        width = np.diff(alpha)
        slopes = np.diff(beta)[width > 1e-9] / width[width > 1e-9]
        noise = 1e-13 / width[width > 1e-9]
        assert (
            np.all(np.diff(slopes) >= -noise[1:] - noise[:-1] - 1e-9 * np.abs(slopes[:-1]))
            or name == "gaussian_limit"
        )
        power = evaluate(maker(name, kind), "power", alpha, *parameters)
        close(f"{name} {kind}.power", power, 1 - beta, 1e-13)

    run()


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_shape_of_the_profile(name, kind):
    """Decreasing, convex in e^eps, between 1 - e^eps and 1."""

    @examples(4)
    def run(seed):
        eps, parameters = epsilons(seed), one(name, seed)
        delta = evaluate(maker(name, kind), "delta", eps, *parameters)
        assert np.all((delta >= np.maximum(0, -np.expm1(eps)) - 1e-12) & (delta <= 1))
        assert np.all(np.diff(delta) <= 1e-14)
        x = np.exp(eps)
        width = np.diff(x)
        slopes, noise = np.diff(delta) / width, 1e-13 / width
        assert np.all(np.diff(slopes) >= -noise[1:] - noise[:-1])
        log_delta = evaluate(maker(name, kind), "log_delta", eps, *parameters)
        close(f"{name} {kind}.log_delta", np.exp(log_delta), delta, 1e-14)

    run()


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_epsilon_inverts_delta(name, kind):
    """epsilon(delta(e)) = e where the profile is not flat, to what the rounding of delta leaves."""

    @examples(4)
    def run(seed):
        parameters = draw(name, seed)
        eps = np.abs(epsilons(seed)[np.random.default_rng(seed).permutation(SIZE)]) / 2
        make = maker(name, kind)
        delta, shifted = (evaluate(make, "delta", e, *parameters) for e in (eps, eps + 1e-6))
        kept = delta > 1e-280
        back = evaluate(make, "epsilon", np.where(kept, delta, 0.5), *parameters)
        slope = (delta - shifted) / 1e-6
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = 1e-9 * (1 + eps) + 1e-13 * delta / np.maximum(slope, 1e-300)
        close(f"{name} {kind}.epsilon", back[kept], eps[kept], bound[kept],
              [p[kept] for p in (eps, *parameters)])

    run()


@pytest.mark.parametrize(("name", "kind"), [k for k in KINDS if "gaussian_limit" not in str(k)])
def test_inverse_inverts_the_curve(name, kind):
    """inverse(f(a)) = a where beta is not rounded away,
    and inverse is the curve of the reversed hypotheses.
    """

    @examples(3)
    def run(seed):
        parameters = draw(name, seed)
        alpha = np.random.default_rng(seed).uniform(0.001, 0.999, SIZE)
        make = maker(name, kind)
        beta = evaluate(make, "__call__", alpha, *parameters)
        steep = np.exp(evaluate(make, "slope", alpha, *parameters))
        kept = (beta > 1e-9) & (beta < 1 - 1e-6)
        back = evaluate(make, "inverse", beta, *parameters)
        bound = 1e-10 + 1e-14 / steep
        close(f"{name} {kind}.inverse", back[kept], alpha[kept], bound[kept],
              [p[kept] for p in (alpha, *parameters)])
        backwards = {"reversed": "forward", "mixture reversed": "mixture"}.get(kind)
        if backwards:
            want = evaluate(maker(name, backwards), "__call__", alpha, *parameters)
            close(
                f"{name} {kind}.inverse", evaluate(make, "inverse", alpha, *parameters), want, 1e-14
            )

    run()


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_slope_supports_the_curve(name, kind):
    """Fenchel: f(alpha) + e^s alpha = 1 - delta(s) at the slope s,
    and no line lies above the curve.
    """
    if name == "gaussian_limit":
        return  # its cut at the diagonal is not convex

    @examples(3)
    def run(seed):
        alpha, parameters = np.random.default_rng(seed).uniform(1e-3, 0.999, SIZE), draw(name, seed)
        make = maker(name, kind)
        slope = np.clip(evaluate(make, "slope", alpha, *parameters), -500, 500)
        beta = evaluate(make, "__call__", alpha, *parameters)
        want = 1 - evaluate(make, "delta", slope, *parameters)
        weight = np.exp(slope)
        close(f"{name} {kind}.slope", beta + weight * alpha, want, 1e-10 * (1 + weight),
              (alpha, *parameters))
        line = 1 - evaluate(make, "delta", epsilons(seed, -3, 3), *parameters)
        assert np.all(beta >= line - np.exp(epsilons(seed, -3, 3)) * alpha - 1e-11)

    run()


@pytest.mark.parametrize("name", CATALOGUE)
def test_reverse_relation(name):
    """delta_rev(eps) = 1 - e^eps (1 - delta(-eps)); reversed twice is the curve itself;
    so is the profile of symmetric.
    """

    @examples(4)
    def run(seed):
        eps, parameters = epsilons(seed, -4, 4), draw(name, seed)
        forward = evaluate(maker(name, "forward"), "delta", eps, *parameters)
        mirrored = evaluate(maker(name, "forward"), "delta", -eps, *parameters)
        backward = evaluate(maker(name, "reversed"), "delta", eps, *parameters)
        bound = 1e-11 * (1 + np.exp(eps))
        close(f"{name} reversed.delta", backward, 1 - np.exp(eps) * (1 - mirrored), bound,
              (eps, *parameters))
        twice = evaluate(
            lambda *p: CATALOGUE[name].make(*p).reversed().reversed(), "delta", eps, *parameters
        )
        np.testing.assert_array_equal(twice, forward)
        both = evaluate(maker(name, "symmetric"), "delta", eps, *parameters)
        close(f"{name} symmetric.delta", both, np.maximum(forward, backward), 1e-14,
              (eps, *parameters))

    run()


@pytest.mark.parametrize("name", PAIRS)
def test_symmetric_curve(name):
    """Below both directions, its own inverse, unchanged by a second symmetrisation,
    straight with slope -1 amid.
    """

    @examples(3)
    def run(seed):
        alpha, parameters = np.random.default_rng(seed).uniform(1e-4, 0.999, SIZE), draw(name, seed)
        both, inverse = (
            evaluate(maker(name, "symmetric"), m, alpha, *parameters)
            for m in ("__call__", "inverse")
        )
        for kind in ("forward", "reversed"):
            assert np.all(
                both <= evaluate(maker(name, kind), "__call__", alpha, *parameters) + 1e-13
            )
        close(f"{name} symmetric.inverse", inverse, both, 1e-14)
        curve = CATALOGUE[name].make(*parameters).symmetric()
        assert curve.symmetric() is curve

    run()


@pytest.mark.parametrize("name", PAIRS)
def test_subsampling(name):
    """Rate 1 changes nothing, a larger rate is never more private, and two rates multiply."""

    def at(*rates):
        def make(*p):
            curve = CATALOGUE[name].make(*p)
            for rate in rates:
                curve = curve.subsample(np.full(SIZE, rate))
            return curve

        return make

    @examples(2)
    def run(seed):
        eps, parameters = epsilons(seed, -2, 3), draw(name, seed)
        alpha = np.random.default_rng(seed).uniform(1e-4, 0.999, SIZE)
        whole = evaluate(maker(name, "forward"), "delta", eps, *parameters)
        close(f"{name} rate 1.delta", evaluate(at(1.0), "delta", eps, *parameters), whole, 1e-13)
        some = [evaluate(at(rate), "delta", eps, *parameters) for rate in (0.01, 0.2, 0.7)]
        assert np.all(np.diff([*some, whole], axis=0) >= -1e-12)
        close(f"{name} two rates.delta", evaluate(at(0.5, 0.4), "delta", eps, *parameters), some[1],
              1e-14)
        whole = evaluate(maker(name, "forward"), "__call__", alpha, *parameters)
        close(f"{name} rate 1.__call__", evaluate(at(1.0), "__call__", alpha, *parameters), whole,
              1e-13)

    run()


@pytest.mark.parametrize("name", PAIRS)
def test_mixture_of_equals(name):
    """One curve three times is that curve, as a list and as one curve with a last axis."""
    parameters, eps = draw(name, 3), epsilons(3, -2, 3)
    alpha, weights = levels(5), np.broadcast_to([0.2, 0.3, 0.5], (SIZE, 3))
    make = CATALOGUE[name].make
    listed = jaxpriv.mixture([make(*parameters)] * 3, weights)
    stacked = jaxpriv.mixture(make(*[np.repeat(p[:, None], 3, 1) for p in parameters]), weights)
    for method, argument in (("delta", eps), ("__call__", alpha)):
        want = evaluate(make, method, argument, *parameters)
        close(f"{name} mixture.{method}", getattr(listed, method)(argument), want, 1e-11,
              (argument, *parameters))
        np.testing.assert_array_equal(
            getattr(listed, method)(argument), getattr(stacked, method)(argument)
        )


@pytest.mark.parametrize("name", ["gaussian", "laplace", "relaxed_gaussian"])
def test_mixture_broadcasts(name):
    """Batched members with single weights, and batched parameters beside scalar ones."""
    make = CATALOGUE[name].make
    rest = [5.0] if name == "relaxed_gaussian" else []
    first = np.array([0.5, 1.0, 2.0])
    got = jaxpriv.mixture([make(first, *rest), make(1.5, *rest)], [0.4, 0.6]).delta(0.3)
    want = 0.4 * make(first, *rest).delta(0.3) + 0.6 * make(1.5, *rest).delta(0.3)
    close(f"{name} mixture.delta", got, want, 1e-14)


@pytest.mark.slow
def test_symmetric_mixture():
    """Of one mixture and of a batch: the larger of both directions, with the batch's shape."""
    for shape in ((), (3,)):
        member = [
            worst_case.laplace(np.full(shape, r)).subsample(np.full(shape, 0.3)) for r in (0.5, 2.0)
        ]
        curve = jaxpriv.mixture(member, np.full((*shape, 2), 0.5))
        got = curve.symmetric().delta(0.2)
        assert got.shape == shape
        close("symmetric mixture.delta", got,
              np.maximum(curve.delta(0.2), curve.reversed().delta(0.2)), 1e-14)
        assert curve.symmetric().auc().shape == shape


def composed(make, n):
    """n releases of a curve."""
    return lambda *parameters: make(*parameters).compose(n)


def test_composition():
    """n releases of mu are one of sqrt(n) mu; n = 1 is none;
    of symmetric and reversed curves alike.
    """
    eps, (mu, dim) = epsilons(1, 0, 4), draw("relaxed_gaussian", 1)
    for n in (1, 4, 2.5):
        for kind, methods in (("forward", ("delta", "__call__")), ("symmetric", ("delta",))):
            for name, rest in (("gaussian", ()), ("relaxed_gaussian", (dim,))):
                for method in methods:
                    argument = eps if method == "delta" else levels(2)
                    want = evaluate(maker(name, kind), method, argument, n**0.5 * mu, *rest)
                    got = evaluate(composed(maker(name, kind), n), method, argument, mu, *rest)
                    close(f"{name} {kind} compose.{method}", got, want, 1e-12)


@pytest.mark.parametrize("name", [pytest.param("gaussian", marks=pytest.mark.slow), "laplace"])
def test_relaxed_is_never_worse(name):
    """The relaxed adversary's symmetric curve lies on or above the full one's,
    its profile below.
    """

    @examples(4)
    def run(seed):
        first, *rest = draw("relaxed_" + name, seed)
        parameters, eps = [first, *(np.maximum(dim, 1) for dim in rest)], epsilons(seed, 0, 6)
        alpha = np.random.default_rng(seed).uniform(1e-6, 1, SIZE)
        weak = maker("relaxed_" + name, "symmetric")
        full = evaluate(CATALOGUE[name].make, "delta", eps, first)
        assert np.all(evaluate(weak, "delta", eps, *parameters) <= full + 1e-13)
        full = evaluate(CATALOGUE[name].make, "__call__", alpha, first)
        assert np.all(evaluate(weak, "__call__", alpha, *parameters) >= full - 1e-13)

    run()


def test_fewer_than_one_dimension():
    """dim < 1 is no magnitude of a vector, and G_mu would not bound it: advantage 0.392 at mu = 1,
    dim = 1e-3 against 0.383.
    """
    with pytest.raises(ValueError, match=r"dim = 0.5 is outside its range \[1, inf\)"):
        relaxed.gaussian(1.0, 0.5)
    assert np.isnan(jax.jit(lambda dim: relaxed.gaussian(1.0, dim).advantage())(0.5))
