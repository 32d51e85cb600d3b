"""What a terminal shows: whole numbers at any width, ASCII where it has no more,
and a sign of life while work goes on.
"""

import io
import os
import pty
import re
import subprocess

import pytest
from rich.cells import cell_len
from rich.console import Console

from jaxpriv import cli
from jaxpriv.report.audit import render_audit
from jaxpriv.report.table import render
from jaxpriv.report.terminal import Line, Sheet, in_ascii
from jaxpriv.report.training import render_training
from jaxpriv.training.progress import Progress
from tests.command import ROOT, command, run

RATE = {"estimate": 0.123456, "lower": 0.1, "upper": 0.2, "resolved": True}
AUDIT = {
    "confidence": 0.999,
    "members": 10000,
    "non_members": 10001,
    "auc": 0.91234,
    "advantage": 0.6789,
    "delta": 1e-5,
    "tpr_at_fpr": {"0.001": RATE, "0.01": {**RATE, "resolved": False}},
    "epsilon_lower": 2.34567,
    "mu_lower": 1.98765,
    "gaussian_epsilon_lower": 8.76543,
    "claims": [{"claim": "claimed, μ = 1", "violated": True, "direction": "forward", "power": 0.5,
                "alpha": 0.1, "allowed": 0.4}],
}


def row(name, scale=1.0):
    return {"adversary": name, "assumption": "The adversary knows all – and ε ≤ 1 of it.",
            "epsilon_lower": 2.98312 * scale, "epsilon": 2.98401 * scale, "mu_at_slack": 0.715604,
            "advantage": 0.279512 * scale,
            "tpr_at_fpr": {"0.001": 0.00878321 * scale, "0.1": 0.285712 * scale}}


CERTIFICATE = {
    "delta": 1e-5,
    "description": "Mechanism: 1 release.",
    "adjacency": "add/remove",
    "sampling": "none",
    "adversaries": [row("worst case"), row("relaxed, dim 1000000", 0.12345),
                    row("relaxed, dim 10", 1e-7)],
    "notes": ["The worst case is vacuous here."],
    "private": False,
    "held_out": {"test_accuracy": 0.987614},
    "audit": None,
}
NUMBERS = {
    "certificate": ("[2.983, 2.985]", "0.7157", "0.2796", "0.008784", "0.2858", "0.03451",
                    "2.796e-08", "8.784e-10"),
    "audit": ("0.9123", "0.6789", "0.1235", "[0.1000, 0.2000]", "2.345", "1.987", "8.765", "99.9%"),
}
SHEETS = {"certificate": lambda: render(CERTIFICATE),
          "training": lambda: render_training(CERTIFICATE), "audit": lambda: render_audit(AUDIT)}


def shown(renderable, width, encoding="utf-8"):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    Console(file=stream, width=width, highlight=False).print(renderable)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", SHEETS)
def test_no_width_loses_a_number(name, encoding):
    """No line is wider than the terminal, none ends in dots,
    and every number is there in one piece.
    """
    for width in (24, 30, 40, 50, 60, 70, 79, 80, 99, 100, 120, 200):
        text = shown(SHEETS[name](), width, encoding)
        assert max(map(cell_len, text.splitlines())) <= width
        assert "…" not in text
        for number in NUMBERS["audit" if name == "audit" else "certificate"]:
            assert number in text, (width, number)


def test_wide_enough_is_a_table_and_too_narrow_are_blocks():
    assert "│ worst case" in shown(SHEETS["certificate"](), 100)
    assert (
        "\nworst case\n  ε at δ=1e-05:     [2.983, 2.985]\n  μ at slack 1e-05: 0.7157\n"
        in shown(SHEETS["certificate"](), 40)
    )


@pytest.mark.parametrize("name", SHEETS)
def test_ascii(name):
    text = shown(SHEETS[name](), 80, "ascii")
    assert text.isascii()
    assert "epsilon at delta=1e-05" in shown(SHEETS[name](), 200, "ascii")
    assert "\\u" not in text


def test_what_is_not_known_in_ascii_is_escaped():
    assert in_ascii("ε ≥ 1 – Ω") == "epsilon >= 1 - \\u03a9"
    assert shown(Line("[b]μ[/b] = [1, 2]"), 80, "ascii") == "[b]mu[/b] = [1, 2]\n"
    assert "[bold] 1" in shown(Sheet("t", ["a", "b"], [["[red]", "[bold] 1"]]), 80)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}]
)
def test_certificate_in_ascii(environment, changes):
    """Of a whole process: Greek letters in words, boxes of + - |."""
    ours = ("PYTHONIO", "PYTHONUTF", "LC_", "LANG")
    plain = {name: value for name, value in environment.items() if not name.startswith(ours)}
    done = subprocess.run(command("certify", "examples/diabetes_means.toml"), capture_output=True,
                          env={**plain, "COLUMNS": "120", **changes}, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"epsilon at delta=1e-05 |" in done.stdout
    assert b" [0.5992, 0.5993] |" in done.stdout
    assert b"\\u" not in done.stdout


@pytest.mark.slow
def test_forty_columns(environment):
    """Every number of the table in README."""
    wide = (ROOT / "README.md").read_text()
    narrow = run({**environment, "COLUMNS": "40"}, "certify", "examples/diabetes_means.toml").stdout
    numbers = re.findall(r"\d[\d.e-]*\d", wide.split("└")[0].split("┡")[1])
    assert len(numbers) > 15
    assert set(numbers) <= set(re.findall(r"\d[\d.e-]*\d", narrow))
    assert max(map(len, narrow.splitlines())) <= 40


@pytest.mark.parametrize("name", ["certify", "calibrate", "train", "sweep", "audit"])
def test_help_is_ascii(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([name, "--help"])
    assert capsys.readouterr().out.isascii()


def on_a_terminal(arguments, environment):
    """(exit code, what stderr showed where it is a terminal, stdout)."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=theirs,
                               env={**environment, "TERM": "xterm"}, cwd=ROOT)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    output = process.stdout.read()
    return process.wait(), seen.decode(), output.decode()


@pytest.mark.slow
def test_certify_shows_that_it_works_on_a_terminal_only(environment):
    code, seen, output = on_a_terminal(
        command("certify", "--sensitivity", 1, "--std", 2, "--json"), environment
    )
    assert code == 0
    assert "computing the certificate" in seen
    assert re.search(r"0:00:0\d", seen)
    assert output.startswith("{")
    silent = run(environment, "certify", "--sensitivity", 1, "--std", 2, "--json")
    assert silent.stderr == ""
    assert silent.stdout == output


@pytest.mark.parametrize("width", [40, 80])
def test_bar_of_a_training_is_whole(width, monkeypatch):
    """What it tells is not cut off."""
    stream = io.StringIO()
    monkeypatch.setattr(
        "jaxpriv.training.progress.Console",
        lambda **_: Console(file=stream, width=width, force_terminal=True, color_system=None),
    )
    with Progress(100_000, True) as bar:
        bar.advance(99_999)
        bar.tell(99_990, 2.9987, {"test_accuracy": 0.98761})
        bar.advance(100_000)
        bar.close()
    text = "".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).split())
    assert "…" not in text
    assert "100000/100000" in text
    assert "ε2.999at99990" in text
    assert "0.9876" in text
