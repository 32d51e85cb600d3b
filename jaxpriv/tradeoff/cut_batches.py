"""One step of DP-SGD by Poisson sampling whose batches are cut at a largest size, a record added or
removed.

Of n other records Bin(n, q) = K are drawn. Where K < B the batch is whole: given the others, the
record moves their sum by a vector of norm mu = 1/noise multiplier, with probability q. Where K >= B
it is cut. Then B of the K are a uniform choice, in random order, whatever K is: let that choice be
known. Without the record its sum is seen. With it, it is drawn with probability q and stays with
probability B/(K+1), and then has the last one's place, for its company is a uniform choice of B-1
others. So it moves the sum by a vector of norm 2 mu, with probability

    q' = E(q B/(K+1) | K >= B) = B P(Bin(n+1, q) > B) / ((n+1) P(K >= B)),

by C(n, k)/(k+1) = C(n+1, k+1)/(n+1). Whether a batch was cut may show (where all others' gradients
are equal their sum tells their number), so that it is taken for known:

    delta(eps) = P(K < B) delta_mu,q(eps) + P(K >= B) delta_2mu,q'(eps),

in both directions, delta_m,r of N(m, 1) with probability r and N(0, 1) else against N(0, 1). Every
conditional pair is dominated (docs/certified.md), and so are mixtures of known members.
"""

from abc import abstractmethod

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import derived, resolved
from jaxpriv._pytree import pytree
from jaxpriv.stats._binomial import log_tails
from jaxpriv.tradeoff.averaged import Mixture
from jaxpriv.tradeoff.envelope import Envelope
from jaxpriv.tradeoff.experiment import never_told
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.hull import Replaced
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from jaxpriv.tradeoff.subsampled import Reversed, Subsampled


def _tails(rate, others, largest):
    """log P(K >= B), log P(K < B), log P(Bin(n+1, q) > B), and their doubt in ulp;
    at rate 1 every batch is cut.
    """
    some = rate < 1
    q = xp.where(some, rate, 0.5)
    log_cut, log_whole, doubt = log_tails(q, largest, others)
    more, _, more_doubt = log_tails(q, largest + 1, others + 1)
    found = log_cut, log_whole, more, doubt + more_doubt
    return (xp.where(some, own, at_one) for own, at_one in zip(found, (0.0, -xp.inf, 0.0, 0.0)))


def _log_whole(rate, others, largest):
    _, log_whole, *_ = _tails(rate, others, largest)
    return log_whole


def _log_cut(rate, others, largest):
    log_cut, *_ = _tails(rate, others, largest)
    return log_cut


def _kept(rate, others, largest):
    """q' of the module."""
    log_cut, _, more, _ = _tails(rate, others, largest)
    return xp.minimum(largest / (others + 1) * xp.exp(more - log_cut), rate)


def _doubt(rate, others, largest):
    """By how many ulp q' may be off, relative to itself and to 1 - q' >= 1/(B+1), and the
    probabilities, relative to themselves.
    """
    *_, doubt = _tails(rate, others, largest)
    return xp.stop_gradient((doubt + 8) / (1 - _kept(rate, others, largest)))


@pytree
class Told(Mixture):
    """A mixture whose weights may be too small for a number, and may be off by so many ulp."""

    log_weight: jax.Array
    doubt: jax.Array

    def aligned(self, shape, dtype):
        plain = super().aligned(shape, dtype)
        full = shape + xp.shape(self.log_weight)[-1:]
        more = (xp.broadcast_to(xp.asarray(part, dtype), full)
                for part in (self.log_weight, self.doubt))
        return type(self)(plain.members, plain.weights, *more)

    def _average(self, log_values):
        shares = xp.where(self.log_weight > -xp.inf, log_values + self.log_weight, -xp.inf)
        some = xp.any(shares > -xp.inf, -1, keepdims=True)
        total = xp.logsumexp(xp.where(some, shares, 0.0), axis=-1)
        lost = xp.where(xp.any(xp.isnan(log_values), -1), xp.nan, 0.0)
        return xp.where(some[..., 0], total, -xp.inf) + lost

    def bracket(self, low, high, reverse):
        """What a rate is off by, relative to itself and to its complement, is a share of eps and
        one of delta (see `Occasional`); what weights are, one of delta.
        """
        ulps = xp.max(self.doubt, -1) * 2 * xp.finfo(low.dtype).eps
        lower, upper, rate = super().bracket(
            low - ulps * xp.abs(low), high + ulps * xp.abs(high), reverse
        )
        return lower - ulps, xp.minimum(upper + ulps, 0.0), rate

    def reversed(self):
        return Reversed(self)


@pytree
class ToldExchanged(Told):
    """A mixture with the hull of two directions, whose straight piece is an outcome of loss 0."""

    def atoms(self, reverse):
        del reverse
        zero = xp.zeros(self.batch_shape(), xp.result_type(*jax.tree.leaves(self)))
        return zero, zero

    def straight(self):
        return True

    def gaussian_mu(self):
        """An upper bound, that of samples of fixed size: no member's is larger."""
        return xp.max(self._each(lambda member: member.gaussian_mu()), -1)


@pytree
class CutGaussian(Envelope):
    """The pair that dominates: one of two sub-sampled Gaussian pairs, it is known which.

    mu: by how much the record moves the sum of a batch that is whole, in units of the noise; rate:
    how often; kept: how often that of one that is cut; log_whole, log_cut: of the probability of
    each; doubt: by how many ulp these three may be off, relative to themselves and `kept` to its
    complement.
    """

    mu: jax.Array
    rate: jax.Array
    kept: jax.Array
    log_whole: jax.Array
    log_cut: jax.Array
    doubt: jax.Array

    @classmethod
    def of(cls, mu, rate, others, largest):
        """1 <= largest <= others: at most how many records are in a batch, and how many others
        there are.
        """
        sizes = rate, float(others), float(largest)
        parts = (derived(part, *sizes) for part in (_kept, _log_whole, _log_cut, _doubt))
        return cls(mu, rate, *parts)

    def told(self):
        """The mixture, whose members stand along a last axis."""

        def both(*parts):
            return xp.stack(xp.broadcast_arrays(*parts), -1)

        pair = Subsampled(NormalShift(both(self.mu, 2 * self.mu)), both(self.rate, self.kept))
        log_weight = both(self.log_whole, self.log_cut)
        return Told((pair,), (xp.exp(log_weight),), log_weight, both(self.doubt, self.doubt))

    def aligned(self, shape, dtype):
        """The mixture: what it is made of is known once."""
        return resolved(self, dtype).told().aligned(shape, dtype)

    def log_delta(self, eps, reverse):
        return self.told().log_delta(eps, reverse)

    def touch(self, eps, reverse):
        return self.told().touch(eps, reverse)

    def find_slope(self, alpha, reverse):
        return self.told().find_slope(alpha, reverse)

    def bracket(self, low, high, reverse):
        return self.told().bracket(low, high, reverse)

    def log_told(self, reverse):
        return never_told(self, reverse)

    def loss_bound(self, reverse):
        return self.told().loss_bound(reverse)

    def reversed(self):
        return Reversed(self)

    def subsampled(self, rate):
        raise ValueError("subsample() of batches that are cut: they are samples already")


class CutExchanged(CutGaussian):
    """Where one record is exchanged for another. That of a batch that is cut is another one, whose
    place it has, in either: of both pairs the hull, as for samples of fixed size.
    """

    @abstractmethod
    def whole_pair(self, mu, rate):
        """The pair of batches that are whole."""

    def told(self):
        mu, rate, kept = xp.broadcast_arrays(self.mu, self.rate, self.kept)
        mu, rate, kept = (part[..., None] for part in (mu, rate, kept))
        cut = Replaced((Subsampled(NormalShift(2 * mu), kept),))
        log_weight = xp.stack(xp.broadcast_arrays(self.log_whole, self.log_cut), -1)
        weight = xp.exp(log_weight)
        doubt = xp.stack([self.doubt, self.doubt], -1)
        members = self.whole_pair(mu, rate), cut
        return ToldExchanged(members, (weight[..., :1], weight[..., 1:]), log_weight, doubt)


@pytree
class CutReplaced(CutExchanged):
    """A record replaced."""

    def whole_pair(self, mu, rate):
        return ReplacedGaussian(mu, rate)

    def reversed(self):
        return self


@pytree
class CutZeroed(CutExchanged):
    """A record whose gradient is put to zero; it is drawn, and has its place, as ever."""

    def whole_pair(self, mu, rate):
        return Subsampled(NormalShift(mu), rate)
