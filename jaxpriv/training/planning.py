"""Plans that meet a target: solved for the noise, the batch or the steps."""

import contextlib
import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np

from jaxpriv._checks import check_whole
from jaxpriv._types import Numbers
from jaxpriv.accounting.calibrate import calibrate
from jaxpriv.accounting.privacy_target import target_of
from jaxpriv.training.correlation import noise_of
from jaxpriv.training.plan import MOST_STEPS, Plan, Privacy
from jaxpriv.training.sampling import Poisson, Sampler

_LEAST_BATCH = 1.001  # to hide among nobody is no membership game
_RECORDS = 32  # in a batch: noise on a grid takes a larger part of steps with fewer
_OUT_OF_REACH = (
    "{} needs a noise multiplier above {:g}; "
    "accepted: a weaker target, fewer steps, a smaller batch"
)
_NOISES = tuple(2.0**k for k in range(-4, 13))


def make_plan(
    privacy: Privacy, dataset_size: int, dim: int, *, batch_size: float | None = None,
    steps: int | None = None, noise_multiplier: float | None = None,
    schedule: Numbers | None = None, sampler: Sampler | None = None, noise: Any = "independent",
    records_per_user: int = 1,
) -> Plan:
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
        sampler: of `jaxpriv.training.sampling`, Poisson unless given. Of the others, and of
            correlated noise, the noise multiplier alone is solved for; of the batch size and the
            steps Poisson, cut and fixed-size batches with independent noise.
        noise: "independent"; "discrete", independent on a grid of whole numbers; None, "discrete"
            for batches of 32 records or more (expected) if sums fit into 32 bits, else
            "independent"; "banded",
            optimised with as many bands as a cyclic sampler has groups (which are chosen as well
            where no sampler is given, and may be one, independent noise: `correlated.plan`), or up
            to 32 in order; "buffered", a BLT of 3 buffers, in order; or a strategy of
            `jaxpriv.correlated`.
        records_per_user: 1 for records, K > 1 for users with K records at most.

    Returns: a `Plan`. Guarantee: its curve of the target's threat model meets the target by its
        upper bound (within 1e-3 of the least noise that does, for balls in bins and shuffled
        batches); or that of the worst case does, which bounds every other, where it asks for
        less noise than an approximation.
    Raises: ValueError for values outside their range and for targets out of reach,
        with the nearest that is not.

        >>> from jaxpriv.training import Privacy
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
        check_whole("steps", steps, most=MOST_STEPS)
    if missing in (["batch_size"], ["steps"]) and not _solvable(sampler, noise):
        raise ValueError(
            f"{missing[0]} is missing; with this sampler or noise only noise_multiplier is "
            "solved for"
        )
    factors = np.ones(1) if schedule is None else np.asarray(schedule, float)
    if schedule is not None and not (
        steps is not None and factors.ndim == 1 and 1 <= len(factors) <= steps
    ):
        raise ValueError(
            f"schedule has shape {factors.shape} for steps = {steps}; "
            "accepted: a list of at most so many factors"
        )

    kind = noise
    sampler, strategy = noise_of("independent" if _each_anew(kind) else kind, sampler,
                                 privacy, dataset_size, batch_size, steps)

    def planned(batch, count, noise):
        each = noise * factors[np.arange(int(count)) * len(factors) // int(count)]
        found = Plan(dataset_size, float(batch), tuple(each.tolist()), dim, privacy.delta,
                     sampler, strategy, records_per_user)
        if kind == "discrete":
            return dataclasses.replace(found, whole_numbers=True)
        return on_grid_if_cheap(found) if kind is None else found

    # what is given is checked before anything is solved
    planned(1.0 if batch_size is None else batch_size, 1 if steps is None else steps,
            1.0 if noise_multiplier is None else noise_multiplier
            ).check_threat_model(privacy.threat_model)
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


def _solvable(sampler, noise):
    """Whether the batch size and the steps are solved for, too."""
    return _each_anew(noise) and (sampler is None or not sampler.one_noise)


def _each_anew(noise):
    """Whether the noises of the steps are independent."""
    return noise is None or isinstance(noise, str) and noise in ("independent", "discrete")


def on_grid_if_cheap(plan):
    """The plan on a grid of whole numbers if batches are large enough for that to cost little, and
    sums and noise fit; else as it is.
    """
    if plan.batch_size >= _RECORDS:
        with contextlib.suppress(ValueError):
            return dataclasses.replace(plan, whole_numbers=True)
    return plan


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


def _near(planned, privacy):
    """A noise near the least, from above, for curves whose bounds take half a second: from that of
    Poisson samples by steps that grow, and by halves to 1e-3 of itself.
    """
    poisson = _least_noise(
        lambda noise: dataclasses.replace(planned(noise), sampler=Poisson()), privacy
    )
    step, high = 1.05, poisson
    while not holds(planned(high), privacy):
        if high > _NOISES[-1]:
            raise ValueError(_OUT_OF_REACH.format(privacy, _NOISES[-1]))
        high, step = high * step, step * step
    low, step = high / 1.05, 1.05
    while low > _NOISES[0] and holds(planned(low), privacy):
        high, low, step = low, low / step, step * step
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(planned(middle), privacy) else (middle, high)
    return high


def _least_noise(planned, privacy):
    if planned(1.0).sampler.slow:
        return _near(planned, privacy)
    # upwards step by step: far above the answer delta is so small that its bracket says little
    noise = next((noise for noise in _NOISES if _meets_in_all(planned(noise), privacy)), None)
    if noise is None:
        raise ValueError(_OUT_OF_REACH.format(privacy, _NOISES[-1]))
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


def _meets_in_all(plan, privacy):
    """`holds`; not if the first step alone does not, which tells no more than all of them and is
    known in closed form: with little noise a composition takes longest.
    """
    if isinstance(plan.sampler, Poisson) and not plan.is_correlated and plan.steps > 1:
        first = dataclasses.replace(plan, noise_multipliers=plan.noise_multipliers[:1])
        if not holds(first, privacy):
            return False
    return holds(plan, privacy)


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
