"""The checks of accounting notice: each public function with a plausible slip in it
turns its check red.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import accounting, worst_case
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.hull import Symmetric
from tests.accounting import test_limits, test_renyi, test_schedule


class Slip(NamedTuple):
    """A replacement for one function of `jaxpriv.accounting`, made from the true one,
    and a check that must then fail.
    """

    name: str
    wrong: object
    check: object


def check_integral():
    test_renyi.test_divergence_is_the_integral(1.0, 0.01, False)


def check_sum():
    test_renyi.test_divergences_add_up()


def check_minimum():
    test_renyi.test_epsilon_is_the_minimum(4.0, 0.1, 5000, 1e-6)


def check_ends():
    test_renyi.test_epsilon_at_the_ends()


def check_limit():
    test_limits.test_mu_is_the_chi_square_divergence()


def check_plain():
    test_limits.test_plain_releases_are_exact()


def check_optimum():
    test_schedule.test_optimum_of_plain_releases()


def check_budget():
    test_schedule.test_the_budget_holds()


def of_adding(true):
    """Of a symmetric curve the direction that is the smaller one here."""

    def wrong(curve, order):
        symmetric = isinstance(curve.experiment, Symmetric)
        return true(Curve(curve.experiment.members[0].reversed()) if symmetric else curve, order)

    return wrong


def best_of_integers(true):
    """The minimum over integer orders."""

    def wrong(curve, delta):
        order = np.arange(2.0, 200.0)
        divergence = accounting.renyi_divergence(curve, order)
        return jnp.min(divergence + np.log1p(-1 / order) - np.log(delta * order) / (order - 1))

    return wrong


def without_the_last_terms(true):
    """Mironov's conversion, D_a - log(delta)/(a-1), at the best order."""

    def wrong(curve, delta):
        order = 1 + np.geomspace(1e-2, 1e3, 4000)
        return jnp.min(accounting.renyi_divergence(curve, order) - np.log(delta) / (order - 1))

    return wrong


def moved(field):
    """A schedule with the parameters a little to the unsafe side,
    or with bounds that are not theirs.
    """

    def slip(true):
        def wrong(*args, **options):
            best = true(*args, **options)
            return best._replace(
                **{
                    field: getattr(best, field) * (1 - 1e-8)
                    if field == "parameters"
                    else (0.0, 0.0)
                }
            )

        return wrong

    return slip


def squared_and_raised(true):
    """The term of small rates at rate 1 too."""
    return lambda curve: worst_case.gaussian(np.sqrt(np.expm1(np.square(true(curve).gdp_mu()))))


SLIPS = {
    "order off by 1e-6": Slip(
        "renyi_divergence", lambda true: lambda c, a: true(c, np.asarray(a) + 1e-6), check_integral
    ),
    "divergence in reverse": Slip(
        "renyi_divergence", lambda true: lambda c, a: true(c.reversed(), a), check_integral
    ),
    "log M, not divided": Slip("renyi_divergence",
                               lambda true: lambda c, a: true(c, a) * (np.asarray(a) - 1),
                               check_integral),
    "the smaller direction": Slip("renyi_divergence", of_adding, check_sum),
    "integer orders": Slip("renyi_epsilon", best_of_integers, check_minimum),
    "the loose conversion": Slip("renyi_epsilon", without_the_last_terms, check_minimum),
    "epsilon below": Slip(
        "renyi_epsilon", lambda true: lambda c, d: true(c, d) * (1 - 1e-8), check_minimum
    ),
    "epsilon at 2 delta": Slip(
        "renyi_epsilon", lambda true: lambda c, d: true(c, 2 * d), check_minimum
    ),
    "no largest loss": Slip(
        "renyi_epsilon", lambda true: lambda c, d: true(c.reversed(), d), check_ends
    ),
    "variance added twice": Slip(
        "gaussian_limit",
        lambda true: lambda c: worst_case.gaussian(true(c).gdp_mu() * 2**0.5),
        check_limit,
    ),
    "limit off by 1e-6": Slip("gaussian_limit",
                              lambda true: lambda c: worst_case.gaussian(true(c).gdp_mu() + 1e-6),
                              check_limit),
    "rate 1 like any other": Slip("gaussian_limit", squared_and_raised, check_plain),
    "never moves": Slip("optimise_schedule",
                        lambda true: lambda *a, **k: true(*a, **k | {"iterations": 0}),
                        check_optimum),
    "descends": Slip(
        "optimise_schedule",
        lambda true: lambda make, worth, *a, **k: true(make, lambda p: -worth(p), *a, **k),
        check_optimum,
    ),
    "ends on the unsafe side": Slip("optimise_schedule", moved("parameters"), check_budget),
    "bounds of something else": Slip("optimise_schedule", moved("delta_bounds"), check_budget),
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    slip = SLIPS[name]
    monkeypatch.setattr(accounting, slip.name, slip.wrong(getattr(accounting, slip.name)))
    with pytest.raises(AssertionError):
        slip.check()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("check", sorted({slip.check.__name__ for slip in SLIPS.values()}))
def test_check_is_green_without_a_slip(check):
    globals()[check]()


def test_every_public_name_has_a_slip():
    """What is exported at the top level has its slips in tests/tradeoff, what chooses the best of
    several tries in test_tries.py; `Schedule` is a record.
    """
    elsewhere = {"calibrate", "compose", "NegativeBinomialTries", "PoissonTries", "Schedule",
                 "selection_epsilon"}
    assert set(accounting.__all__) - elsewhere == {slip.name for slip in SLIPS.values()}
