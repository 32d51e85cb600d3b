"""The checks notice: an error of 1e-8 in any one function,
far below what a plot or a loose test would show, is red.
"""

import numpy as np
import pytest

from tests.stats.checks import EVERY, LOGS, QUANTILES, check, function


def mutant(law, op):
    """The function with a relative error of 1e-8 in its log value, of 1e-7 for a quantile."""
    f = function(law, op)

    def wrong(*args):
        value = f(*args)
        if op in QUANTILES:
            return value * (1 + 1e-7)
        return value * (1 + 1e-8) if op in LOGS else np.power(value, 1 + 1e-8)

    return wrong


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_check_sees_a_small_error(law, op):
    check(law, op, function(law, op))
    with pytest.raises(AssertionError, match=rf"^{law}\.{op}"):
        check(law, op, mutant(law, op))


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_check_sees_a_nan(law, op):
    f = function(law, op)

    def broken(*args):
        value = np.array(f(*args))
        value[3] = np.nan
        return value

    with pytest.raises(AssertionError, match="nan"):
        check(law, op, broken)


@pytest.mark.parametrize(("law", "op"), EVERY)
def test_check_sees_swapped_tails(law, op):
    """Each function mistaken for its neighbour in the list of ten."""
    swap = {
        "logpdf": "logcdf",
        "pdf": "cdf",
        "logcdf": "logsf",
        "logsf": "logcdf",
        "cdf": "sf",
        "sf": "cdf",
        "ppf": "isf",
        "isf": "ppf",
        "ppf_exp": "isf_exp",
        "isf_exp": "ppf_exp",
    }
    with pytest.raises(AssertionError, match=rf"^{law}\.{op}"):
        check(law, op, function(law, swap[op]))
