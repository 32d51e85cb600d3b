"""What each of several machines tests."""

import pytest


def deal(items, which):
    """(those of the part "K/N" of all items, those of the others)."""
    first, step = map(int, which.split("/"))
    if not 1 <= first <= step:
        raise pytest.UsageError(f"a part is K/N with K from 1 to N, not {which}")
    others = list(items)
    del others[first - 1 :: step]
    return items[first - 1 :: step], others
