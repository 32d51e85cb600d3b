"""Compositions on a lattice against closed forms, 40-digit values, the transform engine, and
convolution by other means.
"""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import jaxpriv
from jaxpriv import relaxed, worst_case
from jaxpriv.composition import grid, lattice
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.pieces import as_steps
from jaxpriv.composition.steps import _pieces
from jaxpriv.composition.tables import Step
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.subsampled import Subsampled

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "sgm.json").read_text())["entries"]


def gridded(curve, count):
    """`count` steps on the lattice, whatever the curve."""
    (piece,) = _pieces(curve.experiment, None)
    step = Step(as_steps(piece)[0].experiment, np.asarray(count, float)[..., None])
    return Curve(Gridded((step,), np.zeros((), bool)))


def inside(bounds, truth, slack=1e-14):
    lower, upper = bounds
    return np.all((lower <= truth * (1 + slack)) & (truth * (1 - slack) <= upper))


def responses(epsilon, count, eps):
    """delta of randomised responses: binomial."""
    k = np.arange(count + 1)
    mass = scipy.stats.binom.pmf(k, count, 1 / (1 + math.exp(-epsilon)))
    loss = epsilon * (2 * k - count)
    return np.sum(mass * -np.expm1(np.minimum(eps - loss, 0.0)))


EPSILON, COUNT = np.array([0.1, 0.5, 0.05, 1.0, 1.0, 0.3]), np.array([100, 7, 1000, 3, 1, 20])
EPS = np.array([0.5, 0.3, -0.2, 2.9, 0.2, 4.0])


def test_randomised_response():
    """To rounding where atoms lie on the lattice; the bracket is a few 1e-8 wide."""
    truth = np.array([responses(*row) for row in zip(EPSILON, COUNT, EPS)])
    curve = gridded(worst_case.randomized_response(EPSILON), COUNT)
    np.testing.assert_allclose(curve.delta(EPS), truth, rtol=1e-8)
    bounds = curve.delta_bounds(EPS)
    assert inside(bounds, truth)
    assert np.all(bounds[1] - bounds[0] <= 1e-6 * truth)


@pytest.mark.slow
@pytest.mark.long
def test_black_boxes():
    """(epsilon, delta) n times: 1 - (1-delta)^n of knowing everything, else randomised response;
    basic composition bounds it.
    """
    curve = worst_case.approximate_dp(0.1, 1e-6).compose(10)
    some = -math.expm1(10 * math.log1p(-1e-6))
    for eps in (0.5, 1.0, 1.5, -0.3):
        truth = some + (1 - some) * responses(0.1, 10, eps)
        np.testing.assert_allclose(curve.delta(eps), truth, rtol=1e-7)
        assert inside(curve.delta_bounds(eps), truth)
    assert curve.epsilon(1e-6) == math.inf
    assert curve.delta_bounds(1.0)[1] <= 10.01e-6


@pytest.mark.slow
@pytest.mark.long
def test_one_step_is_the_curve():
    """A composition of one, for every kind of curve: all methods, both directions."""
    curves = [worst_case.laplace(1.0), worst_case.laplace(0.7).subsample(0.2), relaxed.laplace(1.2),
              relaxed.gaussian(1.0, 5).subsample(0.3), worst_case.randomized_response(0.8)]
    eps, alpha = np.array([-0.4, 0.0, 0.1, 0.3]), np.array([1e-4, 0.2, 0.6])
    for curve in curves:
        for truth, ours in ((curve, gridded(curve, 1.0)),
                            (curve.reversed(), gridded(curve, 1.0).reversed())):
            np.testing.assert_allclose(ours.delta(eps), truth.delta(eps), rtol=2e-7, atol=1e-14)
            assert inside(ours.delta_bounds(eps), np.asarray(truth.delta(eps)), 1e-11)
            # 7e-6 at a corner that an atom makes
            np.testing.assert_allclose(ours(alpha), truth(alpha), rtol=2e-5)
            np.testing.assert_allclose(
                ours.epsilon(1e-3), truth.epsilon(1e-3), rtol=1e-7, atol=1e-9
            )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("direction", ["rem", "add"])
def test_golden(direction):
    """Sub-sampled Gaussian steps: brackets hold the 40-digit values, estimates meet them where
    losses are not too uneven.
    """
    chosen = [
        e
        for e in GOLDEN
        if e["direction"] == direction and e["q"] < 1 and float(e["delta"]) > 1e-60
    ][::2]
    q, sigma, steps, eps, delta = (
        np.array([float(e[k]) for e in chosen]) for k in ("q", "sigma", "T", "eps", "delta")
    )
    curve = gridded(worst_case.gaussian(1 / sigma).subsample(q), steps)
    curve = curve.reversed() if direction == "add" else curve
    assert inside(curve.delta_bounds(eps), delta)
    got = np.asarray(curve.delta(eps))
    likely = delta > 1e-15
    np.testing.assert_allclose(got[likely], delta[likely], rtol=2e-3)
    even = likely & (q >= 0.01)
    np.testing.assert_allclose(got[even], delta[even], rtol=3e-6)


@pytest.mark.slow
@pytest.mark.long
def test_both_engines_meet():
    """Laplace noise joined to nothing but Gaussian steps: what the transform says of them alone."""
    steps = (
        worst_case.gaussian(1.0).subsample(0.05).compose(60),
        worst_case.gaussian(0.5).subsample(0.2).compose(30),
    )
    truth = jaxpriv.compose(*steps)
    ours = jaxpriv.compose(worst_case.laplace(0.0), *steps)
    assert isinstance(ours.experiment, Gridded)
    for eps in (-0.5, 0.3, 2.0):
        np.testing.assert_allclose(ours.delta(eps), truth.delta(eps), rtol=1e-7)
        assert inside(ours.delta_bounds(eps), float(truth.delta(eps)), 1e-12)


def magnitudes(dim, nc, rate, eps):
    """delta of two relaxed steps: the integral over the first one's statistic of the
    second one's profile.
    """
    null, alternative = scipy.stats.chi2(dim), scipy.stats.ncx2(dim, nc)
    one = relaxed.gaussian(math.sqrt(nc), dim).subsample(rate)

    def integrand(t):
        p, q = null.pdf(t), (1 - rate) * null.pdf(t) + rate * alternative.pdf(t)
        return q * float(one.delta(eps - math.log(q / p)))

    ends = [0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0]
    return sum(
        scipy.integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-9)[0]
        for a, b in zip(ends, ends[1:])
    )


@pytest.mark.slow
@pytest.mark.long
def test_relaxed_steps():
    """Two steps by integration; more steps, a larger rate and less noise leak more;
    the worst case is never beaten.
    """
    truth = magnitudes(4, 2.25, 0.3, 0.2)
    curve = relaxed.subsampled_gaussian(1 / 1.5, 0.3, 2, dim=4)
    np.testing.assert_allclose(curve.delta(0.2), truth, rtol=1e-7)
    assert inside(curve.delta_bounds(0.2), truth, 1e-8)
    base = float(relaxed.subsampled_gaussian(1.0, 0.05, 200, dim=10).delta(0.3))
    for noise, rate, steps, dim in ((0.9, 0.05, 200, 10), (1.0, 0.06, 200, 10),
                                    (1.0, 0.05, 220, 10), (1.0, 0.05, 200, 5)):
        assert base < float(relaxed.subsampled_gaussian(noise, rate, steps, dim=dim).delta(0.3))
    assert base < float(worst_case.subsampled_gaussian(1.0, 0.05, 200).delta(0.3))
    np.testing.assert_allclose(
        relaxed.subsampled_gaussian(1.0, 0.05, 200, dim=10).gdp_mu(), math.sqrt(200.0), rtol=1e-12
    )


def test_relaxed_releases_add_up():
    """Releases that are not sub-sampled go to the adversary who averages;
    different dims are refused.
    """
    two = jaxpriv.compose(relaxed.gaussian(0.6, 3), relaxed.gaussian(0.8, 3))
    np.testing.assert_allclose(two.delta(0.1), relaxed.gaussian(1.0, 3).delta(0.1), rtol=1e-12)
    with pytest.raises(ValueError, match="different dim"):
        jaxpriv.compose(relaxed.gaussian(0.6, 3), relaxed.gaussian(0.8, 4))


@pytest.mark.slow
@pytest.mark.long
def test_methods_agree():
    """epsilon inverts delta, the curve its inverse; brackets hold both;
    symmetric is the larger direction.
    """
    curve = worst_case.laplace(0.5).subsample(0.2).compose(40)
    eps = curve.epsilon(1e-6)
    np.testing.assert_allclose(curve.delta(eps), 1e-6, rtol=1e-9)
    low, high = curve.epsilon_bounds(1e-6)
    assert low <= eps <= high
    assert curve.delta_bounds(high)[1] <= 1e-6
    assert high - low < 1e-4
    np.testing.assert_allclose(curve.inverse(curve(0.1)), 0.1, rtol=1e-6)
    both = max(float(curve.delta(0.2)), float(curve.reversed().delta(0.2)))
    np.testing.assert_allclose(curve.symmetric().delta(0.2), both, rtol=1e-12)
    alpha = np.linspace(0.05, 0.95, 7)
    beta = np.asarray(curve(alpha))
    assert np.all(np.diff(beta) < 0)
    assert np.all(np.diff(beta, 2) > -1e-9)


@pytest.mark.slow
@pytest.mark.long
def test_derivatives():
    """By ratio, rate and count, forward and reverse, against differences of the same program:
    between two whole numbers of steps a lattice that lies elsewhere may say something else.
    """

    def delta(p):
        return worst_case.laplace(p[0]).subsample(p[1]).compose(p[2]).delta(0.2)

    point = np.array([0.5, 0.2, 40.0])
    reverse = np.asarray(jax.grad(delta)(jnp.asarray(point)))
    np.testing.assert_allclose(
        np.asarray(jax.jacfwd(delta)(jnp.asarray(point))), reverse, rtol=1e-9
    )
    for i in range(3):
        h = 1e-3 * point[i] * (np.arange(3) == i)
        ends = [float(delta(jnp.asarray(point + sign * h))) for sign in (1, -1)]
        np.testing.assert_allclose(reverse[i], (ends[0] - ends[1]) / (2 * h[i]), rtol=1e-4)


@pytest.mark.slow
def test_float32_mode():
    """Estimates are made in float64 inside a float32 program."""
    with jax.enable_x64(False):
        value = jax.jit(lambda r: worst_case.laplace(r).compose(30).delta(0.5))(jnp.float32(0.2))
        assert value.dtype == jnp.float32
        slope = jax.grad(lambda r: worst_case.laplace(r).compose(30).delta(0.5))(jnp.float32(0.2))
    with jax.enable_x64(True):
        exact = float(worst_case.laplace(np.float32(0.2).astype(float)).compose(30).delta(0.5))
    np.testing.assert_allclose(value, exact, rtol=1e-6)
    assert 0 < slope < 10


def profile(points, masses, eps):
    return np.sum(masses * np.maximum(-np.expm1(eps[:, None] - points), 0.0), -1)


@pytest.mark.slow
@pytest.mark.parametrize("spacing", [0.3, 0.02])
def test_lattice_laws_enclose_the_profile(spacing):
    """Up lies above and down below the profile at every eps, on the lattice and between;
    mass and the order of errors.
    """
    pair = Subsampled(NormalShift(jnp.asarray(1.3)), jnp.asarray(0.2))
    points = jnp.asarray(-0.2231 + 0.07 * spacing) + spacing * jnp.arange(-5.0, 12.0 / spacing)
    found = lattice.cells(pair, points, False)
    eps = np.linspace(-0.6, 6.0, 501)
    truth = np.asarray(Curve(pair).delta(eps))
    up = profile(np.asarray(points), np.exp(lattice.upwards(found, spacing)), eps)
    log_down, _, _ = lattice.downwards(found, jnp.asarray(spacing))
    down = profile(np.asarray(points), np.exp(log_down), eps)
    middle = profile(
        np.asarray(points), np.asarray(lattice.between(found, spacing, jnp.zeros_like(points))), eps
    )
    assert np.all(up >= truth * (1 - 1e-12) - 1e-15)
    assert np.all(down <= truth * (1 + 1e-12))
    assert np.max(up - truth) < 2 * spacing**2
    assert np.max(truth - down) < 2 * spacing**2
    assert np.mean(np.abs(middle - truth)) < np.mean(up - truth)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: worst_case.randomized_response(-1.0), "epsilon = -1"),
        (lambda: worst_case.approximate_dp(1.0, 2.0), "delta = 2"),
        (lambda: worst_case.laplace(1.0).compose(3).subsample(0.5), "sub-sample the steps"),
        (lambda: relaxed.subsampled_gaussian(1.0, 0.1, 10, dim=0), "dim = 0"),
        (
            lambda: jaxpriv.compose(
                worst_case.laplace(1.0).subsample(0.1).symmetric(), relaxed.laplace(1.0)
            ),
            "symmetric",
        ),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.slow
def test_what_cannot_be_computed_bounds_nothing():
    """NaN in the composed law gives the bracket [0, 1], never a small upper end."""
    with jax.enable_x64(True):
        entry = gridded(worst_case.laplace(0.3), 5.0).experiment.aligned((), jnp.float64)
        law = jax.jit(lambda e: e.law(jnp.asarray(0.5), e.tables()))(entry)
        lower, upper = grid.bracket(law, law.middle)
        assert -10 < lower < upper < np.log(0.5)
        assert grid.bracket(law._replace(nu=law.nu * jnp.nan), law.middle) == (-np.inf, 0.0)


@pytest.mark.slow
def test_no_steps():
    """n = 0 leaks nothing."""
    none = worst_case.laplace(0.5).compose(0)
    np.testing.assert_array_equal(
        [none.delta(0.0), none.epsilon(1e-5), none.delta_bounds(0.5)[1]], 0
    )
    np.testing.assert_allclose(none(0.3), 0.7, rtol=1e-12)


@pytest.mark.slow
def test_beyond_what_the_tables_hold():
    """A relaxed adversary's profile far out: below e^-200 it is bounded, not followed,
    and never comes back.
    """
    with jax.enable_x64(True):
        curve = relaxed.subsampled_gaussian(1.0, 0.01, 1000.0, dim=100)
        eps = np.array([0.1, 0.3, 1.0, 1.3, 1.45, 1.7, 2.3])
        log_delta = np.asarray(curve.log_delta(eps))
        assert np.all(np.diff(log_delta) <= 0)
        assert np.all(log_delta[2:] < -200)


LATTICE = worst_case.laplace(1.0).subsample(0.1).compose(30).symmetric()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1e-3, 1e-5])
def test_a_lattice_grows_until_it_is_as_narrow_as_asked(width):
    """And no further: the wider bracket is another one, with the narrower one inside."""
    low, high = LATTICE.epsilon_bounds(1e-4, width=width)
    assert high - low <= width
    inner_low, inner_high = LATTICE.epsilon_bounds(1e-4, width=max(width / 100, 1e-6))
    assert low <= inner_low <= inner_high <= high
    assert inner_high - inner_low < high - low
    low, high = LATTICE.delta_bounds(0.5, width=width)
    inner_low, inner_high = LATTICE.delta_bounds(0.5)
    assert low <= inner_high
    assert inner_low <= high


@pytest.mark.slow
def test_a_bracket_that_stays_wide_says_so():
    for ask, at in ((LATTICE.epsilon_bounds, 1e-4), (LATTICE.delta_bounds, 0.5)):
        with pytest.warns(jaxpriv.WideBracket, match="1e-12 was asked for"):
            low, high = ask(at, width=1e-12)
        assert low < high


@pytest.mark.parametrize("width", [0.0, -1.0, math.nan, "1"])
def test_no_width(width):
    with pytest.raises(ValueError, match="width"):
        LATTICE.epsilon_bounds(1e-4, width=width)


def test_no_width_inside_jit():
    with pytest.raises(ValueError, match="inside jit"):
        jax.jit(lambda d: LATTICE.epsilon_bounds(d, width=1e-3))(1e-4)
