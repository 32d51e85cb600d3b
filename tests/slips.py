"""A check must notice a plausible slip: the slip is put in place, and the check has to turn red."""

import jax
import pytest

from jaxpriv import _stored as stored


def check_is_red(monkeypatch, where, attribute, wrong, check):
    """`check` raises AssertionError with `wrong` in the place of `where.attribute`;
    compiled programs and laws are forgotten.
    """
    monkeypatch.setattr(where, attribute, wrong)
    _forget()
    try:
        with pytest.raises(AssertionError):
            check()
    finally:
        monkeypatch.undo()
        _forget()


def _forget():
    jax.clear_caches()
    stored.forget()
