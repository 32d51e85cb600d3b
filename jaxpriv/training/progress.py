"""A progress bar with the epsilon spent so far."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """A bar on standard error while the context is open, if it is a terminal and `shown`; 80 columns are enough for it."""

    def __init__(self, steps, shown):
        console = Console(stderr=True)
        self._shown = bool(shown and console.is_terminal)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn(),
                   TextColumn("ε {task.fields[epsilon]:.4g}"), TextColumn("{task.fields[told]}"), TimeRemainingColumn())
        self._bars = Bars(*columns, console=console, disable=not self._shown)
        self._task = self._bars.add_task("compiling", total=steps, epsilon=0.0, told="")

    def advance(self, step, epsilon):
        """`epsilon` is looked at only where it is shown: to look is to wait for it."""
        if self._shown:
            self._bars.update(self._task, description="training", completed=step, epsilon=float(epsilon))

    def tell(self, numbers):
        """Show the first number of the newest evaluation."""
        told = next((f"{name} {value:.4g}" for name, value in numbers.items() if name != "stop"), "")
        self._bars.update(self._task, told=told)

    def close(self):
        """Leave the bar as it is."""
        self._bars.stop()

    def __enter__(self):
        self._bars.__enter__()
        return self

    def __exit__(self, *raised):
        return self._bars.__exit__(*raised)
