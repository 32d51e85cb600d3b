"""What `import jaxpriv` reaches, and what it leaves out until it is asked for."""

import ast
import os
import subprocess
import sys

import pytest

import jaxpriv
from tests.command import ROOT

HEAVY = ("matplotlib", "flax", "orbax", "sklearn")


def fresh(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    ).stdout


@pytest.mark.slow
def test_readme_s_names_are_reached():
    """`jaxpriv.report...` as README writes it, without another import; and nothing heavy before."""
    told = fresh(
        f"import sys, jaxpriv; print([name for name in {HEAVY} if name in sys.modules]); "
        "print(jaxpriv.report.DpSgd.__name__, jaxpriv.training.Privacy.__name__, "
        "jaxpriv.datasets.Dataset.__name__)"
    )
    assert told.split("\n")[:2] == ["[]", "DpSgd Privacy Dataset"]


def test_names_are_listed_and_others_refused():
    assert {"report", "training", "datasets", "worst_case"} <= set(dir(jaxpriv))
    with pytest.raises(AttributeError, match="'jaxpriv' has no attribute 'raport'"):
        _ = jaxpriv.raport


FLOORS = [
    {"_array", "_types", "_checks", "_derived", "_pytree", "_flags",
     "_rounding", "_stored"},  # of all floors
    {"random_words", "_grid_tables"},
    {"random_grid"},
    {"stats", "random"},
    {"tradeoff"},
    {"composition"},
    {"curve"},
    {"mixing", "resilience"},
    {"catalogue"},
    {"accounting", "worst_case", "relaxed", "membership", "target"},
    {"auditing", "bridges", "correlated", "filters"},
    {"attacks"},
    {"datasets", "training"},
    {"report"},
    {"_commands"},
    {"cli"},
]


def test_imports_point_down():
    """Nothing imports what stands above it or beside it, and every module has a floor."""
    known = {name: floor for floor, names in enumerate(FLOORS) for name in names}
    for path in sorted((ROOT / "jaxpriv").rglob("*.py")):
        own = path.relative_to(ROOT / "jaxpriv").with_suffix("").parts[0]
        if own in ("__init__", "__main__"):
            continue
        for name in imported_by(path) - {own}:
            assert known[name] < known[own] or known[name] == 0, f"{path} imports {name}"


def imported_by(path):
    """The names below `jaxpriv` that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "jaxpriv":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxpriv."):
            found.add(node.module.split(".")[1])
    return found - {"calibrate", "compose"}  # of the package itself, for what stands on it
