"""The site says what there is: every public name has its place, every command is one."""

import importlib
import re
import shlex
import sys

import pytest

from jaxpriv.cli import make_parser
from tests.command import ROOT
from tests.public import MODULES, public

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
sys.path.insert(0, str(DOCS))
docstrings = importlib.import_module("docstrings")


def test_reference_has_every_public_name():
    written = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    whole = set(re.findall(r"automodule:: (\S+)\n +:members:", written))
    single = set(re.findall(r"auto(?:function|class|exception|module):: (\S+)", written))
    missing = []
    for name in MODULES:
        module = importlib.import_module(f"jaxpriv.{name}")
        for offered in public(module):
            full = f"jaxpriv.{name}.{offered}"
            if f"jaxpriv.{name}" not in whole and full not in single:
                missing.append(full)
    top = importlib.import_module("jaxpriv")
    missing += [
        name for name in top.__all__
        if name not in MODULES and name != "tradeoff" and f"jaxpriv.{name}" not in single
    ]  # fmt: skip
    assert missing == []


def commands():
    for page in PAGES:
        text = re.sub(r"\\\n +", "", page.read_text())  # commands of two lines
        for line in re.findall(r"^\$ jaxpriv (.*)$", text, re.M):
            yield pytest.param(line, id=f"{page.relative_to(DOCS)}: {line}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_of_pages_parse(line):
    parsed = make_parser().parse_args(shlex.split(line, comments=True))
    assert parsed.command == line.split()[0]


def test_sections_of_docstrings_are_fields():
    lines = docstrings.to_markup([
        "Noise |x|*, of `Curve`s.", "", "Args:", "    mu: in [0, inf),", "        as a ratio.", "",
        "Raises: ValueError if it is not. Source: Dong 2022,", "Theorem 1.", "",
        "    >>> 1 * 2", "    2",
    ])  # fmt: skip
    text = "\n".join(lines)
    assert r"Noise \|x\|\*, of `Curve`\ s." in text
    assert ":Args:\n   - ``mu``: in [0, inf),\n     as a ratio." in text
    assert ":Raises:\n   ValueError if it is not." in text
    assert ":Source:\n   Dong 2022,\n   Theorem 1." in text
    assert ">>> 1 * 2\n2" in text
