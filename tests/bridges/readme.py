"""README's blocks of code that its doctest leaves out, for their packages are large."""

import re

from tests.command import ROOT


def block_of_readme(words):
    """The one block of Python with these words, as text."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (found,) = [block for block in blocks if words in block and ">>>" not in block]
    return found
