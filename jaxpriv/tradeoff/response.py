"""Reports that speak for a value, against it, or for neither: one of them, or n that are given
together.

One report tells a loss of -l, 0 or l, the mass of l under the null being e^-l times that of -l. So
n of them tell (k - m) l where k speak against the null and m for it: with probability s to speak
at all and p = 1/(1 + e^l) to speak against it then,

    P(loss = j l) = sum_t P(Bin(n, s) = t) P(Bin(t, p) = (t + j)/2),

and e^(j l) times that under the alternative: no lattice, and every mass known to rounding. What
tells everything does so with 1 - (1 - told)^n (Kairouz, Oh, Viswanath 2015, Theorem 3.3).
"""

from abc import abstractmethod
from dataclasses import field, replace
from typing import Any

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.stats._binomial import at_mean, deviance
from jaxpriv.tradeoff.discrete import Mirrored
from jaxpriv.tradeoff.outcomes import Outcomes
from jaxpriv.tradeoff.pair import safe_log

_MOST, _MOST_SILENT = 1000, 100  # reports at once; of those that may speak for neither


class Response(Outcomes):
    """`count` reports of one loss."""

    loss: Any
    count: int
    silent = True  # may a report speak for neither?

    @abstractmethod
    def log_masses(self, loss):
        """Logarithms of the probabilities that a report speaks for its value and for neither, if it
        does not tell everything.
        """

    def log_kept(self, dtype):
        """log of the probability that one report does not tell everything; None where none does."""
        del dtype

    def exact(self, loss):
        """The probability of an infinite loss where it and the largest loss are exact, else NaN."""
        return xp.full_like(loss, xp.nan)

    def spelled(self, shape, dtype):
        loss = xp.broadcast_to(xp.asarray(resolved(self.loss, dtype), dtype), shape)
        told = self.exact(loss) if self.count == 1 else xp.full_like(loss, xp.nan)
        times, null = self._law(loss[..., None])
        loss = loss[..., None] * xp.asarray(times, dtype)
        kept = self.log_kept(dtype)
        if kept is not None:
            # where everything is told the other mass is zero
            kept = self.count * xp.broadcast_to(kept, shape)[..., None]
            always, never = safe_log(-xp.expm1(kept)), xp.full_like(kept, -xp.inf)
            null = xp.concatenate([always, kept + null, never], -1)
            loss = xp.concatenate([never, loss, -never], -1)
        return Mirrored(null, xp.flip(null, -1), loss, told)

    def _law(self, loss):
        """(the multiples j of the loss, log of the null's masses along the last axis)."""
        own, neither = self.log_masses(loss)
        n, against = self.count, own - loss
        if not self.silent:
            number = np.arange(n + 1.0)
            return 2 * number - n, log_binomial(n + 0 * number, number, against, own)
        times = np.arange(-n, n + 1.0)
        if n == 1:
            return times, xp.concatenate([own, neither, against], -1)
        # along the last axis but one: the number of reports that speak
        speak, times_of = np.arange(n + 1.0)[:, None], times[None]
        even = (speak >= np.abs(times_of)) & ((speak + times_of) % 2 == 0)
        number = np.where(even, (speak + times_of) / 2, 0.0)
        own, neither, loss = (part[..., None] for part in (own, neither, loss))
        heard = -xp.log1p(xp.exp(-loss))
        log_speak = log_binomial(n + 0 * speak, speak, own - heard, neither)
        parts = log_speak + log_binomial(speak + 0 * number, number, heard - loss, heard)
        return times, xp.logsumexp(xp.where(even, parts, -xp.inf), -2)

    def compose(self, n):
        """More reports, as long as they are few; else by a lattice."""
        if isinstance(n, jax.Array) or np.ndim(n) or n % 1 or n < 1:
            return None
        count = self.count * int(n)
        return self._of(count) if count <= (_MOST_SILENT if self.silent else _MOST) else None

    def once(self):
        """One of these reports."""
        return self._of(1)

    def _of(self, count):
        own: Any = self
        return replace(own, count=count)

    def reversed(self):
        return self


@pytree
class BlackBox(Response):
    """With probability `told` everything is told, else randomised response: the worst
    (loss, told)-DP mechanism.
    """

    loss: Any
    told: Any
    count: int = field(default=1, metadata={"static": True})
    silent = False

    def log_masses(self, loss):
        return -xp.log1p(xp.exp(-loss)), None

    def log_kept(self, dtype):
        return xp.log1p(-xp.asarray(resolved(self.told, dtype), dtype))

    def exact(self, loss):
        told = xp.asarray(resolved(self.told, loss.dtype), loss.dtype)
        return xp.broadcast_to(told, loss.shape)


def log_binomial(n, number, log_p, log_q):
    """log P(Bin(n, p) = number) to rounding, q = 1 - p: Stirling's formula, whose large terms are
    taken together (Loader 2000). n, number: NumPy's whole numbers.
    """
    rest = n - number
    inner = (number > 0) & (rest > 0)
    a, b = np.where(inner, number, 1.0), np.where(inner, rest, 1.0)
    dtype = log_p.dtype
    at_its_mean = xp.asarray(at_mean(a, b) - np.log(a * (b / (a + b))), dtype)
    a, b = xp.asarray(a, dtype), xp.asarray(b, dtype)
    found = at_its_mean - _deviance(a, a + b, log_p) - _deviance(b, a + b, log_q)
    some, others = number > 0, rest > 0
    end = xp.where(some, xp.asarray(number, dtype) * xp.where(some, log_p, 0.0), 0.0)
    end = end + xp.where(others, xp.asarray(rest, dtype) * xp.where(others, log_q, 0.0), 0.0)
    return xp.where(inner, found, end)


def _deviance(k, n, log_p):
    """`deviance` of k from n p, also where p is too small a number."""
    m = n * xp.exp(log_p)
    seen = m > 1e-30
    return xp.where(seen, deviance(k, xp.where(seen, m, 1.0)), k * (xp.log(k / n) - log_p) + m - k)
