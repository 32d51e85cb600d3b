"""Whoever reads a citation can find the work:
by authors and year, and all of them in docs/references.md.
"""

import json
import re

import pytest

from tests.command import ROOT

FOLDERS = ("jaxpriv", "tests", "examples", "bench", "notebooks", "docs")
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".ipynb", ".toml") and path.name != "test_references.py"
)
FILES += [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
REFERENCES = (ROOT / "docs" / "references.md").read_text()
CITED = re.compile(
    r"\b([A-Z][\w-]+)((?:(?:,? and |, )(?:van der )?[A-Z]\w+)*)(?: et al\.)?,? \(?((?:19|20)\d\d)\b"
)


def text_of(path):
    if path.suffix != ".ipynb":
        return path.read_text()
    return "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_numbered_papers(path):
    """Nobody else has the list that the numbers came from."""
    assert not re.search(
        r"\bpapers? ?[1-4]\b|\bERRATA\b|\bthe errata\b", text_of(path) + " " + path.name, re.I
    )


def test_every_work_is_listed():
    """By its first author and its year, at the beginning of an entry."""
    entries = re.findall(r"^- (.*(?:\n  .*)*)", REFERENCES, re.M)
    found = set()
    for path in FILES:
        if path.name in ("references.md", "CHANGELOG.md") or path.parent.name == "bench":
            continue
        text = re.sub(r"\s*\n[\s#]*", " ", text_of(path))
        found |= {(first, year) for first, _, year in CITED.findall(text)}
    found -= {("Theorem", year) for _, year in found}
    assert len(found) > 25
    missing = [work for work in sorted(found)
               if not any(all(part in entry for part in work) for entry in entries)]
    assert not missing


def test_the_four_papers_say_where_they_are():
    for name, where in (("Kaissis et al. 2022", "arXiv:2210.13028"),
                        ("Leemann et al. 2023", "arXiv:2306.07273"),
                        ("Kaissis et al. 2023", "NeurIPS 2023"),
                        ("Azize and Basu 2025", "AISTATS 2025")):
        entry = re.search(rf"^- \*\*{name}\*\*(.*(?:\n  .*)*)", REFERENCES, re.M)[1]
        assert where in entry
