"""Completion in a real bash: what it offers after words of a command line."""

import shutil
import subprocess
import sys

import pytest

from jaxpriv import _flags, cli
from jaxpriv._commands import completion
from tests.slips import check_is_red

pytest.importorskip("shtab")

_ASK = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
declared=$(complete -p jaxpriv); name=${declared##*-F }
${name% jaxpriv}
printf '%s\\n' "${COMPREPLY[@]}"
"""
OFFERED = {
    ("jaxpriv", "cer"): {"certify"},
    ("jaxpriv", "certify", "--noise-"): {"--noise-multiplier"},
    ("jaxpriv", "calibrate", "--adversary", ""): {"worst-case", "relaxed"},
    ("jaxpriv", "sweep", "--pl"): {"--plot"},
    ("jaxpriv", "completion", ""): {"bash", "zsh", "fish"},
}


def check_bash_offers(words, tmp_path, capsys):
    assert cli.main(["completion", "bash"]) == 0
    (tmp_path / "jaxpriv").write_text(capsys.readouterr().out)
    done = subprocess.run(["bash", "-c", _ASK, "bash", tmp_path / "jaxpriv", *words],
                          capture_output=True, text=True, check=False, cwd=tmp_path)
    assert set(done.stdout.split()) - {"-h", "--help"} == OFFERED[words], done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("words", OFFERED)
def test_bash_offers(words, tmp_path, capsys):
    check_bash_offers(words, tmp_path, capsys)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_slip_turns_it_red(monkeypatch, tmp_path, capsys):
    """A parser without the mechanism's flags."""
    words = ("jaxpriv", "certify", "--noise-")
    monkeypatch.setattr(_flags, "_add_dp_sgd", lambda parser, **more: None)
    check_is_red(monkeypatch, completion, "make_parser", _flags.make_parser,
                 lambda: check_bash_offers(words, tmp_path, capsys))


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_command(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name in ("certify", "calibrate", "sweep", "audit", "verify", "train", "sampling-rate"):
        assert name in script


def test_without_shtab_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install 'jaxpriv[completion]'" in capsys.readouterr().err
