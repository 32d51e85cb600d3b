"""Estimates lie in the brackets of the same curves, or next to them."""

import pytest

from jaxpriv import _stored as stored
from jaxpriv.composition import estimates as lattices
from tests.adversary import estimates
from tests.slips import check_is_red

# of some thousands: past what others tell at most; below what is told for sure
FOUND = [("pipeline", 50110514), ("many", 724442222)]
METHODS = ("log_delta", "epsilon", "beta", "mu", "advantage")  # among which those were drawn


def check(family, seed, methods=estimates.METHODS):
    setting, bracket, estimate, _ = estimates.asked(family, seed, methods=methods)
    assert estimates.outside(setting, bracket, estimate) <= 1, (setting, bracket, estimate)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "seed"), FOUND)
def test_found(family, seed):
    check(family, seed, METHODS)


@pytest.mark.slow
@pytest.mark.parametrize("family", estimates.SOME)
def test_of_each_family(family):
    for seed in range(2):
        check(family, seed)


@pytest.mark.slow
def test_slip_is_seen(monkeypatch):
    # its one step beside a response would be summed over that one's outcomes
    monkeypatch.setattr(lattices, "enumerated_of", lambda entry: None)
    stored.forget()
    check(*FOUND[0], METHODS)
    check_is_red(monkeypatch, lattices, "beside_others", lambda entry: False,
                 lambda: check(*FOUND[0], METHODS))
