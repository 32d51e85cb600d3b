"""Curves of privacy-loss distributions that were saved: lists of losses and of probabilities."""

from decimal import Context, Decimal, localcontext

import numpy as np

from jaxpriv._checks import UNIT, Domain
from jaxpriv._types import Numbers
from jaxpriv.bridges._lists import lists
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.listed import Listed, Listing

_LOSS = Domain(-np.inf, np.inf, "(-inf, inf]", 1.0, open_low=True)
_DIGITS = Context(prec=50, Emax=999_999, Emin=-999_999)
_EXCESS = 1e-6  # by which sums of probabilities may be above 1, as those that are rounded up are


def curve(loss: Numbers, probability: Numbers) -> Curve:
    """The curve of one direction of a mechanism, from the law of its privacy loss.

    Args:
        loss: log Q/P, `Float[Array, "k"]` in (-inf, inf].
        probability: under Q, the mechanism with the record, `Float[Array, "k"]` in [0, 1]; they sum
            to at most 1, and what is missing is taken for an infinite loss. What a sum is above 1,
            at most 1e-6 as in lists that are rounded up, is taken from the lowest losses.

    Returns: the forward `Curve` of the pair with this law, composed and sub-sampled like any other:
        `reversed()` has the exchanged hypotheses. A mechanism whose two directions were saved apart
        is covered by `jaxpriv.worst_of(add, remove)`.
    Guarantee: all bounds, of the law that is given. Saved ones are mostly rounded to a lattice: of
        one rounded up ("pessimistic") upper ends hold for the mechanism. One rounded down asks for
        more than probability 1 without the record, and is refused; less than 1e-6 above 1 is taken
        for rounding.
    Raises: ValueError for numbers outside their range, arrays of other shapes, traced values, sums
        above 1, and losses that ask for a probability above 1 without the record.
    Source: Sommer, Meiser, Mohammadi 2019.

        >>> from jaxpriv.bridges import privacy_loss
        >>> response = privacy_loss.curve([-1.0, 1.0], [0.2689414213699951, 0.7310585786300049])
        >>> print(f"{response.delta(0.5):.4f} {response.compose(10).epsilon(1e-5):.4f}")
        0.2876 9.9998
    """
    loss, probability = lists(loss=(loss, _LOSS), probability=(probability, UNIT))
    order = np.argsort(loss, kind="stable")
    loss, probability = loss[order], probability[order]
    finite = np.isfinite(loss)
    loss, probability = loss[finite], _without_excess(probability[finite])
    some = probability > 0
    loss, probability = loss[some], probability[some]
    log_q = np.log(probability)
    told = _rest("probability", map(Decimal, probability.tolist()))
    absent = _rest("probability e^-loss", map(_without_record, probability, loss))
    outcomes = [(-np.inf, _log(absent), -np.inf),
                *zip(loss.tolist(), (log_q - loss).tolist(), log_q.tolist()),
                (np.inf, -np.inf, _log(told))]  # fmt: skip
    return Curve(Listed(np.float64(told), Listing.of(outcomes)))


def _without_excess(probability):
    """What a sum is above 1 is taken from the lowest losses, which tell least."""
    excess = max(float(np.sum(probability)) - 1, 0.0)
    if excess > _EXCESS:
        return probability
    before = np.cumsum(probability) - probability
    return probability - np.clip(excess - before, 0.0, probability)


def _without_record(probability, loss):
    return Decimal(float(probability)) * Decimal(-float(loss)).exp()


def _rest(name, values):
    """What is left of 1: of small probabilities all digits are lost in floating point."""
    with localcontext(_DIGITS):
        rest = 1 - sum(values)
    if rest < -_EXCESS:
        raise ValueError(f"{name} sums to {1 - rest:.9g}; accepted: at most 1")
    return max(float(rest), 0.0)


def _log(value):
    return float(np.log(value)) if value > 0 else -np.inf
