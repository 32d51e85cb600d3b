"""The mu of mu-GDP of a composition, and what small levels alone ask for: the squares of its steps'
add up.
"""

from abc import ABC, abstractmethod

from jaxpriv import _array as xp
from jaxpriv.composition.sampled_hull import HullTransform
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.tradeoff.averaged import Mixture
from jaxpriv.tradeoff.evaluate import search_mu
from jaxpriv.tradeoff.subsampled import Reversed


class _Composition(ABC):
    """Where small levels ask for `tail_mu`, that is what their lower bound is one of."""

    @abstractmethod
    def tail_mu(self):
        pass

    @abstractmethod
    def least_gaussian_mu(self):
        pass

    def least_tail_mu(self):
        return None if self.tail_mu() is None else self.least_gaussian_mu()


class MuOfTerms(_Composition):
    """Of `terms`, whose transforms know how far apart their shifts are at most."""

    terms: tuple

    def tail_mu(self):
        """All steps with the record, which decides for alpha -> 0: mu^2 = sum n_i mu_i^2; unless
        a record is replaced, when larger levels may ask for more.
        """
        replaced = any(isinstance(t.transform, ReplacedGaussianTransform) for t in self.terms)
        return None if replaced else self.gaussian_mu()

    def least_gaussian_mu(self):
        """For alpha -> 0 of a sum of what the steps show, in the direction in which that is more. A
        sub-sampled step's losses have an end in the other one: exchanged, its null's shifts only
        make a level smaller, and its alternative may have none. So it is in either direction with a
        replaced record, which asks for half of what it may at most.
        """

        def square(reverse):
            return sum(xp.sum(term.count * _tail(term.transform, reverse) ** 2, -1)
                       for term in self.terms)

        largest = xp.maximum(square(False), square(True))
        return xp.sqrt(largest) * (1 - 256 * xp.finfo(xp.float64).eps)

    def gaussian_mu(self):
        square = sum(xp.sum(term.count * term.transform.apart**2, -1) for term in self.terms)
        return xp.sqrt(square)


class MuOfSteps(_Composition):
    """Of `steps` of any mechanisms."""

    steps: tuple

    def tail_mu(self):
        """All steps with the record decide for alpha -> 0, if they do for each step:
        mu^2 = sum n_i mu_i^2.
        """
        known = [step.experiment.tail_mu() for step in self.steps]
        if any(mu is None for mu in known):
            return None
        return xp.sqrt(sum(xp.sum(step.count * mu**2, -1) for step, mu in zip(self.steps, known)))

    def least_gaussian_mu(self):
        """What the steps alone ask for whose `tail_mu` is that of one direction, or any single
        other one: the rest of them can only tell more.
        """
        found, squares = xp.zeros(()), {False: xp.zeros(()), True: xp.zeros(())}
        for step in self.steps:
            mu, least = step.experiment.least_tail_mu(), step.experiment.least_gaussian_mu()
            if mu is not None:
                square = xp.sum(xp.where(step.count > 0, step.count * mu**2, 0.0), -1)
                for reverse in _directions(step.experiment):
                    squares[reverse] = squares[reverse] + square
            elif least is not None:
                found = xp.maximum(found, xp.max(xp.where(step.count >= 1, least, 0.0), -1))
        for square in squares.values():
            found = xp.maximum(found, xp.sqrt(square))
        return found * (1 - 256 * xp.finfo(xp.float64).eps)

    def gaussian_mu(self):
        """mu-GDP composes as mu^2 = sum n_i mu_i^2: an upper bound, exact where `tail_mu` is."""

        def square(step):
            mu = step.experiment.gaussian_mu()
            mu = search_mu(step.experiment, xp.zeros_like(step.count)) if mu is None else mu
            return xp.sum(xp.where(step.count > 0, step.count * mu**2, 0.0), -1)

        return xp.sqrt(sum(map(square, self.steps), xp.zeros(())))


def _tail(transform, reverse):
    """The mu that small levels of a step ask for in a direction."""
    if isinstance(transform, ReplacedGaussianTransform):
        return 0.5 * transform.apart
    if isinstance(transform, (GaussianTransform, HullTransform)):
        return transform.apart
    return xp.where(transform.reverse == reverse, transform.apart, 0.0)


def _directions(experiment):
    """Those in which small levels ask for a step's `tail_mu`, as far as it is known: both if it is
    the same exchanged, of a mixture those of all its members.
    """
    if isinstance(experiment, Mixture):
        return set.intersection(*map(_directions, experiment.members))
    if experiment.reversed() is experiment:
        return {False, True}
    return {isinstance(experiment, Reversed)}
