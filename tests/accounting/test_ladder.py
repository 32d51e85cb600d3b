"""Lines at fixed places: every question is served, and none sees what was asked before it."""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import _stored as stored
from jaxpriv import worst_case
from jaxpriv.composition import enclosure, ladder
from jaxpriv.composition.line import Term
from jaxpriv.composition.pieces import term_of
from tests.slips import check_is_red

KINDS = {
    "many": worst_case.subsampled_gaussian(1.0, 0.01, 1000),
    "rare": worst_case.subsampled_gaussian(0.7, 1e-4, 2000),
    "few": worst_case.subsampled_gaussian(2.0, 1e-3, 3),
    "loud": worst_case.subsampled_gaussian(0.3, 0.05, 40),
    "normal": worst_case.gaussian(2.0),
}
PIPELINE = jaxpriv.compose(KINDS["rare"], worst_case.laplace(0.3))


def terms_of(name):
    (step,) = jaxpriv.compose(KINDS[name], worst_case.laplace(0.1)).experiment.steps[:1]
    term = term_of(step.experiment, -1)
    return (Term(term.transform, step.count),)


def check_all_are_served(name="many"):
    """By a line that knows them: from 0 to where delta is e^-40, each of them once."""
    terms = terms_of(name)
    far = KINDS[name].epsilon(1e-17)
    eps = np.random.default_rng(1).uniform(0.0, 1.0, 200) ** 3 * far
    seen = np.zeros(eps.shape, int)
    for index, line in ladder.ladder_of(terms, enclosure._line_of_many).serving(eps):
        lower, upper, _ = line.brackets(eps[index])
        assert np.all(upper - lower < 1e-5) or not line.useful
        seen[index] += 1
    np.testing.assert_array_equal(seen, 1)


@pytest.mark.parametrize("name", KINDS)
def test_all_are_served(name):
    check_all_are_served(name)


def only_near_ones(self, eps, real=ladder.Ladder.serving):
    """Without those whose line is too far away."""
    yield from list(real(self, eps))[:-1]


def test_slips_are_seen(monkeypatch):
    check_is_red(monkeypatch, ladder.Ladder, "serving", only_near_ones, check_all_are_served)
    # with so many questions to a line it matters
    monkeypatch.setattr(ladder, "_STEP", 4.0)
    check_far_lines_are_not_used()
    check_is_red(monkeypatch, ladder, "_SHARE", 40.0, check_far_lines_are_not_used)


def check_far_lines_are_not_used():
    eps = np.linspace(0.0, 3.0, 50)
    for index, line in ladder.Ladder(terms_of("many"), enclosure._line_of_many).serving(eps):
        assert np.all(np.abs(eps[index] - line.center) <= line.spread)


def test_far_lines_are_not_used():
    check_far_lines_are_not_used()


@pytest.mark.slow
def test_no_answer_depends_on_what_was_asked_before():
    stored.forget()
    fresh = PIPELINE.delta_bounds(0.4), PIPELINE.epsilon_bounds(1e-7)
    stored.forget()
    PIPELINE.delta_bounds(np.array([0.05, 0.3, 0.41, 0.9]))
    assert (PIPELINE.delta_bounds(0.4), PIPELINE.epsilon_bounds(1e-7)) == fresh


@pytest.mark.slow
def test_questions_share_lines(monkeypatch):
    """A second level costs hardly any."""
    placed = []
    real = enclosure._line_of_many
    monkeypatch.setattr(enclosure, "_line_of_many", lambda *at: placed.append(at) or real(*at))
    stored.forget()
    PIPELINE.beta_bounds(0.2)
    first = len(placed)
    PIPELINE.beta_bounds(0.21)
    assert first > 0
    assert len(placed) <= 1.2 * first
