"""By NumPy: frequencies that turn out to be many go on by more blocks at a time."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import _stored as stored
from jaxpriv.composition import frequencies
from jaxpriv.composition.blocks import Several
from jaxpriv.composition.sampled_line import SampledLine
from tests.slips import check_is_red

W, R = jaxpriv.worst_case, jaxpriv.relaxed


@pytest.fixture(autouse=True)
def _frequencies_only(monkeypatch):
    """Few steps are followed by panels, which need no frequencies."""
    monkeypatch.setattr("jaxpriv.composition.composed.followed", lambda *_: None)


LONG = {  # curves whose lines are, and eps
    "few steps": (W.subsampled_gaussian(1.0, 1e-4, 10), 3e-4),
    "beside noise": (jaxpriv.compose(W.subsampled_gaussian(1.0, 1e-3, 3), W.gaussian(1e-3)), 1e-3),
    "relaxed": (R.subsampled_gaussian(1.0, 0.3, 3, 1), 0.3),
    "at any rate": (W.subsampled_gaussian(1.0, np.array([1.0, 1e-3]), 3), 2e-3),
}


def turns(monkeypatch):
    """How many blocks lines go on by."""
    found = []
    true = frequencies.summed

    def counted(kind, a, eps, y, *rest):
        found.append(len(y) // frequencies.BLOCK)
        return true(kind, a, eps, y, *rest)

    monkeypatch.setattr(frequencies, "summed", counted)
    return found


def check(name):
    curve, eps = LONG[name]
    stored.forget()
    wide = curve.log_delta(eps), curve.log_delta_bounds(eps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frequencies, "LONG", np.inf)
        stored.forget()
        narrow = curve.log_delta(eps), curve.log_delta_bounds(eps)
    np.testing.assert_allclose(wide[0], narrow[0], rtol=1e-12)
    np.testing.assert_allclose(wide[1], narrow[1], rtol=1e-11)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "beside noise" else pytest.mark.slow)
             for name in LONG])
def test_say_the_same(name, monkeypatch):
    found = turns(monkeypatch)
    check(name)
    assert {16, 64} <= set(found)


@pytest.mark.slow
def test_slip_who_goes_on_as_before(monkeypatch):
    """Rows for more blocks, and a step that is not as long."""
    true = SampledLine.wider

    def wrong(self, times):
        found = true(self, times)
        return type(found)(found.weight, found.first, found.turns, found.rows, self.turn,
                           found.always)

    check_is_red(monkeypatch, SampledLine, "wider", wrong, lambda: check("few steps"))


def test_slip_several_of_the_same(monkeypatch):
    true = Several.advance

    def wrong(self, state):
        return state, true(self, state)[1]

    check_is_red(monkeypatch, Several, "advance", wrong, lambda: check("beside noise"))
