"""DP-SGD as its user knows it: data set size, batch size, epochs,
and the noise or the epsilon that it has to meet.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np

from jaxpriv import relaxed, worst_case
from jaxpriv._checks import POSITIVE, SCALE, check_number
from jaxpriv._rounding import rounded_up
from jaxpriv.report.shuffled import if_shuffled
from jaxpriv.training.plan import ASSUMPTIONS, Privacy
from jaxpriv.training.planning import make_plan, steps_of
from jaxpriv.training.sampling import Poisson

_STAGES = 8


@dataclass(frozen=True)
class DpSgd:
    """Gaussian noise on the sum of clipped gradients of a Poisson sample, step by step.

    Attributes:
        dataset_size: number of records, in 1, 2, 3, ...
        batch_size: expected number of records in a batch; in (0, dataset_size].
        epochs: passes over the data, in (0, inf): ceil(epochs dataset_size/batch_size) steps.
        noise_multiplier: noise standard deviation over the clipping norm; in [1e-15, 1e15].
        dim: dimension of the gradient, in 1, 2, 3, ...;
            matters to the relaxed adversary, whose best case is 1.
    """

    dataset_size: int
    batch_size: float
    epochs: float
    noise_multiplier: float
    dim: int = 1
    records_per_user: ClassVar[int] = 1

    def __post_init__(self):
        for name in ("dataset_size", "batch_size", "epochs", "noise_multiplier"):
            check_number(
                name, getattr(self, name), SCALE if name == "noise_multiplier" else POSITIVE
            )
        for name in ("dataset_size", "dim"):
            value = getattr(self, name)
            if not (value >= 1 and float(value).is_integer()):
                raise ValueError(f"{name} = {value} is outside its range 1, 2, 3, ...")
        if self.batch_size > self.dataset_size:
            raise ValueError(
                f"batch_size = {self.batch_size} is outside its range "
                f"(0, dataset_size = {self.dataset_size}]"
            )

    @classmethod
    def calibrated(cls, epsilon=None, delta=1e-5, *, mu=None, advantage=None, fpr=None, tpr=None,
                   threat_model="worst_case", **settings):
        """The DP-SGD of these settings whose noise just meets one target, as
        `jaxpriv.training.Privacy` takes it.

        Raises: ValueError for values outside their range and targets out of reach.
        """
        unit = cls(noise_multiplier=1.0, **settings)
        privacy = Privacy(epsilon, delta, mu, advantage, fpr, tpr, threat_model)
        plan = make_plan(privacy, int(unit.dataset_size), int(unit.dim), batch_size=unit.batch_size,
                         steps=unit.steps)
        return replace(unit, noise_multiplier=plan.noise_multipliers[0])

    @property
    def sampling_rate(self):
        return self.batch_size / self.dataset_size

    @property
    def protects(self):
        """(change, unit, group) as in `jaxpriv.report.wording`."""
        return Poisson.change, "record", 1

    @property
    def adjacency(self):
        return Poisson().adjacency(self)

    @property
    def sampling(self):
        return Poisson().describe(self)

    @property
    def steps(self):
        return steps_of(self.dataset_size, self.batch_size, self.epochs)

    def settings(self):
        """What a certificate says of it in numbers."""
        return {**asdict(self), "sampling_rate": self.sampling_rate, "steps": self.steps}

    def describe(self):
        """The mechanism in one sentence."""
        steps = f"{self.steps} step{'s' * (self.steps > 1)}"
        epochs = f"{self.epochs:g} epoch{'s' * (self.epochs != 1)}"
        size = (
            f"{self.dataset_size:.15g} records, expected batch size {self.batch_size:g}, {epochs}"
        )
        return (
            f"DP-SGD: {steps}, noise multiplier {rounded_up(self.noise_multiplier, 8)}, "
            f"{size}, dimension {self.dim:g}."
        )

    def if_shuffled(self, certified, delta):
        """What the certificate is worth if the loader shuffles."""
        rate = self.sampling_rate
        return if_shuffled((self.noise_multiplier,), rate, self.steps, certified, delta)

    def worst_case(self, steps):
        return worst_case.subsampled_gaussian(
            self.noise_multiplier, self.sampling_rate, steps
        ).symmetric()

    def relaxed(self, steps):
        rate, dim = self.sampling_rate, float(self.dim)
        return relaxed.subsampled_gaussian(self.noise_multiplier, rate, steps, dim).symmetric()

    def adversaries(self):
        """[(name, assumption, curve)], the worst case first."""
        return self._after(float(self.steps))

    def stages(self):
        """(steps so far, adversaries with as many curves), the last at the end: denser at the
        start, where epsilon rises most.
        """
        first = min(self.steps, 2)  # a single step has another curve, in closed form
        stages = {
            max(math.ceil(self.steps * (k / _STAGES) ** 2), first) for k in range(1, _STAGES + 1)
        }
        counts = np.array(sorted(stages), float)
        return counts, self._after(counts)

    def _after(self, steps):
        return [("worst case", worst_case.ASSUMPTION, self.worst_case(steps)),
                (f"relaxed, dim {self.dim:g}", ASSUMPTIONS["relaxed"], self.relaxed(steps))]
