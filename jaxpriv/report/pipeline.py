"""A list of mechanisms of `jaxpriv.worst_case` that are composed, as a certificate takes it."""

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxpriv import compose, relaxed, worst_case
from jaxpriv._checks import SCALE, check_number, check_whole
from jaxpriv.curve import Curve
from jaxpriv.report.wording import LEFT_OUT, Wording, adjacency_of, mechanisms, wording_of

_RELAXED = ("gaussian", "laplace", "subsampled_gaussian")
_MOST_GROUPED = 1000  # each is a link of a chain
_SEVERAL = " It sees the results of all steps."
_MAGNITUDES = (
    " Of sub-sampled steps and of different mechanisms it sees each one's magnitude; Gaussian "
    "releases without sampling it adds up."
)


@dataclass(frozen=True)
class Pipeline:
    """Mechanisms composed, each with fresh noise and with parameters that were fixed beforehand.

    Attributes:
        steps: tables {"mechanism": name in `jaxpriv.worst_case`, its arguments by their names,
            "times": composed with itself so often (1), "dim": the dimension that a record can move,
            which matters to the relaxed adversary of gaussian and subsampled_gaussian (1)}.
        group: so many records (users) are protected together, 1 ... 1000.

    Raises: ValueError naming step and key, and for steps that protect against different changes of
        the data set.

        >>> pipeline = Pipeline([{"mechanism": "gaussian", "mu": 0.5},
        ...                      {"mechanism": "gaussian", "mu": 0.25, "times": 4}])
        >>> (_, _, curve), weak = pipeline.adversaries()
        >>> print(f"{curve.gdp_mu():.4f}", weak[0])
        0.7071 relaxed, dim 1
    """

    steps: list | tuple
    group: int = 1

    def __post_init__(self):
        if not isinstance(self.steps, (list, tuple)) or not self.steps:
            raise ValueError("a pipeline needs at least one step")
        check_whole("group", self.group, most=_MOST_GROUPED)
        self._refuse_mixtures()

    @cached_property
    def _steps(self):
        return [_step(table, f"step {k}") for k, table in enumerate(self.steps, 1)]

    def _refuse_mixtures(self):
        """ValueError for steps whose neighbours are not the same data sets."""
        for name, meant in (("change", "adjacency"), ("unit", "who is protected")):
            found: dict = {}
            for number, step in enumerate(self._steps, 1):
                value = getattr(step.wording, name)
                if value is not None:
                    found.setdefault(value, f"{value!r} in step {number} ({step.mechanism})")
            if len(found) > 1:
                raise ValueError(
                    f"{meant} differs: {', '.join(found.values())}; "
                    "the steps of a pipeline need the same one"
                )

    def _of_wordings(self, name):
        return next((value for step in self._steps
                     if (value := getattr(step.wording, name)) is not None), None)

    @property
    def protects(self):
        """(change, unit, group) as in `jaxpriv.report.wording`."""
        return self._of_wordings("change"), self._of_wordings("unit"), self.group

    @property
    def adjacency(self):
        open_ones = [step.mechanism for step in self._steps if step.wording.change is None]
        return adjacency_of(self._of_wordings("change"), self._of_wordings("unit"), self.group,
                            list(dict.fromkeys(open_ones)))

    @property
    def sampling(self):
        said: dict = {}
        for step in self._steps:
            said.setdefault(step.wording.sampling, {})[step.mechanism] = None
        if len(said) == 1:
            return next(iter(said))
        return "; ".join(f"in {', '.join(names)} {sentence}" for sentence, names in said.items())

    def settings(self) -> dict[str, Any]:
        """What a certificate says of it in numbers."""
        return {"pipeline": [dict(table) for table in self.steps], "group": self.group}

    def describe(self) -> str:
        """The mechanism in one sentence."""
        told = "; ".join(step.describe() for step in self._steps)
        count = len(self._steps)
        title = f"Pipeline of {count} mechanisms" if count > 1 else "Mechanism"
        group = f", for a group of {self.group}" if self.group > 1 else ""
        return f"{title}{group}: {told}."

    def adversaries(self) -> list[tuple[str, str, Curve]]:
        """[(name, assumption, curve)], the worst case first;
        a relaxed one only where each step's is known.
        """
        return list(self._rows)

    @cached_property
    def _rows(self):  # composed once: some lattices are laid on that occasion
        # shuffled steps with replaced records have no direction: so all get both
        curves = [step.curve.symmetric() for step in self._steps]
        worst = compose(*curves) if len(curves) > 1 else curves[0]
        told = dict.fromkeys(step.wording.told for step in self._steps if step.wording.told)
        several = _SEVERAL if self._is_composed else ""
        rows = [("worst case", " ".join([worst_case.ASSUMPTION + several, *told]),
                 worst if self.group == 1 else worst.group(self.group))]
        return rows + self._relaxed()

    @property
    def _is_composed(self):
        return len(self._steps) > 1 or self._steps[0].times > 1

    def _relaxed(self):
        """[the relaxed row], or nothing: its tests say nothing of groups, and releases of different
        dimensions are not added up.
        """
        steps = self._steps
        added_up = {step.dim for step in steps if step.mechanism == "gaussian"}
        if self.group > 1 or len(added_up) > 1 or not all(step.has_relaxed() for step in steps):
            return []
        dims = {step.dim for step in steps if step.dim is not None}
        name = f"relaxed, dim {dims.pop():g}" if len(dims) == 1 else "relaxed"
        curves = [step.relaxed_curve() for step in steps]
        curve = compose(*curves) if len(curves) > 1 else curves[0]
        stepwise = any(step.mechanism != "gaussian" for step in steps) and (
            self._is_composed or steps[0].mechanism == "subsampled_gaussian"
        )
        return [(name, relaxed.ASSUMPTION + _MAGNITUDES * stepwise, curve.symmetric())]

    def stages(self) -> Any:
        """None: what came first is not known of it."""
        return None

    def if_shuffled(self, certified: float | None, delta: float) -> None:
        """None: shuffled batches are a mechanism of their own here."""
        del certified, delta


@dataclass(frozen=True)
class _Step:
    """One mechanism, composed with itself; arguments are complete."""

    mechanism: str
    arguments: dict
    times: int
    dim: float | None
    curve: object
    wording: Wording

    def describe(self):
        numbers = [f"{name} {_shown(value)}" for name, value in self.arguments.items()]
        numbers += [f"dimension {self.dim:g}"] if self.dim is not None and self.dim > 1 else []
        times = f", {self.times} times" if self.times > 1 else ""
        return f"{self.wording.title} ({self.mechanism}: {', '.join(numbers)}){times}"

    def has_relaxed(self):
        """By Poisson sampling of records that come or go."""
        fixed = self.arguments.get("sampling", "poisson") != "poisson"
        return self.mechanism in _RELAXED and not fixed and (
            self.wording.change in (None, "add_remove")
        )

    def relaxed_curve(self):
        maker = getattr(relaxed, self.mechanism)
        taken = inspect.signature(maker).parameters
        numbers = {**self.arguments, "dim": self.dim}
        found = maker(**{name: value for name, value in numbers.items() if name in taken})
        return found if self.times == 1 else found.compose(self.times)


def _step(table, place):
    """A `_Step` of a table."""
    if not isinstance(table, dict):
        raise ValueError(f"{place} = {table!r} is not a table")
    given = dict(table)
    name = given.pop("mechanism", None)
    if name is None:
        raise ValueError(f"{place}: mechanism is missing")
    if name not in (known := mechanisms()):
        because = f": {LEFT_OUT[name]}" if isinstance(name, str) and name in LEFT_OUT else ""
        told = f"{place}: mechanism = {name!r} is unknown{because}"
        raise ValueError(f"{told}; {_nearest(name, known)}")
    place = f"{place} ({name})"
    maker = getattr(worst_case, name)
    parameters = inspect.signature(maker).parameters
    own = ["times", *(["dim"] if _takes_dim(name) else [])]
    for key, value in given.items():
        if key not in parameters and key not in own:
            accepted = [*parameters, *own]
            raise ValueError(f"{place}: unknown argument {key!r}; {_nearest(key, accepted)}")
        _refuse_odd(place, key, value)
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in given:
            raise ValueError(f"{place}: {key} is missing")
    try:
        if "noise_multiplier" in given:  # of which 1/noise has to be a number that can be squared
            check_number("noise_multiplier", given["noise_multiplier"], SCALE)
        times, dim = given.pop("times", 1), given.pop("dim", 1 if "dim" in own else None)
        check_whole("times", times)
        if dim is not None:
            check_whole("dim", dim)
        arguments = {key: given.get(key, parameter.default)
                     for key, parameter in parameters.items()}
        curve = maker(**arguments)
        if curve.experiment.batch_shape() != ():
            key = next(key for key, value in given.items() if isinstance(value, list))
            raise ValueError(f"{key} = {given[key]!r} is a list; expected one number")
        curve = curve if times == 1 else curve.compose(times)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place}: {error}") from None
    return _Step(name, arguments, times, dim, curve, wording_of(name, arguments))


def _takes_dim(name):
    return name in _RELAXED and "dim" in inspect.signature(getattr(relaxed, name)).parameters


def _refuse_odd(place, key, value):
    """ValueError for what is neither a number, nor a list of numbers, nor a word: also for NaN,
    which the makers let through.
    """
    values = value if isinstance(value, list) else [value]
    numbers = all(isinstance(one, (int, float)) and one == one for one in values)
    if not numbers and not isinstance(value, str):
        raise ValueError(f"{place}: {key} = {value!r} is not a number, a list of numbers or a word")
    if numbers and any(abs(one) > SCALE.high for one in values):
        raise ValueError(f"{place}: {key} = {value!r} is beyond {SCALE.high:g}")


def _nearest(name, known):
    import difflib

    near = difflib.get_close_matches(str(name), known, 1)
    return f"did you mean {near[0]!r}?" if near else f"accepted: {', '.join(known)}"


def _shown(value):
    if isinstance(value, list):
        few = f"[{', '.join(map(_shown, value))}]"
        return few if len(value) <= 4 else f"of {len(value)} numbers"
    return f"{value:.10g}" if type(value) in (int, float) else str(value)
