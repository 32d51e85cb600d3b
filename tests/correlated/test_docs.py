"""docs/correlated.md shows what the package answers."""

import doctest

import pytest

from tests.command import ROOT


@pytest.mark.slow
def test_the_page_s_examples():
    failed, count = doctest.testfile(str(ROOT / "docs" / "correlated.md"), module_relative=False,
                                     optionflags=doctest.NORMALIZE_WHITESPACE)
    assert count >= 7
    assert not failed
