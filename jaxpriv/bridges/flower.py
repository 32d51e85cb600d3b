"""Flower: an implementation of its `PrivacyAccountant` protocol (`flwr.serverapp`, from 1.35)."""

import math

from flwr.serverapp import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyAccountant,
    PrivacySpent,
    SamplingMethod,
)

import jaxpriv
from jaxpriv import worst_case
from jaxpriv._checks import POSITIVE, as_parameter, check_whole

_NAME, _SCHEMA = "jaxpriv", 1


class Accountant(PrivacyAccountant):
    """Flower's `PrivacyAccountant` whose answers are certified upper bounds: give it to a strategy
    in the place of `flwr.serverapp.RdpAccountant` and leave all else as it is.

    Args:
        config: a `flwr.serverapp.PrivacyConfig`: target delta, population, and one of their three
            models: Poisson sampling of clients (one added or removed), samples of fixed size (one
            replaced by another), or no amplification (one added or removed).

    `curve()` is the curve of all that was composed, a symmetric `Curve` of clients.
    Guarantee: of the releases that the events describe, noise in units of one client's clipping
        norm. A client who is replaced moves a sum by two of them: that is counted here, while
        `RdpAccountant` 1.42 counts one, which is too little. Flower's fixed clipping takes "no
        amplification": that is exact for a client whose update is zero in its place. The sample
        has a fixed number of clients, so that for one who leaves another one comes, and moves the
        mean by twice the norm: that costs what events of half the noise do.
    Raises: ValueError for events of another population, counts and numbers outside their range, and
        states of other accountants or configurations.

        >>> from flwr.serverapp import (
        ...     GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, SamplingMethod)
        >>> from jaxpriv.bridges.flower import Accountant
        >>> accountant = Accountant(PrivacyConfig(
        ...     target_delta=1e-5, population_size=1000, sampling_method=SamplingMethod.POISSON,
        ...     neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE, max_epsilon=2.0))
        >>> a_round = GaussianPrivacyEvent(
        ...     noise_multiplier=1.0, sample_size=10, population_size=1000)
        >>> accountant.compose(a_round, count=1000)
        >>> print(f"{accountant.get_privacy_spent().epsilon:.4f}")
        1.8282
        >>> accountant.would_exceed(a_round, count=500)
        True
    """

    def __init__(self, config):
        self._config = config
        self._releases: list = []  # (event, count), as they came
        self._curve = None

    @property
    def config(self):
        return self._config

    @property
    def num_releases(self):
        return sum(count for _, count in self._releases)

    def compose(self, event, count=1):
        self._check(event, count)
        self._releases.append((event, count))
        self._curve = None

    def curve(self):
        """The symmetric `Curve` of all that was composed."""
        if self._curve is None:
            self._curve = self._composed(self._releases)
        return self._curve

    def get_epsilon(self, delta):
        return float(self.curve().epsilon_bounds(delta)[1])

    def get_delta(self, epsilon):
        return float(self.curve().delta_bounds(epsilon)[1])

    def get_privacy_spent(self, delta=None):
        delta = self._config.target_delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(delta), delta, self.num_releases, _NAME)

    def would_exceed(self, event, max_epsilon=None, count=1):
        self._check(event, count)
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise ValueError("max_epsilon must be given, here or in the PrivacyConfig")
        as_parameter("max_epsilon", limit, POSITIVE)
        found = self._composed([*self._releases, (event, count)])
        return bool(found.epsilon_bounds(self._config.target_delta)[1] > limit)

    def state_dict(self):
        return {
            "schema_version": _SCHEMA,
            "backend": _NAME,
            "config": _as_json(self._config),
            "compositions": [
                {"event": dict(vars(event)), "count": count} for event, count in self._releases
            ],
        }

    def load_state_dict(self, state):
        own = {"schema_version": _SCHEMA, "backend": _NAME, "config": _as_json(self._config)}
        for name, value in own.items():
            if state.get(name) != value:
                raise ValueError(f"the state's {name} is {state.get(name)!r}, not {value!r}")
        try:
            releases = [
                (GaussianPrivacyEvent(**entry["event"]), entry["count"])
                for entry in state["compositions"]
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(f"the state's compositions cannot be read: {error!r}") from error
        for event, count in releases:
            self._check(event, count)
        self._releases, self._curve = releases, None

    def _check(self, event, count):
        if event.population_size != self._config.population_size:
            raise ValueError(
                f"the event's population_size is {event.population_size}, that of the "
                f"PrivacyConfig {self._config.population_size}"
            )
        check_whole("count", count)

    def _composed(self, releases):
        counts: dict = {}
        for event, count in releases:
            counts[event] = counts.get(event, 0) + count
        curves = [self._one(event, count) for event, count in counts.items()]
        return (jaxpriv.compose(*curves) if curves else worst_case.gaussian(0.0)).symmetric()

    def _one(self, event, count):
        noise, rate = event.noise_multiplier, event.sample_size / event.population_size
        model = self._config.sampling_method, self._config.neighboring_relation
        if model == (SamplingMethod.POISSON, NeighboringRelation.ADD_OR_REMOVE_ONE):
            return worst_case.subsampled_gaussian(noise, rate, count)
        if model == (SamplingMethod.WITHOUT_REPLACEMENT, NeighboringRelation.REPLACE_ONE):
            return worst_case.subsampled_gaussian(
                noise, rate, count, adjacency="replace_one", sampling="fixed_size"
            )
        if model == (SamplingMethod.NO_AMPLIFICATION, NeighboringRelation.ADD_OR_REMOVE_ONE):
            return worst_case.gaussian(math.nextafter(1 / noise, math.inf)).compose(count)
        raise ValueError(f"no curve is known of {model[0].value} with {model[1].value}")


def _as_json(config):
    """A configuration in JSON's types: enumerations by their values."""
    return {name: getattr(value, "value", value) for name, value in vars(config).items()}
