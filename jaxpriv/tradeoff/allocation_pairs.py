"""Random allocation, of concrete numbers, between two pairs with finitely many outcomes, which
compose on a lattice.
"""

import functools

import numpy as np

from jaxpriv.tradeoff import lognormal_mean, lognormal_rule, many_outcomes, one_large

_POINTS = 2400
_SPARSE = 16  # times fewer where one large lognormal is all that is known
_DEEP = 1e-16  # probabilities that are not followed


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
    # evenly where most losses are, by a constant factor beyond
    unit = spread / 2
    left, right = np.arcsinh(-low / unit), np.arcsinh(high / unit)
    eps = unit * np.sinh(np.linspace(left, right, _POINTS))
    k = np.expm1(eps)
    rows: list = []
    for side in (k[k < 0][::-1], k[k >= 0]):
        placed, reach, since = None, 0.0, -1
        for value in side:
            if placed is None or abs(value) > reach:
                at = value * 1.3 + np.sign(value + 1e-300) * 0.2 * spread
                at = max(at, -1 + 0.5 * (1 + value))
                placed = lognormal_mean.line(own, at)
                reach = abs(at)
            found = lognormal_mean.integrals(placed, value)
            far = value > 0 and not found.gain_error < 1e-3 * found.gain
            since = since + 1 if far else 0
            if since % _SPARSE == 0 or value == side[-1]:
                rows.append((value, *_ends(mu, steps, found, value, far)))
    k, *columns = np.array(sorted(rows)).T
    keep = np.all(np.isfinite(columns), 0)
    columns = [column[keep] for column in columns]
    return many_outcomes.Known(k[keep], tuple(columns[:2]), tuple(columns[2:]))


def _ends(mu, steps, found, k, far):
    """(lower, upper) of gain and of mass, rounded outward."""
    scale = np.exp(found.log_scale)
    off = 2.0**-48 * (1 + abs(found.log_scale))
    ends = []
    for part, error in ((found.gain, found.gain_error), (found.mass, found.mass_error)):
        ends += [max(scale * (part - error) * (1 - off), 0.0), scale * (part + error) * (1 + off)]
    if far:
        lower, upper = np.exp(one_large.log_bounds(mu, steps, np.log1p(k)))
        ends[:2] = max(ends[0], lower), min(ends[1], upper)
    return ends


def _put_bound(own, k):
    """log of Chernoff's bound of P(M < K)."""
    s = np.geomspace(1e-3, 30.0, 60) * own.t
    return np.min(s * k + own.t * lognormal_rule.log_means(own, s)[0])


def _end(log_bound, spread):
    """The eps beyond which it is below `_DEEP`, to a few per cent."""
    low, high = np.log(spread), np.log(spread)
    while log_bound(np.exp(high)) > np.log(_DEEP) and np.exp(high) < 100:
        low, high = high, high + 0.5
    while high - low > 0.02:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if log_bound(np.exp(middle)) <= np.log(_DEEP) else (middle, high)
    return np.exp(high)
