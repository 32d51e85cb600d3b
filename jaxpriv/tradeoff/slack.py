"""The smallest Gaussian curve below a trade-off function but for a slack.

f >= G_mu - kappa at every alpha says, of the conjugates, delta_f(eps) <= delta_G(eps) + kappa at
every real eps, G for G_mu: one follows from the other by sup over alpha of 1 - f - e^eps alpha, and
back by f(alpha) = sup over eps of 1 - delta_f - e^eps alpha, for f is convex. With
delta_f(-eps) = 1 - e^-eps (1 - delta_f^-1(eps)), and the same of G, which is its own inverse, the
negative eps ask for

    delta_f^-1(eps) <= delta_G(eps) + e^eps kappa,        eps > 0,

less than the positive ones do where f is symmetric. So every eps >= 0 asks for a mu of its own,
that with delta_G(eps) = delta_f(eps) - kappa, and the largest of them is the answer; none is asked
for beyond the eps at which delta_f is kappa.

Between two eps, in x = e^eps, delta_f lies under its chord and delta_G above its tangents, of slope
-alpha, for both are convex in x: their difference is bounded at both ends and, where the tangents
hand over, in the middle, up to the square of the distance.
"""

import math
from functools import partial

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import UNIT
from jaxpriv.stats import norm
from jaxpriv.tradeoff.cells import summit, supremum
from jaxpriv.tradeoff.certified import by_all_means
from jaxpriv.tradeoff.evaluate import bounds_of_epsilon, elementwise
from jaxpriv.tradeoff.experiment import ROUNDING, roughly
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.lowest import bounds_of_mu, smallest_mu
from jaxpriv.tradeoff.pair import safe_log
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.stepping import profile_bounds, profile_near

_ROOT = math.sqrt(2 * math.pi)
_CAREFUL = 16  # ulp by which every term is moved outward before terms are added
_RUNGS, _CLOSEST = 32, 1e-10  # how many are tried above a level, and how close to it the first
# widths of log delta: of brackets that say what the level is, that nothing makes narrower, and that
# ask for their eps alone
_NARROW, _FINE, _WIDE = 0.01, 1e-6, 0.5
_BLURRED = 1e-7  # of the slack: by how much a delta may be off before other means are asked
_LEAST = 2e-38  # a slack that a program may have taken for a normal number


def most_mu(eps):
    """A mu whose delta at eps is 1 to rounding: power 1 at the threshold, 40 deviations away."""
    return 40.0 + xp.sqrt(1600.0 + 2 * eps)


def gaussian_mu_at(eps, target):
    """The mu with delta_G(eps) = target at eps >= 0; 0 for target <= 0. For its value only.

    delta <= power = Phi(mu/2 - eps/mu), hence mu >= z + sqrt(z^2 + 2 eps) with Phi(z) = target.
    """
    some = target > 0
    log_target = safe_log(xp.where(some, xp.minimum(target, 1.0), 0.5))
    z = norm.ppf_exp(log_target)
    root = xp.sqrt(z * z + 2 * eps)
    # for z < 0 without cancellation
    least = xp.where(z < 0, 2 * eps / xp.where(z < 0, root - z, 1.0), z + root)
    tiny, top = xp.finfo(eps.dtype).tiny, most_mu(eps)
    low, high = xp.log(xp.clip(least, tiny, top)), xp.log(top)

    def shortfall(log_mu):
        mu = xp.exp(log_mu)
        value = NormalShift(mu).log_delta_at(eps, None, False)
        finite = xp.where(value > -xp.inf, value, -1e30)
        return finite - log_target, mu * xp.exp(log_vega(eps, mu) - finite)

    return xp.where(some, xp.exp(newton_in_bracket(shortfall, low, high, 60, start=low)), 0.0)


def log_vega(eps, mu):
    """log of d delta_G(eps)/d mu = phi(mu/2 - eps/mu)."""
    return norm.logpdf(mu / 2 - eps / mu)


def directions(experiment):
    """Those that ask for something: one where exchanging the hypotheses changes nothing."""
    return (False,) if experiment.reversed() is experiment else (False, True)


@elementwise(UNIT, "slack")
def slack_mu(experiment, slack):
    """The smallest mu with G_mu - slack below f, slack > 0: an estimate with first derivatives."""
    log_slack = safe_log(slack)
    return xp.max(
        xp.stack([_asked(experiment, slack, log_slack, r) for r in directions(experiment)]), 0
    )


def _asked(experiment, slack, log_slack, reverse):
    last = xp.stop_gradient(experiment.epsilon(log_slack, reverse))
    endless = last == xp.inf
    last = xp.where(endless, 0.0, last)

    def target(experiment, slack, eps):
        allowed = slack * xp.exp(xp.minimum(eps, 700.0)) if reverse else slack
        return xp.exp(experiment.log_delta(eps, reverse)) - allowed

    def height(eps):
        spread = jax.tree.map(lambda leaf: leaf[None], fixed).aligned(eps.shape, eps.dtype)
        return gaussian_mu_at(eps, target(spread, xp.stop_gradient(slack), eps))

    # the eps at which the largest mu is asked for does not move it (envelope theorem), and there
    # d delta_G/d mu moves mu as delta_f and the slack move
    fixed = xp.stop_gradient(experiment)
    eps = xp.stop_gradient(summit(height, last, experiment.cornered()))
    goal = target(experiment, slack, eps)
    mu = xp.stop_gradient(gaussian_mu_at(eps, xp.stop_gradient(goal)))
    some = mu > 0
    rate = xp.exp(log_vega(eps, xp.where(some, mu, 1.0)))
    moved = (goal - xp.stop_gradient(goal)) / xp.where(rate > 0, rate, 1.0)
    return xp.where(endless, xp.inf, xp.where(some, mu + moved, 0.0))


@elementwise(UNIT, "slack")
def bounds_of_slack_mu(experiment, slack):
    """Certified (lower, upper) of the smallest mu with G_mu - slack below f."""
    info = xp.finfo(slack.dtype)
    some = slack > 0
    log_slack = safe_log(xp.where(some, slack, 1.0))
    # of the slack, less what its logarithm may be off by
    less = log_slack - 8 * info.eps * (1 + xp.abs(log_slack))
    known = by_all_means(bounds_of_epsilon)
    lowest, highest = known(experiment, less, log_slack, slack)
    if len(directions(experiment)) > 1:
        other = known(experiment.reversed(), less, log_slack, slack)
        lowest, highest = (xp.maximum(*ends) for ends in zip((lowest, highest), other))
    # infinitely much is told with more than this probability
    told = some & (lowest == xp.inf)
    last = xp.where(some & xp.isfinite(highest), highest, 40.0)

    def one(entry):
        experiment, slack, last = entry
        found = [_certified(experiment, slack, last, r) for r in directions(experiment)]
        lower, upper = zip(*found)
        return xp.max(xp.stack(lower)), xp.max(xp.stack(upper))

    flat = jax.tree.map(
        lambda leaf: leaf.reshape((slack.size,) + leaf.shape[slack.ndim :]), experiment
    )
    lower, upper = (
        bound.reshape(slack.shape) for bound in xp.each(one, (flat, slack.ravel(), last.ravel()))
    )
    if xp.any_jax(slack) or not some.all():
        whole_lower, whole_upper = bounds_of_mu(experiment)
    else:  # the lower end is of no use, and costs four profiles
        whole_lower, whole_upper = xp.zeros_like(slack), smallest_mu(experiment)
    # G_m >= G_mu - (m - mu)/sqrt(2 pi), for d delta_G/d mu is a normal density; this is all that is
    # left where f itself is Gaussian, and no eps asks for more than its neighbours
    spent = _ROOT * slack * (1 - _CAREFUL * info.eps)
    whole_upper = xp.where(
        whole_upper < xp.inf, xp.maximum(whole_upper - spent, 0.0) * (1 + 2 * info.eps), whole_upper
    )
    upper = xp.where(some & xp.isfinite(highest) & ~told, upper, xp.inf)
    if xp.any_jax(slack):
        upper = xp.where(slack > _LEAST, upper, xp.inf)
    lower = xp.where(some, xp.where(told, xp.inf, lower), whole_lower)
    upper = xp.minimum(upper, whole_upper)
    return xp.minimum(lower, upper), upper


def _certified(experiment, slack, last, reverse):
    """(lower, upper) of one curve's: all of no shape."""
    ulp = xp.finfo(slack.dtype).eps

    def allowed(eps, side):
        weight = xp.exp(eps) if reverse else xp.ones_like(eps)
        return slack * weight * (1 + side * _CAREFUL * ulp)

    def look(asked_of, blurred, ends, level):
        lower, upper = rows_of_profile(asked_of, reverse, ends, blurred * allowed(ends, 0))
        eps, lower, upper = ends.ravel(), lower.ravel(), upper.ravel()
        least, most = xp.exp(lower) * (1 - _CAREFUL * ulp), xp.exp(upper) * (1 + _CAREFUL * ulp)
        asked, wanted = least - allowed(eps, 1), most - allowed(eps, -1)
        mus = gaussian_mu_at(xp.stack([eps, eps]), xp.stack([asked, wanted]))
        reached = _verified_below(eps, asked, mus[0])
        # what is asked for at most, but where a bracket says little: that would hide all the rest
        known = upper - lower < (_NARROW if asked_of is experiment else 0.0)
        level = xp.maximum(level, xp.max(xp.where(known, mus[1], mus[0])))
        rows = most.reshape(ends.shape)
        cells = ends[:, :-1], ends[:, 1:], rows[:, :-1], rows[:, 1:]
        return _enough_on(cells, allowed, level), reached, level

    rough = None if xp.any_jax(last) else roughly(experiment)
    first = None if rough is None else partial(look, rough, np.inf)
    return supremum(partial(look, experiment, _BLURRED), last, first=first)


def rows_of_profile(experiment, reverse, ends, little):
    """Certified (lower, upper) of log delta at rows of eps (k, n), each near its middle; by NumPy
    narrowed where deltas may be off by more than a little (k, n): alone where that is of use to the
    one that is known the least, else by other means.
    """
    if xp.any_jax(ends):
        return _near(experiment, reverse, ends)
    first, *others = experiment.means()
    lower, upper = _near(first, reverse, ends)

    def blurred():
        return (np.exp(upper) - np.exp(lower) > little) & (upper - lower > _FINE)

    def narrow(which, low, high):
        lower[which], upper[which] = np.fmax(lower[which], low), np.fmin(upper[which], high)

    def alone(which):
        eps = ends[which]
        if eps.size:
            narrow(which, *profile_bounds(first.aligned(eps.shape, eps.dtype), reverse, eps)[:2])

    asked = blurred()
    if asked.any():
        worst = np.unravel_index(np.argmax(np.where(asked, upper - lower, 0.0)), ends.shape)
        alone(tuple(np.atleast_1d(index) for index in worst))
        if not others:
            alone(blurred() & (upper - lower > _WIDE))
        elif not blurred()[worst]:
            alone(blurred())
    for other in others:
        rows = blurred().any(1)
        if rows.any():
            narrow(rows, *_near(other, reverse, ends[rows]))
    return lower, upper


def _near(experiment, reverse, ends):
    center = ends[:, ends.shape[1] // 2]
    found = profile_near(
        experiment.aligned(center.shape, center.dtype), reverse, center, xp.moveaxis(ends, 1, 0)
    )
    return [xp.moveaxis(bound, 0, 1) for bound in found[:2]]


def _verified_below(eps, asked, mus):
    """A mu whose delta_G is below what is asked for, for sure: at the eps where most is."""
    index = xp.argmax(mus) if not xp.any_jax(mus) else xp.largest(mus, 1)[1][0]
    eps, asked, mu = eps[index], asked[index], mus[index]
    steps = 1e-14 * 8.0 ** xp.arange(0.0, 15.0, dtype=mus.dtype)
    tried = mu * (1 - xp.minimum(steps, 1.0))
    at = xp.broadcast_to(eps, tried.shape)
    proper = tried > 0
    upper = NormalShift(xp.where(proper, tried, 1.0)).bracket(at, at, False)[1]
    holds = proper & (upper <= safe_log(xp.maximum(asked, 0.0)) - 1e-15)
    return xp.max(xp.where(holds, tried, 0.0))


def _enough_on(cells, allowed, level):
    """For each cell a mu that is enough for sure, not below `level`: the lowest rung of a ladder
    that is seen to be so. Rungs are the closer together the closer to the level: how far a bound
    lies above it decides whether the cell is split, and cells far above it are split anyhow.
    """
    top = most_mu(cells[1])
    least = xp.minimum(xp.maximum(level, top * math.exp(-60.0)), top)
    closest = xp.maximum(_CLOSEST, 4 * xp.finfo(top.dtype).eps)
    reach = xp.log(xp.maximum(top / least - 1, closest) / closest)
    rungs = xp.linspace(0.0, 1.0, _RUNGS, dtype=top.dtype).reshape((-1,) + (1,) * top.ndim)
    tried = xp.concatenate([least[None], least * (1 + closest * xp.exp(reach * rungs))])
    holds = _is_enough(cells, allowed, tried)
    none = cells[2] <= allowed(cells[0], -1)  # nothing is asked for
    return xp.where(none, 0.0, xp.min(xp.where(holds, tried, xp.inf), 0))


def _is_enough(cells, allowed, mu):
    """Is delta_f <= delta_G + slack on the whole cell for sure, of delta_f's upper bounds at
    its ends?
    """
    left, right = (xp.broadcast_to(end, mu.shape) for end in cells[:2])
    most_left, most_right = cells[2:]
    ulp = xp.finfo(mu.dtype).eps
    width = right - left
    both = xp.stack([left, right])
    mus = xp.broadcast_to(mu, both.shape)
    log_g = NormalShift(mus).bracket(both, both, False)[0]
    at_left, at_right = xp.exp(log_g) * (1 - _CAREFUL * ulp)
    # e^eps alpha, of G
    log_alpha = norm.logcdf(-(both / mus + mus / 2))
    sides = xp.asarray([1.0, -1.0], mu.dtype).reshape((2,) + (1,) * mu.ndim)
    off = ROUNDING * ulp * (1 + xp.abs(log_alpha) + both)
    falls = xp.exp(both + log_alpha + off * sides)
    chord = 0.5 * (most_left + most_right) * (1 + _CAREFUL * ulp)
    # the tangents at the middle, in e^eps, of the cell
    little = _CAREFUL * ulp * (1 + width)
    from_left = 0.5 * falls[0] * xp.expm1(width) * (1 + little)
    from_right = -0.5 * falls[1] * xp.expm1(-width) * (1 - little)
    slack_left, slack_right = allowed(left, -1), allowed(right, -1)
    # half of each first: the sum may be no number
    slack_middle = 0.5 * slack_left + 0.5 * slack_right * (1 - _CAREFUL * ulp)
    by_lines = (
        (most_left <= at_left + slack_left)
        & (most_right <= at_right + slack_right)
        & (chord + from_left <= at_left + slack_middle)
        & (chord <= at_right + from_right + slack_middle)
    )
    # both fall: of wide cells, where lines say nothing
    return by_lines | (most_left <= at_right + slack_left)
