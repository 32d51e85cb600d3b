"""A progress bar with the epsilon spent so far."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column

_WIDE = 72


class Progress:
    """A bar on standard error while the context is open, if it is a terminal and `shown`.

    80 columns are enough for it; on fewer it is left out, with the time that remains,
    and what is told goes on below.
    """

    def __init__(self, steps, shown):
        console = Console(stderr=True)
        self._shown = bool(shown and console.is_terminal)
        wide, self._ascii = console.width >= _WIDE, console.options.ascii_only
        # whole, on as many lines as it takes
        told = TextColumn("{task.fields[told]}", table_column=Column(overflow="fold"))
        columns: tuple = (TextColumn("{task.description}"), MofNCompleteColumn(), told)
        if wide:
            columns = (columns[0], BarColumn(bar_width=12), *columns[1:], TimeRemainingColumn())
        self._bars = Bars(*columns, console=console, disable=not self._shown)
        self._task = self._bars.add_task("compiling", total=steps, told="")

    def advance(self, step):
        self._bars.update(self._task, description="training", completed=step)

    def tell(self, step, epsilon, numbers):
        """Show the newest evaluation: what was spent then, and the first of its numbers."""
        told = [f"{'epsilon' if self._ascii else 'ε'} {epsilon:.4g} at {step}"]
        told += [f"{name} {value:.4g}" for name, value in numbers.items() if name != "stop"][:1]
        self._bars.update(self._task, told=", ".join(told))

    def close(self):
        """Leave the bar as it is."""
        self._bars.stop()

    def __enter__(self):
        self._bars.__enter__()
        return self

    def __exit__(self, *raised):
        return self._bars.__exit__(*raised)
