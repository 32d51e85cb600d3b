"""Certificates computed again: what holds, what was changed, and what is none."""

import copy
import json

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import cli
from jaxpriv.report import (
    DpSgd,
    Mechanism,
    Pipeline,
    certify,
    certify_training,
    read_certificate,
    verification,
)
from jaxpriv.report import verify as again
from jaxpriv.report.certificate import gains_nothing
from jaxpriv.report.page import write_certificate
from jaxpriv.training import DPTrainer, Privacy
from tests.slips import check_is_red

MECHANISMS = {
    "gaussian": Mechanism("gaussian", (1.0, 2.0), (3.0, 3.0), dim=4),
    "laplace": Mechanism("laplace", (1.0,), (1.0,)),
    "dp-sgd": DpSgd(dataset_size=50_000, batch_size=500, epochs=1, noise_multiplier=1.0),
    "pipeline": Pipeline([{"mechanism": "gaussian", "mu": 0.5},
                          {"mechanism": "gaussian", "mu": 0.25, "times": 4}], group=2),
    "told": Mechanism("gaussian", (1.0,), (1e-3,)),
}  # fmt: skip


def failed(certificate):
    return [check["where"] for check in again(certificate)["checks"] if not check["holds"]]


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    x = np.random.default_rng(0).normal(size=(200, 1)).astype(np.float32)
    trainer = DPTrainer(lambda w, row, key: jnp.sum((w - row) ** 2), jnp.zeros(1), optax.sgd(0.1),
                        Privacy(mu=1.0), batch_size=200, steps=1)  # fmt: skip
    certify_training(trainer.fit(x), folder)
    return folder / "certificate.json"


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_was_certified_holds(name, tmp_path):
    certificate = certify(MECHANISMS[name], 1e-5)
    assert failed(certificate) == []
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate))
    assert failed(read_certificate(path)) == []


@pytest.mark.slow
def test_of_a_training(training, capsys):
    certificate = read_certificate(training)
    found = again(certificate)
    assert found["holds"]
    assert "what the audit measured" in found["taken"]
    seen = {check["where"] for check in found["checks"]}
    assert {"worst case: epsilon", "relaxed: advantage", "membership: TPR at FPR 0.1"} <= seen
    assert {"noise_delta", "mechanism: steps", "digest"} <= seen
    del certificate["digest"]
    assert failed({**certificate, "assumptions": certificate["assumptions"][1:]}) == ["assumptions"]
    assert failed({**certificate, "private": False}) == ["assumptions"]
    assert not again(certify_like(certificate, certificate["steps_counted"] - 1))["holds"]
    assert cli.main(["verify", str(training)]) == 0
    assert "Not computed again: how many steps the training's ledger counts" in " ".join(
        capsys.readouterr().out.split()
    )


def certify_like(certificate, steps):
    """The numbers of the first steps, sold as those of the whole training."""
    plan = verification._mechanism(certificate["mechanism"], certificate["delta"])
    return {**certificate, **json.loads(json.dumps(verification._of_training(plan, steps)))}


def changed(certificate, path, value):
    certificate = copy.deepcopy(certificate)
    table = certificate
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value(table[path[-1]]) if callable(value) else value
    return certificate


@pytest.fixture(scope="module")
def certificates():
    """Of two mechanisms; whoever verifies them computes what one mechanism tells once."""
    told = {}

    def once(mechanism, delta):
        key = repr(mechanism), delta
        if key not in told:
            told[key] = certify(mechanism, delta)
        return copy.deepcopy(told[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "certify", once)
        yield {name: certify(MECHANISMS[name], 1e-5) for name in ("gaussian", "dp-sgd")}


@pytest.mark.parametrize(("name", "path", "value", "where"), [
    ("gaussian", ("adversaries", 0, "epsilon"), lambda e: 0.99 * e, "worst case: epsilon"),
    ("gaussian", ("adversaries", 0, "epsilon"), lambda e: e * (1 - 1e-8), "worst case: epsilon"),
    ("gaussian", ("adversaries", 0, "epsilon_lower"), lambda e: 1.01 * e,
     "worst case: epsilon_lower"),
    ("gaussian", ("adversaries", 0, "epsilon"), float("nan"), "worst case: epsilon"),
    ("gaussian", ("adversaries", 0, "epsilon"), "none", "worst case: epsilon"),
    ("gaussian", ("adversaries", 1, "advantage"), lambda a: a / 2, "relaxed, dim 1: advantage"),
    ("gaussian", ("adversaries", 1, "mu_at_slack"), 0.0, "relaxed, dim 1: mu_at_slack"),
    ("gaussian", ("adversaries", 0, "tpr_at_fpr", "0.001"), 0.001, "worst case: TPR at FPR 0.001"),
    ("gaussian", ("adversaries", 0, "tpr_at_fpr"), {}, "worst case: TPR at FPR 0.001"),
    ("gaussian", ("adversaries", 0, "tpr_at_fpr", "0.01"), 0.0, "worst case: TPR at FPR 0.01"),
    ("gaussian", ("adversaries", 0, "profile", "0"), lambda d: 0.99 * d,
     "worst case: delta at epsilon 0"),
    ("gaussian", ("adversaries", 1, "profile"), None, "relaxed, dim 1: delta at epsilon 0"),
    ("gaussian", ("in_plain_words", "right"), lambda r: 0.99 * r, "in plain words: right"),
    ("gaussian", ("in_plain_words", "people"), 10**6, "in plain words: people"),
    ("gaussian", ("in_plain_words", "guessed"), lambda r: 0.99 * r, "in plain words: guessed"),
    ("gaussian", ("in_plain_words", "reconstruction"), "Nobody guesses.",
     "in plain words: reconstruction"),
    ("gaussian", ("in_plain_words", "sentence"), lambda told: told.replace("best", "usual"),
     "in plain words: sentence"),
    ("gaussian", ("in_plain_words", "holds"), "Always.", "in plain words: holds"),
    ("gaussian", ("in_plain_words",), None, "in plain words: sentence"),
    ("gaussian", ("adversaries", 0, "assumption"), "None.", "worst case: assumption"),
    ("gaussian", ("adversaries", 1, "adversary"), "everybody", "everybody"),
    ("gaussian", ("adversaries", 0), {"adversary": "relaxed, dim 1"}, "worst case"),
    ("gaussian", ("description",), lambda told: told.replace("sensitivity", "at most"),
     "description"),
    ("gaussian", ("sampling",), "Poisson", "sampling"),
    ("gaussian", ("notes",), ["All is well."], "notes"),
    ("gaussian", ("mechanism", "scales"), [3.0, 2.9], "worst case: epsilon"),
    ("gaussian", ("delta",), 1e-6, "worst case: epsilon"),
    ("dp-sgd", ("if_shuffled",), None, "if shuffled: epsilon"),
    ("dp-sgd", ("if_shuffled", "epsilon_lower"), 100.0, "if shuffled: epsilon_lower"),
    ("dp-sgd", ("mechanism", "steps"), 99, "mechanism: steps"),
])  # fmt: skip
def test_what_was_changed_shows(name, path, value, where, certificates):
    assert where in failed(changed(certificates[name], path, value))


@pytest.mark.parametrize(("path", "value"), [
    (("adversaries", 0, "epsilon"), lambda e: 1.01 * e), (("adversaries", 0, "epsilon"), None),
    (("adversaries", 0, "epsilon"), lambda e: e * (1 - 1e-12)),
    (("adversaries", 0, "epsilon_lower"), 0.0), (("adversaries", 0, "advantage"), 1),
])  # fmt: skip
def test_claims_on_the_safe_side_hold(path, value, certificates):
    assert failed(changed(certificates["gaussian"], path, value)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("change", "where"), [
    (lambda found: found["adversaries"].insert(0, {**found["adversaries"][0], "epsilon": 1e-3}),
     "worst case"),
    (lambda found: found["adversaries"].append(3), "None"),
    (lambda found: found["adversaries"][0].update(epsilon_of_one=1e-3),
     "worst case: epsilon_of_one"),
    (lambda found: found.update(if_shuffled={"epsilon": 1e-3}), "if shuffled: epsilon"),
    (lambda found: found.update(selection={"epsilon_of_one": 1e-3}), "selection"),
    (lambda found: found.update(calibrated={"std": 9.0, "adversary": "worst-case", "target": {}}),
     "calibrated: std"),
    (lambda found: found.update(calibrated={"adversary": "worst-case",
                                            "target": {"epsilon": 1e-3, "delta": 1e-5}}),
     "calibrated: epsilon"),
    (lambda found: found.update(calibrated={"adversary": "weakest"}), "calibrated: adversary"),
])  # fmt: skip
def test_claims_of_nothing_do_not_hold(change, where, certificates):
    certificate = copy.deepcopy(certificates["gaussian"])
    change(certificate)
    assert failed(certificate) == [where]


def test_what_is_not_known_is_said(certificates):
    certificate = {**certificates["gaussian"], "quality": "best"}
    assert again(certificate)["taken"] == ["what it says of 'quality'"]


def test_steps_of_no_training(certificates):
    with pytest.raises(ValueError, match="no training counts its steps"):
        again({**certificates["gaussian"], "steps_counted": 1})


def test_of_a_calibration(capsys):
    given = ["calibrate", "--sensitivity", "1", "--epsilon", "1", "--delta", "1e-5", "--json"]
    assert cli.main(given) == 0
    found = json.loads(capsys.readouterr().out)
    assert failed(found) == []
    found["notes"].insert(0, gains_nothing("relaxed"))  # said where it is so
    assert failed(found) == []
    found["calibrated"]["target"]["epsilon"] /= 2
    assert failed(found) == ["notes", "calibrated: epsilon"]
    found["notes"].pop(0)
    found["calibrated"]["target"]["epsilon"] *= 2
    found["calibrated"]["std"] /= 2
    assert failed(found) == ["calibrated: std"]


def test_what_was_changed_in_a_file_shows(tmp_path, certificates):
    """Claims on the safe side, too, and twelfth digits; not the order of what is written."""
    write_certificate(certificates["gaussian"], tmp_path)
    path = tmp_path / "certificate.json"
    written = json.loads(path.read_text())
    assert failed(written) == []
    path.write_text(json.dumps(dict(reversed(written.items())), indent=7))
    assert failed(read_certificate(path)) == []
    for at in [("adversaries", 0, "epsilon"), ("adversaries", 1, "profile", "0")]:
        for factor in (1.01, 1 + 1e-12):
            assert failed(changed(written, at, lambda e, factor=factor: e * factor)) == ["digest"]
    assert failed({**written, "digest": written["digest"][:-1]}) == ["digest"]


@pytest.mark.slow
def test_a_digest_of_nothing_is_seen(monkeypatch, tmp_path, certificates):
    check_is_red(monkeypatch, verification, "digest", lambda certificate: certificate["digest"],
                 lambda: test_what_was_changed_in_a_file_shows(tmp_path, certificates))


def test_an_infinite_epsilon_holds_as_no_number():
    told = {"mechanism": "approximate_dp", "epsilon": 0.0, "delta": 1.0}
    everything = certify(Pipeline([told]))
    assert everything["adversaries"][0]["epsilon"] is None
    assert failed(everything) == []
    claimed = changed(everything, ("adversaries", 0, "epsilon"), 5.0)
    assert failed(claimed) == ["worst case: epsilon"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mechanism": 1}', "\x00",
                                  '{"mechanism": {}, "delta": 1e-5, "adversaries": 3}'])
def test_files_that_hold_none(text, tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is no certificate"):
        read_certificate(path)


@pytest.mark.parametrize(("mechanism", "told"), [
    ({}, "none of a certificate"), ({"pipeline": []}, "none of a certificate"),
    ({"pipeline": [], "group": 1}, "at least one step"),
    ({"noise": "gaussian", "sensitivities": 1, "scales": 1, "dim": 1}, "none of a certificate"),
    ({"noise": "gaussian", "sensitivities": [1.0], "scales": [0.0], "dim": 1}, "scales"),
    ({"steps": 10**12, "sampling_rate": 0.1, "noise_multiplier": 1.0}, "steps"),
])
def test_mechanisms_that_are_none(mechanism, told):
    with pytest.raises(ValueError, match=told):
        again({"mechanism": mechanism, "delta": 1e-5, "adversaries": []})


@pytest.mark.slow
def test_command(tmp_path, capsys):
    path = tmp_path / "certificate.json"
    certificate = certify(MECHANISMS["gaussian"], 1e-5)
    path.write_text(json.dumps(certificate))
    assert cli.main(["verify", str(path)]) == 0
    assert "All 115 checks hold" in capsys.readouterr().out
    path.write_text(json.dumps(changed(certificate, ("adversaries", 0, "advantage"), 0.01)))
    assert cli.main(["verify", str(path)]) == 3
    assert "1 of 115 checks failed" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["verify", str(path), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["holds"] is False
    assert cli.main(["verify", str(tmp_path / "none.json")]) == 2


SLIPS = {
    "lower ends for upper ones": ("_LOWER", ("epsilon",), "worst case: epsilon"),
    "generous": ("_LAST_DIGITS", 0.02, "worst case: epsilon"),
    "words do not count": ("_WORDS", (), "description"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch, certificates):
    constant, wrong, where = SLIPS[name]
    path, value = {
        "description": (("description",), "something else"),
        "worst case: epsilon": (("adversaries", 0, "epsilon"), lambda e: 0.99 * e),
    }[where]
    check_is_red(monkeypatch, verification, constant, wrong,
                 lambda: test_what_was_changed_shows("gaussian", path, value, where,
                                                     certificates))  # fmt: skip
