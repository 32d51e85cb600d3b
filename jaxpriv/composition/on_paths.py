"""How fast the transform of a sampled mechanism falls along a vertical line: a bound from paths
above the real axis.

There |e^(iyL)| = e^(-y arg(1+u)), so that |M(c+iy)/M(c)| is at most the integral of the tilted
weight's modulus times that, for this y and all larger ones, as arg(1+u) >= 0. A low path costs
little, for the modulus grows with the square of its height, and sees small losses, which turn
arg(1+u) in proportion to it; the best path for a y is the lower the larger y is.
"""

import math

from jaxpriv import _array as xp

FEW, MANY = 4, 8  # paths, as they are asked for
_NODES = 1 << 18  # of a path, at most: a lower one would take longer than it saves


def decay_on_paths(transform, tilt, lower):
    """(log |weights|, angles of 1+u) along paths, so many times as low as the strip's middle, and
    their rules' errors; lowest last, and those left out that would have too many nodes.

    The rule for a modulus, which is (f(z) f(2 Re z - z))^1/2 with f conjugated, has by Cauchy and
    Schwarz the error bound of the rule for f itself. The nodes are as many times denser as the path
    is lower.
    """
    top = tilt.height
    sizes, angles, errors = [], [], []
    for parts in [parts for parts in lower if parts * len(tilt.x) <= _NODES] or lower[:1]:
        theta = top / parts
        offsets = (xp.arange(parts, dtype=tilt.x.dtype) + 0.5) / parts - 0.5
        x = xp.concatenate([tilt.x + offset * tilt.step for offset in offsets])
        loss, _ = transform.loss(x)
        weight = transform.log_weight(x) + xp.log(tilt.step / parts) + tilt.s * loss - tilt.value
        log_size, angle, grows, _ = transform.log_ratio(transform.lifted(x, theta))
        sizes.append(weight + grows + tilt.s * (log_size - loss))
        angles.append(xp.maximum(angle, 0.0))  # which it is, but for rounding
        errors.append(
            4 * math.exp(3.0) / xp.expm1(2 * math.pi * theta * parts / tilt.step) + 1e-20
            + transform.end_error(tilt)
        )
    return tuple(sizes), tuple(angles), xp.stack(errors)


def log_decay_on_paths(decay, y):
    """log of a bound of |M(c+iy')/M(c)| for y' >= y: along the best of the paths."""
    sizes, angles, errors = decay
    found = [xp.logsumexp(size - y * angle, 0) for size, angle in zip(sizes, angles)]
    return xp.minimum(xp.min(xp.logaddexp(xp.stack(found), xp.log(errors)), 0), 0.0)
