"""Frequencies that were followed for an error bound only are not added up again at every eps;
what they may add is.
"""

import numpy as np
import pytest

from jaxpriv.composition import enclosure, kept
from jaxpriv.composition.line import DELTA, Term, bound_far
from jaxpriv.composition.margins import _LITTLE
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from tests.slips import check_is_red

TERMS = [Term(SubsampledGaussianTransform(np.array([[1.0]]), np.array([[0.01]]),
                                          np.zeros((1, 1), bool)), np.array([[1000.0]]))]
PLACED = np.array([2.0])
EPS = np.array([[1.9], [2.0], [2.1]])


def spectrum(counts):
    with pytest.MonkeyPatch.context() as patch, np.errstate(divide="ignore"):
        patch.setattr(kept, "_COUNTS", counts)
        return enclosure.Spectrum(TERMS, PLACED, DELTA, None)


def test_frequencies_that_count():
    """A tenth of those that are followed, and as narrow."""
    some, every = spectrum(kept._COUNTS), spectrum(0.0)
    found, whole = some.bracket(EPS), every.bracket(EPS)
    for mine, others in ((found.lower, whole.lower), (found.upper, whole.upper)):
        np.testing.assert_allclose(mine, others, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.rate, whole.rate, rtol=1e-13)
    count = len(some.kept._blocks[0])
    assert 0 < count < len(every.kept._blocks[0]) / 5
    assert np.all(some.kept.reach == every.kept.reach)


@pytest.mark.parametrize("counts", [1e-12, 1e-6, 1e-3])
def test_what_is_left_out_is_an_error(counts):
    """Were more left out, brackets would be wide, and right."""
    found, whole = spectrum(counts).bracket(EPS), spectrum(0.0).bracket(EPS)
    middle = (whole.lower + whole.upper) / 2
    assert np.all((found.lower <= middle) & (middle <= found.upper))
    assert np.all(found.upper - found.lower >= whole.upper - whole.lower)


def test_slip(monkeypatch):
    true = kept.Kept._that_count

    def forgetful(self, *columns):
        count = true(self, *columns)
        self._left_out = 0.0
        return count

    check_is_red(monkeypatch, kept.Kept, "_that_count", forgetful,
                 lambda: test_what_is_left_out_is_an_error(1e-6))


def test_decayed_where_it_is_said():
    """The bound at the frequency that is found is small enough, and not much further."""
    margins = spectrum(kept._COUNTS)._margins
    line = margins.line

    def excess(y):
        return np.log(y) - margins.log_decay(y) - np.log(line.d) - _LITTLE

    assert excess(margins.stop) > 0
    assert excess(margins.stop * np.exp(-20 / 8**3 - 1e-9)) <= 0


@pytest.mark.parametrize("setting", [(1.0, 0.01, 1000.0), (0.6, 0.002, 2000.0), (5.0, 0.1, 100.0)])
def test_far_aliases_need_fewer_digits(setting):
    """The bound of K beyond the line is no smaller for having fewer nodes."""
    noise, rate, steps = (np.array([[number]]) for number in setting)
    term = Term(SubsampledGaussianTransform(1 / noise, rate, np.zeros((1, 1), bool)), steps)
    for c in (1.0, 10.0, 100.0):
        tilt = term.transform.tilted(np.array([[c]]))
        value, bound = (steps * tilt.value)[0, 0], (2 * steps * tilt.line_error())[0, 0]
        found = bound_far([term], np.array([c]))
        assert value * (1 - 1e-12) <= found[0] <= (value + bound) * (1 + 1e-12) + 1e-6
