"""The scripts in bench/ start as their docstrings say: no PYTHONPATH, from any folder."""

import os
import subprocess
import sys

import pytest

from tests.command import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "bench").glob("*.py") if path.name != "timing.py")
BARE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
PROBE = """
import runpy, sys
sys.argv = [sys.argv[1], "--help"]
sys.path[0] = {bench!r}  # as `python bench/script.py` sets it
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as left:
    assert not left.code
import jaxpriv
from tests.attacks import oracles
print(jaxpriv.__file__, oracles.__file__)
"""


@pytest.mark.parametrize("name", SCRIPTS)
def test_starts_without_a_path(name, tmp_path):
    done = subprocess.run([sys.executable, ROOT / "bench" / name, "--help"], env=BARE, cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python bench/{name}" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["attacks.py", "composition.py", "glrt_million.py", "ncx2_vs_scipy.py"]
)
def test_finds_this_package_and_the_oracles(name, tmp_path):
    """Not one that happens to be installed."""
    bench = ROOT / "bench"
    done = subprocess.run([sys.executable, "-c", PROBE.format(bench=str(bench)), str(bench / name)],
                          env=BARE, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(ROOT / "jaxpriv") in done.stdout
    assert str(ROOT / "tests") in done.stdout
