"""A sweep by several processes: every row once, in one file, whoever was killed in between."""

import json
import os
import socket
import subprocess
import time

import jax
import pytest
from jax.experimental import multihost_utils

from jaxpriv import cli
from jaxpriv.report.ranges import any_key
from jaxpriv.report.shares import Shares
from tests.command import ROOT, command
from tests.slips import check_is_red

GRID = ("--noise-multiplier", "0.6:2.0:50", "--sampling-rate", "0.01,0.02", "--steps", "100,1000")


def row(number):
    return {"mechanism": number, "delta": 1e-5, "epsilon_upper": 1.0}


def keys(count):
    return [json.dumps(number) for number in range(count)]


def written(path, *rows):
    with open(path, "a") as out:
        for each in rows:
            print(json.dumps(each), file=out)


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """`Shares` of two processes on one folder, one after the other."""
    monkeypatch.setattr(multihost_utils, "sync_global_devices", lambda name: None)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    found = []
    for index in range(2):
        monkeypatch.setattr(jax, "process_index", lambda index=index: index)
        found.append(Shares(tmp_path / "rows.jsonl", any_key(1e-5, False)))
    return found


def check_shares(processes):
    mine = [shares.mine(keys(7)) for shares in processes]
    assert sorted(sum(mine, [])) == keys(7)
    assert max(map(len, mine)) - min(map(len, mine)) <= 1


def test_each_has_an_equal_share(processes):
    check_shares(processes)


def test_a_slip_turns_it_red(processes, monkeypatch):
    check_is_red(monkeypatch, Shares, "mine", lambda self, keys: keys,
                 lambda: check_shares(processes))  # fmt: skip


def test_what_is_there_is_taken_up(processes, tmp_path):
    """Rows of the common file, of a third process that is no more, of one that was cut off, and of
    another question, which stays.
    """
    path, elsewhere = tmp_path / "rows.jsonl", {**row(9), "delta": 0.5}
    written(path, row(3))
    written(tmp_path / "rows.jsonl.part2", row(1), elsewhere)
    (tmp_path / "rows.jsonl.part1").write_text(json.dumps(row(0)) + '\n{"mechanism": 2, "del')
    (tmp_path / "rows.jsonl.partial").write_text("somebody else's")
    mine = [shares.mine(keys(6)) for shares in processes]
    assert mine == [["2", "5"], ["4"]]
    for shares, own in zip(processes, mine):
        written(shares.own, *(row(int(key)) for key in own))
    found = [shares.gathered(keys(6)) for shares in reversed(processes)]
    assert found[0] == found[1] == {key: row(int(key)) for key in keys(6)}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [row(3), row(0), row(1), row(2), row(4), row(5), elsewhere]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.jsonl", "rows.jsonl.partial"]


def test_it_needs_a_file(capsys):
    assert cli.main(["sweep", *GRID, "--distributed"]) == 2
    assert "--distributed needs --out" in capsys.readouterr().err


def start(path):
    """Two processes as SLURM starts them."""
    port = free_port()
    return [
        subprocess.Popen(
            command("sweep", *GRID, "--out", path, "--distributed"), cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "SLURM_JOB_ID": str(port - 61440),
                 "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "SLURM_PROCID": str(i),
                 "SLURM_LOCALID": str(i), "SLURM_STEP_NUM_NODES": "1"})
        for i in range(2)
    ]  # fmt: skip


def free_port():
    """A free one among those that JAX takes for SLURM's jobs: 61440 and the job's number."""
    for port in range(61440 + os.getpid() % 4096, 65536):
        with socket.socket() as free:
            try:
                free.bind(("localhost", port))
                return port
            except OSError:
                continue
    raise OSError("no port is free")


@pytest.mark.slow
def test_killed_and_started_again(tmp_path):
    """The file is that of one process, after both were killed amid their work."""
    path = tmp_path / "rows.jsonl"
    killed = start(path)
    limit = time.monotonic() + 120
    while not any(part.stat().st_size for part in tmp_path.glob("*.part*")):
        assert time.monotonic() < limit
        assert all(process.poll() is None for process in killed), killed[0].communicate()[0]
        time.sleep(0.02)
    for process in killed:
        process.kill()
        process.communicate()
    had = sum(len(part.read_text().splitlines()) for part in tmp_path.glob("*.part*"))
    assert 0 < had < 200
    again = start(path)
    told = [process.communicate(timeout=200)[0] for process in again]
    assert [process.returncode for process in again] == [0, 0], "\n".join(told)
    assert cli.main(["sweep", *GRID, "--out", str(tmp_path / "alone.jsonl")]) == 0
    rows, alone = ([json.loads(line) for line in file.read_text().splitlines()]
                   for file in (path, tmp_path / "alone.jsonl"))  # fmt: skip
    assert rows == [pytest.approx(each, rel=1e-12) for each in alone]
    assert list(tmp_path.glob("*.part*")) == []
