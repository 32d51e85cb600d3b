"""The attack on shuffled batches that looks at the largest of an epoch's sums.

All records but one contribute a vector of norm 1, the one its opposite, or nothing. Whatever batch
the one is in, the sums along that vector, less what full batches of the others would add up to, are
`steps` normal variables of mean 0 but for one, of mean `high` with the record and `low` without it
(in units of the noise). Their largest value has the distribution function

    F_s(c) = Phi(c)^(steps - 1) Phi(c - s),   s = high or low,

in closed form, and who sees it alone sees no more than the adversary: a pair below the mechanism
(Chua et al. 2024, arXiv:2403.17673, whose lower bound are its tests {largest > c}).

Its likelihood ratio grows, so that these tests are its best ones. With n = steps - 1, r = phi/Phi,
r' = -r (x + r): log of the density is log Phi(c-s) + log(n r(c) + r(u)) + ..., u = c - s, and the
mixed derivative in c and s of that, times (n r(c) + r(u))^2/r(u), is, with m = u + r(u) > 0,

    m n^2 r(c)^2 + r(u) + n r(c) (1 + m (s + r(c))) > 0.
"""

from dataclasses import field
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.stats._mills import normal
from jaxpriv.tradeoff.attacked import seen_below
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.laws import Law
from jaxpriv.tradeoff.many_outcomes import ManyOutcomes, Table
from jaxpriv.tradeoff.pair import Pair
from jaxpriv.tradeoff.solve import newton_in_bracket

_LARGEST = 16.0  # of mu: shorter gradients are an attack, too, and rounding is that of mu squared
_NEAR = 1e-9  # of its epsilon
_FARTHEST = 1e9  # thresholds
_BINS = 6000
_DEEP = -90.0  # log of the probabilities that have a bin of their own


@pytree
class Largest(Law):
    """The largest of n + 1 normal variables, of which one has mean s and all others 0."""

    s: Any
    n: Any

    def at(self, t):
        logcdf, log_hazard = self._below(t)
        logpdf, logsf = logcdf + log_hazard, log1mexp(xp.minimum(logcdf, -1e-300))
        return logpdf, logsf, logcdf, logsf - logpdf, -log_hazard

    def _below(self, t):
        """(log F, log of its derivative)."""
        _, own, _, mills = normal(t - self.s)
        _, each, _, mills_each = normal(t)
        some = self.n > 0
        log_n = xp.log(xp.where(some, self.n, 1.0))
        more = xp.logaddexp(log_n - mills_each, -mills)
        return xp.where(some, self.n * each, 0.0) + own, xp.where(some, more, -mills)

    def log_hazard_and_slope(self, t):
        """Of the largest value from below: log(n r(t) + r(t - s)) and its derivative."""
        parts = []
        for x, count in ((t, self.n), (t - self.s, 1.0)):
            r = xp.exp(-normal(x)[3])
            parts.append((count * r, -count * r * (x + r)))
        (first, first_slope), (second, second_slope) = parts
        total = first + second
        return self._below(t)[1], (first_slope + second_slope) / xp.where(total > 0, total, 1.0)

    def logpdf(self, t):
        return self.at(t)[0]

    def log_tails(self, t):
        return self.at(t)[1:3]

    def isf_exp(self, logp):
        return self._quantile(logp, 1)

    def ppf_exp(self, logp):
        return self._quantile(logp, 2)

    def _quantile(self, logp, tail):
        """One variable alone is smaller; all n + 1 moved by s are larger, and one tail of theirs is
        at most n + 1 of one.
        """
        goal = xp.maximum(logp, -1e17)
        low = -xp.sqrt(2.0 * (1 - goal)) - 40.0
        high = self.s + xp.sqrt(2.0 * (1 - goal) + 2 * xp.log1p(self.n)) + 40.0
        sign = 1.0 if tail == 2 else -1.0

        def excess(t):
            logpdf, *tails = self.at(t)[:3]
            value = tails[tail - 1]
            return sign * (value - goal), xp.exp(xp.minimum(logpdf - value, 600.0))

        return newton_in_bracket(excess, low, high, 80)


@pytree
class LargestSum(Pair):
    """mu: 1/noise multiplier; steps: of one epoch; absent: how many norms the batch without the
    record lacks, 1 if it is zeroed out, 0 if another record, of the others' kind, has its place.
    """

    mu: Any
    steps: Any
    absent: int = field(metadata={"static": True})

    def _signal(self):
        return xp.minimum(self.mu, _LARGEST)

    @property
    def null(self):
        return Largest(self.absent * self._signal(), self.steps - 1)

    @property
    def alternative(self):
        return Largest(2 * self._signal(), self.steps - 1)

    def loss_size(self):
        return 4 * self._signal() ** 2

    def tail_mu(self):
        """For alpha -> 0 nothing but the record makes the largest sum so large."""
        return (2 - self.absent) * self._signal()

    def log_ratio(self, t):
        """What all n others add to both cancels."""
        with_it, without = self.alternative, self.null
        own = normal(t - with_it.s)[1] - normal(t - without.s)[1]
        return own + (with_it._below(t)[1] - without._below(t)[1])

    def find_threshold(self, eps):
        """The ratio is at most that of one step, and at least half the record's own share of it
        where c >= 0: with a = high, b = low,

            c >= eps/(a - b) + (a + b)/2,
            c <= 0,  (eps + log 4n)/a + a/2  or  (eps + log 2)/(a - b) + (a + b)/2.
        """
        with_it, without = self.alternative, self.null
        a, b, n = with_it.s, without.s, without.n
        least = eps / (a - b) + (a + b) / 2
        several = (eps + xp.log(4 * xp.maximum(n, 1.0))) / a + a / 2
        most = xp.maximum(xp.maximum(several, least + np.log(2.0) / (a - b)), 0.0)

        def excess(t):
            logs, slopes = zip(*(law.log_hazard_and_slope(t) for law in (with_it, without)))
            shares = [xp.exp(-normal(t - law.s)[3]) for law in (with_it, without)]
            value = normal(t - a)[1] - normal(t - b)[1] + logs[0] - logs[1] - eps
            return value, shares[0] - shares[1] + slopes[0] - slopes[1]

        low, high = (xp.clip(end, -_FARTHEST, _FARTHEST) for end in (least, most))
        # where the other sums hide the record, and where they do not, it is about the larger
        start = xp.maximum(least, several - np.log(4.0) / a)
        return newton_in_bracket(excess, low, high, 60, start=start, tolerance=1e-10)

    def epsilon_bracket(self, lowest, log_delta, reverse):
        del lowest
        return seen_below(self, log_delta, reverse, _NEAR)

    def log_gap(self, eps, t, null, alternative, reverse, doubt=0.0):
        """A - e^eps B of the test as it is: a lower bound whatever the threshold."""
        del t
        log_a, log_b = (null[2], alternative[2]) if reverse else (alternative[1], null[1])
        ratio = eps + xp.where(log_b > -xp.inf, log_b, -1e300) - log_a
        return log_a + log1mexp(xp.minimum(ratio + doubt, 0.0))


def binned(pair):
    """`ManyOutcomes` of a `LargestSum`, which has one of many bins: that only loses (data
    processing). Of concrete numbers.
    """
    given = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), pair)
    exact = resolved(given, np.float64)
    mu, steps = np.broadcast_arrays(exact.mu, exact.steps)
    pairs = [_bins(*entry, pair.absent) for entry in zip(mu.ravel(), steps.ravel())]
    rows = np.arange(float(mu.size)).reshape(mu.shape)
    return ManyOutcomes(rows, mu * (2 - pair.absent), Table.of(pairs))


@lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _bins(mu, steps, absent):
    """(losses, `Point` of both laws' tails at the ends of bins)."""
    pair = LargestSum(np.float64(mu), np.float64(steps), absent)
    deep = np.asarray(_DEEP)
    low, high = pair.null.ppf_exp(deep), pair.alternative.isf_exp(deep)
    ends = np.linspace(low, high, _BINS + 1)
    none, sure = np.array([-np.inf]), np.zeros(1)
    tails: list = []
    for law in (pair.null, pair.alternative):
        up, down = law.log_tails(ends)
        tails.append((np.concatenate([sure, up, none]), np.concatenate([none, down, sure])))
    null, alternative = tails
    loss = _masses(*alternative) - _masses(*null)
    # in order, which rounding may not leave them in
    return np.maximum.accumulate(loss), Point(*null, *alternative[::-1])


def _masses(up, down):
    """log of what lies between, from the smaller of both tails."""
    from_up = up[:-1] < down[1:]
    large = np.where(from_up, up[:-1], down[1:])
    return large + log1mexp(np.where(from_up, up[1:], down[:-1]) - large)
