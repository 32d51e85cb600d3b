"""What reporting one Gaussian curve in place of a trade-off function gives away.

f(alpha + kappa) - kappa <= G(alpha) at every alpha says, of the conjugates, which turn the order
round and a shift into a line, delta_f(eps) + kappa (1 + e^eps) >= delta_G(eps) at every real eps.
At -eps this is the same of f^-1 at eps, for G is its own inverse, so that the least kappa is

    max over eps >= 0 of (delta_G(eps) - min(delta_f, delta_f^-1)(eps))/(1 + e^eps).

Between two x = e^eps delta_G lies under its chord, and delta_f above the secants next to it,
continued: their difference over 1 + x is largest at an end or where the secants hand over.
"""

import jax

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE
from jaxpriv.tradeoff.cells import summit, supremum
from jaxpriv.tradeoff.evaluate import elementwise
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.slack import directions, rows_of_profile

_FAR = 40.0  # an eps beyond which no kappa above e^-40 is asked for
_BLURRED = 1e-7  # of it: by how much profiles may be off before other means are asked
_SMALL = 1e-10  # a bracket as narrow as this is narrow enough
_CAREFUL = 32
_MOST = 40  # cells are cheap but where profiles are


def _last(mu):
    """The eps up to which is searched: ten deviations beyond where delta_G is 1/2."""
    return xp.where(mu > 0, xp.minimum(_FAR, mu * mu / 2 + 10 * mu), 1.0)


@elementwise(NONNEGATIVE, "mu")
def regret(experiment, mu):
    """An estimate, with first derivatives."""
    last = xp.stop_gradient(_last(mu))

    def height(experiment, mu, eps, also=None):
        """At eps; with the profile at another, which is the same there."""
        at = eps if also is None else also
        found = [xp.exp(experiment.log_delta(at, r)) for r in directions(experiment)]
        least = found[0] if len(found) == 1 else xp.minimum(*found)
        return (xp.exp(NormalShift(mu).log_delta(eps, False)) - least) / (1 + xp.exp(eps))

    def heights(eps):
        spread = jax.tree.map(lambda leaf: leaf[None], fixed).aligned(eps.shape, eps.dtype)
        return height(spread, xp.broadcast_to(still, eps.shape), eps)

    # where the largest is does not move it (envelope theorem)
    fixed, still = xp.stop_gradient((experiment, mu))
    eps = xp.stop_gradient(summit(heights, last, experiment.cornered()))
    found = xp.maximum(height(experiment, mu, eps), 0.0)
    for reverse in directions(experiment):
        # but at the largest loss, where a profile has a kink, which moves; it is flat beyond
        edge = experiment.loss_bound(reverse)
        inside = xp.stop_gradient(edge) < _FAR
        edge = xp.where(inside, edge, 1.0)
        beyond = xp.stop_gradient(edge) * (1 + 64 * xp.finfo(mu.dtype).eps)
        kink = xp.where(inside, height(experiment, mu, edge, beyond), 0.0)
        found = xp.where(kink >= found, kink, found)
    return found


@elementwise(NONNEGATIVE, "mu")
def bounds_of_regret(experiment, mu):
    """Certified (lower, upper)."""

    def one(entry):
        experiment, mu, last = entry
        found = [_certified(experiment, mu, last, r) for r in directions(experiment)]
        lower, upper = zip(*found)
        return xp.max(xp.stack(lower)), xp.max(xp.stack(upper))

    flat = jax.tree.map(lambda leaf: leaf.reshape((mu.size,) + leaf.shape[mu.ndim :]), experiment)
    found = xp.each(one, (flat, mu.ravel(), _last(mu).ravel()))
    return tuple(bound.reshape(mu.shape) for bound in found)


def _certified(experiment, mu, last, reverse):
    ulp = xp.finfo(mu.dtype).eps
    more, less = 1 + _CAREFUL * ulp, 1 - _CAREFUL * ulp

    def gaussian(eps):
        lower, upper, _ = NormalShift(xp.broadcast_to(mu, eps.shape)).bracket(eps, eps, False)
        return xp.exp(lower) * less, xp.exp(upper) * more

    def look(ends, level):
        # secants need a point beyond both ends; eps < 0 would be another line of frequencies
        width = (ends[:, -1:] - ends[:, :1]) / (ends.shape[1] - 1)
        before, after = xp.maximum(ends[:, :1] - width, 0.0), ends[:, -1:] + width
        wide = xp.concatenate([before, ends, after], 1)
        little = xp.maximum(_BLURRED * level, _SMALL) * (1 + xp.exp(wide))
        lower, upper = rows_of_profile(experiment, reverse, wide, little)
        f_low, f_high = xp.exp(lower) * less, xp.exp(upper) * more
        gaps = xp.exp(wide[:, :-1]) * xp.expm1(wide[:, 1:] - wide[:, :-1])
        safe = xp.where(gaps > 0, gaps, 1.0)
        # of slopes, which are between -1 and 0: one below that left of a point, one above that
        # right of it
        steep = (f_low[:, 1:] - f_high[:, :-1]) / safe
        steep = xp.maximum(xp.where(gaps > 0, xp.minimum(steep * less, steep * more), -1.0), -1.0)
        flat = (f_high[:, 1:] - f_low[:, :-1]) / safe
        flat = xp.minimum(xp.maximum(flat * less, flat * more), 0.0)
        g_low, g_high = gaussian(ends)
        f_low, f_high = f_low[:, 1:-1], f_high[:, 1:-1]
        x = xp.exp(ends)
        reached = xp.max((g_low * less - f_high * more) / ((1 + x) * more))
        level = xp.maximum(level, xp.max((g_high - f_low) / (1 + x)))

        width = gaps[:, 1:-1] * more
        left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
        chord = 0.5 * (g_high[left] + g_high[right])
        middle = 0.5 * (x[left] + x[right])

        def over(top, bottom, point):
            """What is asked for at a point, where f may be as low as `bottom`, rounded up."""
            size = xp.abs(top) + xp.abs(bottom)
            return (top - bottom + _CAREFUL * ulp * size) / (1 + point) * more

        from_left = f_low[left] + 0.5 * width * steep[:, :-2]
        from_right = f_low[right] - 0.5 * width * flat[:, 2:]
        start = xp.maximum(over(g_high[left], f_low[left], x[left]), over(chord, from_left, middle))
        # the line from the right serves the whole cell, too
        other = xp.maximum(
            over(g_high[left], f_low[right] - width * flat[:, 2:], x[left]),
            over(chord, from_right, middle),
        )
        stop = xp.maximum(
            over(chord, from_right, middle), over(g_high[right], f_low[right], x[right])
        )
        bounds = xp.maximum(xp.maximum(xp.minimum(start, other), stop), 0.0)
        return bounds, xp.maximum(reached, 0.0), level

    lower, upper = supremum(look, last, least=_SMALL, most=_MOST)
    beyond = gaussian(last)[1] / (1 + xp.exp(last)) * more
    return lower, xp.maximum(upper, beyond)
