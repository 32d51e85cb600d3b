"""Curves of dp-accounting's events against its own accountants."""

import inspect
import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event, pld, privacy_accountant

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.bridges import dp_accounting as bridge
from jaxpriv.bridges.dp_accounting import Accountant, Unsupported, curve
from tests.slips import check_is_red

ADD, REPLACE, NULL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
gaussian, laplace, poisson, times = (
    dp_event.GaussianDpEvent,
    dp_event.LaplaceDpEvent,
    dp_event.PoissonSampledDpEvent,
    dp_event.SelfComposedDpEvent,
)
EVENTS = {
    "gaussian": times(gaussian(2.0), 5),
    "laplace": times(laplace(3.0), 4),
    "discrete laplace": dp_event.DiscreteLaplaceDpEvent(0.5, 2),
    "response": dp_event.RandomizedResponseDpEvent(0.3, 5),
    "dp-sgd": times(poisson(0.02, gaussian(1.0)), 50),
    "sampled laplace": times(poisson(0.1, laplace(1.0)), 2),
    "truncated": times(dp_event.TruncatedSubsampledGaussianDpEvent(12, 0.25, 4, 1.0), 2),
    "mixed": dp_event.ComposedDpEvent([gaussian(3.0), times(poisson(0.02, gaussian(1.0)), 50)]),
    "told": dp_event.ComposedDpEvent([dp_event.NonPrivateDpEvent(), gaussian(1.0)]),
    "nothing": dp_event.NoOpDpEvent(),
}
UNKNOWN = {
    "has no description": dp_event.UnsupportedDpEvent(),
    "no pair that is proven": dp_event.SampledWithReplacementDpEvent(100, 10, gaussian(1.0)),
    "Rényi divergences only": dp_event.RepeatAndSelectDpEvent(gaussian(1.0), 3.0, 1.0),
    "a bound of Rényi": dp_event.ZCDpEvent(0.1),
}


def theirs(event, relation, interval=1e-4):
    """interval: of their grid, on which mixtures take them long."""
    return pld.PLDAccountant(relation, value_discretization_interval=interval).compose(event)


@pytest.mark.slow
@pytest.mark.parametrize("relation", [ADD, REPLACE, NULL], ids=lambda relation: relation.name)
@pytest.mark.parametrize("name", EVENTS)
def test_against_their_accountant(name, relation):
    """Theirs is an upper bound by a grid: above the truth, and not by much."""
    event = EVENTS[name]
    try:
        peer = theirs(event, relation, 1e-3 if name == "truncated" else 1e-4)
    except privacy_accountant.UnsupportedEventError:
        if name == "response":
            with pytest.raises(Unsupported, match="neighbouring relations REPLACE_ONE and"):
                curve(event, relation)
        else:  # of which sensitivities of two contributions are known here
            assert curve(event, relation).epsilon(1e-3) > curve(event).epsilon(1e-3)
        return
    found = curve(event, relation)
    for delta in (1e-6, 1e-2):
        want = peer.get_epsilon(delta)
        low, high = found.epsilon_bounds(delta)
        assert low <= want + 1e-12
        # in cut batches a replaced record has one norm here, two there
        assert high == want or want - high < (0.1 if name == "truncated" else 2e-3) * want
    for eps in (0.1, 1.0):
        want = peer.get_delta(eps)
        low, high = found.delta_bounds(eps)
        assert low <= want + 1e-12
        assert high == want or want - high < (0.5 if name == "truncated" else 1e-2) * want + 1e-12


@pytest.mark.slow
def test_mixture_against_their_accountant():
    event = dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2])
    for relation in (ADD, NULL):
        want = theirs(times(event, 3), relation, 1e-3).get_epsilon(1e-5)
        low, high = curve(times(event, 3), relation).epsilon_bounds(1e-5)
        assert low <= want <= high * (1 + 1e-5)


def test_their_randomised_response_forgets_how_often():
    """dp-accounting 0.6 composes one response for any number of them (docs/references.md)."""
    once = dp_event.RandomizedResponseDpEvent(0.5, 2)
    for relation in (REPLACE, NULL):
        peer = theirs(times(once, 11), relation).get_epsilon(1e-5)
        assert peer == pytest.approx(theirs(once, relation).get_epsilon(1e-5), rel=1e-9)
        low, high = curve(times(once, 11), relation).epsilon_bounds(1e-5)
        assert 5 * peer < low <= high <= 11 * math.log(3.0) * (1 + 1e-12)


def test_every_event_is_known_or_refused():
    """Also those of versions to come: by their name and a reason."""
    kinds = [kind for _, kind in inspect.getmembers(dp_event, inspect.isclass)
             if issubclass(kind, dp_event.DpEvent) and kind is not dp_event.DpEvent]
    known = {kind for kind in bridge._one.registry if kind is not object}
    refused = {type(event) for event in UNKNOWN.values()}
    assert set(kinds) == known | refused
    for why, event in UNKNOWN.items():
        for tree in (event, times(dp_event.ComposedDpEvent([gaussian(1.0), event]), 3)):
            with pytest.raises(Unsupported, match=f"{type(event).__name__} .*{why}"):
                curve(tree)


@pytest.mark.slow
def test_null_records_go_together():
    """However they are sampled; kept from seed 0 of bench/event_trees.py."""
    fixed = dp_event.SampledWithoutReplacementDpEvent(1000, 47, gaussian(3.456))
    cut = dp_event.TruncatedSubsampledGaussianDpEvent(173, 0.1, 26, 1.426)
    for other in (poisson(0.24, gaussian(1.955)), poisson(0.07, laplace(3.325)), cut):
        both = curve(dp_event.ComposedDpEvent([fixed, other]), NULL).epsilon_bounds(1e-3)
        one, two = (curve(event, NULL).epsilon_bounds(1e-3)[0] for event in (fixed, other))
        assert max(one, two) < both[0] <= both[1] < one + two + 0.1
    zeroed, replaced = (
        worst_case.subsampled_gaussian(2.0, 0.1, 3, adjacency=how, sampling="fixed_size")
        for how in ("zero_out", "replace_one")
    )
    assert zeroed.delta_bounds(0.3) == replaced.delta_bounds(0.3)
    with pytest.raises(ValueError, match="and steps for one replaced"):
        jaxpriv.compose(zeroed, replaced)


def test_closed_forms():
    mu = curve(times(gaussian(2.0), 9)).gdp_mu()
    assert mu == pytest.approx(1.5, rel=1e-14)
    assert mu >= 1.5
    assert curve(times(gaussian(2.0), 9), REPLACE).gdp_mu() == pytest.approx(3.0, rel=1e-14)
    # 100 steps: 7 levels, of which one record is in a node each; the other tree has another one's
    tree = dp_event.SingleEpochTreeAggregationDpEvent(4.0, [10, 100])
    assert curve(tree, NULL).gdp_mu() == pytest.approx(math.sqrt(7) / 4, rel=1e-14)
    eight = dp_event.SingleEpochTreeAggregationDpEvent(4.0, 8)
    assert curve(eight, NULL).gdp_mu() == pytest.approx(0.5, rel=1e-14)
    with pytest.raises(Unsupported, match="REPLACE_ONE and REPLACE_SPECIAL only"):
        curve(tree)
    # samples of samples, and a sample that is nobody's
    twice = poisson(0.5, poisson(0.1, gaussian(1.0)))
    once = worst_case.subsampled_gaussian(1.0, 0.05, 1).symmetric()
    assert curve(twice).delta(0.1) == pytest.approx(once.delta(0.1), rel=1e-13)
    assert curve(poisson(0.0, gaussian(1.0))).delta(0.0) == 0.0
    # one sample for two releases
    both = poisson(0.3, dp_event.ComposedDpEvent([gaussian(1.0), gaussian(2.0)]))
    one = worst_case.gaussian(math.sqrt(1.25)).subsample(0.3).symmetric()
    assert curve(both).delta(0.1) == pytest.approx(one.delta(0.1), rel=1e-13)
    # without replacement: 10 of 100
    batch = dp_event.SampledWithoutReplacementDpEvent(100, 10, gaussian(1.0))
    for relation, rate in ((REPLACE, 0.1), (NULL, 0.1), (ADD, 10 / 99)):
        want = worst_case.subsampled_gaussian(1.0, rate, 1, sampling="fixed_size",
                                              adjacency=bridge._ADJACENCY[relation])  # fmt: skip
        assert curve(batch, relation).delta(0.2) == want.symmetric().delta(0.2)


def test_no_noise():
    """Everything is told of who takes part."""
    for event, share in ((gaussian(0.0), 1.0), (laplace(0.0), 1.0),
                         (poisson(0.25, gaussian(0.0)), 0.25),
                         (poisson(0.25, dp_event.NonPrivateDpEvent()), 0.25),
                         (dp_event.DiscreteLaplaceDpEvent(0.0, 1), 1.0),
                         (dp_event.MixtureOfGaussiansDpEvent(0.0, [0, 1], [0.9, 0.1]), 0.1),
                         (dp_event.TruncatedSubsampledGaussianDpEvent(10, 0.2, 5, 0.0), 0.2)):
        assert curve(event).delta(5.0) == pytest.approx(share)
        assert curve(event).epsilon(0.5 * share) == np.inf
    response = dp_event.RandomizedResponseDpEvent
    assert curve(response(0.0, 5), NULL).delta(0.0) == pytest.approx(0.8)
    assert curve(response(0.0, 5), REPLACE).delta(3.0) == pytest.approx(1.0)
    assert curve(response(1.0, 5), REPLACE).delta(0.0) == 0.0
    assert curve(response(0.0, 1), REPLACE).delta(0.0) == 0.0


def test_accountant():
    """As code that was written for theirs calls it."""
    accountant = Accountant()
    assert accountant.get_epsilon(1e-5) == 0.0
    event = poisson(0.02, gaussian(1.0))
    assert accountant.compose(event, 30).compose(event, 20) is accountant
    peer = theirs(EVENTS["dp-sgd"], ADD)
    assert accountant.get_epsilon(1e-5) == pytest.approx(peer.get_epsilon(1e-5), rel=1e-3)
    assert accountant.get_delta(0.5) == pytest.approx(peer.get_delta(0.5), rel=1e-3)
    assert isinstance(accountant.get_epsilon(1e-5), float)
    assert accountant.ledger == dp_event.SelfComposedDpEvent(event, 50)
    assert accountant.neighboring_relation is ADD
    assert accountant.curve().epsilon_bounds(1e-5)[1] == accountant.get_epsilon(1e-5)
    before = accountant.get_epsilon(1e-5)
    assert not accountant.supports(dp_event.ZCDpEvent(0.1))
    with pytest.raises(privacy_accountant.UnsupportedEventError, match="bound of Rényi"):
        accountant.compose(dp_event.ComposedDpEvent([gaussian(1.0), dp_event.ZCDpEvent(0.1)]))
    assert accountant.get_epsilon(1e-5) == before
    with pytest.raises(TypeError):
        accountant.compose(1.0)
    assert accountant.compose(gaussian(5.0)).get_epsilon(1e-5) > before


@pytest.mark.parametrize(("event", "told"), [
    (gaussian(-1.0), "noise_multiplier = -1.0"), (gaussian(math.nan), "noise_multiplier = nan"),
    (laplace(math.inf), "noise_multiplier = inf"), (times(gaussian(1.0), -1), "count = -1"),
    (times(gaussian(1.0), 2.5), "count = 2.5"), (poisson(1.5, gaussian(1.0)), "1.5"),
    (poisson(math.nan, gaussian(1.0)), "sampling_probability = nan"),
    (poisson(-0.5, poisson(-0.5, gaussian(1.0))), "sampling_probability = -0.5"),
    (poisson(0.1, poisson(2.0, gaussian(1.0))), "sampling_probability = 2"),
    (dp_event.SampledWithoutReplacementDpEvent(10, 20, gaussian(1.0)), "sample_size = 20"),
    (dp_event.DiscreteLaplaceDpEvent(1.0, 0.5), "sensitivity"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.4]), "weights sum to"),
])  # fmt: skip
def test_refuses_other_numbers(event, told):
    with pytest.raises(ValueError, match=told):
        curve(event)


def test_a_single_record_is_always_drawn():
    event = dp_event.SampledWithoutReplacementDpEvent(1, 1, gaussian(1.0))
    assert curve(event).epsilon(1e-5) >= curve(gaussian(1.0)).epsilon(1e-5) * (1 - 1e-9)


def test_refuses_what_is_no_event():
    with pytest.raises(TypeError, match=r"dp_accounting\.DpEvent, not float"):
        curve(1.0)
    for lie in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="noise_parameter"):
            curve(dp_event.RandomizedResponseDpEvent(lie, 3), REPLACE)


SLIPS = {
    "half the noise's inverse": (bridge, "_inverse", lambda noise: 0.5 / noise, test_closed_forms),
    "one contribution": (bridge._Relation, "moves", 1, test_closed_forms),
    "counts are lost": (bridge, "_count", lambda counts, event, count: counts.append([event, 1]),
                        test_accountant),
    "nothing is told": (bridge, "_all_told", lambda share=1.0: worst_case.gaussian(0.0),
                        test_no_noise),
}


@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])
