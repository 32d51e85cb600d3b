"""The smallest Gaussian curve below a trade-off function, found with a certified upper bound.

G_mu <= f says mu >= h(z) = Phi^-1(power) - z for every level alpha = Phi(z). Along the curve
h' = e^eps phi(z)/phi(y) - 1 with y = Phi^-1(power) and eps the slope, which falls with alpha; so on
a cell of the z-axis h is at most the larger end value plus half the width times the largest |h'|
that the end values allow, and at most the right one plus the width, for y grows. Cells that could
hold the maximum are split again. Only z <= 0 is searched, in both directions: alpha and beta do not
both exceed 1/2.
"""

from jaxpriv import _array as xp
from jaxpriv.stats import norm

_KEPT, _SPLIT, _ROUNDS = 24, 16, 6


def certified_mu(errors_and_slope, largest_loss, dtype):
    """An upper bound of sup h over alpha <= 1/2, tight to about 1e-9 where h is largest at an
    alpha that is a number, for one curve with losses up to largest_loss.
    """
    edge = xp.minimum(8.0 + 2 * xp.sqrt(largest_loss), 37.0 if dtype == xp.float64 else 12.0)

    def heights(z):
        """(h, y, slope) at alpha = Phi(z)."""
        (_, log_power), slope = errors_and_slope(norm.cdf(z))
        y = norm.ppf_exp(log_power)
        return y - z, y, slope

    def beyond(y):
        """Of h at all z <= -edge, y the quantile of the power p at -edge.

        There power <= min(p, e^loss alpha). Phi^-1(e^loss Phi(z)) - z grows with z, for the hazard
        phi/Phi falls, and Phi^-1(p) - z falls: h is largest where both meet, or at the edge.
        """
        finite = xp.isfinite(largest_loss)
        loss = xp.where(finite, largest_loss, 0.0)
        meet = xp.minimum(norm.ppf_exp(norm.logcdf(y) - loss), -edge)
        height = norm.ppf_exp(xp.minimum(norm.logcdf(meet) + loss, 0.0)) - meet
        return xp.where(finite, height, xp.inf)

    def loss_bound(left, right):
        """power <= e^loss alpha, and beta >= e^-loss (1 - alpha),
        bound h on a cell in proportion to the loss.
        """
        first = norm.ppf_exp(xp.minimum(norm.logcdf(right) + largest_loss, 0.0)) - right
        second = norm.isf_exp(norm.logsf(left) - largest_loss) - left
        return xp.minimum(first, second)

    def bound(ends):
        """Of h on the cells between these (..., n + 1), and y at the leftmost."""
        left, right = ends[..., :-1], ends[..., 1:]
        (h_l, h_r), (y_l, y_r), (eps_l, eps_r) = (
            (column[..., :-1], column[..., 1:]) for column in heights(ends)
        )
        width = right - left
        lows = xp.maximum(h_l - width, 0.0)
        highs = xp.maximum(xp.minimum(h_r + width, loss_bound(left, right)), lows)
        # phi(z)/phi(y) = exp(h (y+z)/2), over the box of h and y + z
        corners = xp.stack([h * s for h in (lows, highs) for s in (y_l + left, y_r + right)])
        steepest = xp.expm1(eps_l + 0.5 * xp.max(corners, 0))
        flattest = -xp.expm1(eps_r + 0.5 * xp.min(corners, 0))
        rise = 0.5 * width * xp.maximum(xp.maximum(steepest, flattest), 0.0)
        return xp.minimum(xp.maximum(h_l, h_r) + rise, highs), y_l.ravel()[0]

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
