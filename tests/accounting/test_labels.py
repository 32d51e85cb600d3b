"""Lower bounds by labels against outcomes that are enumerated, step by step."""

import numpy as np
import pytest

from jaxpriv import worst_case
from jaxpriv.composition import labels
from tests.slips import check_is_red


def bound(curve, eps, size):
    """`labels.lower` of a composition with scalar parameters, forward."""
    entry = curve.experiment.aligned((), np.float64)
    return labels.lower(entry.steps, entry.tables(), bool(entry.flipped), np.float64(eps), size)


def outcomes(epsilon, categories, rate, reverse):
    """(losses, masses with the record) of a report that is sub-sampled: three outcomes."""
    own = np.exp(epsilon) / (np.exp(epsilon) + categories - 1)
    other = own * np.exp(-epsilon)
    null = np.array([own, 1 - own - other, other])
    alternative = (1 - rate) * null + rate * null[::-1]
    if reverse:
        null, alternative = alternative, null
    return np.log(alternative / null), alternative


def truth(epsilon, categories, rate, steps, reverse, eps):
    """log delta by sums over all outcomes of all steps."""
    losses, masses = outcomes(epsilon, categories, rate, reverse)
    total, weights = np.zeros(1), np.ones(1)
    for _ in range(steps):
        total = (total[:, None] + losses).ravel()
        weights = (weights[:, None] * masses).ravel()
    gap = total - eps
    return np.log(np.sum(np.where(gap > 0, weights * -np.expm1(-np.maximum(gap, 0.0)), 0.0)))


def settings():
    rng = np.random.default_rng(7)
    for _ in range(25):
        yield (np.exp(rng.uniform(-2, 1.2)), int(rng.integers(3, 9)), rng.uniform(0.05, 0.9),
               int(rng.integers(2, 9)), bool(rng.integers(2)), rng.uniform(-0.3, 0.8))  # fmt: skip


def check_never_above():
    seen = 0
    for epsilon, categories, rate, steps, reverse, share in settings():
        curve = worst_case.k_ary_randomized_response(epsilon, categories).subsample(rate)
        curve = (curve.reversed() if reverse else curve).compose(steps)
        losses, _ = outcomes(epsilon, categories, rate, reverse)
        eps = share * steps * losses.max()
        exact = truth(epsilon, categories, rate, steps, reverse, eps)
        for size in (4096, 16384):
            found = bound(curve, eps, size)
            assert found <= exact + 1e-12, (epsilon, categories, rate, steps, reverse, eps)
        seen += exact - found < 1e-4
    assert seen >= 22  # and it is near


def test_never_above_and_near():
    check_never_above()


@pytest.mark.parametrize("reverse", [False, True])
def test_noise_on_whole_numbers_is_narrow(reverse):
    curve = worst_case.discrete_gaussian(1.0).subsample(0.1)
    curve = (curve.reversed() if reverse else curve).compose(50)
    low, high = curve.log_delta_bounds(0.8)
    assert high - low < 2e-6
    assert bound(curve, 0.8, 4096) <= high
    assert curve.log_delta(0.8) == pytest.approx(low, abs=2e-6)


def test_second_order():
    """Four times as many points, a tenth of the width at most."""
    curve = worst_case.discrete_gaussian(1.0).subsample(0.1).compose(50)
    exact = curve.log_delta(1.0)
    widths = [exact - bound(curve, 1.0, size) for size in (4096, 16384, 65536)]
    assert 0 < widths[1] < 0.1 * widths[0]
    assert 0 < widths[2] < 0.1 * widths[1]


def of_the_upper_end(true):
    """Losses of cells taken for a little more than they are."""

    def wrong(*args):
        origin, first, label, log_p, ahead, lost = true(*args)
        return origin, first, label, log_p, ahead - 1e-4, lost

    return wrong


def test_slip_is_seen(monkeypatch):
    check_is_red(
        monkeypatch, labels, "_labelled", of_the_upper_end(labels._labelled), check_never_above
    )
