"""What a training may spend and how: a target against a threat model; a plan and its curves."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import _array as xp
from jaxpriv import correlated, membership, relaxed, worst_case
from jaxpriv._checks import NONNEGATIVE, OPEN_UNIT, POSITIVE, SCALE, UNIT, check_number, check_whole
from jaxpriv._types import Answer, Numbers
from jaxpriv.accounting import compose
from jaxpriv.correlated.strategies import check_strategy
from jaxpriv.curve import Curve
from jaxpriv.training.drawn import DrawnProfile, noise_delta
from jaxpriv.training.drawn_grid import grid_delta
from jaxpriv.training.grid import grid_bits
from jaxpriv.training.sampling.each_step import Poisson
from jaxpriv.training.sampling.sampler import Sampler
from jaxpriv.training.strategies import in_words, settings_of

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
MOST_STEPS = 10**8
_KINDS = 32  # each is traced and compiled on its own


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
class Plan:
    """Steps of DP-SGD: Gaussian noise on sums of clipped gradients over batches of records.

    Attributes:
        dataset_size: number of records, which is taken as known; in 1, 2, 3, ...
        batch_size: expected number of records in a batch, in (0, dataset_size].
        noise_multipliers: noise standard deviation over the clipping norm of each step,
            in [1e-15, 1e15], at most 32 different ones.
        dim: number of parameters; matters to the relaxed and the membership adversary.
        delta: in (0, 1), of every epsilon that is reported.
        sampler: of `jaxpriv.training.sampling`: how batches are drawn.
        strategy: of `jaxpriv.correlated`: the noises of the steps are C^-1 g, of independent g with
            these noise multipliers; independent ones unless given.
        records_per_user: 1 protects single records; K > 1 whole users with K records at most.
        whole_numbers: sums and noise are on a grid: `training.clipped_sum_on_grid`.

    Raises: ValueError for values outside their range, and for what does not go together: noises
        that differ, or correlated noise, with a sampler for which no curve of them is known.
    """

    dataset_size: int
    batch_size: float
    noise_multipliers: tuple
    dim: int
    delta: float = 1e-5
    sampler: Sampler = Poisson()
    strategy: Any = correlated.Identity()
    records_per_user: int = 1
    whole_numbers: bool = False

    def __post_init__(self):
        check_whole("dataset_size", self.dataset_size)
        check_whole("dim", self.dim, most=10**12)
        check_whole("steps", len(self.noise_multipliers), most=MOST_STEPS)
        check_whole("records_per_user", self.records_per_user, most=100)
        check_number("delta", self.delta, OPEN_UNIT)
        check_number("batch_size", self.batch_size, POSITIVE)
        if self.batch_size > self.dataset_size:
            raise ValueError(
                f"batch_size = {self.batch_size:g} is outside its range "
                f"(0, dataset_size = {self.dataset_size}]"
            )
        check_number("noise_multipliers", self.noise_multipliers, SCALE)
        if not isinstance(self.sampler, Sampler):
            raise ValueError(f"sampler = {self.sampler!r}; accepted: those of training.sampling")
        self.sampler.check(self)
        self._check_noise()
        if self.whole_numbers:
            grid_bits(self.noise_multipliers, self.sampler.rows(self, self.dataset_size), self.dim)

    def _check_noise(self):
        kinds, name = len(set(self.noise_multipliers)), self.sampler.name
        if kinds > _KINDS:
            raise ValueError(
                f"noise_multipliers has {kinds} different values; "
                f"accepted: at most {_KINDS}, each for several steps"
            )
        if kinds > 1 and (self.sampler.one_noise or self.is_correlated):
            raise ValueError(
                f"noise_multipliers has {kinds} different values; accepted: one, with {name} "
                f"batches{' and correlated noise' if self.is_correlated else ''}"
            )
        check_strategy(self.strategy, self.steps)
        if self.is_correlated:
            if self.whole_numbers:
                raise ValueError("correlated noise is none of whole numbers; accepted: independent")
            if self.sampler.participation(self) is None:
                raise ValueError(
                    f"correlated noise with {name} batches has no known curve; accepted: "
                    "cyclic_poisson with at least as many groups as bands, in_order"
                )
            correlated.sensitivity(self.strategy, self.steps, self.sampler.participation(self))

    @property
    def sampling_rate(self):
        """The expected share of the records in a batch."""
        return self.batch_size / self.dataset_size

    @property
    def is_correlated(self):
        """Whether the noises of different steps have to do with each other."""
        return not isinstance(self.strategy, correlated.Identity)

    @property
    def threat_models(self):
        """Those that a curve is known of: all for Poisson samples and independent noise; else the
        worst case alone.
        """
        plain = isinstance(self.sampler, Poisson) and not self.is_correlated
        return THREAT_MODELS if plain and self.records_per_user == 1 else THREAT_MODELS[:1]

    @property
    def protects(self):
        """(change, unit, group) as in `jaxpriv.report.wording`."""
        return self.sampler.change, "user" if self.records_per_user > 1 else "record", 1

    @property
    def adjacency(self):
        """Which data sets are neighbours, in one sentence."""
        return self.sampler.adjacency(self)

    @property
    def sampling(self):
        """How batches are drawn, in one sentence."""
        return self.sampler.describe(self)

    @property
    def steps(self):
        return len(self.noise_multipliers)

    def curve(self, threat_model: str = "worst_case", steps: Numbers | None = None) -> Curve:
        """The curve of both directions after the first `steps` steps, which may be traced with
        Poisson samples and independent noise; all of them unless given.

        Guarantee: exact for the worst case, or what is said of the sampler's curve. The other
            threat models give no differential privacy guarantee.
        Raises: ValueError for a threat model that is none of `threat_models`.
        """
        self.check_threat_model(threat_model)
        steps = self.steps if steps is None else steps
        if not xp.any_jax(steps) and steps == 0:  # nothing was published
            return worst_case.gaussian(0.0)
        return _CURVES[threat_model](self, self._parts(steps)).symmetric()

    def check_threat_model(self, threat_model: str) -> None:
        """Raise ValueError for a threat model that is none of `threat_models`."""
        if threat_model not in self.threat_models:
            raise ValueError(
                f"threat_model = {threat_model!r} of {self.sampler.name} batches"
                f"{' with correlated noise' if self.is_correlated else ''} has no known curve; "
                f"accepted: {', '.join(self.threat_models)}"
            )

    def profile(
        self, threat_model: str = "worst_case", steps: int | None = None
    ) -> DrawnProfile:
        """A `CertifiedProfile` of that curve for noise as it is drawn: with `noise_delta` added."""
        curve = self.curve(threat_model, steps)
        return DrawnProfile(curve, lambda epsilon: self.noise_delta(epsilon, steps))

    def noise_delta(self, epsilon: Numbers, steps: Numbers | None = None) -> Answer:
        """What delta at `epsilon` grows by, since noise is not drawn quite normal, nor batches
        quite as their law says: `training.drawn`.
        """
        steps = self.steps if steps is None else steps
        reach = self.sampler.most * self.records_per_user
        if self.is_correlated:
            # no step is displaced by more than all of them together
            reach *= float(correlated.sensitivity(self.strategy, self.steps,
                                                  self.sampler.participation(self)))
        parts = [(noise / reach, count) for noise, count in self._parts(steps)]
        unlike = self.sampler.unlike(self, steps) * self.records_per_user
        entries = self.dim + 1  # the last for the count of an adaptive clipping norm
        of_noise = noise_delta(epsilon, 0 if self.whole_numbers else entries, parts, unlike)
        if self.whole_numbers:
            of_noise += grid_delta(epsilon, entries, parts)
        return min(of_noise + self.sampler.failure, 1.0)

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

    def epsilon(self, steps: Numbers) -> Answer:
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

    def settings(self) -> dict[str, Any]:
        """In numbers and texts: all that makes the same plan, but for delta."""
        noises = self.noise_multipliers[0] if self._constant else list(self.noise_multipliers)
        found = {"dataset_size": self.dataset_size, "batch_size": self.batch_size,
                 "sampling_rate": self.sampling_rate, "steps": self.steps,
                 "noise_multiplier": noises, "dim": self.dim}
        if not isinstance(self.sampler, Poisson):
            found["sampler"] = self.sampler.settings()
        if self.is_correlated:
            found["strategy"] = settings_of(self.strategy)
        if self.records_per_user > 1:
            found["records_per_user"] = self.records_per_user
        if self.whole_numbers:
            found["whole_numbers"] = True
        return found

    def describe(self) -> str:
        """In one sentence."""
        low, high = min(self.noise_multipliers), max(self.noise_multipliers)
        noise = (
            f"noise multiplier {low:.8g}"
            if low == high
            else f"noise multipliers from {low:.8g} to {high:.8g}"
        )
        if self.is_correlated:
            noise += f" correlated over the steps ({in_words(self.strategy)})"
        if self.whole_numbers:
            noise += " on a grid of whole numbers"
        return (
            f"DP-SGD: {self.steps} step{'s' * (self.steps > 1)}, {noise}, {self.dataset_size} "
            f"records, expected batch size {self.batch_size:g}, {self.dim} parameters."
        )


def _worst_case(plan, parts):
    if plan.is_correlated:
        ((noise, count),) = parts
        participation = plan.sampler.participation(plan)
        found = correlated.curve(plan.strategy, noise, int(count), participation).symmetric()
        return found.group(plan.records_per_user) if plan.records_per_user > 1 else found
    if plan.records_per_user > 1:
        return plan.sampler.user_curve(plan, parts)
    return plan.sampler.curve(plan, parts)


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
