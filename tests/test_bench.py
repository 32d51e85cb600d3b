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
scripts, before = sys.argv[1:], list(sys.path)
for script in scripts:
    sys.argv, sys.path = [script, "--help"], [{bench!r}, *before[1:]]  # as `python script` sets it
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        assert not left.code
    from tests.attacks import oracles
    import jaxpriv
    print(jaxpriv.__file__, oracles.__file__)
    # the next one finds them by itself, with what they import loaded
    for name in [name for name in sys.modules if name.split(".")[0] in ("timing", "tests")]:
        del sys.modules[name]
"""
ORACLES = ["attacks.py", "composition.py", "glrt_million.py", "ncx2_vs_scipy.py"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_starts_without_a_path(name, tmp_path):
    done = subprocess.run([sys.executable, ROOT / "bench" / name, "--help"], env=BARE, cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python bench/{name}" in done.stdout


@pytest.mark.slow
def test_finds_this_package_and_the_oracles(tmp_path):
    """Not one that happens to be installed."""
    bench = ROOT / "bench"
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(bench=str(bench)), *(bench / name for name in ORACLES)],
        env=BARE, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(str(ROOT / "jaxpriv")) == len(ORACLES)
    assert done.stdout.count(str(ROOT / "tests")) == len(ORACLES)
