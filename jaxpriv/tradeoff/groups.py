"""The curve of a group of records: in closed form, by its polygon, or by the general search."""

from jaxpriv.tradeoff.attacked import Attacked
from jaxpriv.tradeoff.discrete import Discrete
from jaxpriv.tradeoff.group import Group
from jaxpriv.tradeoff.group_of_reports import GroupOfReports
from jaxpriv.tradeoff.hull import Symmetric, symmetrised
from jaxpriv.tradeoff.outcomes import Outcomes


def grouped(experiment, size):
    """The experiment of a group of so many records; who attacks may ask for one of them only."""
    if isinstance(experiment, Attacked):
        return Attacked(grouped(experiment.upper, size), experiment.attacks)
    if isinstance(experiment, Symmetric) and len(experiment.members) == 1:
        inner = experiment.members[0].grouped(size)
        known = None if inner is None else Symmetric((inner,))
    else:
        known = experiment.grouped(size)
    if known is not None or size == 1:
        return experiment if known is None else known
    if not experiment.full():
        raise ValueError(
            "group() of a curve that is not the full adversary's: "
            "its tests say nothing of a neighbour's neighbour"
        )
    alone = symmetrised(experiment)
    return (GroupOfReports if _is_polygon(alone) else Group)(alone, size)


def _is_polygon(experiment):
    """Is it of one polygon that exchanging the hypotheses does not change?"""
    if not isinstance(experiment, Symmetric) or len(experiment.members) > 1:
        return False
    (member,) = experiment.members
    return isinstance(member, (Outcomes, Discrete)) and member.reversed() is member
