"""The smallest Gaussian curve below a trade-off function, found with a certified upper bound.

G_mu <= f says mu >= h(z) = Phi^-1(power) - z for every level alpha = Phi(z). Along the curve h' = e^eps phi(z)/phi(y) - 1
with y = Phi^-1(power) and eps the slope, which falls with alpha; so on a cell of the z-axis h is at most the larger end
value plus half the width times the largest |h'| that the end values allow. Cells that could hold the maximum are split
again. Only z <= 0 is searched, in both directions: alpha and beta do not both exceed 1/2.
"""

import jax
import jax.numpy as jnp

from jaxpriv.stats import norm

_KEPT, _SPLIT, _ROUNDS = 24, 16, 6


def certified_mu(errors_and_slope, largest_loss, dtype):
    """An upper bound of sup h over alpha <= 1/2, tight to about 1e-9, for one curve with losses up to largest_loss.

    Beyond z = -edge a loss moves the quantile by less than largest_loss/edge, which is below h at the diagonal.
    """
    edge = jnp.minimum(8.0 + 2 * jnp.sqrt(largest_loss), 37.0 if dtype == jnp.float64 else 12.0)

    def heights(z):
        """(h, y, slope) at alpha = Phi(z)."""
        (_, log_power), slope = errors_and_slope(norm.cdf(z))
        y = norm.ppf_exp(log_power)
        return y - z, y, slope

    def loss_bound(left, right):
        """power <= e^loss alpha, and beta >= e^-loss (1 - alpha), bound h on a cell in proportion to the loss."""
        first = norm.ppf_exp(jnp.minimum(norm.logcdf(right) + largest_loss, 0.0)) - right
        second = norm.isf_exp(norm.logsf(left) - largest_loss) - left
        return jnp.minimum(first, second)

    def bound(left, right):
        (h_l, y_l, eps_l), (h_r, y_r, eps_r) = heights(left), heights(right)
        width = right - left
        lows = jnp.maximum(h_l - width, 0.0)
        highs = jnp.maximum(jnp.minimum(h_r + width, loss_bound(left, right)), lows)
        # phi(z)/phi(y) = exp(h (y+z)/2), over the box of h and y + z
        corners = jnp.stack([h * s for h in (lows, highs) for s in (y_l + left, y_r + right)])
        steepest = jnp.expm1(eps_l + 0.5 * jnp.max(corners, 0))
        flattest = -jnp.expm1(eps_r + 0.5 * jnp.min(corners, 0))
        return jnp.maximum(h_l, h_r) + 0.5 * width * jnp.maximum(jnp.maximum(steepest, flattest), 0.0)

    def split(_, state):
        settled, left, right, bounds = state
        top, index = jax.lax.top_k(bounds, _KEPT + 1)
        index = index[:-1]
        ends = left[index][:, None] + (right - left)[index][:, None] * jnp.linspace(0.0, 1.0, _SPLIT + 1, dtype=dtype)
        left, right = ends[:, :-1].ravel(), ends[:, 1:].ravel()
        return jnp.maximum(settled, top[-1]), left, right, bound(left, right)

    nodes = edge * jnp.linspace(-1.0, 0.0, _KEPT * _SPLIT + 1, dtype=dtype)
    start = jnp.asarray(largest_loss / edge, dtype), nodes[:-1], nodes[1:]
    settled, _, _, bounds = jax.lax.fori_loop(0, _ROUNDS, split, (*start, bound(*start[1:])))
    return jnp.maximum(settled, jnp.max(bounds)) + 32 * jnp.finfo(dtype).eps * edge
