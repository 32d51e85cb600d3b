"""By how much the record may move a normal statistic, and with which probabilities:
a mixture's components.

A mixture sum_k w_k N(s_k, 1) against N(0, 1) has the likelihood ratio

    1 + u(z) = sum_k w_k e^(a_k(z)),    a_k(z) = s_k (z - s_k/2),

in which all s_k >= 0. What is shifted by 0 is what is not there: with r the weight of all others
and w'_k = w_k/r, 1 + u = 1 - r + r Lambda, Lambda = sum w'_k e^(a_k). Both 1 - r and r are sums of
what was given, so that neither loses digits where the other is nearly 1.
"""

import math
from typing import NamedTuple

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree

_CHOICES = 8  # ulp that a weight loses by being divided by a sum, and by its own rounding


class Shifts(NamedTuple):
    """The components that are shifted, along a new first axis, and their weights, which sum to 1.

    rate, absent, log_absent: the weight of all that are, and of those that are not. doubt: by how
    many ulp the weights may be off, relative to themselves. A weight may be 0, or so small that its
    logarithm alone tells it.
    """

    size: jax.Array
    weight: jax.Array
    log_weight: jax.Array
    rate: jax.Array
    absent: jax.Array
    log_absent: jax.Array
    doubt: jax.Array

    @property
    def counts(self):
        """Which components are there at all."""
        return self.log_weight > -xp.inf

    def spread(self, shape):
        """The same with all arrays of a batch of this shape."""

        def wide(leaf, axes):
            leaf = leaf.reshape(
                leaf.shape[:axes] + (1,) * (len(shape) + axes - leaf.ndim) + leaf.shape[axes:]
            )
            return xp.broadcast_to(leaf, leaf.shape[:axes] + shape)

        return Shifts(*(wide(part, axes) for part, axes in zip(self, (1, 1, 1, 0, 0, 0, 1))))

    def largest(self):
        """The largest shift."""
        return xp.max(xp.where(self.counts, self.size, 0.0), 0)

    def least(self):
        """The least shift of all that are there."""
        return xp.min(xp.where(self.counts, self.size, xp.inf), 0)


def _safe_log(value):
    some = value > 0
    return xp.where(some, xp.log(xp.where(some, value, 1.0)), -xp.inf)


@pytree
class Components:
    """Shifts and weights one by one, each with the shape of the batch;
    the weights are divided by their sum.
    """

    shifts: tuple
    weights: tuple

    def resolved(self):
        size, weight = (
            xp.stack(xp.broadcast_arrays(*parts)) for parts in (self.shifts, self.weights)
        )
        size, weight = xp.broadcast_arrays(size, weight)
        there = size > 0
        moved, still = (xp.sum(xp.where(some, weight, 0.0), 0) for some in (there, ~there))
        total = moved + still
        silent = ~(moved > 0)
        # where nothing is ever shifted, one law twice: every shift is 0
        rate, absent = xp.where(silent, 1.0, moved / total), xp.where(silent, 0.0, still / total)
        share = xp.where(there, weight, 0.0) / xp.where(silent, 1.0, moved)
        share = xp.where(silent, weight / total, share)
        few = rate < 0.5
        log_absent = xp.where(few, xp.log1p(-xp.where(few, rate, 0.0)), _safe_log(absent))
        doubt = xp.full_like(size, 2 * _CHOICES + 2.0 * len(self.shifts))
        return Shifts(xp.where(there | silent, size, 1.0), share, _safe_log(share), rate, absent,
                      log_absent, doubt)

    def audible(self):
        """(is nothing ever shifted?, components that are shifted where nothing is)."""
        silent = ~(sum(xp.where(s > 0, w, 0.0) for s, w in zip(self.shifts, self.weights)) > 0)
        heard = tuple(xp.where(silent, 1.0, s) for s in self.shifts)
        return silent, Components(heard, self.weights)


@jax.tree_util.register_pytree_with_keys_class
class Owned:
    """A user's records: `count` of them at most, each there with probability `rate` on its own,
    each a shift of `mu`.

    Shifts k mu with probabilities C(K, k) rate^k (1-rate)^(K-k);
    the number K is a part of the structure.
    """

    def __init__(self, mu, rate, count):
        self.mu, self.rate, self.count = mu, rate, count

    def tree_flatten_with_keys(self):
        return [
            (jax.tree_util.GetAttrKey("mu"), self.mu),
            (jax.tree_util.GetAttrKey("rate"), self.rate),
        ], self.count

    @classmethod
    def tree_unflatten(cls, count, children):
        mu, rate = children
        return cls(mu, rate, count)

    def resolved(self):
        some, count = self.rate < 1, self.count
        q = self.rate
        log_q, log_rest = xp.log(q), xp.log1p(-xp.where(some, q, 0.5))
        none = xp.where(some, count * log_rest, -xp.inf)
        rate = -xp.expm1(none)
        log_rate = xp.log(rate)
        size, weight, log_weight, doubt = [], [], [], []
        for k in range(1, count + 1):
            log_ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
            own = log_ways + k * log_q + (count - k) * log_rest
            own = xp.where(some | (k == count), own if k < count else k * log_q, -xp.inf)
            # lgamma is off by a few ulp of itself, and so is every other term
            terms = (
                3 * math.lgamma(count + 1)
                + k * xp.abs(log_q)
                + (count - k) * xp.abs(log_rest)
                + xp.abs(log_rate)
            )
            size.append(k * self.mu)
            log_weight.append(own - log_rate)
            weight.append(_binomial(count, k, q, own) / rate)
            doubt.append(_CHOICES + 4.0 * count + 4 * terms)
        parts = (
            xp.stack(xp.broadcast_arrays(*(value + xp.zeros_like(self.mu + q) for value in part)))
            for part in (size, weight, log_weight, doubt)
        )
        size, weight, log_weight, doubt = parts
        return Shifts(size, weight, log_weight, rate, xp.exp(none), none, xp.stop_gradient(doubt))

    def audible(self):
        """(is nothing ever shifted?, records that shift something)."""
        silent = ~(self.mu > 0)
        return silent, Owned(xp.where(silent, 1.0, self.mu), self.rate, self.count)


def _binomial(count, k, rate, log_value):
    """C(count, k) rate^k (1-rate)^(count-k), with its derivative at rate = 1."""
    there, away = rate**k, (1 - rate) ** (count - k)
    plain = (there > 1e-30) & ((away > 1e-30) | (rate >= 1))
    return xp.where(
        plain, float(math.comb(count, k)) * there * away, xp.exp(xp.where(plain, 0.0, log_value))
    )


def weighted_sum(values, shifts):
    """log sum_k w_k e^(values_k), of sums that may be any number;
    with derivatives by weights that are 0.
    """
    weight, log_weight = (behind(part, values) for part in (shifts.weight, shifts.log_weight))
    each = xp.where(log_weight > -xp.inf, log_weight + values, -xp.inf)
    top = xp.stop_gradient(xp.max(each, 0))
    finite = xp.isfinite(top)
    base = xp.where(finite, top, 0.0)
    return xp.where(
        finite,
        base + xp.log(xp.where(finite, xp.sum(scaled(values, base, weight, log_weight), 0), 1.0)),
        top,
    )


def scaled(values, top, weight, log_weight):
    """w_k e^(values_k - top), which is at most 1."""
    least = xp.finfo(weight.dtype).tiny * 1e10
    small = (weight < least) & (log_weight > -xp.inf)
    away = xp.minimum(values - top, -math.log(least))
    return xp.where(
        small, xp.exp(xp.where(small, log_weight + values - top, 0.0)), weight * xp.exp(away)
    )


def behind(part, values):
    """Components' parameters (n, ...) with as many further axes behind the first as values have."""
    return part.reshape(part.shape[:1] + (1,) * (values.ndim - part.ndim) + part.shape[1:])


def log_ratio(z, shifts):
    """log Lambda(z), and the slope of it: the mean shift of what is seen at z."""
    size = behind(shifts.size, xp.asarray(z)[None])
    a = exponents(z, size)
    weight, log_weight = (behind(part, a) for part in (shifts.weight, shifts.log_weight))
    top = xp.stop_gradient(xp.max(xp.where(log_weight > -xp.inf, log_weight + a, -xp.inf), 0))
    parts = scaled(a, top, weight, log_weight)
    total = xp.sum(parts, 0)
    large = top + xp.log(total)
    gentle = xp.stop_gradient(xp.max(xp.where(log_weight > -xp.inf, a, 0.0), 0)) < 30
    rise = xp.sum(weight * xp.expm1(xp.where(gentle, xp.minimum(a, 30.0), 0.0)), 0)
    near = gentle & (rise > -0.3)
    return xp.where(near, xp.log1p(xp.where(near, rise, 0.0)), large), xp.sum(
        size * parts, 0
    ) / total


def exponents(z, size):
    """a_k(z), of z that is no infinity."""
    far = 1e100 if size.dtype == xp.float64 else 1e15
    return size * (xp.clip(z, -far, far) - size / 2)
