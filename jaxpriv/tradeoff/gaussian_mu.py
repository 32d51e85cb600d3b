"""The smallest Gaussian curve below a trade-off function, found with a certified upper bound.

G_mu <= f says mu >= h(z) = Phi^-1(power) - z for every level alpha = Phi(z). Along the curve
h' = e^eps phi(z)/phi(y) - 1 with y = Phi^-1(power) and eps the slope, which falls with alpha; so on
a cell of the z-axis h is at most the larger end value plus half the width times the largest |h'|
that the end values allow, and at most the right one plus the width, for y grows. Cells that could
hold the maximum are split again. Only z <= 0 is searched, in both directions: alpha and beta do not
both exceed 1/2.
"""

import math

from jaxpriv import _array as xp
from jaxpriv.stats import norm

_KEPT, _SPLIT, _ROUNDS = 24, 16, 6


def certified_mu(errors_and_slope, largest_loss, dtype):
    """An upper bound of sup h over alpha <= 1/2, tight to about 1e-9 where h is largest at an
    alpha that is a number, for one curve with losses up to largest_loss.
    """
    ulp, most = 16 * xp.finfo(dtype).eps, 700.0 if dtype == xp.float64 else 80.0
    edge = xp.minimum(8.0 + 2 * xp.sqrt(largest_loss), 37.0 if dtype == xp.float64 else 12.0)

    def heights(z):
        """(h, y, slope) at alpha = Phi(z), y from the smaller error's logarithm."""
        (log_beta, log_power), slope = errors_and_slope(norm.cdf(z))
        likely = log_power > log_beta
        half = -math.log(2.0)
        y = xp.where(likely, norm.isf_exp(xp.where(likely, log_beta, half)),
                     norm.ppf_exp(xp.where(likely, half, log_power)))
        return y - z, y, slope

    def doubt(z, y, slope):
        """Of y: alpha is rounded, which moves power by e^slope times as much, y by that over its
        density. Just before a vertex of a steep piece this is far more than y's own rounding.
        """
        moved = norm.logcdf(z) + slope - norm.logpdf(y)
        return ulp * (1 + z * z) * xp.exp(xp.minimum(moved, most)) + ulp * xp.abs(y)

    def beyond(y):
        """Of h at all z <= -edge, y the quantile of the power p at -edge, or more.

        There power <= min(p, e^loss alpha). Phi^-1(e^loss Phi(z)) - z grows with z, for the hazard
        phi/Phi falls, and Phi^-1(p) - z falls: h is largest where both meet, which is not behind
        the edge.
        """
        finite = xp.isfinite(largest_loss)
        loss = xp.where(finite, largest_loss, 0.0)
        meet = norm.ppf_exp(norm.logcdf(y) - loss - ulp * (loss + edge * edge))
        return xp.where(finite, y - xp.minimum(meet, -edge), xp.inf)

    def loss_bound(left, right):
        """power <= e^loss alpha, and beta >= e^-loss (1 - alpha),
        bound h on a cell in proportion to the loss.
        """
        log_alpha, loss = norm.logcdf(right), largest_loss * (1 + ulp)
        log_most = log_alpha * (1 - ulp) + loss
        first = norm.ppf_exp(xp.minimum(log_most, 0.0)) - right
        second = norm.isf_exp(norm.logsf(left) * (1 + ulp) - loss) - left
        return xp.minimum(first, second)

    def bound(ends):
        """Of h on the cells between these (..., n + 1), and of y at the leftmost."""
        left, right = ends[..., :-1], ends[..., 1:]
        (h_l, h_r), (y_l, y_r), (eps_l, eps_r) = (
            (column[..., :-1], column[..., 1:]) for column in heights(ends)
        )
        width = right - left
        off_l, off_r = doubt(left, y_l, eps_l), doubt(right, y_r, eps_l)
        # where beta is too small a number y is infinite, and the losses alone bound h
        lows = xp.where(h_l < xp.inf, xp.maximum(h_l - off_l - width, 0.0), 0.0)
        highs = xp.maximum(xp.minimum(h_r + off_r + width, loss_bound(left, right)), lows)
        # phi(z)/phi(y) = exp(h (y+z)/2), over the box of h and y + z
        corners = xp.stack([h * s for h in (lows, highs) for s in (y_l + left, y_r + right)])
        steepest = xp.expm1(eps_l + 0.5 * xp.max(corners, 0))
        flattest = -xp.expm1(eps_r + 0.5 * xp.min(corners, 0))
        rise = 0.5 * width * xp.maximum(xp.maximum(steepest, flattest), 0.0)
        rise = xp.where(xp.isnan(rise), xp.inf, rise)
        bounds = xp.minimum(xp.maximum(h_l + off_l, h_r + off_r) + rise, highs)
        return bounds, (y_l + off_l).ravel()[0]

    def split(_, state):
        settled, left, right, bounds = state
        top, index = xp.largest(bounds, _KEPT + 1)
        index = index[:-1]
        ends = left[index][:, None] + (right - left)[index][:, None] * xp.linspace(
            0.0, 1.0, _SPLIT + 1, dtype=dtype
        )
        left, right, bounds = ends[:, :-1], ends[:, 1:], bound(ends)[0]
        return xp.maximum(settled, top[-1]), left.ravel(), right.ravel(), bounds.ravel()

    nodes = edge * xp.linspace(-1.0, 0.0, _KEPT * _SPLIT + 1, dtype=dtype)
    bounds, y = bound(nodes)
    start = xp.asarray(beyond(y), dtype), nodes[:-1], nodes[1:], bounds
    settled, _, _, bounds = xp.fori_loop(0, _ROUNDS, split, start)
    return xp.maximum(settled, xp.max(bounds)) + 32 * xp.finfo(dtype).eps * edge
