"""Laws of a random number of tries K, for `jaxpriv.accounting.selection_epsilon`.

Of a law two things are asked, both of its generating function phi(z) = E[z^K]: how fast phi' grows,
and how often all K tries miss an event, phi(1 - t). And it is drawn, try by try.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxpriv._checks import Domain, check_key, check_number
from jaxpriv._types import Answer

_MEAN = Domain(1.0, 1e4, "(1, 10000]", 2.0, open_low=True)
_ETA = Domain(-1.0, 10.0, "(-1, 10]", 1.0, open_low=True)
_POISSON = Domain(0.0, 500.0, "(0, 500]", 1.0, open_low=True)
_LEAST = 1e-5  # gamma: ten million tries have a probability of e^-100
_BLOCK = 256


@dataclass(frozen=True)
class NegativeBinomialTries:
    """K in 1, 2, ... with P(K = k) in proportion to (1-gamma)^k prod_{l<k} (l + eta)/(l + 1).

    eta = 1 is the geometric law, eta = 0 the logarithmic one, which costs less at the same mean and
    is more often 1. Larger eta concentrate K around its mean, and cost more.

    Attributes:
        mean: E[K], in (1, 10000]. eta: in (-1, 10].

    Raises: ValueError for values outside their range, and where they lead to gamma < 1e-5.
    Source: Papernot and Steinke 2022, Definition 1.

        >>> import jax
        >>> law = NegativeBinomialTries(10.0)
        >>> print(f"{law.gamma:.3f}", law.draw(jax.random.key(0)))
        0.100 1
    """

    mean: float
    eta: float = 1.0

    def __post_init__(self):
        check_number("mean", self.mean, _MEAN)
        check_number("eta", self.eta, _ETA)
        if not self.gamma >= _LEAST:
            raise ValueError(f"mean = {self.mean:g} and eta = {self.eta:g} lead to gamma below "
                             f"{_LEAST:g}; accepted: a smaller mean, or an eta further from -1")

    @cached_property
    def gamma(self):
        """The least share that is in (0, 1): E[K] falls from infinity to 1 as it grows."""
        low, high = -30.0, -1e-12  # log gamma
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._mean_at(middle) > self.mean else (low, middle)
        return math.exp(high)

    def _mean_at(self, log_gamma):
        """E[K] = phi'(1) = eta (1/gamma - 1)/(1 - gamma^eta), of which log 1/gamma is the limit."""
        x = self.eta * log_gamma
        falls = 1.0 if x == 0 else -math.expm1(x) / -x  # (1 - gamma^eta)/(eta log 1/gamma)
        return math.expm1(-log_gamma) / (-log_gamma * falls)

    def log_ratio(self, s: Any, w: Any) -> Answer:
        """log phi'(1-s)/phi'(1-w), for phi'(1-s) in proportion to (gamma + (1-gamma) s)^-(1+eta).

        Along w = a s + b it is monotone in s, for so is a ratio of lines.
        """
        here, there = (self.gamma + (1 - self.gamma) * tail for tail in (s, w))
        return (1 + self.eta) * (np.log(there) - np.log(here))

    def reach(self, probability: float) -> float:
        """t with phi(1-t) = probability: how often all tries miss an event of probability t.

        phi(1-t) = (x^-eta - 1)/(gamma^-eta - 1), x = gamma + (1-gamma) t; logarithms at eta = 0.
        """
        top = -math.log(self.gamma)
        if self.eta == 0:
            minus_log = probability * top
        else:
            minus_log = math.log1p(probability * math.expm1(self.eta * top)) / self.eta
        return min((math.exp(-minus_log) - self.gamma) / (1 - self.gamma), 1.0)

    def step(self, k: int) -> tuple[float, float]:
        """P(K = k+1)/P(K = k), and its limit."""
        return (1 - self.gamma) * (k + self.eta) / (k + 1), 1 - self.gamma

    def draw(self, key: jax.Array) -> int:
        """K, an int: see `drawn`."""
        return drawn(key, self, 1)


@dataclass(frozen=True)
class PoissonTries:
    """K of a Poisson law: concentrated around its mean, and 0, nothing is told then, with
    probability e^-mean.

    Attributes:
        mean: E[K], in (0, 500].

    Raises: ValueError for a mean outside its range. Source: Papernot and Steinke 2022, Theorem 6.

        >>> import jax
        >>> PoissonTries(10.0).draw(jax.random.key(0))
        14
    """

    mean: float

    def __post_init__(self):
        check_number("mean", self.mean, _POISSON)

    def log_ratio(self, s: Any, w: Any) -> Answer:
        """log phi'(1-s)/phi'(1-w), for phi(1-s) = e^(-mean s)."""
        return self.mean * (w - s)

    def reach(self, probability: float) -> float:
        """t with phi(1-t) = probability, or 1."""
        return min(-math.log(probability) / self.mean, 1.0)

    def step(self, k: int) -> tuple[float, float]:
        """P(K = k+1)/P(K = k), and its limit."""
        return self.mean / (k + 1), 0.0

    def draw(self, key: jax.Array) -> int:
        """K, an int: see `drawn`."""
        return drawn(key, self, 0)


def drawn(key, law, first):
    """One number of tries: K = k with probability h(k) = P(K = k | K >= k), once k is reached.

    Args:
        key: a JAX key, used for nothing else, and as secret as those of the noise.
        law: of tries. first: the least K.

    Guarantee: every P(K = k) is met to 5e-16 (k + 2/gamma) of itself, 5e-9 of ten million tries.

    1/h(k) = 1 + P(K = k+1)/P(K = k)/h(k+1), backwards, where errors fade by 1 - h a step: h is
    known to a few roundings over h, so 1 - h, of which P(K = k) is a product, to as many roundings.
    """
    check_key("key", key)
    k = first
    while True:
        bits = jax.random.bits(jax.random.fold_in(key, k), (_BLOCK, 2), np.uint32)
        words = np.asarray(bits).astype(np.uint64)
        stops = (words[:, 0] << np.uint64(32)) + words[:, 1] < _thresholds(law, k)
        if stops.any():
            return k + int(np.argmax(stops))
        k += _BLOCK


def _thresholds(law, start):
    """floor(2^64 h(k)) of a block of k."""
    expected = _expected(law, start + _BLOCK)
    found = np.empty(_BLOCK)
    for i in reversed(range(_BLOCK)):
        expected = 1 + law.step(start + i)[0] * expected
        found[i] = 1 / expected
    # a hazard of 1 has no 64 bits; missing 2^-53 of it is within what is told
    return np.minimum(found * 2.0**64, 2.0**64 - 2048).astype(np.uint64)


def _expected(law, k):
    """P(K >= k)/P(K = k): a sum of positive terms, until what is left does not count."""
    total, term = 1.0, 1.0
    while True:
        steps, limit = law.step(np.arange(k, k + 4096, dtype=float))
        terms = term * np.cumprod(steps)
        total += float(np.sum(terms))
        term, most = float(terms[-1]), max(float(steps[-1]), limit)
        # whether they grow or fall, from here on no step exceeds `most`
        if most < 1 and term * most <= 1e-17 * total * (1 - most):
            return total
        k += 4096
