"""Users with many records: which of them take part at all."""

import numpy as np


def limit_records(users, most):
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


def records_of_one(users):
    """The largest number of records of one user."""
    return int(_turns(users).max()) + 1


def _turns(users):
    """For each record, how many of the same user come before it."""
    users = np.asarray(users)
    if users.ndim != 1 or not len(users):
        raise ValueError(f"users has shape {users.shape}; accepted: one for each record")
    order = np.argsort(users, kind="stable")
    sorted_users = users[order]
    first = np.flatnonzero(np.append(True, sorted_users[1:] != sorted_users[:-1]))
    counts = np.diff(np.append(first, len(users)))
    turns = np.empty(len(users), int)
    turns[order] = np.arange(len(users)) - np.repeat(first, counts)
    return turns
