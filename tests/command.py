"""The command line in processes of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def command(*arguments):
    return [sys.executable, "-m", "jaxpriv", *map(str, arguments)]


def run(environment, *arguments):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
