"""dp-accounting: the curve of any of its `DpEvent`s, and an accountant with its interface."""

import math
from collections.abc import Iterator
from functools import singledispatch
from typing import Any, NamedTuple

import dp_accounting as peer
from dp_accounting import NeighboringRelation, dp_event

import jaxpriv
from jaxpriv import worst_case
from jaxpriv._checks import AT_LEAST_ONE, UNIT, Domain, check_number, check_whole
from jaxpriv.curve import Curve

_ADJACENCY = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add_remove",
    NeighboringRelation.REPLACE_ONE: "replace_one",
    NeighboringRelation.REPLACE_SPECIAL: "zero_out",
}
_FOR_OTHERS = "is known for the neighbouring relations {} only"


class Unsupported(ValueError):
    """An event of which no trade-off curve is known, and why."""

    def __init__(self, event, why):
        super().__init__(f"{type(event).__name__} {why}")
        self.event, self.why = event, why


def curve(event: Any, neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE) -> Curve:
    """The curve of a mechanism that is described for dp-accounting.

    Args:
        event: a `dp_accounting.DpEvent`, also a tree of them.
        neighboring_relation: a `dp_accounting.NeighboringRelation`; REPLACE_SPECIAL is zero-out.

    Returns: a symmetric `Curve`: both neighbours are covered, as their accountants do.
    Guarantee: all bounds, of the mechanism that the event's documentation describes. Numbers that
        are no parameters of jaxpriv (1/noise) are rounded to more leakage. With REPLACE_ONE noise
        is in units of one contribution, of which a record that is replaced moves two, as in their
        `PLDAccountant`; their `RdpAccountant` counts one.
    Raises: `Unsupported`, a ValueError, naming the event and the reason; TypeError for what is no
        event; ValueError for parameters outside their range.

        >>> import dp_accounting
        >>> from jaxpriv.bridges.dp_accounting import curve
        >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
        >>> found = curve(dp_accounting.SelfComposedDpEvent(step, 1000))
        >>> print(f"{found.epsilon(1e-5):.4f}")
        1.8282
    """
    if not isinstance(event, dp_event.DpEvent):
        raise TypeError(f"event must be a dp_accounting.DpEvent, not {type(event).__name__}")
    counts: list = []
    for leaf, count in _leaves(event, 1):
        _count(counts, leaf, count)
    return _composed(counts, _Relation(NeighboringRelation(neighboring_relation))).symmetric()


class Accountant(peer.PrivacyAccountant):
    """`dp_accounting.PrivacyAccountant` whose answers are certified upper bounds: exchange
    `dp_accounting.pld.PLDAccountant` (or the Rényi one) for it and leave all else as it is.

    Args:
        neighboring_relation: as of their accountants.

    `get_epsilon(target_delta)` and `get_delta(target_epsilon)` are the upper ends of
    `epsilon_bounds` and `delta_bounds` of `curve`, for both neighbours; `curve()` is the curve
    itself. What `curve` does not support, `supports` denies and `compose` refuses.

        >>> import dp_accounting
        >>> from jaxpriv.bridges.dp_accounting import Accountant
        >>> accountant = Accountant().compose(dp_accounting.GaussianDpEvent(2.0), count=4)
        >>> print(f"{accountant.get_epsilon(1e-5):.4f} {accountant.get_delta(1.0):.4f}")
        4.3772 0.1269
    """

    def __init__(self, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
        super().__init__(neighboring_relation)
        self._relation = _Relation(neighboring_relation)
        self._counts: list = []
        self._curve: Curve | None = None

    def _maybe_compose(self, event, count, do_compose):
        for leaf, times in _leaves(event, count):
            try:
                _one(leaf, self._relation)
            except ValueError as error:
                return self.CompositionErrorDetails(leaf, getattr(error, "why", str(error)))
            if do_compose:
                _count(self._counts, leaf, times)
                self._curve = None
        return None

    def curve(self):
        """The symmetric `Curve` of all that was composed."""
        if self._curve is None:
            self._curve = _composed(self._counts, self._relation).symmetric()
        return self._curve

    def get_epsilon(self, target_delta):
        return float(self.curve().epsilon_bounds(target_delta)[1])

    def get_delta(self, target_epsilon):
        return float(self.curve().delta_bounds(target_epsilon)[1])


class _Relation(NamedTuple):
    """A neighbouring relation, and what depends on nothing else."""

    kind: NeighboringRelation

    @property
    def adjacency(self):
        return _ADJACENCY[self.kind]

    @property
    def moves(self):
        """By how many contributions a sum is moved."""
        return 2 if self.adjacency == "replace_one" else 1

    def check(self, event, *adjacencies):
        """Unsupported if it is none of these."""
        if self.adjacency not in adjacencies:
            names = [kind.name for kind, name in _ADJACENCY.items() if name in adjacencies]
            raise Unsupported(event, _FOR_OTHERS.format(" and ".join(names)))


def _leaves(event, count) -> Iterator:
    """(event, how often) of all that compositions are made of."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        check_whole("count", event.count, least=0)
        yield from _leaves(event.event, count * event.count)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            yield from _leaves(part, count)
    elif not isinstance(event, dp_event.NoOpDpEvent):
        yield event, count


def _count(counts, event, count):
    """Add to a list of [event, count], equal ones together."""
    known = next((entry for entry in counts if entry[0] == event), None)
    if known is None:
        counts.append([event, count])
    else:
        known[1] += count


def _composed(counts, relation):
    curves = [_one(event, relation).compose(count) for event, count in counts if count]
    return jaxpriv.compose(*curves) if curves else worst_case.gaussian(0.0)


def _noise(event, name="noise_multiplier"):
    """A number of an event >= 0, where 0 tells everything."""
    value = getattr(event, name)
    if not 0 <= value < math.inf:
        raise ValueError(f"{type(event).__name__}: {name} = {value} is outside its range [0, inf)")
    return value


def _inverse(noise):
    """1/noise, rounded upwards."""
    return math.nextafter(1 / noise, math.inf)


def _all_told(share=1.0):
    """With this probability everything is told."""
    return worst_case.approximate_dp(0.0, share)


@singledispatch
def _one(event, relation):
    """The curve of one event, of the record that is there against the one that is not."""
    del relation
    why = "is not known to this version of jaxpriv"
    if isinstance(event, dp_event.UnsupportedDpEvent):
        why = "has no description"
    raise Unsupported(event, why)


@_one.register
def _(event: dp_event.SelfComposedDpEvent | dp_event.ComposedDpEvent, relation):
    counts: list = []
    for leaf, count in _leaves(event, 1):
        _count(counts, leaf, count)
    return _composed(counts, relation)


@_one.register
def _(event: dp_event.NoOpDpEvent, relation):
    del event, relation
    return worst_case.gaussian(0.0)


@_one.register
def _(event: dp_event.NonPrivateDpEvent, relation):
    del event, relation
    return _all_told()


@_one.register
def _(event: dp_event.GaussianDpEvent, relation):
    noise = _noise(event)
    return worst_case.gaussian(relation.moves * _inverse(noise)) if noise else _all_told()


@_one.register
def _(event: dp_event.LaplaceDpEvent, relation):
    noise = _noise(event)
    return worst_case.laplace(relation.moves * _inverse(noise)) if noise else _all_told()


@_one.register
def _(event: dp_event.DiscreteLaplaceDpEvent, relation):
    inverse = _noise(event, "noise_parameter")
    if inverse == 0:  # e^0, no law: their accountant's convention
        return _all_told()
    scale = math.nextafter(1 / inverse, 0.0)
    return worst_case.discrete_laplace(scale, relation.moves * event.sensitivity)


@_one.register
def _(event: dp_event.RandomizedResponseDpEvent, relation):
    relation.check(event, "replace_one", "zero_out")
    k, lie = event.num_buckets, event.noise_parameter
    if not 0 <= lie <= 1:
        raise ValueError(f"noise_parameter = {lie} is outside its range [0, 1]")
    if k == 1 or lie == 1:
        return worst_case.gaussian(0.0)
    if lie == 0:
        return _all_told() if relation.adjacency == "replace_one" else _all_told(1 - 1 / k)
    # the own value against another one: (1 - p + p/k)/(p/k), p the noise parameter
    epsilon = math.log1p(k * (1 - lie) / lie) * (1 + 2**-50)
    return worst_case.k_ary_randomized_response(epsilon, k, adjacency=relation.adjacency)


@_one.register
def _(event: dp_event.MixtureOfGaussiansDpEvent, relation):
    relation.check(event, "add_remove", "zero_out")
    if all(moved == 0 for moved in event.sensitivities):
        return worst_case.gaussian(0.0)
    noise = _noise(event, "standard_deviation")
    if noise == 0:
        moved = zip(event.sensitivities, event.sampling_probs)
        return _all_told(sum(weight for shift, weight in moved if shift))
    shifts = [math.nextafter(shift * _inverse(noise), math.inf) if shift else 0.0
              for shift in event.sensitivities]
    return worst_case.gaussian_mixture(shifts, list(event.sampling_probs))


@_one.register
def _(event: dp_event.SingleEpochTreeAggregationDpEvent, relation):
    relation.check(event, "replace_one", "zero_out")
    steps = event.step_counts
    most = max([steps] if isinstance(steps, int) else steps)
    check_whole("step_counts", most)
    noise = _noise(event)
    if noise == 0:
        return _all_told()
    # a record is in one node of each level of one tree: levels releases of equal noise
    levels = most.bit_length()
    mu = math.sqrt(levels) * _inverse(noise)
    return worst_case.gaussian(relation.moves * math.nextafter(mu, math.inf))


@_one.register
def _(event: dp_event.PoissonSampledDpEvent, relation):
    rate, inner = event.sampling_probability, event.event
    check_number("sampling_probability", rate, UNIT)
    if isinstance(inner, dp_event.PoissonSampledDpEvent):  # twice on its own is once
        check_number("sampling_probability", inner.sampling_probability, UNIT)
        both = math.nextafter(rate * inner.sampling_probability, 1.0)
        return _one(dp_event.PoissonSampledDpEvent(both, inner.event), relation)
    if rate == 0:
        return worst_case.gaussian(0.0)
    if isinstance(inner, dp_event.GaussianDpEvent) and _noise(inner):
        return worst_case.subsampled_gaussian(
            inner.noise_multiplier, rate, 1, adjacency=relation.adjacency
        )
    return _sampled(event, inner, rate, relation)


@_one.register
def _(event: dp_event.SampledWithoutReplacementDpEvent, relation):
    size, drawn = event.source_dataset_size, event.sample_size
    check_number("source_dataset_size", size, AT_LEAST_ONE)
    check_number("sample_size", drawn, Domain(0, size, f"[0, source_dataset_size = {size}]"))
    rate = drawn / size
    if isinstance(event.event, dp_event.GaussianDpEvent) and _noise(event.event):
        if relation.adjacency == "add_remove":  # the smaller data set's rate
            rate = min(1.0, drawn / (size - 1)) if size > 1 else 1.0
        return worst_case.subsampled_gaussian(
            event.event.noise_multiplier, rate, 1,
            adjacency=relation.adjacency, sampling="fixed_size",
        )  # fmt: skip
    relation.check(event, "replace_one")
    return _sampled(event, event.event, rate, relation)


def _sampled(event, inner, rate, relation):
    """A sample of any event, where it is one release."""
    base = _one(inner, relation)
    try:
        return base.subsample(rate, adjacency=relation.adjacency)
    except ValueError as error:
        raise Unsupported(event, f"of {type(inner).__name__}: {error}") from None


@_one.register
def _(event: dp_event.TruncatedSubsampledGaussianDpEvent, relation):
    if 0 in (event.sampling_probability, event.truncated_batch_size, event.dataset_size):
        return worst_case.gaussian(0.0)
    if _noise(event) == 0:
        return _all_told(event.sampling_probability)
    return worst_case.truncated_gaussian(
        event.noise_multiplier, event.sampling_probability, 1, event.dataset_size,
        event.truncated_batch_size, adjacency=relation.adjacency,
    )  # fmt: skip


@_one.register
def _(event: dp_event.SampledWithReplacementDpEvent, relation):
    del relation
    raise Unsupported(event, "has no pair that is proven to dominate: a record may be drawn "
                      "several times, in the place of others")  # fmt: skip


@_one.register
def _(event: dp_event.RepeatAndSelectDpEvent, relation):
    del relation
    raise Unsupported(event, "is known by bounds of Rényi divergences only, which are no curve")


@_one.register
def _(event: dp_event.ZCDpEvent, relation):
    del relation
    raise Unsupported(event, "is a bound of Rényi divergences, which are no curve")
