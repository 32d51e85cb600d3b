"""The scripts in bench/ start as their docstrings say: no PYTHONPATH, from any folder."""

import os
import subprocess
import sys

import pytest

from tests.command import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "bench").glob("*.py") if path.name != "timing.py")
BARE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
# one process for all of them, most of whose time would be imports
PROBE = """
import runpy, sys
from importlib.machinery import PathFinder
bench, *scripts = sys.argv[1:]
before = sys.path[1:]
for script in scripts:
    # as `python bench/script.py --help` sets them
    sys.argv, sys.path = [f"{bench}/{script}", "--help"], [bench, *before]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as left:
        assert not left.code
    # what puts this package and the tests' oracles on the path runs again for the next one
    if sys.modules.pop("timing", None):
        print("found", *(PathFinder.find_spec(name).origin for name in ("jaxpriv", "tests")))
"""


@pytest.mark.slow
def test_start_without_a_path(tmp_path):
    """And find this package and the oracles of its tests, not those that happen to be installed."""
    done = subprocess.run([sys.executable, "-c", PROBE, ROOT / "bench", *SCRIPTS], env=BARE,
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith("found")]
    here = " ".join(str(ROOT / name / "__init__.py") for name in ("jaxpriv", "tests"))
    timed = [name for name in SCRIPTS if "timing import" in (ROOT / "bench" / name).read_text()]
    assert len(timed) > 10
    assert found == [f"found {here}"] * len(timed)
    for name in SCRIPTS:
        assert f"python bench/{name}" in done.stdout
