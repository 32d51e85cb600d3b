"""Slow tests replace names of the package; where one has moved, that is known before they run."""

import ast
import importlib
from types import ModuleType

import pytest

from tests.command import ROOT


def replaced(source):
    """(where, attribute, line) of each name that a test module replaces."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(ast.Name("check_is_red"), [_, where, ast.Constant(str(name)), *_]):
                yield ast.unparse(where), name, node.lineno
            case ast.Call(ast.Attribute(attr="setattr"), [where, ast.Constant(str(name)), _], []):
                yield ast.unparse(where), name, node.lineno
            case ast.Tuple([where, ast.Constant(str(name)), _, *_]):  # of a table of slips
                yield ast.unparse(where), name, node.lineno


def missing(module, source):
    """(how many names were looked for, those that are not where they are replaced)."""
    found, lost = 0, []
    for where, attribute, line in replaced(source):
        owner = vars(module).get(where.split(".")[0])
        for name in where.split(".")[1:]:
            owner = getattr(owner, name, None)
        if isinstance(owner, ModuleType | type):  # others are known when the test runs
            found += 1
            if not hasattr(owner, attribute):
                lost.append(f"{module.__name__}:{line}: {where}.{attribute}")
    return found, lost


def test_names_that_are_replaced_exist():
    count, gone = 0, []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:  # of an extra that is not installed
            continue
        found, lost = missing(module, path.read_text())
        count += found
        gone += lost
    assert not gone
    assert count > 300


@pytest.mark.parametrize(
    "call",
    ['monkeypatch.setattr(pytest, "gone", 1)', 'check_is_red(monkeypatch, pytest, "gone", 1, f)'],
)
def test_a_name_that_has_gone_is_found(call):
    module = ModuleType("some")
    module.pytest = pytest
    assert missing(module, call) == (1, ["some:1: pytest.gone"])
    assert missing(module, call.replace("gone", "mark")) == (1, [])
