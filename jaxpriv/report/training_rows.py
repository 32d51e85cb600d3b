"""The numbers of a training's certificate, of its plan alone."""

import math

from jaxpriv.bridges import points
from jaxpriv.report.certificate import FALSE_POSITIVE_RATES
from jaxpriv.report.profiles import epsilons_of, profile_of
from jaxpriv.training.plan import ASSUMPTIONS
from jaxpriv.training.profile import chords

NAMES = {"worst_case": "worst case", "relaxed": "relaxed", "membership": "membership"}
_FURTHER = 64.0  # than 630, the last epsilon of a profile: whose exponential is a number


def rows_of(plan, spent):
    """A certificate's rows after so many steps, the worst case first."""
    models = plan.threat_models
    profiles = [(NAMES[model], plan.profile(model, spent)) for model in models]
    found = [numbers_of(profile, plan.delta) for _, profile in profiles]
    epsilons = epsilons_of(found[0]["epsilon"])
    for numbers, model, (_, profile) in zip(found, models, profiles, strict=True):
        numbers["profile"] = _profile(profile, epsilons, epsilons_of(numbers["epsilon"]))
        # of a curve that takes long, from what is known of it: mu is then about a percent larger
        slow = plan.sampler.slow
        curve = points.curve(*zip(*profile.known())) if slow else plan.curve(model, spent)
        numbers["mu_at_slack"] = float(curve.gdp_mu_bounds(slack=plan.delta)[1])
    return [{"adversary": name, "assumption": ASSUMPTIONS[model], **_least(numbers, found[0])}
            for (name, _), model, numbers in zip(profiles, models, found, strict=True)]


def noise_delta(plan, spent, rows):
    """By how much what is drawn for normal numbers may raise delta at the certified epsilon."""
    epsilon = rows[0]["epsilon"]
    return plan.noise_delta(math.inf if epsilon is None else epsilon, spent)


def numbers_of(profile, delta):
    low, high = profile.epsilon(delta)
    return {"epsilon_lower": low, "epsilon": high if math.isfinite(high) else None,
            "mu_at_slack": None,  # here in the order of the table
            "advantage": profile.advantage(),
            "tpr_at_fpr": {f"{fpr:g}": profile.tpr(fpr) for fpr in FALSE_POSITIVE_RATES}}


def _profile(profile, epsilons, own):
    """The deltas at `epsilons`; far beyond a row's `own` ones next to nothing is left of delta, and
    what that is takes long: it is bounded by what is known before.
    """
    reach = own[-1] + min(own[-1], _FURTHER)
    near = [epsilon for epsilon in epsilons if epsilon < reach]
    profile.ask([*near, *own, reach])
    far = chords(profile.known(), epsilons[len(near) :])
    return profile_of(zip(epsilons, [*(profile.delta(epsilon)[1] for epsilon in near), *far]))


def _least(numbers, worst):
    """Who knows less sees no more than the worst case:
    an approximation that says otherwise has nothing to say.
    """
    over = [numbers[name] is None or numbers[name] > 1.01 * worst[name]
            for name in ("epsilon", "advantage") if worst[name] is not None]
    if any(over):
        return worst
    return {
        name: {fpr: min(value[fpr], worst[name][fpr]) for fpr in value}
        if isinstance(value, dict)
        else min((v for v in (value, worst[name]) if v is not None), default=None)
        for name, value in numbers.items()
    }
