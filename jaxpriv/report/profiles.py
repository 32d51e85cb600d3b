"""The points at which certificates give whole privacy profiles, and the trade-off curve that
follows from them.
"""

import math

import numpy as np

_PARTS = 25
# decimal steps of about a quarter: where a profile ends does not hang on an epsilon's last digits,
# which differ between machines
_ENDS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0, 10.0)
_BEYOND = 1.2345  # of the certified epsilon: no end of a round one
_LEAST, _MOST = 1e-3, 500.0
_STEEPEST = 700.0  # whose exponential is a number


def epsilons_of(epsilon):
    """The epsilons of a row's profile, from 0 to somewhat beyond its own: dense at 0,
    where trade-off curves bend most.

    Args: epsilon: the row's, an upper bound in [0, inf), or None for infinity.
    Returns: a list of 26 floats, of four digits each.

        >>> epsilons_of(1.83)[:3], epsilons_of(1.83)[-1]
        ([0.0, 0.004, 0.016], 2.5)
    """
    reach = _BEYOND * (8.0 if epsilon is None else min(max(epsilon, _LEAST), _MOST))
    unit = 10.0 ** math.floor(math.log10(reach))
    end = next(unit * step for step in _ENDS if unit * step >= reach)
    return [float(f"{end * (part / _PARTS) ** 2:.4g}") for part in range(_PARTS + 1)]


def profile_of(known):
    """{epsilon, as text: delta} of a certificate's row, from {epsilon: delta}."""
    return {f"{epsilon:g}": float(delta) for epsilon, delta in known}


def lines_of(row, delta):
    """[(epsilon, delta)] of all supporting lines that a certificate's row has, upper bounds: its
    profile's, and that of its epsilon.
    """
    own = [] if row["epsilon"] is None else [(row["epsilon"], delta)]
    return sorted([(float(text), value) for text, value in row["profile"].items()] + own)


def polygon(lines):
    """(alpha, beta) of the trade-off curve that supporting lines leave room for: their corners,
    from alpha = 0 to where beta is 0.

    Args: lines: [(epsilon, upper bound of delta)] of a symmetric curve, in order of epsilon.
    Guarantee: the curve does not run below.

        >>> alpha, beta = polygon([(0.0, 0.5), (1.0, 0.25)])
        >>> [[round(float(value), 3) for value in column] for column in (alpha, beta)]
        [[0.0, 0.145, 0.355, 0.75], [0.75, 0.355, 0.145, 0.0]]
    """
    drawn = [line for line in lines if line[0] < _STEEPEST]  # others are as good as upright
    epsilons, deltas = (np.array(column) for column in zip(*drawn))
    rises = np.exp(epsilons)
    kept: list[int] = []  # the lower hull: other lines are nowhere the highest
    for each in range(len(rises)):
        if kept and not rises[each] > rises[kept[-1]]:
            continue
        while len(kept) > 1 and _slope(rises, deltas, *kept[-2:]) >= _slope(
            rises, deltas, kept[-1], each
        ):
            kept.pop()
        kept.append(each)
    # where delta rises no line is the highest, either
    kept = kept[: int(np.argmin(deltas[kept])) + 1]
    alpha, beta = trade_off(epsilons[kept], deltas[kept])
    return np.clip(alpha, 0.0, 1.0), np.clip(beta, 0.0, 1.0)


def _slope(rises, deltas, first, second):
    return (deltas[second] - deltas[first]) / (rises[second] - rises[first])


def trade_off(epsilons, deltas):
    """(alpha, beta) of a symmetric curve from its profile: a polygon of its supporting lines
    beta = 1 - delta(eps) - e^eps alpha.

    The other direction's lines mirror them, so only alpha <= beta is computed. Two neighbours meet
    at the corner alpha = (delta_i - delta_j)/(e^eps_j - e^eps_i).
    """
    rises = np.exp(epsilons)
    alpha = np.append(-np.diff(deltas) / np.diff(rises), 0.0)
    beta = np.append(1 - deltas[:-1] - rises[:-1] * alpha[:-1], 1 - deltas[-1])
    return np.concatenate([alpha[::-1], beta]), np.concatenate([beta[::-1], alpha])
