"""What a terminal is shown: tables that fit its width without losing a digit,
in the characters that it has.
"""

from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_ASCII = str.maketrans({"ε": "epsilon", "δ": "delta", "μ": "mu", "α": "alpha", "β": "beta",
                        "Φ": "Phi", "≥": ">=", "≤": "<=", "∞": "inf", "–": "-", "−": "-",
                        "×": "x", "…": "...", "’": "'"})


def in_ascii(text):
    """The text for a terminal without Greek letters.

    >>> in_ascii("ε ≥ 2.9 at δ=1e-05")
    'epsilon >= 2.9 at delta=1e-05'
    """
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def _writer(options):
    return in_ascii if options.ascii_only else str


@dataclass
class Line:
    """A sentence, wrapped at words."""

    text: str
    style: str = ""

    def __rich_console__(self, console, options):
        yield Text(_writer(options)(self.text), self.style)


@dataclass
class Sheet:
    """A table and sentences below it.

    Where the table is wider than the terminal its headings are wrapped, then the names in its first
    column; where that does not suffice either, every row becomes a block of lines.
    Numbers are never cut.

    Attributes:
        rows: of texts, a name and as many cells as there are further headings;
            an empty cell says nothing.
    """

    title: str
    headings: list
    rows: list
    lines: list = field(default_factory=list)

    def __rich_console__(self, console, options):
        write = _writer(options)
        headings = [write(text) for text in self.headings]
        rows = [[write(text) for text in row] for row in self.rows]
        widths = _widths(headings, rows, options.max_width)
        if widths is None:
            yield from _blocks(write(self.title), headings, rows, options.max_width)
        else:
            yield _table(write(self.title), headings, rows, widths)
        for line in self.lines:
            yield Text(write(line))


def _table(title, headings, rows, widths):
    table = Table(title=title, title_justify="left")
    for number, (heading, width) in enumerate(zip(headings, widths)):
        table.add_column(Text(heading), justify="right" if number else "left", width=width)
    for row in rows:
        table.add_row(*map(Text, row))  # as Text: in a table's markup square brackets are commands
    return table


def _widths(headings, rows, most):
    """The columns' widths in a table at most so wide, or None: what is left of whole cells once
    headings and names wrap.
    """
    columns = [list(column) for column in zip(*rows)]
    widths = [max(map(cell_len, (heading, *cells))) for heading, cells in zip(headings, columns)]
    wrapped = [
        max(_longest_word(heading), *map(cell_len, cells))
        for heading, cells in zip(headings, columns)
    ]
    names = max(map(_longest_word, (headings[0], *columns[0])))
    excess = sum(widths) + 3 * len(widths) + 1 - most
    for least in (wrapped, [names, *wrapped[1:]]):
        while excess > 0:
            widest = max(range(len(widths)), key=lambda i: widths[i] - least[i])
            if widths[widest] == least[widest]:
                break
            widths[widest] -= 1
            excess -= 1
    return None if excess > 0 else widths


def _longest_word(text):
    return max(map(cell_len, text.split()), default=0)


def _blocks(title, headings, rows, most):
    """Each row as its name and a line for every cell;
    a cell too long for that stands below its heading.
    """
    yield Text(title, "italic")
    label = max(map(cell_len, headings[1:])) + 2
    for name, *cells in rows:
        yield Text(name, "bold")
        for heading, cell in zip(headings[1:], cells):
            if not cell:
                continue
            if 2 + label + cell_len(cell) <= most:
                yield Text(f"  {heading}:".ljust(2 + label) + cell)
            else:
                yield Text(f"  {heading}:")
                yield Text(f"    {cell}" if 4 + cell_len(cell) <= most else cell)


def show(renderable):
    """Print it to standard output."""
    Console(highlight=False).print(renderable)
