"""The README's promises about commands: what CI runs is what it says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_two_commands_and_ci_runs_the_second():
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.M)
    assert len(commands) == 2
    test_command = commands[1].split("&&")[-1].strip().removeprefix(".venv/bin/")
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert test_command in [line.strip() for line in lines]


def test_links_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md"):
        links = re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text())
        assert links
        for link in links:
            assert link.startswith("http") or (ROOT / link).exists(), (name, link)
