"""The command line as its user meets it: whole processes for what works,
`main` in this process for what is refused.
"""

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import jaxpriv
from jaxpriv import cli
from jaxpriv._commands.described import described
from jaxpriv._commands.sweep import grid_of
from jaxpriv._flags import CERTIFY_EXAMPLE, make_parser
from jaxpriv.report import Mechanism, certify
from jaxpriv.report.config import dp_sgd_from
from jaxpriv.report.digest import with_digest
from jaxpriv.training import Plan, Privacy
from tests.command import ROOT, command, run
from tests.stats.checks import compilations

GAUSSIAN = ["certify", "--sensitivity", "1", "--std", "2"]


@pytest.mark.slow
def test_certify_prints_writes_and_draws(environment, tmp_path):
    """The numbers of all three outputs are those of `certify`,
    computed here without the command's compiler settings.
    """
    done = run(environment, *GAUSSIAN, "--dim", 10, "--delta", "1e-6", "--json", "--out",
               tmp_path / "new" / "folder")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    written = json.loads((tmp_path / "new" / "folder" / "certificate.json").read_text())
    assert written == with_digest(printed)
    want = certify(Mechanism("gaussian", (1.0,), (2.0,), 10), 1e-6)
    assert [row["adversary"] for row in printed["adversaries"]] == [
        "worst case",
        "relaxed, dim 1",
        "relaxed, dim 10",
    ]
    for got, expected in zip(printed["adversaries"], want["adversaries"], strict=True):
        assert got["assumption"] == expected["assumption"]
        for name in ("epsilon", "mu_at_slack", "advantage"):
            assert got[name] == pytest.approx(expected[name], rel=1e-9)
        assert got["tpr_at_fpr"] == pytest.approx(expected["tpr_at_fpr"], rel=1e-9)
    picture = (tmp_path / "new" / "folder" / "certificate.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


@pytest.mark.slow
def test_readme_shows_what_the_command_prints(environment):
    done = run(environment, "certify", "examples/diabetes_means.toml")
    printed = "\n".join(line.rstrip() for line in done.stdout.rstrip().split("\n"))
    assert done.returncode == 0, done.stderr
    assert printed in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_onion_example(environment):
    """Every layer that is taken off exposes those that stay."""
    done = subprocess.run([sys.executable, "examples/privacy_onion.py"], capture_output=True,
                          text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    scores = [float(line.split()[2]) for line in done.stdout.splitlines()[1:]]
    assert len(scores) == 6
    assert scores == sorted(scores)
    assert scores[-1] > 2 * scores[0]


@pytest.mark.slow
def test_example_script_runs(environment):
    done = subprocess.run([sys.executable, "examples/diabetes_means.py"], capture_output=True,
                          text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "worst case" in done.stdout
    assert "bmi" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["certify", "calibrate"])
def test_example_of_the_help_page_can_be_pasted(environment, name):
    shown = run(environment, name, "--help")
    assert shown.returncode == 0
    pasted = shlex.split(re.search(r"^ +(jaxpriv .*)$", shown.stdout, re.M)[1])
    done = run(environment, *pasted[1:])
    assert done.returncode == 0, done.stderr
    assert "Privacy certificate" in done.stdout


@pytest.mark.slow
def test_configuration_of_the_help_page_can_be_pasted(environment, tmp_path):
    """The TOML text equals the flags above it."""
    text = CERTIFY_EXAMPLE.split("a TOML file instead of flags:\n")[1].split("\nor, for DP-SGD")[0]
    (tmp_path / "config.toml").write_text(text)
    by_file = run(environment, "certify", tmp_path / "config.toml", "--json")
    flags = shlex.split(re.search(r"^ +(jaxpriv .*)$", CERTIFY_EXAMPLE, re.M)[1])[1:]
    assert json.loads(by_file.stdout) == json.loads(run(environment, *flags, "--json").stdout)


@pytest.mark.slow
def test_unequal_releases_from_a_file(environment, tmp_path):
    (tmp_path / "a.toml").write_text(
        "[mechanism]\nsensitivity = [3.0, 4.0]\nstd = [1.0, 1.0]\n[certificate]\ndelta = 1e-7\n"
    )
    done = run(environment, "certify", tmp_path / "a.toml", "--json")
    certificate = json.loads(done.stdout)
    assert certificate["delta"] == 1e-7
    # mu = 5, less what a slack of delta takes off
    want = 5.0 - 1e-7 * (2 * math.pi) ** 0.5
    assert certificate["adversaries"][0]["mu_at_slack"] == pytest.approx(want, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["worst-case", "relaxed"])
def test_calibrate_meets_the_target(environment, adversary):
    done = run(environment, "calibrate", "--noise", "laplace", "--sensitivity", 3, "--epsilon", 0.5,
               "--delta", "1e-6", "--adversary", adversary, "--json")
    assert done.returncode == 0, done.stderr
    certificate = json.loads(done.stdout)
    row = certificate["adversaries"][0 if adversary == "worst-case" else -1]
    assert 0.5 - 1e-6 < row["epsilon"] <= 0.5 + 1e-12
    assert certificate["calibrated"]["scale"] == certificate["mechanism"]["scales"][0]


class Certified:
    """In place of `certify`; keeps what it was asked for."""

    def __call__(self, mechanism, delta):
        self.mechanism, self.delta = mechanism, delta
        numbers = {"assumption": "", "epsilon_lower": 0.0, "epsilon": 1.0, "mu_at_slack": 1.0,
                   "advantage": 0.1, "tpr_at_fpr": {"0.1": 0.2}}
        return {"description": mechanism.describe(), "delta": delta, "adjacency": "",
                "sampling": "", "notes": [],
                "adversaries": [{"adversary": "worst case", **numbers}]}


@pytest.mark.parametrize("target", [("--mu", "1"), ("--adversary", "worst_case", "--mu", "1")])
def test_calibrate_knows_dp_sgd(target, capsys, monkeypatch):
    """Four full batches tell as much as one release with half the noise:
    mu = 4^1/2/noise multiplier.
    """
    certified = Certified()
    monkeypatch.setattr(jaxpriv.report, "certify", certified)
    line = ["calibrate", "--dataset-size", "100", "--batch-size", "100", "--epochs", "4", "--dim",
            "3", *target]
    assert cli.main([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["calibrated"]
    assert found == {
        "noise_multiplier": pytest.approx(2.0, rel=1e-9),
        "adversary": "worst-case",
        "target": {"mu": 1.0},
    }
    assert found["noise_multiplier"] >= 2.0
    assert certified.mechanism == jaxpriv.report.DpSgd(
        100, 100.0, 4.0, found["noise_multiplier"], 3
    )
    assert certified.delta == 1e-5
    assert cli.main(line) == 0
    assert capsys.readouterr().out.startswith(
        "noise_multiplier = 2.0000001 meets mu = 1 against the worst-case adversary."
    )


@pytest.mark.parametrize(
    "target",
    [{"epsilon": 2.0, "delta": 1e-6}, {"advantage": 0.1}, {"fpr": 0.01, "tpr": 0.05}, {"mu": 2.0}],
)
@pytest.mark.parametrize("adversary", ["worst-case", "relaxed"])
def test_calibrate_hands_dp_sgd_s_target_on(target, adversary, capsys, monkeypatch):
    """Every target, for either adversary, to what `DPTrainer` is calibrated by."""
    asked = []

    def make_plan(privacy, dataset_size, dim, *, batch_size, steps):
        asked.append((privacy, dataset_size, dim, batch_size, steps))
        return Plan(dataset_size, batch_size, (2.5,) * steps, dim)

    monkeypatch.setattr("jaxpriv._commands.calibrate._met_by_all", lambda mechanism, target: True)
    monkeypatch.setattr(jaxpriv.report, "certify", Certified())
    monkeypatch.setattr("jaxpriv.report.dp_sgd.make_plan", make_plan)
    flags = [text for name, value in target.items() for text in (f"--{name}", str(value))]
    assert cli.main(["calibrate", "--dataset-size", "1000", "--batch-size", "10", "--epochs", "2",
                     "--dim", "7", *flags, "--adversary", adversary, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["calibrated"] == {
        "noise_multiplier": 2.5,
        "adversary": adversary,
        "target": target,
    }
    assert asked == [
        (Privacy(**target, threat_model=adversary.replace("-", "_")), 1000, 7, 10.0, 200)
    ]
    said = (
        "The relaxed target gains nothing over the worst case here: the worst case meets it, too."
    )
    assert found["notes"] == ([said] if adversary == "relaxed" else [])


@pytest.mark.parametrize("name", ["worst_case", "worst-case", "relaxed"])
def test_threat_model_in_a_file(name, monkeypatch):
    """Beside `epsilon` in [dp_sgd]; spelled as in `train` or as `--adversary`."""
    asked = []
    monkeypatch.setattr(
        "jaxpriv.report.dp_sgd.make_plan",
        lambda privacy, *rest, **more: asked.append(privacy) or Plan(100, 10.0, (2.5,), 1),
    )
    settings = {"dataset_size": 100, "batch_size": 10, "epochs": 1, "epsilon": 1.0,
                "threat_model": name}
    assert dp_sgd_from(settings, 1e-6).noise_multiplier == 2.5
    assert asked == [Privacy(1.0, 1e-6, threat_model=name.replace("-", "_"))]


DP_SGD = ["--dataset-size", 10_000, "--batch-size", 100, "--epochs", 3, "--dim", 2]


@pytest.mark.slow
@pytest.mark.long
def test_dp_sgd(environment, tmp_path):
    """By flags and by a file; the table shows the bracket; three panels."""
    by_flags = run(
        environment, "certify", *DP_SGD, "--noise-multiplier", 1, "--json", "--out", tmp_path
    )
    assert by_flags.returncode == 0, by_flags.stderr
    certificate = json.loads(by_flags.stdout)
    worst, weak = certificate["adversaries"]
    want = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 300.0).symmetric().epsilon_bounds(1e-5)
    np.testing.assert_allclose((worst["epsilon_lower"], worst["epsilon"]), want, rtol=1e-9)
    assert weak["adversary"] == "relaxed, dim 2"
    assert certificate["mechanism"]["steps"] == 300
    assert with_digest(certificate) == json.loads((tmp_path / "certificate.json").read_text())
    header = (tmp_path / "certificate.png").read_bytes()[:24]
    assert int.from_bytes(header[16:20]) > 3 * int.from_bytes(header[20:24])

    settings = (
        "dataset_size = 10_000\nbatch_size = 100\nepochs = 3\ndim = 2\nnoise_multiplier = 1\n"
    )
    (tmp_path / "a.toml").write_text(f"[dp_sgd]\n{settings}")
    by_file = run(environment, "certify", tmp_path / "a.toml")
    assert by_file.returncode == 0, by_file.stderr
    low, high = (
        float(number) for number in re.search(r"\[([\d.]+), ([\d.]+)\]", by_file.stdout).groups()
    )
    assert low <= worst["epsilon_lower"] <= worst["epsilon"] <= high < low * 1.002
    text = " ".join(by_file.stdout.split())
    assert "300 steps" in text
    assert "Poisson: every record takes part in a step with probability 0.01" in text
    assert "add/remove one record" in text


@pytest.mark.slow
@pytest.mark.long
def test_dp_sgd_calibrates_the_noise(environment):
    done = run(environment, "certify", *DP_SGD, "--epsilon", 2, "--delta", "1e-6", "--json")
    assert done.returncode == 0, done.stderr
    certificate = json.loads(done.stdout)
    assert 2 - 1e-6 < certificate["adversaries"][0]["epsilon"] <= 2
    assert 0.5 < certificate["mechanism"]["noise_multiplier"] < 1.0


SWEEP = ["sweep", "--noise-multiplier", "0.8:1.2:3", "--sampling-rate", "0.01", "--steps",
         "500,1000"]


@pytest.mark.slow
@pytest.mark.long
def test_sweep_prints_lines_and_is_taken_up(environment, tmp_path):
    """Of six lines three and a half are left by an interrupted run;
    then the file is what it was.
    """
    whole = run(environment, *SWEEP, "--out", tmp_path / "whole.jsonl")
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout == whole.stderr == ""
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    assert [(row["noise_multiplier"], row["steps"]) for row in rows] == [
        (s, t) for s in (0.8, 1.0, 1.2) for t in (500, 1000)
    ]
    want = (
        jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000.0).symmetric().epsilon_bounds(1e-5)
    )
    np.testing.assert_allclose(
        (rows[3]["epsilon_lower"], rows[3]["epsilon_upper"]), want, rtol=1e-9
    )

    cut = tmp_path / "cut.jsonl"
    kept = "".join(lines[:3])
    cut.write_text(kept + lines[3][:20])
    assert run(environment, *SWEEP, "--out", cut).returncode == 0
    assert cut.read_text().startswith(kept)
    for got, row in zip(map(json.loads, cut.read_text().splitlines()), rows, strict=True):
        assert got == pytest.approx(row, rel=1e-12)
    again = cut.read_text()
    assert run(environment, *SWEEP, "--out", cut).returncode == 0
    assert cut.read_text() == again


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("jaxpriv 0.")


def test_commands_of_the_readme_are_understood(monkeypatch):
    """Every command line in README parses, with values that are accepted."""
    lines = re.findall(r"^\$ jaxpriv (.*)$", (ROOT / "README.md").read_text(), re.M)
    commands = {"certify", "calibrate", "sweep", "audit", "verify"}
    assert {line.split()[0] for line in lines} == commands
    for line in lines:
        arguments = make_parser().parse_args(shlex.split(line))
        if arguments.command == "sweep":
            assert grid_of(arguments).keys
        elif arguments.command == "audit":
            assert arguments.scores.endswith(".csv")
        elif arguments.command == "calibrate":
            assert arguments.mechanism or (arguments.dataset_size, arguments.epsilon) == (50_000, 2)
        elif arguments.command == "verify":
            assert arguments.certificate == "certificate/certificate.json"
        else:
            assert described(arguments)


@pytest.mark.slow
def test_interrupt_ends_with_one_line(environment, tmp_path):
    """Ctrl-C while it reads: a pipe can be opened to write once it has a reader,
    however slow the machine is.
    """
    scores = tmp_path / "scores.csv"
    os.mkfifo(scores)
    process = subprocess.Popen(command("audit", scores), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    deadline, pipe = time.monotonic() + 120, None
    while pipe is None and process.poll() is None and time.monotonic() < deadline:
        try:
            pipe = os.open(scores, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert pipe is not None, errors
    os.close(pipe)
    assert process.returncode == 130
    assert output == ""
    assert errors.strip() == "jaxpriv: interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_closed_pipe_is_silent(environment, flags):
    process = subprocess.Popen(command(*GAUSSIAN, *flags), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment, cwd=ROOT)
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=120) != 0
    assert errors == b""


BAD = {
    "": "required: command",
    "certfy": "invalid choice",
    "certify": "sensitivity is missing",
    "certify --sensitivity 1": "std is missing",
    "certify --sensitivity 1 --std": "expected one argument",
    "certify --sensitivity one --std 2": "invalid float value",
    "certify --sens 1 --std 2": "unrecognized arguments",
    "certify --sensitivity -1 --std 2":
        "jaxpriv: --sensitivity = -1.0 is outside its range [1e-15, 1e15]",
    "certify --sensitivity 1 --std 0": "jaxpriv: --std = 0.0 is outside its range [1e-15, 1e15]",
    "certify --sensitivity 1 --std -2": "jaxpriv: --std = -2.0 is outside its range [1e-15, 1e15]",
    "certify --sensitivity 1 --std 1e-300":
        "jaxpriv: --std = 1e-300 is outside its range [1e-15, 1e15]",
    "certify --sensitivity 1e300 --std 1": "jaxpriv: --sensitivity = 1e+300 is outside its range",
    "certify --sensitivity 1 --scale -2 --noise laplace":
        "jaxpriv: --scale = -2.0 is outside its range",
    "certify --sensitivity 1 --std nan": "--std = nan is outside its range",
    "certify --sensitivity 1 --std inf": "--std = inf is outside its range",
    "certify {negative}": "jaxpriv: std = -2.0 is outside its range [1e-15, 1e15]",
    "certify --sensitivity 1 --std 2 --delta 0": "jaxpriv: --delta = 0.0 is outside its range",
    "certify --sensitivity 1 --std 2 --delta 1.5": "delta = 1.5 is outside its range",
    "certify --sensitivity 1 --std 2 --delta nan": "delta = nan is outside its range",
    "certify --sensitivity 1 --std 2 --scale 3":
        "jaxpriv: --scale = 3.0 does not go with gaussian noise",
    "certify --sensitivity 1 --std 2 --noise cauchy": "invalid choice",
    "certify --sensitivity 1 --std 2 --dim 0": "dim = 0",
    "certify --sensitivity 1 --std 2 --releases 0": "releases = 0",
    "certify --sensitivity 1 --std 2 --out {file}/below": "Not a directory",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 10 --out {file}/batch_size":
        "/batch_size'",
    "certify --sensitivity 1 --scale 2 --noise laplace --releases 2": "closed form",
    "certify --sensitivity 1 --scale 2 --noise laplace --dim 2": "dim = 2",
    "certify {missing}": "cannot read",
    "certify {file}": "is not TOML",
    "certify {file} --std 2": "not both",
    "certify {table}": "unknown table [mechanismm]",
    "certify {key}": "unknown setting 'stdev'",
    "certify {text}": "std = 'two'",
    "certify {list}": "noise scales",
    "certify {delta}": "unknown setting 'dleta'",
    "certify {both}": "both [mechanism] and [dp_sgd]",
    "certify {neither}": "[mechanism] table is missing",
    "certify {sgd}": "unknown setting 'batchsize'",
    "certify {sgd} --epochs 2": "not both (--epochs)",
    "certify --dataset-size 100": "--batch-size is missing",
    "certify --dataset-size 100 --batch-size 10": "epochs is missing",
    "certify --dataset-size 100 --batch-size 10 --epochs 1": "either --noise-multiplier or epsilon",
    "certify --dataset-size 100 --batch-size 10 --epochs 1 --noise-multiplier 1 --epsilon 1":
        "not both",
    "certify --dataset-size 100 --batch-size 10 --epochs 1 --noise-multiplier 1 --std 2":
        "--std does not go with DP-SGD",
    "certify --sensitivity 1 --std 2 --epsilon 1":
        "--sensitivity does not go with DP-SGD (--epsilon)",
    "certify --dataset-size 100 --batch-size 101 --epochs 1 --noise-multiplier 1":
        "--batch-size = 101",
    "certify --dataset-size 1e5 --batch-size 10 --epochs 1 --noise-multiplier 1":
        "invalid int value",
    "certify --dataset-size 100 --batch-size 10 --epochs 0 --noise-multiplier 1": "epochs = 0",
    "certify --dataset-size 100 --batch-size 10 --epochs 1 --noise-multiplier -1":
        "--noise-multiplier = -1",
    "certify --dataset-size 100 --batch-size 10 --epochs 1 --epsilon -1": "epsilon = -1",
    "certify --dataset-size 100 --batch-size 10 --epochs 1 --noise-multiplier 1 --delta 2":
        "delta = 2",
    "certify --dataset-size 100 --batch-size 10 --epochs 1 --noise-multiplier 1 --dim 0": "dim = 0",
    "sweep": "--noise-multiplier is missing",
    "sweep --noise-multiplier 1": "--sampling-rate is missing",
    "sweep --noise-multiplier 1 --sampling-rate 0.1": "steps is missing",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --epochs 2":
        "--sampling-rate does not go with epochs",
    "sweep --noise-multiplier 1:2 --sampling-rate 0.1 --steps 10":
        "--noise-multiplier = '1:2' is not",
    "sweep --noise-multiplier 0:1:3 --sampling-rate 0.1 --steps 10":
        "--noise-multiplier = 0.0 is outside its range",
    "sweep --noise-multiplier 1 --sampling-rate 0.1,2 --steps 10":
        "--sampling-rate = 2.0 is outside its range",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 1.5":
        "steps = 1.5 is not a whole number",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 0": "steps = 0.0 is outside its range",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 10 --delta 0":
        "delta = 0.0 is outside its range",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 10 --dim 3":
        "--dim goes with --relaxed",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 10 --relaxed --dim 0": "dim = 0",
    "sweep --noise-multiplier 1 --dataset-size 100 --batch-size 200 --epochs 1":
        "--batch-size = 200",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 10 --out {file}":
        "line 1 is not of a sweep",
    "sweep --noise-multiplier 1 --sampling-rate 0.1 --steps 10 --out {file}/below":
        "Not a directory",
    "calibrate --sensitivity 1": "exactly one target",
    "calibrate --sensitivity 1 --epsilon 1": "incomplete",
    "calibrate --sensitivity 1 --epsilon 1 --delta 1e-5 --mu 1": "exactly one target",
    "calibrate --sensitivity 1 --mu -1": "outside its range",
    "calibrate --sensitivity 1 --advantage 1": "both ends",
    "calibrate --epsilon 1 --delta 1e-5": "jaxpriv: --sensitivity is missing",
    "calibrate --dataset-size 100 --epsilon 1 --delta 1e-5": "jaxpriv: --batch-size is missing",
    "calibrate --dataset-size 100 --batch-size 10 --epsilon 1 --delta 1e-5":
        "jaxpriv: --epochs is missing",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1": "exactly one target",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --epsilon 1": "incomplete",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --mu 1 --fpr 0.1 --tpr 0.2":
        "exactly one target",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --mu -1":
        "jaxpriv: --mu = -1.0 is outside its range [0, inf)",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --advantage 2":
        "--advantage = 2.0 is outside its range [0, 1]",
    "calibrate --dataset-size 100 --batch-size 101 --epochs 1 --mu 1":
        "--batch-size = 101.0 is outside its range",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 0 --mu 1":
        "--epochs = 0.0 is outside its range (0, inf)",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --noise-multiplier 1 --mu 1":
        "unrecognized arguments",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --sensitivity 1 --mu 1":
        "--sensitivity does not go with DP-SGD",
    "calibrate --dataset-size 100 --batch-size 10 --epochs 1 --mu 1 --adversary all":
        "invalid choice",
    "certify {model}": "threat_model = 'membership'; accepted: 'worst_case', 'relaxed'",
    "certify {untargeted}": "threat_model goes with epsilon",
}
FILES = {
    "table": "[mechanismm]\nstd = 2.0\n",
    "key": "[mechanism]\nsensitivity = 1.0\nstdev = 2.0\n",
    "text": "[mechanism]\nsensitivity = 1.0\nstd = 'two'\n",
    "list": "[mechanism]\nsensitivity = [1.0, 2.0, 3.0]\nstd = [2.0, 1.0]\n",
    "delta": "[mechanism]\nsensitivity = 1.0\nstd = 2.0\n[certificate]\ndleta = 1e-5\n",
    "both": "[mechanism]\nstd = 1.0\n[dp_sgd]\nepochs = 1\n",
    "neither": "[certificate]\ndelta = 1e-5\n",
    "sgd": "[dp_sgd]\nbatchsize = 1\n",
    "negative": "[mechanism]\nsensitivity = 1.0\nstd = -2.0\n",
    "model": "[dp_sgd]\ndataset_size = 100\nbatch_size = 10\nepochs = 1\nepsilon = 1\n"
             "threat_model = 'membership'\n",
    "untargeted": "[dp_sgd]\ndataset_size = 9\nbatch_size = 1\nepochs = 1\nnoise_multiplier = 1\n"
                  "threat_model = 'worst_case'\n",
    "file": "what = is = this\n",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_clear_line(line, tmp_path, capsys):
    """Exit code 2, one line on stderr that names what is wrong, nothing on stdout."""
    paths = {"missing": tmp_path / "missing.toml"}
    for name, text in FILES.items():
        paths[name] = tmp_path / f"{name}.toml"
        paths[name].write_text(text)
    assert cli.main(line.format(**paths).split()) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("jaxpriv: ")
    assert errors.count("\n") == 1
    assert BAD[line] in errors


@pytest.mark.parametrize(
    "line",
    ["certify --std", "certify --sensitivity 1", "calibrate --sensitivity 1 --mu -1",
     "audit missing.csv", "verify missing.json", "train --config nowhere.toml"],
)
def test_errors_as_json(line, capsys):
    """The line of standard error, without its prefix, in one object on standard output."""
    assert cli.main(line.split()) == 2
    want = capsys.readouterr().err.removeprefix("jaxpriv: ").rstrip("\n")
    assert cli.main([*line.split(), "--json"]) == 2
    output, errors = capsys.readouterr()
    found = json.loads(output)
    assert found["error"] == want
    assert found["kind"] == ("FileNotFoundError" if "missing." in line else "ValueError")
    assert errors == ""


def test_a_number_that_is_none_is_one_line(monkeypatch, capsys):
    """No certificate, rather than one with a NaN in it."""
    monkeypatch.setattr(jaxpriv.Curve, "advantage_bounds", lambda curve: (np.nan, np.nan))
    assert cli.main(GAUSSIAN) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch("jaxpriv: .*NaN.*\n", told.err)


@pytest.mark.parametrize(
    "line",
    ["certify --sensitivity 1 --std 2 --dim 3",
     "certify --noise laplace --sensitivity 1 --scale 2",
     "calibrate --sensitivity 1 --epsilon 1 --delta 1e-5",
     "calibrate --dataset-size 1000 --batch-size 10 --epochs 2 --mu 2",
     "certify --dataset-size 1000 --batch-size 10 --epochs 2 --noise-multiplier 1",
     "sweep --noise-multiplier 1,2 --sampling-rate 0.01 --steps 1000"],
)
def test_nothing_is_compiled(line, capsys):
    """What one person asks once does not wait for a compiler."""
    with compilations() as found:
        assert cli.main([*line.split(), *(["--json"] if "sweep" not in line else [])]) == 0
    assert capsys.readouterr().out
    assert found == []
