"""Batches that are cut, a record replaced or zeroed out: the transform against quadratures of its
definition, and compositions against inverse transforms of these.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition.sampled_hull import HullTransform, placed
from tests.accounting.test_batches_cut import parameters

BOTH = ["zero_out", "replace_one"]
NODES = np.polynomial.legendre.leggauss(40)


def panels(low, high, count):
    """Gauss and Legendre's rule on equal panels."""
    half = (high - low) / count / 2
    middle = low + half * (2 * np.arange(count) + 1)
    return (middle[:, None] + half * NODES[0]).ravel(), np.tile(half * NODES[1], count)


def hull(mu, rate, count=40):
    """(losses, their probabilities with the record) of the hull."""
    z, weight = panels(mu / 2, 12.0 + 4 * mu, count)
    null, with_it = scipy.stats.norm.pdf(z), scipy.stats.norm.pdf(z, mu)
    law = (1 - rate) * null + rate * with_it
    loss = np.log(law / null)
    masses = np.concatenate([law * weight, null * weight])
    return (np.concatenate([loss, -loss, [0.0]]),
            np.concatenate([masses, [1 - masses.sum()]]))


def one_step(noise, rate, others, largest, adjacency, reverse, count=20):
    """The same of a step."""
    weight, moved = parameters(rate, others, largest)
    z, width = panels(-12.0, 12.0 + 4 / noise, count)
    null = scipy.stats.norm.pdf(z)
    p = (1 - rate) * null + rate * scipy.stats.norm.pdf(z, 1 / noise)
    q = null
    if adjacency == "replace_one":
        q = (1 - rate) * null + rate * scipy.stats.norm.pdf(z, -1 / noise)
    p, q = (q, p) if reverse else (p, q)
    loss, mass = hull(2 / noise, moved / weight, count)
    return (np.concatenate([np.log(p / q), loss]),
            np.concatenate([(1 - weight) * p * width, weight * mass]))


def composed(law, steps, eps):
    """delta of many steps by an inverse transform along Re t = c, trapezoids."""
    loss, mass = law
    c = min(np.arange(0.6, 8.0, 0.1), key=lambda c: (
        steps * np.log(np.sum(mass * np.exp(c * loss))) - eps * c - np.log(c * (1 + c))))
    total, step = 0.0, 0.03
    for y in np.arange(0.5, 6000.0) * step:
        t = c + 1j * y
        value = np.sum(mass * np.exp(t * loss)) ** steps * np.exp(-eps * t) / (t * (1 + t))
        total += value.real
        if abs(value) < 1e-16 * abs(total):
            break
    else:
        raise AssertionError("the frequencies do not end")
    return total * step / np.pi


@pytest.mark.parametrize(("mu", "rate"), [(2.0, 0.02), (0.3, 0.4), (6.0, 1e-3), (1.0, 0.999)])
@pytest.mark.parametrize("c", [0.7, -0.4, 2.5, -1.6])
def test_transform_of_the_hull(mu, rate, c):
    """On the axis, relative to log M, and along the line through c, by a rule without paths."""
    transform = HullTransform(np.array([mu]), np.array([rate]))
    tilt = transform.tilted(np.array([c]))
    assert tilt.line_error() < 1e-13

    # panels along the real axis, whatever the frequency
    z, width = panels(mu / 2, 15 + 4 * mu, 200)
    g = mu * (z - mu / 2)
    own = np.where(g < 30, np.log1p(rate * np.expm1(np.minimum(g, 30))), g + np.log(rate))
    log_law = -0.5 * z * z - 0.5 * np.log(2 * np.pi) + own + np.log(width)

    def less_one(t):
        both = np.expm1(t * own) * -np.expm1(-(1 + t) * own)
        return np.sum(np.where(log_law > -700, np.exp(log_law) * both, 0.0))

    size, phase, log_size, angle = tilt.on_path()
    weight = np.exp(size + 1j * phase)
    loss = log_size + 1j * angle
    rise = less_one(np.complex128(c)).real
    np.testing.assert_allclose(tilt.value[0], np.log1p(rise), rtol=1e-11)
    for y in (0.3, 7.0):
        ratio = (1 + less_one(c + 1j * y)) / (1 + rise)
        found = 1 + np.sum(weight * (np.exp(1j * y * loss) - 1))
        assert abs(found - ratio) < 1e-11
    far = np.exp(1j * 300.0 * loss)
    assert np.all(np.abs(far) <= 1)
    value, mean, variance = transform.cumulants(np.array([c]))
    d = 1e-4
    up, down = (transform.cumulants(np.array([c + s * d]))[0] for s in (1, -1))
    np.testing.assert_allclose(value, tilt.value, rtol=1e-9)
    np.testing.assert_allclose(mean, (up - down) / (2 * d), rtol=1e-5)
    np.testing.assert_allclose(variance, (up - 2 * value + down) / d**2, rtol=1e-4)


@pytest.mark.parametrize("c", [0.7, -0.4])
def test_transform_by_its_definition(c):
    """M = E e^(cL) of the law of L itself, by mpmath."""
    mu, rate = 2, mpmath.mpf("0.125")
    with mpmath.workdps(25):
        def removed(z):
            return 1 + rate * mpmath.expm1(mu * z - mu**2 / 2)

        ends = [mpmath.mpf(mu) / 2 + 2 * k for k in range(12)]
        more = mpmath.quad(lambda z: mpmath.npdf(z) * removed(z), ends)
        less = mpmath.quad(mpmath.npdf, ends)
        told = mpmath.quad(
            lambda z: mpmath.npdf(z) * (removed(z) ** (1 + c) + removed(z) ** -c), ends)
        truth = float(mpmath.log(1 - more - less + told))
    found = HullTransform(np.array([2.0]), np.array([0.125])).tilted(np.array([c])).value
    np.testing.assert_allclose(found, truth, rtol=1e-13)


def test_paths_are_those_of_the_tilt():
    transform = HullTransform(np.array([2.0]), np.array([0.1]))
    tilt = transform.tilted(np.array([0.5]))
    size, phase, *_ = placed(transform, tilt)
    found = np.sum(np.exp(size + np.log(tilt.step) + 1j * phase))
    loss, mass = hull(2.0, 0.1)
    truth = np.sum(mass[:-1] * np.exp(0.5 * loss[:-1]))
    np.testing.assert_allclose(found, truth, rtol=1e-12)


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(("noise", "rate", "others", "largest", "steps"), [
    (1.0, 0.3, 4, 2, 60), (2.0, 0.1, 99, 8, 200), (0.7, 0.02, 999, 25, 80)])
def test_many_steps(noise, rate, others, largest, steps, adjacency):
    curve = worst_case.truncated_gaussian(
        noise, rate, steps, others + 1, largest, adjacency=adjacency)
    for reverse in (False, True):
        own = curve.reversed() if reverse else curve
        law = one_step(noise, rate, others, largest, adjacency, reverse)
        for eps in own.epsilon(np.array([0.01, 1e-4])):
            truth = composed(law, steps, eps)
            low, high = own.delta_bounds(eps)
            assert low * (1 - 1e-9) <= truth <= high * (1 + 1e-9)
            assert high - low <= 1e-5 * high
            np.testing.assert_allclose(own.delta(eps), truth, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
def test_two_steps_by_quadrature(adjacency):
    """The profile of one step, averaged over the other's loss: with kinks, so to 2e-5."""
    noise, rate, others, largest = 1.0, 0.3, 4, 2
    one, two = (worst_case.truncated_gaussian(noise, rate, n, 5, largest, adjacency=adjacency)
                for n in (1, 2))
    for reverse in (False, True):
        loss, mass = one_step(noise, rate, others, largest, adjacency, reverse, 200)
        first, both = (c.reversed() if reverse else c for c in (one, two))
        for eps in (0.1, 0.8, 3.0):
            truth = np.sum(mass * first.delta(eps - loss))
            low, high = both.delta_bounds(eps)
            assert low * (1 - 2e-5) <= truth <= high * (1 + 2e-5)
            assert high - low <= 1e-5 * high


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("arguments", [
    (1.0, 0.01, 1000, 10_000, 150), (1.0, 0.01, 1000, 10_000, 110), (0.7, 0.05, 100, 1000, 70),
    (2.0, 0.5, 50, 20, 8)])
def test_brackets_are_narrow(arguments, adjacency):
    curve = worst_case.truncated_gaussian(*arguments, adjacency=adjacency)
    low, high = curve.symmetric().epsilon_bounds(1e-5)
    assert 0 <= high - low <= 1e-7 + 1e-5 * high
    assert low <= curve.symmetric().epsilon(1e-5) <= high
    # and what is on a lattice agrees
    for own in (curve, curve.reversed()):
        at = own.epsilon(1e-5)
        below, above, _ = own.experiment.on_lattice().aligned((), np.float64).bracket(
            np.asarray(at), np.asarray(at), False)
        low, high = own.delta_bounds(at)
        assert np.exp(below) <= high
        assert low <= np.exp(above)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero_out", pytest.param("replace_one",
                                                                marks=pytest.mark.long)])
def test_gradients(adjacency):
    """In noise, rate and steps, against differences by NumPy; both executors agree."""
    at = np.array([1.2, 0.01, 500.0])

    def delta(a):
        return worst_case.truncated_gaussian(
            a[0], a[1], a[2], 10_000, 110, adjacency=adjacency).delta(0.5)

    value, slope = jax.jit(jax.value_and_grad(delta))(jnp.array(at))
    np.testing.assert_allclose(value, delta(at), rtol=1e-11)
    steps = np.diag([2e-4, 1e-5, 2e-5] * at)

    def difference(d):
        near, far = (delta(at + k * d) - delta(at - k * d) for k in (1, 2))
        return (8 * near - far) / (12 * d.sum())

    np.testing.assert_allclose(slope, [difference(d) for d in steps], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [
    (1e3, 0.5, 10, 4, 2), (1.0, 1e-12, 100, 10**9, 5), (1.0, 1 - 1e-12, 10, 10, 9),
    (0.3, 0.9, 10, 2, 1), (1.0, 0.01, 0, 100, 1), (1.0, 0.5, 3, 10**9, 1),
    (0.05, 0.5, 100, 40, 10), (5.0, 0.01, 1e9, 10**6, 10_300)])
def test_extremes_hold(arguments):
    for adjacency in BOTH:
        curve = worst_case.truncated_gaussian(*arguments, adjacency=adjacency)
        for own in (curve, curve.reversed()):
            low, high = own.delta_bounds(0.3)
            assert 0 <= low <= high <= 1
            assert low * (1 - 1e-6) - 1e-12 <= own.delta(0.3) <= high * (1 + 1e-6) + 1e-12


def test_which_compose():
    """Replaced records with replaced ones; zeroed-out ones with records removed."""
    def cut(adjacency):
        return worst_case.truncated_gaussian(1.0, 0.05, 20, 100, 8, adjacency=adjacency)

    def whole(adjacency):
        return worst_case.subsampled_gaussian(1.0, 0.05, 20, adjacency=adjacency)

    for adjacency in BOTH:
        both = jaxpriv.compose(cut(adjacency), whole(adjacency))
        low, high = both.delta_bounds(1.0)
        assert cut(adjacency).delta(1.0) < low <= high
        assert high - low <= 1e-5 * high
    with pytest.raises(ValueError, match="one replaced"):
        jaxpriv.compose(cut("replace_one"), whole("zero_out"))
