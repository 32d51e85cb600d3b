"""The steps of a composition, kind by kind:
members along a last axis, and how often each is taken.
"""

from dataclasses import replace

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import Derived
from jaxpriv.composition.directed import Directed
from jaxpriv.composition.line import Term
from jaxpriv.composition.quadratic import NormalTransform
from jaxpriv.composition.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.composition.sampled_exchanged import CutExchangedTransform
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.composition.sampled_hull import HullTransform
from jaxpriv.composition.sampled_mixture import GaussianMixtureTransform
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.sampled_told import CutGaussianTransform
from jaxpriv.composition.stepped import Stepped
from jaxpriv.composition.tables import Step
from jaxpriv.composition.transforms import GaussianTransform
from jaxpriv.tradeoff.averaged import Mixture
from jaxpriv.tradeoff.cut_batches import CutExchanged, CutGaussian, CutReplaced, CutZeroed
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.gaussian_mixture import GaussianMixture
from jaxpriv.tradeoff.gaussian_pairs import ChiSquareShift, NormalShift
from jaxpriv.tradeoff.hull import Replaced
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from jaxpriv.tradeoff.subsampled import Reversed, Subsampled


def behind(parameter):
    """A parameter with an axis for members behind the batch's."""

    def widened(part):
        if isinstance(part, Experiment):
            if _has_composition(part):
                raise ValueError(
                    "compose() got a mixture of compositions, the worst of them or a group, "
                    "which is no single step: compose the steps first, then mix"
                )
            return jax.tree.map(_inserted, part, part.own_axes())
        return _inserted(part, 0)

    return jax.tree.map(widened, parameter, is_leaf=lambda part: isinstance(part, Experiment))


def _has_composition(experiment):
    def is_one(part):
        return isinstance(part, Directed)

    return any(map(is_one, jax.tree.leaves(experiment, is_leaf=is_one)))


def _inserted(leaf, own):
    leaf = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    # one of fewer axes is the same for all members
    return leaf if leaf.ndim < own else leaf[(..., None) + (slice(None),) * own]


def ungrouped(parameter):
    """The members of a parameter, one by one."""
    leaves, structure = jax.tree.flatten(parameter)
    count = max(np.shape(leaf)[-1] for leaf in leaves)
    wide = [
        leaf if np.shape(leaf)[-1] == count else leaf + np.zeros(count, leaf.dtype)
        for leaf in leaves
    ]
    return [jax.tree.unflatten(structure, [leaf[..., i] for leaf in wide]) for i in range(count)]


def term_of(experiment, axis):
    """The `Term` of an experiment whose transform is known, with members along the last axis; else
    None.
    """
    forward = experiment.base if isinstance(experiment, Reversed) else experiment
    if isinstance(forward, NormalShift):
        mu, count = members_of(axis, forward.mu)
        return Term(GaussianTransform(mu), count)
    if isinstance(forward, Subsampled) and isinstance(forward.base, NormalShift):
        mu, rate, count = members_of(axis, forward.base.mu, forward.rate)
        if not isinstance(rate, (Derived, jax.Array)) and np.all(rate >= 1):
            return Term(GaussianTransform(mu), count)
        reverse = np.full(count.shape, isinstance(experiment, Reversed))
        return Term(SubsampledGaussianTransform(mu, rate, reverse), count)
    if isinstance(forward, Subsampled) and isinstance(forward.base, ChiSquareShift):
        df, nc, rate, count = members_of(axis, forward.base.df, forward.base.nc, forward.rate)
        reverse = np.full(count.shape, isinstance(experiment, Reversed))
        return Term(SubsampledChiSquareTransform(df, nc, rate, reverse), count)
    if isinstance(forward, GaussianMixture):
        parts, count = members_of(axis, forward.parts)
        reverse = np.full(count.shape, isinstance(experiment, Reversed))
        return Term(GaussianMixtureTransform(parts, reverse), count)
    if isinstance(forward, ReplacedGaussian):
        mu, rate, count = members_of(axis, forward.mu, forward.rate)
        return Term(ReplacedGaussianTransform(mu, rate), count)
    if isinstance(forward, CutGaussian):
        forward, count = members_of(axis, forward)
        reverse = np.full(count.shape, isinstance(experiment, Reversed))
        own = (forward.mu, forward.rate, forward.kept, forward.log_whole, forward.log_cut,
               forward.doubt, reverse)
        if isinstance(forward, CutExchanged):
            return Term(CutExchangedTransform(*own, isinstance(forward, CutReplaced)), count)
        return Term(CutGaussianTransform(*own), count)
    return None


def as_steps(piece):
    """A `Term` as `Step`s of the pairs behind its transform: of members of both directions two."""
    known = False if isinstance(piece, Step) else getattr(piece.transform, "reverse", False)
    reverse = np.asarray(known)
    if len(np.unique(reverse)) < 2:
        return [_as_step(piece)]
    there = [sorted(set(np.nonzero(reverse == way)[-1])) for way in (False, True)]
    if set(there[0]) & set(there[1]):
        raise ValueError("compose() got a batch of curves of both directions")
    shape = np.shape(piece.count)

    def taken(members):
        return jax.tree.map(lambda leaf: xp.broadcast_to(
            leaf, np.broadcast_shapes(np.shape(leaf), shape))[..., members], piece)

    return [_as_step(taken(members)) for members in there]


def _as_step(piece):
    if isinstance(piece, Step):
        return piece
    if isinstance(piece.transform, GaussianTransform):
        return Step(NormalShift(piece.transform.mu), piece.count)
    if isinstance(piece.transform, NormalTransform):
        raise ValueError(
            "compose() got normal vectors of different covariance, "
            "which compose with Gaussian noise alone"
        )
    if isinstance(piece.transform, GaussianMixtureTransform):
        pair: Experiment = GaussianMixture(piece.transform.parts)
    elif isinstance(piece.transform, HullTransform):
        whole = Subsampled(NormalShift(piece.transform.mu), piece.transform.rate)
        return Step(Replaced((whole,)), piece.count)
    elif isinstance(piece.transform, ReplacedGaussianTransform):
        return Step(ReplacedGaussian(piece.transform.mu, piece.transform.rate), piece.count)
    elif isinstance(piece.transform, CutGaussianTransform):
        own = piece.transform
        cut = CutGaussian
        if isinstance(own, CutExchangedTransform):
            cut = CutReplaced if own.replaced else CutZeroed
        pair = cut(own.unit, own.drawn, own.kept, own.log_whole, own.log_cut, own.doubts)
    elif isinstance(piece.transform, SubsampledChiSquareTransform):
        pair = Subsampled(
            ChiSquareShift(piece.transform.df, piece.transform.nc), piece.transform.rate
        )
    else:
        pair = Subsampled(NormalShift(piece.transform.mu), piece.transform.rate)
    (reverse,) = np.unique(np.asarray(piece.transform.reverse))
    return Step(Reversed(pair) if reverse else pair, piece.count)


def members_of(axis, *parameters):
    """Parameters with the steps along the last axis, and how often each is taken: once."""
    parts = parameters if axis == -1 else [behind(part) for part in parameters]
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(parts)]
    return *parts, once(np.broadcast_shapes(*shapes)[-1:], parts)


def joined(piece, axis, batch):
    """A `Term` or `Step` of compositions that stand along the last axis of the batch
    (axis: -1), whose members then are members of one.
    """
    if axis != -1 or not batch:
        return piece
    own = jax.tree.map(lambda _: 0, piece)
    if isinstance(piece, Step):
        own = replace(own, experiment=piece.experiment.own_axes())
    wide = jax.tree.map(lambda leaf, axes: xp.of_axes(leaf, axes + 2), piece, own)
    members = max(jax.tree.leaves(jax.tree.map(lambda leaf, n: leaf.shape[-1 - n], wide, own)))

    def merged(leaf, axes):
        ahead, behind = leaf.shape[: leaf.ndim - axes - 2], leaf.shape[leaf.ndim - axes :]
        full = xp.broadcast_to(leaf, (*ahead, batch[-1], members, *behind))
        return full.reshape(*ahead, batch[-1] * members, *behind)

    return jax.tree.map(merged, wide, own)


def once(shape, parameters):
    """Ones in NumPy, of the parameters' dtype: they widen no result."""
    return np.ones(
        shape,
        np.result_type(
            *(getattr(leaf, "dtype", np.float64) for leaf in jax.tree.leaves(parameters))
        ),
    )


def grouped(pieces):
    """Pieces of one kind as one, along the members' axis; NumPy's numbers, with digits that JAX
    would round, on their own.
    """
    groups: dict = {}
    for piece in pieces:
        leaves, structure = jax.tree.flatten(piece)
        kind = structure, tuple(isinstance(leaf, jax.Array) for leaf in leaves)
        # behind the members of a mixture stands what it draws: it joins no other
        groups.setdefault(len(groups) if _has_mixture(piece) else kind, []).append(piece)
    return tuple(
        group[0] if _has_mixture(group[0]) else _joined(group) for group in groups.values()
    )


def _has_mixture(piece):
    parts = jax.tree.leaves(piece, is_leaf=lambda part: isinstance(part, Mixture))
    return any(isinstance(part, Mixture) for part in parts)


def _joined(pieces):
    rows = [jax.tree.leaves(piece) for piece in pieces]
    batch = np.broadcast_shapes(*(np.shape(leaf)[:-1] for row in rows for leaf in row))
    widths = [np.broadcast_shapes(*(np.shape(leaf)[-1:] for leaf in row)) for row in rows]

    def join(column):
        return xp.concatenate(
            [xp.broadcast_to(leaf, batch + width) for leaf, width in zip(column, widths)], -1
        )

    return jax.tree.unflatten(
        jax.tree.structure(pieces[0]), [join(column) for column in zip(*rows)]
    )


def audible(term):
    """Sub-sampled steps without any signal are not taken, for their transform divides by it."""
    if not isinstance(term.transform, Stepped):
        return term
    silent, heard = term.transform.audible()
    return Term(heard, xp.where(silent, 0.0, term.count))
