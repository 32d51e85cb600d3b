"""Replaced records and samples of fixed size: against data sets whose mechanisms are
integrated numerically.
"""

import itertools

import numpy as np
import pytest
import scipy.stats

import jaxpriv
from jaxpriv import worst_case

GRID = np.linspace(-14.0, 14.0, 1401)
CLOSE = 1e-4  # of sums on the grid over what has kinks


def sampled(records, size=None, rate=None):
    """Density on GRID of the noisy (std 1) sum over a random part of the records,
    of fixed size or each with `rate`.
    """
    if size is not None:
        parts = [(1.0, part) for part in itertools.combinations(records, size)]
    else:
        masks = itertools.product([0, 1], repeat=len(records))
        parts = [
            (np.prod([rate if m else 1 - rate for m in mask]),
             [r for r, m in zip(records, mask) if m])
            for mask in masks
        ]
    total = sum(weight for weight, _ in parts)
    return sum(weight / total * scipy.stats.norm.pdf(GRID, sum(part)) for weight, part in parts)


def profile(p, q, eps):
    """delta of one step with density q against p, and of two."""
    step = GRID[1] - GRID[0]
    two = np.maximum(np.outer(q, q) - np.exp(eps) * np.outer(p, p), 0.0).sum() * step**2
    return np.maximum(q - np.exp(eps) * p, 0.0).sum() * step, two


# the record under test comes last; others are the worst for some of these
OTHERS = [(-1.0, -1.0), (1.0, 1.0), (0.0, 0.0), (1.0, -1.0), (0.3, -1.0)]


@pytest.fixture(scope="module")
def two_steps():
    """delta of two replaced steps at rate 1/3 and noise 1, upper bounds."""
    curve = worst_case.subsampled_gaussian(
        1.0, 1 / 3, 2, adjacency="replace_one", sampling="fixed_size"
    )
    return dict(zip((0.1, 0.8), curve.delta_bounds(np.array([0.1, 0.8]))[1]))


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.1, 0.8])
def test_no_data_set_beats_replaced_records(eps, two_steps):
    """Three records, one of them 1 or -1: batches of one without replacement,
    and Poisson sampling at the same rate.
    """
    one = worst_case.subsampled_gaussian(
        1.0, 1 / 3, 1, adjacency="replace_one", sampling="fixed_size"
    )
    largest = np.zeros(2)
    for others in OTHERS:
        for how in ({"size": 1}, {"rate": 1 / 3}):
            p, q = sampled((*others, -1.0), **how), sampled((*others, 1.0), **how)
            found = np.array([profile(p, q, eps), profile(q, p, eps)]).max(0)
            assert np.all(found <= np.array([one.delta(eps), two_steps[eps]]) * (1 + CLOSE))
            largest = np.maximum(largest, found)
    # a batch of one among records -1: one step of it attains the bound
    np.testing.assert_allclose(largest[0], one.delta(eps), rtol=CLOSE)
    assert largest[1] > 0.8 * two_steps[eps]


@pytest.mark.parametrize("eps", [0.1, 0.8])
def test_no_data_set_beats_added_records_in_batches_of_fixed_size(eps):
    """Two records or three, batches of one or two:
    attained where the added record replaces an opposite one.
    """
    largest = np.zeros((2, 2))
    for size in (1, 2):
        curve = worst_case.subsampled_gaussian(1.0, size / 3, 1, sampling="fixed_size")
        curves = [curve, curve.reversed()]
        bounds = np.array([[c.delta(eps), c.compose(2).delta(eps)] for c in curves])
        for others in OTHERS:
            p, q = sampled(others, size=size), sampled((*others, 1.0), size=size)
            found = np.array([profile(p, q, eps), profile(q, p, eps)])
            assert np.all(found <= bounds * (1 + CLOSE))
            # none above -log(1-p)
            largest = np.maximum(
                largest, np.where(bounds > 0, found / np.maximum(bounds, 1e-300), 1.0)
            )
    np.testing.assert_allclose(largest, 1.0, rtol=CLOSE)


@pytest.mark.slow
def test_two_steps_of_the_hull():
    """H2(eps) = int H(eps - l) dP(l), by adaptive quadrature;
    P(L > l) = H(l) - H'(l), with an atom at 0.
    """
    noise, rate, eps = 1.5, 0.2, 0.4
    one = worst_case.subsampled_gaussian(
        noise, rate, 1, adjacency="replace_one", sampling="fixed_size"
    )
    base = worst_case.gaussian(2 / noise)

    def height(loss):
        if loss < 0:
            return 1 - np.exp(loss) * (1 - height(-loss))
        return rate * float(base.delta(np.log1p(np.expm1(loss) / rate)))

    def above(loss):
        """P(L > loss), by the two normal laws."""
        mu, size = 2 / noise, abs(loss)
        threshold = np.log1p(np.expm1(size) / rate) / mu + mu / 2
        p = (1 - rate) * scipy.stats.norm.sf(threshold) + rate * scipy.stats.norm.sf(threshold - mu)
        return p if loss > 0 else 1 - scipy.stats.norm.sf(threshold)

    edges = np.concatenate([-np.geomspace(12, 1e-7, 4000), np.geomspace(1e-7, 12, 4000)])
    tails = np.array([above(loss) for loss in edges])
    middle = 0.5 * (edges[1:] + edges[:-1])
    heights = np.array([height(eps - loss) for loss in middle])
    truth = (
        np.sum((tails[:-1] - tails[1:]) * heights) + tails[-1] + (1 - tails[0]) * height(eps + 12)
    )
    np.testing.assert_allclose(one.delta(eps), height(eps), rtol=CLOSE)
    low, high = one.compose(2).delta_bounds(eps)
    np.testing.assert_allclose([low, high], truth, rtol=2e-5)
    assert low <= one.compose(2).delta(eps) <= high


def test_one_step_of_fixed_size_is_symmetric():
    curve = worst_case.subsampled_gaussian(
        0.8, 0.1, 1, adjacency="replace_one", sampling="fixed_size"
    )
    again = worst_case.gaussian(2 / 0.8).subsample(0.1).symmetric()
    alpha = np.array([1e-4, 0.1, 0.4, 0.9])
    np.testing.assert_allclose(curve(alpha), again(alpha), rtol=1e-6)
    np.testing.assert_allclose(curve.reversed()(alpha), curve(alpha), rtol=1e-12)
    assert curve.symmetric() is curve


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: worst_case.subsampled_gaussian(1.0, 0.1, 5, sampling="shuffle"),
         "shuffled data set are shuffled_gaussian"),
        (lambda: worst_case.subsampled_gaussian(1.0, 0.1, 5, sampling="fixed"),
         "accepted: 'poisson', 'fixed_size'"),
        (lambda: worst_case.subsampled_gaussian(1.0, 0.1, 5, adjacency="add"),
         "accepted: 'add_remove', 'replace_one', 'zero_out'"),
        (lambda: worst_case.gaussian(1.0).subsample(0.1, "replace_one").subsample(0.5),
         "sub-sample the curve"),
        (
            lambda: jaxpriv.compose(
                worst_case.gaussian(1.0).subsample(0.1, "replace_one"),
                worst_case.gaussian(1.0).subsample(0.1),
            ),
            "added or removed and steps for one replaced",
        ),
        (
            lambda: jaxpriv.compose(
                worst_case.gaussian(1.0).subsample(0.1, "replace_one"),
                worst_case.gaussian(1.0).subsample(0.1).compose(3).symmetric(),
            ),
            "added or removed and steps",
        ),
    ],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()
