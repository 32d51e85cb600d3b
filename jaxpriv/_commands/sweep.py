"""`jaxpriv sweep`: certified numbers over ranges of whatever `certify` takes."""

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jaxpriv._commands.described import described
from jaxpriv._commands.shown import with_progress

_DP_SGD_FLAGS = ("noise_multiplier", "sampling_rate", "steps", "dataset_size", "batch_size",
                 "epochs")


class Grid(NamedTuple):
    """What is asked: {name: values} of what is swept, a key of every combination, the key of
    a row, and the rows of keys.
    """

    axes: dict
    keys: list
    key_of: Callable
    rows: Callable
    delta: float


def sweep(arguments):
    if arguments.distributed and arguments.out is None:
        raise ValueError("--distributed needs --out, a file that all processes see")
    if arguments.plot is not None:
        from jaxpriv.report.sweep_plot import check_axes, draw_sweep  # missing shows before work

    grid = grid_of(arguments)
    if arguments.plot is not None:
        check_axes(grid.axes)
    first, done = _shared(grid, arguments) if arguments.distributed else _alone(grid, arguments)
    if arguments.plot is not None and first:
        rows = [done[key] for key in grid.keys]
        draw_sweep(grid.axes, rows, grid.delta, arguments.plot, arguments.log)
        print(f"wrote {arguments.plot}", file=sys.stderr)


def _alone(grid, arguments):
    """(True, {key: row} of all), by this process."""
    from jaxpriv.report.ranges import take_up

    with contextlib.ExitStack() as stack:
        out, done = sys.stdout, {}
        if arguments.out is not None:
            done = take_up(Path(arguments.out), grid.key_of)
            out = stack.enter_context(open(arguments.out, "a"))
        missing = [key for key in dict.fromkeys(grid.keys) if key not in done]
        for row in with_progress(grid.rows(missing), len(missing)):
            print(json.dumps(row), file=out, flush=True)
            done[grid.key_of(row)] = row
    return True, done


def _shared(grid, arguments):
    """(is this the first process? {key: row} of all), by all processes of `jax.distributed`."""
    from jaxpriv.report.shares import Shares

    shares = Shares(Path(arguments.out), grid.key_of)
    mine = shares.mine(grid.keys)
    with open(shares.own, "a") as out:
        for row in with_progress(grid.rows(mine), len(mine)):
            print(json.dumps(row), file=out, flush=True)
    return shares.index == 0, shares.gathered(grid.keys)


def grid_of(arguments):
    """The `Grid` of flags or of a file."""
    if arguments.dim is not None and not arguments.relaxed:
        raise ValueError("--dim goes with --relaxed")
    table, settings, delta = described(arguments, _DP_SGD_FLAGS)
    delta = 1e-5 if delta is None else delta
    others = ("sensitivity", "std", "scale", "releases", "noise")
    if table == "mechanism" and not any(name in settings for name in others):
        table = "dp_sgd"  # of which noise_multiplier is missing
    make = _of_dp_sgd if table == "dp_sgd" else _of_any
    return make(table, settings, delta, arguments)


def _of_dp_sgd(table, settings, delta, arguments):
    from jaxpriv.report.config import refuse_unknown
    from jaxpriv.report.ranges import combined, dp_sgd_key
    from jaxpriv.report.sweep import check, sweep

    refuse_unknown(settings, {*_DP_SGD_FLAGS, "dim"})
    dim = settings.get("dim", 1) if arguments.relaxed else None
    texts = {name: _text(value) for name, value in settings.items() if name != "dim"}
    axes, keys = combined(texts, arguments.log)
    noises, rates, steps = _columns(keys)
    check(noises, rates, steps, delta, dim)

    def rows(missing):
        noises, rates, steps = _columns(missing)
        return sweep(noises, rates, steps, delta, dim)

    return Grid(axes, keys, dp_sgd_key(delta, dim), rows, delta)


def _of_any(table, settings, delta, arguments):
    from jaxpriv._checks import OPEN_UNIT, check_number
    from jaxpriv.report.config import described_by
    from jaxpriv.report.grid import combinations
    from jaxpriv.report.ranges import any_key
    from jaxpriv.report.sweep import settings_of, sweep_any

    check_number("delta", delta, OPEN_UNIT)
    axes, found = combinations(table, settings, arguments.log)
    mechanisms = [described_by(table, each, delta) for each in found]
    keys = [json.dumps(settings_of(mechanism)) for mechanism in mechanisms]
    of_key = dict(zip(keys, mechanisms))
    several = {name: values for name, values in axes.items() if len(values) > 1}
    return Grid(several, keys, any_key(delta, arguments.relaxed),
                lambda missing: sweep_any([of_key[key] for key in missing], delta,
                                          arguments.relaxed), delta)


def _text(value):
    """A value of a file as a flag has it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _columns(configurations):
    return [[row[i] for row in configurations] for i in range(3)]
