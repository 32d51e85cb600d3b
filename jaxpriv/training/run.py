"""The files of a run: its keys, its ledger, its checkpoints and logs,
and what a run that goes on must find unchanged.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path

import jax
import jaxlib
import numpy as np

from jaxpriv.training.checkpoints import Checkpoints
from jaxpriv.training.keys import Keys, fresh_keys, read_keys, write_keys
from jaxpriv.training.ledger import Ledger, spent
from jaxpriv.training.processes import same_everywhere, wait

_VERSION = 2


class Run:
    """The keys, the ledger and the files of one run;
    without a folder all but the keys is nothing.
    """

    def __init__(self, folder, keys: Keys, ledger=None, checkpoints=None, lock=None):
        self.folder, self.keys, self._ledger = folder, keys, ledger
        self._checkpoints, self._lock = checkpoints, lock
        self.history: list = []
        self._counted = 0

    @classmethod
    def start(cls, folder, settings, data, seed):
        """A new one. settings: all that a resumed run must have the same;
        data: of which a keyed fingerprint is kept.
        """
        keys = fresh_keys(seed)
        if folder is None:
            return cls(None, same_everywhere(keys))
        folder = Path(folder)
        if jax.process_index() > 0:  # the first process keeps the ledger
            return cls(None, same_everywhere(keys), None, Checkpoints(folder / "checkpoints"))
        header = _header(settings) | _fingerprints(keys, data)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = locked(folder)
            stack.callback(os.close, lock)
            if not unspent(folder):
                raise ValueError(
                    f"{folder} has the ledger of a run: resume it, or choose another folder"
                )
            for name in ("keys.json", "ledger.jsonl"):  # of a start that was cut off
                (folder / name).unlink(missing_ok=True)
            write_keys(folder / "keys.json", keys)
            try:
                ledger = stack.enter_context(Ledger.create(folder / "ledger.jsonl", header))
            except BaseException:
                (folder / "keys.json").unlink()
                raise
            run = cls(
                folder, same_everywhere(keys), ledger, Checkpoints(folder / "checkpoints"), lock
            )
            stack.pop_all()
            return run

    @classmethod
    def resume(cls, folder, settings, data):
        """The one in `folder`; ValueError where settings, data,
        or what random numbers depend on are others.
        """
        if folder is None:
            raise ValueError("resume = True without a folder")
        folder = Path(folder)
        if jax.process_index() > 0:
            return cls(
                None, same_everywhere(fresh_keys()), None, Checkpoints(folder / "checkpoints")
            )
        with contextlib.ExitStack() as stack:
            ledger = stack.enter_context(Ledger.open(folder / "ledger.jsonl"))
            lock = locked(folder)
            stack.callback(os.close, lock)
            told = dict(ledger.header)
            before = {name: told.pop(name, None) for name in ("keys", "data")}
            changes = differences(told, _header(settings))
            if changes:
                raise ValueError(
                    f"{folder} is the run of another configuration: {'; '.join(changes)}"
                )
            keys = read_keys(folder / "keys.json")._replace(private=settings["seed"] is None)
            now = _fingerprints(keys, data)
            if now["keys"] != before["keys"]:
                raise ValueError(
                    f"{folder / 'keys.json'} was changed: without its keys a run can't go on"
                )
            if now["data"] != before["data"]:
                raise ValueError(
                    f"{folder} is a run on other data: the same noise on both "
                    "would show their difference"
                )
            # of one that was cut off
            for left in (folder / "checkpoints").glob("*.orbax-checkpoint-tmp*"):
                shutil.rmtree(left, ignore_errors=True)
            run = cls(
                folder, same_everywhere(keys), ledger, Checkpoints(folder / "checkpoints"), lock
            )
            stack.pop_all()
            return run

    @property
    def reserved(self):
        """Steps that are counted."""
        return self._counted if self._ledger is None else self._ledger.reserved

    def reserve(self, until):
        """Count all steps before `until`, on the disk, before they are run."""
        if self._ledger is None:
            self._counted = until
        else:
            self._ledger.reserve(until)
        wait("reserved")  # no process runs a step that is not on the disk

    def same_start(self, state):
        """Refuse to go on from other weights: the same noise on other gradients would
        show their difference.
        """
        if self._ledger is not None:
            digest = self.keys.fingerprint(state)
            if self._ledger.noted("start", digest) != digest:
                raise ValueError(
                    f"{self.folder} is the run of a model, or an optimiser, "
                    "that starts with other numbers"
                )

    def same_program(self, text):
        """Refuse to repeat steps by another program, for the same reason."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        if self._ledger is not None and self._ledger.noted("program", digest) != digest:
            raise ValueError(
                f"{self.folder} is the run of another program: the model, the loss, the optimiser "
                "or the devices have changed, or what they compute with"
            )

    def restored(self, start):
        """The state to go on from: that of the last checkpoint, else the first;
        what was logged after it is removed.
        """
        at = None if self._checkpoints is None else self._checkpoints.last()
        if at is not None and self._ledger is not None and at > self.reserved:
            raise ValueError(
                f"{self.folder} has a checkpoint after {at} steps, but its ledger counts "
                f"{self.reserved}: what was spent is not known"
            )
        if self.folder is not None:
            self.history = _cut(self.folder / "metrics.jsonl", at or 0)
            _cut(self.folder / "diagnostics.jsonl", at or 0)
        return start if at is None else self._checkpoints.restore(at, start)

    def releases(self, steps, dim):
        """Where the noisy releases of all steps go."""
        if self.folder is None:
            return np.zeros((steps, dim), np.float32)
        path = self.folder / "releases.npy"
        return np.lib.format.open_memmap(
            path, "r+" if path.exists() else "w+", np.float32, (steps, dim)
        )

    def log(self, name, row):
        """One more row of a file."""
        if self.folder is not None:
            with open(self.folder / name, "a") as file:
                file.write(json.dumps(row) + "\n")

    def save(self, at, state, releases):
        """Keep the state after `at` steps, and what was released until then."""
        if self._checkpoints is not None:
            if isinstance(releases, np.memmap):
                releases.flush()
            if self._checkpoints.last() != at:
                self._checkpoints.save(at, state)

    def finish(self):
        """The keys go: with them somebody could take the noise off."""
        if self.folder is not None:
            (self.folder / "keys.json").unlink(missing_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part in (self._checkpoints, self._ledger):
            if part is not None:
                part.close()
        if self._lock is not None:
            os.close(self._lock)


def locked(folder):
    """The folder, open and locked until it is closed:
    two starts at once would take each other's files away.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(f"{folder} is in use by another process") from None
    return descriptor


def _fingerprints(keys, data):
    return {"keys": keys.fingerprint(keys[:4]), "data": keys.fingerprint(data)}


def unspent(folder):
    """Whether nothing was spent in this folder: no ledger there counts a step, and no checkpoint
    says otherwise. A ledger that is broken may have counted some.
    """
    folder = Path(folder)
    begun = False
    with contextlib.suppress(FileNotFoundError):
        if b"\n" in (folder / "ledger.jsonl").read_bytes():
            try:
                begun = spent(folder / "ledger.jsonl")[1] > 0
            except ValueError:
                begun = True
    return not begun and not any((folder / "checkpoints").glob("*"))


def _header(settings):
    """The first line of a ledger, as JSON gives it back: settings, and what numbers depend on.

    With others the steps that are repeated would not be the same ones.
    """
    numbers = {"jax": jax.__version__, "jaxlib": jaxlib.__version__,
               "x64": jax.config.values["jax_enable_x64"],
               "partitionable": jax.config.values["jax_threefry_partitionable"],
               "backend": jax.default_backend(), "xla_flags": os.environ.get("XLA_FLAGS", "")}
    return json.loads(json.dumps({"version": _VERSION, "numbers": numbers} | settings))


def differences(before, now, name=""):
    """What changed between two configurations, as texts "name: old -> new".

    >>> differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": 4})
    ['a.b: 1 -> 3', 'c: 2 -> none', 'd: none -> 4']
    """
    if not (isinstance(before, dict) and isinstance(now, dict)):
        old, new = ("none" if value is None else value for value in (before, now))
        return [] if before == now else [f"{name}: {old} -> {new}"]
    keys = [*before, *(key for key in now if key not in before)]
    within = f"{name}." if name else ""
    return [change for key in keys
            for change in differences(before.get(key), now.get(key), f"{within}{key}")]


def _cut(path, last):
    """The rows of a log up to a step; later ones will come again,
    and one that was cut off while written is no row.
    """
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            row = json.loads(line)
            if row["step"] <= last:
                rows.append(row)
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(fresh, path)
    return rows
