"""Local randomisers: a record is reported with noise of its own, and its value is tested."""

import math
from dataclasses import field
from typing import Any

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.discrete import Discrete
from jaxpriv.tradeoff.outcomes import Outcomes
from jaxpriv.tradeoff.response import Response


@pytree
class KaryResponse(Response):
    """The value with probability e^epsilon/(e^epsilon + k - 1), else one of the k - 1 others."""

    loss: Any
    categories: int = field(metadata={"static": True})
    count: int = field(default=1, metadata={"static": True})

    def exact(self, loss):
        return xp.zeros_like(loss)

    def log_masses(self, epsilon):
        own = -xp.log1p((self.categories - 1) * xp.exp(-epsilon))
        others = math.log(self.categories - 2) if self.categories > 2 else -math.inf
        return own, others - epsilon + own


@pytree
class UnaryEncoding(Response):
    """The bits of two values in a report, of one bit for each value, of which one is set.

    A set bit stays with probability p, another is set with q, p (1-q)/(q (1-p)) = e^epsilon:
    symmetric with q = 1 - p, optimised with p = 1/2. All other bits have the same law.
    """

    loss: Any
    optimised: bool = field(metadata={"static": True})
    count: int = field(default=1, metadata={"static": True})

    def exact(self, loss):
        return xp.zeros_like(loss)

    def log_masses(self, epsilon):
        if self.optimised:
            neither = xp.full_like(epsilon, -math.log(2.0))
            return neither - xp.log1p(xp.exp(-epsilon)), neither
        own = -2 * xp.log1p(xp.exp(-epsilon / 2))
        return own, math.log(2.0) - epsilon / 2 + own


@pytree
class PermanentResponse(UnaryEncoding):
    """Symmetric unary encoding whose loss follows from the noise on a bit, to rounding."""

    def exact(self, loss):
        return xp.full_like(loss, xp.nan)


def _log_mean(epsilon, k):
    """log((e^epsilon + k - 1)/k), which is small where k is large, k <= 1e9."""
    moderate = epsilon < 30
    near = xp.log1p(xp.expm1(xp.where(moderate, epsilon, 0.0)) / k)
    far = epsilon - math.log(k) + xp.log1p((k - 1) * xp.exp(-epsilon))
    return xp.where(moderate, near, far)


@pytree
class OtherValue(Outcomes):
    """k-ary randomised response of a value against that of some other value, all as likely: is the
    value reported, or not?
    """

    loss: Any
    categories: int = field(metadata={"static": True})

    def full(self):
        return False

    def spelled(self, shape, dtype):
        """The loss of another report is log((e^epsilon + k - 2)/(k - 1))."""
        epsilon = xp.broadcast_to(xp.asarray(resolved(self.loss, dtype), dtype), shape)
        others, fall = self.categories - 1, xp.exp(-epsilon)
        truth = -xp.log1p(others * fall)
        null = xp.stack([truth, math.log(others) - epsilon + truth], -1)
        rest = truth + xp.log1p((others - 1) * fall)
        alternative = xp.stack([truth - epsilon, rest], -1)
        loss = xp.stack([-epsilon, _log_mean(epsilon, others)], -1)
        return Discrete(null, alternative, loss, xp.full_like(epsilon, xp.nan))


@pytree
class UniformReport(Outcomes):
    """k-ary randomised response without a record, a report of any value, against that of a value:
    is this value reported, or not?

    The loss of another report is -log((e^epsilon + k - 1)/k), that of the value epsilon more.
    """

    loss: Any
    categories: int = field(metadata={"static": True})

    def spelled(self, shape, dtype):
        epsilon = xp.broadcast_to(xp.asarray(resolved(self.loss, dtype), dtype), shape)
        k = self.categories
        lost = _log_mean(epsilon, k)
        # epsilon - lost = -log(1 - share): what cancels least
        share = (1 - 1 / k) * -xp.expm1(-epsilon)
        most = share > 0.9
        far = math.log(k) - xp.log1p((k - 1) * xp.exp(-epsilon))
        gained = xp.where(most, far, -xp.log1p(-xp.where(most, 0.0, share)))
        masses = [math.log1p(-1 / k), -math.log(k)]
        null = xp.stack([xp.full_like(epsilon, mass) for mass in masses], -1)
        loss = xp.stack([-lost, gained], -1)
        return Discrete(null, null + loss, loss, xp.full_like(epsilon, xp.nan))


@pytree
class OtherBit(Outcomes):
    """Unary encoding of a value against that of some other value, all as likely: is the value's bit
    set, and how many of the k - 1 others are?

    With m of them set the mean likelihood ratio is 1 + x (e^epsilon - 1), x = m/(k - 1), times
    e^-epsilon where the value's own bit is set, whatever the bits' probabilities.
    """

    loss: Any
    categories: int = field(metadata={"static": True})
    optimised: bool = field(metadata={"static": True})

    def full(self):
        return False

    def _log_bits(self, epsilon):
        """log p, 1 - p, q, 1 - q: of the own bit and of another to be set, or not."""
        if self.optimised:
            even, rest = xp.full_like(epsilon, -math.log(2.0)), -xp.log1p(xp.exp(-epsilon))
            return even, even, rest - epsilon, rest
        kept = -xp.log1p(xp.exp(-epsilon / 2))
        return kept, kept - epsilon / 2, kept - epsilon / 2, kept

    def spelled(self, shape, dtype):
        epsilon = xp.broadcast_to(xp.asarray(resolved(self.loss, dtype), dtype), shape)[..., None]
        others = self.categories - 1
        m = np.arange(others + 1, dtype=np.result_type(epsilon.dtype))
        ways = np.array([math.log(math.comb(others, int(count))) for count in m], m.dtype)
        own, fallen, other, rest = self._log_bits(epsilon)
        counts = ways + m * other + (others - m) * rest
        # both ascending: from -epsilon to 0 with the own bit, from 0 to epsilon without
        share = m / others
        first = xp.log1p(xp.expm1(-epsilon) * (1 - share))
        small, some = epsilon < 1, m > 0
        near = xp.log1p(xp.expm1(xp.where(small, epsilon, 0.0)) * share)
        left = xp.where(some, share + (1 - share) * xp.exp(-epsilon), 1.0)
        far = xp.where(some, epsilon + xp.log(left), 0.0)
        loss = xp.concatenate([first, xp.where(small, near, far)], -1)
        # of the last, log1p may have lost what epsilon is
        loss = xp.concatenate([-epsilon, loss[..., 1:-1], epsilon], -1)
        null = xp.concatenate([own + counts, fallen + counts], -1)
        return Discrete(null, null + loss, loss, xp.zeros_like(epsilon[..., 0]))


def loss_of_permanent_noise(noise):
    """epsilon of a pair of bits each of which is drawn anew with probability `noise`, without
    cancellation near 1: 2 log((2 - f)/f).
    """
    return 2 * xp.log1p(2 * (1 - noise) / noise)
