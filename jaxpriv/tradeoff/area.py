"""The area under a smooth ROC curve, from its profile's slopes instead of its levels; by NumPy.

With alpha(eps) = -delta'(eps) e^-eps the level at which a line of slope -e^eps touches f, and
df = -e^eps d alpha, the area under f left of the point (a, b) where its slope is -1 is, by parts,

    a b - int alpha df = a b + a^2/2 + 1/2 int_0^inf alpha^2 e^eps d eps,

and what lies right of it is the same of the exchanged hypotheses, less a b; if f is straight
there for a while, between both points, these two and a trapezoid. As a + b = 1 - delta(0) all along
that line, all of it is

    int f = (1 - delta(0))^2/2 + 1/2 int_0^inf (alpha^2 + alpha_r^2) e^eps d eps

with alpha_r of the exchanged hypotheses. No level has to be searched for its slope.
"""

import jax
import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# log delta where the integral ends: alpha falls and e^eps alpha = -delta', so that what is left is
# alpha delta at most
_DEEP = -20.0
_PANELS = 4, 8, 16, 32, 64


def smooth_auc(experiment, shape):
    """The area under the ROC curve; None where it is not smooth, or panels do not settle: where one
    direction takes over from the other alpha leaps.
    """
    same = experiment.smoothness()
    if same is None:
        return None
    directions = (False,) if experiment.reversed() is experiment else (False, True)
    ends = [experiment.epsilon(np.full(shape, _DEEP), reverse) for reverse in directions]
    if not np.isfinite(ends).all():
        return None
    rest = 0.5 * (1 - np.exp(experiment.log_delta(np.zeros(shape), False))) ** 2
    before = None
    for panels in _PANELS:
        area = rest + sum(_squares(experiment, end, reverse, panels) / len(directions)
                          for end, reverse in zip(ends, directions))
        if before is not None and np.all(np.abs(area - before) <= same):
            return 1 - area
        before = area
    return None


def _squares(experiment, end, reverse, panels):
    """int alpha^2 e^eps d eps up to `end`, by Gauss and Legendre's rule."""
    places = (np.arange(panels)[:, None] + 0.5 * (1 + _NODES)).ravel() / panels
    weights = np.tile(0.5 * _WEIGHTS, panels) / panels
    eps = places.reshape((-1,) + (1,) * end.ndim) * end
    wide = jax.tree.map(lambda leaf: leaf[None], experiment).aligned(eps.shape, eps.dtype)
    log_alpha = wide.touch(eps, reverse).log_alpha
    return np.tensordot(weights, np.exp(2 * log_alpha + eps), 1) * end
