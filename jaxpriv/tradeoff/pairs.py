"""The dominating pairs of additive noise: what the full adversary and the one who sees only a magnitude test against."""

import math

import jax
import jax.numpy as jnp

from jaxpriv.stats import norm
from jaxpriv.stats._chi_square import quantile
from jaxpriv.stats._contour import log_likelihood_ratio, log_likelihood_ratio_and_slope
from jaxpriv.stats._logspace import log1mexp, log_cosh, log_plus_reciprocal
from jaxpriv.stats._mills import log_mills_gap, normal
from jaxpriv.tradeoff.experiment import Point
from jaxpriv.tradeoff.laws import ChiSquare, Exponential, FoldedLaplace, Laplace, Normal, inside_support, pytree
from jaxpriv.tradeoff.pair import Pair, safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket


@pytree
class NormalShift(Pair):
    """N(0, 1) against N(mu, 1)."""

    mu: jax.Array

    @property
    def null(self):
        return Normal(jnp.zeros_like(self.mu))

    @property
    def alternative(self):
        return Normal(self.mu)

    def split(self):
        return self.mu != 0, NormalShift(jnp.where(self.mu == 0, 1.0, self.mu))

    def log_ratio(self, t):
        return self.mu * (t - self.mu / 2)

    def find_threshold(self, eps):
        return eps / self.mu + self.mu / 2

    def log_delta_at(self, eps, t, reverse):
        """Both directions are the same test: sf(a) - e^eps sf(a + mu), a = eps/mu - mu/2."""
        del t, reverse
        bound = 1e100 if eps.dtype == jnp.float64 else 1e15
        a = jnp.clip(eps / self.mu - self.mu / 2, -bound, bound)
        return log_mills_gap(a, a + self.mu)

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta, concave in eps, from the right: delta <= sf(a)."""
        proper, safe = self.split()
        mu = safe.mu
        reachable = log_delta > -jnp.inf
        target = jnp.where(reachable, log_delta, -1.0)
        eps = jnp.maximum(mu * (norm.isf_exp(jnp.minimum(target, 0.0)) + mu / 2), 0.0)

        def step(_, eps):
            value = safe.log_delta_at(eps, None, reverse)
            log_b = normal(eps / mu + mu / 2)[0]
            change = (value - target) * jnp.exp(value - eps - log_b)
            return jnp.maximum(eps + jnp.where(jnp.isfinite(change), change, 0.0), 0.0)

        eps = jax.lax.fori_loop(0, 9, step, eps)
        return jnp.where(proper, jnp.where(reachable, eps, jnp.inf), jnp.zeros_like(eps) * log_delta_nan(log_delta))

    def gaussian_mu(self):
        return self.mu

    def auc(self):
        return jnp.exp(normal(self.mu * math.sqrt(0.5))[1])

    def compose(self, n):
        return NormalShift(self.mu * n**0.5)


def log_delta_nan(log_delta):
    """1, or NaN where log_delta is NaN."""
    return jnp.where(jnp.isnan(log_delta), jnp.nan, 1.0)


@pytree
class ChiSquareShift(Pair):
    """Squared magnitudes: chi-square with df degrees of freedom against noncentral chi-square with nc."""

    df: jax.Array
    nc: jax.Array

    @property
    def null(self):
        return ChiSquare(self.df)

    @property
    def alternative(self):
        return ChiSquare(self.df, self.nc)

    def split(self):
        return self.nc != 0, ChiSquareShift(self.df, jnp.where(self.nc == 0, 1.0, self.nc))

    def log_ratio(self, t):
        return jnp.where(t > 0, log_likelihood_ratio(inside_support(t), self.df, self.nc), -self.nc / 2)

    def both_at(self, t):
        """The laws in one evaluation: a batch twice as large is cheaper to compile than two kernels."""
        t, df = jnp.stack([t, t]), jnp.stack([self.df, self.df])
        values = ChiSquare(df, jnp.stack([jnp.zeros_like(self.nc), self.nc])).at(t)
        return tuple(v[0] for v in values), tuple(v[1] for v in values)

    def contact(self, eps, reverse):
        contacts = self._contacts(-eps[None] if reverse else eps[None], (reverse,))
        return contacts[0]

    def contacts(self, eps):
        """Both directions in one evaluation: their thresholds are at eps and -eps."""
        return self._contacts(jnp.stack([eps, -eps]), (False, True))

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
            log_delta = jnp.where(regular, safe.log_gap(t[i], at_null, at_alternative, reverse), self.same_law(eps))
            contacts.append((jax.lax.stop_gradient(log_delta), self.point(at_null, at_alternative, reverse)))
        return tuple(contacts)

    def touch(self, eps, reverse):
        return self.contact(eps, reverse)[1]

    def log_gap(self, t, null, alternative, reverse):
        """Near t = 0 the ratio is 1 + nc t/(2 df) to first order, and the reverse delta its mean deficit under P."""
        value = super().log_gap(t, null, alternative, reverse)
        if not reverse:
            return value
        rise = self.nc / (2 * self.df) * inside_support(t)
        flat = rise < 1e-8
        first_order = null[2] + jnp.log(jnp.where(flat, rise, 1.0) * 2 / (self.df + 2))
        return jnp.where(flat, first_order, value)

    def loss_bound(self, reverse):
        return self.nc / 2 if reverse else jnp.full_like(self.nc, jnp.inf)

    def slopes(self, alpha):
        """Both directions' critical values as one quantile."""
        log_alpha, log_rest = safe_log(alpha), jnp.log1p(-alpha)
        wide = self.aligned((2,) + alpha.shape, alpha.dtype)
        t = quantile(jnp.stack([log_alpha, log_rest]), jnp.stack([log_rest, log_alpha]), wide.df,
                     jnp.stack([jnp.zeros_like(self.nc), self.nc]))
        ratio = wide.log_ratio(t)
        return ratio[0], -ratio[1]

    def find_threshold(self, eps):
        """Newton on the concave log ratio; started where its leading part df g - (df/2) log(1+g) equals eps + nc/2."""
        df, nc = self.df, self.nc
        inside = eps > -nc / 2
        y = jnp.where(inside, eps + nc / 2, 1.0)
        g = y / df + jnp.sqrt(y / df)
        for _ in range(5):
            value = df / 2 * (log_plus_reciprocal(1 / (1 + g), -g / (1 + g)) + g)
            slope = df * (0.5 + g) / (1 + g)
            g = jnp.maximum(g - (value - y) / slope, 0.1 * g)
        t = inside_support(df / nc * df * g * (1 + g))

        def step(_, t):
            ratio, slope = log_likelihood_ratio_and_slope(t, df, nc)
            change = (eps - ratio) / slope
            return inside_support(t + jnp.clip(jnp.where(inside, change, 0.0), -0.9 * t, 9 * t))

        t = jax.lax.fori_loop(0, 5, step, t)
        return jnp.where(inside, t, jnp.zeros_like(t) * log_delta_nan(eps))

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta along the threshold, from the side where it is monotone.

        forward: delta <= Q(T > t) gives a start to the right; reverse: delta <= P(T <= t) one to the left.
        """
        proper, pair = self.split()
        reachable = log_delta > -jnp.inf
        target = jnp.where(reachable, jnp.minimum(log_delta, 0.0), -1.0)
        t = inside_support(pair.null.ppf_exp(target) if reverse else pair.alternative.isf_exp(target))
        sign = -1.0 if reverse else 1.0

        def step(_, state):
            """eps at the threshold t with Newton's change of it, and the t that this change asks for."""
            t, _ = state
            null, alternative = pair.both_at(t)
            ratio, slope = log_likelihood_ratio_and_slope(t, pair.df, pair.nc)
            eps = sign * ratio
            value = pair.log_gap(t, null, alternative, reverse)
            change = (value - target) * jnp.exp(value - eps - (alternative[2] if reverse else null[1]))
            change = jnp.where(jnp.isfinite(change), change, 0.0)
            dt = sign * change / slope
            moved = t * jnp.exp(jnp.clip(dt / t, -50.0, 50.0)) if reverse else t + jnp.clip(dt, -0.9 * t, t)
            return inside_support(moved), eps + change

        _, eps = jax.lax.fori_loop(0, 7, step, (t, jnp.zeros_like(t)))
        eps = jnp.maximum(eps, 0.0)
        limit = jnp.where(proper, self.loss_bound(reverse), 0.0) * log_delta_nan(log_delta)
        return jnp.where(proper & reachable, jnp.minimum(eps, limit), limit)

    def gaussian_mu(self):
        """sqrt(nc): no curve of the pair lies below the full adversary's, and for alpha -> 0 they meet."""
        return jnp.sqrt(self.nc)

    def compose(self, n):
        return ChiSquareShift(self.df, self.nc * n)


@pytree
class NormalLimit(Pair):
    """N(0, 1) against N(shift, std), std >= 1, rejected for large T: Theorem 3's limit of the chi-square pair.

    The log ratio is a parabola in t, so this test is the best one only to the right of its vertex: `threshold` is the
    larger root, and where not rejecting at all levels but one does better, delta is 1 - e^eps.
    """

    shift: jax.Array
    std: jax.Array

    @property
    def null(self):
        return Normal(jnp.zeros_like(self.shift))

    @property
    def alternative(self):
        return Normal(self.shift, self.std)

    def find_threshold(self, eps):
        """The larger root of (1 - 1/s^2) t^2/2 + (m/s^2) t - (m^2/(2 s^2) + log s + eps) = 0."""
        variance = self.std * self.std
        a, b = 1 - 1 / variance, self.shift / variance
        c = self.shift * b / 2 + jnp.log(self.std) + eps
        square = b * b + 2 * a * c
        root = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        t = jnp.where(c > 0, 2 * c / (b + root), (root - b) / jnp.where(a > 0, a, 1.0))
        t = jnp.where((c > 0) | (a > 0), t, c / b)
        return jnp.where(square > 0, t, -jnp.inf)

    def split(self):
        proper = (self.shift > 0) | (self.std > 1)
        return proper, NormalLimit(jnp.where(proper, self.shift, 1.0), jnp.where(proper, self.std, 1.0))

    def log_delta(self, eps, reverse):
        return jnp.maximum(super().log_delta(eps, reverse), self.same_law(eps))

    def loss_bound(self, reverse):
        """Forward none; in reverse the depth of the parabola's vertex."""
        curvature = 1 - 1 / self.std**2
        mean_part = self.shift * self.shift / (2 * self.std**2)
        bent = curvature > 0
        depth = mean_part + jnp.log(self.std) + mean_part / (self.std**2 * jnp.where(bent, curvature, 1.0))
        return jnp.where(bent, depth, jnp.inf) if reverse else jnp.full_like(self.shift, jnp.inf)

    def errors(self, alpha, reverse):
        """Cut off at the diagonal, which the rejection of large T crosses near one end."""
        log_beta, log_power = super().errors(alpha, reverse)
        return (jnp.minimum(log_beta, jnp.log1p(-alpha)), jnp.maximum(log_power, jnp.log(alpha)))

    def solve_epsilon(self, log_delta, reverse):
        """Newton on log delta inside [0, bound], the bound from delta <= Q(T > t) or P(T <= t)."""
        reachable = log_delta > -jnp.inf
        target = jnp.where(reachable, log_delta, -1.0)
        t = self.null.ppf_exp(target) if reverse else self.alternative.isf_exp(target)
        ratio = self.log_ratio(t)
        high = jnp.maximum(-ratio if reverse else ratio, 0.0)

        def excess(eps):
            value = self.log_delta(eps, reverse)
            return target - value, jnp.exp(eps + self.touch(eps, reverse).log_alpha - value)

        eps = newton_in_bracket(excess, jnp.zeros_like(high), high)
        return jnp.where(reachable, eps, jnp.inf)


@pytree
class LaplaceShift(Pair):
    """Laplace(0, 1) against Laplace(ratio, 1); the log ratio is 2t - ratio, cut off at -ratio and ratio."""

    ratio: jax.Array

    @property
    def null(self):
        return Laplace(jnp.zeros_like(self.ratio))

    @property
    def alternative(self):
        return Laplace(self.ratio)

    def log_ratio(self, t):
        return jnp.clip(2 * t - self.ratio, -self.ratio, self.ratio)

    def threshold(self, eps):
        t = (eps + self.ratio) / 2
        return jnp.where(eps > self.ratio, jnp.inf, jnp.where(eps < -self.ratio, -jnp.inf, t))

    def log_delta(self, eps, reverse):
        """delta = 1 - exp((eps - ratio)/2) for |eps| < ratio, and both directions are the same test."""
        del reverse
        inside = jnp.abs(eps) < self.ratio
        value = log1mexp(jnp.where(inside, (eps - self.ratio) / 2, -1.0))
        return jnp.where(inside, value, self.same_law(eps))

    def epsilon(self, log_delta, reverse):
        del reverse
        below_one = log_delta < 0
        return jnp.where(below_one, jnp.maximum(self.ratio + 2 * log1mexp(jnp.where(below_one, log_delta, -1.0)), 0.0),
                         0.0 * log_delta_nan(log_delta))

    def loss_bound(self, reverse):
        return self.ratio

    def gaussian_mu(self):
        """The curves meet where alpha = beta = e^(-ratio/2)/2.

        mu(alpha) = -ppf(alpha) - ppf(beta): on the middle piece alpha beta is constant and -ppf is concave in log alpha;
        on the outer pieces mu grows towards the middle one, because cdf/pdf grows along the axis.
        """
        return 2 * norm.isf_exp(-self.ratio / 2 - math.log(2.0))

    def kinks(self, reverse):
        return (0.5 * jnp.exp(-self.ratio), jnp.full_like(self.ratio, 0.5))


@pytree
class FoldedLaplaceShift(Pair):
    """Magnitudes of Laplace noise: Exponential against FoldedLaplace(c), c = ratio.

    The ratio q/p(t) = e^-c (e^2t + 1)/2 grows up to t = c and is cosh c beyond, so the forward direction is pure
    log cosh c, the reverse one pure c (its largest loss, at t = 0). With the threshold inserted,
        forward  delta = 1 - e^(t-c),      t - c = log(2 e^(eps-c) - e^(-2c))/2
        reverse  delta = 1 - 1/cosh t,     t     = log(2 e^(c-eps) - 1)/2.
    """

    ratio: jax.Array

    @property
    def null(self):
        return Exponential()

    @property
    def alternative(self):
        return FoldedLaplace(self.ratio)

    def log_ratio(self, t):
        t = jnp.clip(t, 0.0, self.ratio)
        return t - self.ratio + log_cosh(t)

    def threshold(self, eps):
        inside = (eps > -self.ratio) & (eps <= log_cosh(self.ratio))
        y = jnp.where(inside, eps + self.ratio, 0.0)
        t = 0.5 * (y + jnp.log1p(-jnp.expm1(-y)))
        return jnp.where(inside, jnp.minimum(t, self.ratio), jnp.where(eps <= -self.ratio, 0.0, jnp.inf) * log_delta_nan(eps))

    def touch(self, eps, reverse):
        point = super().touch(eps, reverse)
        # beyond the largest loss of the reverse direction nothing is left of the atom-free null
        if not reverse:
            return point
        out = eps > self.ratio
        nothing, everything = jnp.full_like(eps, -jnp.inf), jnp.zeros_like(eps)
        none = Point(nothing, everything, everything, nothing)
        return jax.tree.map(lambda end, inner: jnp.where(out, end, inner), none, point)

    def log_delta(self, eps, reverse):
        c = self.ratio
        below = eps <= (-log_cosh(c) if reverse else -c)
        zero = eps >= (c if reverse else log_cosh(c))
        inside = ~(below | zero)
        e = jnp.where(inside, eps, 0.0)
        if reverse:
            y = jnp.where(inside, c - e, 1.0)
            t = 0.5 * (y + jnp.log1p(-jnp.expm1(-y)))
            half = jnp.sinh(jnp.minimum(t, 30.0) / 2)
            small = jnp.log(2 * half * half) - log_cosh(t)
            value = jnp.where(t < 30.0, small, jnp.log1p(-jnp.exp(-log_cosh(t))))
        else:
            gap = jnp.where(inside, e - log_cosh(c), -0.1)
            value = log1mexp(0.5 * jnp.log1p((1 + jnp.exp(-2 * c)) * jnp.expm1(gap)))
        return jnp.where(inside, value, self.same_law(eps))

    def epsilon(self, log_delta, reverse):
        """Solve the closed forms: t from delta, then eps = log q/p(t) or its negative."""
        c = self.ratio
        log_rest = log1mexp(jnp.minimum(log_delta, 0.0))
        if reverse:
            # cosh t = 1/(1-delta): t = asinh(sqrt(delta (2-delta))/(1-delta))
            delta = jnp.exp(log_delta)
            cut = jnp.where(delta < 1, delta, 0.0)
            positive = cut > 0
            root = jnp.sqrt(jnp.where(positive, cut * (2 - cut), 1.0))
            t = jnp.where(positive, jnp.arcsinh(root / (1 - cut)), 0.0)
            eps = c - t - log_cosh(t)
            eps = jnp.where(delta < 1, eps, -jnp.inf)
        else:
            t = jnp.maximum(c + jnp.maximum(log_rest, -c), 0.0)
            eps = t - c + log_cosh(t)
            eps = jnp.where(log_rest > -c, eps, -jnp.inf)
        return jnp.maximum(eps, 0.0) * log_delta_nan(log_delta)

    def loss_bound(self, reverse):
        return self.ratio if reverse else log_cosh(self.ratio)

    def kinks(self, reverse):
        return (-0.5 * jnp.expm1(-2 * self.ratio),) if reverse else (jnp.exp(-self.ratio),)
