"""How this project's docstrings become pages: sections stand at the beginning of a line or behind a
full stop (`Raises: ... Source: ...`), and formulas are plain text, not markup.
"""

import re
import textwrap
from itertools import groupby

SECTIONS = "Args|Attributes|Args and errors|Args, errors|Returns|Returns, guarantee, errors|"
SECTIONS += "Guarantee|Guarantee and errors|Raises|Source"
_LISTS = ("Args", "Attributes", "Args and errors", "Args, errors")
_OPENING = re.compile(rf"(?:^|(?<=[.)] ))({SECTIONS}): ?")
_ARGUMENT = re.compile(r"    ([\w, *./]+): (.*)$")
_CODE = re.compile(r"(``.+?``|`[^`]+`|(?<!\w)\*[a-z]+\*(?!\w))", re.S)  # or stressed


def to_markup(lines):
    """reStructuredText of a docstring."""
    found = []
    for blank, block in groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            block = list(block)
            doctest = block[0].lstrip().startswith(">>>")
            found += textwrap.dedent("\n".join(block)).split("\n") if doctest else _text(block)
            found.append("")
    return found


def _text(block):
    found, section = [], None
    for line in _one_section_each(plain("\n".join(block)).split("\n")):
        opening = _OPENING.match(line)
        if opening:
            section, line = opening[1], line[opening.end():]
            found += ["", f":{section}:", *([f"   {line}"] if line else [])]
        elif section is None:
            found.append(line)
        elif section in _LISTS and (argument := _ARGUMENT.match(line)):
            found += [f"   - ``{argument[1]}``: {argument[2]}"]
        else:
            indent = "     " if section in _LISTS else "   "
            found.append(indent + line.strip())
    return found


def _one_section_each(lines):
    for line in lines:
        starts = [match.start() for match in _OPENING.finditer(line)]
        ends = [*starts, len(line)]
        if line[: ends[0]].strip():
            yield line[: ends[0]].rstrip()
        yield from (line[start:end].rstrip() for start, end in zip(starts, ends[1:]))


def plain(text):
    """Text whose asterisks, bars, underscores and backslashes mean themselves, but for `code`."""
    parts = _CODE.split(text)
    escaped = [re.sub(r"(\\|\*|\||_(?!\w))", r"\\\1", part) for part in parts[::2]]
    code = [_code(part.strip("`")) for part in parts[1::2]]
    # what follows code in the same word is set apart for the parser alone
    escaped[1:] = [re.sub(r"^(?=\w)", r"\\ ", part) for part in escaped[1:]]
    return "".join(a + b for a, b in zip(escaped, [*code, ""]))


def _code(text):
    """A name may be a link; what is more than a name is no name."""
    if text.startswith("*"):
        return text
    text = re.sub(r"\s+", " ", text)
    return f"`{text}`" if re.fullmatch(r"[\w.]+", text) else f"``{text}``"


def _process(app, what, name, obj, options, lines):
    lines[:] = to_markup(list(lines))


def setup(app):
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
