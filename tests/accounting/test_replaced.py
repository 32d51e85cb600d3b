"""A record replaced under Poisson sampling: the pair against numerical integration, that it
dominates, and compositions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import worst_case


def replaced(*arguments):
    return worst_case.subsampled_gaussian(*arguments, adjacency="replace_one")


def laws(noise, rate, z):
    norm = scipy.stats.norm.pdf
    return tuple((1 - rate) * norm(z) + rate * norm(z, shift) for shift in (-1 / noise, 1 / noise))


SETTINGS = [(1.0, 0.01), (1.0, 0.5), (0.4, 0.1), (3.0, 0.9), (1.5, 1.0), (5.0, 1e-6)]


@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
def test_one_step(noise, rate):
    z = np.linspace(-25.0, 25.0, 250_001)
    p, q = laws(noise, rate, z)
    one = replaced(noise, rate, 1)
    for eps in (-0.7, 0.0, 0.1, 1.0, 4.0):
        truth = np.maximum(q - np.exp(eps) * p, 0.0).sum() * (z[1] - z[0])
        low, high = one.delta_bounds(eps)
        assert low * (1 - 1e-6) - 1e-13 <= truth <= high * (1 + 1e-6) + 1e-13
        assert high - low <= 3e-6 * high + 1e-300
        assert low <= one.delta(eps) <= high
    np.testing.assert_allclose(one.reversed()([0.01, 0.5]), one([0.01, 0.5]), rtol=1e-12)
    np.testing.assert_allclose(one.inverse(one([0.01, 0.5])), [0.01, 0.5], rtol=1e-9)


def test_no_vectors_do_more():
    """Two records of norm 1 at most, anywhere in a plane: Kahane's inequality in numbers."""
    random = np.random.default_rng(4)
    axis = np.linspace(-9.0, 9.0, 361)
    x, y = np.meshgrid(axis, axis)
    norm = scipy.stats.norm.pdf

    def at(v, rate):
        return (1 - rate) * norm(x) * norm(y) + rate * norm(x, v[0]) * norm(y, v[1])

    for index in range(40):
        a, b = random.normal(size=(2, 2))
        a, b = (v / np.linalg.norm(v) * (1 if index % 2 else random.random()) for v in (a, b))
        rate, eps = random.choice([0.03, 0.3, 0.9]), random.choice([-0.5, 0.05, 0.5, 2.0])
        found = np.maximum(at(a, rate) - np.exp(eps) * at(b, rate), 0.0).sum() * 0.05**2
        assert found <= replaced(1.0, rate, 1).delta(eps) * (1 + 1e-4) + 1e-12


@pytest.mark.parametrize(("noise", "rate", "eps"), [(1.0, 0.5, 0.8), (0.7, 0.05, 0.3)])
def test_two_steps_by_quadrature(noise, rate, eps):
    z = np.linspace(-12.0, 14.0, 2601)
    p, q = laws(noise, rate, z)
    one = replaced(noise, rate, 1)
    truth = np.sum(q * one.delta(eps - np.log(q / p))) * (z[1] - z[0])
    low, high = replaced(noise, rate, 2).delta_bounds(eps)
    assert low * (1 - 1e-5) <= truth <= high * (1 + 1e-5)
    assert high - low < 1e-4 * high


def test_compositions():
    """Narrow brackets, between what one added record tells and the bound by samples of fixed
    size; two norms at rate 1; as many steps as wanted, and with other mechanisms.
    """
    for noise, rate, steps in ((1.0, 0.01, 1000), (2.0, 0.1, 100), (0.6, 1e-3, 10_000)):
        curve = replaced(noise, rate, steps)
        low, high = curve.epsilon_bounds(1e-5)
        assert low <= curve.epsilon(1e-5) <= high
        assert high - low <= 1e-9 * high
        added = worst_case.subsampled_gaussian(noise, rate, steps).epsilon(1e-5)
        fixed = worst_case.gaussian(2 / noise).subsample(rate, "replace_one").compose(steps)
        assert added < low
        assert curve.delta_bounds(high)[1] <= fixed.delta_bounds(high)[1]
    low, high = replaced(1.5, 1.0, 7).epsilon_bounds(1e-5)
    truth = worst_case.gaussian(2 * np.sqrt(7) / 1.5).epsilon(1e-5)
    assert low - 1e-9 <= truth <= high + 1e-9
    assert replaced(1.0, 0.01, 0).epsilon_bounds(1e-5) == (0.0, 0.0)
    low, high = replaced(5.0, 0.01, 1e6).epsilon_bounds(1e-5)
    assert 0 < high - low < 1e-8 * high
    both = jaxpriv.compose(replaced(1.0, 0.01, 300), replaced(1.0, 0.01, 700))
    np.testing.assert_allclose(both.epsilon(1e-5), replaced(1.0, 0.01, 1000).epsilon(1e-5))
    more = jaxpriv.compose(replaced(1.0, 0.01, 1000), worst_case.gaussian(0.5))
    assert more.epsilon(1e-5) > both.epsilon(1e-5)
    with pytest.raises(ValueError, match="added or removed and steps for one replaced"):
        jaxpriv.compose(both, worst_case.subsampled_gaussian(1.0, 0.01, 5))
    with pytest.raises(ValueError, match="sub-sample the curve"):
        replaced(1.0, 0.1, 1).subsample(0.5)
    with pytest.raises(ValueError, match="transforms are known"):
        jaxpriv.accounting.renyi_divergence(both, 2.0)


def test_mu_is_an_upper_bound():
    """G_mu lies below, which the limit of small levels alone would not give."""
    for curve in (replaced(3.0, 0.9, 1), replaced(3.0, 0.9, 4)):
        mu = curve.gdp_mu()
        alpha = np.array([1e-6, 1e-3, 0.1, 0.4])
        assert np.all(worst_case.gaussian(mu)(alpha) <= curve(alpha))
        assert worst_case.gaussian(mu / 2).advantage() < curve.advantage()


def theirs(noise, rate, steps, eps):
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="pip install --no-deps dp-accounting"
    )
    relation = pld.NeighborRel.REPLACE_ONE
    return [
        pld.from_gaussian_mechanism(
            noise, sampling_prob=rate, value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic, neighboring_relation=relation,
        ).self_compose(steps).get_delta_for_epsilon(eps)
        for pessimistic in (False, True)
    ]


def check_against_dp_accounting(noise, rate, steps):
    curve = replaced(noise, rate, steps)
    eps = float(curve.epsilon(1e-4))
    low, high = curve.delta_bounds(eps)
    below, above = theirs(noise, rate, steps, eps)
    assert below <= high * (1 + 1e-9)
    assert low <= above * (1 + 1e-9)
    assert above < 1.03 * high  # at its interval
    assert high - low < 1e-5 * high


def test_against_dp_accounting():
    check_against_dp_accounting(1.0, 0.01, 500)


@pytest.mark.slow
def test_a_random_sample_against_dp_accounting():
    random = np.random.default_rng(2)
    for _ in range(10):
        noise = np.exp(random.uniform(np.log(0.7), np.log(4)))
        rate = np.exp(random.uniform(np.log(3e-3), np.log(0.5)))
        check_against_dp_accounting(noise, rate, int(random.integers(50, 2000)))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1.0, 300.0])
def test_gradients(steps):
    at = np.array([1.2, 0.05])

    def delta(a):
        return replaced(a[0], a[1], steps).delta(0.7)

    value, slope = jax.jit(jax.value_and_grad(delta))(jnp.array(at))
    np.testing.assert_allclose(value, delta(at), rtol=1e-10)

    def difference(d):
        near, far = (delta(at + k * d) - delta(at - k * d) for k in (1, 2))
        return (8 * near - far) / (12 * d.sum())

    np.testing.assert_allclose(slope, [difference(d) for d in np.diag(1e-4 * at)], rtol=1e-6)


@pytest.mark.parametrize("arguments", [(1e3, 0.5, 10), (1e-2, 0.5, 1), (1.0, 1e-12, 1),
                                       (1.0, 1 - 1e-12, 5), (0.05, 1e-3, 1)])
def test_extremes_hold(arguments):
    curve = replaced(*arguments)
    for eps in (0.0, 0.3, 40.0):
        low, high = curve.delta_bounds(eps)
        assert 0 <= low <= high <= 1
        assert low * (1 - 1e-6) <= curve.delta(eps) <= high * (1 + 1e-6) + 1e-300
