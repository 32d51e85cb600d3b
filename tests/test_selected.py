"""The certificate of a selection: its numbers are the selection's, nothing in it is of one training
alone, and whoever changes a digit is found.
"""

import copy
import json

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

from jaxpriv import accounting, training
from jaxpriv.report import certify_training, read_certificate, selected
from jaxpriv.report import verify as again
from jaxpriv.training.selection import Selection
from tests.slips import check_is_red
from tests.training.test_best import exact

TRIES = accounting.NegativeBinomialTries(4.0)
NORM = scipy.stats.norm
NOISES = {"low": 1.0, "high": 1.5}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """(folder, the `Best`)."""
    folder = tmp_path_factory.mktemp("run")
    x = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)

    def trainer_of(name):
        return training.DPTrainer(
            lambda w, row, key: jnp.sum((w - row) ** 2), jnp.zeros(2), optax.sgd(0.1),
            training.Privacy(mu=10.0), batch_size=100, steps=1, noise_multiplier=NOISES[name])

    found = training.best_of(trainer_of, list(NOISES), x, tries=TRIES, score=lambda w: 0.0,
                             folder=folder, evaluate=lambda w: {"length": jnp.sum(w**2)},
                             then=lambda best: certify_training(best.trained, folder))
    return folder, found


@pytest.fixture
def certificate(written):
    return read_certificate(written[0] / "certificate.json")


def failed(certificate):
    return [check["where"] for check in again(certificate)["checks"] if not check["holds"]]


@pytest.mark.slow
def test_numbers(written, certificate):
    _, best = written
    (row,) = certificate["adversaries"]
    assert row["adversary"] == "worst case"
    assert row["epsilon"] == best.epsilon == best.trained.epsilon
    told = certificate["selection"]
    assert told["epsilon_of_one"] == best.selection.epsilon_of_one < row["epsilon"]
    assert told["tries"] == {"law": "geometric", "mean": 4.0}
    assert [each["noise_multiplier"] for each in told["mechanisms"]] == [1.0, 1.5]
    assert "4 on average (geometric law)" in told["sentence"]
    assert "ε ≤ 5.745" in told["sentence"]
    assert "instead of the ε ≤ 4.378 of one" in told["sentence"]


def power(fpr, mu):
    """Of telling by a threshold whether the largest of K noisy numbers is shifted by mu."""
    gamma = TRIES.gamma
    stays = (1 - fpr) / (gamma + (1 - gamma) * (1 - fpr))  # one number below it, so that all are
    below = NORM.cdf(NORM.ppf(stays) - mu)
    return 1 - gamma * below / (1 - (1 - gamma) * below)


def check_row():
    """Against the largest of K noisy numbers: every delta, TPR and advantage is above it."""
    plan = training.Plan(100, 100, (1.0,), 2)
    row = selected.of_selection(Selection(TRIES, (plan,)), plan)["adversaries"][0]
    for at, delta in row["profile"].items():
        assert exact(float(at), 1.0, TRIES) <= delta + 1e-9
    assert row["advantage"] == row["profile"]["0"]
    assert exact(row["epsilon"], 1.0, TRIES) <= 1e-5
    for fpr, tpr in row["tpr_at_fpr"].items():
        assert power(float(fpr), 1.0) <= tpr < 1.0
    assert row["epsilon_lower"] <= row["epsilon"]


@pytest.mark.slow
def test_row():
    check_row()


@pytest.mark.slow
def test_row_of_one_training_is_seen(monkeypatch):
    plan = training.Plan(100, 100, (1.0,), 2)
    points = [(plan.profile().epsilon(delta)[1], delta) for delta in (0.1, 1e-2, 1e-3, 1e-5, 1e-6)]
    check_is_red(monkeypatch, Selection, "points", points, check_row)


def test_nothing_is_of_one_training(written, certificate):
    """No weaker adversary, no audit, no epsilon on the way, no loader that shuffles."""
    folder, best = written
    assert certificate["audit"] is None
    assert certificate["if_shuffled"] is None
    assert all("epsilon" not in row for row in certificate["history"])
    assert "epsilon" not in (folder / "metrics.jsonl").read_text()
    assert any("stands alone" in note for note in certificate["notes"])
    assert certificate["target"].endswith("of each training")
    one = f"{best.selection.epsilon_of_one:.4g}"
    for name in ("certificate.md", "certificate.html"):
        text = (folder / name).read_text()
        assert certificate["selection"]["sentence"] in text
        assert "canaries audit one training" in text
        guarantee = next(line for line in text.splitlines() if "-differentially private" in line)
        assert one not in guarantee.split("This is the best")[0]
        for row in ("membership", "relaxed"):
            assert f">{row}<" not in text
            assert f"| {row} |" not in text


def test_verified(certificate):
    found = again(certificate)
    assert found["holds"]
    seen = {check["where"] for check in found["checks"]}
    assert {"worst case: epsilon", "selection: epsilon_of_one", "selection: sentence"} <= seen


# what is told, each by itself, and what that is computed from
TOLD = [
    (("adversaries", 0, "epsilon"), lambda e: e * (1 - 1e-7), "worst case: epsilon"),
    (("adversaries", 0, "advantage"), lambda a: 0.9 * a, "worst case: advantage"),
    (("adversaries", 0, "profile", "0"), lambda d: 0.9 * d, "worst case: delta at epsilon 0"),
    (("adversaries", 0, "epsilon_lower"), 5.0, "worst case: epsilon_lower"),
    (("adversaries", 0, "assumption"), "None.", "worst case: assumption"),
    (("selection", "epsilon_of_one"), 1.0, "selection: epsilon_of_one"),
    (("selection", "sentence"), "For nothing.", "selection: sentence"),
    (("noise_delta",), 0.0, "noise_delta"),
    (("assumptions",), [], "assumptions"),
]
GIVEN = [
    (("selection", "tries", "mean"), 5.0, "worst case: epsilon"),
    (("selection", "tries", "law"), "poisson", "selection: sentence"),
    (("selection", "mechanisms", 0, "noise_multiplier"), 0.9, "worst case: epsilon"),
    (("mechanism", "noise_multiplier"), 3.0, "mechanism"),
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [TOLD, *([change] for change in GIVEN)],
                         ids=lambda changes: " ".join(map(str, changes[0][0])))
def test_changes_are_found(certificate, changes):
    """Of what is told those changes and no others."""
    changed = copy.deepcopy(certificate)
    for path, value, _ in changes:
        table = changed
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value(table[path[-1]]) if callable(value) else value
    found = failed(changed)
    assert {"digest", *(where for _, _, where in changes)} <= set(found)
    assert changes is not TOLD or len(found) == 1 + len(TOLD), found


def test_a_selection_sold_as_one_training(certificate):
    """And the other way round: without its table the rows of weaker adversaries are missing."""
    del certificate["selection"]
    assert "relaxed" in failed(certificate)


@pytest.mark.parametrize(("selection", "words"), [
    ([], "is none of a certificate"), ({"tries": {}}, "is none of a certificate: 'mechanisms'"),
    ({"tries": {"law": "best", "mean": 4}, "mechanisms": []}, "tries = 'best'"),
    ({"tries": {"law": "geometric", "mean": 4}, "mechanisms": []}, "no candidates"),
    ({"tries": {"law": "geometric", "mean": 4}, "mechanisms": [{}]}, "'steps'")])
def test_no_selection(certificate, selection, words):
    with pytest.raises(ValueError, match=words):
        again({**certificate, "selection": selection})


def test_a_law_that_is_none(certificate):
    certificate["selection"]["tries"]["mean"] = 0.5
    with pytest.raises(ValueError, match=r"mean = 0\.5"):
        again(certificate)


def test_without_any_guarantee():
    """Hardly any noise: infinity is said, and no number in its place."""
    plan = training.Plan(100, 100, (1e-3,), 2)
    found = json.loads(json.dumps(selected.of_selection(Selection(TRIES, (plan,)), plan)))
    row = found["adversaries"][0]
    assert row["epsilon"] is None
    assert row["mu_at_slack"] is None
    assert row["advantage"] == 1.0
    assert found["selection"]["epsilon_of_one"] is None
    assert "ε ≤ ∞" in found["selection"]["sentence"]
