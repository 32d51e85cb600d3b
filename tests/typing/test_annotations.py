"""Types as a user's checker sees them: every public function has them. That they fit together is
what mypy and pyright find in `user.py`, with the wheel (`.ci/wheel`).
"""

import inspect

import jaxpriv
from tests.public import everything, methods
from tests.slips import check_is_red


def functions():
    for name, value in everything().items():
        if name.startswith("stats."):
            continue  # made by `law`, whose annotation says what they are
        if inspect.isclass(value):
            yield from ((f"{name}.{method}", made) for method, made in methods(value).items())
        elif callable(value):
            yield name, value


def lacking(function):
    """Has a parameter no type, or the result?"""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    empty = inspect.Parameter.empty
    return signature.return_annotation is empty or any(p.annotation is empty for p in named)


def check_annotated():
    assert [name for name, function in functions() if lacking(function)] == []


def test_every_public_function_has_types():
    check_annotated()


def test_a_function_without_types_is_noticed(monkeypatch):
    check_is_red(monkeypatch, jaxpriv, "worst_of", lambda *curves: curves, check_annotated)
    check_is_red(monkeypatch, jaxpriv.Curve, "auc", lambda self: 0.0, check_annotated)
