"""What a release consists of says the same everywhere."""

import importlib
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

import jaxpriv
from tests.command import ROOT
from tests.parts import deal
from tests.slips import check_is_red

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
sys.path.insert(0, str(ROOT / ".ci"))
links = importlib.import_module("links")


def test_one_version():
    version = PROJECT["version"]
    assert jaxpriv.__version__ == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version


def test_citation_has_what_its_format_asks_for():
    known = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(known)
    assert known["license"] == PROJECT["license"]


def test_extras_of_accelerators_are_jax_s():
    """With the bound of JAX itself, which a test of lower bounds would not notice."""
    bound = next(line for line in PROJECT["dependencies"] if line.startswith("jax>="))[3:]
    for extra in ("cuda12", "cuda13", "tpu"):
        assert PROJECT["optional-dependencies"][extra] == [f"jax[{extra}]{bound}"]


def test_the_oldest_versions_are_the_lower_bounds():
    command = [sys.executable, ROOT / ".ci" / "lower_bounds.py"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    wanted = {line.replace(">=", "==") for line in PROJECT["dependencies"]}
    assert wanted <= set(told.split())


def check_parts():
    """Of every N parts of the slow tests all are run, and together they are all tests."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (quick, *parts) = workflow["jobs"]["tests"]["strategy"]["matrix"]["part"]
    assert quick == "quick"
    assert parts == [f"{k + 1}/{len(parts)}" for k in range(len(parts))]
    items = list(range(100))
    dealt = [deal(items, part) for part in parts]
    assert sorted(item for own, _ in dealt for item in own) == items
    assert all(sorted(own + others) == items for own, others in dealt)


def test_machines_share_all_slow_tests(monkeypatch):
    check_parts()
    check_is_red(monkeypatch, sys.modules[__name__], "deal",
                 lambda items, which, true=deal: true(items[1:], which), check_parts)  # fmt: skip


@pytest.mark.parametrize("part", ["0/3", "4/3"])
def test_there_is_no_such_part(part):
    with pytest.raises(pytest.UsageError, match="a part is K/N"):
        deal([1, 2, 3], part)


@pytest.mark.parametrize("part", ["slow", "1", "1/10", "all of it"])
def test_wrong_parts_are_refused_at_once(part):
    command = [ROOT / ".ci" / "run", part]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=10)
    assert said.returncode == 2
    assert f"a part is quick or K/N, not {part}" in said.stderr


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")),
                         ids=lambda path: path.name)  # fmt: skip
def test_workflows_are_whole(path):
    """They parse, pin what they use, and run scripts that are there."""
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])
            for script in re.findall(r"\.ci/[\w.]+", step.get("run", "")):
                assert (ROOT / script).is_file()


def test_links_are_gone_or_not_known(capsys):
    found = dict.fromkeys(("a", "b", "c"), "page.md")
    said = {"a": "there", "b": "not reached: no network", "c": "answers 403"}
    assert links.main(found, said.get, 0.0) == 0
    assert links.main(found, {**said, "c": "gone"}.get, 0.0) == 1
    assert "3 addresses: 1 gone, 1 of which nothing" in capsys.readouterr().out


def test_links_are_found(tmp_path):
    for folder in ("docs", "jaxpriv", "notebooks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "conf.py").write_text('{"numpy": ("https://numpy.org/doc/stable", None)}')
    (tmp_path / "docs" / "a.md").write_text("(arXiv:2210.13028) [here](https://example.org/x).")
    assert set(links.addresses(tmp_path)) == {
        "https://arxiv.org/abs/2210.13028", "https://example.org/x", "https://numpy.org/doc/stable"}
