"""How fast the transform of a sampled mechanism with normal noise falls along a vertical line: what
bounds |M(c+iy')/M(c)| for all y' >= y, from slopes of the losses and of their law.

Parts of the law bound it by their density (`parts_beyond`), at frequencies that see each of them.
Of many steps at a small rate the product has long vanished there, and a path above the real axis
says so: as in `on_paths`, |M(c+iy)| is at most the integral of e^(A - y phi), A the logarithm of
the weights' modulus and phi >= 0 the angle of 1+u. No path is too low for the nodes that there are:

- Between two nodes A lies below its chord by at most curve step^2/8 if A'' >= -curve, and the
  exponential of a chord integrates to at most the mean of its ends: the integral is at most the sum
  over the nodes, times e^(curve step^2/8).
- 1+u is a sum F of w_k e^(s_k z) with angles in [0, pi/2), s_k in [0, widest]. There phi' = Im F'/F
  is between 0 and widest Im F/|F| <= widest phi, so that phi is at least e^(-widest step) times
  that of the next node on either side.
- (log F)'' is the variance of s_k under the complex weights, whose moduli add up to at most 1/cos
  of half the largest angle: at most widest^2/4 over the square of that.

What curves between nodes counts in each step. Of so many steps that this is too much the paths of
`on_paths` have more nodes.
"""

from typing import Any, NamedTuple

from jaxpriv import _array as xp
from jaxpriv.composition.on_paths import FEW, MANY, decay_on_paths, log_decay_on_paths

_DENSER = (1, 4, 16, 64, 256)  # how much: nodes of paths that see small losses of many steps
_LOWER = 8  # paths, each half as high as the one before
_LEFT_OUT = 1e-20  # beyond the nodes


class Slopes(NamedTuple):
    """At the nodes: l', the slope of the loss; (log f)', f the tilted law; lean = l''/l'. Bounds
    everywhere: widest of s_k, bend of |(log f)''| without the normal law's 1, and more of
    |(log l')''|.
    """

    loss: Any
    law: Any
    lean: Any
    widest: Any
    bend: Any
    more: Any


class Paths(NamedTuple):
    """(paths, nodes, ...): log of the weights' moduli, what curves between nodes included, and the
    least angle of 1+u around each; rest: log of what lies beyond the nodes.
    """

    size: Any
    angle: Any
    rest: Any


def of_shifts(tilt, slope, lean, widest):
    """The `Slopes` of a loss whose l' is the mean of posterior weights of shifts in [0, widest],
    and l'' their variance: l''/l' is the mean of the weights times shifts less that of the weights,
    and all second derivatives of logarithms are variances, at most widest^2/4.
    """
    most = widest * widest / 4
    return Slopes(slope, tilt.s * slope - tilt.x, lean, widest, xp.abs(tilt.s) * most, most)


def decay(transform, tilt, paths, slopes):
    """What `log_decay` needs: the more, the more paths are asked for; not in a program."""
    low, dense = (paths >= many and not xp.any_jax(tilt.x) for many in (FEW, MANY))
    return (
        parts_beyond(tilt, slopes),
        low_paths(tilt, slopes) if low else None,
        decay_on_paths(transform, tilt, _DENSER) if dense else None,
    )


def log_decay(known, y):
    """log of a bound of |M(c+iy')/M(c)| for y' >= y."""
    (mass, variation), paths, dense = known
    found = xp.log(xp.clip(xp.min(1 - mass + variation / y, 0), 1e-300, 1.0))
    if paths is not None:
        along = xp.min(xp.logsumexp(paths.size - y * paths.angle, 1), 0)
        found = xp.minimum(found, xp.minimum(xp.logaddexp(along, paths.rest), 0.0))
    return found if dense is None else xp.minimum(found, log_decay_on_paths(dense, y))


def parts_beyond(tilt, slopes):
    """(m, V) for every part {z >= x_k} of the tilted law: its mass and the variation of its loss's
    density f/l', which bound |M(c+iy)/M(c)| by (1 - m) + V/y.

    V is that density at both ends plus the integral of it times |(log f/l')'|. Between nodes both
    are bounded by their logarithms' second derivatives.
    """
    step, p = tilt.step, tilt.probability
    bend = 1 + slopes.bend
    rise, bend_f = xp.abs(slopes.law - slopes.lean), bend + slopes.more
    mass = xp.exp(-bend * step**2 / 8) * xp.flip(xp.cumsum(xp.flip(p, 0), 0), 0)
    top = p / (step * slopes.loss) * xp.exp(0.5 * rise * step + bend_f * step**2 / 8)
    change = step * top * (rise + 0.5 * bend_f * step)
    return mass, top + top[-1] + xp.flip(xp.cumsum(xp.flip(change, 0), 0), 0)


def low_paths(tilt, slopes):
    """The `Paths` at the height of the line's own and below."""
    widest, step = slopes.widest, tilt.step
    theta = tilt.height * 0.5 ** xp.arange(float(_LOWER)).reshape((-1, 1) + (1,) * tilt.height.ndim)
    size, _, _, angle = tilt.on_path(theta)
    curve = 1 + slopes.bend / xp.cos(0.5 * widest * theta) ** 2
    rest = xp.log(_LEFT_OUT + tilt.transform.end_error(tilt))
    return Paths(size + curve * step**2 / 8, xp.maximum(angle, 0.0) * xp.exp(-widest * step), rest)
