"""How a training clips its gradients: to a norm that stays or moves; scaled before, or not."""

from dataclasses import asdict
from typing import Any, NamedTuple

from jaxpriv._checks import SCALE, check_number
from jaxpriv.training.adaptive_clipping import AdaptiveClipping, split_plan
from jaxpriv.training.grid import grid_bits
from jaxpriv.training.groups import Groups
from jaxpriv.training.optimizers.scaled import ScaleThenPrivatise


class Clipping(NamedTuple):
    """How gradients are clipped.

    clip_norm: in [1e-15, 1e15], or where an adaptive one begins. per_layer: as `clipped_sum`.
    adaptive: an `AdaptiveClipping`, or None. scaling: a `ScaleThenPrivatise`, or None. ghost:
    whether matrices have no per-example gradients in memory.
    """

    clip_norm: float = 1.0
    per_layer: Any = False
    adaptive: Any = None
    scaling: Any = None
    ghost: bool = False


def clipping_of(clip_norm, per_layer, adaptive, scaling, ghost):
    """A `Clipping`. Raises: ValueError for values outside their range."""
    check_number("clip_norm", clip_norm, SCALE)
    for name, value, kind in (("adaptive_clipping", adaptive, AdaptiveClipping),
                              ("scaling", scaling, ScaleThenPrivatise)):
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{name} = {value!r}; accepted: a {kind.__name__}, or None")
    if ghost and scaling is not None:
        raise ValueError("scaling scales per-example gradients, which ghost does without")
    return Clipping(float(clip_norm), per_layer, adaptive, scaling, bool(ghost))


def clipping_settings(clipping, parameters):
    """As JSON holds it; groups of arrays as they are in these parameters."""
    groups = clipping.per_layer
    return {"clip_norm": clipping.clip_norm, "ghost": clipping.ghost,
            "per_layer": groups.limits(parameters) if isinstance(groups, Groups) else groups,
            **{name: asdict(value) for name, value in (("adaptive_clipping", clipping.adaptive),
                                                       ("scaling", clipping.scaling)) if value}}


def check_clipping(clipping, plan):
    """Raise ValueError where the clipping does not go with the plan."""
    adaptive = clipping.adaptive
    if plan.whole_numbers and clipping.ghost:
        raise ValueError(
            "ghost has no per-example gradients to round to whole numbers; accepted: a plan with "
            "noise = 'independent'"
        )
    if adaptive is None:
        return
    if adaptive.expected_batch_size != plan.batch_size:
        raise ValueError(
            f"adaptive_clipping has expected_batch_size = {adaptive.expected_batch_size:g}; the "
            f"plan's batch_size is {plan.batch_size:g}"
        )
    if plan.is_correlated:
        raise ValueError(
            "adaptive_clipping with correlated noise: how both share a step's noise is not known"
        )
    noises = split_plan(plan.noise_multipliers, adaptive.count_std)
    if plan.whole_numbers:
        rows = plan.sampler.rows(plan, plan.dataset_size)
        grid_bits(noises, rows, plan.dim)
        adaptive.count_bits(rows)
