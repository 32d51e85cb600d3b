"""Experiments known by the tangent lines of their trade-off function."""

from abc import abstractmethod
from functools import partial

import jax

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log1mexp
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.pair import safe_log


class Envelope(Experiment):
    """An experiment that gives `touch`, `log_delta` and `find_slope`.

    Errors from the slope at alpha: the line of slope -e^eps that touches at (a, b) gives
    beta = b - e^eps (alpha - a).

    That is exact on straight pieces, and elsewhere an error of eps enters squared.
    """

    def smooth(self):
        """Has the curve no corners and no straight pieces for sure?"""
        return False

    def polygon(self):
        """Is the curve straight between `kinks` for sure?"""
        return self.finite

    @abstractmethod
    def find_slope(self, alpha, reverse):
        """The value of `slope`; its derivative is known without it."""

    def supported(self, alpha, reverse):
        """(slope at alpha, contact there), not differentiable."""
        eps = self.find_slope(alpha, reverse)
        return eps, self.contact(eps, reverse)

    def errors(self, alpha, reverse):
        inside = (alpha > 0) & (alpha < 1)
        # a subnormal level has no digits to find a slope by
        level = xp.where(inside, xp.maximum(alpha, xp.finfo(alpha.dtype).tiny), 0.5)
        ends = xp.known_false(inside)
        log_beta, log_power = (alpha, alpha) if ends else _errors(self, level, reverse)
        sure, none = xp.zeros_like(alpha), xp.full_like(alpha, -xp.inf)
        end, (least, most) = alpha <= 0, self.log_told(reverse)
        log_told = xp.where(most - least < 1, 0.5 * (least + most), least)
        log_beta = xp.where(inside, log_beta, xp.where(end, log1mexp(log_told), none))
        log_power = xp.where(inside, log_power, xp.where(end, log_told, sure))
        bad = xp.where(xp.isnan(alpha), xp.nan, 0.0)
        return log_beta + bad, log_power + bad

    def errors_and_slope(self, alpha, reverse):
        """From one search; not differentiable."""
        inside = (alpha > 0) & (alpha < 1)
        level = xp.where(inside, alpha, 0.5)
        eps, (log_delta, point) = self.supported(level, reverse)
        log_beta, log_power = _on_line(level, eps, log_delta, point, self.loss_bound(reverse))
        sure, none = xp.where(alpha < 1, 0.0, -xp.inf), xp.where(alpha > 0, 0.0, -xp.inf)
        return (xp.where(inside, log_beta, sure), xp.where(inside, log_power, none)), eps

    def slope(self, alpha, reverse):
        """At 0 and 1 those of the largest loss, which support any curve there: constants, for by
        a rate of 1 their derivative is infinite.
        """
        inside = (alpha > 0) & (alpha < 1)
        ends = xp.known_false(inside)
        found = alpha if ends else _slope(self, xp.where(inside, alpha, 0.5), reverse)
        first, last = xp.stop_gradient((self.loss_bound(reverse), -self.loss_bound(not reverse)))
        return xp.where(alpha <= 0, first, xp.where(alpha >= 1, last, found))


@partial(xp.custom_jvp, nondiff_argnums=(2,))
def _errors(envelope, alpha, reverse):
    """(log beta, log power) at 0 < alpha < 1."""
    eps, (log_delta, point) = envelope.supported(alpha, reverse)
    return _on_line(alpha, eps, log_delta, point, envelope.loss_bound(reverse))


def _on_line(alpha, eps, log_delta, point, loss_bound):
    """(log beta, log power) at alpha of the line of slope -e^eps through a point."""
    low = alpha < 0.5
    step = xp.where(
        low, alpha - xp.exp(point.log_alpha), xp.exp(point.log_specificity) - (1 - alpha)
    )
    # a slope that is right to the rounding of delta only may leave nothing of a beta of 1e-40
    log_beta = safe_log(xp.maximum(xp.exp(point.log_beta) - xp.exp(eps) * step, 0.0))
    # power = delta + e^eps alpha without cancellation, for small alpha
    steepest = xp.exp(xp.minimum(loss_bound + xp.log(alpha), 0.0))
    return log_beta, safe_log(xp.minimum(xp.exp(log_delta) + xp.exp(eps) * alpha, steepest))


@_errors.defjvp
def _errors_jvp(reverse, primals, tangents):
    """power(alpha) = min over eps of delta(eps) + e^eps alpha: at the minimum eps stands still.

    So d power = d P - e^eps d A + e^eps d alpha of the touching point (A, P),
    and d beta = -d power. A straight piece turns about both its ends: there the points are those
    that touch a little before and after, in the shares that make up alpha.
    """
    envelope, alpha = primals
    eps = envelope.slope(alpha, reverse)
    if not envelope.straight():
        return _moved(envelope, alpha, eps, eps, reverse, tangents)
    near = (1e-9 if eps.dtype == xp.float64 else 1e-4) * (1 + xp.abs(eps))
    ends = eps + near, eps - near
    first, last = (xp.exp(envelope.touch(end, reverse).log_alpha) for end in ends)
    wide = last - first > 1e-6 * last
    share = xp.where(wide, (alpha - first) / xp.where(wide, last - first, 1.0), 0.0)
    share = xp.stop_gradient(xp.clip(share, 0.0, 1.0))
    (_, one), (_, two) = (_moved(envelope, alpha, eps, end, reverse, tangents) for end in ends)
    logs, _ = _moved(envelope, alpha, eps, eps, reverse, tangents)
    return logs, tuple((1 - share) * x + share * y for x, y in zip(one, two))


def _moved(envelope, alpha, eps, at, reverse, tangents):
    """The errors at alpha on the line of slope -e^eps, and how they move with the point that one of
    slope -e^at touches.
    """
    contact, (_, moved) = jax.jvp(lambda e: e.contact(at, reverse), (envelope,), (tangents[0],))
    log_delta, point = contact
    log_beta, log_power = _on_line(alpha, eps, log_delta, point, envelope.loss_bound(reverse))
    by = [
        xp.where(log_p > -xp.inf, xp.exp(log_p) * change, 0.0)
        for log_p, change in zip(point, moved)
    ]
    by_alpha, by_specificity, by_beta, by_power = by
    along = xp.exp(eps) * (tangents[1] - xp.where(alpha < 0.5, by_alpha, -by_specificity))
    more, less = by_power + along, by_beta - along
    changes = xp.where(log_beta > -xp.inf, less / xp.exp(log_beta), 0.0), more / xp.exp(log_power)
    return (log_beta, log_power), changes


@partial(xp.custom_jvp, nondiff_argnums=(2,))
def _slope(envelope, alpha, reverse):
    return envelope.find_slope(alpha, reverse)


@_slope.defjvp
def _slope_jvp(reverse, primals, tangents):
    """alpha(eps) = alpha moves eps where the curve bends;
    on a straight piece, and at its ends, eps stays.
    """
    envelope, alpha = primals
    eps = _slope(envelope, alpha, reverse)

    def touching(envelope, eps):
        return xp.exp(envelope.touch(eps, reverse).log_alpha)

    value, explicit = jax.jvp(lambda e: touching(e, eps), (envelope,), (tangents[0],))
    _, rate = jax.jvp(partial(touching, envelope), (eps,), (xp.ones_like(eps),))
    bends = (rate < 0) & (xp.abs(value - alpha) <= 1e-6 * xp.minimum(alpha, 1 - alpha))
    return eps, xp.where(bends, (tangents[1] - explicit) / xp.where(bends, rate, 1.0), 0.0)


def finite_slope(eps):
    bound = 1e4 if eps.dtype == xp.float64 else 80.0
    return xp.clip(eps, -bound, bound)
