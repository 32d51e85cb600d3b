"""Batches that are cut at a largest size: against the mechanisms themselves, integrated
numerically, and against dp-accounting.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxpriv import worst_case

GRID = np.linspace(-15.0, 15.0, 601)
CLOSE = 1e-4  # of sums on the grid over what has kinks


def parameters(rate, others, largest):
    """P(cut) and the rate of batches that are cut, by sums over how many others are drawn."""
    k = np.arange(others + 1)
    law = scipy.stats.binom.pmf(k, others, rate)
    cut = k >= largest
    return law[cut].sum(), (law * rate * np.minimum(1.0, largest / (k + 1)))[cut].sum()


def told(noise, rate, others, largest, eps, reverse=False):
    """delta of one step by trapezoids, each way on its own."""
    weight, moved = parameters(rate, others, largest)
    z = np.linspace(-25.0, 25.0, 125_001)
    total = 0.0
    for probability, shift, own in (
        (1 - weight, 1 / noise, rate), (weight, 2 / noise, moved / weight)
    ):
        p = scipy.stats.norm.pdf(z)
        q = (1 - own) * p + own * scipy.stats.norm.pdf(z, shift)
        q, p = (p, q) if reverse else (q, p)
        total += probability * np.maximum(q - np.exp(eps) * p, 0.0).sum() * (z[1] - z[0])
    return total


SETTINGS = [(1.0, 0.3, 4, 2), (0.7, 0.01, 9999, 120), (2.0, 0.5, 1, 1), (1.5, 0.9, 20, 15),
            (1.0, 0.05, 200, 3), (3.0, 0.2, 50, 50)]


@pytest.mark.parametrize(("noise", "rate", "others", "largest"), SETTINGS)
def test_one_step(noise, rate, others, largest):
    curve = worst_case.truncated_gaussian(noise, rate, 1, others + 1, largest)
    for eps in (-0.5, 0.0, 0.05, 0.7, 3.0):
        for reverse in (False, True):
            own = curve.reversed() if reverse else curve
            truth = told(noise, rate, others, largest, eps, reverse)
            low, high = own.delta_bounds(eps)
            assert low * (1 - 1e-6) - 1e-12 <= truth <= high * (1 + 1e-6) + 1e-12
            assert high - low <= 1e-8 * high
            assert low <= own.delta(eps) <= high


def sampled(records, rate, largest):
    """Density on GRID of the noisy (std 1) sum over a batch: each record with its rate, cut."""
    total = np.zeros_like(GRID)
    for mask in itertools.product([0, 1], repeat=len(records)):
        weight = np.prod([rate if m else 1 - rate for m in mask])
        drawn = [r for r, m in zip(records, mask) if m]
        batches = list(itertools.combinations(drawn, min(len(drawn), largest)))
        for batch in batches:
            total += weight / len(batches) * scipy.stats.norm.pdf(GRID, sum(batch))
    return total


def profile(p, q, eps):
    """delta of one step with density q against p, and of two."""
    step = GRID[1] - GRID[0]
    two = np.maximum(np.outer(q, q) - np.exp(eps) * np.outer(p, p), 0.0).sum() * step**2
    return np.array([np.maximum(q - np.exp(eps) * p, 0.0).sum() * step, two])


OTHERS = [(-1.0, -1.0, -1.0), (1.0, 1.0, 1.0), (-1.0, 1.0, 0.0), (0.2, -1.0, -0.5)]


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "other"), [
    ("add_remove", None), pytest.param("zero_out", 0.0, marks=pytest.mark.slow),
    pytest.param("replace_one", -1.0, marks=pytest.mark.slow),
])
def test_no_data_set_beats_the_bound(adjacency, other):
    """Four records, batches of one or two, one and two steps, both directions; and what takes the
    batches for whole is beaten, unless it is for replaced records, who move a sum by two norms
    there as well.
    """
    rate, beaten = 0.5, adjacency == "replace_one"
    for largest, eps in ((1, 0.3), (2, 0.3), (1, 3.0)):
        one = worst_case.truncated_gaussian(1.0, rate, 1, 4, largest, adjacency=adjacency)
        two = worst_case.truncated_gaussian(1.0, rate, 2, 4, largest, adjacency=adjacency)
        bounds = np.array([[c.delta_bounds(eps)[1] for c in (one, two)],
                           [c.reversed().delta_bounds(eps)[1] for c in (one, two)]])
        plain = worst_case.subsampled_gaussian(1.0, rate, 1, adjacency=adjacency)
        best = np.zeros(2)
        for others in OTHERS:
            rest = others if other is None else (*others, other)
            p, q = sampled(rest, rate, largest), sampled((*others, 1.0), rate, largest)
            found = np.array([profile(p, q, eps), profile(q, p, eps)])
            assert np.all(found <= bounds * (1 + CLOSE) + 1e-12)
            best = np.maximum(best, found[:, 0])
        assert best[0] > 0.2 * bounds[0, 0] or eps > 1
        beaten |= bool(np.any(best > [plain.delta(eps) * 1.02, plain.reversed().delta(eps) + 1e-3]))
    assert beaten


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "rate", "others", "largest"), [SETTINGS[0], SETTINGS[1], SETTINGS[3]])
def test_two_steps_by_quadrature(noise, rate, others, largest):
    """The profile of two steps is that of one, averaged over the other's loss."""
    weight, moved = parameters(rate, others, largest)
    one = worst_case.truncated_gaussian(noise, rate, 1, others + 1, largest)
    two = worst_case.truncated_gaussian(noise, rate, 2, others + 1, largest)
    z = np.linspace(-11.0, 14.0, 4001)
    for eps in (0.1, 0.8):
        forward = backward = 0.0
        for probability, shift, own in (
            (1 - weight, 1 / noise, rate), (weight, 2 / noise, moved / weight)
        ):
            loss = np.log1p(own * np.expm1(shift * z - shift**2 / 2))
            law = probability * scipy.stats.norm.pdf(z) * (z[1] - z[0])
            forward += np.sum(law * np.exp(loss) * one.delta(eps - loss))
            backward += np.sum(law * one.reversed().delta(eps + loss))
        for curve, truth in ((two, forward), (two.reversed(), backward)):
            low, high = curve.delta_bounds(eps)
            assert low * (1 - 1e-4) - 1e-12 <= truth <= high * (1 + 1e-4) + 1e-12
            assert high - low <= 1e-3 * high


@pytest.mark.slow
def test_three_steps_by_monte_carlo():
    random, count = np.random.default_rng(8), 2_000_000
    noise, rate, others, largest, eps = 1.0, 0.3, 4, 2, 1.0
    weight, moved = parameters(rate, others, largest)
    total = np.zeros(count)
    for _ in range(3):
        cut = random.random(count) < weight
        shift, own = np.where(cut, 2 / noise, 1 / noise), np.where(cut, moved / weight, rate)
        z = random.normal(size=count) + shift * (random.random(count) < own)
        total += np.log1p(own * np.expm1(shift * z - shift**2 / 2))
    told = np.maximum(1 - np.exp(eps - total), 0.0)
    low, high = worst_case.truncated_gaussian(noise, rate, 3, others + 1, largest).delta_bounds(eps)
    assert abs(told.mean() - (low + high) / 2) < 4.5 * told.std() / np.sqrt(count)
    assert high - low < 1e-6


def theirs(noise, rate, others, largest, steps, delta):
    """epsilon of dp-accounting's mixture with the pair of this package for batches that are cut,
    from below and above; and that of its own event.
    """
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="pip install --no-deps dp-accounting"
    )
    weight, moved = parameters(rate, others, largest)
    ends = []
    for pessimistic in (False, True):
        how = {"value_discretization_interval": 1e-3, "pessimistic_estimate": pessimistic}
        one = pld.from_gaussian_mechanism(noise, sampling_prob=rate, **how)
        two = pld.from_gaussian_mechanism(noise / 2, sampling_prob=moved / weight, **how)
        mixed = two.compute_mixture(one, weight).self_compose(steps)
        ends.append(mixed.get_epsilon_for_delta(delta))
    event = pld.from_truncated_subsampled_gaussian_mechanism(
        others + 1, rate, largest, noise, value_discretization_interval=1e-3
    ).self_compose(steps)
    return *ends, event.get_epsilon_for_delta(delta)


def check_against_dp_accounting(noise, rate, others, largest, steps):
    curve = worst_case.truncated_gaussian(noise, rate, steps, others + 1, largest).symmetric()
    low, high = curve.epsilon_bounds(1e-5)
    below, above, event = theirs(noise, rate, others, largest, steps, 1e-5)
    assert low <= above * (1 + 1e-9)
    assert below <= high * (1 + 1e-9)
    assert high <= event * (1 + 1e-6)  # whose pair is the larger one
    assert above - high < 1e-3 * high + 5e-3  # at its interval
    assert high - low <= 1e-5 * high + 1e-7


@pytest.mark.parametrize(("noise", "rate", "others", "largest", "steps"),
                         [(1.0, 0.01, 9999, 120, 1000)])
def test_against_dp_accounting(noise, rate, others, largest, steps):
    check_against_dp_accounting(noise, rate, others, largest, steps)


@pytest.mark.slow
def test_a_random_sample_against_dp_accounting():
    random = np.random.default_rng(21)
    for _ in range(12):
        noise = np.exp(random.uniform(np.log(0.7), np.log(4)))
        rate = np.exp(random.uniform(np.log(2e-3), np.log(0.3)))
        others = int(np.exp(random.uniform(np.log(200), np.log(5e4))))
        drawn = rate * others
        largest = int(np.clip(drawn + random.uniform(-1, 4) * np.sqrt(drawn), 1, others))
        check_against_dp_accounting(noise, rate, others, largest, int(random.integers(60, 2000)))


def test_sizes():
    """Nothing is cut from the number of records on, and hardly anything long before; a smaller
    batch costs more; steps and rates do as ever.
    """
    plain = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
    assert worst_case.truncated_gaussian(1.0, 0.01, 1000, 50, 50).epsilon(1e-5) == plain.epsilon(
        1e-5)
    rare = worst_case.truncated_gaussian(1.0, 0.01, 1000, 10_000, 250)
    np.testing.assert_allclose(rare.epsilon(1e-5), plain.epsilon(1e-5), rtol=1e-12)
    found = [worst_case.truncated_gaussian(1.0, 0.01, 1000, 10_000, size).epsilon_bounds(1e-5)
             for size in (160, 140, 120, 100)]
    assert all(before[1] < after[0] for before, after in zip(found, found[1:]))
    # at rate 1 every batch is a sample of fixed size
    always = worst_case.truncated_gaussian(1.5, 1.0, 20, 40, 10)
    fixed = worst_case.subsampled_gaussian(1.5, 10 / 40, 20, sampling="fixed_size")
    np.testing.assert_allclose(always.epsilon(1e-5), fixed.epsilon(1e-5), rtol=1e-12)
    np.testing.assert_allclose(
        always.reversed().delta(0.5), fixed.reversed().delta(0.5), rtol=1e-12)
    replaced = worst_case.truncated_gaussian(1.5, 1.0, 1, 40, 10, adjacency="replace_one")
    other = worst_case.subsampled_gaussian(
        1.5, 10 / 40, 1, adjacency="replace_one", sampling="fixed_size")
    np.testing.assert_allclose(replaced.delta([0.1, 1.0]), other.delta([0.1, 1.0]), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.long)])
def test_gradients(reverse):
    """In noise, rate and steps, against differences by NumPy; both executors agree."""
    at = np.array([1.2, 0.01, 500.0])

    def delta(a):
        curve = worst_case.truncated_gaussian(a[0], a[1], a[2], 10_000, 110)
        return (curve.reversed() if reverse else curve).delta(0.5)

    value, slope = jax.jit(jax.value_and_grad(delta))(jnp.array(at))
    np.testing.assert_allclose(value, delta(at), rtol=1e-11)
    steps = np.diag([2e-4, 1e-5, 2e-5] * at)

    def difference(d):
        near, far = (delta(at + k * d) - delta(at - k * d) for k in (1, 2))
        return (8 * near - far) / (12 * d.sum())

    np.testing.assert_allclose(slope, [difference(d) for d in steps], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.long
def test_gradients_of_one_step():
    at = np.array([1.2, 0.02])

    def delta(a):
        return worst_case.truncated_gaussian(a[0], a[1], 1, 10_000, 200).delta(0.3)

    slope = jax.grad(delta)(jnp.array(at))
    steps = np.diag(1e-5 * at)
    np.testing.assert_allclose(
        slope, [(delta(at + d) - delta(at - d)) / (2 * d.sum()) for d in steps], rtol=1e-6)


@pytest.mark.parametrize("arguments", [
    (1e3, 0.5, 10, 4, 2), (1.0, 1e-12, 1, 10**9, 5), (1.0, 1 - 1e-12, 10, 10, 9),
    (0.3, 0.9, 10, 2, 1), (1.0, 0.01, 0, 100, 1), (1e-3, 0.5, 1, 4, 2), (1.0, 0.5, 1, 10**9, 1),
    (5.0, 0.01, 1e9, 10**6, 10_300),
])
def test_extremes_hold(arguments):
    curve = worst_case.truncated_gaussian(*arguments)
    for own in (curve, curve.reversed()):
        low, high = own.delta_bounds(0.3)
        assert 0 <= low <= high <= 1
        assert low * (1 - 1e-9) <= own.delta(0.3) <= high * (1 + 1e-9)
        assert high - low <= 1e-5 * high + 1e-12


def test_batches_of_curves():
    noise = np.array([1.0, 2.0])
    both = worst_case.truncated_gaussian(noise, 0.01, 100, 1000, 12)
    each = [worst_case.truncated_gaussian(n, 0.01, 100, 1000, 12) for n in noise]
    np.testing.assert_allclose(both.delta(0.5), [one.delta(0.5) for one in each], rtol=1e-12)
    assert both.epsilon_bounds(1e-5)[0].shape == (2,)
    assert each[0].gdp_mu() == pytest.approx(20.0)


@pytest.mark.parametrize(("change", "says"), [
    ({"noise_multiplier": 0.0}, "noise_multiplier"), ({"noise_multiplier": "1"}, "noise_mult"),
    ({"sampling_rate": 0.0}, "sampling_rate"), ({"sampling_rate": 1.1}, "sampling_rate"),
    ({"steps": -1}, "steps = -1"), ({"dataset_size": 0}, "dataset_size = 0"),
    ({"dataset_size": 10.0}, "dataset_size = 10.0"), ({"dataset_size": True}, "dataset_size"),
    ({"dataset_size": 2 * 10**9}, "dataset_size"), ({"largest_batch": 0}, "largest_batch = 0"),
    ({"largest_batch": np.array([3])}, "largest_batch"), ({"largest_batch": -3}, "largest_batch"),
    ({"adjacency": "replace"}, "'add_remove', 'replace_one', 'zero_out'"),
    ({"adjacency": None}, "adjacency = None"),
])
def test_hostile_arguments(change, says):
    usual = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 10, "dataset_size": 100,
             "largest_batch": 20}
    with pytest.raises(ValueError, match=says):
        worst_case.truncated_gaussian(**usual | change)


def test_samples_are_not_sampled_again():
    curve = worst_case.truncated_gaussian(1.0, 0.1, 1, 100, 20)
    with pytest.raises(ValueError, match="samples already"):
        curve.subsample(0.5)
