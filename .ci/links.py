"""Do the works that are cited, and the sites that are linked to, answer? Needs a network: by hand,
or weekly on GitHub.

Usage: python .ci/links.py

arXiv numbers of docs, README.md and docstrings, and every http(s) address of the documentation.
Exit code 1 where one is not there; what can't be reached at all (no network, a site that is down or
refuses robots) is said, and no failure.
"""

import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
GONE = (404, 410)


def addresses(root=ROOT):
    """{address: a file that names it}, arXiv numbers as addresses."""
    files = [*root.glob("*.md"), *root.glob("docs/**/*.md"), root / "docs/conf.py",
             *root.glob("jaxpriv/**/*.py"), *root.glob("notebooks/*.ipynb")]
    found: dict = {}
    for path in files:
        text = path.read_text()
        for number in re.findall(r"arXiv:\s*(\d{4}\.\d{4,5})", text):
            found.setdefault(f"https://arxiv.org/abs/{number}", path)
        for address in re.findall(r"https?://[^\s)>\]\"'`\\]+", text):
            found.setdefault(address.rstrip(".,;"), path)
    return found


def answer(address):
    """"there", "gone" or why it can't be said."""
    request = urllib.request.Request(address, headers={"User-Agent": "jaxpriv link check"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return "there"
    except urllib.error.HTTPError as error:
        return "gone" if error.code in GONE else f"answers {error.code}"
    except (OSError, ValueError) as error:
        return f"not reached: {error}"


def main(found, ask=answer, pause=3.0):
    """The exit code; `pause` seconds between questions, as arXiv wishes."""
    gone = unknown = 0
    for address, path in sorted(found.items()):
        said = ask(address)
        gone, unknown = gone + (said == "gone"), unknown + (said not in ("there", "gone"))
        if said != "there":
            print(f"{address} ({path}): {said}", flush=True)
        time.sleep(pause)
    print(f"{len(found)} addresses: {gone} gone, {unknown} of which nothing can be said")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(addresses()))
