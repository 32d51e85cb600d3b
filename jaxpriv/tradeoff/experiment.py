"""What an adversary can do, as a testing problem in two directions:
the interface behind every trade-off curve.

An experiment knows the trade-off function f of its forward test (null: record absent) and, with
`reverse`, that of the test with the hypotheses exchanged, f^-1. Everything is elementwise on arrays
broadcast to one dtype, in log space:

    errors(alpha)     (log beta, log power) of the best test at level alpha
    slope(alpha)      eps with -e^eps a slope of f at alpha
    touch(eps)        the `Point` where a line of slope -e^eps supports f
    log_delta(eps)    log of delta(eps) = power - e^eps alpha at that point, the conjugate,
                      formed without cancellation
    epsilon(logd)     the eps >= 0 with log_delta(eps) = logd, 0 if delta(0) is smaller
    bracket(low, high)  bounds of log_delta that no rounding invalidates

delta is convex in e^eps with d delta/d eps = -e^eps alpha(eps), and a parameter moves delta by its
explicit derivative at the fixed point alone (envelope theorem): these two facts give
every derivative here.
"""

from abc import ABC, abstractmethod
from functools import partial
from typing import NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv.tradeoff.stepping import epsilon_bracket


class Point(NamedTuple):
    """A point (alpha, beta) of a trade-off function with both complements,
    so that neither end loses digits.
    """

    log_alpha: jax.Array
    log_specificity: jax.Array
    log_beta: jax.Array
    log_power: jax.Array

    @staticmethod
    def end(always):
        """The test that rejects always, or never: an end of every trade-off function."""
        sure, none = xp.where(always, 0.0, -xp.inf), xp.where(always, -xp.inf, 0.0)
        return Point(sure, none, none, sure)

    def exchanged(self):
        """The same test with the hypotheses exchanged."""
        return Point(self.log_beta, self.log_power, self.log_alpha, self.log_specificity)


class Experiment(ABC):
    """Base of dominating pairs and of what is built from them.
    finite: has it finitely many outcomes? isolated: has every outcome positive probability, so
    that none lies between tests whose tails are equal?
    """

    finite = False

    @property
    def isolated(self) -> bool:
        return self.finite

    @abstractmethod
    def errors(self, alpha, reverse):
        """See the module."""

    @abstractmethod
    def slope(self, alpha, reverse):
        """See the module."""

    @abstractmethod
    def touch(self, eps, reverse):
        """See the module."""

    @abstractmethod
    def log_delta(self, eps, reverse):
        """See the module."""

    @abstractmethod
    def reversed(self):
        """The experiment with the hypotheses exchanged."""

    @abstractmethod
    def subsampled(self, rate):
        """The experiment when the record takes part with probability `rate`."""

    def straight(self):
        """May the curve be straight where some loss has positive probability?"""
        return self.finite

    def cornered(self):
        """May the curve have many corners?"""
        return self.straight()

    def full(self):
        """Is the adversary the full one, whose tests a neighbour of a neighbour cannot escape?"""
        return True

    def grouped(self, size):
        """That of `size` records instead of one, where it is in closed form; else None."""
        del size

    def solve_epsilon(self, log_delta, reverse):
        """`epsilon` before it is cut off at 0; its derivative is known without it."""
        raise TypeError(f"{type(self).__name__} must define solve_epsilon or epsilon")

    def batch_shape(self):
        return xp.broadcast_shapes(*(xp.shape(leaf) for leaf in jax.tree.leaves(self)))

    def own_axes(self):
        """For every leaf how many of its last axes are not the batch's but the leaf's own."""

        def apart(part):
            return isinstance(part, Experiment) and part is not self

        return jax.tree.map(
            lambda part: part.own_axes() if apart(part) else 0, self, is_leaf=apart
        )

    def aligned(self, shape, dtype):
        """The same experiment with every parameter broadcast to one shape and dtype."""
        return jax.tree.map(
            lambda leaf: xp.broadcast_to(xp.asarray(leaf, dtype), shape), resolved(self, dtype)
        )

    def whole(self, up):
        """The experiment with fractional numbers of steps rounded, up or down,
        where no such number is a mechanism.

        Itself where none is known to be fractional.
        """
        del up
        return self

    def epsilon(self, log_delta, reverse):
        return _epsilon(self, log_delta, reverse)

    def contact(self, eps, reverse):
        """(log delta, touch): the first for its value only, the second differentiable."""
        return xp.stop_gradient(self.log_delta(eps, reverse)), self.touch(eps, reverse)

    def _both_ways(self, of):
        """of(reverse) for both directions; once where exchanging the hypotheses changes nothing."""
        forward = of(False)
        return forward, forward if self.reversed() is self else of(True)

    def contacts(self, eps):
        """The contacts of both directions at one eps."""
        return self._both_ways(lambda reverse: self.contact(eps, reverse))

    def log_deltas(self, eps):
        """log_delta of both directions at one eps."""
        return self._both_ways(lambda reverse: self.log_delta(eps, reverse))

    def epsilons(self, log_delta):
        """epsilon of both directions at one log delta."""
        return self._both_ways(lambda reverse: self.epsilon(log_delta, reverse))

    def participation(self):
        """The probability with which the record takes part: otherwise nothing is told of it."""
        return xp.ones(self.batch_shape())

    def loss_bound(self, reverse):
        """The largest privacy loss of a direction: delta is zero beyond."""
        del reverse
        return xp.full(self.batch_shape(), xp.inf, xp.result_type(*jax.tree.leaves(self)))

    def log_told(self, reverse):
        """Certified (lower, upper) of the logarithm of the probability of an infinite loss of a
        direction, what no eps takes away: without any where all losses are bounded.
        """
        bound = self.loss_bound(reverse)
        nothing = xp.full_like(bound, -xp.inf)
        return nothing, xp.where(xp.isfinite(bound), nothing, 0.0)

    def finite_bound(self, reverse):
        """The largest loss but for what tells everything; inf where no largest one is known."""
        return self.loss_bound(reverse)

    def last_loss(self):
        """(the largest finite loss, the probability of an infinite one),
        both exact and in both directions, or None.
        """
        return None

    def atoms(self, reverse):
        """(lowest, highest) privacy loss of a direction that has positive probability,
        NaN where none has.
        """
        del reverse
        none = xp.full(self.batch_shape(), xp.nan, xp.result_type(*jax.tree.leaves(self)))
        return none, none

    def listed(self, reverse):
        """(the `Discrete` of all outcomes of a direction, by how much their losses may be off), by
        NumPy, of scalar parameters; None where they are not few. Those that neither hypothesis
        makes more likely than 1e-300 may be missing.
        """
        del reverse
        return None

    def slopes(self, alpha):
        """The slopes of both directions at one alpha."""
        return self._both_ways(lambda reverse: self.slope(alpha, reverse))

    def likely_slope(self, alpha):
        """By NumPy, where it takes less than `slope`: what that likely is, or None."""
        del alpha

    def errors_and_slope(self, alpha, reverse):
        """Both at one alpha."""
        return self.errors(alpha, reverse), self.slope(alpha, reverse)

    def kinks(self, reverse):
        """Levels alpha at which the trade-off function is not smooth."""
        del reverse
        return ()

    def defined(self):
        """False where a parameter is NaN, in the shape of the batch."""
        result = xp.ones(self.batch_shape(), bool)
        for leaf in jax.tree.leaves(self):
            result = result & xp.logical_not(xp.isnan(leaf))
        return result

    def tail_mu(self):
        """The smallest mu with G_mu below both directions if alpha -> 0 decides it, as with
        Gaussian noise; else None.

        It then survives sub-sampling and mixing, which change powers by factors:
        a normal quantile forgets them.
        """
        return None

    def least_tail_mu(self):
        """A lower bound of `tail_mu`, next to it unless parts were composed of which one tells
        most in one direction and another one in the other.
        """
        return self.tail_mu()

    def gaussian_mu(self):
        """The smallest mu with G_mu below both directions, where theory gives it;
        None where it must be searched.
        """
        return self.tail_mu()

    def least_gaussian_mu(self):
        """A lower bound of it, next to it, where theory gives one; else None."""
        return None

    def beta_bracket(self, alpha):
        """Certified (lower, upper) of the forward test's type II error at 0 <= alpha <= 1, or None
        where none is known but by the profile.
        """
        del alpha
        return None

    def auc(self):
        """The area under the ROC curve in closed form, or None."""
        return None

    def compose(self, n):
        """n of these seen together, where that is known in closed form; else None."""
        del n

    def as_narrow_as(self, width=None, deep=None):
        """The same, whose brackets shall be so narrow in eps and whose estimates of probabilities
        below e^deep may be rough, where that is a matter of effort. `ANY` width: what takes least.
        """
        del width, deep
        return self

    @abstractmethod
    def bracket(self, low, high, reverse):
        """Certified (lower, upper) of log delta for every finite eps in [low, high], and a hint:
        `steepness` at high.

        The interval is that of one number, known to rounding:
        lower bounds delta(high), upper delta(low).
        """

    def brackets_near(self, center, ends, reverse):
        """The brackets at eps (k, ...), all near `center` (...)."""
        del center
        spread = jax.tree.map(lambda leaf: leaf[None], self).aligned(ends.shape, ends.dtype)
        return spread.bracket(ends, ends, reverse)

    def both_brackets_near(self, center, ends):
        """Those of both directions."""
        return self._both_ways(lambda reverse: self.brackets_near(center, ends, reverse))

    def epsilon_bracket(self, lowest, log_delta, reverse):
        """Certified (lower, upper) of eps for log delta between `lowest` and `log_delta`."""
        return epsilon_bracket(self, reverse, lowest, log_delta)

    def epsilon_brackets(self, lowest, log_delta):
        """Those of both directions."""
        return self._both_ways(lambda reverse: self.epsilon_bracket(lowest, log_delta, reverse))

    def steepness(self, eps, reverse):
        """-d log delta/d eps = e^eps alpha/delta, infinite where delta is 0."""
        log_delta, point = self.contact(eps, reverse)
        some = log_delta > -xp.inf
        return xp.where(
            some, xp.exp(eps + point.log_alpha - xp.where(some, log_delta, 0.0)), xp.inf
        )

    def means(self):
        """The same experiment by one or several means, by NumPy, one after the other: the brackets
        of the next may be narrow where those before are wide.
        """
        yield self

    def brackets(self, low, high):
        """The brackets of both directions."""
        return self._both_ways(lambda reverse: self.bracket(low, high, reverse))


def roughly(experiment):
    """The same, whose brackets are whatever takes least, by NumPy; None where these are."""
    rough = experiment.as_narrow_as(width=ANY)
    kinds = {jax.tree.structure(one) for one in (rough, experiment)}
    return rough if len(kinds) > 1 else None


def never_told(experiment, reverse):
    """`log_told` where no loss is infinite."""
    del reverse
    kind = xp.result_type(*jax.tree.leaves(experiment))
    nothing = xp.full(experiment.batch_shape(), -xp.inf, kind)
    return nothing, nothing


# log delta below which no lattice sees anything
ANY = 1e3  # a width of brackets of epsilon: whatever takes least
DEEPEST = -690.0

# ulp of 1 + |log p|: what a logarithm of a tail, or of a sum of positive terms, may be off by
ROUNDING = 256


def padded(lower, upper):
    """Bounds of a logarithm, moved outward by the rounding of what they were computed from."""

    def margin(value):
        size = 1 + xp.where(xp.isfinite(value), xp.abs(value), 0.0)
        return ROUNDING * xp.finfo(value.dtype).eps * size

    return lower - margin(lower), xp.minimum(upper + margin(upper), 0.0)


@partial(xp.custom_jvp, nondiff_argnums=(2,))
def _epsilon(experiment, log_delta, reverse):
    return xp.maximum(experiment.solve_epsilon(log_delta, reverse), 0.0)


@_epsilon.defjvp
def _epsilon_jvp(reverse, primals, tangents):
    experiment, log_delta = primals
    eps = _epsilon(experiment, log_delta, reverse)
    _, change = jax.linearize(lambda e, x: e.log_delta(x, reverse), experiment, eps)
    still = jax.tree.map(
        lambda t: t if t.dtype == jax.dtypes.float0 else xp.zeros_like(t), tangents[0]
    )
    explicit, rate = change(tangents[0], xp.zeros_like(eps)), -change(still, xp.ones_like(eps))
    moving = (eps > 0) & xp.isfinite(rate) & (rate > 0)
    rate = xp.where(moving, rate, 1.0)
    return eps, xp.where(
        moving, (explicit - tangents[1]) / rate, xp.where(xp.isnan(eps), xp.nan, 0.0)
    )
