"""What is known by a theorem on one side and by attacks on the other: bounds that do not meet."""

from typing import Any

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff import evaluate
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.solve import newton_in_bracket


@pytree
class Attacked(Experiment):
    """A mechanism no worse than `upper`, and no better than any of the experiments `attacks`, each
    of what one adversary sees of one pair of neighbours.

    Estimates are those of `upper`, the safe side. Brackets have their upper end from there, and
    their lower one from the attack that tells most.
    """

    upper: Any
    attacks: tuple

    def mapped(self, function):
        """The same of all, by a function that makes no experiment worse of one that is better."""
        return Attacked(function(self.upper), tuple(map(function, self.attacks)))

    def _of_all(self, method, *args):
        return self.mapped(lambda one: getattr(one, method)(*args))

    def batch_shape(self):
        return xp.broadcast_shapes(
            self.upper.batch_shape(), *(attack.batch_shape() for attack in self.attacks)
        )

    def aligned(self, shape, dtype):
        return self._of_all("aligned", shape, dtype)

    def reversed(self):
        return self._or_self("reversed")

    def whole(self, up):
        return self._or_self("whole", up)

    def _or_self(self, method, *args):
        """Itself where none of all changes."""
        found = self._of_all(method, *args)
        pairs = zip((found.upper, *found.attacks), (self.upper, *self.attacks))
        return self if all(new is old for new, old in pairs) else found

    def as_narrow_as(self, width=None, deep=None):
        return self._of_all("as_narrow_as", width, deep)

    def defined(self):
        return self.upper.defined()

    def full(self):
        return self.upper.full()

    def straight(self):
        return self.upper.straight()

    def errors(self, alpha, reverse):
        return self.upper.errors(alpha, reverse)

    def slope(self, alpha, reverse):
        return self.upper.slope(alpha, reverse)

    def likely_slope(self, alpha):
        return self.upper.likely_slope(alpha)

    def touch(self, eps, reverse):
        return self.upper.touch(eps, reverse)

    def log_delta(self, eps, reverse):
        return self.upper.log_delta(eps, reverse)

    def epsilon(self, log_delta, reverse):
        return self.upper.epsilon(log_delta, reverse)

    def log_told(self, reverse):
        lowers = [attack.log_told(reverse)[0] for attack in self.attacks]
        return _largest(lowers), self.upper.log_told(reverse)[1]

    def loss_bound(self, reverse):
        return self.upper.loss_bound(reverse)

    def kinks(self, reverse):
        return self.upper.kinks(reverse)

    def auc(self):
        return self.upper.auc()

    def gaussian_mu(self):
        """No `tail_mu`: it is not known whether any smaller one would do."""
        return self.upper.gaussian_mu()

    def least_gaussian_mu(self):
        known = [attack.gaussian_mu() for attack in self.attacks if attack.tail_mu() is not None]
        return _largest(known) if known else None

    def subsampled(self, rate):
        raise ValueError("subsample() of shuffled batches: a loader shuffles, or it samples")

    def bracket(self, low, high, reverse):
        _, upper, rate = self.upper.bracket(low, high, reverse)
        lowers = [attack.bracket(low, high, reverse)[0] for attack in self.attacks]
        return xp.minimum(_largest(lowers), upper), upper, rate

    def epsilon_bracket(self, lowest, log_delta, reverse):
        _, high = self.upper.epsilon_bracket(lowest, log_delta, reverse)
        lows = [a.epsilon_bracket(lowest, log_delta, reverse)[0] for a in self.attacks]
        return xp.minimum(_largest(lows), high), high

    def beta_bracket(self, alpha):
        low, _ = evaluate.bounds_of_beta.__wrapped__(self.upper, alpha)
        highs = [-evaluate.bounds_of_beta.__wrapped__(a, alpha)[1] for a in self.attacks]
        return low, xp.maximum(-_largest(highs), low)


def seen_below(attack, log_delta, reverse, near):
    """(an eps at which the attack's delta is larger for sure, inf): found by the lower ends of its
    profile, to so much of 1 + eps, and seen to hold; 0 where it is not.
    """
    most = NormalShift(attack.tail_mu()).solve_epsilon(log_delta, False)
    zero = xp.zeros_like(log_delta)
    some = attack.bracket(zero, zero, reverse)[0] >= log_delta
    some = some & xp.isfinite(most) & (log_delta < 0)
    high = xp.where(some, most, 0.0)

    def excess(eps):
        lower, _, rate = attack.bracket(eps, eps, reverse)
        return xp.where(lower > -xp.inf, log_delta - lower, 1e290), rate

    eps = newton_in_bracket(excess, zero, high, 40, tolerance=near)

    def lower_it(_, state):
        less, found = state
        tried = xp.maximum(eps - less * (1 + eps), 0.0)
        holds = attack.bracket(tried, tried, reverse)[0] >= log_delta
        return 16 * less, xp.where(some & (found < 0) & holds, tried, found)

    start = near, xp.where(some, -1.0, 0.0 * high)
    _, found = xp.fori_loop(0, 4, lower_it, start, lambda state: np.all(state[1] >= 0))
    return xp.maximum(found, 0.0), xp.full_like(high, xp.inf)


def _largest(values):
    result = values[0]
    for value in values[1:]:
        result = xp.maximum(result, value)
    return result
