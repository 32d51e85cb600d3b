"""The ledger: what it says it counted is on the disk, a torn line never counted,
anything else that is off is refused.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jaxpriv import training
from jaxpriv.training import Ledger, ledger, spent
from tests.command import ROOT

HEADER = {"plan": {"steps": 10}}


@pytest.fixture
def path(tmp_path):
    with Ledger.create(tmp_path / "ledger.jsonl", HEADER) as opened:
        for until in (2, 5, 5, 3, 9):
            opened.reserve(until)
    return tmp_path / "ledger.jsonl"


def check_reserve():
    """Counted means readable by somebody else, at once."""
    with (tempfile.TemporaryDirectory() as folder,
          Ledger.create(Path(folder) / "ledger.jsonl", HEADER) as opened):
        assert training.spent(opened.path) == (HEADER, 0)
        opened.reserve(4)
        assert training.spent(opened.path) == (HEADER, 4)


def test_reserve():
    check_reserve()


def test_opened_again(path):
    with Ledger.open(path) as opened:
        assert (opened.header, opened.reserved) == (HEADER, 9)
        opened.reserve(12)
    assert spent(path) == (HEADER, 12)


def test_notes(path):
    """The first one stays, also after the ledger was opened again."""
    with Ledger.open(path) as opened:
        assert opened.noted("program", "a") == "a"
        assert opened.noted("program", "b") == "a"
    with Ledger.open(path) as opened:
        assert opened.noted("program", "b") == "a"
        assert opened.reserved == 9


def test_every_torn_line_is_cut_off(path):
    """Wherever the last line ends, what was counted before stays counted,
    and the ledger can go on.
    """
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        with Ledger.open(path) as opened:
            assert opened.reserved == 5
            opened.reserve(9)
        assert path.read_bytes() == whole


def test_every_changed_byte_is_seen(path):
    """But for the last line break, without which the last line is a torn one."""
    whole = path.read_bytes()
    for place in range(0, len(whole) - 1, 7):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="broken or was changed|no header"):
            Ledger.open(path)


def test_lines_removed(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(ValueError, match="line 2, is broken"):
        Ledger.open(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="no header"):
        spent(path)


def test_missing_and_present(tmp_path, path):
    with pytest.raises(ValueError, match="is missing: what was spent is not known"):
        Ledger.open(tmp_path / "other.jsonl")
    with pytest.raises(FileExistsError):
        Ledger.create(path, HEADER)
    assert spent(path) == (HEADER, 9)


@pytest.mark.slow
def test_one_process_at_a_time(path):
    script = f"from jaxpriv.training.ledger import Ledger\nLedger.open({str(path)!r})"
    with Ledger.open(path):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
        )
    assert "in use by another process" in done.stderr


def test_full_disk(path, monkeypatch):
    """What can't be written does not count, and leaves the ledger as it was."""
    before = path.read_bytes()
    true = os.write

    def half(descriptor, content):
        true(descriptor, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with Ledger.open(path) as opened:
        for broken in (half, lambda descriptor, content: true(descriptor, content[:3])):
            monkeypatch.setattr(ledger.os, "write", broken)
            with pytest.raises(OSError, match="No space left"):
                opened.reserve(20)
            monkeypatch.undo()
            assert opened.reserved == 9
            assert path.read_bytes() == before
        opened.reserve(20)
    assert spent(path)[1] == 20


def test_created_on_a_full_disk(tmp_path, monkeypatch):
    """Nothing half-written stays."""
    def full(descriptor, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        Ledger.create(tmp_path / "ledger.jsonl", HEADER)
    assert not list(tmp_path.iterdir())


def test_lines_are_json(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("reserve") for line in lines] == [None, 2, 5, 9]
