"""The configurations of a sweep: from flags, all combinations; from a file that a sweep was
writing, those that are done.
"""

import itertools
import json
import math

import numpy as np

from jaxpriv.training.planning import steps_of

_MOST = 10**6  # values, and configurations
_DIRECT, _BY_EPOCHS = ("sampling_rate", "steps"), ("dataset_size", "batch_size", "epochs")


def combined(settings, log):
    """(axes, [(noise multiplier, sampling rate, steps)]): {setting: values} where there are
    several, and all combinations, the last setting changing fastest.

    Args:
        settings: {"noise_multiplier", and "sampling_rate", "steps" or "dataset_size", "batch_size",
            "epochs"} with texts as `values` takes them.
        log: ranges in equal ratios.

    Raises: ValueError naming the setting.
    """
    by_epochs = [name for name in _BY_EPOCHS if name in settings]
    direct = [name for name in _DIRECT if name in settings]
    if by_epochs and direct:
        raise ValueError(f"{direct[0]} does not go with {by_epochs[0]}")
    names = ("noise_multiplier", *(_BY_EPOCHS if by_epochs else _DIRECT))
    for name in names:
        if name not in settings:
            raise ValueError(f"{name} is missing")
    lists = [
        values(name, settings[name], log, whole=name in ("steps", "dataset_size")) for name in names
    ]
    if (many := math.prod(map(len, lists))) > _MOST:
        raise ValueError(f"{many:,} configurations are more than {_MOST:,}")
    rows = [
        (noise, *(_rate_and_steps(*rest) if by_epochs else rest))
        for noise, *rest in itertools.product(*lists)
    ]
    return {name: found for name, found in zip(names, lists) if len(found) > 1}, rows


def _rate_and_steps(dataset_size, batch_size, epochs):
    if not (dataset_size >= 1 and 0 < batch_size <= dataset_size):
        raise ValueError(
            f"batch_size = {batch_size:g} is outside its range (0, dataset_size = {dataset_size:g}]"
        )
    if not epochs > 0:
        raise ValueError(f"epochs = {epochs:g} is outside its range (0, inf)")
    return batch_size / dataset_size, steps_of(dataset_size, batch_size, epochs)


def values(name, text, log=False, whole=False):
    """The numbers of "0.5", of "1,2,4" or of a range "start:stop:count";
    `whole` rounds a range to whole numbers.

    >>> values("steps", "1000,2000", whole=True)
    [1000, 2000]
    >>> [round(value, 6) for value in values("noise_multiplier", "0.5:2:3", log=True)]
    [0.5, 1.0, 2.0]
    """
    try:
        found = (
            _range(text, log, whole) if ":" in text else [float(part) for part in text.split(",")]
        )
    except OverflowError:
        raise ValueError(f"{name} = {text!r} has more than {_MOST:,} values") from None
    except ValueError:
        raise ValueError(
            f"{name} = {text!r} is not a number, a list a,b,c or a range start:stop:count"
        ) from None
    for value in found:
        if not math.isfinite(value) or (whole and value != round(value)):
            raise ValueError(f"{name} = {value:g} is not a {'whole' if whole else 'finite'} number")
    return [int(value) if whole else float(value) for value in found]


def _range(text, log, whole):
    """Whole numbers as near as there are:
    a range in equal ratios may repeat one, which counts once.
    """
    ends = text.split(":")
    if len(ends) != 3:
        raise ValueError
    start, stop, count = float(ends[0]), float(ends[1]), int(ends[2])
    if count > _MOST:
        raise OverflowError
    if count < 1 or (log and not (start > 0 and stop > 0)):
        raise ValueError
    found = (np.geomspace if log else np.linspace)(start, stop, count)
    return np.round(found) if whole else found


def take_up(path, key_of):
    """{key: row} of what a file of an earlier sweep has.

    key_of: row -> its key, or None for the answer to another question.

    What follows the last line break was cut off while it was written, and is removed from the file.
    """
    done = {key: row for key, row in read_rows(path, key_of) if key is not None}
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            with open(path, "r+b") as file:
                file.truncate(whole)
    return done


def read_rows(path, key_of):
    """[(key, row)] of the whole lines of a file of a sweep; none where it is not there."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            row = json.loads(line)
            float(row["delta"])
            found.append((key_of(row), row))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path}: line {number} is not of a sweep") from None
    return found


def dp_sgd_key(delta, dim):
    """The key of a row of `sweep`: its configuration, for this delta and dim
    (None: worst case only).
    """

    def key_of(row):
        if "mechanism" in row:
            return None
        configuration = row["noise_multiplier"], row["sampling_rate"], row["steps"]
        same = row["delta"] == delta and (
            dim is None or row.get("relaxed", {}).get("dim") == dim
        )
        return configuration if same else None

    return key_of


def any_key(delta, with_relaxed):
    """The key of a row of `sweep_any`: the mechanism's settings as text."""

    def key_of(row):
        if "mechanism" not in row or row["delta"] != delta:
            return None
        return json.dumps(row["mechanism"]) if "relaxed" in row or not with_relaxed else None

    return key_of
