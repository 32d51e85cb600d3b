"""A null record, whose gradient is zero, in the place of a record."""

import itertools

import numpy as np
import pytest
import scipy.stats

from jaxpriv import worst_case

GRID = np.linspace(-14.0, 14.0, 2801)


def test_poisson_sampling_is_as_for_added_records():
    here = worst_case.subsampled_gaussian(1.0, 0.01, 1000, adjacency="zero_out")
    there = worst_case.subsampled_gaussian(1.0, 0.01, 1000)
    for a, b in ((here, there), (here.reversed(), there.reversed())):
        assert a.epsilon_bounds(1e-5) == b.epsilon_bounds(1e-5)
    one = worst_case.gaussian(1.0).subsample(0.2, "zero_out")
    assert one.delta(0.3) == worst_case.gaussian(1.0).subsample(0.2).delta(0.3)


def sampled(records, size):
    parts = list(itertools.combinations(records, size))
    return sum(scipy.stats.norm.pdf(GRID, sum(part)) for part in parts) / len(parts)


def test_samples_of_fixed_size():
    """A null record takes a place that another one might have had: the bound of replaced records
    holds, and the pair of one norm, which would be tempting, does not.
    """
    beaten = False
    for size, eps in itertools.product((1, 2), (0.1, 1.0, 2.5)):
        bound = worst_case.subsampled_gaussian(
            1.0, size / 3, 1, adjacency="zero_out", sampling="fixed_size"
        ).delta(eps)
        tempting = worst_case.gaussian(1.0).subsample(size / 3).symmetric().delta(eps)
        for others in itertools.product((-1.0, 0.0, 1.0), repeat=2):
            p, q = sampled((*others, 0.0), size), sampled((*others, 1.0), size)
            found = max(
                np.maximum(one - np.exp(eps) * other, 0.0).sum() * (GRID[1] - GRID[0])
                for one, other in ((p, q), (q, p))
            )
            assert found <= bound * (1 + 1e-4)
            beaten |= bool(found > 1.1 * tempting)
    assert beaten


def test_fixed_size_is_its_own_reverse():
    curve = worst_case.subsampled_gaussian(
        1.0, 0.1, 1, adjacency="zero_out", sampling="fixed_size")
    np.testing.assert_allclose(curve.reversed()([0.1, 0.6]), curve([0.1, 0.6]), rtol=1e-12)


@pytest.mark.parametrize("adjacency", ["zero", "", None, 1, "ZERO_OUT", ["zero_out"]])
def test_other_words_are_refused(adjacency):
    for call in (
        lambda: worst_case.subsampled_gaussian(1.0, 0.1, 5, adjacency=adjacency),
        lambda: worst_case.gaussian(1.0).subsample(0.1, adjacency),
    ):
        with pytest.raises(ValueError, match="accepted: 'add_remove', 'replace_one', 'zero_out'"):
            call()
