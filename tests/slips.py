"""A check must notice a plausible slip: the slip is put in place, and the check has to turn red."""

import jax
import pytest


def check_is_red(monkeypatch, where, attribute, wrong, check):
    """`check` raises AssertionError with `wrong` in the place of `where.attribute`;
    compiled programs are forgotten.
    """
    monkeypatch.setattr(where, attribute, wrong)
    jax.clear_caches()
    try:
        with pytest.raises(AssertionError):
            check()
    finally:
        monkeypatch.undo()
        jax.clear_caches()
