"""The command line as its user meets it: whole processes for what works, `main` in this process for what is refused."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxpriv import cli
from jaxpriv.report import Mechanism, certify

ROOT = Path(__file__).parents[1]
GAUSSIAN = ["certify", "--sensitivity", "1", "--std", "2"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One cache of compiled programs for all processes of this file, and a terminal wide enough."""
    cache = tmp_path_factory.mktemp("cache")
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "100", "PYTHONPATH": str(ROOT)}


def command(*arguments):
    return [sys.executable, "-m", "jaxpriv", *map(str, arguments)]


def run(environment, *arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


def test_certify_prints_writes_and_draws(environment, tmp_path):
    """The numbers of all three outputs are those of `certify`, computed here without the command's compiler settings."""
    done = run(environment, *GAUSSIAN, "--dim", 10, "--delta", "1e-6", "--json", "--out", tmp_path / "new" / "folder")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "new" / "folder" / "certificate.json").read_text())
    want = certify(Mechanism("gaussian", (1.0,), (2.0,), 10), 1e-6)
    assert [row["adversary"] for row in printed["adversaries"]] == ["worst case", "relaxed, dim 1", "relaxed, dim 10"]
    for got, expected in zip(printed["adversaries"], want["adversaries"], strict=True):
        assert got["assumption"] == expected["assumption"]
        for name in ("epsilon", "gdp_mu", "advantage"):
            assert got[name] == pytest.approx(expected[name], rel=1e-9)
        assert got["tpr_at_fpr"] == pytest.approx(expected["tpr_at_fpr"], rel=1e-9)
    picture = (tmp_path / "new" / "folder" / "certificate.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_readme_shows_what_the_command_prints(environment):
    done = run(environment, "certify", "examples/diabetes_means.toml")
    printed = "\n".join(line.rstrip() for line in done.stdout.rstrip().split("\n"))
    assert done.returncode == 0, done.stderr
    assert printed in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_example_script_runs(environment):
    done = subprocess.run([sys.executable, "examples/diabetes_means.py"], capture_output=True, text=True, env=environment,
                          cwd=ROOT, check=False)
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
    text = cli._CERTIFY_EXAMPLE.split("a TOML file instead of flags:\n")[1]
    (tmp_path / "config.toml").write_text(text)
    by_file = run(environment, "certify", tmp_path / "config.toml", "--json")
    flags = shlex.split(re.search(r"^ +(jaxpriv .*)$", cli._CERTIFY_EXAMPLE, re.M)[1])[1:]
    assert json.loads(by_file.stdout) == json.loads(run(environment, *flags, "--json").stdout)


@pytest.mark.slow
def test_unequal_releases_from_a_file(environment, tmp_path):
    (tmp_path / "a.toml").write_text("[mechanism]\nsensitivity = [3.0, 4.0]\nstd = [1.0, 1.0]\n[certificate]\ndelta = 1e-7\n")
    done = run(environment, "certify", tmp_path / "a.toml", "--json")
    certificate = json.loads(done.stdout)
    assert certificate["delta"] == 1e-7
    assert certificate["adversaries"][0]["gdp_mu"] == pytest.approx(5.0, rel=1e-12)


@pytest.mark.parametrize("adversary", ["worst-case", "relaxed"])
def test_calibrate_meets_the_target(environment, adversary):
    done = run(environment, "calibrate", "--noise", "laplace", "--sensitivity", 3, "--epsilon", 0.5, "--delta", "1e-6",
               "--adversary", adversary, "--json")
    assert done.returncode == 0, done.stderr
    certificate = json.loads(done.stdout)
    row = certificate["adversaries"][0 if adversary == "worst-case" else -1]
    assert 0.5 - 1e-6 < row["epsilon"] <= 0.5 + 1e-12
    assert certificate["calibrated"]["scale"] == certificate["mechanism"]["scales"][0]


def test_interrupt_ends_with_one_line(environment, tmp_path):
    """Ctrl-C in the middle of a compilation."""
    fresh = {**environment, "XDG_CACHE_HOME": str(tmp_path)}
    process = subprocess.Popen(command(*GAUSSIAN, "--dim", 7), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=fresh, cwd=ROOT)
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == ""
    assert errors.strip() == "jaxpriv: interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_closed_pipe_is_silent(environment, flags):
    process = subprocess.Popen(command(*GAUSSIAN, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                               cwd=ROOT)
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
    "certify --sensitivity -1 --std 2": "outside its range",
    "certify --sensitivity 1 --std 0": "outside its range",
    "certify --sensitivity 1 --std nan": "outside its range",
    "certify --sensitivity 1 --std inf": "outside its range",
    "certify --sensitivity 1 --std 2 --delta 0": "delta = 0.0 is outside its range",
    "certify --sensitivity 1 --std 2 --delta 1.5": "delta = 1.5 is outside its range",
    "certify --sensitivity 1 --std 2 --delta nan": "delta = nan is outside its range",
    "certify --sensitivity 1 --std 2 --scale 3": "scale",
    "certify --sensitivity 1 --std 2 --noise cauchy": "invalid choice",
    "certify --sensitivity 1 --std 2 --dim 0": "dim = 0",
    "certify --sensitivity 1 --std 2 --releases 0": "releases = 0",
    "certify --sensitivity 1 --std 2 --out {file}/below": "Not a directory",
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
    "calibrate --sensitivity 1": "exactly one target",
    "calibrate --sensitivity 1 --epsilon 1": "incomplete",
    "calibrate --sensitivity 1 --epsilon 1 --delta 1e-5 --mu 1": "exactly one target",
    "calibrate --sensitivity 1 --mu -1": "outside its range",
    "calibrate --sensitivity 1 --advantage 1": "both ends",
    "calibrate --epsilon 1 --delta 1e-5": "sensitivity is missing",
}
FILES = {
    "table": "[mechanismm]\nstd = 2.0\n",
    "key": "[mechanism]\nsensitivity = 1.0\nstdev = 2.0\n",
    "text": "[mechanism]\nsensitivity = 1.0\nstd = 'two'\n",
    "list": "[mechanism]\nsensitivity = [1.0, 2.0, 3.0]\nstd = [2.0, 1.0]\n",
    "delta": "[mechanism]\nsensitivity = 1.0\nstd = 2.0\n[certificate]\ndleta = 1e-5\n",
    "file": "what = is = this\n",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_clear_line(line, tmp_path, capsys, monkeypatch):
    """Exit code 2, one line on stderr that names what is wrong, nothing on stdout."""
    monkeypatch.setattr(cli, "_configure_jax", lambda: None)
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
