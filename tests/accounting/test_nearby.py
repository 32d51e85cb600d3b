"""Many questions to one composition share lines; answers are those of one question at a time."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import relaxed, worst_case
from jaxpriv.composition import enclosure, kept, nearby, roots
from jaxpriv.composition.inversion import invert
from jaxpriv.composition.line import POWER
from tests.slips import check_is_red

CURVES = {
    "dp-sgd": lambda: worst_case.subsampled_gaussian(1.0, 0.01, 1000),
    "few steps": lambda: worst_case.subsampled_gaussian(1.0, 0.1, 10),
    "users": lambda: worst_case.user_level(0.9, 0.08, 10, 2),
    "two kinds": lambda: jaxpriv.compose(worst_case.subsampled_gaussian(1.0, 0.01, 1000),
                                         worst_case.gaussian(0.3)),
    "symmetric": lambda: worst_case.subsampled_gaussian(0.8, 0.02, 300).symmetric(),
}
EPS = np.concatenate([[-40.0, -3.0], np.linspace(-0.75, 2.0, 120), [4.0, 30.0]])
ALPHA = np.concatenate([[0.0, 1e-12], np.linspace(0.001, 0.999, 60), [0.5, 1.0]])


def check_values(name, method):
    curve, at = CURVES[name](), EPS if method == "log_delta" else ALPHA
    together = getattr(curve, method)(at)
    alone = np.array([getattr(curve, method)(float(x)) for x in at])
    same = np.isfinite(alone)
    assert np.array_equal(same, np.isfinite(together))
    np.testing.assert_allclose(together[same], alone[same], rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("method", ["log_delta", "slope", "power"])
def test_values_are_those_of_one_question(name, method):
    check_values(name, method)


def check_bounds(name):
    curve = CURVES[name]()
    low, high = curve.log_delta_bounds(EPS)
    for eps, lower, upper in zip(EPS, low, high):
        own_low, own_high = curve.log_delta_bounds(float(eps))
        assert lower <= own_high
        assert own_low <= upper
        if own_high > -60:
            assert upper - lower <= 4 * (own_high - own_low) + 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_bounds_hold_and_are_as_narrow(name):
    check_bounds(name)


def lines(monkeypatch, ask):
    placed = []
    true = kept.Kept.__init__

    def counted(self, *arguments):
        placed.append(1)
        true(self, *arguments)

    monkeypatch.setattr(kept.Kept, "__init__", counted)
    ask()
    monkeypatch.undo()
    return len(placed)


def test_lines_serve_several(monkeypatch):
    curve = CURVES["dp-sgd"]()
    eps, alpha = np.linspace(0.0, 3.0, 100), np.linspace(0.01, 0.99, 100)
    assert lines(monkeypatch, lambda: curve.delta(eps)) < 15
    assert lines(monkeypatch, lambda: curve.log_delta_bounds(eps)) < 15
    assert lines(monkeypatch, lambda: curve.slope(alpha)) < 15
    assert lines(monkeypatch, lambda: curve.delta(1e6 * eps)) == 0  # far apart: side by side


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-sgd", "few steps", "users"])
def test_auc_is_one_integral(name):
    """P(L > L'), L and L' the losses of both hypotheses: the power at 0 of the steps and the same
    steps exchanged, together."""
    curve = CURVES[name]()
    one = curve.experiment.aligned((), np.float64)
    terms = (*one._directed(np.asarray(False)), *one._directed(np.asarray(True)))
    with np.errstate(all="ignore"):
        logs = invert(terms, np.asarray(0.0), POWER)
    assert logs.followed
    assert curve.auc() == pytest.approx(float(np.exp(logs.result)), rel=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_spoils_nothing_else(value):
    curve, eps = CURVES["dp-sgd"](), np.linspace(0.0, 2.0, 20)
    with_it = np.append(eps, value)
    np.testing.assert_allclose(curve.delta(with_it)[:-1], curve.delta(eps), rtol=1e-11)


def test_several_compositions_at_once():
    noises, eps = np.array([[0.9], [1.0], [1.4]]), np.linspace(0.1, 2.0, 12)
    together = worst_case.subsampled_gaussian(noises, 0.01, 500).delta(eps)
    for noise, row in zip(noises[:, 0], together):
        own = worst_case.subsampled_gaussian(noise, 0.01, 500)
        np.testing.assert_allclose(row, [own.delta(float(e)) for e in eps], rtol=1e-11)


def endless(eps, place):
    """As if every line served all that lies beyond it."""
    order = np.argsort(eps)
    yield order, place(eps[order[0]])


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    check_is_red(monkeypatch, nearby, "served", endless,
                 lambda: check_values("dp-sgd", "log_delta"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enclosure, "_WIDER", np.inf)
        check_is_red(monkeypatch, enclosure, "served", endless, lambda: check_bounds("dp-sgd"))
        check_is_red(monkeypatch, roots, "_NEAR", 0.0, lambda: test_lines_serve_several(patch))


@pytest.mark.slow
def test_many_levels_on_lines_where_rounding_shows(monkeypatch):
    """Of an added record, next to its largest loss: a line of others saw only rounding there, and
    levels were 1e-3 off, where one of its own sees all digits.
    """
    monkeypatch.setattr("jaxpriv.composition.composed.followed", lambda *_: None)
    curve = jaxpriv.compose(worst_case.gaussian(3.39).subsample(0.0227).compose(12),
                            relaxed.gaussian(0.113, 1).subsample(0.524).compose(2)).reversed()
    levels = np.concatenate([10.0 ** np.arange(-7, 0), np.arange(0.2, 0.95, 0.1), [1e-8, 0.99]])
    many = curve.power(levels)
    for k in (3, 4, 5, 8, 12):
        low, high = (1 - end for end in curve.beta_bounds(levels[k])[::-1])
        assert low * (1 - 1e-5) <= many[k] <= high * (1 + 1e-5)


def check_nothing_is_no_root():
    """A line that was placed where all losses are small saw nothing at all at the first step of its
    search, and that was taken for the answer: a slope of 0.39, and a type II error of 0.
    """
    curve = jaxpriv.compose(worst_case.user_level(2.76, 0.0151, 13, 2),
                            relaxed.gaussian(2.64, 1).subsample(0.0343).compose(5)).reversed()
    low, high = curve.beta_bounds(0.815)
    assert low * (1 - 1e-9) <= curve(0.815) <= high * (1 + 1e-9)


def test_nothing_is_no_root():
    check_nothing_is_no_root()


def test_slip_nothing_is_a_root(monkeypatch):
    monkeypatch.setattr("jaxpriv.composition.composed.followed", lambda *_: None)
    true = kept.Kept.newton

    def wrong(self, target, start=None):
        eps, blur, serves, logs = true(self, target, start)
        return eps, blur, serves | ~np.isfinite(logs.result), logs

    check_is_red(monkeypatch, kept.Kept, "newton", wrong, check_nothing_is_no_root)
