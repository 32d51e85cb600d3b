"""The dominating pairs of Gaussian noise: of the full adversary,
of one who sees only a magnitude, and its limit.
"""

import math

import jax

from jaxpriv import _array as xp
from jaxpriv._derived import derived, grown, product
from jaxpriv._pytree import pytree
from jaxpriv.stats import norm
from jaxpriv.stats._chi_square import quantile
from jaxpriv.stats._contour import (
    inside_range,
    log_likelihood_ratio,
    log_likelihood_ratio_and_slope,
)
from jaxpriv.stats._logspace import log_plus_reciprocal
from jaxpriv.stats._mills import log_mills_gap, normal
from jaxpriv.tradeoff.experiment import padded
from jaxpriv.tradeoff.laws import ChiSquare, Normal
from jaxpriv.tradeoff.pair import Pair, nan_like, safe_log


@pytree
class NormalShift(Pair):
    """N(0, 1) against N(mu, 1)."""

    mu: jax.Array

    def reversed(self):
        return self

    @property
    def null(self):
        return Normal(xp.zeros_like(self.mu))

    @property
    def alternative(self):
        return Normal(self.mu)

    def split(self):
        return self.mu != 0, NormalShift(xp.where(self.mu == 0, 1.0, self.mu))

    def log_ratio(self, t):
        return self.mu * (t - self.mu / 2)

    def find_threshold(self, eps):
        return eps / self.mu + self.mu / 2

    def log_delta_at(self, eps, t, reverse):
        """Both directions are the same test."""
        del t, reverse
        return log_mills_gap(eps, self.mu)

    def bracket(self, low, high, reverse):
        """`log_mills_gap` loses a few ulp of eps and of mu^2, the terms of its threshold,
        and of the logarithm.
        """
        proper, safe = self.split()
        mu = xp.minimum(safe.mu, 1e150)
        ulp = 16 * xp.finfo(mu.dtype).eps

        size = xp.where(proper, mu * mu, 0.0)
        ends = xp.stack([high + ulp * (xp.abs(high) + size), low - ulp * (xp.abs(low) + size)])
        gap = log_mills_gap(ends, xp.stack([mu, mu]))
        found = xp.where(proper, gap, self.same_law(ends))
        lower, upper = padded(found[0], found[1])
        upper = xp.where(safe.mu > 1e150, 0.0, upper)
        # a logarithm below the smallest number
        upper = xp.where(proper & (upper == -xp.inf), xp.finfo(mu.dtype).min, upper)
        some = proper & (gap[0] > -xp.inf)
        log_b = normal(high / mu + mu / 2)[0]
        return (
            lower,
            upper,
            xp.where(some, xp.exp(high + log_b - xp.where(some, gap[0], 0.0)), xp.inf),
        )

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta, concave in eps, from the right: delta <= sf(a)."""
        proper, safe = self.split()
        mu = safe.mu
        reachable = log_delta > -xp.inf
        target = xp.where(reachable, log_delta, -1.0)
        eps = xp.maximum(mu * (norm.isf_exp(xp.minimum(target, 0.0)) + mu / 2), 0.0)

        def step(eps):
            value = safe.log_delta_at(eps, None, reverse)
            log_b = normal(eps / mu + mu / 2)[0]
            change = (value - target) * xp.exp(value - eps - log_b)
            return xp.maximum(eps + xp.where(xp.isfinite(change), change, 0.0), 0.0)

        eps = xp.refined(step, eps, 9, 1e-9)
        return xp.where(
            proper, xp.where(reachable, eps, xp.inf), xp.zeros_like(eps) * nan_like(log_delta)
        )

    def tail_mu(self):
        return self.mu

    def auc(self):
        return xp.exp(normal(self.mu * math.sqrt(0.5))[1])

    def compose(self, n):
        return NormalShift(derived(grown, self.mu, n))

    def grouped(self, size):
        return NormalShift(derived(product, self.mu, size))


# Where y = nc t/(2 df) is smaller, log(1 + y) is taken for y: an error of y, where the general
# formula has one of eps/y.
_LINEAR = {"float64": 1e-8, "float32": 3e-4}


@pytree
class ChiSquareShift(Pair):
    """Squared magnitudes: chi-square with df degrees of freedom against noncentral
    chi-square with nc.
    """

    df: jax.Array
    nc: jax.Array

    @property
    def null(self):
        return ChiSquare(self.df)

    @property
    def alternative(self):
        return ChiSquare(self.df, self.nc)

    def split(self):
        return self.nc != 0, ChiSquareShift(self.df, xp.where(self.nc == 0, 1.0, self.nc))

    def log_ratio(self, t):
        return xp.where(
            t > 0, log_likelihood_ratio(inside_range(t), self.df, self.nc), -self.nc / 2
        )

    def both_at(self, t):
        """The laws in one evaluation: a batch twice as large is cheaper to
        compile than two kernels.
        """
        t, df = xp.stack([t, t]), xp.stack([self.df, self.df])
        values = ChiSquare(df, xp.stack([xp.zeros_like(self.nc), self.nc])).at(t)
        return tuple(v[0] for v in values), tuple(v[1] for v in values)

    def contact(self, eps, reverse):
        contacts = self._contacts(-eps[None] if reverse else eps[None], (reverse,))
        return contacts[0]

    def contacts(self, eps):
        """Both directions in one evaluation: their thresholds are at eps and -eps."""
        return self._contacts(xp.stack([eps, -eps]), (False, True))

    def _contacts(self, ratios, directions):
        proper, safe = self.split()
        wide = safe.aligned(ratios.shape, ratios.dtype)
        t = wide.threshold(ratios)
        null, alternative = wide.both_at(t)
        contacts = []
        for i, reverse in enumerate(directions):
            at_null, at_alternative = (tuple(v[i] for v in law) for law in (null, alternative))
            eps = -ratios[i] if reverse else ratios[i]
            regular = proper & (eps > -self.loss_bound(not reverse))
            log_delta = xp.where(regular, safe.log_gap(eps, t[i], at_null, at_alternative, reverse),
                                 self.same_law(eps))
            point = self.with_signal(proper, self.point(at_null, at_alternative, reverse), eps)
            contacts.append((xp.stop_gradient(log_delta), point))
        return tuple(contacts)

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def loss_size(self):
        return self.nc / 2

    def log_gap(self, eps, t, null, alternative, reverse, doubt=0.0):
        """Where the log ratio is linear, L = -nc/2 + nc t/(2 df) (up to t in reverse,
        up to t and df forward), by means.

            forward  E_P[(e^L(s) - e^L(t))+] = e^L(t) nc/(2 df) ((df - t) sf + 2t pdf)
            reverse  E_P[(1 - e^(L(s)-L(t)))+] = nc t/(2 df) ((1 - df/t) cdf + 2 pdf),

        both from sf_{df+2} = sf + 2 pdf_{df+2} and pdf_{df+2} = pdf t/df. For small t the last
        bracket is the series 2t pdf sum_k c_k (2k+2)/(df (df+2k+2)), c_k = t^k/((df+2)...(df+2k)),
        all of whose terms are positive. A doubt of the tails is there a relative one of
        sf/pdf or cdf/pdf.
        """
        general = super().log_gap(eps, t, null, alternative, reverse, doubt)
        df, at_start, t = self.df, t <= 0, inside_range(t)
        reach = t / df if reverse else xp.maximum(t / df, 1.0)
        y = 0.5 * self.nc * reach
        linear = y < _LINEAR[t.dtype.name]
        # L itself is off by y^2/(df + 2), y as here up to t:
        # less than 3y of what the tails make of it
        doubt = doubt + 3 * y * xp.sign(doubt)
        (logpdf, _, log_cdf, mills_up, mills_down), rate = null, xp.log(self.nc / (2 * df))
        tiny = xp.finfo(t.dtype).tiny
        if not reverse:
            mills = xp.exp(xp.where(linear, mills_up, 0.0))
            excess = (df - t) * mills + 2 * t - doubt * (df + t) * mills
            return xp.where(
                linear, alternative[0] + rate + xp.log(xp.maximum(excess, tiny)), general
            )

        def add(k, state):
            total, term = state
            return total + term * (2 * k + 2) / (df + 2 * k + 2), term * t / (df + 2 * k + 2)

        early, late = t < df / 4, t > df
        series = xp.fori_loop(0, 26, add, (xp.zeros_like(t), xp.ones_like(t)))[0] * 2 * t / df
        mills = xp.exp(xp.where(early | late, 0.0, mills_down))
        middle = mills * (1 - df / t) + 2 - doubt * mills * (1 + df / t)
        series = series * (1 - xp.clip(doubt, -1.0, 1.0))
        below = logpdf + xp.log(xp.maximum(xp.where(early, series, middle), tiny))
        above = log_cdf + xp.log(xp.maximum(1 - df / t, 0.0) + 2 * xp.exp(-mills_down)) - doubt
        value = xp.where(linear, rate + xp.log(t) + xp.where(late, above, below), general)
        return xp.where(at_start, -xp.inf, value)

    def loss_bound(self, reverse):
        return self.nc / 2 if reverse else xp.full_like(self.nc, xp.inf)

    def slopes(self, alpha):
        """Both directions' critical values as one quantile."""
        log_alpha, log_rest = safe_log(alpha), xp.log1p(-alpha)
        wide = self.aligned((2,) + alpha.shape, alpha.dtype)
        t = quantile(xp.stack([log_alpha, log_rest]), xp.stack([log_rest, log_alpha]), wide.df,
                     xp.stack([xp.zeros_like(self.nc), self.nc]))
        ratio = wide.log_ratio(t)
        return ratio[0], -ratio[1]

    def find_threshold(self, eps):
        """Newton on the concave log ratio; started where its leading part df g - (df/2) log(1+g)
        equals eps + nc/2.
        """
        df, nc = self.df, self.nc
        inside = eps > -nc / 2
        y = xp.where(inside, eps + nc / 2, 1.0)
        g = y / df + xp.sqrt(y / df)
        for _ in range(5):
            value = df / 2 * (log_plus_reciprocal(1 / (1 + g), -g / (1 + g)) + g)
            slope = df * (0.5 + g) / (1 + g)
            g = xp.maximum(g - (value - y) / slope, 0.1 * g)
        t = inside_range(df / nc * df * g * (1 + g))

        def step(t):
            ratio, slope = log_likelihood_ratio_and_slope(t, df, nc)
            change = (eps - ratio) / slope
            return inside_range(t + xp.clip(xp.where(inside, change, 0.0), -0.9 * t, 9 * t))

        t = xp.refined(step, t, 5, 1e-9)
        straight = df * (2 * y / nc)
        t = xp.where(y < _LINEAR[t.dtype.name], inside_range(straight), t)
        return xp.where(inside, t, xp.zeros_like(t) * nan_like(eps))

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta along the threshold, from the side where it is monotone.

        forward: delta <= Q(T > t) gives a start to the right;
        reverse: delta <= P(T <= t) one to the left.
        """
        proper, pair = self.split()
        reachable = (log_delta > -xp.inf) & (log_delta < 0)
        target = xp.where(reachable, log_delta, -1.0)
        t = inside_range(pair.null.ppf_exp(target) if reverse else pair.alternative.isf_exp(target))
        sign = -1.0 if reverse else 1.0

        def step(state):
            """The t that Newton's change of eps at the threshold t asks for, and eps with it."""
            t, _ = state
            null, alternative = pair.both_at(t)
            ratio, slope = log_likelihood_ratio_and_slope(t, pair.df, pair.nc)
            eps = sign * ratio
            value = pair.log_gap(eps, t, null, alternative, reverse)
            change = (value - target) * xp.exp(
                value - eps - (alternative[2] if reverse else null[1])
            )
            change = xp.where(xp.isfinite(change), change, 0.0)
            dt = sign * change / slope
            moved = (
                t * xp.exp(xp.clip(dt / t, -50.0, 50.0))
                if reverse
                else t + xp.clip(dt, -0.9 * t, t)
            )
            return inside_range(moved), eps + change

        _, eps = xp.refined(step, (t, xp.zeros_like(t)), 7, 1e-9)
        eps = xp.maximum(eps, 0.0)
        limit = xp.where(proper & (log_delta < 0), self.loss_bound(reverse), 0.0) * nan_like(
            log_delta
        )
        return xp.where(proper & reachable, xp.minimum(eps, limit), limit)

    def tail_mu(self):
        """sqrt(nc): for df >= 1 no curve of the pair lies below the full adversary's,
        and for alpha -> 0 they meet.
        """
        return xp.sqrt(self.nc)

    def compose(self, n):
        return ChiSquareShift(self.df, derived(product, self.nc, n))

    def full(self):
        return False

    def grouped(self, size):
        """The shifts of all records in one direction."""
        return ChiSquareShift(self.df, derived(product, self.nc, size * size))


@pytree
class NormalLimit(Pair):
    """N(0, 1) against N(shift, std), std >= 1, rejected for large T:
    Theorem 3's limit of the chi-square pair.

    The log ratio is a parabola in t, so this test is the best one only to the right of its vertex:
    `threshold` is the larger root, and where not rejecting at all levels but one does better,
    delta is 1 - e^eps.
    """

    shift: jax.Array
    std: jax.Array

    def full(self):
        return False

    @property
    def null(self):
        return Normal(xp.zeros_like(self.shift))

    @property
    def alternative(self):
        return Normal(self.shift, self.std)

    def log_ratio(self, t):
        """(1 - 1/s^2) t^2/2 + (m/s^2) t - (m^2/(2 s^2) + log s), where it rises:
        from the vertex on.
        """
        a, b, c = self._parabola()
        t = xp.maximum(t, xp.where(a > 0, -b / xp.where(a > 0, a, 1.0), -xp.inf))
        return t * (a / 2 * t + b) - c

    def _parabola(self):
        variance = self.std * self.std
        b = self.shift / variance
        return 1 - 1 / variance, b, self.shift * b / 2 + xp.log(self.std)

    def loss_size(self):
        """What std loses by rounding is one ulp of t^2,
        which is of the size of the tails' logarithms.
        """
        return self._parabola()[2]

    def find_threshold(self, eps):
        """The larger root of `log_ratio` = eps."""
        a, b, c = self._parabola()
        c = c + eps
        square = b * b + 2 * a * c
        root = xp.sqrt(xp.where(square > 0, square, 1.0))
        t = xp.where(c > 0, 2 * c / (b + root), (root - b) / xp.where(a > 0, a, 1.0))
        t = xp.where((c > 0) | (a > 0), t, c / b)
        return xp.where(square > 0, t, -xp.inf)

    def split(self):
        proper = (self.shift > 0) | (self.std > 1)
        return proper, NormalLimit(
            xp.where(proper, self.shift, 1.0), xp.where(proper, self.std, 1.0)
        )

    def log_delta(self, eps, reverse):
        bound = self.loss_bound(reverse)
        inside = eps < bound
        value = super().log_delta(xp.where(inside, eps, 0.0), reverse)
        return xp.maximum(xp.where(inside, value, -xp.inf), self.same_law(eps))

    def tail_mu(self):
        """The shift if both laws have one width; a wider alternative outruns every Gaussian
        curve for alpha -> 0.
        """
        return xp.where(self.std > 1, xp.inf, self.shift)

    def loss_bound(self, reverse):
        """Forward none; in reverse the depth of the parabola's vertex."""
        a, b, c = self._parabola()
        bent = a > 0
        depth = c + b * b / (2 * xp.where(bent, a, 1.0))
        return xp.where(bent, depth, xp.inf) if reverse else xp.full_like(self.shift, xp.inf)

    def errors(self, alpha, reverse):
        """Cut off at the diagonal, which the rejection of large T crosses near one end."""
        log_beta, log_power = super().errors(alpha, reverse)
        return (xp.minimum(log_beta, xp.log1p(-alpha)), xp.maximum(log_power, xp.log(alpha)))
