"""What a certificate says of the best of a random number of trainings (`training.best_of`).

Every number follows from (epsilon, delta) points that the selection satisfies. Weaker adversaries
have no row: what they see of one training is known, what they see of the best of several is not.
"""

import math

from jaxpriv._rounding import shown
from jaxpriv.bridges import points
from jaxpriv.report.plain_words import in_plain_words
from jaxpriv.report.profiles import epsilons_of, lines_of, profile_of
from jaxpriv.report.training_rows import NAMES, numbers_of
from jaxpriv.training.plan import ASSUMPTIONS
from jaxpriv.training.profile import CertifiedProfile
from jaxpriv.training.selection import Selection, tries_of

STANDS_ALONE = (
    "What weaker attackers see is known of one training, not of the best of several: the worst "
    "case stands alone, and no canaries audit it."
)
_HIDDEN = (
    "Of the other trainings nothing is seen: not how many there were, nor how long they took. The "
    "candidates were fixed beforehand, each training drew one of them at random, and the score "
    "that decides was computed on records that no guarantee covers."
)


def of_selection(selection, plan):
    """All that follows from a `Selection`, and from the plan of its winner.

    Returns: as `certify_training` does: mechanism, description, adjacency, sampling, adversaries,
        noise_delta (of one training), in_plain_words, if_shuffled, and selection: its settings,
        "epsilon_of_one" (None for infinity), and "sentence".
    """
    row, one = _row(selection), selection.epsilon_of_one
    return {
        "mechanism": plan.settings(), "description": plan.describe(), "adversaries": [row],
        "adjacency": plan.adjacency, "sampling": plan.sampling,
        "noise_delta": max(each.noise_delta(one) for each in selection.different),
        "in_plain_words": in_plain_words(lines_of(row, selection.delta), plan.protects),
        "if_shuffled": None,
        "selection": {**selection.settings(), "epsilon_of_one": one if math.isfinite(one) else None,
                      "sentence": sentence(selection, row["epsilon"])},
    }


def selection_of(settings, plan_of):
    """The `Selection` whose `settings()` these are; plan_of: settings of a plan -> `Plan`.

    Raises: ValueError, TypeError or KeyError for what none has.
    """
    plans = tuple(plan_of(each) for each in settings["mechanisms"])
    return Selection(tries_of(**settings["tries"]), plans)


def sentence(selection, epsilon):
    """What was selected and what that costs, in one sentence; epsilon: None for infinity."""
    named = selection.settings()["tries"]
    eta = f", η = {named['eta']:g}" if "eta" in named else ""
    law = f"{named['law'].replace('_', ' ')} law{eta}"
    one = selection.epsilon_of_one
    alone = shown(one if math.isfinite(one) else None)
    return (
        f"This is the best of a random number of trainings, {named['mean']:g} on average ({law}), "
        f"of which nothing else is told: that costs ε ≤ {shown(epsilon)} at δ = "
        f"{selection.delta:g} instead of the ε ≤ {alone} of one training."
    )


def _row(selection):
    delta = selection.delta
    curve = points.curve(*zip(*selection.points))
    profile = CertifiedProfile(curve)
    found = numbers_of(profile, delta)
    epsilon = selection.epsilon()
    found["epsilon_lower"] = selection.epsilon_lower
    # above the largest of the points' the curve is that of nothing private
    found["epsilon"] = None if found["epsilon"] is None else epsilon
    found["mu_at_slack"] = None
    if found["epsilon"] is not None:
        found["mu_at_slack"] = float(curve.gdp_mu_bounds(slack=delta)[1])
    found["profile"] = profile_of(
        (each, profile.delta(each)[1]) for each in epsilons_of(found["epsilon"])
    )
    assumption = f"{ASSUMPTIONS['worst_case']} {_HIDDEN}"
    return {"adversary": NAMES["worst_case"], "assumption": assumption, **found}
