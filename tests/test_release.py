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
