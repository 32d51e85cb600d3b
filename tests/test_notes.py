"""Notes of certificates and dry runs: what a weaker threat model does not gain,
and what it leaves of the worst case.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from jaxpriv.report import Mechanism, certify
from jaxpriv.report.certificate import notes_of, vacuous
from jaxpriv.report.page import page
from jaxpriv.report.table import render
from jaxpriv.report.train import Job
from jaxpriv.report.training import target_notes, training_certificate
from jaxpriv.training import Privacy
from jaxpriv.training.trainer import Trained
from tests.training.problems import Cheap

MEMBERSHIP = Privacy(mu=1.0, threat_model="membership")


def row(name, factor=1.0):
    return {"adversary": name, "epsilon": 3.0 * factor, "advantage": 0.3 * factor,
            "mu_at_slack": 1.0, "tpr_at_fpr": {"0.1": 0.2 * factor}}


def test_a_row_that_gains_nothing_says_so():
    assert notes_of([row("worst case"), row("membership")], 1e-5) == [
        "membership gains nothing over the worst case here: its numbers are no smaller."]
    assert notes_of([row("worst case"), row("relaxed", 0.99)], 1e-5) == []
    assert notes_of([row("worst case"), {**row("relaxed"), "advantage": 0.1}], 1e-5) == []


def test_a_vacuous_worst_case_is_marked():
    assert vacuous(10.0, 1e-5) == []
    assert "epsilon = 10.01 is above 10 at delta = 1e-05" in vacuous(10.01, 1e-5)[0]
    assert vacuous(None, 1e-5, "membership")[0].startswith(
        "The membership target leaves the worst case vacuous: no epsilon is"
    )


def test_in_the_certificate_of_a_mechanism():
    """Gaussian noise with epsilon = 3 has no notes; with epsilon far above 10 it has one,
    also in the table's sentences.
    """
    assert certify(Mechanism("gaussian", (1.0,), (1.5,)))["notes"] == []
    (note,) = (certificate := certify(Mechanism("gaussian", (1.0,), (0.2,))))["notes"]
    assert note.startswith("The worst case is vacuous here: epsilon = ")
    assert f"Note: {note}" in render(certificate).lines


def plan_of(mu):
    """All threat models have the curve of the worst case, G_mu."""
    return Cheap(200, 40.0, (2.0 / mu,) * 4, 5)


def trained(mu, privacy):
    plan = plan_of(mu)
    return Trained(None, privacy, plan, 4, 4, 1.0, [], True, np.zeros(0), np.zeros(0, bool), None)


@pytest.mark.parametrize(
    ("mu", "target", "said"),
    [
        (0.5, MEMBERSHIP, ["The membership target gains nothing over the worst case here: "
                           "the worst case meets it, too."]),
        (5.0, MEMBERSHIP, ["The membership target leaves the worst case vacuous: epsilon = "]),
        (5.0, Privacy(mu=6.0, threat_model="relaxed"),
         ["The relaxed target gains nothing", "The relaxed target leaves"]),
        (0.5, Privacy(mu=1.0), []),
        (1.5, MEMBERSHIP, []),
    ],
)
def test_of_a_target(mu, target, said):
    """In the certificate of a training, its page, and its dry run."""
    certificate = training_certificate(trained(mu, target), None, None)
    own = [note for note in certificate["notes"] if "target" in note]
    assert len(own) == len(said)
    for note, start in zip(own, said):
        assert note.startswith(start)
        assert f"Note: {note}" in page(certificate)
    assert sum("vacuous" in note for note in certificate["notes"]) == (mu == 5.0)
    told = Job.spending(SimpleNamespace(plan=plan_of(mu), privacy=target))
    assert told.get("note", "") == " ".join(own)


def test_a_dry_run_marks_a_vacuous_worst_case_of_its_own_target():
    told = Job.spending(SimpleNamespace(plan=plan_of(5.0), privacy=Privacy(mu=5.0)))
    assert told["note"].startswith("The worst case is vacuous here")


def test_target_notes_without_an_epsilon():
    assert "no epsilon is certified" in target_notes(plan_of(5.0), MEMBERSHIP, None)[0]
