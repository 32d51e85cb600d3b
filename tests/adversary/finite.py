"""Compositions of experiments with two finite outcomes each, by enumeration of the sums of losses.

A part is n copies of outcomes (loss_k, P_k), Q_k = P_k e^loss_k, as `make()` -> [(loss, P)] of
balls. With multinomial weights, delta = sum over the sums of losses l > eps of Q (1 - e^(eps - l)),
1 - delta = sum of Q min(1, e^(eps - l)). Where the ball cannot tell whether l > eps the term is
within rounding of zero: the positive part of the ball is taken.
"""

from math import comb

from flint import arb, fmpz

from tests.adversary.balls import one, zero
from tests.adversary.chi_square import Unavailable

MOST_TERMS = 40_000


def enumerated(parts, eps, forward):
    total = 1
    for _, n in parts:
        total *= n + 1
    if total > MOST_TERMS:
        raise Unavailable(f"{total} sums of losses")
    sums = [(zero(), one())]  # (loss, P)
    for make, n in parts:
        (l0, p0), (l1, p1) = make()
        own = [
            (l0 * (n - k) + l1 * k, fmpz(comb(n, k)) * p0 ** (n - k) * p1**k) for k in range(n + 1)
        ]
        sums = [(a + b, p * r) for a, p in sums for b, r in own]
    delta, complement = zero(), zero()
    for loss, p in sums:
        q = p * loss.exp()
        if not forward:
            loss, q = -loss, p
        gap = eps - loss
        part = -gap.expm1()
        if gap < 0:
            delta += q * part
            complement += q * gap.exp()
        elif gap >= 0:
            complement += q
        else:
            hull = arb(0).union(abs(part))
            delta += q * hull
            complement += q * (1 - hull)
    return delta, complement
