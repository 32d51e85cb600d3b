"""The area under a ROC curve from its profile's slopes instead of its levels; by NumPy.

With alpha(eps) = -delta'(eps) e^-eps the level at which a line of slope -e^eps touches f, and
df = -e^eps d alpha, the area under f left of the point (a, b) where its slope is -1 is, by parts,

    a b - int alpha df = a b + a^2/2 + 1/2 int_0^inf alpha^2 e^eps d eps,

and what lies right of it is the same of the exchanged hypotheses, less a b; if f is straight
there for a while, between both points, these two and a trapezoid. As a + b = 1 - delta(0) all along
that line, all of it is

    int f = (1 - delta(0))^2/2 + 1/2 int_0^inf (alpha^2 + alpha_r^2) e^eps d eps

with alpha_r of the exchanged hypotheses. No level has to be searched for its slope. At corners'
straight sides, and where one direction takes over from the other, alpha leaps: panels are halved
where their halves add up to something else.
"""

import jax
import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# log delta, in units of the advantage and without what tells everything, where the integral ends:
# alpha falls and e^eps alpha = -delta', so that what is left is alpha delta at most
_DEEP = -20.0
_SAME = 1e-9  # of the advantage: what a panel's halves may add up to differently
# panels to begin with; how often they are halved, and how many at once: beyond it is noise
_PANELS, _HALVED, _MOST = 4, 40, 1024


def area(experiment, shape):
    """The area under the ROC curve, or None where nothing ends the integral."""
    directions = (False,) if experiment.reversed() is experiment else (False, True)
    most = experiment.log_delta(np.zeros(shape), False)
    deep = [np.logaddexp(experiment.log_told(reverse)[1], most + _DEEP) for reverse in directions]
    ends = [experiment.epsilon(at, reverse) for at, reverse in zip(deep, directions)]
    if not np.isfinite(ends).all():
        return None
    advantage = np.exp(most)
    squares = sum(_squares(experiment, end, reverse, _SAME * advantage)
                  for end, reverse in zip(ends, directions))
    return 1 - 0.5 * (1 - advantage) ** 2 - squares / len(directions)


def _squares(experiment, end, reverse, same):
    """int alpha^2 e^eps d eps up to `end`."""
    left, width = np.arange(_PANELS) / _PANELS, 1 / _PANELS
    whole, total = _panels(experiment, end, reverse, left, width), 0.0
    for _ in range(_HALVED):
        width = 0.5 * width
        halves = np.stack([left, left + width], -1)
        parts = _panels(experiment, end, reverse, halves.ravel(), width)
        parts = parts.reshape(halves.shape + end.shape)
        sums = parts.sum(1)
        differ = np.abs(sums - whole) > same
        again = differ.reshape(len(left), -1).any(1)
        again &= again.sum() <= _MOST
        total = total + sums[~again].sum(0)
        if not again.any():
            break
        left, whole = halves[again].ravel(), parts[again].reshape(-1, *end.shape)
    else:
        total = total + whole.sum(0)
    return total


def _panels(experiment, end, reverse, left, width):
    """By Gauss and Legendre's rule, from each `left` on; ends in units of `end`."""
    places = (left[:, None] + 0.5 * width * (1 + _NODES)).ravel()
    eps = places.reshape((-1,) + (1,) * end.ndim) * end
    wide = jax.tree.map(lambda leaf: leaf[None], experiment).aligned(eps.shape, eps.dtype)
    log_alpha = wide.touch(eps, reverse).log_alpha
    values = np.exp(2 * log_alpha + eps).reshape(left.size, _NODES.size, *end.shape)
    return np.einsum("k,pk...->p...", 0.5 * _WEIGHTS, values) * width * end
