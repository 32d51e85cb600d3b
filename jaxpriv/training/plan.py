"""What a training may spend and how: a target against a threat model, solved for the noise,
the batch or the steps.
"""

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import _array as xp
from jaxpriv import membership, relaxed, worst_case
from jaxpriv._checks import NONNEGATIVE, OPEN_UNIT, POSITIVE, SCALE, UNIT, check_number, check_whole
from jaxpriv.accounting import compose
from jaxpriv.accounting.calibrate import calibrate
from jaxpriv.accounting.privacy_target import target_of
from jaxpriv.training.drawn import DrawnProfile, noise_delta

THREAT_MODELS = ("worst_case", "relaxed", "membership")
ASSUMPTIONS = {
    "worst_case": worst_case.ASSUMPTION,
    "relaxed": (
        "The adversary sees only the magnitude of each step's noisy gradient sum less what it "
        "knows of it, step by step, and does not add releases up."
    ),
    "membership": membership.ASSUMPTION
    + " The gradients are taken as normal, typical and of a covariance as clipping leaves it, "
    "their many steps as one Gaussian curve: an approximation (Leemann et al. 2023, "
    "Corollary 5.1, Lemma 5.1). Where it says more than the worst case, "
    "the worst case is given.",
}
_MOST_STEPS = 10**8
_KINDS = 32  # each is traced and compiled on its own
_LEAST_BATCH = 1.001  # to hide among nobody is no membership game
_NOISES = tuple(2.0**k for k in range(-4, 13))


class PoissonSampled:
    """What is said of any DP-SGD: its sampling and whom it is compared with."""

    dataset_size: int
    batch_size: float

    @property
    def sampling_rate(self):
        return self.batch_size / self.dataset_size

    @property
    def protects(self):
        """(change, unit, group) as in `jaxpriv.report.wording`."""
        return "add_remove", "record", 1

    @property
    def adjacency(self):
        return (
            "add/remove one record (it moves a sum of clipped gradients by "
            "at most the clipping norm)"
        )

    @property
    def sampling(self):
        return (
            "Poisson: every record takes part in a step with probability "
            f"{self.sampling_rate:g}, independently"
        )


@dataclass(frozen=True)
class Privacy:
    """A privacy target: one of (epsilon, delta), mu, advantage or (fpr, tpr),
    against one threat model.

    Attributes:
        epsilon: in [0, inf), with delta. mu: in [0, inf). advantage, fpr, tpr: in [0, 1]. As
            `jaxpriv.calibrate` takes them.
        delta: in (0, 1): of the target, and of every epsilon that is reported.
        threat_model: "worst_case" (differential privacy), "relaxed" or "membership"; the worst case
            is always computed beside it.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    mu: float | None = None
    advantage: float | None = None
    fpr: float | None = None
    tpr: float | None = None
    threat_model: str = "worst_case"

    def __post_init__(self):
        if self.threat_model not in THREAT_MODELS:
            raise ValueError(
                f"threat_model = {self.threat_model!r}; accepted: {', '.join(THREAT_MODELS)}"
            )
        check_number("delta", self.delta, OPEN_UNIT)
        given = [name for name in ("epsilon", "mu", "advantage", "fpr", "tpr")
                 if getattr(self, name) is not None]
        if given not in (["epsilon"], ["mu"], ["advantage"], ["fpr", "tpr"]):
            raise ValueError(
                "give one target: epsilon, mu, advantage, or fpr and tpr; got "
                f"{', '.join(given) or 'none'}"
            )
        for name in given:
            check_number(
                name, getattr(self, name), NONNEGATIVE if name in ("epsilon", "mu") else UNIT
            )

    @property
    def target(self):
        """As keywords of `calibrate`."""
        names = ("epsilon", "mu", "advantage", "fpr", "tpr")
        found = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return found | ({"delta": self.delta} if "epsilon" in found else {})

    def __str__(self):
        said = ", ".join(f"{name} = {value:g}" for name, value in self.target.items())
        return f"{said} ({self.threat_model.replace('_', ' ')})"


@dataclass(frozen=True)
class Plan(PoissonSampled):
    """Steps of DP-SGD: Gaussian noise on sums of clipped gradients over Poisson samples.

    Attributes:
        dataset_size: number of records, which is taken as known; in 1, 2, 3, ...
        batch_size: expected number of records in a batch, in (0, dataset_size].
        noise_multipliers: noise standard deviation over the clipping norm of each step,
            in [1e-15, 1e15], at most 32 different ones.
        dim: number of parameters; matters to the relaxed and the membership adversary.
        delta: in (0, 1), of every epsilon that is reported.
    """

    dataset_size: int
    batch_size: float
    noise_multipliers: tuple
    dim: int
    delta: float = 1e-5

    def __post_init__(self):
        check_whole("dataset_size", self.dataset_size)
        check_whole("dim", self.dim, most=10**12)
        check_whole("steps", len(self.noise_multipliers), most=_MOST_STEPS)
        check_number("delta", self.delta, OPEN_UNIT)
        check_number("batch_size", self.batch_size, POSITIVE)
        if self.batch_size > self.dataset_size:
            raise ValueError(
                f"batch_size = {self.batch_size:g} is outside its range "
                f"(0, dataset_size = {self.dataset_size}]"
            )
        check_number("noise_multipliers", self.noise_multipliers, SCALE)
        if len(set(self.noise_multipliers)) > _KINDS:
            raise ValueError(
                f"noise_multipliers has {len(set(self.noise_multipliers))} different values; "
                f"accepted: at most {_KINDS}, each for several steps"
            )

    @property
    def steps(self):
        return len(self.noise_multipliers)

    def curve(self, threat_model="worst_case", steps=None):
        """The curve of both directions after the first `steps` steps, which may be traced;
        all of them unless given.

        Guarantee: exact for the worst case. The other threat models give no differential
            privacy guarantee.
        """
        steps = self.steps if steps is None else steps
        if not xp.any_jax(steps) and steps == 0:  # nothing was published
            return worst_case.gaussian(0.0)
        return _CURVES[threat_model](self, self._parts(steps)).symmetric()

    def profile(self, threat_model="worst_case", steps=None, precision=1e-11):
        """A `CertifiedProfile` of that curve for noise as it is drawn: with `noise_delta` added."""
        curve = self.curve(threat_model, steps)
        return DrawnProfile(curve, lambda epsilon: self.noise_delta(epsilon, steps), precision)

    def noise_delta(self, epsilon, steps=None):
        """What delta at `epsilon` grows by,
        since drawn noise is not quite normal: `training.drawn`.
        """
        return noise_delta(epsilon, self.dim, self._parts(self.steps if steps is None else steps))

    def _parts(self, steps):
        """[(noise multiplier, how many of the first `steps` steps have it)]."""
        noises, kinds = np.unique(np.asarray(self.noise_multipliers, float), return_inverse=True)
        if len(noises) == 1:
            return [(float(noises[0]), steps * 1.0)]
        counts = np.concatenate(
            [np.zeros((1, len(noises))), np.cumsum(np.eye(len(noises))[kinds], 0)]
        )
        now = xp.gathered(counts, steps)
        return [(float(noise), now[i]) for i, noise in enumerate(noises)]

    def epsilon(self, steps):
        """The worst case's epsilon at delta after `steps` steps: an estimate, to rounding;
        inside `jit` in float32.
        """
        if not xp.any_jax(steps):
            return self.curve("worst_case", steps).epsilon(self.delta)
        with jax.enable_x64(True):
            steps = jnp.asarray(steps)
            found = self.curve(
                "worst_case", jnp.asarray(steps, jnp.float64) if self._constant else steps
            ).epsilon(self.delta)
            return jnp.asarray(found).astype(jnp.float32)

    @property
    def _constant(self):
        return len(set(self.noise_multipliers)) == 1

    def settings(self):
        """In numbers."""
        noises = self.noise_multipliers[0] if self._constant else list(self.noise_multipliers)
        return {"dataset_size": self.dataset_size, "batch_size": self.batch_size,
                "sampling_rate": self.sampling_rate, "steps": self.steps,
                "noise_multiplier": noises, "dim": self.dim}

    def describe(self):
        """In one sentence."""
        low, high = min(self.noise_multipliers), max(self.noise_multipliers)
        noise = (
            f"noise multiplier {low:.8g}"
            if low == high
            else f"noise multipliers from {low:.8g} to {high:.8g}"
        )
        return (
            f"DP-SGD: {self.steps} step{'s' * (self.steps > 1)}, {noise}, {self.dataset_size} "
            f"records, expected batch size {self.batch_size:g}, {self.dim} parameters."
        )


def _worst_case(plan, parts):
    curves = (worst_case.subsampled_gaussian(noise, plan.sampling_rate, count)
              for noise, count in parts)
    return compose(*curves)


def _relaxed(plan, parts):
    curves = (relaxed.subsampled_gaussian(noise, plan.sampling_rate, count, float(plan.dim))
              for noise, count in parts)
    return compose(*curves)


def _membership(plan, parts):
    """Squares of mu add up over the kinds of steps;
    a step tells no more than differential privacy lets it.
    """
    n, d, square = plan.batch_size, float(plan.dim), 0.0
    for noise, count in parts:
        mu = xp.minimum(
            membership.gdp_mu_step(d, n, d, noise_std=noise / n, clip_norm=1.0), 1 / noise
        )
        square = square + membership.sgd(mu, n, plan.dataset_size, count).gdp_mu() ** 2
    return worst_case.gaussian(xp.sqrt(square))


_CURVES = {"worst_case": _worst_case, "relaxed": _relaxed, "membership": _membership}


def make_plan(
    privacy, dataset_size, dim, *, batch_size=None, steps=None, noise_multiplier=None, schedule=None
):
    """The plan that just meets a target: one of batch size, steps and noise multiplier may be left
    out, and is solved for.

    With all three given the training stops at the budget: `steps` becomes the largest number, at
    most that, which keeps it.

    Args:
        privacy: a `Privacy`. dataset_size: number of records. dim: number of parameters.
        batch_size: expected, in (0, dataset_size]. steps: in 1, 2, 3, ...
            noise_multiplier: in (0, inf).
        schedule: `Float[Array, "k"]` in (0, inf), 1 <= k <= steps: factors of the noise multiplier,
            each for an equal share of the steps; one factor 1 unless given.

    Returns: a `Plan`. Guarantee: its curve of the target's threat model meets the target by its
        upper bound; or that of the worst case does, which bounds every other, where it asks for
        less noise than an approximation.
    Raises: ValueError for values outside their range and for targets out of reach,
        with the nearest that is not.

        >>> plan = make_plan(Privacy(mu=0.5, threat_model="membership"), 10_000, dim=1000,
        ...                  batch_size=100, steps=100)
        >>> print(f"{plan.curve('membership').gdp_mu():.4f}",
        ...       bool(plan.curve("worst_case").gdp_mu() > 0.5))
        0.5000 True
    """
    missing = [
        name
        for name, value in (
            ("batch_size", batch_size),
            ("steps", steps),
            ("noise_multiplier", noise_multiplier),
        )
        if value is None
    ]
    if len(missing) > 1:
        raise ValueError(
            f"{' and '.join(missing)} are missing: leave out one at most, which is then solved for"
        )
    if steps is not None:
        check_whole("steps", steps, most=_MOST_STEPS)
    factors = np.ones(1) if schedule is None else np.asarray(schedule, float)
    if schedule is not None and not (
        steps is not None and factors.ndim == 1 and 1 <= len(factors) <= steps
    ):
        raise ValueError(
            f"schedule has shape {factors.shape} for steps = {steps}; "
            "accepted: a list of at most so many factors"
        )

    def planned(batch, count, noise):
        each = noise * factors[np.arange(int(count)) * len(factors) // int(count)]
        return Plan(dataset_size, float(batch), tuple(each.tolist()), dim, privacy.delta)

    # what is given is checked before anything is solved
    planned(1.0 if batch_size is None else batch_size, 1 if steps is None else steps,
            1.0 if noise_multiplier is None else noise_multiplier)
    if missing == ["noise_multiplier"]:
        return planned(
            batch_size, steps, _noise(lambda noise: planned(batch_size, steps, noise), privacy)
        )
    if missing == ["batch_size"]:
        return planned(
            _batch(lambda batch: planned(batch, steps, noise_multiplier), privacy, dataset_size),
            steps,
            noise_multiplier,
        )
    return planned(
        batch_size,
        _steps(planned(batch_size, steps or 1, noise_multiplier), privacy, steps),
        noise_multiplier,
    )


def holds(plan, privacy):
    """Whether an upper bound meets the target: that of its threat model, or of the worst case.

    The worst case bounds every other.
    """
    target, models = _reserved(plan, privacy), dict.fromkeys((privacy.threat_model, "worst_case"))
    return any(_meets(plan, target, model) for model in models)


def _meets(plan, target, model):
    """Whether the curve of this threat model meets a target, if there is one."""
    return target is not None and bool(np.all(target_of(**target).holds(plan.curve(model))))


def _reserved(plan, privacy):
    """The target for curves of exactly normal noise: less what drawn noise adds; None if it is all.

    The power at fpr is at most delta + e^eps fpr for the slope e^eps of the trade-off function
    there, which is at most 1/fpr. Against mu nothing is reserved: no Gaussian curve allows for a
    delta that stays at large epsilon.
    """
    target = privacy.target
    if "mu" in target:
        return target
    if "epsilon" in target:
        name, epsilon = "delta", privacy.epsilon
    elif "advantage" in target:
        name, epsilon = "advantage", 0.0
    else:
        name, epsilon = "tpr", -math.log(privacy.fpr) if privacy.fpr else math.inf
    left = target[name] - plan.noise_delta(epsilon)
    return {**target, name: left} if left > 0 else None


def _noise(planned, privacy):
    """The least noise that meets the target, by its own threat model or already by the worst case,
    which bounds all others.
    """
    if privacy.threat_model == "worst_case":
        return _least_noise(planned, privacy)
    worst = dataclasses.replace(privacy, threat_model="worst_case")
    found = []
    for each in (privacy, worst):
        with contextlib.suppress(ValueError):
            found.append(_least_noise(planned, each))
    return min(found) if found else _least_noise(planned, worst)


def _least_noise(planned, privacy):
    # upwards step by step: far above the answer delta is so small that its bracket says little
    noise = next((noise for noise in _NOISES if holds(planned(noise), privacy)), None)
    if noise is None:
        raise ValueError(
            f"{privacy} needs a noise multiplier above {_NOISES[-1]:g}; accepted: a weaker "
            "target, fewer steps, a smaller batch"
        )
    if noise == _NOISES[0]:
        raise ValueError(
            f"{privacy} is met by a noise multiplier below {noise:g}, where accounting says "
            "nothing of use; accepted: a stronger target, or a noise_multiplier"
        )
    target = _reserved(planned(noise / 2), privacy)  # less noise asks for a little more
    if not _meets(planned(noise), target, privacy.threat_model):
        return noise
    return calibrate(lambda value: planned(value).curve(privacy.threat_model), **target,
                     bracket=(noise / 2, noise))


def _batch(planned, privacy, dataset_size):
    smallest = planned(_LEAST_BATCH)
    if not holds(smallest, privacy):
        raise ValueError(f"{privacy} fails even for batches of one record at {smallest.describe()}")
    if holds(planned(dataset_size), privacy):
        return float(dataset_size)
    # what drawn noise adds does not depend on the batch
    return calibrate(lambda batch: planned(batch).curve(privacy.threat_model),
                     **_reserved(smallest, privacy), bracket=(_LEAST_BATCH, dataset_size))


def _steps(plan, privacy, most):
    """The largest number of steps, at most `most`, that keeps the target."""

    def first(count):
        noises = (
            plan.noise_multipliers[:count] if most is not None else plan.noise_multipliers * count
        )
        return dataclasses.replace(plan, noise_multipliers=noises)

    if most is not None and holds(plan, privacy):
        return most
    if not holds(first(1), privacy):
        raise ValueError(f"{privacy} fails after a single step with {first(1).describe()}")
    low, high = 1, 2
    while (most is None or high < most) and holds(first(high), privacy):
        low, high = high, 2 * high
        if high > 2**20:
            raise ValueError(f"{privacy} holds for more than {low} steps; give steps")
    high = high if most is None else min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(first(middle), privacy) else (low, middle)
    return low


def steps_of(dataset_size, batch_size, epochs):
    """ceil(epochs dataset_size/batch_size), of the numbers as they were written:
    1.1 epochs of 100 batches are 110 steps.
    """
    return math.ceil(
        Fraction(str(epochs)) * Fraction(str(dataset_size)) / Fraction(str(batch_size))
    )
