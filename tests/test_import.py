"""What `import jaxpriv` reaches, and what it leaves out until it is asked for."""

import os
import subprocess
import sys

import pytest

import jaxpriv
from tests.command import ROOT

HEAVY = ("matplotlib", "flax", "orbax", "sklearn")


def fresh(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True).stdout


def test_readme_s_names_are_reached():
    """`jaxpriv.report...` as README writes it, without another import; and nothing heavy before."""
    told = fresh(f"import sys, jaxpriv; print([name for name in {HEAVY} if name in sys.modules]); "
                 "print(jaxpriv.report.DpSgd.__name__, jaxpriv.training.Privacy.__name__, jaxpriv.datasets.Dataset.__name__)")
    assert told.split("\n")[:2] == ["[]", "DpSgd Privacy Dataset"]


def test_names_are_listed_and_others_refused():
    assert {"report", "training", "datasets", "worst_case"} <= set(dir(jaxpriv))
    with pytest.raises(AttributeError, match="'jaxpriv' has no attribute 'raport'"):
        _ = jaxpriv.raport
