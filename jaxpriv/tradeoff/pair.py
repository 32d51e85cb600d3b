"""A dominating pair (P, Q): the test statistic's laws when the record is absent and present,
with q/p increasing.

The best tests reject for large t. At the threshold with log q/p(t) = eps,

    forward   delta(eps) = Q(T > t) - e^eps P(T > t) = q(t) (m_Q(t) - m_P(t)),
              m = sf/pdf  (Mills' ratio)
    reverse   delta(eps) = P(T <= t) - e^eps Q(T <= t) = p(t) (n_P(t) - n_Q(t)),
              n = cdf/pdf,  log q/p(t) = -eps

and the ratios differ by a good part of themselves even where both probabilities are 1e-300.
"""

from abc import abstractmethod
from functools import partial

import jax

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import ROUNDING, Experiment, Point, never_told, padded
from jaxpriv.tradeoff.solve import newton_in_bracket


class Pair(Experiment):
    """A dominating pair; a subclass gives `null`, `alternative`, `find_threshold`,
    and what it can do better than below.

    `split()` returns (is the pair more than one law twice?,
    the pair with harmless parameters where it is not).
    """

    @property
    @abstractmethod
    def null(self):
        """The law of the statistic without the record."""

    @property
    @abstractmethod
    def alternative(self):
        """The law of the statistic with the record."""

    def find_threshold(self, eps):
        """The value of `threshold`; its derivative is known without it."""
        raise TypeError(f"{type(self).__name__} must define find_threshold or threshold")

    def split(self):
        return xp.ones((), bool), self

    def reversed(self):
        from jaxpriv.tradeoff.subsampled import Reversed

        return Reversed(self)

    def subsampled(self, rate):
        from jaxpriv.tradeoff.subsampled import Subsampled

        return Subsampled(self, rate)

    def log_told(self, reverse):
        """Nothing that one law allows is impossible by the other."""
        return never_told(self, reverse)

    def log_ratio(self, t):
        """log q/p(t), increasing."""
        return self.alternative.logpdf(t) - self.null.logpdf(t)

    def threshold(self, eps):
        """The t with log q/p(t) = eps, at the end of the support where there is none."""
        return _threshold(self, eps)

    def log_delta(self, eps, reverse):
        proper, safe = self.split()
        regular = proper & (eps > -self.loss_bound(not reverse))
        return xp.where(regular, _log_delta(safe, eps, reverse), self.same_law(eps))

    @staticmethod
    def same_law(eps):
        """log max(0, 1 - e^eps): the profile of P = Q, and a lower bound of every profile."""
        negative = eps < 0
        return xp.where(negative, log1mexp(xp.where(negative, eps, -1.0)),
                        xp.where(xp.isnan(eps), xp.nan, -xp.inf))

    def log_delta_at(self, eps, t, reverse):
        """log delta(eps), given t = threshold(eps)."""
        null, alternative = self.both_at(t)
        return self.log_gap(eps, t, null, alternative, reverse)

    def both_at(self, t) -> tuple:
        return self.null.at(t), self.alternative.at(t)

    def log_gap(self, eps, t, null, alternative, reverse, doubt=0.0):
        """log delta = log A + log(1 - e^(eps + doubt) B/A) at the threshold t of eps,
        from what both laws are `at` it.

        e^eps B/A is a ratio of Mills' ratios, which keeps its digits in the tail; where A is most
        of 1, t may be so far out on the other side that the densities lose theirs, and A, B and eps
        are compared themselves.
        """
        del t
        (_, up_p, down_p, mills_up_p, mills_down_p), (_, up_q, down_q, mills_up_q, mills_down_q) = (
            null,
            alternative,
        )
        log_a, log_b = (down_p, down_q) if reverse else (up_q, up_p)
        in_tail = mills_down_q - mills_down_p if reverse else mills_up_p - mills_up_q
        ratio = xp.where(log_a > -0.5, eps + log_b - log_a, in_tail)
        return log_a + log1mexp(xp.minimum(ratio + doubt, 0.0))

    def bracket(self, low, high, reverse):
        """Two kinds of rounding: that of losses is a shift of eps, that of tails one of e^eps B/A.

        The threshold's own error is one of the losses, where B is formed from the likelihood ratio
        there in place of e^eps; elsewhere it is of second order, for the threshold is the best one.
        """
        ulp = xp.finfo(low.dtype).eps
        size = xp.where(self.split()[0], self.loss_size(), 0.0)
        blur = [16 * ulp * (xp.abs(eps) + size) for eps in (high, low)]
        ends = xp.stack([high + blur[0], low - blur[1]])
        proper, safe = self.aligned(ends.shape, ends.dtype).split()
        t = safe.threshold(-ends if reverse else ends)
        laws = safe.both_at(t)
        log_a = laws[0][2] if reverse else laws[1][1]
        size = ROUNDING * ulp * (1 + xp.where(xp.isfinite(log_a), xp.abs(log_a), 0.0))
        doubt = size * xp.asarray([1.0, -1.0], ends.dtype).reshape((2,) + (1,) * low.ndim)
        gap = safe.log_gap(ends, t, *laws, reverse, doubt)
        found = xp.where(proper & (ends > -safe.loss_bound(not reverse)), gap, self.same_law(ends))
        # no profile lies below that of one law twice
        found = xp.maximum(found, self.same_law(ends))
        lower, upper = padded(found[0], found[1])
        point = self.with_signal(proper, self.point(laws[0], laws[1], reverse), ends)
        some = found > -xp.inf
        rate = xp.exp(ends + point.log_alpha - xp.where(some, found, 0.0))
        upper = xp.where(low >= self.largest_loss(reverse), -xp.inf, upper)
        return lower, upper, xp.where(some, rate, xp.inf)[0]

    def loss_size(self):
        """The size of the terms of which a loss is a sum, for its rounding,
        where eps does not tell.
        """
        return 0.0

    def largest_loss(self, reverse):
        """`loss_bound`, rounded up."""
        bound = self.loss_bound(reverse)
        return bound * (1 + 8 * xp.finfo(bound.dtype).eps)

    def touch(self, eps, reverse):
        proper, safe = self.split()
        null, alternative = safe.both_at(safe.threshold(-eps if reverse else eps))
        return self.with_signal(proper, self.point(null, alternative, reverse), eps)

    @staticmethod
    def with_signal(proper, point, eps):
        """The point where the pair is proper; of the curve 1 - alpha of a law twice,
        a line touches an end.
        """
        return jax.tree.map(
            lambda inner, end: xp.where(proper, inner, end), point, Point.end(eps < 0)
        )

    @staticmethod
    def point(null, alternative, reverse):
        """The errors of rejecting beyond a threshold from what both laws are `at` it."""
        (_, up_p, down_p, *_), (_, up_q, down_q, *_) = null, alternative
        forward = Point(up_p, down_p, down_q, up_q)
        return forward.exchanged() if reverse else forward

    def critical_value(self, alpha, reverse):
        log_alpha = safe_log(alpha)
        return self.alternative.ppf_exp(log_alpha) if reverse else self.null.isf_exp(log_alpha)

    def errors(self, alpha, reverse):
        t = self.critical_value(alpha, reverse)
        up, down = (self.null if reverse else self.alternative).log_tails(t)
        return (up, down) if reverse else (down, up)

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta inside [0, bound], the bound from delta <= Q(T > t) or P(T <= t)."""
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        t = self.null.ppf_exp(target) if reverse else self.alternative.isf_exp(target)
        ratio = self.log_ratio(t)
        high = xp.maximum(-ratio if reverse else ratio, 0.0)

        def excess(eps):
            value = self.log_delta(eps, reverse)
            return target - value, xp.exp(eps + self.touch(eps, reverse).log_alpha - value)

        eps = newton_in_bracket(excess, xp.zeros_like(high), high)
        eps = xp.where(self.log_delta(xp.zeros_like(eps), reverse) > target, eps, 0.0)
        return xp.where(
            reachable,
            eps,
            xp.where(log_delta >= 0, 0.0, self.loss_bound(reverse)) * nan_like(log_delta),
        )

    def slope(self, alpha, reverse):
        ratio = self.log_ratio(self.critical_value(alpha, reverse))
        return -ratio if reverse else ratio


def safe_log(p):
    """log p with log 0 = -inf and, there, a zero gradient."""
    positive = p > 0
    return xp.where(positive, xp.log(xp.where(positive, p, 1.0)), xp.where(p == 0, -xp.inf, xp.nan))


def nan_like(value):
    """1, or NaN where value is NaN."""
    return xp.where(xp.isnan(value), xp.nan, 1.0)


@xp.custom_jvp
def _threshold(pair, eps):
    return pair.find_threshold(eps)


@_threshold.defjvp
def _threshold_jvp(primals, tangents):
    pair, eps = primals
    t = _threshold(pair, eps)
    _, explicit = jax.jvp(lambda p: p.log_ratio(t), (pair,), (tangents[0],))
    _, slope = jax.jvp(pair.log_ratio, (t,), (xp.ones_like(t),))
    moving = (slope > 0) & xp.isfinite(slope)
    return t, xp.where(moving, (tangents[1] - explicit) / xp.where(moving, slope, 1.0), 0.0)


@partial(xp.custom_jvp, nondiff_argnums=(2,))
def _log_delta(pair, eps, reverse):
    return pair.log_delta_at(eps, pair.threshold(-eps if reverse else eps), reverse)


@_log_delta.defjvp
def _log_delta_jvp(reverse, primals, tangents):
    """delta = A - e^eps B at fixed t: d log delta = (1+w) d log A - w (d log B + d eps),
    w = e^eps B/delta.
    """
    pair, eps = primals
    value = _log_delta(pair, eps, reverse)
    t = pair.threshold(-eps if reverse else eps)

    def logs(pair):
        (up_p, down_p), (up_q, down_q) = pair.null.log_tails(t), pair.alternative.log_tails(t)
        return (down_p, down_q) if reverse else (up_q, up_p)

    (_, log_b), (dlog_a, dlog_b) = jax.jvp(logs, (pair,), (tangents[0],))
    log_w = eps + log_b - value
    alive = (value > -xp.inf) & (log_w < xp.inf)
    w = xp.exp(xp.where(alive, log_w, -xp.inf))
    change = (1 + w) * dlog_a - w * (xp.where(log_b > -xp.inf, dlog_b, 0.0) + tangents[1])
    return value, xp.where(alive, change, xp.where(xp.isnan(value), xp.nan, 0.0))
