"""A sweep by several processes: each computes a share and appends it to a file of its own beside
the common one, FILE.part0, FILE.part1, ...; at the end the first moves all rows there.

They exchange nothing but these files, and meet once, before any of them writes: so all have read
the same, and their shares are those of one list. Whoever is done waits until all rows are there,
for `jax.distributed` ends everybody a while after somebody has left. So it does where a process
dies: started again, as many processes as there are then go on with what the files have.
"""

import json
import time

import jax

from jaxpriv.report.ranges import read_rows, take_up

_POLL = 1.0  # seconds


class Shares:
    """What this process has to do, and what all have done.

    path: the common file. key_of: as of `take_up`. Joins the processes of `jax.distributed`, unless
    that was done before.
    """

    def __init__(self, path, key_of):
        if not jax.distributed.is_initialized():
            jax.distributed.initialize()
        self.index, self.count = jax.process_index(), jax.process_count()
        self.path, self._key_of = path, key_of
        self.own = path.with_name(f"{path.name}.part{self.index}")

    def mine(self, keys):
        """The keys of this process's share, after all have seen what is there."""
        from jax.experimental import multihost_utils

        done = set()
        for path in (self.path, *self._parts()):
            done |= set(take_up(path, self._key_of))
        multihost_utils.sync_global_devices("jaxpriv sweep")
        missing = [key for key in dict.fromkeys(keys) if key not in done]
        return missing[self.index :: self.count]

    def gathered(self, keys):
        """{key: row} of all, once it is there; the first process puts it into the common file."""
        keys = dict.fromkeys(keys)
        while not keys.keys() <= (found := self._found()).keys():
            time.sleep(_POLL)
        if self.index == 0:
            self._merge(found, keys)
        return found

    def _parts(self):
        """The files of shares, of processes of earlier runs, too."""
        begin = f"{self.path.name}.part"
        return [path for path in sorted(self.path.parent.iterdir())
                if path.name.startswith(begin) and path.name[len(begin) :].isdigit()]  # fmt: skip

    def _found(self):
        # the parts first: from there rows go to the common file, and not back
        rows = [row for path in (*self._parts(), self.path)
                for row in read_rows(path, self._key_of)]  # fmt: skip
        return {key: row for key, row in rows if key is not None}

    def _merge(self, found, keys):
        """Append what the common file lacks, in the order that was asked for; answers to other
        questions, of a run that was cut off, are kept.
        """
        there = take_up(self.path, self._key_of)
        parts = self._parts()
        others = [row for path in parts for key, row in read_rows(path, self._key_of)
                  if key is None]  # fmt: skip
        with open(self.path, "a") as out:
            for row in [*(found[key] for key in keys if key not in there), *others]:
                print(json.dumps(row), file=out)
        for path in parts:
            path.unlink()
