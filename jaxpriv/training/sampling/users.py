"""Users with many records: which of them take part at all."""

from typing import Any

import numpy as np


def limit_records(users: Any, most: int) -> np.ndarray:
    """The places of each user's first `most` records: what a user-level training is given.

    Which records of a user are kept depends on nobody else's, so that whoever adds or removes a
    user moves these records alone.

    Args:
        users: `Array["records"]` of numbers or texts: whose record each is. most: 1, 2, ...

    Returns: `Int[numpy.ndarray, "kept"]`, increasing. Raises: ValueError for users that are no
        vector, and most < 1.

        >>> limit_records(["a", "b", "a", "a"], 2)
        array([0, 1, 2])
    """
    if most < 1:
        raise ValueError(f"most = {most} is outside its range 1, 2, 3, ...")
    return np.flatnonzero(_turns(users) < most)


def check_users(users, records, plan):
    """Refuse users with more records than are protected, and those that nobody asked to protect."""
    if users is None and plan.records_per_user == 1:
        return
    if users is None or plan.records_per_user == 1:
        raise ValueError(
            f"records_per_user = {plan.records_per_user} {'without' if users is None else 'with'} "
            "users; to protect whole users takes both"
        )
    if np.shape(users) != (records,):
        raise ValueError(f"users has shape {np.shape(users)}; accepted: ({records},)")
    most = int(_turns(users).max()) + 1
    if most > plan.records_per_user:
        raise ValueError(
            f"one user has {most} records; accepted: {plan.records_per_user}; "
            "training.limit_records says which to keep"
        )


def _turns(users):
    """For each record, how many of the same user come before it."""
    users = np.asarray(users)
    if users.ndim != 1 or not len(users):
        raise ValueError(f"users has shape {users.shape}; accepted: one for each record")
    if users.dtype.kind not in "iufUSb" or (users.dtype.kind == "f" and np.isnan(users).any()):
        raise ValueError("users has missing or mixed entries; accepted: numbers, or texts, for all")
    order = np.argsort(users, kind="stable")
    sorted_users = users[order]
    first = np.flatnonzero(np.append(True, sorted_users[1:] != sorted_users[:-1]))
    counts = np.diff(np.append(first, len(users)))
    turns = np.empty(len(users), int)
    turns[order] = np.arange(len(users)) - np.repeat(first, counts)
    return turns
