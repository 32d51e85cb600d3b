"""Random allocation, of concrete numbers, between two pairs with finitely many outcomes, which
compose on a lattice.
"""

import functools

import numpy as np

from jaxpriv.tradeoff import lognormal_mean, lognormal_rule, many_outcomes, one_large

_POINTS = 6400
_SPARSE = 16  # times fewer where one large lognormal is all that is known
_DEEP = 1e-16  # probabilities that are not followed
_LEAST = 30.0  # -log K up to which K = 1 + (K - 1) has digits


@functools.lru_cache(maxsize=64)
def between(mu, steps):
    """(a pair above, a pair below) of one mu and number of steps > 1, as rows of a `Table`."""
    with np.errstate(all="ignore"):
        known = _profile(np.float64(mu), np.float64(steps))
        return many_outcomes.above(known), many_outcomes.below(known)


def _profile(mu, steps):
    """The `Known` profile, lines placed wherever the last one no longer serves."""
    own = lognormal_rule.columns(mu, steps)
    spread = float(min(np.sqrt(np.expm1(mu**2) / steps), mu))
    high = _end(lambda eps: one_large.log_bounds(mu, steps, eps)[1], spread)
    low = _end(lambda eps: float(_put_bound(own, np.expm1(-eps))), spread)
    low = min(low, _LEAST)
    # evenly where most losses are, by a constant factor beyond
    unit = spread / 2
    left, right = np.arcsinh(-low / unit), np.arcsinh(high / unit)
    eps = unit * np.sinh(np.linspace(left, right, _POINTS))
    rows: list = []
    for side in (np.expm1(eps[eps < 0])[::-1], np.expm1(eps[eps >= 0])):
        since = 0
        while side.size:
            at = side[0] * 1.3 + np.sign(side[0] + 1e-300) * 0.2 * spread
            at = max(at, -1 + 0.5 * (1 + side[0]))
            here = np.abs(side) <= abs(at)
            k, side = side[here], side[~here]
            found = lognormal_mean.bounds(lognormal_mean.placed(own, np.log1p(at)), np.log1p(k))
            gain, mass = (found.put, found.below) if at < 0 else (found.call, found.above)
            far = (k > 0) & ~(gain[1] - gain[0] < 1e-3)
            for place in range(k.size):
                ends = -np.inf, np.inf
                since = since + 1 if far[place] else 0
                if far[place]:
                    if since % _SPARSE and (side.size or place < k.size - 1):
                        continue
                    ends = one_large.log_bounds(mu, steps, np.log1p(k[place]))
                low, high = max(gain[0][place], ends[0]), min(gain[1][place], ends[1])
                rows.append((k[place], low, high, mass[0][place], mass[1][place]))
    k, *columns = np.array(sorted(rows)).T
    # of numbers whose logarithms are bounds
    columns = [np.exp(log) * (1 + side * 2.0**-45) for log, side in zip(columns, (-1, 1, -1, 1))]
    keep = np.all(np.isfinite(columns), 0)
    columns = [column[keep] for column in columns]
    return many_outcomes.Known(k[keep], tuple(columns[:2]), tuple(columns[2:]))


def _put_bound(own, k):
    """log of Chernoff's bound of P(M < K)."""
    s = np.geomspace(1e-3, 30.0, 60) * own.t
    return np.min(s * k + own.t * lognormal_rule.log_means(own, s))


def _end(log_bound, spread):
    """The eps beyond which it is below `_DEEP`, to a few per cent."""
    low, high = np.log(spread), np.log(spread)
    while log_bound(np.exp(high)) > np.log(_DEEP) and np.exp(high) < 100:
        low, high = high, high + 0.5
    while high - low > 0.02:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if log_bound(np.exp(middle)) <= np.log(_DEEP) else (middle, high)
    return np.exp(high)
