"""What a run has spent, on the disk before the spending:
a crash at any point leaves a ledger that counts enough.

A file of JSON lines, each with a hash of itself and of the line before. The first line is the run's
header; "note" lines add what is known later; "reserve" lines say up to which step noise may have
been released. A line counts as soon as it is synced, and only then are its steps run. A run that
goes on after a crash repeats steps with the same keys by the same program, and so releases nothing
new: they count once.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from jaxpriv._checks import check_whole
from jaxpriv._types import FilePath


class Ledger:
    """The open ledger of one run; a second process that opens it is refused.

    Attributes:
        header: what the run is, as given to `create`.
        reserved: steps that may have been released.
    """

    def __init__(
        self, path: FilePath, descriptor: int, header: dict[str, Any], reserved: int,
        check: str, size: int,
    ) -> None:
        self.path, self.header, self.reserved = path, header, reserved
        self._descriptor: Any = descriptor
        self._check, self._size = check, size
        self._notes: dict = {}

    @classmethod
    def create(cls, path: FilePath, header: dict[str, Any]) -> "Ledger":
        """A new ledger; its header is on the disk before this returns.
        Raises: FileExistsError where there is one.
        """
        path = Path(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        ledger = cls(path, descriptor, header, 0, "", 0)
        try:
            ledger._lock()
            ledger._append({"header": header})
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException:
            ledger.close()
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return ledger

    @classmethod
    def open(cls, path: FilePath) -> "Ledger":
        """The ledger of a run that goes on; a line that was cut off while it was written is
        removed, for it never counted.

        Raises: ValueError where it is missing, broken, or in use.
        """
        path = Path(path)
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            raise ValueError(f"{path} is missing: what was spent is not known") from None
        ledger = cls(path, descriptor, {}, 0, "", 0)
        try:
            ledger._lock()
            header, reserved, notes, check, size = _read(path)
            os.ftruncate(descriptor, size)
        except BaseException:
            ledger.close()
            raise
        ledger.header, ledger.reserved, ledger._notes = header, reserved, notes
        ledger._check, ledger._size = check, size
        return ledger

    def reserve(self, until: int) -> None:
        """Count the steps before `until` as spent; on the disk before this returns,
        else OSError and nothing is counted.
        """
        check_whole("until", until, 0)
        if until > self.reserved:
            self._append({"reserve": int(until)})
            self.reserved = int(until)

    def noted(self, name: str, value: Any) -> Any:
        """The value that was first noted under this name, which is `value` if there was none; on
        the disk before this returns.
        """
        if name not in self._notes:
            self._append({"note": name, "value": value})
            self._notes[name] = value
        return self._notes[name]

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _lock(self):
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{self.path} is in use by another process") from None

    def _append(self, entry):
        check = _chained(self._check, entry)
        line = (json.dumps({**entry, "check": check}) + "\n").encode()
        try:
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            if os.write(self._descriptor, line) != len(line):
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._check, self._size = check, self._size + len(line)


def _chained(before, entry):
    return hashlib.sha256((before + json.dumps(entry, sort_keys=True)).encode()).hexdigest()


def _read(path):
    """(header, reserved, notes, last check, length of what is whole)."""
    content = Path(path).read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    header, reserved, notes, check = None, 0, {}, ""
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            told = entry.pop("check")
            check = _chained(check, entry)
            if told != check or ("header" in entry) != (number == 1):
                raise ValueError
            header = entry.get("header", header)
            reserved = max(reserved, int(entry.get("reserve", 0)))
            if "note" in entry:
                notes[entry["note"]] = entry["value"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{path}, line {number}, is broken or was changed: what was spent is not known"
            ) from None
    if header is None:
        raise ValueError(f"{path} has no header: nothing was spent, start anew in another folder")
    return header, reserved, notes, check, len(whole)


def spent(path: FilePath) -> tuple[dict[str, Any], int]:
    """(header, steps that may have been released) of a ledger, read without opening it for writing.

    Raises: ValueError where it is broken; FileNotFoundError where it is missing.
    """
    header, reserved, *_ = _read(path)
    return header, reserved
