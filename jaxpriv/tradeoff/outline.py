"""A smooth curve through a few of its points, by NumPy: where a chain of levels is looked for whose
links would each be a search on the curve itself.

In normal quantiles, x of a level and y of its power, a curve is nearly straight: a Gaussian one is
y = x - mu. Between two of its points it is a cubic with the slopes that are known there,

    dy/dx = e^e phi(x) / phi(y),    for    d power = e^e d alpha,

and beyond them it goes on straight. Where a chain leads is asked of the curve itself, which gives
new points there, until it leads to points that are known: some four times as many as it has links.
Two points of one slope are the ends of a straight piece: every symmetric curve may have one of
slope -1, the worst of several has others.
"""

import jax
import numpy as np

from jaxpriv._stored import key_of, store
from jaxpriv.stats import norm
from jaxpriv.tradeoff.solve import secant_in_bracket

_KNOWN = 1e-6  # of its size: a slope this near a known point's has an error of its square there
_EXACT, _ROUNDS = 5, 10  # of new points: a smooth curve takes three to five
_ROUGHER = 4.0  # each round after these, where points are not known so well themselves
_SAME = 1e-9  # of their size: of slopes on both sides of 0
_LOWEST, _HIGHEST = -8.0, 1e3  # of the quantiles of first levels
_answers = store(64)  # that each means of a bracket asks for


class Outline:
    """The points of one symmetric curve that have been asked for, with falling slopes.

    base: an experiment of batch shape (1,).
    """

    def __init__(self, base):
        self._base = base
        self._bound = float(base.loss_bound(False)[0])
        # slopes; log delta, and the quantiles of level and power there
        self._slopes, self._values = np.empty(0), np.empty((3, 0))
        # losses are about so large: of a Gaussian curve delta(0) is mu/sqrt(2 pi) at most
        told = np.exp(float(base.log_delta(np.zeros(1), False)[0]))
        self._scale = min(2.5 * told, 1.0, 0.5 * self._bound)
        self._ask(np.array([-1, -_SAME, _SAME, 1]) * self._scale)

    def _ask(self, slopes):
        """Points at these slopes, which are known from then on."""
        log_delta, point = self._base.aligned(slopes.shape, np.float64).contact(slopes, False)
        x = _quantile(point.log_alpha, point.log_specificity)
        y = _quantile(point.log_power, point.log_beta)
        order = np.argsort(-np.concatenate([self._slopes, slopes]), kind="stable")
        self._slopes = np.concatenate([self._slopes, slopes])[order]
        self._values = np.concatenate([self._values, [log_delta, x, y]], 1)[:, order]

    def _at(self, x):
        """(slope, the quantile of the power) at quantiles of levels (k,)."""
        e, (_, xs, ys) = self._slopes, self._values
        k = np.clip(np.searchsorted(-xs, -x) - 1, 0, e.size - 2)
        ends = tuple(np.stack([part[k], part[k + 1]]) for part in (e, xs, ys))
        inner = (xs[k + 1] <= x) & (x <= xs[k])
        straight = ends[0][0] - ends[0][1] <= 4 * _KNOWN * self._scale
        pieces = _beyond(x, *(part[[0, -1]] for part in (e, xs, ys)))
        for where, piece in ((inner, _on_cubic), (inner & straight, _on_chord)):
            if where.any():
                found = piece(x[where], *(part[:, where] for part in ends))
                for part, own in zip(pieces, found):
                    part[where] = own
        return pieces

    def chain(self, x, size):
        """The slopes (size, k) of so many links from quantiles of levels (k,) on."""
        slopes = np.empty((size, *x.shape))
        for k in range(size):
            slopes[k], x = self._at(x)
        return np.clip(slopes, -self._bound, self._bound)

    def log_delta(self, slopes):
        """A cubic in eps through log delta, whose derivative is -e^eps alpha/delta."""
        order = slice(None, None, -1)
        e, (value, x, _) = self._slopes[order], self._values[:, order]
        rate = -np.exp(e + norm.logsf(x) - value)
        k = np.clip(np.searchsorted(e, slopes) - 1, 0, e.size - 2)
        inside = np.clip(slopes, e[0], e[-1])
        found, _ = _hermite(inside, e[k], e[k + 1], value[k], value[k + 1], rate[k], rate[k + 1])
        end = np.where(slopes > e[-1], rate[-1], rate[0])
        return found + end * (slopes - inside)

    def follow(self, size, wanted, excess):
        """(the quantiles of first levels (k,), the slopes (size, k) of their chains) where
        excess(wanted (k,), slopes, log deltas), which rises with the quantile, is zero; or None,
        where points do not settle all of them. What they need in a round is asked for at once.
        """
        left = np.arange(wanted.size)
        x, chosen = np.empty(wanted.size), np.empty((size, wanted.size))
        low, high = np.full_like(x, _LOWEST), np.full_like(x, _HIGHEST)
        for index in range(_ROUNDS):
            known = _KNOWN * _ROUGHER ** max(index + 1 - _EXACT, 0)

            def value(x, left=left):
                slopes = self.chain(x, size)
                return excess(wanted[left], slopes, self.log_delta(slopes))

            start = x[left] if index else None
            x[left] = secant_in_bracket(value, low[left], high[left], start=start)
            chosen[:, left] = slopes = self.chain(x[left], size)
            if not np.isfinite(slopes).all():
                return None
            away = np.abs(self._slopes[:, None, None] - slopes).min(0)
            unknown = away > known * (self._scale + np.abs(slopes))
            settled = ~unknown.any(0)
            if not (np.abs(value(x[left])) <= known)[settled].all():
                return None
            if settled.all():
                return x, chosen
            self._ask(self._apart(slopes[unknown], known))
            if not np.isfinite(self._values).all():
                return None
            left = left[~settled]
        return None

    def _apart(self, slopes, known):
        """Those of which none is known once the one before is."""
        kept: list = []
        for one in np.sort(slopes):
            if not kept or one - kept[-1] > known * (self._scale + abs(one)):
                kept.append(one)
        return np.array(kept)


def _quantile(log_p, log_rest):
    """x of a probability Q(x), from its logarithm and that of one less it."""
    return np.where(log_p < log_rest, norm.isf_exp(log_p), -norm.isf_exp(log_rest))


def _beyond(x, e, xs, ys):
    """Beyond the first and last of all points."""
    end = np.where(x > xs[0], 0, 1)
    e, xs, ys = e[end], xs[end], ys[end]
    rate = np.exp(e - 0.5 * (xs - ys) * (xs + ys))
    # so that slopes go on to rise to the left, and to fall to the right
    rate = np.where(end == 0, np.minimum(rate, 1.0), np.maximum(rate, 1.0))
    y = ys + rate * (x - xs)
    more = 0.5 * ((x - y) * (x + y) - (xs - ys) * (xs + ys))
    return e + more, y


def _on_cubic(x, e, xs, ys):
    """Between two points, (2, k) of each."""
    rates = np.exp(e - 0.5 * (xs - ys) * (xs + ys))
    y, rate = _hermite(x, *xs, *ys, *rates)
    slope = np.log(np.where(rate > 0, rate, np.nan)) + 0.5 * (x - y) * (x + y)
    return np.where((e[1] <= slope) & (slope <= e[0]), slope, 0.5 * (e[0] + e[1])), y


def _on_chord(x, e, xs, ys):
    """Between two points of one slope, nearly, which a straight piece may join: in probabilities,
    from the side on which these are small.
    """
    del e
    upper = ys[1] < 0
    a, p, at = (np.where(upper, norm.cdf(v), norm.sf(v)) for v in (xs, ys, x))
    rise, run = p[1] - p[0], a[1] - a[0]
    rate = rise / run
    power = p[0] + rate * (at - a[0])
    y = np.where(upper, norm.ppf(power), norm.isf(power))
    some = rate > 0  # else both are one point
    slope = np.where(some, np.log(np.where(some, rate, 1.0)), 0.0)
    return slope, np.where(some, np.clip(y, ys[1], ys[0]), ys[0])


def _hermite(x, x0, x1, y0, y1, rate0, rate1):
    """The cubic through two points with these slopes, and its own slope, at x."""
    width = x1 - x0
    t = (x - x0) / width
    chord = (y1 - y0) / width
    one, two = rate0 - chord, rate1 - chord
    y = y0 + (x - x0) * chord + width * t * (1 - t) * (one * (1 - t) - two * t)
    return y, chord + one * (1 - t) * (1 - 3 * t) + two * t * (3 * t - 2)


def followed(experiment, size, wanted, excess):
    """(the normal quantile of the first level, the slopes) of chains of so many links at which
    excess(wanted, slopes, log deltas) is zero, for every entry of `wanted`; None unless an outline
    serves them all.

    experiment: aligned with `wanted`. Entries that share one share its outline.
    excess: a function of a module, by which and by all else the answer is kept.
    """
    key = key_of(experiment, wanted), size, excess
    return _answers.get(key, lambda: _followed(experiment, size, wanted, excess))


def _followed(experiment, size, wanted, excess):
    shape, count = wanted.shape, wanted.size
    flat = jax.tree.map(lambda leaf: leaf.reshape((count, *leaf.shape[len(shape) :])), experiment)
    groups: dict = {}
    for k in range(count):
        own = jax.tree.map(lambda leaf, k=k: leaf[k : k + 1], flat)
        groups.setdefault(key_of(own), (own, []))[1].append(k)
    quantiles, chosen = np.empty(count), np.empty((size, count))
    for own, index in groups.values():
        found = Outline(own).follow(size, wanted.ravel()[index], excess)
        if found is None:
            return None
        quantiles[index], chosen[:, index] = found
    return quantiles.reshape(shape), chosen.reshape((size, *shape))
