"""Private selection among trainings: a random number of them, of which the best is told.

Whoever sees how many there were sees more than is accounted. What would show it (folders, keys,
the number itself) is therefore kept as the keys of a run are, and gone when the best is told.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from jaxpriv._types import FilePath
from jaxpriv.training.keys import fresh_keys, read_keys, write_keys
from jaxpriv.training.plan import Plan
from jaxpriv.training.run import differences, locked, unspent
from jaxpriv.training.sampling.users import check_users
from jaxpriv.training.selection import Selection
from jaxpriv.training.trainer import DPTrainer, Trained, records_of


@dataclass(frozen=True)
class Best:
    """What `best_of` returns.

    trained: the winner's `Trained`: its epsilon is that of the selection, its history tells none;
    None where nothing was trained, as of a Poisson number of tries it may happen. candidate, score:
    the winner's; None with it. selection: what was selected from. epsilon: at selection.delta,
    certified, in [0, inf].
    """

    trained: Trained | None
    candidate: Any
    score: float | None
    selection: Selection
    epsilon: float


def best_of(
    trainer_of: Callable[[Any], DPTrainer], candidates: Sequence[Any], data: Any, *, tries: Any,
    score: Callable[[Any], float], users: Any = None, seed: int | None = None,
    folder: FilePath | None = None, resume: bool = False, plans: Sequence[Plan] | None = None,
    evaluate: Callable[[Any], dict[str, Any]] | None = None, evaluate_every: int | None = None,
    checkpoint_every: int | None = None, settings: Any = None,
    then: Callable[[Best], Any] | None = None,
) -> Best:
    """Train a secret random number of times, each with a candidate drawn at random, and return the
    best.

    Args:
        trainer_of: (candidate) -> `DPTrainer`, the same one each time, which does not look at the
            data. All candidates have to protect the same, at the same delta.
        candidates: settings to choose from, fixed beforehand; anything JSON holds.
        data, users: as `DPTrainer.fit`.
        tries: `accounting.NegativeBinomialTries` or `accounting.PoissonTries`.
        score: (model) -> a number, higher is better, NaN is worst; computed on records that need no
            protection. What a score tells of private records is counted nowhere.
        seed: for selections that have to repeat: not private. Without one the number of tries, the
            candidates and the keys of every training come from the operating system.
        folder: where the tries are kept until the best is told, and then its ledger and metrics;
            nothing is kept unless given. Until then all of it is as secret as the data.
        resume: go on with the selection in `folder`, with the same number of tries and candidates.
        plans: of each candidate, from its trainer's `plan`, where they were made before.
        evaluate, evaluate_every, checkpoint_every, settings: as `DPTrainer.fit`, of each training.
        then: (`Best`) -> None, called before the other tries and the keys are deleted: until it
            returns, the selection can be resumed.

    Returns: a `Best`. Of equal scores the one that came first.
    Guarantee: all of the `Best` together with the winner's ledger and metrics is (epsilon,
        selection.delta)-differentially private for the plans' neighbouring data sets, as long as
        nothing else is seen: not the other trainings, how many there were, or how long it took. To
        select again costs as much again, also where nothing was trained.
    Raises: ValueError for what `DPTrainer.fit` refuses, candidates that protect differently,
        another law of tries, several processes, and where a resumed selection is done or is one of
        other settings or data; OSError where a file can't be written.
    Source: Papernot and Steinke 2022; the number: `accounting.selection_epsilon`.

        >>> import jax.numpy as jnp, numpy as np, optax
        >>> from jaxpriv import accounting
        >>> from jaxpriv.training import Privacy
        >>> x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
        >>> def trainer_of(rate):
        ...     return DPTrainer(lambda w, row, key: jnp.sum((w - row) ** 2), jnp.ones(2),
        ...                      optax.sgd(rate), Privacy(epsilon=1.0), batch_size=100, steps=5)
        >>> best = best_of(trainer_of, [0.01, 0.3], x, seed=0,
        ...                tries=accounting.NegativeBinomialTries(4.0),
        ...                score=lambda w: -float(jnp.sum(w**2)))
        >>> best.candidate, f"{best.epsilon:.2f}", best.trained.private
        (0.3, '1.36', False)
    """
    if jax.process_count() > 1:
        raise ValueError("a selection among trainings runs in one process; here are several")
    candidates, records = list(candidates), records_of(data)
    if plans is None:
        plans = [_checked(trainer_of(each)).plan(records) for each in candidates]
    if len(plans) != len(candidates):
        raise ValueError(f"{len(plans)} plans for {len(candidates)} candidates; accepted: one each")
    for plan in plans:
        check_users(users, records, plan)
    selection = Selection(tries, tuple(plans))
    epsilon = selection.epsilon()
    header = _header(selection, candidates, seed, settings)
    best = Best(None, None, None, selection, epsilon)
    with _Files.begun(folder, header, seed, resume) as files:
        # of one stream each, so that neither tells of the other
        key = jax.random.split(files.keys.sampling)
        for turn in range(tries.draw(key[0])):
            number = int(jax.random.randint(jax.random.fold_in(key[1], turn), (), 0, len(plans)))
            trained = files.fitted(
                turn, _checked(trainer_of(candidates[number])), data, plan=plans[number],
                users=users, seed=_seed_of(seed, turn), evaluate=evaluate,
                evaluate_every=evaluate_every, checkpoint_every=checkpoint_every,
                settings={"candidate": candidates[number], "settings": settings})
            found = float(score(trained.model))
            found = -math.inf if math.isnan(found) else found
            if best.score is None or found > best.score:
                best = Best(_told(trained, selection, epsilon), candidates[number], found,
                            selection, epsilon)
                files.best = turn
        if then is not None:
            then(best)
        files.finish(best)
    return best


def _checked(trainer):
    if not isinstance(trainer, DPTrainer):
        raise ValueError(f"trainer_of returned {trainer!r}; accepted: a DPTrainer")
    return trainer


def _told(trained, selection, epsilon):
    """A winner, with no number left that holds of one training alone."""
    history = [{name: value for name, value in row.items() if name != "epsilon"}
               for row in trained.history]
    return dataclasses.replace(trained, epsilon=epsilon, history=history, selection=selection)


def _seed_of(seed, turn):
    """Another one for every try; None where keys come from the operating system."""
    if seed is None:
        return None
    return int.from_bytes(hashlib.sha256(f"jaxpriv try {turn} of {seed}".encode()).digest()[:7])


def _header(selection, candidates, seed, settings):
    """What a selection that goes on must have the same, as JSON gives it back."""
    try:
        return json.loads(json.dumps({
            "selection": selection.settings(), "delta": selection.delta, "candidates": candidates,
            "seed": seed, "settings": settings}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"candidates and settings have to be anything JSON holds: {error}"
        ) from None


class _Files:
    """The keys of a selection, and its folder: selection.json, keys.json, and one folder a try in
    `tries`. Without a folder all but the keys is nothing.
    """

    def __init__(self, folder, keys, header, lock):
        self.folder, self.keys, self._header, self._lock = folder, keys, header, lock
        self.best = None

    @classmethod
    def begun(cls, folder, header, seed, resume):
        """A new one, or the one in `folder`."""
        if folder is None:
            if resume:
                raise ValueError("resume = True without a folder")
            return cls(None, fresh_keys(seed), header, None)
        folder = Path(folder)
        if resume and not (folder / "selection.json").is_file():
            raise ValueError(f"{folder} has no selection: start it without resume")
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = locked(folder)
            stack.callback(os.close, lock)
            keys = _gone_on(folder, header) if resume else _started(folder, header, seed)
            keys = keys._replace(private=seed is None)
            stack.pop_all()
        return cls(folder, keys, header, lock)

    def fitted(self, turn, trainer, data, **settings):
        """The training of one try; one that is there is gone on with, to its end at once where it
        was done: its keys are kept as long as the selection's.
        """
        if self.folder is None:
            return trainer.fit(data, **settings)
        (self.folder / "tries").mkdir(mode=0o700, exist_ok=True)
        folder = self.folder / "tries" / f"{turn}"
        keys, kept = folder / "keys.json", folder / "kept.json"
        if kept.exists() and not keys.exists():
            _copied(kept, keys)
        return trainer.fit(data, folder=folder, resume=not unspent(folder),
                           then=lambda trained: _copied(keys, kept), **settings)

    def finish(self, best):
        """Keep the winner's ledger and metrics alone."""
        if self.folder is None:
            return
        if best.trained is not None:
            _copied(self.folder / "tries" / f"{self.best}" / "ledger.jsonl",
                    self.folder / "ledger.jsonl")
            rows = "".join(json.dumps(row) + "\n" for row in best.trained.history)
            (self.folder / "metrics.jsonl").write_text(rows)
        _written(self.folder / "selection.json", {**self._header, "done": True})
        _cleared(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._lock is not None:
            os.close(self._lock)


def _started(folder, header, seed):
    """Keys of a new selection, on the disk; refused where one was begun."""
    if any((folder / name).exists() for name in ("selection.json", "tries", "ledger.jsonl")):
        raise ValueError(
            f"{folder} has a selection or a run: resume it, or choose another folder"
        )
    keys = fresh_keys(seed)
    (folder / "keys.json").unlink(missing_ok=True)  # of a start that was cut off
    write_keys(folder / "keys.json", keys)
    _written(folder / "selection.json", header)
    return keys


def _gone_on(folder, header):
    """Those of the selection in `folder`."""
    before = _header_in(folder)
    if before.pop("done", False):
        _cleared(folder)  # of an end that was cut off
        raise ValueError(f"{folder} is done: to select again takes another folder, and costs again")
    changes = differences(before, header)
    if changes:
        raise ValueError(
            f"{folder} is the selection of another configuration: {'; '.join(changes)}"
        )
    return read_keys(folder / "keys.json")


def _header_in(folder):
    try:
        found = json.loads((folder / "selection.json").read_text())
    except ValueError as error:
        raise ValueError(f"{folder / 'selection.json'} is broken: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{folder / 'selection.json'} is broken")
    return found


def _cleared(folder):
    """Nothing is left that tells of the other tries."""
    (folder / "keys.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "tries", ignore_errors=True)


def _copied(source, target):
    """A copy that is whole or not there."""
    fresh = target.with_suffix(".new")
    shutil.copy(source, fresh)
    os.replace(fresh, target)


def _written(path, content):
    fresh = path.with_suffix(".new")
    with open(fresh, "w") as file:
        file.write(json.dumps(content, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
