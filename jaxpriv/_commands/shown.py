"""What a command shows: results as a table or as JSON, errors likewise, and progress."""

import contextlib
import json
import sys


def print_report(report, render, as_json):
    """The report itself as JSON, or what `render` makes of it on a terminal."""
    if as_json:
        print(json.dumps(report, indent=2))
        return
    from jaxpriv.report.terminal import show

    show(render(report))


def print_certificate(certificate, as_json):
    from jaxpriv.report.table import render

    print_report(certificate, render, as_json)


def print_error(message, kind, as_json):
    """One line on standard error; with --json one object on standard output instead:
    {"error": message, "kind": name of the exception}.
    """
    if as_json:
        print(json.dumps({"error": message, "kind": kind}))
    else:
        print(f"jaxpriv: {message}", file=sys.stderr)


@contextlib.contextmanager
def busy(text):
    """Shows on a terminal what takes a while, and for how long it has;
    nothing where standard error is none.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    spinner = SpinnerColumn("line" if console.options.ascii_only else "dots")
    with Progress(spinner, TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
                  transient=True) as bar:
        bar.add_task(text, total=None)
        yield


def with_progress(rows, total):
    from rich.console import Console
    from rich.progress import track

    return track(
        rows, "configurations", total, console=Console(stderr=True), disable=not sys.stderr.isatty()
    )
