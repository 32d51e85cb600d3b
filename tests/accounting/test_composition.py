"""Composed sub-sampled Gaussian steps against 40-digit values, closed forms, and a second
computation by convolution.
"""

import itertools
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition.composed import Composed
from jaxpriv.composition.line import Term
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.curve import Curve

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "sgm.json").read_text())["entries"]
NORM = scipy.stats.norm
MANY = [
    e for e in GOLDEN if e["T"] >= 1000 and e["q"] < 1 and not (e["q"] <= 1e-3 and e["T"] == 1000)
]
FEW = [e for e in GOLDEN if e["T"] in (2, 10, 100) and e["q"] < 1]


def columns(entries):
    return [
        np.array([float(e[key]) for e in entries]) for key in ("q", "sigma", "T", "eps", "delta")
    ]


def directed(entries, direction):
    """The golden entries of a direction, and one curve for all of them."""
    chosen = [e for e in entries if e["direction"] == direction]
    q, sigma, steps, eps, delta = columns(chosen)
    curve = worst_case.subsampled_gaussian(sigma, q, steps)
    return curve.reversed() if direction == "add" else curve, eps, delta


@pytest.mark.parametrize("direction", ["rem", pytest.param("add", marks=pytest.mark.slow)])
def test_golden_estimates(direction):
    """Many steps: to 1e-10 relative (the rounding of a thousand and more steps),
    exactly zero where the loss cannot be.
    """
    curve, eps, delta = directed(MANY, direction)
    got = np.asarray(curve.delta(eps))
    seen = delta > 1e-300
    assert seen.sum() >= 24
    np.testing.assert_allclose(got[seen], delta[seen], rtol=1e-10)
    assert np.all(got[~seen] < 1e-290)
    lower, upper = curve.delta_bounds(eps)
    assert np.all((lower <= delta * (1 + 1e-15)) & (delta <= upper))
    assert np.all((upper - lower)[delta > 1e-30] <= 3e-8 * delta[delta > 1e-30])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("direction", ["rem", "add"])
def test_golden_bounds_of_few_steps(direction):
    """Few steps at a tiny rate are not resolved by a straight line; the lattice bounds them, one
    step's curve estimates them.
    """
    curve, eps, delta = directed(FEW, direction)
    lower, upper = curve.delta_bounds(eps)
    assert np.all((lower <= delta * (1 + 1e-15)) & (delta <= upper))
    likely = delta > 1e-15  # less than that is left at the end of bounded losses
    assert np.all((upper - lower)[likely] <= 0.1 * delta[likely])
    np.testing.assert_allclose(curve.delta(eps), delta, rtol=1e-3, atol=1e-300)
    q = columns([e for e in FEW if e["direction"] == direction])[0]
    plain = (q >= 0.1) & (delta > 0)
    np.testing.assert_allclose(np.asarray(curve.delta(eps))[plain], delta[plain], rtol=1e-12)
    assert np.all((upper - lower)[plain] <= 1e-6 * delta[plain])


@pytest.mark.slow
def test_one_step_among_many():
    """In a batch a single step at a tiny rate is not in closed form:
    its estimates and derivatives are those of one step.
    """
    one = worst_case.gaussian(2.0).subsample(1e-4)
    batch = worst_case.subsampled_gaussian(0.5, 1e-4, np.array([1.0, 1000.0]))
    assert isinstance(batch.experiment, Composed)
    for method, at in (("delta", 0.5), ("epsilon", 1e-8), ("power", 1e-9)):
        np.testing.assert_allclose(
            getattr(batch, method)(at)[0], getattr(one, method)(at), rtol=1e-6
        )

    def log_delta(sigma, rate, steps):
        return worst_case.subsampled_gaussian(sigma, rate, jnp.stack([steps, 1000.0])).log_delta(
            0.5
        )[0]

    got = jax.grad(log_delta, (0, 1, 2))(0.5, 1e-4, 1.0)
    want = jax.grad(lambda s, q: worst_case.gaussian(1 / s).subsample(q).log_delta(0.5), (0, 1))(
        0.5, 1e-4
    )
    np.testing.assert_allclose(got[:2], want, rtol=1e-6)
    # log E e^(g(0.5 - L) - g(0.5)) on top of 1, L the small losses of a second step
    z = np.linspace(-12, 12, 4001)
    ratio = 1 - 1e-4 + 1e-4 * np.exp(2 * z - 2)
    z, ratio = z[ratio < np.exp(0.25)], ratio[ratio < np.exp(0.25)]
    rise = one.delta(0.5 - np.log(ratio)) / one.delta(0.5) - 1
    more = np.sum(rise * ratio * np.exp(-z * z / 2)) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    assert 1e-6 < more < 1e-5
    assert got[2] == pytest.approx(1 + more, rel=6e-6)


@pytest.mark.slow
def test_epsilon_inverts_and_brackets():
    """epsilon(delta(eps)) = eps; the bracket holds it and is 1e-8 of it wide at most."""
    curve, eps, delta = directed(
        [e for e in MANY if e["q"] in (0.01, 0.1) and 0 < float(e["delta"]) < 0.5], "rem"
    )
    got = np.asarray(curve.epsilon(delta))
    np.testing.assert_allclose(got, eps, rtol=1e-9)
    lower, upper = curve.epsilon_bounds(delta)
    assert np.all((lower <= eps) & (eps <= upper))
    assert np.all(upper - lower <= 1e-8 * eps)
    assert np.all(curve.delta_bounds(upper)[1] <= delta)


def full_rate(mu, steps):
    """The transform's machinery where the closed form is known: rate 1."""
    shape = (*np.shape(mu), 1)
    transform = SubsampledGaussianTransform(
        np.reshape(mu, shape), np.ones(shape), np.zeros(shape, bool)
    )
    return Curve(Composed((Term(transform, np.broadcast_to(steps, shape).astype(float)),)))


@pytest.mark.slow
@pytest.mark.long
def test_rate_one_is_the_gaussian_curve():
    """Every method, at both signs of epsilon, in both directions."""
    mu = np.array([0.2, 0.7, 1.3])
    ours, truth = full_rate(mu, 3), worst_case.gaussian(mu * math.sqrt(3))
    eps = np.array([-3.0, -0.4, 0.0, 0.3, 2.0, 6.0])[:, None]
    for a, b in ((ours, truth), (ours.reversed(), truth), (ours.symmetric(), truth)):
        np.testing.assert_allclose(a.log_delta(eps), b.log_delta(eps), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(a.epsilon(np.array([1e-9, 1e-4, 0.1])[:, None]),
                                   b.epsilon(np.array([1e-9, 1e-4, 0.1])[:, None]), rtol=1e-10,
                                   atol=1e-13)
    alpha = np.array([1e-8, 0.01, 0.3, 0.5, 0.8, 0.999])[:, None]
    np.testing.assert_allclose(ours(alpha), truth(alpha), rtol=1e-9)
    np.testing.assert_allclose(ours.power(alpha), truth.power(alpha), rtol=1e-9)
    np.testing.assert_allclose(ours.inverse(alpha), truth.inverse(alpha), rtol=1e-9)
    np.testing.assert_allclose(ours.slope(alpha), truth.slope(alpha), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.gdp_mu(), truth.gdp_mu(), rtol=1e-13)
    np.testing.assert_allclose(ours.advantage(), truth.advantage(), rtol=1e-12)


def convolved(mechanisms, eps, half_width=24.0, size=1 << 19):
    """delta(eps) of steps [(mu, rate, count)] by convolution of losses on a grid,
    each split so that its mean is kept.
    """
    grid = (np.arange(size) - size // 2) * (2 * half_width / size)
    total = np.ones(size // 2 + 1, complex)
    for mu, rate, count in mechanisms:
        z = np.linspace(-12, 12 + mu, 400_001)
        loss = np.log1p(rate * np.expm1(mu * z - mu * mu / 2))
        weight = ((1 - rate) * NORM.pdf(z) + rate * NORM.pdf(z - mu)) * (z[1] - z[0])
        position = (loss - grid[0]) / (grid[1] - grid[0])
        index = np.floor(position).astype(int)
        share = position - index
        law = np.bincount(index, weight * (1 - share), size) + np.bincount(
            index + 1, weight * share, size
        )
        total *= np.fft.rfft(np.fft.ifftshift(law)) ** count
    law = np.fft.fftshift(np.fft.irfft(total, size))
    return np.sum(law[grid > eps] * -np.expm1(eps - grid[grid > eps]))


def test_heterogeneous_steps_by_convolution():
    """Different noises, rates and counts, with a full-batch release among them:
    the grid's error is about 1e-6.
    """
    mechanisms = [(1.0, 0.05, 60), (0.5, 0.2, 30), (2.0, 0.01, 100), (0.3, 1.0, 2)]
    curves = [worst_case.gaussian(mu).subsample(rate).compose(n) for mu, rate, n in mechanisms[:3]]
    together = jaxpriv.compose(*curves, worst_case.gaussian(0.3).compose(2))
    for eps in (0.2, 1.0, 2.5):
        np.testing.assert_allclose(together.delta(eps), convolved(mechanisms, eps), rtol=2e-5)
    again = jaxpriv.compose(worst_case.gaussian(0.3), *curves[::-1], worst_case.gaussian(0.3))
    np.testing.assert_allclose(again.delta(1.0), together.delta(1.0), rtol=1e-12)


@pytest.mark.slow
def test_composition_counts():
    """Twice a curve is n = 2; n is real; n = 0 leaks nothing, n = 1 is the curve;
    compositions compose.
    """
    step = worst_case.gaussian(1.2).subsample(0.2)
    twenty = step.compose(20).delta(0.7)
    np.testing.assert_allclose(
        jaxpriv.compose(step.compose(8), step.compose(12)).delta(0.7), twenty, rtol=1e-12
    )
    np.testing.assert_allclose(step.compose(8).compose(2.5).delta(0.7), twenty, rtol=1e-12)
    assert step.compose(1).experiment is step.experiment
    none = step.compose(0)
    np.testing.assert_array_equal([none.delta(0.0), none.delta(1.0), none.epsilon(1e-5)], 0)
    np.testing.assert_allclose([none.delta(-1.0), none(0.3)], [-math.expm1(-1), 0.7], rtol=1e-12)
    gaussian = jaxpriv.compose(worst_case.gaussian(3.0), worst_case.gaussian(4.0))
    np.testing.assert_allclose(gaussian.gdp_mu(), 5.0, rtol=1e-14)
    along = jaxpriv.compose(worst_case.gaussian(np.array([1.2, 0.8])).subsample(0.2), axis=-1)
    apart = jaxpriv.compose(step, worst_case.gaussian(0.8).subsample(0.2))
    np.testing.assert_allclose(along.delta(0.3), apart.delta(0.3), rtol=1e-14)


@pytest.mark.slow
def test_shape_of_the_profile():
    """Decreasing in eps and noise, increasing in rate and steps; brackets in order;
    a trade-off function.
    """
    eps = np.linspace(-2, 6, 33)
    base = worst_case.subsampled_gaussian(1.0, 0.05, 200)
    delta = np.asarray(base.delta(eps))
    assert np.all(np.diff(delta) < 0)
    assert np.all(delta < worst_case.subsampled_gaussian(0.9, 0.05, 200).delta(eps))
    assert np.all(delta < worst_case.subsampled_gaussian(1.0, 0.06, 200).delta(eps))
    assert np.all(delta < worst_case.subsampled_gaussian(1.0, 0.05, 210).delta(eps))
    lower, upper = base.symmetric().delta_bounds(eps)
    assert np.all((lower <= upper) & (lower >= 0) & (upper <= 1))
    assert np.all(
        (lower <= base.symmetric().delta(eps) * (1 + 1e-14))
        & (base.symmetric().delta(eps) <= upper * (1 + 1e-14))
    )
    alpha = np.linspace(0.02, 0.98, 13)
    beta = np.asarray(base(alpha))
    assert np.all(np.diff(beta) < 0)
    assert np.all(np.diff(beta, 2) > 0)
    assert np.all(beta < 1 - alpha)
    for curve in (base, base.reversed()):
        np.testing.assert_allclose(curve.inverse(curve(alpha)), alpha, rtol=1e-9)


def test_add_is_bounded():
    """Adding a record never leaks more than -T log(1-q)."""
    curve = worst_case.subsampled_gaussian(0.5, 0.01, 30).reversed()
    bound = -30 * math.log1p(-0.01)
    assert float(curve.delta(bound * (1 + 1e-12))) == 0.0
    assert float(curve.delta_bounds(bound * (1 + 1e-12))[1]) == 0.0
    assert float(curve.delta(0.5 * bound)) > 0
    np.testing.assert_allclose(curve.epsilon(0.0), bound, rtol=1e-14)


@pytest.mark.slow
@pytest.mark.long
def test_extremes_are_numbers():
    """Noise from 0.05 to 1e4, rates from 1e-7, counts to 1e7:
    finite estimates in [0, 1] inside a bracket.
    """
    sigma = np.array([0.05, 1.0, 1e4])[:, None, None]
    rate = np.array([1e-7, 1e-3, 0.5])[:, None]
    steps = np.array([3.0, 1e7])
    curve = worst_case.subsampled_gaussian(*np.broadcast_arrays(sigma, rate, steps))
    for one in (curve, curve.reversed()):
        delta = np.asarray(one.delta(0.5))
        lower, upper = one.delta_bounds(0.5)
        assert np.all((delta >= 0) & (delta <= 1))
        assert np.all((lower >= 0) & (lower <= upper) & (upper <= 1))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: jaxpriv.compose(), "at least one"),
        (
            lambda: jaxpriv.compose(
                worst_case.gaussian(1.0).subsample(0.1),
                worst_case.gaussian(1.0).subsample(0.1).symmetric(),
            ),
            "symmetric",
        ),
        (lambda: worst_case.subsampled_gaussian(1.0, 0.1, 10).subsample(0.5),
         "sub-sample the steps"),
        (lambda: worst_case.subsampled_gaussian(0.0, 0.1, 10), "noise_multiplier"),
        (lambda: worst_case.subsampled_gaussian(1.0, 1.1, 10), "rate"),
        (lambda: worst_case.subsampled_gaussian(1.0, 0.1, -1), "^steps = -1"),
        (lambda: worst_case.subsampled_gaussian(1.0, 2.0, 1), "^sampling_rate = 2"),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_symmetric_steps_compose_symmetrically():
    """Symmetric curves give the symmetric composition:
    the record is added in all steps or removed in all.
    """
    step = worst_case.gaussian(1.0).subsample(0.1)
    one = jaxpriv.compose(step.symmetric(), worst_case.gaussian(0.5), step.symmetric())
    other = jaxpriv.compose(step, step, worst_case.gaussian(0.5)).symmetric()
    np.testing.assert_allclose(one.delta(0.4), other.delta(0.4), rtol=1e-14)


def test_calibrated_noise_is_on_the_safe_side():
    """The noise multiplier of DP-SGD for (1, 1e-5), verified by the upper bound,
    and within 1e-8 of failing.
    """

    def make(noise):
        return worst_case.subsampled_gaussian(noise, 0.01, 1000)

    noise = jaxpriv.calibrate(make, epsilon=1.0, delta=1e-5, bracket=(0.3, 30.0))
    assert (
        make(noise).symmetric().delta_bounds(1.0)[1] <= 1e-5 < make(noise * (1 - 1e-8)).delta(1.0)
    )


def test_transform_of_gaussian_noise():
    """M(c+iy)/M(c) of the two transforms at rate 1, and its bounds."""
    mu, c, spacing = np.full((1, 1), 0.8), np.full((1, 1), 1.7), np.full((1, 1), 0.3)
    plain = GaussianTransform(mu).tilted(c)
    general = SubsampledGaussianTransform(mu, np.ones((1, 1)), np.zeros((1, 1), bool)).tilted(c)
    np.testing.assert_allclose(general.value, plain.value, rtol=1e-13)
    transforms = (
        GaussianTransform(mu),
        SubsampledGaussianTransform(mu, np.ones((1, 1)), np.zeros((1, 1), bool)),
    )
    np.testing.assert_allclose(*(transform.cumulants(c) for transform in transforms), rtol=1e-13)
    walks = [(t.line(spacing), t.line(spacing).start()) for t in (plain, general)]
    for block in range(3):
        (line, state), (other, its) = walks
        (state, ratio), (its, found) = line.advance(state), other.advance(its)
        walks = [(line, state), (other, its)]
        np.testing.assert_allclose(np.exp(found[0]), np.exp(ratio[0]), atol=1e-14)
        count = len(ratio[0])
        y = (count * block + np.arange(count)[:, None, None] + 0.5) * spacing
        for tilt in (plain, general):
            bound = np.array([tilt.log_decay(tilt.decay(1), one) for one in y])
            assert np.all(np.exp(ratio[0]) <= np.exp(bound) * (1 + 1e-12))
    assert np.all(general.line_error() < 1e-18)


@pytest.mark.slow
def test_batches_and_jit():
    """A batch in one call is the loop over its members, also under jit and vmap."""
    sigma = np.array([0.7, 1.0, 2.0])
    batch = worst_case.subsampled_gaussian(sigma, 0.02, 500).delta(0.8)
    loop = [worst_case.subsampled_gaussian(s, 0.02, 500).delta(0.8) for s in sigma]
    np.testing.assert_allclose(batch, loop, rtol=1e-13)
    mapped = jax.jit(jax.vmap(lambda s: worst_case.subsampled_gaussian(s, 0.02, 500).delta(0.8)))(
        jnp.asarray(sigma)
    )
    np.testing.assert_allclose(mapped, loop, rtol=1e-13)


MUS = (1.0, 2.0, 0.4)


def drawn_anew(weights, steps, epsilon):
    """delta of Gaussian steps whose mu is drawn in each, by all that may be drawn."""
    total = 0.0
    for draw in itertools.product(range(len(weights)), repeat=steps):
        probability = np.prod([weights[i] for i in draw])
        mu = np.sqrt(sum(MUS[i] ** 2 for i in draw))
        total += probability * worst_case.gaussian(mu).delta(epsilon)
    return total


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.7, 0.1)])
def test_mixtures_are_drawn_in_every_step(weights):
    """Composed with itself, with another one, and with what is none; also of mixtures."""
    mixed = jaxpriv.mixture([worst_case.gaussian(mu) for mu in MUS[: len(weights)]], weights)
    for curve, steps in ((mixed.compose(2), 2), (jaxpriv.compose(mixed, mixed), 2),
                         (jaxpriv.compose(mixed, mixed.compose(2)), 3)):
        exact = drawn_anew(weights, steps, 1.0)
        low, high = curve.delta_bounds(1.0)
        assert low <= exact <= high
        assert high - low < 1e-6
    nested = jaxpriv.mixture([mixed, worst_case.gaussian(0.0)], [0.5, 0.5]).compose(2)
    exact = 0.25 * drawn_anew(weights, 2, 1.0) + 0.5 * mixed.delta(1.0)
    assert np.isclose(nested.delta(1.0), exact, rtol=1e-6)
    alone = jaxpriv.compose(mixed, worst_case.gaussian(0.3), worst_case.laplace(0.1))
    assert alone.delta_bounds(1.0)[1] > mixed.delta(1.0)


def test_batches_of_mixtures():
    """Parameters of a batch stand before what is drawn."""
    mus = np.array([[1.0, 2.0], [1.0, 3.0]])
    batch = jaxpriv.mixture(worst_case.gaussian(mus), [0.5, 0.5]).compose(np.array([2.0, 1.0]))
    for k, steps in ((0, 2), (1, 1)):
        one = jaxpriv.mixture(worst_case.gaussian(mus[k]), [0.5, 0.5]).compose(steps)
        np.testing.assert_allclose(batch.delta(1.0)[k], one.delta(1.0), rtol=1e-6)


@pytest.mark.parametrize("made", [
    lambda c, g: jaxpriv.mixture([c, g], [0.5, 0.5]),
    lambda c, g: jaxpriv.mixture([c, c], [0.5, 0.5]),
    lambda c, g: jaxpriv.worst_of(c, g),
    lambda c, g: c.group(2),
])
@pytest.mark.parametrize("steps", [
    worst_case.subsampled_gaussian(1.0, 0.1, 3), worst_case.laplace(1.0).compose(2),
])
def test_what_is_made_of_compositions_is_no_step(steps, made):
    with pytest.raises(ValueError, match="mixture of compositions"):
        made(steps, worst_case.gaussian(1.0)).compose(2)


def test_black_boxes_are_both_directions_by_themselves():
    trained = worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric()
    box = worst_case.approximate_dp(0.1, 1e-6)
    both = [jaxpriv.compose(trained, one).epsilon(1e-5) for one in (box, box.symmetric())]
    assert np.isclose(*both, rtol=1e-12)


@pytest.mark.slow
def test_losses_too_large_to_follow_count_for_nothing_from_below():
    """Of 2e6 and more, most of which are no infinite ones."""
    low, high = worst_case.user_level(1e-3, 0.5, 3, 2).epsilon_bounds(1e-5)
    assert low <= high < 1e9
