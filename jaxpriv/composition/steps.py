"""Several mechanisms seen together by one adversary: the experiment of the sum of their privacy
losses.
"""

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced
from jaxpriv._derived import derived, grown, root_sum_of_squares
from jaxpriv.composition.between import Between, is_between, sides
from jaxpriv.composition.composed import Composed
from jaxpriv.composition.epochs import Epochs, on_lattice
from jaxpriv.composition.gridded import Gridded
from jaxpriv.composition.line import Term
from jaxpriv.composition.pieces import (
    as_steps,
    behind,
    grouped,
    joined,
    once,
    term_of,
    ungrouped,
)
from jaxpriv.composition.quadratic import NormalTransform
from jaxpriv.composition.replaced_steps import ReplacedSteps, may_be_exact
from jaxpriv.composition.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.composition.sampled_exchanged import CutExchangedTransform
from jaxpriv.composition.sampled_mixture import GaussianMixtureTransform
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.sampled_told import CutGaussianTransform
from jaxpriv.composition.stepped import Stepped
from jaxpriv.composition.tables import Step
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.tradeoff.attacked import Attacked
from jaxpriv.tradeoff.cut_batches import CutGaussian, CutReplaced
from jaxpriv.tradeoff.gaussian_mixture import GaussianMixture
from jaxpriv.tradeoff.gaussian_pairs import ChiSquareShift, NormalShift
from jaxpriv.tradeoff.hull import Replaced, Symmetric, Worst, ZeroedOut, symmetrised
from jaxpriv.tradeoff.laplace_pairs import LaplaceShift
from jaxpriv.tradeoff.largest_sum import LargestSum
from jaxpriv.tradeoff.logistic_pair import LogisticShift
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from jaxpriv.tradeoff.response import Response
from jaxpriv.tradeoff.subsampled import Reversed, Subsampled
from jaxpriv.tradeoff.whole_noise import WholeNoise


def together(experiments, axis=None):
    """The experiment of several seen together: all symmetric, or all of one direction.

    axis: -1 if the parameters of each carry its steps along their last axis.
    """
    if len(frozenset().union(*map(_adjacency, experiments))) > 1:
        raise ValueError(
            "compose() got steps for one record added or removed and steps for one replaced"
        )
    attacked = [e for e in experiments if isinstance(e, Attacked)]
    if attacked:
        return _attacked(experiments, len(attacked[0].attacks), axis)
    symmetric = [isinstance(e, Symmetric) for e in experiments]
    if any(symmetric):
        if any(len(e.members) > 1 for e in experiments if isinstance(e, Symmetric)):
            raise ValueError("compose() takes symmetric curves of one mechanism each")
        both_ways = (NormalShift, LaplaceShift, LogisticShift, Response, WholeNoise, Replaced,
                     ReplacedGaussian, CutReplaced, Symmetric)
        if not all(isinstance(e, both_ways) for e in experiments):
            raise ValueError(
                "compose() got symmetric curves among curves of one direction; "
                "call symmetric() on all of them"
            )
        inner = [e.members[0] if s else e for s, e in zip(symmetric, experiments)]
        return symmetrised(together(inner, axis))
    if any(map(is_between, experiments)):
        pairs = [sides(experiment) for experiment in experiments]
        return Between(*(together([pair[side] for pair in pairs], axis) for side in (0, 1)))
    reports = None if axis == -1 else _same_reports(experiments)
    if reports is not None:
        return reports
    added = _added(experiments, axis)
    if len(added) == 1 and added[0][1] is None:
        return added[0][0]
    return _seen([piece for experiment in added for piece in _pieces(*experiment)])


def _same_reports(experiments):
    """Reports of the same numbers as one experiment, where that is in closed form; else None."""
    if not all(isinstance(e, Response) for e in experiments) or is_traced(experiments):
        return None
    ones = [e.once() for e in experiments]
    rows = [jax.tree.leaves(one) for one in ones]
    same = len(set(map(jax.tree.structure, ones))) == 1 and all(
        all(map(np.array_equal, rows[0], row)) for row in rows)
    return ones[0].compose(sum(e.count for e in experiments)) if same else None


def _attacked(experiments, count, axis):
    """Whoever attacks one mechanism sees of the others all that there is to be seen."""
    sides = [
        (e.upper, *map(on_lattice, e.attacks)) if isinstance(e, Attacked) else (e,) * (1 + count)
        for e in experiments
    ]
    upper, *attacks = (together(side, axis) for side in zip(*sides))
    return Attacked(upper, tuple(attacks))


def repeated(experiment, n):
    """The experiment of n equal steps; of one, what it is, for a single step's curve is in closed
    form.
    """
    if isinstance(experiment, Symmetric):
        return Symmetric(tuple(repeated(member, n) for member in experiment.members))
    if isinstance(experiment, Reversed):
        return repeated(experiment.base, n).reversed()
    if isinstance(experiment, Attacked):
        if is_traced(n) or np.ndim(n) or not 0 <= n <= 1e9 or n % 1:
            raise ValueError(f"n = {n} is outside its range 0, 1, ... for shuffled batches")
        if not n:
            return repeated(experiment.upper, n)
        return experiment.mapped(lambda one: repeated(one, n))
    known = experiment.compose(n)
    if known is not None:
        return known
    if not isinstance(n, jax.Array) and np.all(np.asarray(n) == 1):
        return experiment
    if isinstance(experiment, LargestSum):
        return Epochs(experiment, False, int(n))
    if is_between(experiment):
        return Between(*(repeated(side, n) for side in sides(experiment)))
    return _seen(_pieces(experiment, None)).compose(n)


def _adjacency(experiment):
    """Which adjacency the sub-sampled steps of an experiment are for: a set."""
    if isinstance(experiment, Worst):
        return set()
    if isinstance(experiment, (Replaced, ReplacedGaussian, CutReplaced)):
        return {"add_remove" if isinstance(experiment, ZeroedOut) else "replace_one"}
    if isinstance(experiment, (Subsampled, GaussianMixture, CutGaussian)):
        return {"add_remove"}
    if isinstance(experiment, Composed):
        sampled = [t.transform for t in experiment.terms if isinstance(t.transform, Stepped)]
        return {"replace_one" if _replaces(transform) else "add_remove" for transform in sampled}
    inner: tuple = ()
    if isinstance(experiment, Reversed):
        inner = (experiment.base,)
    elif isinstance(experiment, (Symmetric, Worst)):
        inner = experiment.members
    elif isinstance(experiment, Gridded):
        inner = tuple(step.experiment for step in experiment.steps)
    return set().union(*map(_adjacency, inner))


def _replaces(transform):
    if isinstance(transform, CutExchangedTransform):
        return transform.replaced
    return isinstance(transform, ReplacedGaussianTransform)


def _seen(pieces):
    """The experiment of `Term`s, or of `Step`s if there is any."""
    if any(isinstance(piece, Step) for piece in pieces):
        steps = [step for piece in pieces for step in as_steps(piece)]
        kind = ReplacedSteps if may_be_exact(steps) else Gridded
        return kind(grouped(steps), np.zeros((), bool))
    terms = grouped(pieces)
    if all(isinstance(term.transform, GaussianTransform) for term in terms):
        each = [derived(grown, term.transform.mu, term.count) for term in terms]
        members = [one for group in each for one in ungrouped(group)]
        return NormalShift(derived(root_sum_of_squares, *members))
    return Composed(terms)


def directions(experiment):
    """The terms of every direction that an experiment stands for:
    its own, or both of each member of a symmetric one.
    """
    if isinstance(experiment, Symmetric):
        both = [one for member in experiment.members for one in (member, member.reversed())]
        return [terms for one in both for terms in directions(one)]
    pieces = _pieces(experiment, None)
    unknown = (SubsampledChiSquareTransform, GaussianMixtureTransform, CutGaussianTransform,
               ReplacedGaussianTransform)
    if any(isinstance(piece, Step) or isinstance(piece.transform, unknown) for piece in pieces):
        known = "Gaussian noise, sub-sampled or not, and its compositions"
        raise ValueError(
            f"privacy-loss transforms are known of {known}; got {type(experiment).__name__}"
        )
    return [grouped(pieces)]


def _added(experiments, axis):
    """[(experiment, axis of its steps)], relaxed Gaussian releases as one:
    their noncentralities add up.
    """
    relaxed = [e for e in experiments if isinstance(e, ChiSquareShift)]
    others = [(e, axis) for e in experiments if not isinstance(e, ChiSquareShift)]
    if not relaxed:
        return others
    dims = {np.asarray(e.df).tobytes() if not is_traced(e.df) else id(e.df) for e in relaxed}
    if len(dims) > 1 or (axis == -1 and any(np.ndim(e.df) for e in relaxed)):
        raise ValueError(
            "compose() got relaxed Gaussian releases of different dim; "
            "the adversary who adds them up needs one dim"
        )
    signals = [xp.sum(e.nc, -1) if axis == -1 else e.nc for e in relaxed]
    return [*others, (ChiSquareShift(relaxed[0].df, sum(signals[1:], signals[0])), None)]


def _pieces(experiment, axis):
    """The steps of an experiment, with members along the last axis:
    `Term`s where a transform is known, else `Step`s.
    """
    if isinstance(experiment, Composed):
        return [joined(term, axis, experiment.batch_shape()) for term in experiment.terms]
    if isinstance(experiment, Gridded):
        return [
            joined(Step(step.experiment.reversed(), step.count) if experiment.flipped else step,
                   axis, experiment.batch_shape())
            for step in experiment.steps
        ]
    term = term_of(experiment, axis)
    if term is not None:
        return [term]
    times = 1
    if isinstance(experiment, Response):
        experiment, times = experiment.once(), experiment.count
    if axis == -1:
        return [Step(experiment, times * once(experiment.batch_shape(), experiment))]
    experiment = behind(experiment)
    return [Step(experiment, times * once((1,), experiment))]


def normal_vectors(shift, narrower):
    """The experiment of N(0, I) against N(shift, diag(1 - narrower)):
    `Float[Array, "... d"]`, narrower in [0, 1).
    """
    shift, narrower = xp.broadcast_arrays(shift, narrower)
    transform = NormalTransform(shift, narrower, np.zeros(shift.shape, bool))
    return Composed((Term(transform, xp.ones(shift.shape[-1:])),))
