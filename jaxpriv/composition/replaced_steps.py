"""Many steps with a record replaced in samples of fixed size: by laws, and by NumPy by the
transform of the pair that bounds each (`jaxpriv.composition.sampled_hull`).

An outcome of a step tells nothing, so that its transform does not fall below a share A along a
line. That of n steps falls to A^n, which is next to nothing where a lattice's rounding shows.
"""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.composition.composed import Composed
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.line import Term
from jaxpriv.composition.pieces import term_of
from jaxpriv.composition.sampled_hull import HullTransform
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.hull import Replaced, ZeroedOut
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from jaxpriv.tradeoff.subsampled import Subsampled

_FALLS = 60.0  # -log of what the transform of all steps falls to, at least
_SELDOM = 1.0  # times that the record is drawn: below it a single loss may tell most


def _by_transforms(name):
    """A method of estimates, by NumPy that of transforms where there are any."""

    def method(self, value, reverse):
        composed = None if xp.any_jax(self, value) or self.seldom() else self.by_transforms()
        own = super(ReplacedSteps, self) if composed is None else composed
        return getattr(own, name)(value, reverse)

    return method


@pytree
class ReplacedSteps(Gridded):
    """Steps each of whose pairs is the hull of sub-sampled Gaussian noise's both directions, and
    others that are the same in both.
    """

    log_delta = _by_transforms("log_delta")
    contact = _by_transforms("contact")
    touch = _by_transforms("touch")
    find_slope = _by_transforms("find_slope")
    solve_epsilon = _by_transforms("solve_epsilon")

    def means(self):
        """By transforms, then on lattices; the other way round where losses are seldom."""
        composed = self.by_transforms()
        if composed is None:
            return iter([self])
        return iter([self, composed] if self.seldom() else [composed, self])

    def seldom(self):
        """Is any composition of the batch one whose record is hardly drawn?"""
        drawn = 0.0
        for step in self.steps:
            if isinstance(step.experiment, Replaced):
                rate = step.experiment.members[0].rate
                count, rate = resolved((step.count, rate), np.float64)
                drawn = drawn + np.sum(count * rate, -1)
        return np.any(drawn < _SELDOM)

    def by_transforms(self):
        """The same experiment by transforms, or None where they do not fall."""
        terms, falls = [], 0.0
        for step in self.steps:
            count = resolved(step.count, np.float64)
            transform = _transform(step.experiment)
            if isinstance(transform, HullTransform):
                stays = np.where(count > 0, count * transform.log_same, 0.0)
                falls = falls - np.sum(stays, -1)
            terms.append(Term(transform, count))
        return Composed(tuple(terms)) if np.all(falls > _FALLS) else None


def _transform(pair):
    if isinstance(pair, Replaced):
        mu, rate = resolved((pair.members[0].base.mu, pair.members[0].rate), np.float64)
        return HullTransform(mu, rate)
    return term_of(pair, -1).transform


def may_be_exact(steps):
    """Is there such a hull, are all other steps the same in both directions and of a known
    transform, and are all parameters at hand?
    """
    hulls = [_is_hull(step.experiment) for step in steps]
    others = (NormalShift, ReplacedGaussian)
    return (any(hulls) and not xp.any_jax(steps)
            and all(hull or isinstance(step.experiment, others)
                    for hull, step in zip(hulls, steps)))


def _is_hull(pair):
    if type(pair) not in (Replaced, ZeroedOut) or len(pair.members) != 1:
        return False
    (member,) = pair.members
    return isinstance(member, Subsampled) and isinstance(member.base, NormalShift)
