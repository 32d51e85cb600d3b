"""What the best of a random number of trainings costs: the accountant of `training.best_of`."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jaxpriv._checks import POSITIVE, check_number
from jaxpriv._types import Numbers
from jaxpriv.accounting.selection import epsilon_of_best
from jaxpriv.accounting.tries import NegativeBinomialTries, PoissonTries
from jaxpriv.training.plan import Plan
from jaxpriv.training.profile import chords

_ETAS = {"geometric": 1.0, "logarithmic": 0.0}
LAWS = (*_ETAS, "negative_binomial", "poisson")
_LARGEST = 500.0  # epsilon of a point: where a training has one at all it is below 512
_DECADES = (3, 2, 1, 0, -1, -2)  # around delta: where the points of a selection lie
_FEW, _MANY = 24, 128  # points; few of curves that take half a second for each
_ROUNDS, _SHORT = 15, 1e-3  # of the search for the epsilon of one; what it leaves of the target


def tries_of(law: str, mean: float, eta: float | None = None) -> Any:
    """The law of the number of tries by its name.

    Args:
        law: one of `LAWS`. mean: of the number of tries. eta: of "negative_binomial" alone.

    Raises: ValueError for an unknown law, values outside their range, and an eta that is missing or
        belongs to no such law.

        >>> tries_of("geometric", 10)
        NegativeBinomialTries(mean=10, eta=1.0)
    """
    if law not in LAWS:
        raise ValueError(f"tries = {law!r}; accepted: {', '.join(LAWS)}")
    if (eta is None) == (law == "negative_binomial"):
        raise ValueError(
            f"eta = {eta} with tries = {law!r}; it goes with 'negative_binomial', and has to"
        )
    if law == "poisson":
        return PoissonTries(mean)
    return NegativeBinomialTries(mean, _ETAS[law] if eta is None else eta)


@dataclass(frozen=True)
class Selection:
    """The best of a random number of trainings, each after one of these plans.

    Attributes:
        tries: `accounting.NegativeBinomialTries` or `accounting.PoissonTries`.
        plans: a `Plan` for each candidate, for the same neighbouring data sets and the same delta;
            which of them a training follows is drawn without looking at the data.

    Raises: ValueError for another law, no plan, and plans that protect differently.

        >>> from jaxpriv.accounting import NegativeBinomialTries
        >>> one = Plan(1000, 100, (2.0,) * 50, dim=10)
        >>> selection = Selection(NegativeBinomialTries(10.0), (one,))
        >>> print(f"{selection.epsilon_of_one:.3f} {selection.epsilon():.3f}")
        1.653 2.595
    """

    tries: Any
    plans: tuple[Plan, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.tries, (NegativeBinomialTries, PoissonTries)):
            raise ValueError(
                f"tries = {self.tries!r}; accepted: NegativeBinomialTries, PoissonTries"
            )
        if not self.plans:
            raise ValueError("no candidates; accepted: at least one")
        first = self.plans[0]
        for plan in self.plans:
            for name in ("adjacency", "delta", "dataset_size"):
                one, other = getattr(first, name), getattr(plan, name)
                if one != other:
                    raise ValueError(
                        f"candidates differ in {name}: {one} and {other}; accepted: trainings that "
                        "protect the same, at the same delta"
                    )

    @classmethod
    def epsilon_of_each(
        cls, tries: Any, plans_of: Callable[[float], Sequence[Plan]], epsilon: float
    ) -> float:
        """The epsilon that each training may have, so that the best of them has this one.

        Args:
            tries: as of the selection. plans_of: epsilon of each -> the candidates' plans.
            epsilon: of the selection, in (0, inf).

        Returns: an epsilon at which the selection's is at most the one asked for by its upper
            bound, and above 0.998 of it if one is found.
        Raises: ValueError for an epsilon outside its range, where none is found, and what
            `plans_of` raises.

            >>> from jaxpriv.accounting import NegativeBinomialTries
            >>> from jaxpriv.training import Privacy, make_plan
            >>> def plans_of(one):
            ...     return [make_plan(Privacy(epsilon=one), 1000, 10, batch_size=100, steps=50)]
            >>> one = Selection.epsilon_of_each(NegativeBinomialTries(10.0), plans_of, 2.0)
            >>> print(f"{one:.2f}")
            1.25
        """
        check_number("epsilon", epsilon, POSITIVE)
        one, kept = epsilon / 2, 0.0
        for _ in range(_ROUNDS):
            found = cls(tries, tuple(plans_of(one))).epsilon()
            kept = max(kept, one) if found <= epsilon else kept
            if epsilon * (1 - 2 * _SHORT) <= found <= epsilon:
                break
            # of a cost in proportion this would be the last round
            one *= (1 - _SHORT) * epsilon / found if math.isfinite(found) else 0.5
        if not kept:
            raise ValueError(
                f"epsilon = {epsilon:g} of a selection needs trainings of epsilon below {one:.3g}; "
                "accepted: a larger one, or fewer tries"
            )
        return kept

    @property
    def delta(self) -> float:
        """That of every plan."""
        return self.plans[0].delta

    @cached_property
    def different(self) -> tuple[Plan, ...]:
        """Each plan once: candidates of other learning rates have the same."""
        return tuple({json.dumps(plan.settings()): plan for plan in self.plans}.values())

    @cached_property
    def _each(self) -> list["_Each"]:
        return [_Each(plan) for plan in self.different]

    @cached_property
    def epsilon_of_one(self) -> float:
        """An upper bound of epsilon at delta of a single training, the worst of them."""
        return max(each.epsilon(self.delta) for each in self._each)

    def epsilon(self, delta: float | None = None) -> float:
        """An upper bound of epsilon of the best training, in [0, inf]; at the plans' delta unless
        another one in (0, 1) is given.

        Guarantee: whatever the score, as long as it is computed of a training's releases and of
            records that need no protection. Source: `accounting.selection_epsilon`; a try follows
            each plan with some probability, so its delta is at most that of the worst. What drawn
            noise adds to delta is counted in every try.
        """
        return epsilon_of_best(
            lambda epsilons: np.max([each.deltas(epsilons) for each in self._each], axis=0),
            lambda delta: max(each.epsilon(delta) for each in self._each),
            self.tries, self.delta if delta is None else delta)

    @cached_property
    def epsilon_lower(self) -> float:
        """A lower bound of the worst case over all scores: of one that says the same of everything,
        which tells one training; 0 where candidates differ, or nothing may be told.
        """
        if len(self.different) > 1 or isinstance(self.tries, PoissonTries):
            return 0.0
        return self._each[0].profile.epsilon(self.delta)[0]

    @cached_property
    def points(self) -> list[tuple[float, float]]:
        """[(epsilon, delta)] that the selection satisfies, that of its delta among them; where no
        epsilon is certified, the one that everything satisfies.
        """
        deltas = [self.delta * 10.0**k for k in _DECADES if self.delta * 10.0**k < 0.2 or k == 0]
        found = [(self.epsilon(delta), delta) for delta in deltas]
        return [point for point in found if point[0] <= _LARGEST] or [(0.0, 1.0)]

    def settings(self) -> dict[str, Any]:
        """In numbers and texts: all that makes the same selection, but for delta."""
        named = {"law": "poisson", "mean": self.tries.mean}
        if isinstance(self.tries, NegativeBinomialTries):
            names = {eta: law for law, eta in _ETAS.items()}
            law = names.get(self.tries.eta, "negative_binomial")
            named["law"] = law
            if law == "negative_binomial":
                named["eta"] = self.tries.eta
        return {"tries": named, "mechanisms": [plan.settings() for plan in self.different]}


class _Each:
    """Upper bounds of one plan, as `epsilon_of_best` asks for them: hundreds of deltas, of which
    some are computed, and chords of these bound the others.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.profile = plan.profile()
        self._epsilons: dict[float, float] = {}

    def epsilon(self, delta: float) -> float:
        if delta not in self._epsilons:
            self._epsilons[delta] = self.profile.epsilon(delta)[1] if delta > 0 else math.inf
        return self._epsilons[delta]

    @cached_property
    def _known(self) -> list[tuple[float, float]]:
        reach = 2 * min(self.epsilon(self._plan.delta), _LARGEST) + 1
        at = np.linspace(0.0, reach, _FEW if self._plan.sampler.slow else _MANY)
        deltas = np.asarray(self._plan.curve().delta_bounds(at)[1])
        return [(float(epsilon), min(float(delta) + float(self._plan.noise_delta(epsilon)), 1.0))
                for epsilon, delta in zip(at, deltas)]

    def deltas(self, epsilons: Numbers) -> np.ndarray:
        """At `Float[numpy.ndarray, "k"]`."""
        return np.asarray(chords(self._known, epsilons))
