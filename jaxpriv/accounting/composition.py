"""Several mechanisms seen together by one adversary: the curve of the sum of their privacy losses."""

import operator
from dataclasses import replace
from typing import Any, cast

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import is_traced
from jaxpriv._derived import Derived, derived, grown, known_whole, product, resolved, root_sum_of_squares
from jaxpriv._pytree import pytree
from jaxpriv.accounting import line
from jaxpriv.accounting.directed import Directed
from jaxpriv.accounting.enclosure import bracket, brackets_near, epsilon_bracket
from jaxpriv.accounting.grid import Step
from jaxpriv.accounting.gridded import Gridded
from jaxpriv.accounting.inversion import invert, log_result
from jaxpriv.accounting.kept import Target, root
from jaxpriv.accounting.line import (
    ALPHA,
    DELTA,
    POWER,
    Kind,
    Term,
    advantage_bound,
    cumulants,
    saddle_epsilon,
    stacked,
)
from jaxpriv.accounting.quadratic import NormalTransform
from jaxpriv.accounting.sampled import Sampled
from jaxpriv.accounting.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.accounting.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.accounting.transforms import GaussianTransform
from jaxpriv.stats import norm
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff import Curve
from jaxpriv.tradeoff.envelope import Replaced, Symmetric
from jaxpriv.tradeoff.experiment import Point, padded
from jaxpriv.tradeoff.gaussian_pairs import ChiSquareShift, NormalShift
from jaxpriv.tradeoff.laplace_pairs import LaplaceShift
from jaxpriv.tradeoff.pair import Pair
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.subsampled import Reversed, Subsampled

_USEFUL = 1.0  # width of log delta's bracket below which a lattice follows it
_DEEP = -60.0  # log delta below which it does not


@pytree
class Composed(Directed):
    """Steps of mechanisms with privacy-loss transforms. `terms`: tuple of `Term`s with arrays (..., members)."""

    terms: tuple

    def batch_shape(self):
        return xp.broadcast_shapes(*(xp.shape(leaf)[:-1] for leaf in jax.tree.leaves(self.terms)))

    def aligned(self, shape, dtype):
        def spread(leaf):
            wanted = bool if xp.is_bool(leaf) else dtype
            return xp.broadcast_to(xp.asarray(leaf, wanted), shape + xp.shape(leaf)[-1:])

        return Composed(tuple(_audible(term) for term in jax.tree.map(spread, resolved(self.terms, dtype))))

    def whole(self, up):
        """Where the record does not always take part: between two numbers of steps there is no mechanism.

        Gaussian losses are infinitely divisible, and so are those of normal vectors.
        """

        def rounded(term):
            if not isinstance(term.transform, Sampled) or known_whole(term.count):
                return term
            return Term(term.transform, derived(_steps_up if up else _steps_down, term.count, term.transform.rate))

        terms = tuple(map(rounded, self.terms))
        return self if all(map(operator.is_, terms, self.terms)) else Composed(terms)

    def defined(self):
        result = xp.ones(self.batch_shape(), bool)
        for leaf in jax.tree.leaves(self.terms):
            result = result & ~xp.any(xp.isnan(leaf), -1)
        return result

    def _directed(self, when):
        """The terms, of the exchanged hypotheses where `when` (in the shape of the batch, or one for all)."""
        return tuple(Term(t.transform.reversed(xp.asarray(when)[..., None]), t.count) for t in self.terms)

    def directed(self, reverse):
        return Composed(self._directed(reverse))

    def _leaks(self):
        """Is there any loss at all?"""
        return line.loss_bound(self.terms) > 0

    def loss_bound(self, reverse):
        return line.loss_bound(self._directed(reverse))

    def _profile(self, eps, reverse, evaluate):
        """`evaluate`(terms, |eps|) in the direction in which eps is not negative; and where that is what is wanted."""
        flipped = eps < 0
        terms = self._directed(flipped ^ reverse)
        size = xp.abs(eps)
        inside = self._leaks() & (size < line.loss_bound(terms))
        return evaluate(terms, size), inside, flipped

    def log_delta(self, eps, reverse):
        """For eps < 0 from the other direction: delta(eps) = 1 - e^eps (1 - delta_r(-eps))."""
        (value, rest), inside, flipped = self._profile(eps, reverse, _log_delta)
        value = xp.where(inside, value, xp.where(xp.isnan(eps), xp.nan, -xp.inf))
        rest = xp.where(inside, rest, 0.0)
        down = xp.where(flipped, eps, -1.0)
        return xp.where(flipped, log1mexp(xp.minimum(down + rest, -xp.finfo(eps.dtype).tiny)), value)

    def bracket(self, low, high, reverse):
        """Of whole steps, at one eps = low = high."""
        del low
        found = bracket(self._directed((high < 0) ^ reverse), xp.abs(high))
        return _from_other_direction(high, found)

    def brackets_near(self, center, ends, reverse):
        """By NumPy from one line, where all eps are of one sign."""
        if xp.any_jax(self, center):
            return super().brackets_near(center, ends, reverse)
        flipped = center < 0
        found = brackets_near(self._directed(flipped ^ reverse), xp.abs(center), xp.abs(ends))
        mixed = ((ends < 0) != flipped).any(0)
        found = [np.where(mixed, np.nan, part) for part in _from_other_direction(ends, found)]

        def search(own, center, ends):
            return Directed.brackets_near(own, center, ends, reverse)

        return self._others(found, search, center, ends)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """By NumPy from one line for all that is asked; by the general search where that does not serve."""
        if xp.any_jax(self, log_delta):
            return super().epsilon_bracket(lowest, log_delta, reverse)
        terms = self._directed(np.full(log_delta.shape, reverse))
        nothing = advantage_bound(terms) <= np.exp(lowest)  # epsilon is 0 then
        if nothing.all():
            return np.zeros(log_delta.shape), np.zeros(log_delta.shape)
        found = epsilon_bracket(terms, lowest, log_delta)
        found = [np.where(nothing, 0.0, end) for end in found]

        def search(own, lowest, log_delta):
            return Directed.epsilon_bracket(own, lowest, log_delta, reverse)

        return self._others(found, search, lowest, log_delta)

    def _others(self, found, search, *values):
        """NumPy arrays `found`, with search(experiment, *values) where they are NaN."""
        lost = np.isnan(found[0]).reshape((-1, *self.batch_shape())).any(0)
        if lost.any():
            own = jax.tree.map(lambda leaf: leaf[lost], self)
            for whole, part in zip(found, search(own, *(value[..., lost] for value in values))):
                whole[..., lost] = part
        return found

    def touch(self, eps, reverse):
        """Power and level, from one evaluation of a batch twice as large."""
        terms = stacked(self._directed(xp.full(eps.shape, reverse)), 2)
        poles = xp.asarray([ALPHA.pole, POWER.pole], eps.dtype).reshape((2,) + (1,) * eps.ndim)
        (log_alpha, log_power), (log_specificity, log_beta) = log_result(terms, xp.stack([eps, eps]), Kind(poles, False))
        point = Point(log_alpha, log_specificity, log_beta, log_power)
        terms = self._directed(xp.full(eps.shape, reverse))
        above, below = eps >= line.loss_bound(terms), -eps >= line.loss_bound(self._directed(not reverse))
        out = above | below | ~self._leaks()
        end = Point.end(below | ~above & (eps < 0))
        return jax.tree.map(lambda inner, outer: xp.where(out, outer, inner), point, end)

    def find_slope(self, alpha, reverse):
        """Newton on the smaller of log alpha and log(1 - alpha), from where it would be if the loss were normal."""
        terms = self._directed(xp.full(alpha.shape, reverse))
        _, mean, variance = cumulants(terms, xp.full_like(alpha, -1.0))
        small = alpha < 0.5
        log_alpha, log_rest = xp.log(alpha), xp.log1p(-alpha)
        tail = norm.isf_exp(xp.minimum(log_alpha, log_rest))
        start = mean + xp.sqrt(variance) * xp.where(small, 1.0, -1.0) * tail
        leaks = self._leaks()
        if xp.any_jax(alpha, self):
            return xp.where(leaks, _slope_by_steps(terms, start, log_alpha, log_rest, small, mean, variance), 0.0)
        least = np.full_like(alpha, -np.inf)
        target = Target(least, log_alpha, log_rest, small)
        found = np.where(leaks, root(terms, (start, target), ALPHA), 0.0)
        lost = np.isnan(found)
        if lost.any():
            rest = jax.tree.map(lambda leaf: leaf[lost], (start, log_alpha, log_rest, small, mean, variance))
            found[lost] = _slope_by_steps(jax.tree.map(lambda leaf: leaf[lost], terms), *rest)
        return found

    def solve_epsilon(self, log_delta, reverse):
        """From where the saddle-point approximation meets the target, by Newton on log delta."""
        terms = self._directed(xp.full(log_delta.shape, reverse))
        reachable = (log_delta > -xp.inf) & (log_delta < 0) & self._leaks()
        target = xp.where(reachable, log_delta, -1.0)
        start = saddle_epsilon(terms, target)
        if xp.any_jax(start):
            eps = _epsilon_by_steps(terms, start, target, reachable)
        else:
            least, small = np.zeros_like(target), np.ones(target.shape, bool)
            eps = root(terms, (start, Target(least, target, log1mexp(target), small)), DELTA)
            lost = np.isnan(eps) & reachable
            if lost.any():
                rest = jax.tree.map(lambda leaf: leaf[lost], (terms, start, target, reachable))
                eps[lost] = _epsilon_by_steps(*rest)
        limit = xp.where((log_delta < 0) & self._leaks(), line.loss_bound(terms), 0.0)
        limit = limit + xp.where(xp.isnan(log_delta), xp.nan, 0.0)
        return xp.where(reachable, xp.minimum(eps, limit), limit)

    def otherwise(self):
        """On a lattice, for few steps at a small rate, whose transforms decay too slowly."""
        if any(isinstance(term.transform, NormalTransform) for term in self.terms):
            return None
        return Gridded(_grouped([_as_step(term) for term in self.terms]), np.zeros((), bool))

    def tail_mu(self):
        """All steps with the record, which decides for alpha -> 0: mu^2 = sum n_i mu_i^2."""
        square = sum(xp.sum(term.count * term.transform.mu**2, -1) for term in self.terms)
        return xp.sqrt(square)

    def reversed(self):
        other = np.ones(1, bool)
        return Composed(tuple(Term(term.transform.reversed(other), term.count) for term in self.terms))

    def compose(self, n):
        return Composed(tuple(Term(term.transform, derived(product, term.count, _behind(n))) for term in self.terms))


def _from_other_direction(eps, found):
    """A bracket at eps of what is known at |eps|, for eps < 0 of the other direction: 1 - e^eps (1 - delta_r(-eps))."""
    lower, upper, rate = found
    flipped = eps < 0
    down = xp.where(flipped, eps, -1.0)
    low, high = padded(*(xp.logaddexp(log1mexp(down), down + end) for end in (lower, upper)))
    return xp.where(flipped, low, lower), xp.where(flipped, high, upper), rate


def _slope_by_steps(terms, start, log_alpha, log_rest, small, mean, variance):
    """The slope at alpha by Newton with an integral for every step."""

    def shortfall(eps):
        logs = invert(terms, eps, ALPHA)
        value = xp.where(small, log_alpha - logs.result, logs.rest - log_rest)
        return value, -logs.slope * xp.where(small, 1.0, xp.exp(logs.result - logs.rest))

    # Newton's errors square, so that what follows a step this small is right to rounding
    near = 1e-8 * (xp.abs(mean) + xp.sqrt(variance))
    width = 1e3 + 1e3 * xp.sqrt(variance)
    return newton_in_bracket(shortfall, mean - width, mean + width, iterations=16, start=start, tolerance=near)


def _epsilon_by_steps(terms, start, log_delta, reachable):
    """The eps at which delta is e^log_delta by Newton with an integral for every step."""

    def step(state):
        count, eps, _ = state
        logs = invert(terms, eps, DELTA)
        change = (log_delta - logs.result) / logs.slope
        new = xp.maximum(eps + xp.where(xp.isfinite(change), change, 0.0), 0.0)
        return count + 1, new, xp.abs(new - eps)

    def moves(state):
        """Newton's errors square: after a change this small there is no other."""
        count, eps, change = state
        return (count < 8) & xp.any(reachable & (change > 1e-9 * (1e-3 + eps)))

    return xp.while_loop(moves, step, (0, start, xp.full_like(start, xp.inf)))[1]


def _log_delta(terms, eps):
    """(log delta, log of one less it), differentiable; by NumPy from a lattice where the frequencies do not end in time."""
    if xp.any_jax(terms, eps):
        return log_result(terms, eps, DELTA)
    logs = invert(terms, eps, DELTA)
    lost = ~logs.followed & (eps < line.loss_bound(terms)) & (logs.result > _DEEP)
    found, rest = np.array(logs.result), np.array(logs.rest)
    for at in np.ndindex(lost.shape):
        own = Composed(xp.row(terms, at)).otherwise() if lost[at] else None
        if own is not None:
            own = own.aligned((), eps.dtype)
            lower, upper, _ = own.bracket(eps[at], eps[at], False)
            if upper - lower < _USEFUL:
                found[at] = own.log_delta(eps[at], False)
                rest[at] = log1mexp(found[at])
    return found, rest


def _steps_up(count, rate):
    return xp.where(rate < 1, xp.ceil(count), count)


def _steps_down(count, rate):
    return xp.where(rate < 1, xp.floor(count), count)


def _behind(parameter):
    """A parameter with an axis for members behind its own."""
    return jax.tree.map(lambda leaf: (leaf if isinstance(leaf, jax.Array) else np.asarray(leaf))[..., None], parameter)


def _audible(term):
    """Sub-sampled steps without any signal are not taken, for their transform divides by it."""
    if not isinstance(term.transform, Sampled):
        return term
    name = "nc" if isinstance(term.transform, SubsampledChiSquareTransform) else "mu"
    signal = getattr(term.transform, name)
    silent = signal == 0
    heard: Any = replace(cast(Any, term.transform), **{name: xp.where(silent, 1.0, signal)})
    return Term(heard, xp.where(silent, 0.0, term.count))


def compose(*curves, axis=None):
    """The curve of several mechanisms seen together, each with fresh noise, the same record present in all or in none.

    Gaussian noise, sub-sampled or not, is composed by its privacy-loss transform, at a cost that does not depend on the
    number of equal steps; as soon as another mechanism takes part, all are composed on a lattice of losses. Relaxed Gaussian
    releases (not sub-sampled, of one dim) go to the adversary of Kaissis et al. 2022, Theorem 2,
    who adds them up; all other relaxed
    steps to one who sees each step's magnitude.

    Args:
        curves: of any mechanisms and of compositions; all symmetric, or all of one direction.
        axis: -1 if the parameters of each curve carry its steps along their last axis.

    Returns: a `Curve`, symmetric if a member is.
    Guarantee: `delta_bounds` and `epsilon_bounds` are certified. Everything else is an estimate: correct to rounding where
        the transform decays (many steps) and less so for few steps at a tiny rate, where the bounds say by how much; on the
        lattice to about 1e-7 of itself.
    Raises: ValueError without curves, for symmetric curves among directed ones or of several mechanisms each, for steps of
        both adjacencies, and for relaxed Gaussian releases of different dim.
    Source: the privacy profile as an inverse Laplace transform, derived in `jaxpriv.accounting.inversion`; the lattice in
        `jaxpriv.accounting.lattice` and `jaxpriv.accounting.grid`.

        >>> import jaxpriv
        >>> steps = [jaxpriv.worst_case.gaussian(1 / noise).subsample(0.1).compose(50) for noise in (1.0, 2.0, 3.0)]
        >>> print(f"{jaxpriv.compose(*steps).delta(1.0):.4f}")
        0.1218
    """
    if not curves:
        raise ValueError("compose() needs at least one curve")
    experiments = [curve.experiment for curve in curves]
    if len(frozenset().union(*map(_adjacency, experiments))) > 1:
        raise ValueError("compose() got steps for one record added or removed and steps for one replaced")
    symmetric = [isinstance(e, Symmetric) for e in experiments]
    if any(symmetric):
        if any(len(e.members) > 1 for e in experiments if isinstance(e, Symmetric)):
            raise ValueError("compose() takes symmetric curves of one mechanism each")
        if any(not s and not isinstance(e, (NormalShift, LaplaceShift, Replaced)) for s, e in zip(symmetric, experiments)):
            raise ValueError("compose() got symmetric curves among curves of one direction; call symmetric() on all of them")
        inner = [Curve(e.members[0]) if s else Curve(e) for s, e in zip(symmetric, experiments)]
        return compose(*inner, axis=axis).symmetric()
    added = _added(experiments, axis)
    if len(added) == 1 and added[0][1] is None:
        return Curve(added[0][0])
    return _seen([piece for experiment in added for piece in _pieces(*experiment)])


def _adjacency(experiment):
    """Which adjacency the sub-sampled steps of an experiment are for: a set."""
    if isinstance(experiment, Replaced):
        return {"replace_one"}
    if isinstance(experiment, Subsampled):
        return {"add_remove"}
    if isinstance(experiment, Composed):
        return set().union(*({"add_remove"} for t in experiment.terms if isinstance(t.transform, Sampled)))
    inner: tuple = ()
    if isinstance(experiment, Reversed):
        inner = (experiment.base,)
    elif isinstance(experiment, Symmetric):
        inner = experiment.members
    elif isinstance(experiment, Gridded):
        inner = tuple(step.experiment for step in experiment.steps)
    return set().union(*map(_adjacency, inner))


def _seen(pieces):
    """The curve of `Term`s, or of `Step`s if there is any."""
    if any(isinstance(piece, Step) for piece in pieces):
        return Curve(Gridded(_grouped([_as_step(piece) for piece in pieces]), np.zeros((), bool)))
    terms = _grouped(pieces)
    if all(isinstance(term.transform, GaussianTransform) for term in terms):
        each = [derived(grown, term.transform.mu, term.count) for term in terms]
        members = [one for group in each for one in _apart(group)]
        return Curve(NormalShift(derived(root_sum_of_squares, *members)))
    return Curve(Composed(terms))


def _apart(parameter):
    """The members of a parameter, one by one."""
    leaves, structure = jax.tree.flatten(parameter)
    count = max(np.shape(leaf)[-1] for leaf in leaves)
    wide = [leaf if np.shape(leaf)[-1] == count else leaf + np.zeros(count, leaf.dtype) for leaf in leaves]
    return [jax.tree.unflatten(structure, [leaf[..., i] for leaf in wide]) for i in range(count)]


def steps(experiment, n):
    """The experiment of n equal steps; of one, what it is, for a single step's curve is in closed form."""
    if not isinstance(n, jax.Array) and np.all(np.asarray(n) == 1):
        return experiment
    return _seen(_pieces(experiment, None)).experiment.compose(n)


def directions(experiment):
    """The terms of every direction that an experiment stands for: its own, or both of each member of a symmetric one."""
    if isinstance(experiment, Symmetric):
        both = [one for member in experiment.members for one in (member, member.reversed())]
        return [terms for one in both for terms in directions(one)]
    pieces = _pieces(experiment, None)
    if any(isinstance(piece, Step) or isinstance(piece.transform, SubsampledChiSquareTransform) for piece in pieces):
        known = "Gaussian noise, sub-sampled or not, and its compositions"
        raise ValueError(f"privacy-loss transforms are known of {known}; got {type(experiment).__name__}")
    return [_grouped(pieces)]


def _added(experiments, axis):
    """[(experiment, axis of its steps)], relaxed Gaussian releases as one: their noncentralities add up."""
    relaxed = [e for e in experiments if isinstance(e, ChiSquareShift)]
    others = [(e, axis) for e in experiments if not isinstance(e, ChiSquareShift)]
    if not relaxed:
        return others
    dims = {np.asarray(e.df).tobytes() if not is_traced(e.df) else id(e.df) for e in relaxed}
    if len(dims) > 1 or (axis == -1 and any(np.ndim(e.df) for e in relaxed)):
        raise ValueError("compose() got relaxed Gaussian releases of different dim; the adversary who adds them up needs one dim")
    signals = [xp.sum(e.nc, -1) if axis == -1 else e.nc for e in relaxed]
    return [*others, (ChiSquareShift(relaxed[0].df, sum(signals[1:], signals[0])), None)]


def _pieces(experiment, axis):
    """The steps of an experiment, with members along the last axis: `Term`s where a transform is known, else `Step`s."""
    if isinstance(experiment, Composed):
        return list(experiment.terms)
    if isinstance(experiment, Gridded):
        return [Step(step.experiment.reversed(), step.count) if experiment.flipped else step for step in experiment.steps]
    forward = experiment.base if isinstance(experiment, Reversed) else experiment
    if isinstance(forward, NormalShift):
        mu, count = _members(axis, forward.mu)
        return [Term(GaussianTransform(mu), count)]
    if isinstance(forward, Subsampled) and isinstance(forward.base, NormalShift):
        mu, rate, count = _members(axis, forward.base.mu, forward.rate)
        if not isinstance(rate, (Derived, jax.Array)) and np.all(rate >= 1):
            return [Term(GaussianTransform(mu), count)]
        return [Term(SubsampledGaussianTransform(mu, rate, np.full(count.shape, isinstance(experiment, Reversed))), count)]
    if isinstance(forward, Subsampled) and isinstance(forward.base, ChiSquareShift):
        df, nc, rate, count = _members(axis, forward.base.df, forward.base.nc, forward.rate)
        reverse = np.full(count.shape, isinstance(experiment, Reversed))
        return [Term(SubsampledChiSquareTransform(df, nc, rate, reverse), count)]
    if axis == -1:
        return [Step(experiment, _once(experiment.batch_shape(), experiment))]
    experiment = _behind(experiment)
    return [Step(experiment, _once((1,), experiment))]


def normal_vectors(shift, narrower):
    """The curve of N(0, I) against N(shift, diag(1 - narrower)): `Float[Array, "... d"]`, narrower in [0, 1)."""
    shift, narrower = xp.broadcast_arrays(shift, narrower)
    transform = NormalTransform(shift, narrower, np.zeros(shift.shape, bool))
    return Curve(Composed((Term(transform, xp.ones(shift.shape[-1:])),)))


def _as_step(piece):
    """A `Term` as a `Step`: the pair behind its transform."""
    if isinstance(piece, Step):
        return piece
    if isinstance(piece.transform, GaussianTransform):
        return Step(NormalShift(piece.transform.mu), piece.count)
    if isinstance(piece.transform, NormalTransform):
        raise ValueError("compose() got normal vectors of different covariance, which compose with Gaussian noise alone")
    if isinstance(piece.transform, SubsampledChiSquareTransform):
        base: Pair = ChiSquareShift(piece.transform.df, piece.transform.nc)
    else:
        base = NormalShift(piece.transform.mu)
    pair = Subsampled(base, piece.transform.rate)
    directions = set(np.unique(np.asarray(piece.transform.reverse)))
    if len(directions) > 1:
        raise ValueError("compose() got curves of both directions")
    return Step(Reversed(pair) if directions.pop() else pair, piece.count)


def _members(axis, *parameters):
    """Parameters with the steps along the last axis, and how often each is taken: once."""
    parts = parameters if axis == -1 else [_behind(part) for part in parameters]
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(parts)]
    return *parts, _once(np.broadcast_shapes(*shapes)[-1:], parts)


def _once(shape, parameters):
    """Ones in NumPy, of the parameters' dtype: they widen no result."""
    return np.ones(shape, np.result_type(*(getattr(leaf, "dtype", np.float64) for leaf in jax.tree.leaves(parameters))))


def _grouped(pieces):
    """Pieces of one kind as one, along the members' axis; NumPy's numbers, with digits that JAX would round, on their own."""
    groups: dict = {}
    for piece in pieces:
        leaves, structure = jax.tree.flatten(piece)
        groups.setdefault((structure, tuple(isinstance(leaf, jax.Array) for leaf in leaves)), []).append(piece)
    return tuple(map(_joined, groups.values()))


def _joined(pieces):
    rows = [jax.tree.leaves(piece) for piece in pieces]
    batch = np.broadcast_shapes(*(np.shape(leaf)[:-1] for row in rows for leaf in row))
    widths = [np.broadcast_shapes(*(np.shape(leaf)[-1:] for leaf in row)) for row in rows]

    def join(column):
        return xp.concatenate([xp.broadcast_to(leaf, batch + width) for leaf, width in zip(column, widths)], -1)

    return jax.tree.unflatten(jax.tree.structure(pieces[0]), [join(column) for column in zip(*rows)])
