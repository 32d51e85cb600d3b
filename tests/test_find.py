"""Calibration of whatever the command line describes: the number that is left open."""

import json
import math

import numpy as np
import pytest

import jaxpriv
from jaxpriv import cli, worst_case
from jaxpriv.report import find
from jaxpriv.report.find import found
from tests.command import ROOT
from tests.slips import check_is_red

USERS = {"mechanism": "user_level", "noise_multiplier": "find", "sampling_rate": 0.01,
         "steps": 1000, "records_per_user": 4}


def pipeline(*steps, group=1):
    return "pipeline", {"steps": list(steps), "group": group}


def epsilon_of(mechanism, delta=1e-5):
    return float(mechanism.adversaries()[0][2].epsilon_bounds(delta)[1])


def check_just_met(where, value, mechanism):
    """At epsilon = 2, by the upper bound; a little further it is not."""
    assert 2 - 1e-6 < epsilon_of(mechanism) <= 2
    assert where["noise_multiplier"] == value


def test_noise_of_users_just_meets_the_target():
    where, value, mechanism = found(*pipeline(USERS), {"epsilon": 2.0, "delta": 1e-5})
    check_just_met(where, value, mechanism)
    assert "step" not in where
    curve = worst_case.user_level(value, 0.01, 1000, 4).symmetric()
    np.testing.assert_allclose(curve.epsilon_bounds(1e-5)[1], epsilon_of(mechanism), rtol=1e-10)


def test_a_slip_turns_it_red(monkeypatch):
    """Calibrating a hair to the other side."""
    whole = jaxpriv.calibrate
    check_is_red(monkeypatch, find, "calibrate",
                 lambda *given, **more: whole(*given, **more) * (1 - 1e-5),
                 test_noise_of_users_just_meets_the_target)


@pytest.mark.parametrize(
    ("table", "want"),
    [({"mechanism": "gaussian", "mu": "find"}, 0.51),
     ({"mechanism": "gaussian", "mu": 0.125, "times": "find"}, 16),
     ({"mechanism": "subsampled_gaussian", "noise_multiplier": 4.0, "sampling_rate": 1.0,
       "steps": "find"}, 4),
     ({"mechanism": "subsampled_gaussian", "noise_multiplier": "find", "sampling_rate": 1.0,
       "steps": 16}, 4 / 0.51)],
)
def test_gaussian_answers_in_closed_form(table, want):
    """mu = steps^1/2/noise multiplier; whole numbers are the last that meet it."""
    _, value, _ = found(*pipeline(table), {"mu": 0.51})
    assert value == pytest.approx(want, rel=1e-9)
    assert type(value) is type(want)


@pytest.mark.parametrize(
    ("table", "want"),
    [({"mechanism": "laplace", "ratio": "find"}, None),
     ({"mechanism": "randomized_response", "epsilon": "find"}, math.log(3)),
     ({"mechanism": "k_ary_randomized_response", "epsilon": "find", "categories": 2}, math.log(3))],
)
def test_advantages_in_closed_form(table, want):
    """(e^eps - 1)/(e^eps + 1) = 1/2 at eps = log 3; of Laplace noise 1 - e^(-ratio/2)."""
    want = 2 * math.log(2) if want is None else want
    assert found(*pipeline(table), {"advantage": 0.5})[1] == pytest.approx(want, rel=1e-9)


def test_more_steps_of_an_allocation_are_more_private():
    """The least number of them: one fewer fails, by direct calls."""
    dealt = {"mechanism": "random_allocation", "noise_multiplier": 1.0, "steps": "find"}
    _, value, _ = found(*pipeline(dealt), {"epsilon": 2.0, "delta": 1e-5})
    last, before = (
        float(worst_case.random_allocation(1.0, n).symmetric().delta_bounds(2.0)[1])
        for n in (value, value - 1)
    )
    assert last <= 1e-5 < before


def test_relaxed_adversary_and_place_in_a_pipeline():
    steps = [{"mechanism": "gaussian", "mu": 0.1, "dim": 5},
             {"mechanism": "gaussian", "mu": "find", "dim": 5}]
    where, value, mechanism = found(*pipeline(*steps), {"advantage": 0.05}, "relaxed")
    assert where == {"mu": value, "step": 2}
    worst, weak = (row[2].advantage_bounds()[1] for row in mechanism.adversaries())
    assert weak <= 0.05 < worst
    assert weak == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize(("mechanism", "name"), [
    ("discrete_gaussian", "sigma"), ("discrete_laplace", "scale"),
])  # fmt: skip
def test_noise_on_whole_numbers(mechanism, name):
    """Its range ends before that of other noise."""
    table = {"mechanism": mechanism, name: "find"}
    where, value, found_one = found(*pipeline(table), {"epsilon": 1.0, "delta": 1e-5})
    assert where == {name: value}
    assert 1 - 1e-6 < epsilon_of(found_one) <= 1


REFUSED = {
    "none is open": (pipeline(USERS | {"noise_multiplier": 1.0}), "worst-case"),
    "2 are open": (pipeline(USERS | {"steps": "find"}), "worst-case"),
    "step 1: categories cannot be found; accepted: noise_multiplier": (
        pipeline({"mechanism": "k_ary_randomized_response", "epsilon": 1, "categories": "find"}),
        "worst-case"),
    "no relaxed adversary": (pipeline(USERS), "relaxed"),
    "target fails at steps = 1": (
        pipeline(USERS | {"noise_multiplier": 0.1, "steps": "find"}), "worst-case"),
    "target fails at noise_multiplier = 0.0001 as well as at 1e.06": (
        pipeline(USERS, {"mechanism": "approximate_dp", "epsilon": 0.1, "delta": 0.02}),
        "worst-case"),
    "std = 2.0 is what is to be found": (
        ("mechanism", {"sensitivity": 1.0, "std": 2.0}), "worst-case"),
    "unknown setting 'epsilon'": (
        ("dp_sgd", {"dataset_size": 9, "batch_size": 1, "epochs": 1, "epsilon": 1}), "worst-case"),
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_is_refused(told):
    described, adversary = REFUSED[told]
    with pytest.raises(ValueError, match=told):
        found(*described, {"advantage": 0.01}, adversary)


FILES = {
    "[mechanism]\nsensitivity = [3.0, 4.0]\n": ("std", 10.0),
    "[mechanism]\nsensitivity = 2.0\nstd = 'find'\n": ("std", 4.0),
    "[dp_sgd]\ndataset_size = 9\nbatch_size = 9\nepochs = 1\n": ("noise_multiplier", 2.0),
    "[[pipeline]]\nmechanism = 'gaussian'\nmu = 0.3\n[[pipeline]]\nmechanism = 'gaussian'\n"
    "mu = 'find'\n": ("mu", 0.4),
}


@pytest.mark.parametrize("text", FILES)
def test_calibrate_takes_files(text, tmp_path, capsys):
    """Each of one Gaussian curve with mu = 1/2; the certificate is of delta of the file."""
    (tmp_path / "a.toml").write_text(f"{text}[certificate]\ndelta = 1e-7\n")
    assert cli.main(["calibrate", str(tmp_path / "a.toml"), "--mu", "0.5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    name, want = FILES[text]
    assert printed["calibrated"][name] == pytest.approx(want, rel=1e-9)
    assert printed["delta"] == 1e-7
    (tmp_path / "certificate.json").write_text(json.dumps(printed))
    assert cli.main(["verify", str(tmp_path / "certificate.json")]) == 0


@pytest.mark.slow
def test_delta_of_the_target_is_that_of_the_file(tmp_path, capsys):
    text = (ROOT / "examples/pipeline.toml").read_text().replace("ratio = 0.2", "ratio = 'find'")
    (tmp_path / "a.toml").write_text(text)
    assert cli.main(["calibrate", str(tmp_path / "a.toml"), "--epsilon", "2"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("step 2: ratio = ")
    assert "meets epsilon = 2, delta = 1e-05 against" in told


@pytest.mark.slow
def test_flags_of_one_mechanism(capsys):
    """A group of two costs twice the epsilon of a black box."""
    line = "calibrate --mechanism approximate_dp --with epsilon=find delta=1e-9 --group 2 --epsilon"
    assert cli.main([*line.split(), "1", "--delta", "1e-5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert 0.5 <= printed["calibrated"]["epsilon"] < 0.51
    assert printed["adversaries"][0]["epsilon"] <= 1
